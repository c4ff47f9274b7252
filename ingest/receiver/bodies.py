"""Bodies of OTLP requests: decompress them up to a size limit, and check that they can be decoded."""

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
"""Content encodings of a body that are accepted."""
_ZLIB: Final = tuple(bytes((0x78, level)) for level in (0x01, 0x5E, 0x9C, 0xDA))
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class BodyError(FlowdiffError):
    """The body of a request cannot be decoded: sending it again would not help."""

    slug = "body"


class TooLargeError(BodyError):
    """The body of a request exceeds the size limit, compressed or decompressed."""

    slug = "too-large"


def unpacked(body: bytes, encoding: str, limit_bytes: int) -> bytes:
    """Decompress a body, whose encoding is one of ENCODINGS, up to the limit. Raises BodyError."""
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
    """Encoding (compression) of a gRPC message, recognised by its first bytes: no OTLP request begins like a
    compressed one."""
    if message.startswith(GZIP):
        return "gzip"
    return "deflate" if message.startswith(_ZLIB) else "identity"


def is_empty(content: bytes, format_: str) -> bool:
    """True if a request has no field, and so no spans: protobuf without bytes, or JSON `{}`."""
    return not content or (format_ == JSON and content.strip() == b"{}")


def check_readable(content: bytes, format_: str) -> None:
    """Raise BodyError if the parser of the format, protobuf's own or a JSON parser, refuses the content."""
    if format_ == PROTOBUF:
        try:
            ExportTraceServiceRequest.FromString(content)
        except DecodeError as error:
            raise BodyError("The body is no ExportTraceServiceRequest.") from error
        return
    try:
        str(content, "utf-8")  # msgspec does not check UTF-8 in fields that it skips
        _OBJECT.decode(content)
    except JSON_ERRORS as error:
        raise BodyError(f"The body is no JSON object: {error}.") from error
