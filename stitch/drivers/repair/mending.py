"""What becomes of late events of one lane: their requests stitched anew, beside what the lake has of them.

A request is stitched twice: from the events that were kept of it, which must give the very flows that the
lake has (else something is missing, and it is left alone), and with its late events, which gives what the
kernel would have made had nothing been late. Requests are taken together in *units*: all that records without
a request id tie to each other, mostly a request each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.arrays import B1, I8, U8
from schemas.config import StitchConfig
from schemas.events import concat_events
from schemas.lake import FLOWS_SCHEMA
from schemas.quality import Quality
from stitch.closing import NEVER, event_times
from stitch.columnar.hashing import hash_rows, mix
from stitch.columnar.runs import connected_components
from stitch.drivers.partition import shared_params
from stitch.flow_rows import named_params
from stitch.kernel import ClosedFlows, stitch_closed
from stitch.lake.windowing import flow_names
from stitch.records.components import request_codes
from stitch.structures import StructureMemo

CHUNK_EVENTS: Final = 250_000
"""Events stitched at a time: some 300 MB at the kernel's peak."""
_COMPARED: Final = [name for name in FLOWS_SCHEMA.names if name not in ("lane", "quality")]


class LateOutcome(IntEnum):
    """Outcome of the late events of a unit."""

    FOLDED = 0
    """Flows change."""
    SAME = 1
    """The lake has the flows already: copies of events that it was made of."""
    WAITS = 2
    """More may come, or a window is not sealed: another time."""
    LOST = 3
    """The lake has flows of these requests, and the events that they were made of are not kept."""
    SPLIT = 4
    """Part of the request came by another lane."""
    RETIRED = 5
    """The request reaches into windows that left the lake. Events that lie in those are dropped."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Which windows may be written anew."""

    length_ns: int
    reach_ns: int
    """Distance from its events in which a request's flow is looked for."""
    open_ns: int
    """Longest time for which a live lane holds a request open after its last event."""
    sealed_to_ns: int | None
    """None: no live lane, everything is whole."""
    retired_to_ns: int | None
    unsure: I8
    """Ascending starts of windows that cannot be replaced now."""
    late_to_ns: int | None = None
    """Late events that end there or before need not be kept; None: all are."""


@dataclass(frozen=True, slots=True, eq=False)
class Mended:
    """Outcomes of some late events. Units are numbered from 0."""

    lane: int
    late: pa.Table
    """EVENT_SCHEMA."""
    late_unit: I8
    expired: B1
    """[late] older than all windows of the lake."""
    aged: B1
    """[late] past the age of late events, all of the unit."""
    verdict: I8
    """[units] LateOutcome."""
    gone: pa.Table
    """FLOWS_SCHEMA: flows of the lake of units that are FOLDED."""
    gone_unit: I8
    flows: pa.Table
    """FLOWS_SCHEMA: what comes in their place."""
    flow_unit: I8
    structures: pa.Table
    """STRUCTURES_SCHEMA: of `flows` and perhaps others, each category once."""
    params: pa.Table
    """PARAMS_SCHEMA: of `flows`."""
    conflicts: pa.Table
    """EVENT_SCHEMA: refused now, another version of their id is kept; late or not."""
    conflict_unit: I8
    timeless: pa.Table
    """EVENT_SCHEMA: late, and refused: no event of their request has a time."""
    timeless_unit: I8


def mend(
    lane: int,
    late: pa.Table,
    kept: pa.Table,
    stored: Callable[[pa.ChunkedArray, pa.Array], pa.Table],
    config: StitchConfig,
    params_share: float,
    bounds: Bounds,
) -> Iterator[Mended]:
    """Decide about every late event; some requests at a time.

    late, kept: EVENT_SCHEMA, kept ones of the same requests at least. stored: flows of the lake
    (FLOWS_SCHEMA, of all lanes) of some request ids near some times.
    """
    events = concat_events([part for part in (late, kept) if part.num_rows])
    code, n_codes = request_codes(events)
    n_chunks = 1 if events["request_id"].null_count else -(-events.num_rows // CHUNK_EVENTS)
    chunk = code * max(1, n_chunks) // max(1, n_codes)
    memo = StructureMemo()
    for number in range(max(1, n_chunks)):
        rows = np.flatnonzero(chunk == number)
        if len(rows) and rows[0] < late.num_rows:
            own = events.take(pa.array(rows)).combine_chunks()
            n_late = int(np.count_nonzero(rows < late.num_rows))
            parts = own.slice(0, n_late), own.slice(n_late)
            yield _mend(lane, *parts, stored, config, params_share, bounds, memo)


def _mend(
    lane: int,
    late: pa.Table,
    kept: pa.Table,
    stored: Callable[[pa.ChunkedArray, pa.Array], pa.Table],
    config: StitchConfig,
    params_share: float,
    bounds: Bounds,
    memo: StructureMemo,
) -> Mended:
    events = concat_events([late, kept])
    n_late = late.num_rows
    before = stitch_closed(concat_events([kept]), config, lane=lane, memo=memo)
    after = stitch_closed(events, config, lane=lane, memo=memo)
    unit, of_before, of_after = _units(events, n_late, before, after)
    has_late = np.zeros(int(unit.max()) + 1, dtype=np.bool_)
    has_late[unit[:n_late]] = True
    names = flow_names(pa.concat_tables([before.flows.select(_NAMED), after.flows.select(_NAMED)]))
    of_name = np.concatenate((of_before, of_after))
    wanted = pa.concat_arrays([part.flows["request_id"].combine_chunks() for part in (before, after)])
    there = stored(events["ts_ns"], pc.unique(wanted))
    place = pc.index_in(flow_names(there), value_set=names)
    there = there.filter(place.is_valid()).combine_chunks()
    of_there = of_name[place.drop_null().to_numpy()]
    n = len(has_late)
    verdict = np.full(n, int(LateOutcome.FOLDED))
    had = _content(there, of_there, n)
    verdict[had == _content(after.flows, of_after, n)] = LateOutcome.SAME
    verdict[had != _content(before.flows, of_before, n)] = LateOutcome.LOST
    verdict[of_there[there["lane"].to_numpy() != lane]] = LateOutcome.SPLIT
    waits, retired = _held_back(events, unit, n, bounds)
    for flows, of_flow in ((there, of_there), (after.flows, of_after)):
        starts = flows["start_ns"].to_numpy() // bounds.length_ns * bounds.length_ns
        waits[of_flow[np.isin(starts, bounds.unsure)]] = True
        if bounds.sealed_to_ns is not None:
            waits[of_flow[starts + bounds.length_ns > bounds.sealed_to_ns]] = True
        if bounds.retired_to_ns is not None:
            retired[of_flow[starts + bounds.length_ns <= bounds.retired_to_ns]] = True
    verdict[waits] = LateOutcome.WAITS
    verdict[retired] = LateOutcome.RETIRED
    number = np.cumsum(has_late) - 1
    folded = has_late & (verdict == LateOutcome.FOLDED)
    settled = folded | (verdict == LateOutcome.SAME)
    gone, comes = folded[of_there], folded[of_after]
    flows = after.flows.filter(pa.array(comes)).combine_chunks()
    conflicts = np.setdiff1d(after.conflicts, before.conflicts + n_late)
    conflicts = conflicts[settled[unit[conflicts]]]
    timeless = after.timeless[(after.timeless < n_late) & settled[unit[after.timeless]]]
    params = named_params(after.params, after.flows)
    return Mended(
        lane=lane,
        late=late,
        late_unit=number[unit[:n_late]],
        expired=_expired(late, bounds),
        aged=_aged(late, unit[:n_late], bounds),
        verdict=verdict[has_late],
        gone=there.filter(pa.array(gone)).combine_chunks(),
        gone_unit=number[of_there[gone]],
        flows=flows,
        flow_unit=number[of_after[comes]],
        structures=after.structures,
        params=shared_params(
            params.filter(pc.is_in(flow_names(params), flow_names(flows))).combine_chunks(), params_share
        ),
        conflicts=events.take(pa.array(conflicts)).combine_chunks(),
        conflict_unit=number[unit[conflicts]],
        timeless=events.take(pa.array(timeless)).combine_chunks(),
        timeless_unit=number[unit[timeless]],
    )


_NAMED: Final = ["request_id", "kind"]


def _units(events: pa.Table, n_late: int, before: ClosedFlows, after: ClosedFlows) -> tuple[I8, I8, I8]:
    """`([events], [flows before], [flows after])`: number of the unit."""
    code, n_codes = request_codes(events)
    m = before.flows.num_rows
    tied = before.flow >= 0
    _, number = connected_components(code[n_late:][tied], n_codes + before.flow[tied], n_codes + m)
    of_after = np.zeros(after.flows.num_rows, dtype=np.int64)
    placed = after.flow >= 0
    of_after[after.flow[placed]] = number[code[placed]]
    return number[code], number[n_codes:], of_after


def _content(flows: pa.Table, unit: I8, n: int) -> U8:
    """[units] hash of the flows of each, in whatever order; not of the lane, nor of INCOMPLETE, which a
    request that was closed by age or for want of room has and one stitched in whole has not.
    """
    total = np.zeros(n, dtype=np.uint64)
    if not flows.num_rows:
        return total
    quality = flows["quality"].to_numpy().astype(np.uint64) & ~np.uint64(Quality.INCOMPLETE)
    with np.errstate(over="ignore"):
        rows = mix(hash_rows(flows.select(_COMPARED).combine_chunks()) + mix(quality))
        np.add.at(total, unit, rows)
    return total


def _expired(late: pa.Table, bounds: Bounds) -> B1:
    first, last = event_times(late)
    if bounds.retired_to_ns is None:
        return np.zeros(late.num_rows, dtype=np.bool_)
    expired: B1 = (np.maximum(first, last) < bounds.retired_to_ns) & (last > -NEVER)
    return expired


def _aged(late: pa.Table, unit: I8, bounds: Bounds) -> B1:
    if bounds.late_to_ns is None:
        return np.zeros(late.num_rows, dtype=np.bool_)
    young = np.zeros(int(unit.max(initial=-1)) + 1, dtype=np.bool_)
    young[unit[event_times(late)[1] > bounds.late_to_ns]] = True
    aged: B1 = ~young[unit]
    return aged


def _held_back(events: pa.Table, unit: I8, n: int, bounds: Bounds) -> tuple[B1, B1]:
    """`([units] of which more may come, [units] that reach into what left the lake)`."""
    first, last = event_times(events)
    waits, retired = (np.zeros(n, dtype=np.bool_) for _ in range(2))
    if bounds.sealed_to_ns is not None:
        limit = max(bounds.sealed_to_ns - bounds.open_ns, -(2**63) + 1)
        waits[unit[last > limit]] = True
    if bounds.retired_to_ns is not None:
        retired[unit[first < bounds.retired_to_ns + bounds.reach_ns]] = True
    return waits, retired
