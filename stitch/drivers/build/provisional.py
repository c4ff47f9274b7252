"""Write the flows of windows that are not built yet, for commands with the option `--unsealed`.

The current log of live lanes is stitched into a folder outside the lake, by the function that builders use.
Nothing is committed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from schemas.commits import FlowCounts
from schemas.errors import LakeError
from schemas.events import concat_events
from schemas.windows import Window
from stitch.drivers.build.log_follower import UnreadableSegmentError
from stitch.drivers.build.log_view import LogView
from stitch.drivers.live.live_settings import recorded_settings
from stitch.drivers.live.young_segments import YoungSegments
from stitch.drivers.partition import shared_params
from stitch.kernel import stitch
from stitch.lake.chain import last_number
from stitch.lake.encoding import encode
from stitch.lake.flow_counts import count_flows
from stitch.lake.layout import WINDOW_TABLES, WindowTable
from stitch.lake.manifest import Manifest
from stitch.lake.upkeep.hidden import UPKEEP_LANE
from stitch.lake.windowing import WindowPart, cut


@dataclass(frozen=True, slots=True)
class ProvisionalFile:
    """A Parquet file outside the lake, with the schema and metadata that the lake's files have."""

    table: WindowTable
    window: Window
    path: Path
    rows: int
    """Number of rows in the file."""
    sha256: str
    """SHA-256 of the file, hex."""
    counts: FlowCounts | None
    """Aggregates over the flows in the file; None for tables other than `flows`."""


def write_provisional(manifest: Manifest, folder: Path) -> tuple[ProvisionalFile, ...]:
    """Stitch the windows that are not built yet, and write them to files below `folder`.

    manifest: snapshot of the lake. Raises LakeError if a segment cannot be read, as when a live lane deleted
    it after the snapshot (open a new one); OSError.
    """
    try:
        head = dict(manifest.heads).get(UPKEEP_LANE, 0)
        view = _Unbuilt(manifest.store, manifest, YoungSegments(0), is_inside=True, head=head)
        view.refuse_newer_builds(manifest)
        view.refuse_lost()
        return tuple(
            file for number, part in enumerate(view.parts()) for file in _written(part, number, folder)
        )
    except UnreadableSegmentError as error:
        raise LakeError(error.message, remedy="Try again: the lake went on meanwhile.") from error


class _Unbuilt(LogView):
    """View of a log that yields the windows not built yet."""

    def refuse_newer_builds(self, manifest: Manifest) -> None:
        """Raise LakeError if the log lacks events and windows were built since the snapshot: these may
        contain the events."""
        head = dict(manifest.heads).get(UPKEEP_LANE, 0)
        if self._log.missing and last_number(manifest.store, UPKEEP_LANE, head) > head:
            raise LakeError("Windows were built meanwhile.", remedy="Try again.")

    def parts(self) -> Iterator[WindowPart]:
        """Yield the rows of the windows not built yet, one window after another."""
        settings = recorded_settings(self._log.config)
        self._bind_frozen()
        for planned in self._plan.windows():
            if planned.start_ns in self._versions or self._is_frozen(planned.start_ns):
                continue  # readers have its version; of a frozen window the rest is late
            events = concat_events(
                [table for _, table, _ in self._rows.of(self._of_window(planned.start_ns), planned.requests)]
            )
            made = stitch(events, settings.stitch, lane=UPKEEP_LANE)
            params = shared_params(made.params, settings.params_share)
            yield from cut(made.flows, made.structures, params, self._length_ns)


def _written(part: WindowPart, number: int, folder: Path) -> Iterator[ProvisionalFile]:
    for name in WINDOW_TABLES:
        table: pa.Table = getattr(part, name)
        if not table.num_rows:
            continue
        data = encode(name, table, part.window)
        path = folder / name / f"window={part.window.name}" / f"{number:d}-provisional.parquet"
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_bytes(data)
        sha256 = hashlib.sha256(data).hexdigest()
        counts = count_flows(table) if name == "flows" else None
        yield ProvisionalFile(name, part.window, path, table.num_rows, sha256, counts)
