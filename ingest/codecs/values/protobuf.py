"""Make message classes of protobuf without protoc, and refuse messages that are foreign or crowded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from ingest.codecs.dead_letters import RejectLog
from schemas.rejects import Reason, Reject

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
    # Enums, and other small numbers, are read as int32: the wire form is the same, and no value is unknown.
    "enum": _FIELD.TYPE_INT32,
}


def message_classes(package: str, messages: Mapping[str, str]) -> dict[str, Any]:
    """Classes of the messages, by name.

    `messages`: name → its fields as `number name type; …`. A type is a scalar or a message of the same table;
    `*` before it: repeated. A map is written as what it is on the wire: repeated messages of key and value.
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
"""Of one span over `nested.PART_BYTES`; what has more says nothing with them. SDKs stop at 128 attributes,
events and links each."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def has_many_fields(message: bytes, descriptor: Any) -> bool:
    """Whether a message has more than MAX_FIELDS. O(MAX_FIELDS); what is malformed ends the count."""
    seen, at = 0, 0
    levels = [(len(message), _inner(descriptor))]
    while levels and seen <= MAX_FIELDS:
        end, inner = levels[-1]
        if at >= end:
            levels.pop()
            continue
        seen += 1
        tag, at = _varint(message, at)
        wire = tag & 7
        if wire == _BYTES:
            length, at = _varint(message, at)
            after = min(at + length, end)
            if tag >> 3 in inner:
                levels.append((after, _inner(inner[tag >> 3])))
            else:
                at = after
        elif wire == _VARINT:
            _, at = _varint(message, at)
        elif wire in (_FIXED64, _FIXED32):
            at += 8 if wire == _FIXED64 else 4
        else:
            return False
    return seen > MAX_FIELDS


@cache
def _inner(descriptor: Any) -> dict[int, Any]:
    """Descriptors of the fields that are messages, by number."""
    return {f.number: f.message_type for f in descriptor.fields if f.message_type is not None}


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """(value, position after it); the end of the message ends it."""
    value, shift = 0, 0
    while at < len(message):
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 63:
            break
    return value, at


_FIRST_TAG = 0x0A
"""Of a message in field 1."""
_FirstField = message_classes("flowdiff.foreign", {"FirstField": "1 bodies *bytes"})["FirstField"]


def refuse_foreign(payloads: Sequence[bytes], indexes: list[int], detail: str, log: RejectLog) -> list[int]:
    """The payloads that hold field 1, in which all is that is read, or are malformed; the others are logged.

    To protobuf a message of which it knows no field is an empty one: what was sent to the wrong topic would
    be no span, and no dead letter. What exporters write begins with the field itself.
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
