"""What a watch serves is what its windows hold, and `flowdiff top` shows it."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from oracles.incidents import incident
from oracles.lake_script import flows_table, structures_table
from oracles.stored_lake import write_lake
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console

from analyze.scope import Lakes
from flowdiff.live.top_view import Scrape, view
from flowdiff.live.watch_metrics import (
    BUCKETS_S,
    OTHERS,
    ROOTS,
    ServiceCounters,
    WatchCollector,
    watch_registry,
)
from flowdiff.notify.senders import Counts
from schemas.periods import parse_period

N = 60 * (ROOTS + 5)


@pytest.fixture(scope="module")
def flows() -> pa.Table:
    """Two windows, more root types than have a name, a tenth of the requests failed."""
    rng = np.random.default_rng(1)
    table = flows_table([f"r{n:05}" for n in range(N)], sorted((rng.integers(0, 600, N) * 10**9).tolist()))
    # The first root types have the most requests.
    roots = [f"web/{min(int(x), ROOTS + 4)}" for x in rng.exponential(15, N)]
    times = rng.exponential(2e8, N).astype(np.int64).tolist()
    statuses = ["ok" if x > 0.1 else "timeout" for x in rng.random(N)]
    for name, values in (("root", roots), ("response_ns", times), ("status", statuses)):
        place = table.schema.get_field_index(name)
        table = table.set_column(
            place, table.schema.field(name), pa.array(values, table.schema.field(name).type)
        )
    return table


def scraped(registry: CollectorRegistry) -> Scrape:
    values: dict[str, dict[frozenset[tuple[str, str]], float]] = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            values.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
    return Scrape(0, values)


@pytest.fixture(scope="module")
def served(flows: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Scrape:
    folder: Path = tmp_path_factory.mktemp("served") / "lake"
    write_lake(folder, flows, structures_table())
    service = ServiceCounters()
    for start in (0, 300):
        service.add(Lakes(str(folder)).find(parse_period(f"1970-01-01T00:0{start // 60}/5m", now_ns=0)))
    hostile = incident("c" * 16, component="\x1b[31m", severity="critical")
    shown = [
        incident(),
        hostile,
        incident("d" * 16, state="resolved"),
    ]
    counts = Counts("webhook", pending=2, sent=5, failed=1)
    return scraped(watch_registry(WatchCollector(lambda: shown, lambda: [counts], service), "1"))


def test_requests_failures_and_times_are_those_of_the_windows(flows: pa.Table, served: Scrape) -> None:
    root, status = flows["root"].to_pylist(), flows["status"].to_pylist()
    times_s = flows["response_ns"].to_numpy() / 1e9
    assert served.total("flowdiff_service_requests_total") == N
    told = dict(served.by("flowdiff_service_requests_total", "root", "status"))
    assert len({name for name, _ in told}) == ROOTS + 1
    assert told["web/0", "failed"] == sum(
        a == "web/0" and b != "ok" for a, b in zip(root, status, strict=True)
    )
    assert told[OTHERS, "ok"] > 0
    mine = times_s[np.array(root) == "web/0"]
    buckets = dict(served.by("flowdiff_service_response_seconds_bucket", "root", "le"))
    for end in BUCKETS_S:
        assert buckets["web/0", str(end)] == (mine <= end).sum()
    sums = dict(served.by("flowdiff_service_response_seconds_sum", "root"))
    assert sums["web/0",] == pytest.approx(mine.sum())


def test_incidents_that_go_on_are_gauges(served: Scrape) -> None:
    told = dict(served.by("flowdiff_incident", "id", "severity"))
    assert told == {("a" * 16, "warning"): 1, ("c" * 16, "critical"): 1}
    assert dict(served.by("flowdiff_notify_pending", "receiver")) == {("webhook",): 2}


def test_top_shows_the_service_and_its_incidents(served: Scrape) -> None:
    out = StringIO()
    Console(file=out, width=100, color_system=None).print(view("host:1", served, None, rows=3))
    lines = out.getvalue().splitlines()
    assert any(line.startswith("web/0") and "ms" in line for line in lines)
    assert f"and {ROOTS - 2} more root types" in out.getvalue()
    assert "warning: recommendation/ListRecommendations slower" in out.getvalue()
    assert "\x1b" not in out.getvalue()
