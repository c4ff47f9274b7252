"""A first reading of windows that go on: flows of what live lanes hold, for who cannot wait for the seal.

Requests that still run are cut where they are, and what comes later changes them: nothing of this is kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from schemas.commits import FlowCounts
from schemas.config import StitchConfig
from schemas.events import concat_events
from schemas.windows import Window
from stitch.drivers.live.due import Settled, segment_rows
from stitch.drivers.live.live_settings import recorded_settings
from stitch.drivers.partition import shared_params
from stitch.kernel import Stitched, stitch
from stitch.lake.encoding import encode
from stitch.lake.event_log import read_segment
from stitch.lake.flow_counts import count_flows
from stitch.lake.layout import WINDOW_TABLES, WindowTable
from stitch.lake.manifest import Manifest, OpenLane
from stitch.lake.windowing import cut


@dataclass(frozen=True, slots=True)
class ProvisionalFile:
    """One file outside the lake, in the form of the lake's."""

    table: WindowTable
    window: Window
    path: Path
    rows: int
    sha256: str
    """Hex."""
    counts: FlowCounts | None
    """Counts of flows; None of others."""


def provisional_flows(segments: Sequence[pa.Table], config: StitchConfig, *, lane: int = 0) -> Stitched:
    """Flows of the open requests and of those that wait for their window, as if nothing more came.

    segments: all that the lane's last commit needs, in their order. What they hold of published requests is
    left out. O(events).
    """
    settled = Settled(segments)
    open_ = [segment_rows(segment, number, settled).open() for number, segment in enumerate(segments)]
    return stitch(concat_events([events for events in open_ if events.num_rows]), config, lane=lane)


def write_provisional(manifest: Manifest, folder: Path) -> tuple[ProvisionalFile, ...]:
    """Files of the provisional flows of all live lanes of a lake, in a folder that is made.

    Raises LakeError where a segment cannot be read (a lane that went on in the meantime swept it: open the
    manifest again), OSError.
    """
    return tuple(file for lane in manifest.open_lanes for file in _write_lane(manifest, lane, folder))


def _write_lane(manifest: Manifest, lane: OpenLane, folder: Path) -> Iterator[ProvisionalFile]:
    segments = [read_segment(manifest.store, segment) for segment in lane.segments]
    settings = recorded_settings(lane.config)
    made = provisional_flows(segments, settings.stitch, lane=lane.lane)
    params = shared_params(made.params, settings.params_share)
    for part in cut(made.flows, made.structures, params, manifest.info.window_length_ns):
        for name in WINDOW_TABLES:
            table: pa.Table = getattr(part, name)
            if not table.num_rows:
                continue
            data = encode(name, table, part.window)
            path = folder / name / f"window={part.window.name}" / f"{lane.lane:d}-provisional.parquet"
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.write_bytes(data)
            sha256 = hashlib.sha256(data).hexdigest()
            counts = count_flows(table) if name == "flows" else None
            yield ProvisionalFile(name, part.window, path, table.num_rows, sha256, counts)
