"""Estimate, from the footers of Parquet files, the memory needed to refine and profile requests."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from analyze.scope import LakePeriod
from stitch.lake.encoding import read_rows, still_at, unreadable

BYTES_A_NODE: Final = 110
"""Bytes of memory per node of refined and profiled requests (measured: 1.07 GB for 420,000 requests of 30
nodes, 0.69 GB for half as many)."""
BYTES_A_PARAMETER: Final = 100
"""Bytes of memory per row of parameters, which are read as a whole (measured: 1.2 GB for 11.5 million)."""


class NeededMemory(NamedTuple):
    """Estimated memory for the requests of periods and for their parameters."""

    requests: int
    """Bytes for refining and profiling the requests."""
    parameters: int
    """Bytes for the table of parameters."""


def needed_memory(parts: Iterable[LakePeriod]) -> NeededMemory:
    """Estimate the memory for the requests of periods.

    A window that several periods overlap counts once; of a window cut by a period's bounds the requests
    inside the period count. Filters are ignored, and the parameters of a window are always read as a whole.

    Reads the footer of each file (0.2 ms), and the start times of requests in cut windows. Raises LakeError
    if a file cannot be read.
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
    """Share in [0, 1] of the requests in file `path` that begin within the period of `part`."""
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
