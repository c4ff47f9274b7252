"""The closed list of formats. A codec's module is imported when it is used: some take long to load."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Final

from ingest.codecs.port import Codec
from schemas.errors import UnknownFormatError

_CODECS: Final = {
    "native": "native.native.NativeCodec",
    "otlp-json": "otlp.otlp_json.OtlpJsonCodec",
    "otlp-proto": "otlp.otlp_proto.OtlpProtoCodec",
    "jaeger-ui": "jaeger.jaeger_json.JaegerUiCodec",
    "jaeger-json": "jaeger.jaeger_json.JaegerJsonCodec",
    "jaeger-proto": "jaeger.jaeger_proto.JaegerProtoCodec",
    "zipkin": "zipkin.zipkin.ZipkinCodec",
    "xtrace": "xtrace.xtrace.XTraceCodec",
}
"""Format → module and class below `ingest.codecs`."""

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
    module, class_ = _CODECS[require_format(name)].rsplit(".", 1)
    codec: Codec = getattr(import_module(f"ingest.codecs.{module}"), class_)()
    return codec
