"""Make one Arrow array of a column, whatever its chunks."""

from __future__ import annotations

import pyarrow as pa


def whole(column: pa.ChunkedArray) -> pa.Array:
    """The column as one array; free where it is one chunk already. Dictionaries must be unified before."""
    if column.num_chunks == 1:
        return column.chunk(0)  # `combine_chunks` would copy it
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0)
    return array
