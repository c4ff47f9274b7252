"""Define message classes of protobuf without protoc, and read messages into nested Arrow columns.

Messages of another type and dense messages are refused; ptars reads the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from ingest.codecs.dead_letters import RejectLog
from ingest.codecs.payloads import runs_of
from ingest.codecs.values.wire import BYTES, fields_of
from schemas.rejects import Reason, Reject

GROUP_BYTES: Final = 2**20
"""Approximate bytes of messages passed to ptars at once, which take at most 80 MB of columns; the columns are
then checked."""
PART_BYTES: Final = 2**17
"""Approximate bytes of dense messages passed to ptars at once: they take 11 MB of columns, and 35 MB when
read as spans."""
_DENSE = 4
"""Bytes of columns per byte of message above which a group of messages is called dense; usual spans take
2."""
_MUCH = 8 * 2**20
"""Size of columns in bytes up to which a group of messages is accepted even if it is dense."""


def parses(message: Any, payload: bytes) -> bool:
    """True if protobuf's own parser accepts the payload."""
    try:
        message.FromString(payload)
    except DecodeError:
        return False
    return True


def canonical(message: Any, payload: bytes) -> bytes | None:
    """Rewrite a payload in protobuf's canonical form; None if protobuf's own parser refuses it.

    Unknown fields are dropped; if a field that is not repeated occurs several times, the last value is kept
    (messages are merged); numbers get their shortest encoding. So other readers need no special cases. Takes
    five times as long as parsing.
    """
    try:
        parsed = message.FromString(payload)
    except DecodeError:
        return None
    parsed.DiscardUnknownFields()
    written: bytes = parsed.SerializeToString()
    return written


def batches_of(
    handler: Any, messages: Sequence[bytes], group_bytes: int = GROUP_BYTES
) -> Iterator[tuple[list[int], pa.RecordBatch]]:
    """Yield (positions, record batch) for groups of messages read by a ptars handler, in order; positions:
    indexes into `messages`.

    Protobuf must accept each message: for a malformed one ptars refuses the group, or panics. A group
    that is dense (`_DENSE`) and large (`_MUCH`) is left out unless `group_bytes` is small (`PART_BYTES`):
    messages of items without content, 2 bytes each, take 80 times their size as columns.
    """
    for group in runs_of(range(len(messages)), map(len, messages), group_bytes):
        size = sum(len(messages[i]) for i in group)
        batch = handler.list_to_record_batch([messages[i] for i in group])
        if batch.nbytes <= max(_DENSE * size, _MUCH) or group_bytes <= PART_BYTES:
            yield group, batch


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
    """Make protobuf message classes, by name, from a description as text.

    `messages`: name → its fields as `number name type; …`. A type is a scalar or another message of the
    table, with `*` before it if repeated, or `?` before a scalar if absence differs from 0 or "". A map is
    described by its wire format: repeated messages of key and value.
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
            elif kind.startswith("?"):
                made.proto3_optional, made.oneof_index = True, len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field_name}")
                kind = kind.removeprefix("?")
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
"""Maximum number of fields in a span larger than `PART_BYTES`; a span with more is refused as garbage. SDKs
stop at 128 attributes, events and links each."""


def has_many_fields(message: bytes, descriptor: Any) -> bool:
    """True if a message has more than MAX_FIELDS fields. O(MAX_FIELDS); in a malformed message counting ends
    at the error."""
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
    """Number of each field that contains messages -> descriptor of the message type."""
    return {f.number: f.message_type for f in descriptor.fields if f.message_type is not None}


_FIRST_TAG = 0x0A
"""Tag byte of field 1 if it contains a message."""
_FirstField = message_classes("flowdiff.foreign", {"FirstField": "1 bodies *bytes"})["FirstField"]


def refuse_foreign(payloads: Sequence[bytes], indexes: list[int], detail: str, log: RejectLog) -> list[int]:
    """Indexes of the payloads that have field 1 (which contains all data read) or are malformed; the other
    payloads are added to `log` as rejects, with `detail`.

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
