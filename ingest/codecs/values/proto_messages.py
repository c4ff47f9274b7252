"""Protobuf message classes from a table in code: no generated file, no protoc."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

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
