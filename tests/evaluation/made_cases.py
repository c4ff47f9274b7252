"""Small populations, each made for one rule of the engine: without it another report is read.

No recording and no simulated run has them all: a clock that is set, a component that stops recording, an
incident in the history. `make evaluate RULES=1` counts them, and `test_made_cases` holds each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
from oracles.populations import chain
from oracles.populations import population as graphs
from oracles.refined import MINUTE_NS, Call, call, population, request_events, stored, table
from oracles.span_events import T0
from oracles.stored_flows import lake_tables

from analyze.methods.robust.settings import RobustSettings
from analyze.population import Population, Sample
from analyze.refine.pipeline import refine
from analyze.refine.settings import RefineSettings
from ingest.formats import codec_for
from schemas.arrays import F8
from schemas.config import DecodeConfig, StitchConfig
from schemas.events import EventKind, concat_events
from schemas.windows import NS_PER_DAY
from simulator.faults import find_fault, plan_causes
from simulator.output import RunFormat
from simulator.output import run as simulate
from simulator.run import RunPlan
from stitch.graph.template import Template
from stitch.kernel import stitch

SECOND_NS: Final = 10**9
HOUR_NS: Final = 3_600 * SECOND_NS
SETTINGS: Final = RobustSettings(explained=0, paths=False)


@dataclass(frozen=True, slots=True)
class MadeCase:
    """A comparison that reads differently without a rule."""

    rule: str
    about: str
    quiet: bool
    """True if nothing happened to the service: a finding is false."""
    make: Callable[[], tuple[Population, Population | None]]
    """Makes (population of both periods, history)."""
    settings: RobustSettings = SETTINGS


def two_periods(before: Sequence[Call], after: Sequence[Call]) -> Population:
    """Population of two samples, an hour apart, a request a second."""
    n = max(len(before), len(after))
    samples = tuple(
        Sample(name, "", T0 + at * HOUR_NS, T0 + at * HOUR_NS + n * SECOND_NS)
        for at, name in enumerate(("reference", "problem"))
    )
    return replace(population(before, after), samples=samples)


# ---------------------------------------------------------------- measures


def pages(seed: int, read_us: float, far: int = 0, every: int = 1, n: int = 300) -> list[Call]:
    """Pages of 20 ms; one of `every` reads for `read_us`. `far` reads, evenly spread, take a second more."""
    rng = np.random.default_rng(seed)
    late = set(np.linspace(5, n - 5, far).astype(int).tolist())
    found = []
    for at in range(n):
        own = read_us * rng.lognormal(0, 0.2) + (1_000_000 if at in late else 0)
        rest = 20_000 * rng.lognormal(0, 0.2)
        reads = [call("db/read", 100, 100 + own)] if at % every == 0 else []
        found.append(call("web/get", 0, rest + own, *reads))
    return found


def three_calls(
    times: tuple[float, float, float], rng: np.random.Generator, *, serial: bool, n: int = 60
) -> list[Call]:
    """Pages with three calls of these times (µs), one after the other or side by side."""
    made = []
    for lengths in rng.lognormal(np.log(times), 0.1, (n, 3)):
        starts = 20 + (np.cumsum([0, *lengths[:2] + 10]) if serial else np.array([0.0, 5.0, 10.0]))
        ends = starts + lengths
        calls = [call(f"{name}/get", a, b) for name, a, b in zip("abc", starts, ends, strict=True)]
        made.append(call("web/page", 0, ends.max() + 20, *calls))
    return made


def no_longer_side_by_side() -> tuple[Population, None]:
    rng, times = np.random.default_rng(1), (1_000.0, 1_000.0, 1_000.0)
    return two_periods(*(three_calls(times, rng, serial=serial) for serial in (False, True))), None


def twelve_reads(n: int, failing: int, reads: int = 1, others: int = 0) -> list[Call]:
    """Pages that read twelve times, and call `others` besides; where reads fail nothing else changes."""
    return [
        call(
            "web/get",
            0,
            1_000 + at % 5,
            *(
                call(
                    "db/read",
                    50 * k,
                    50 * k + 20 + at % 3,
                    status="x" if k < reads and at < failing else "ok",
                )
                for k in range(12)
            ),
            *(call(f"other{k}/do", 700 + k, 701 + k + (at + k) % 3) for k in range(others)),
        )
        for at in range(n)
    ]


def page(*points: str) -> Call:
    """A page that calls these points of the shop one after the other, 100 µs each."""
    below = [call(f"shop/{point}", 10 + 120 * at, 110 + 120 * at) for at, point in enumerate(points)]
    return call("web/page", 0, 20 + 120 * len(points), *below)


def with_fetches(n: int) -> list[Call]:
    """400 pages, and so many requests of another kind, which all fail."""
    read = [call("web/page", 0, 900 + at % 50, call("db/read", 10, 400 + at % 31)) for at in range(400)]
    return [*read, *(call("cdn/cache.fetch", 0, 300 + at % 9, status="refused") for at in range(n))]


# ---------------------------------------------------------------- confounders


def minute(us: float, failing: int = 0, n: int = 120) -> list[Call]:
    """A minute of requests whose read takes about that long; some of the reads fail."""
    rng = np.random.default_rng(int(us))
    took = us * np.exp(rng.normal(0, 0.2, n))
    status = ["x"] * failing + ["ok"] * (n - failing)
    return [
        call("web/get", 0, 500 + took[at], call("db/read", 10, took[at], status=status[at]))
        for at in range(n)
    ]


def ordinary(minutes: int) -> list[list[Call]]:
    """Minutes in which a read takes a millisecond, more or less."""
    return [minute(1_000 + 10 * n) for n in range(minutes)]


def with_history(
    reference: Sequence[Call], problem: Sequence[Call], history: Sequence[Sequence[Call]]
) -> tuple[Population, Population]:
    """Both periods and the history, a minute each, as (population, history)."""
    periods = (reference, problem, *history)
    batches = [
        table(
            [
                row
                for n, request in enumerate(requests)
                for row in request_events(request, f"{at:08x}{n:024x}", T0 + at * MINUTE_NS + n * 10**9 // 3)
            ]
        )
        for at, requests in enumerate(periods)
    ]
    samples = tuple(
        Sample(str(at), "", T0 + at * MINUTE_NS, T0 + (at + 1) * MINUTE_NS) for at in range(len(periods))
    )
    whole = refine(*stored(batches), RefineSettings(), samples=samples)
    return whole.of_samples(0, 2), whole.of_samples(2, len(periods))


def calling(n: int, seed: int, *, tells: bool = True, answers: str = "ok", scale: float = 1.0) -> list[Call]:
    """Pages that ask a store over the network; it records its part, or does not."""
    rng = np.random.default_rng(seed)
    took = np.exp(rng.normal(np.log(400 * scale), 0.2, n)).tolist()
    made = []
    for t in took:
        inner = [Call("store/read", 105, 95 + t, kind=EventKind.SPAN_SERVER)] if tells else []
        ask = call("web/GET", 100, 100 + t, *inner, kind=EventKind.SPAN_CLIENT, status=answers)
        made.append(call("web/page", 0, 400 + t, ask, kind=EventKind.SPAN_SERVER))
    return made


def simulated_side(
    fault: str | None, severity: float, seed: int, requests: int = 1_200
) -> tuple[pa.Table, pa.Table, int, int]:
    """(flows, structures, start, end) of a run of the storage service."""
    causes = () if fault is None else tuple(plan_causes([(find_fault(fault), severity, 0.0)]))
    plan = RunPlan("sfs97", requests, seed, 1.0, causes)
    source = simulate(plan, 20_458 * NS_PER_DAY + seed * NS_PER_DAY)
    decode = codec_for("native").decode
    events = concat_events(
        [decode([chunk], DecodeConfig()).events for chunk in source.lines(RunFormat.NATIVE)]
    )
    made = stitch(events, StitchConfig())
    end_ns = source.recording.start_ns + round(max(trace.end_ns for trace in source.traces)) + 1
    return made.flows, made.structures, source.recording.start_ns, end_ns


def lost_spans() -> tuple[Population, None]:
    """A quiet run against one of which three records in a hundred never arrived."""
    sides = simulated_side(None, 0.0, 1), simulated_side("N5-span-loss", 0.03, 2)
    flows = [
        side[0].append_column("sample", pa.array(np.full(side[0].num_rows, at, dtype=np.uint8)))
        for at, side in enumerate(sides)
    ]
    samples = tuple(
        Sample(name, "", side[2], side[3]) for name, side in zip(("reference", "problem"), sides, strict=True)
    )
    structures = pa.concat_tables([side[1] for side in sides])
    return refine(pa.concat_tables(flows).unify_dictionaries(), structures, RefineSettings(), samples), None


ASKED: Final = Template.of_graph(
    [("web", "ask", None), ("db", "asked", None), ("db", "done", None), ("web", "told", None)],
    [(0, 1), (1, 2), (2, 3)],
    [3],
)
"""There and back, between two components; hosts are set below."""


def skewed(
    ahead_ns: int, legs: tuple[int, int] = (60, 40), n: int = 60, *, then_ahead_ns: int | None = None
) -> Population:
    """A call that takes 1000 ns on the other host, whose clock is ahead; in a second sample otherwise."""
    forth, back = legs
    samples = [ahead_ns] if then_ahead_ns is None else [ahead_ns, then_ahead_ns]
    times = np.array(
        [
            [0, forth + ahead, forth + 1000 + ahead, forth + 1000 + back]
            for ahead in samples
            for _ in range(n)
        ],
        dtype=np.int64,
    )
    n *= len(samples)
    flows, structures = lake_tables(np.random.default_rng(1), [(ASKED, times)])
    sample = np.repeat(np.arange(len(samples), dtype=np.uint8), n // len(samples))
    for name, column in (("start_ns", np.arange(n) * SECOND_NS), ("sample", sample)):
        flows = flows.set_column(flows.schema.get_field_index(name), name, pa.array(column))
    hosts = np.array([["w", "d", "d", "w"]] * n)
    column = flows.schema.get_field_index("host")
    kind = flows.schema.field("host").type
    flows = flows.set_column(column, flows.schema.field("host"), pa.array(hosts.tolist()).cast(kind))
    return refine(flows, structures, RefineSettings())


def a_clock_that_was_set() -> tuple[Population, None]:
    """Both legs take 300 ns; the other clock is set 5 µs ahead between the periods."""
    samples = tuple(
        Sample(name, "", at * 60 * SECOND_NS, (at + 1) * 60 * SECOND_NS)
        for at, name in enumerate(("reference", "problem"))
    )
    return replace(skewed(0, (300, 300), 60, then_ahead_ns=5_000), samples=samples), None


def two_types(lists: int, creates: int, lists_that_insert: int = 0) -> list[Call]:
    """Two types of requests share a gate and a store; each goes on to a place of its own."""

    def one(root: str, at: int, child: str) -> Call:
        below = [call(child, 50, 100 + at % 7), call("log/write", 120, 150), call("auth/ask", 30, 45)]
        asked = call("store/get", 25, 170, *below)
        return call(root, 0, 200 + at % 5, call("gate/pass", 20, 180, asked))

    made = [one("web/list", at, "index/lookup") for at in range(lists)]
    made += [one("web/list", at, "db/insert") for at in range(lists_that_insert)]
    made += [one("web/create", at, "db/insert") for at in range(creates)]
    return [made[at] for at in np.random.default_rng(0).permutation(len(made)).tolist()]


def queued(rng: np.random.Generator, rate: float) -> tuple[F8, F8]:
    """Requests that wait for one server, 0.6 s each: (when they come, how long it takes)."""
    came, free, left = np.cumsum(rng.exponential(1 / rate, 600)), 0.0, []
    for at, served in zip(came.tolist(), rng.exponential(0.6, 600).tolist(), strict=True):
        free = max(at, free) + served
        left.append(free)
    return came, np.array(left) - came


def half_as_many_more() -> tuple[Population, None]:
    """Six tenths busy, and half as many more requests: they take four times as long."""
    rng = np.random.default_rng(0)
    (came, took), (later, longer) = queued(rng, 1.0), queued(rng, 1.55)
    middle = came[-1] + 1
    ns = (np.array([middle, middle + later[-1] + 1]) * SECOND_NS).astype(int).tolist()
    samples = (Sample("reference", "", 0, ns[0]), Sample("problem", "", ns[0], ns[1]))
    rows = [(one * SECOND_NS).astype(int).reshape(-1, 1).tolist() for one in (took, longer)]
    starts = (np.concatenate([came, middle + later]) * SECOND_NS).astype(np.int64)
    return graphs(replace(chain(["shop/get", "store/read"], *rows), start_ns=starts), samples=samples), None


# ---------------------------------------------------------------- relations


def remote(client: str, server: str, start: float, end: float, *below: Call, status: str = "ok") -> Call:
    """A call from one component to another: two spans."""
    answered = call(server, start + 1, end - 1, *below, kind=EventKind.SPAN_SERVER, status=status)
    return call(client, start, end, answered, kind=EventKind.SPAN_CLIENT, status=status)


def order(at: int, failing: tuple[str, ...], *, page_us: float = 0.0, own: bool = False) -> Call:
    """A service that asks a store three times; where any answer fails it fails, after making a page of it;
    `own`: it fails by its own fault."""
    reads = []
    start = 20.0
    for name in ("find", "price", "stock"):
        status = "timeout" if name in failing else "ok"
        reads.append(remote("shop/send", f"store/{name}", start, start + 300 + at % 5, status=status))
        start += 310
    status = "error" if failing or own else "ok"
    end = start + 30 + (page_us if failing else 0.0)
    listed = remote("web/send", "shop/order", 10, end, *reads, status=status)
    return call("web/get", 0, end + 20 + at % 9, listed, kind=EventKind.SPAN_SERVER, status=status)


def failing_calls(at: int, every: int) -> tuple[str, ...]:
    """Each of the three calls fails in one of `every` requests, by itself."""
    names = ("find", "price", "stock")
    return tuple(name for k, name in enumerate(names) if (at * (2 * k + 1) + k) % every == 0)


def timed_out(at: int, *, failing: bool) -> Call:
    """A page whose check times out after 20 ms, or answers; then the cart is asked once, not three times."""
    took, status = (20_000 + at % 7, "timeout") if failing else (400 + at % 7, "ok")
    now = 20 + took
    asked = [(now + 310 * n, now + 310 * n + 300 + (at + n) % 9) for n in range(1 if failing else 3)]
    carts = [call("cart/get", start, end) for start, end in asked]
    return call("web/page", 0, now + 1_000, call("auth/check", 10, 10 + took, status=status), *carts)


def far_away(seed: int, network_us: float, n: int = 200) -> list[Call]:
    """Two services ask one store, in requests of their own; the way there takes so long, the store 100 µs."""
    rng = np.random.default_rng(seed)
    made = []
    for at in range(n):
        name = ("cart", "search")[at % 2]
        way, took = (one * rng.lognormal(0, 0.1) for one in (network_us, 100.0))
        answered = call("store/read", 20 + way, 20 + way + took, kind=EventKind.SPAN_SERVER)
        asked = call(f"{name}/send", 20, 20 + 2 * way + took, answered, kind=EventKind.SPAN_CLIENT)
        made.append(call(f"{name}/get", 0, 60 + 2 * way + took, asked, kind=EventKind.SPAN_SERVER))
    return made


def _calls(n: int, share: int) -> tuple[Population, None]:
    fine = [timed_out(at, failing=False) for at in range(n)]
    return two_periods(fine, [timed_out(at, failing=at * 7 % 100 < share) for at in range(n)]), None


def _orders(n: int = 60) -> tuple[Population, None]:
    fine = [order(at, ()) for at in range(n)]
    return two_periods(fine, [order(at, failing_calls(at, 4)) for at in range(n)]), None


MADE: Final = (
    MadeCase(
        "far-slower-calls",
        "one read in 75 takes a second more",
        False,
        lambda: (two_periods(pages(1, 1_000), pages(2, 1_000, far=4)), None),
    ),
    MadeCase(
        "overlap",
        "three calls, side by side before, come one after the other",
        False,
        no_longer_side_by_side,
        # As an hour of ordinary times would have taught: these times hardly drift.
        SETTINGS.model_copy(update={"assumed_tau": 0.05}),
    ),
    MadeCase(
        "failing-requests",
        "one call of twelve fails in a third of the requests",
        False,
        lambda: (two_periods(twelve_reads(67, 0), twelve_reads(67, 22)), None),
    ),
    MadeCase(
        "calls",
        "a page makes eight calls, five before",
        False,
        lambda: (two_periods([page(*["item"] * 5)] * 40, [page(*["item"] * 8)] * 40), None),
    ),
    MadeCase(
        "new-failing",
        "requests of a new kind, which all fail",
        False,
        lambda: (two_periods(with_fetches(0), with_fetches(80)), None),
    ),
    MadeCase(
        "outlying-windows",
        "reads fail, as they did in one minute of eight of the history",
        False,
        lambda: with_history(minute(1_000), minute(1_000, 36), [*ordinary(7), minute(1_000, 40)]),
    ),
    MadeCase(
        "lost-instrumentation",
        "a component records nothing any more",
        True,
        lambda: (two_periods(calling(200, 1), calling(200, 2, tells=False)), None),
    ),
    MadeCase("lost-records", "three records in a hundred never arrived", True, lost_spans),
    MadeCase("moved-clocks", "a clock was set between the periods", True, a_clock_that_was_set),
    MadeCase(
        "root-mix",
        "more requests list and fewer create",
        True,
        lambda: (two_periods(two_types(200, 200), two_types(320, 80)), None),
    ),
    MadeCase("load", "half as many more requests wait for a server", True, half_as_many_more),
    MadeCase(
        "failing-below", "three calls fail, each in a quarter of the requests of one caller", False, _orders
    ),
    MadeCase(
        "slow-after-failure", "a check times out in a quarter of the requests", False, lambda: _calls(60, 25)
    ),
    MadeCase(
        "same-callee",
        "two services wait longer for one store",
        False,
        lambda: (two_periods(far_away(1, 200), far_away(2, 500)), None),
    ),
)
