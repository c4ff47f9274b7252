"""Requests of very many events, capped while they are read, become the flows of all their events."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.record_events import record
from oracles.span_events import batch, span

from schemas.arrays import U8
from schemas.commits import Segment
from schemas.config import StitchConfig
from schemas.events import concat_events
from stitch.closing import event_times
from stitch.drivers.build.large_requests import MARGIN, LargeRequests
from stitch.drivers.build.log_follower import LogSegment
from stitch.drivers.build.request_plan import Planned, requests_of
from stitch.drivers.live.keys import request_keys
from stitch.kernel import stitch
from stitch.lake.event_log import index_requests


def planned(events: pa.Table, key: U8) -> Planned:
    segment = LogSegment(1, 1, Segment(name="s", sha256="", size=0, rows=0), 0)
    return requests_of(segment, index_requests(key, *event_times(events)))


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=4),
    cap=st.integers(2, 12),
    of_spans=st.booleans(),
    part=st.integers(1, 50),
)
def test_capping_while_reading_gives_the_flows_of_all_events(
    seed: int, sizes: list[int], cap: int, of_spans: bool, part: int
) -> None:
    random = np.random.default_rng(seed)
    rows = []
    for trace, n in enumerate(sizes):
        times = random.permutation(1_000)[:n].tolist()
        for number, at in enumerate(times):
            if of_spans:
                parent = None if number == 0 else f"s{random.integers(number):d}"
                row = span(f"s{number:d}", parent, (at, at + 5), trace=f"t{trace}")
            else:
                row = record(f"b{number % 3}", "p", at, request=f"t{trace}")
            rows += [row] * int(random.integers(1, 3))  # copies
    order = random.permutation(len(rows))
    events = batch(*(rows[at] for at in order))
    key, _ = request_keys(events)
    config = StitchConfig(max_events_per_flow=cap)
    whole = stitch(events, config)

    def parts() -> Iterator[tuple[pa.Table, U8]]:
        for begin in range(0, events.num_rows, part):
            yield concat_events([events.slice(begin, part)]), key[begin : begin + part]

    requests = planned(events, key)
    large = LargeRequests(requests, cap)
    if len(large.requests):
        large.choose(
            (table.filter(mask), own[mask.to_numpy(zero_copy_only=False)])
            for table, own in parts()
            for mask in [pa.array(np.isin(own, large.requests["key"]))]
        )
    kept = [table for table, _ in large.kept(parts())]
    capped = stitch(concat_events(kept), config)
    assert capped.flows.to_pylist() == whole.flows.to_pylist()
    assert capped.structures.to_pylist() == whole.structures.to_pylist()
    assert sum(table.num_rows for table in kept) + large.n_dropped == events.num_rows
    of_request = {
        at: sum(int((own == at).sum()) for _, own in large.kept(parts())) for at in requests["key"].tolist()
    }
    assert all(of_request[at] <= 2 * MARGIN * cap for at in large.requests["key"].tolist())
