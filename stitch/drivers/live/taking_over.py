"""Take over a lane: its segments, and what the lake already has of their requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from schemas.commits import Standing
from schemas.errors import LakeError
from stitch.drivers.live.closed_memory import ClosedMemory
from stitch.drivers.live.lane_buffer import LaneBuffer
from stitch.drivers.live.live_settings import LiveSettings
from stitch.lake.event_log import read_segment
from stitch.lake.late_events import lane_of, read_events
from stitch.lake.manifest import Manifest, open_manifest
from stitch.lake.store import Store
from stitch.lake.upkeep.hidden import UPKEEP_LANE
from stitch.structures import StructureMemo

_REMEMBERED: Final = ["request_id", "kind", "start_ns", "response_ns", "lane"]


def taken_over(
    store: Store,
    lane: int,
    settings: LiveSettings,
    standing: Standing,
    sealed_to_ns: int | None,
    *,
    lanes: int = 1,
    memo: StructureMemo | None = None,
) -> LaneBuffer:
    """A buffer that stands where the lane's last commit left it.

    `sealed_to_ns` is where a lane begins that sealed nothing yet. lanes: so many share the budget; memo: what
    they know of structures. Raises LakeError where a segment is missing or damaged.
    """
    manifest = open_manifest(store)
    reached = standing.sealed_to_ns if standing.sealed_to_ns is not None else sealed_to_ns
    if manifest.retired_to_ns is not None:  # a backlog older than what was retired would be hidden
        reached = max(manifest.retired_to_ns, manifest.retired_to_ns if reached is None else reached)
    segments = [read_segment(store, segment) for segment in standing.segments]
    memory = ClosedMemory()
    memory.share(settings.memory_bytes, lanes)  # before it is filled
    horizon = None if reached is None else reached - settings.stitch.max_age_ns
    remember_flows(manifest, lane, horizon, memory)
    for late in late_of(manifest, lane, horizon):  # of requests that went on after that
        memory.remember_late(late, manifest.info.window_length_ns)
    buffer = LaneBuffer(settings, manifest.info.window_length_ns, lane, memory, reached, memo)
    buffer.share(lanes)
    buffer.load(segments)
    return buffer


def verify_open(buffer: LaneBuffer, lane: int, events_open: int) -> None:
    """Raises LakeError where a buffer does not hold what the lane's last commit says is open."""
    if buffer.open_events != events_open:
        raise LakeError(
            f"The segments of lane {lane} hold {buffer.open_events:,} open events; "
            f"its last commit says {events_open:,}.",
            remedy="Please report it; `flowdiff fsck` says what is damaged.",
        )


def remember_flows(manifest: Manifest, lane: int, horizon_ns: int | None, memory: ClosedMemory) -> None:
    """Requests of the lane that were over when something of them may still come."""
    length = manifest.info.window_length_ns
    for file in manifest.files_since("flows", None if horizon_ns is None else horizon_ns - length):
        if file.lane not in (lane, UPKEEP_LANE):
            continue
        flows = manifest.decoded(file, _REMEMBERED)
        if file.lane == UPKEEP_LANE:  # flows of several lanes in one file
            flows = flows.filter(pc.equal(flows["lane"], lane))
        memory.remember_flows(flows, length)


def late_of(manifest: Manifest, lane: int, horizon_ns: int | None) -> Iterator[pa.Table]:
    """Late events of the lane, of which some may be so young. Raises LakeError."""
    since_ns = None if horizon_ns is None else horizon_ns - manifest.info.window_length_ns
    for file in manifest.files_since("late", since_ns):
        if lane_of(file) == lane:
            yield read_events(manifest, [file])
