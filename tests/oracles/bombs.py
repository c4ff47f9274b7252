"""Inputs of 4 MB that name as many things as they can: what a codec makes of each must stay small."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

SIZE: Final = 4 * 2**20
READ_ONE_BY_ONE: Final = SIZE // 24
"""Bombs of a format whose messages are read one by one, 20 µs each, are smaller."""


def field(number: int, body: bytes) -> bytes:
    """A length-delimited protobuf field."""
    out, length = bytearray([number << 3 | 2]), len(body)
    while length > 0x7F:
        out.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes([*out, length]) + body


def fill(piece: bytes, size: int = SIZE) -> bytes:
    """Nearly 4 MB of one piece, or as much as is asked for."""
    return piece * ((size - 1_000) // len(piece))


_IDS = field(1, bytes(range(1, 17))) + field(2, bytes(range(1, 9)))
_ZIPKIN_IDS = field(1, bytes(range(1, 17))) + field(3, bytes(range(1, 9)))
_TIMES = b"\x39" + (1_700_000_000_000_000_000).to_bytes(8, "little")


def _otlp(scope: bytes, resource: bytes = b"") -> bytes:
    return field(1, (field(1, resource) if resource else b"") + field(2, scope))


def _otlp_span(body: bytes) -> bytes:
    return _otlp(field(2, _IDS + _TIMES + body))


def _value(body: bytes) -> bytes:
    return field(9, field(1, b"k") + field(2, body))


def _array(json: str, head: str = "[", tail: str = "]") -> bytes:
    return (head + (fill(json.encode()).decode()).rstrip(",") + tail).encode()


_OTLP_HEAD = '{"resourceSpans":[{"scopeSpans":[{"spans":['
_OTLP_TAIL = "]}]}]}"
_SPAN = '{"traceId":"0102030405060708090a0b0c0d0e0f10","spanId":"0102030405060708",'
_JAEGER = '{"traceID":"0102030405060708","spanID":"0102030405060708","startTime":1700000000000000,'
_JAEGER_PROTO = '{"traceId":"AQIDBAUGBwgJCgsMDQ4PEA==","spanId":"AQIDBAUGBwg=",'
_ZIPKIN = '[{"traceId":"0102030405060708","id":"0102030405060708","timestamp":1700000000000000,"duration":5,'
_XTRACE = '[{"id":"a","reports":['

BOMBS: Final[dict[str, tuple[str, Callable[[], bytes]]]] = {
    "resources": ("otlp-proto", lambda: fill(field(1, b""))),
    "scopes": ("otlp-proto", lambda: field(1, fill(field(2, b"")))),
    "spans": ("otlp-proto", lambda: _otlp(fill(field(2, b"")))),
    "spans of a byte": ("otlp-proto", lambda: _otlp(fill(field(2, b"\x30\x02")))),
    "spans with an empty attribute": ("otlp-proto", lambda: _otlp(fill(field(2, field(9, b""))))),
    "spans and garbage": ("otlp-proto", lambda: _otlp(fill(field(2, b"")) + field(2, b"\x0a\x7f"))),
    "spans and ones": ("otlp-proto", lambda: _otlp(fill(field(2, b"")) + field(2, field(5, b"\xff" * 9)))),
    "ids only": ("otlp-proto", lambda: _otlp(fill(field(2, _IDS)))),
    "attributes": ("otlp-proto", lambda: _otlp_span(fill(field(9, b"")))),
    "attributes with a key": (
        "otlp-proto",
        lambda: _otlp_span(fill(field(9, field(1, b"") + field(2, b"\x10\x01")))),
    ),
    "attributes of a resource": ("otlp-proto", lambda: _otlp(field(2, _IDS), fill(field(1, b"")))),
    "events": ("otlp-proto", lambda: _otlp_span(fill(field(11, b"")))),
    "attributes of an event": ("otlp-proto", lambda: _otlp_span(field(11, fill(field(3, b""))))),
    "links": ("otlp-proto", lambda: _otlp_span(fill(field(13, b"")))),
    "elements": ("otlp-proto", lambda: _otlp_span(_value(field(5, fill(field(1, b"")))))),
    "elements of an element": (
        "otlp-proto",
        lambda: _otlp_span(_value(field(5, field(1, field(5, fill(field(1, b""))))))),
    ),
    "pairs": ("otlp-proto", lambda: _otlp_span(_value(field(6, fill(field(1, b"")))))),
    "tags": ("jaeger-proto", lambda: _IDS + fill(field(8, b""))),
    "logs": ("jaeger-proto", lambda: _IDS + fill(field(9, b""))),
    "fields of a log": ("jaeger-proto", lambda: _IDS + field(9, fill(field(2, b"")))),
    "references": ("jaeger-proto", lambda: _IDS + fill(field(4, b""))),
    "tags of a process": ("jaeger-proto", lambda: _IDS + field(10, fill(field(2, b"")))),
    "warnings": ("jaeger-proto", lambda: _IDS + fill(field(12, b""))),
    "tags and garbage": ("jaeger-proto", lambda: _IDS + fill(field(8, b"")) + field(8, b"\x0a\x7f")),
    "zipkin messages": ("zipkin-proto", lambda: fill(field(1, b""), READ_ONE_BY_ONE)),
    "zipkin messages of ids": ("zipkin-proto", lambda: fill(field(1, _ZIPKIN_IDS), READ_ONE_BY_ONE)),
    "zipkin messages of a byte": ("zipkin-proto", lambda: fill(field(1, b"\x38\x02"), READ_ONE_BY_ONE)),
    "zipkin tags": ("zipkin-proto", lambda: field(1, _ZIPKIN_IDS + fill(field(11, b"")))),
    "zipkin message annotations": ("zipkin-proto", lambda: field(1, _ZIPKIN_IDS + fill(field(10, b"")))),
    "zipkin messages and garbage": (
        "zipkin-proto",
        lambda: fill(field(1, b""), READ_ONE_BY_ONE) + field(1, field(11, b"\x0a\x7f")),
    ),
    "jaeger tags of messages": ("jaeger-json", lambda: _array("{},", _JAEGER_PROTO + '"tags":[', "]}")),
    "json spans": ("otlp-json", lambda: _array("{},", _OTLP_HEAD, _OTLP_TAIL)),
    "json numbers": ("otlp-json", lambda: _array("0,", _OTLP_HEAD, _OTLP_TAIL)),
    "json lists": ("otlp-json", lambda: _array("[],", _OTLP_HEAD, _OTLP_TAIL)),
    "json spans of a field": ("otlp-json", lambda: _array('{"":0},', _OTLP_HEAD, _OTLP_TAIL)),
    "json spans in short": ("otlp-json", lambda: _array('{"spanId":"1"},', _OTLP_HEAD, _OTLP_TAIL)),
    "json resources": ("otlp-json", lambda: _array("{},", '{"resourceSpans":[', "]}")),
    "json scopes": ("otlp-json", lambda: _array("{},", '{"resourceSpans":[{"scopeSpans":[', "]}]}")),
    "json attributes": (
        "otlp-json",
        lambda: _array("{},", _OTLP_HEAD + _SPAN + '"attributes":[', "]}" + _OTLP_TAIL),
    ),
    "json events": ("otlp-json", lambda: _array("{},", _OTLP_HEAD + _SPAN + '"events":[', "]}" + _OTLP_TAIL)),
    "json links": ("otlp-json", lambda: _array("{},", _OTLP_HEAD + _SPAN + '"links":[', "]}" + _OTLP_TAIL)),
    "json elements": (
        "otlp-json",
        lambda: _array(
            "{},",
            _OTLP_HEAD + _SPAN + '"attributes":[{"key":"k","value":{"arrayValue":{"values":[',
            "]}}}]}" + _OTLP_TAIL,
        ),
    ),
    "json unknown": ("otlp-json", lambda: _array("{},", '{"resourceSpans":[],"x":[', "]}")),
    "json lines": ("otlp-json", lambda: fill(b"{}\n")),
    "jaeger spans": ("jaeger-json", lambda: _array("{},")),
    "jaeger tags": ("jaeger-json", lambda: _array("{},", _JAEGER + '"tags":[', "]}")),
    "jaeger tags in short": (
        "jaeger-json",
        lambda: _array('{"key":"a","value":1},', _JAEGER + '"tags":[', "]}"),
    ),
    "jaeger logs": ("jaeger-json", lambda: _array("{},", _JAEGER + '"logs":[', "]}")),
    "jaeger references": ("jaeger-json", lambda: _array("{},", _JAEGER + '"references":[', "]}")),
    "jaeger lines": ("jaeger-json", lambda: fill(b"{}\n")),
    "exported traces": ("jaeger-ui", lambda: _array("{},", '{"data":[', "]}")),
    "exported spans": ("jaeger-ui", lambda: _array("{},", '{"data":[{"spans":[', '],"processes":{}}]}')),
    "zipkin spans": ("zipkin", lambda: _array("{},")),
    "zipkin traces": ("zipkin", lambda: _array("[],")),
    "zipkin spans in short": ("zipkin", lambda: _array('{"id":"1"},')),
    "zipkin annotations": ("zipkin", lambda: _array("{},", _ZIPKIN + '"annotations":[', "]}]")),
    "xtrace tasks": ("xtrace", lambda: _array("{},")),
    "xtrace reports": ("xtrace", lambda: _array("{},", _XTRACE, "]}]")),
    "xtrace reports of lists": ("xtrace", lambda: _array("[],", _XTRACE, "]}]")),
    "native records": ("native", lambda: _array("{},")),
    "native lines": ("native", lambda: fill(b"{}\n")),
    "native blanks": ("native", lambda: fill(b"\n")),
    "native links": (
        "native",
        lambda: _array(
            '"",',
            '{"breadcrumb":"b","component":"c","point":"p","ts":1700000000000000000,"kind":"split","links":[',
            "]}",
        ),
    ),
    "native params": (
        "native",
        lambda: _array(
            '"":0,',
            '{"breadcrumb":"b","component":"c","point":"p","ts":1700000000000000000,"params":{',
            "}}",
        ),
    ),
}
"""By name: format, and how to make the payload."""
