"""The comparisons whose reports are kept: a row each.

A row names its lake (`lakes.py`) and what one types behind `flowdiff`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from evaluation.systems.described import SYSTEMS
from evaluation.systems.recorded import HISTORY, QUIET, period


@dataclass(frozen=True, slots=True)
class Case:
    """A report that is kept as `expected/comparisons/<name>.json`."""

    name: str
    lake: str
    arguments: tuple[str, ...]

    @property
    def quiet(self) -> bool:
        """Tell whether nothing happened to the service between its periods."""
        return self.name.startswith(("simulated-AA", "simulated-N", "shop-quiet", "tickets-quiet"))


def run(number: int) -> str:
    """The day of a simulated run; the first is without a fault."""
    return f"2026-01-{5 + number:02}/1d"


def compare(name: str, lake: str, reference: str, problem: str, *more: str) -> Case:
    return Case(name, lake, ("compare", "--reference", reference, "--problem", problem, *more))


def simulated(name: str, workload: str, number: int, *more: str) -> Case:
    return compare(f"simulated-{name}", workload, run(0), run(number), *more)


def shop(name: str, reference: str, problem: str, *more: str) -> Case:
    return compare(f"shop-{name}", "shop", f"2022-08-23T{reference}", f"2022-08-23T{problem}", *more)


def made(system: str, fault: str, *more: str) -> Case:
    """A fault of a described system; its ten windows of history are left out where `more` has some."""
    what = [one.what for one in next(one for one in SYSTEMS if one.name == system).faults]
    history = more or ("--history", ",".join(period(window) for window in range(HISTORY)))
    name = re.sub(r"\W+", "-", f"made {system} {fault}{' alone' if more else ''}").strip("-")
    return compare(name, system, period(HISTORY), period(QUIET + what.index(fault)), *history)


def tickets(name: str, reference: str, problem: str, *more: str) -> Case:
    return compare(f"tickets-{name}", "tickets", f"2023-01-29T{reference}", f"2023-01-29T{problem}", *more)


def alone(command: str, name: str, lake: str, *more: str) -> Case:
    return Case(f"{command}-{name}", lake, (command, *more))


SHOP_QUIET = ("12:52/107s", "13:01/64s", "14:11/107s", "14:46/95s", "15:11/104s", "15:37/107s", "16:30/90s")
SHOP_HISTORY = ("--history", ",".join(f"2022-08-23T{stretch}" for stretch in SHOP_QUIET))
TICKETS_QUIET = ("11:18/114s", "13:30/109s", "14:22/86s", "14:48/112s")
TICKETS_HISTORY = ("--history", ",".join(f"2023-01-29T{stretch}" for stretch in TICKETS_QUIET))
STATISTICS = ("--statistics", "all")
SETTINGS = ("--set", "q=0.05", "--set", "new_floor=0.2", "--set", "paths=false")
ONE_COMPONENT = ("--where", "component = 'recommendationservice'")
CONTENTION = ("--reference", "2022-08-23T16:30/90s", "--problem", "2022-08-23T16:31:45/135s")
PAPER = ("--method", "paper")
OTHER_RUNS = ("--history", ",".join(run(number) for number in (14, 15, 16)))
BEFORE, DELAYED, RETURNED = "2022-08-23T16:59/2m", "2022-08-23T15:12/2m", "2022-08-23T12:10/3m"

CASES = (
    # The published faults (8.2-8.7), further ones (F5-F15) and periods in which nothing happened.
    simulated("8.2-mds-config", "postmark-large", 1),
    simulated("8.2-statistics", "postmark-large", 1, *STATISTICS),
    compare("simulated-8.2-repaired", "postmark-large", run(1), run(0), "--only", "worse"),
    simulated("8.2-paper", "postmark-large", 1, *PAPER),
    simulated("8.2-spans", "postmark-large-spans", 1),
    simulated("8.2-spans-statistics", "postmark-large-spans", 1, *STATISTICS),
    simulated("8.3-small-io", "iozone", 1),
    simulated("8.4-prefetch", "linux-build", 1),
    simulated("8.5-btree-growth", "postmark-large", 3),
    simulated("8.6-spin", "sfs97", 1),
    simulated("8.6-spin-history", "sfs97", 1, *OTHER_RUNS),
    simulated("8.6-spin-zoomed-out", "sfs97", 1, "--set", "level=L3"),
    simulated("8.6-spin-by-host", "sfs97", 1, "--set", "host_policy=full"),
    simulated("8.6-paper", "sfs97", 1, *PAPER),
    simulated("8.7-client-pause", "ursa-minor-build", 1),
    simulated("F5-broad", "sfs97", 2),
    simulated("F7-one-bucket", "linux-build", 2),
    simulated("F8-readdir-loop", "sfs97", 3),
    simulated("F9-write-through", "sfs97", 4, *OTHER_RUNS),
    simulated("F10-stale-backoff", "linux-build", 3),
    simulated("F11-noisy-host", "sfs97", 5),
    simulated("F12-load", "sfs97", 13),
    simulated("F13-error-burst", "sfs97", 6),
    simulated("F14-sequential-read", "sfs97", 7),
    simulated("F15-two-faults", "postmark-large", 2),
    simulated("AA-history", "sfs97", 14, "--history", ",".join(run(number) for number in (15, 16))),
    simulated("N2-more-load", "sfs97", 8),
    simulated("N3-sampling", "sfs97", 9),
    simulated("N4-clock", "sfs97", 10),
    simulated("N5-span-loss", "sfs97", 11),
    simulated("N6-rename", "sfs97", 12),
    # A shop, two minutes each; recordings, with their quiet stretches as history and without.
    compare("boutique-delay", "boutique", BEFORE, DELAYED),
    compare("boutique-return", "boutique", BEFORE, RETURNED),
    compare("boutique-return-statistics", "boutique", BEFORE, RETURNED, *STATISTICS),
    compare("boutique-return-worse", "boutique", BEFORE, RETURNED, "--only", "worse"),
    compare("boutique-return-settings", "boutique", BEFORE, RETURNED, *SETTINGS),
    compare("boutique-better", "boutique", DELAYED, BEFORE),
    compare("boutique-one-root", "boutique", BEFORE, DELAYED, *ONE_COMPONENT),
    shop("exception", "13:01/64s", "13:02:19/41s", *SHOP_HISTORY),
    shop("exception-alone", "13:01/64s", "13:02:19/41s"),
    shop("payment-delay", "14:11/107s", "14:13:02/118s", *SHOP_HISTORY),
    shop("checkout-delay-unseen", "12:52/107s", "12:54:02/118s", *SHOP_HISTORY),
    shop("catalog-return", "14:46/95s", "14:47:50/130s", *SHOP_HISTORY),
    shop("catalog-return-alone", "14:46/95s", "14:47:50/130s"),
    shop("catalog-return-statistics", "14:46/2m", "14:48/2m", *STATISTICS, *SHOP_HISTORY),
    shop("recommendation-delay", "15:11/104s", "15:12:59/121s", *SHOP_HISTORY),
    shop("contention", "16:30/90s", "16:31:45/135s"),
    shop("contention-paper", "16:30/90s", "16:31:45/135s", *PAPER),
    shop("quiet", "14:46/95s", "15:37/107s", *SHOP_HISTORY),
    shop("quiet-alone", "14:11/107s", "14:46/95s"),
    tickets("contention", "13:30/109s", "13:32:04/116s", *TICKETS_HISTORY),
    tickets("contention-alone", "13:30/109s", "13:32:04/116s"),
    tickets("quiet-burst", "13:30/109s", "14:22/86s", *TICKETS_HISTORY),
    # Made systems: queues, databases that record nothing, first failures, one pod of several.
    made("queues", "bank/POST /charge 4 times slower"),
    made("queues", "messages wait"),
    made("zipkin-unrecorded", "orders-db fails in 35%"),
    made("stops-at-failure", "fares fails in 30%"),
    made("canary", "the canary is slower"),
    made("canary", "the canary fails", "--problem-where", "service.version = 'v2'"),
    # Small and empty periods.
    shop("few-requests", "14:46:40/8s", "14:48:10/8s"),
    shop("one-request", "14:46/95s", "14:48:10.8/1s"),
    shop("empty-problem", "14:46/95s", "14:52/60s"),
    shop("empty-reference", "14:52/60s", "14:46/95s", *SHOP_HISTORY),
    # The other methods.
    alone("variance", "contention", "shop", *CONTENTION),
    alone("variance", "backoff", "linux-build", "--period", run(3), "--set", "explained=1"),
    alone("clusters", "spin", "sfs97", "--reference", run(0), "--problem", run(1)),
    alone("distalyze", "return", "boutique", "--reference", BEFORE, "--problem", RETURNED),
    alone("distalyze", "slow", "shop", "--period", "2022-08-23T15:12:59/121s"),
    alone("browse", "contention", "shop", *CONTENTION),
    alone("browse", "one-period", "sfs97", "--period", run(0)),
)  # fmt: skip
