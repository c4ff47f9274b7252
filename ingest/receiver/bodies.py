"""Bodies of OTLP requests: decompress them within a limit, and check that they are readable."""

from __future__ import annotations

import io
import zlib
from typing import Final

import msgspec
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ingest.codecs.payloads import JSON_ERRORS
from ingest.compressed import GZIP, ZSTD, ByteSource
from ingest.receiver.receiver_settings import JSON, PROTOBUF
from schemas.errors import FlowdiffError

ENCODINGS: Final = ("gzip", "zstd", "deflate", "identity")
"""Content encodings that are accepted."""
_ZLIB: Final = tuple(bytes((0x78, level)) for level in (0x01, 0x5E, 0x9C, 0xDA))
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class BodyError(FlowdiffError):
    """A body is unreadable: sending it again would not help."""

    slug = "body"


class TooLargeError(BodyError):
    """A body is over the limit, compressed or decompressed."""

    slug = "too-large"


def unpacked(body: bytes, encoding: str, limit_bytes: int) -> bytes:
    """Content of a body in one of ENCODINGS, decompressed only up to the limit. Raises BodyError."""
    match encoding:
        case "identity":
            content = body
        case "deflate":
            content = _inflated(body, limit_bytes)
        case _:
            source = ByteSource(io.BytesIO(body))
            content = source.read(limit_bytes + 1)
            if source.failure is not None or not body.startswith(GZIP if encoding == "gzip" else ZSTD):
                raise BodyError(f"The body is not {encoding}: {source.failure or 'other bytes'}.")
    if len(content) > limit_bytes:
        raise TooLargeError(f"The body has more than {limit_bytes} bytes.")
    return content


def _inflated(body: bytes, limit_bytes: int) -> bytes:
    inflater = zlib.decompressobj()
    try:
        content = inflater.decompress(body, limit_bytes + 1)
    except zlib.error as error:
        raise BodyError(f"The body is not deflate: {error}.") from error
    if len(content) <= limit_bytes and not inflater.eof:
        raise BodyError("The body is not deflate: it is cut off.")
    return content


def encoding_of(message: bytes) -> str:
    """Encoding of a gRPC message by its first bytes, with none of which an OTLP request begins."""
    if message.startswith(GZIP):
        return "gzip"
    return "deflate" if message.startswith(_ZLIB) else "identity"


def is_empty(content: bytes, format_: str) -> bool:
    """True for a request without any field, and so without spans: no bytes of protobuf, `{}` of JSON."""
    return not content or (format_ == JSON and content.strip() == b"{}")


def check_readable(content: bytes, format_: str) -> None:
    """Raise BodyError for unreadable content, as judged by protobuf's own parser or JSON's."""
    if format_ == PROTOBUF:
        try:
            ExportTraceServiceRequest.FromString(content)
        except DecodeError as error:
            raise BodyError("The body is no ExportTraceServiceRequest.") from error
        return
    try:
        str(content, "utf-8")  # msgspec does not look at what it skips
        _OBJECT.decode(content)
    except JSON_ERRORS as error:
        raise BodyError(f"The body is no JSON object: {error}.") from error
