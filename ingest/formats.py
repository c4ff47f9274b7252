"""Table of the input formats, one row each; there is no other list of formats.

To add a format: write a codec in a folder under `ingest/codecs`, and add a row here. A codec's module is
imported when it is first used, as loading may take long.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final

from ingest.framing import MessageShape
from schemas.errors import UnknownFormatError

if TYPE_CHECKING:
    from ingest.codecs.port import Codec


AUTO: Final = "auto"
"""Name that stands for a format still to be recognised from the content."""


class FileLayout(StrEnum):
    """Arrangement of payloads in a file."""

    LINES = "lines"
    """The file contains JSON documents, one per line, or a single document."""
    LINE_BLOCKS = "line-blocks"
    """The file contains JSON documents, one per line, or a single document; the codec accepts many lines as
    one payload."""
    DOCUMENT = "document"
    """The file is one JSON document."""
    MESSAGES = "messages"
    """The file contains protobuf messages, with lengths between them or bare (`framing`)."""
    TABLE = "table"
    """The file is a Parquet file, with rows of named columns (`table_file`)."""


@dataclass(frozen=True, slots=True)
class Format:
    """An input format: name, codec, and the signs by which its files are recognised."""

    name: str
    """Name of the format as used for `--format`."""
    codec: str
    """Codec class of the format, as `module:class`."""
    layout: FileLayout
    keys: tuple[frozenset[str], ...] = ()
    """Sets of keys, for a JSON format: the outermost object (or the first one in a list) contains all keys of
    one set."""
    shape: MessageShape | None = None
    """Shape of the format's messages, for a protobuf format; None: the format is not protobuf."""
    magic: bytes = b""
    """Magic number with which files of the format begin; empty: there is none."""
    aliases: tuple[str, ...] = ()
    """Other names of the format accepted by `--format`; in all names `_` equals `-`, as in the Collector's
    configuration."""


FORMATS: Final = (
    Format(
        "native",
        "ingest.codecs.native.native:NativeCodec",
        FileLayout.LINE_BLOCKS,
        keys=(frozenset({"breadcrumb", "component", "point"}),),
    ),
    Format(
        "otlp-json",
        "ingest.codecs.otlp.otlp_json:OtlpJsonCodec",
        FileLayout.LINES,
        # The names that exporters, protobuf and Tempo's API use.
        keys=(frozenset({"resourceSpans"}), frozenset({"resource_spans"}), frozenset({"batches"})),
    ),
    Format(
        "zipkin-proto",
        "ingest.codecs.zipkin.zipkin_proto:ZipkinProtoCodec",
        FileLayout.MESSAGES,
        # Before otlp-proto: a span with ids only could be taken for a resource with a scope.
        shape=MessageShape(
            fields=frozenset({1}),
            bytes_only=True,
            inner=MessageShape(
                fields=frozenset(range(1, 14)),
                sizes=((1, frozenset({8, 16})), (2, frozenset({0, 8})), (3, frozenset({8}))),
                needs=frozenset({1, 3}),
            ),
        ),
    ),
    Format(
        "otlp-proto",
        "ingest.codecs.otlp.otlp_proto:OtlpProtoCodec",
        FileLayout.MESSAGES,
        # A request has only the field resource_spans, whose fields are resource, scopes and schema.
        shape=MessageShape(
            fields=frozenset({1}),
            bytes_only=True,
            inner=MessageShape(fields=frozenset({1, 2, 3, 1000}), bytes_only=True),
        ),
    ),
    Format(
        "jaeger-ui",
        "ingest.codecs.jaeger.jaeger_json:JaegerUiCodec",
        FileLayout.DOCUMENT,
        keys=(frozenset({"data"}), frozenset({"spans", "processes"})),
    ),
    Format(
        "jaeger-json",
        "ingest.codecs.jaeger.jaeger_json:JaegerJsonCodec",
        FileLayout.LINES,
        # The form of the UI and storage plugins, and protobuf's JSON form.
        keys=(
            frozenset({"traceID", "spanID"}),
            frozenset({"traceId", "spanId", "startTime"}),
            frozenset({"trace_id", "span_id", "start_time"}),
        ),
    ),
    Format(
        "jaeger-proto",
        "ingest.codecs.jaeger.jaeger_proto:JaegerProtoCodec",
        FileLayout.MESSAGES,
        # A span begins with a trace id of 16 bytes and a span id of 8.
        shape=MessageShape(fields=frozenset(range(1, 13)), begins=((1, 16), (2, 8))),
    ),
    Format(
        "zipkin",
        "ingest.codecs.zipkin.zipkin_json:ZipkinCodec",
        FileLayout.LINES,
        keys=(frozenset({"traceId", "id"}),),
        aliases=("zipkin-json",),
    ),
    Format(
        "xtrace",
        "ingest.codecs.xtrace.xtrace:XTraceCodec",
        FileLayout.DOCUMENT,
        keys=(frozenset({"id", "reports"}),),
    ),
    Format("parquet", "ingest.codecs.parquet.parquet:ParquetCodec", FileLayout.TABLE, magic=b"PAR1"),
)
"""All formats, in order of precedence: if several match a file, the first is used."""


def format_names() -> tuple[str, ...]:
    """Names of all formats that `--format` accepts, without aliases."""
    return tuple(row.name for row in FORMATS)


def format_of(name: str) -> Format:
    """Format with this name or alias (`otlp_proto`). Raises UnknownFormatError."""
    written = name.lower().replace("_", "-")
    for row in FORMATS:
        if written in (row.name, *row.aliases):
            return row
    raise UnknownFormatError(f"'{name}' is not a format.", remedy=f"Use one of: {', '.join(format_names())}.")


@cache
def codec_for(name: str) -> Codec:
    """Codec of the format with this name, one object per process. Raises UnknownFormatError."""
    row = format_of(name)
    if row.name != name:
        return codec_for(row.name)
    module, class_ = row.codec.split(":")
    codec: Codec = getattr(import_module(module), class_)()
    return codec
