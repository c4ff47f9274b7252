"""Messages to nested Arrow by ptars, and lists of nested Arrow as flat columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

I8 = npt.NDArray[np.int64]


def ragged(column: pa.Array) -> tuple[I8, pa.Array]:
    """Lengths (null: 0) and concatenated values of a list column."""
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy().astype(np.int64)
    return lengths, column.flatten()


def owners(lengths: I8) -> I8:
    """Row of each value of a list column."""
    return np.repeat(np.arange(len(lengths)), lengths)


def batches_of(
    handler: Any, payloads: Sequence[bytes], indexes: list[int]
) -> Iterator[tuple[list[int], pa.RecordBatch]]:
    """(payload indexes, their messages) for the payloads that a ptars handler takes, in order.

    One malformed message makes ptars refuse a whole list: it is halved until the culprits stand alone.
    """
    if not indexes:
        return
    try:
        batch = handler.list_to_record_batch([payloads[i] for i in indexes])
    except ValueError:
        if len(indexes) > 1:
            middle = len(indexes) // 2
            yield from batches_of(handler, payloads, indexes[:middle])
            yield from batches_of(handler, payloads, indexes[middle:])
    else:
        yield indexes, batch
