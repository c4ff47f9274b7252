"""Messages to nested Arrow by ptars, and lists of nested Arrow as flat columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.message import DecodeError

I8 = npt.NDArray[np.int64]


def ragged(column: pa.Array) -> tuple[I8, pa.Array]:
    """Lengths (null: 0) and concatenated values of a list column."""
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy().astype(np.int64)
    return lengths, column.flatten()


def owners(lengths: I8) -> I8:
    """Row of each value of a list column."""
    return np.repeat(np.arange(len(lengths)), lengths)


def batches_of(
    handler: Any, message: Any, payloads: Sequence[bytes], indexes: list[int]
) -> Iterator[tuple[list[int], pa.RecordBatch]]:
    """(payload indexes, their messages) for the payloads that a ptars handler of `message` takes, in order.

    One malformed message makes ptars refuse a whole list: it is halved until the culprits stand alone.
    """
    indexes = [i for i in indexes if _RUN_OF_ONES not in payloads[i] or _parses(message, payloads[i])]
    if indexes:
        yield from _batches_of(handler, payloads, indexes)


_RUN_OF_ONES = b"\xff\xff\xff\xff"
"""Bytes 5 to 8 of a length so near 2^64 that adding it to a position overflows: ptars then panics.

Other bytes that hold it (negative numbers, mostly) are read by protobuf's own parser first.
"""


def _parses(message: Any, payload: bytes) -> bool:
    try:
        message.FromString(payload)
    except DecodeError:
        return False
    return True


def _batches_of(
    handler: Any, payloads: Sequence[bytes], indexes: list[int]
) -> Iterator[tuple[list[int], pa.RecordBatch]]:
    try:
        batch = handler.list_to_record_batch([payloads[i] for i in indexes])
    except BaseException as error:
        # A panic of ptars is no Exception, and its class cannot be imported.
        if not isinstance(error, ValueError) and type(error).__name__ != "PanicException":
            raise
        if len(indexes) > 1:
            middle = len(indexes) // 2
            yield from _batches_of(handler, payloads, indexes[:middle])
            yield from _batches_of(handler, payloads, indexes[middle:])
    else:
        yield indexes, batch
