"""Read messages into nested Arrow by ptars, and lists of nested Arrow as flat columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.message import DecodeError

from schemas.arrays import I8


def ragged(column: pa.Array) -> tuple[I8, pa.Array]:
    """Lengths (null: 0) and concatenated values of a list column."""
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy().astype(np.int64)
    return lengths, column.flatten()


def owners(lengths: I8) -> I8:
    """Row of each value of a list column."""
    return np.repeat(np.arange(len(lengths)), lengths)


GROUP_BYTES: Final = 2**20
"""Messages are given to ptars in groups of about this size: 80 MB of columns at most, then looked at."""
PART_BYTES: Final = 2**17
"""The same for messages whose columns are far larger than they: 11 MB, 35 MB when read as spans."""
_TAG_BYTES = 2
"""Tag and length of a field, at least."""
_DENSE = 4
"""Columns of so many bytes a byte of message. Spans that say something have 2."""
_MUCH = 8 * 2**20
"""Columns of fewer bytes do no harm."""


def batches_of(
    handler: Any,
    message: Any,
    payloads: Sequence[bytes],
    indexes: list[int],
    group_bytes: int = GROUP_BYTES,
    refused: set[int] | None = None,
) -> Iterator[tuple[list[int], pa.RecordBatch]]:
    """(payload indexes, their messages) for the payloads that a ptars handler of `message` takes.

    A part is in order; the parts need not be. One malformed message makes ptars refuse a whole list: those
    that protobuf's own parser refuses stand alone then. Which of them ptars refuses too is added to
    `refused`: no smaller group helps them. A group that is all items and no content is left out as well: with
    2 bytes an item its columns take 80 times its size.
    """
    panicking = {
        i for i in indexes if overflow_sign(payloads[i]) in payloads[i] and not _parses(message, payloads[i])
    }
    refused = set() if refused is None else refused
    refused |= panicking
    indexes = [i for i in indexes if i not in panicking]
    for group in groups_of(payloads, indexes, group_bytes):
        size = sum(len(payloads[i]) for i in group)
        for part, batch in _batches_of(handler, message, payloads, group, refused):
            if batch.nbytes <= max(_DENSE * size, _MUCH) or group_bytes <= PART_BYTES:
                yield part, batch


def groups_of(payloads: Sequence[bytes], indexes: Sequence[int], group_bytes: int) -> Iterator[list[int]]:
    """`indexes` cut into runs of at most `group_bytes`, but for payloads that are larger alone."""
    group: list[int] = []
    size = 0
    for index in indexes:
        size += len(payloads[index])
        if group and size > group_bytes:
            yield group
            group, size = [], len(payloads[index])
        group.append(index)
    if group:
        yield group


def runs_of_pieces(pieces: Iterable[bytes], part_bytes: int) -> Iterator[list[bytes]]:
    """Bodies of repeated fields in runs of at most `part_bytes`; a larger one stands alone."""
    run: list[bytes] = []
    size = 0
    for piece in pieces:
        size += len(piece) + _TAG_BYTES
        if run and size > part_bytes:
            yield run
            run, size = [], len(piece) + _TAG_BYTES
        run.append(piece)
    if run:
        yield run


def overflow_sign(payload: bytes) -> bytes:
    """Bytes of a length so near 2^64 that adding a position in the payload overflows: ptars then panics.

    A varint has 7 bits a byte, so all bits but the lowest 14 (21, 35) are seven (six, four) bytes 0xff. The
    longer the run, the faster the search. Other bytes that hold it (negative numbers, mostly) are read by
    protobuf's own parser first.
    """
    return _RUNS_OF_ONES[(len(payload) >= 2**14) + (len(payload) >= 2**21)]


_RUNS_OF_ONES = (b"\xff" * 7, b"\xff" * 6, b"\xff" * 4)


def _parses(message: Any, payload: bytes) -> bool:
    try:
        message.FromString(payload)
    except DecodeError:
        return False
    return True


def _batches_of(
    handler: Any, message: Any, payloads: Sequence[bytes], indexes: list[int], refused: set[int]
) -> Iterator[tuple[list[int], pa.RecordBatch]]:
    batch = _batch_of(handler, [payloads[i] for i in indexes])
    if batch is not None:
        yield indexes, batch
        return
    if len(indexes) == 1:
        refused.update(indexes)
        return
    # ptars does not say which one it is, and a call costs as much as a hundred messages: halving alone made
    # messages of which one in ten is malformed take 25 times as long. The two parsers agree on nearly all.
    sound = [i for i in indexes if _parses(message, payloads[i])]
    if len(sound) == len(indexes):
        middle = len(indexes) // 2
        groups = [indexes[:middle], indexes[middle:]]
    else:
        groups = [[i] for i in sorted(set(indexes).difference(sound))]
        groups += [sound] if sound else []
    for group in groups:
        yield from _batches_of(handler, message, payloads, group, refused)


def _batch_of(handler: Any, messages: list[bytes]) -> pa.RecordBatch | None:
    """Their columns; None where ptars refuses one of them."""
    try:
        return handler.list_to_record_batch(messages)
    except BaseException as error:
        # A panic of ptars is no Exception, and its class cannot be imported.
        if not isinstance(error, ValueError) and type(error).__name__ != "PanicException":
            raise
        return None
