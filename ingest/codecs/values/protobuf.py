"""Define message classes of protobuf without protoc, and read messages into nested Arrow columns.

Messages that are foreign or crowded are refused; ptars reads the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from ingest.codecs.dead_letters import RejectLog
from ingest.codecs.payloads import runs_of
from ingest.codecs.values.wire import BYTES, fields_of
from schemas.rejects import Reason, Reject

GROUP_BYTES: Final = 2**20
"""Approximate bytes of messages given to ptars at once: at most 80 MB of columns, which are then checked."""
PART_BYTES: Final = 2**17
"""The same for messages whose columns are far larger than the messages: 11 MB, 35 MB when read as spans."""
_DENSE = 4
"""Bytes of columns per byte of message from which messages are crowded. Spans with content have 2."""
_MUCH = 8 * 2**20
"""Bytes of columns below which crowding is harmless."""


def batches_of(
    handler: Any,
    message: Any,
    payloads: Sequence[bytes],
    indexes: list[int],
    group_bytes: int = GROUP_BYTES,
    refused: set[int] | None = None,
) -> Iterator[tuple[list[int], pa.RecordBatch]]:
    """(Payload indexes, their messages as columns) for the payloads that a ptars handler of `message`
    accepts.

    Each part is in order, but the parts need not be. A malformed message makes ptars refuse a whole list, so
    messages that protobuf's own parser refuses are tried alone; those that ptars refuses as well are added to
    `refused`. A group that is all items and no content is left out: with 2 bytes an item its columns take 80
    times its size.
    """
    panicking = {
        i
        for i in indexes
        if (np.frombuffer(payloads[i], np.uint16, len(payloads[i]) // 2) == _ONES).any()
        and overflow_sign(payloads[i]) in payloads[i]
        and not _parses(message, payloads[i])
    }
    refused = set() if refused is None else refused
    refused |= panicking
    indexes = [i for i in indexes if i not in panicking]
    for group in runs_of(indexes, [len(payloads[i]) for i in indexes], group_bytes):
        size = sum(len(payloads[i]) for i in group)
        for part, batch in _batches_of(handler, message, payloads, group, refused):
            if batch.nbytes <= max(_DENSE * size, _MUCH) or group_bytes <= PART_BYTES:
                yield part, batch


def overflow_sign(payload: bytes) -> bytes:
    """Bytes of a length so near 2^64 that adding a position in the payload overflows, on which ptars panics.

    A varint has 7 bits a byte, so all bits but the lowest 14 (21, 35) are seven (six, four) bytes 0xff. The
    longer the run, the faster the search. Payloads that contain it for another reason (negative numbers,
    mostly) are checked by protobuf's own parser first.
    """
    return _RUNS_OF_ONES[(len(payload) >= 2**14) + (len(payload) >= 2**21)]


_ONES: Final = 2**16 - 1
"""Two bytes: of each of the runs below some lie so that they are compared, many times as fast."""
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
    # ptars does not report which message it refuses, and a call costs as much as a hundred messages: halving
    # alone took 25 times as long where one message in ten was malformed. The two parsers agree on nearly all.
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
    """Columns of messages; None if ptars refuses one of them."""
    try:
        return handler.list_to_record_batch(messages)
    except BaseException as error:
        # A panic of ptars is no Exception, and its class cannot be imported.
        if not isinstance(error, ValueError) and type(error).__name__ != "PanicException":
            raise
        return None


_FIELD = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "string": _FIELD.TYPE_STRING,
    "bytes": _FIELD.TYPE_BYTES,
    "bool": _FIELD.TYPE_BOOL,
    "int64": _FIELD.TYPE_INT64,
    "uint64": _FIELD.TYPE_UINT64,
    "fixed64": _FIELD.TYPE_FIXED64,
    "double": _FIELD.TYPE_DOUBLE,
    "uint32": _FIELD.TYPE_UINT32,
    # Enums, and other small numbers, are read as int32: the wire form is equal, and no value is unknown.
    "enum": _FIELD.TYPE_INT32,
}


def message_classes(package: str, messages: Mapping[str, str]) -> dict[str, Any]:
    """Message classes by name.

    `messages`: name → its fields as `number name type; …`. A type is a scalar or a message of the same table,
    with `*` before it if repeated. A map is written in its wire form: repeated messages of key and value.
    """
    file = descriptor_pb2.FileDescriptorProto(name=f"flowdiff/{package}.proto", package=package)
    file.syntax = "proto3"
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for field in fields.split(";"):
            number, field_name, kind = field.split()
            made = message.field.add(name=field_name, number=int(number), label=_FIELD.LABEL_OPTIONAL)
            if kind.startswith("*"):
                made.label = _FIELD.LABEL_REPEATED
                kind = kind.removeprefix("*")
            if kind in _SCALARS:
                made.type = _SCALARS[kind]
            else:
                made.type, made.type_name = _FIELD.TYPE_MESSAGE, f".{package}.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))
        for name in messages
    }


MAX_FIELDS: Final = 50_000
"""Fields of one span over `PART_BYTES`, at most; more carry no information. SDKs stop at 128 attributes,
events and links each.
"""


def has_many_fields(message: bytes, descriptor: Any) -> bool:
    """True if a message has more than MAX_FIELDS. O(MAX_FIELDS); counting of a malformed part ends at the
    error.
    """
    seen = 0
    waiting = [(memoryview(message), descriptor)]
    while waiting:
        body, of = waiting.pop()
        for number, wire, size, after in fields_of(body):
            seen += 1
            if seen > MAX_FIELDS:
                return True
            if wire == BYTES and number in _inner(of):
                waiting.append((body[after - size : after], _inner(of)[number]))
    return False


@cache
def _inner(descriptor: Any) -> dict[int, Any]:
    """Descriptors of the fields that are messages, by number."""
    return {f.number: f.message_type for f in descriptor.fields if f.message_type is not None}


_FIRST_TAG = 0x0A
"""Tag of a message in field 1."""
_FirstField = message_classes("flowdiff.foreign", {"FirstField": "1 bodies *bytes"})["FirstField"]


def refuse_foreign(payloads: Sequence[bytes], indexes: list[int], detail: str, log: RejectLog) -> list[int]:
    """Indexes of the payloads that have field 1 (which contains all data read) or are malformed; others are
    logged.

    Protobuf parses a message without known fields as an empty one, so a message on the wrong topic would give
    neither a span nor a dead letter. Exporters write the field first.
    """
    foreign = [i for i in indexes if payloads[i][0] != _FIRST_TAG and _lacks_first_field(payloads[i])]
    for index in foreign:
        log.add(Reject(Reason.WRONG_SHAPE, detail, payloads[index], index))
    return indexes if not foreign else sorted(set(indexes).difference(foreign))


def _lacks_first_field(payload: bytes) -> bool:
    try:
        return not _FirstField.FromString(payload).bodies
    except DecodeError:
        return False
