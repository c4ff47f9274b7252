"""Convert nested attribute values of OTLP (lists and objects) to JSON text."""

from __future__ import annotations

import base64

import msgspec
from google.protobuf.message import DecodeError
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue


def json_of_elements(elements: tuple[bytes, ...], *, is_list: bool) -> str:
    """Convert the serialised elements of a list or an object to JSON text.

    If protobuf refuses the elements, because they are nested deeper than 100, the result is a JSON list of
    their bytes in base64.
    """
    try:
        if is_list:
            plain: object = [value_of(AnyValue.FromString(e)) for e in elements]
        else:
            pairs = [KeyValue.FromString(e) for e in elements]
            plain = {pair.key: value_of(pair.value) for pair in pairs}
    except DecodeError:
        plain = [base64.b64encode(e).decode() for e in elements]
    return msgspec.json.encode(plain).decode()


def value_of(value: AnyValue) -> object:
    """Plain Python value of an AnyValue; bytes as base64 text, an unset value as None."""
    which = value.WhichOneof("value")
    if which is None:
        return None
    if which == "array_value":
        return [value_of(v) for v in value.array_value.values]
    if which == "kvlist_value":
        return {pair.key: value_of(pair.value) for pair in value.kvlist_value.values}
    if which == "bytes_value":
        return base64.b64encode(value.bytes_value).decode()
    if which == "string_value_strindex":
        return None
    return getattr(value, which)
