"""The closed list of formats."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from ingest.codecs.jaeger_json import JaegerJsonCodec, JaegerUiCodec
from ingest.codecs.jaeger_proto import JaegerProtoCodec
from ingest.codecs.native import NativeCodec
from ingest.codecs.otlp_json import OtlpJsonCodec
from ingest.codecs.otlp_proto import OtlpProtoCodec
from ingest.codecs.port import Codec
from ingest.codecs.xtrace import XTraceCodec
from ingest.codecs.zipkin import ZipkinCodec
from schemas.errors import UnknownFormatError

_CODECS: dict[str, Callable[[], Codec]] = {
    codec.name: codec
    for codec in (
        NativeCodec,
        OtlpJsonCodec,
        OtlpProtoCodec,
        JaegerUiCodec,
        JaegerJsonCodec,
        JaegerProtoCodec,
        ZipkinCodec,
        XTraceCodec,
    )
}

FORMATS = tuple(_CODECS)
"""Names for `--format`."""


def require_format(name: str) -> str:
    """`name`, if it is a format. Raises UnknownFormatError."""
    if name not in _CODECS:
        raise UnknownFormatError(f"'{name}' is not a format.", remedy=f"Use one of: {', '.join(FORMATS)}.")
    return name


@cache
def codec_for(name: str) -> Codec:
    """The codec of a format; one a process. Raises UnknownFormatError."""
    return _CODECS[require_format(name)]()
