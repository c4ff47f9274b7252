"""Estimate the memory for refining and profiling requests from the footers of their files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from analyze.scope import LakePeriod
from stitch.lake.encoding import still_at, unreadable

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
    """Estimate the memory for periods; every window they overlap counts whole, and once.

    Reads footers: 0.2 ms a file. Raises LakeError if a file cannot be read.
    """
    files = {path: part for part in parts for path in (*part.flows, *part.params)}
    nodes = rows = 0
    for path, part in files.items():
        part.fetch([path])
        metadata = _footer(part, path)
        for at in range(metadata.num_row_groups):
            group = metadata.row_group(at)
            columns = (group.column(number) for number in range(group.num_columns))
            nodes += next((one.num_values for one in columns if one.path_in_schema == _NODES), 0)
        rows += metadata.num_rows if path in part.params else 0
    return NeededMemory(nodes * BYTES_A_NODE, rows * BYTES_A_PARAMETER)


_NODES: Final = "offset_ns.list.element"


def _footer(part: LakePeriod, path: Path) -> pq.FileMetaData:
    try:
        return pq.read_metadata(still_at(path))
    except (OSError, pa.ArrowException) as error:
        raise unreadable(part.lake, part.name_of(path), error=error) from error
