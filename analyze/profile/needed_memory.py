"""Estimate the memory for refining and profiling requests from the footers of their files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from analyze.scope import LakePeriod
from stitch.lake.encoding import read_rows, still_at, unreadable

BYTES_A_NODE: Final = 110
"""Bytes per node of refined and profiled requests: 1.07 GB for 420,000 of 30 nodes, 0.69 GB for half as
many."""
BYTES_A_PARAMETER: Final = 100
"""Bytes per row of parameters read as a whole: 1.2 GB for 11.5 million."""


class NeededMemory(NamedTuple):
    """Estimated bytes for requests, and for their parameters."""

    requests: int
    parameters: int


def needed_memory(parts: Iterable[LakePeriod]) -> NeededMemory:
    """Estimate what periods need; a window counts once, and of one that a period cuts the requests within.
    Filters leave nothing out, and parameters of a window are read as a whole.

    Reads footers: 0.2 ms a file, and start times of windows that are cut. Raises LakeError where a file
    cannot be read.
    """
    nodes: dict[Path, int] = {}
    shares: dict[tuple[Path, int, int], float] = {}
    rows: dict[Path, int] = {}
    for part in parts:
        start_ns, end_ns = part.period.start_ns, part.period.end_ns
        for path in part.params:
            if path not in rows:
                rows[path] = _footer(part, path).num_rows
        for path in part.flows:
            if path not in nodes:
                nodes[path] = _nodes(_footer(part, path))
            if (path, start_ns, end_ns) not in shares:
                shares[path, start_ns, end_ns] = _share(part, path)
    taken = dict.fromkeys(nodes, 0.0)
    for (path, _, _), share in shares.items():
        taken[path] = min(taken[path] + share, 1.0)
    needed = sum(nodes[path] * share for path, share in taken.items())
    return NeededMemory(round(needed * BYTES_A_NODE), sum(rows.values()) * BYTES_A_PARAMETER)


def _nodes(metadata: pq.FileMetaData) -> int:
    groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    columns = [group.column(number) for group in groups for number in range(group.num_columns)]
    return sum(column.num_values for column in columns if column.path_in_schema == _NODES)


def _share(part: LakePeriod, path: Path) -> float:
    """Share of a file's requests that begin in a period."""
    if part.has_whole_windows:
        return 1.0
    start_ns = read_rows(path, ["start_ns"], lake=part.lake, name=part.name_of(path))["start_ns"].to_numpy()
    inside = (start_ns >= part.period.start_ns) & (start_ns < part.period.end_ns)
    return float(inside.mean()) if len(inside) else 0.0


_NODES: Final = "offset_ns.list.element"


def _footer(part: LakePeriod, path: Path) -> pq.FileMetaData:
    part.fetch([path])
    try:
        return pq.read_metadata(still_at(path))
    except (OSError, pa.ArrowException) as error:
        raise unreadable(part.lake, part.name_of(path), error=error) from error
