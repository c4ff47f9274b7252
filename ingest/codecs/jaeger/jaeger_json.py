"""Jaeger JSON: exports of the UI (`jaeger-ui`), and bare spans (`jaeger-json`) in either of their forms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ingest.codecs.jaeger.jaeger_proto_json import add_proto_json_span, is_proto_json
from ingest.codecs.jaeger.jaeger_spans import add_jaeger_span
from ingest.codecs.port import Decoded
from ingest.codecs.spans.span_items import decode_json_spans
from ingest.codecs.spans.span_rows import SpanRows
from ingest.codecs.values.json_fields import Object, array, as_object
from schemas.config import DecodeConfig


class JaegerJsonCodec:
    """`jaeger-json`: a span, a list of spans, or a span a line.

    A span is written as storage plugins and the UI do, or in protobuf's JSON form as the Collector does.
    """

    name = "jaeger-json"

    def decode(self, payloads: Sequence[bytes], config: DecodeConfig) -> Decoded:
        """See `Codec.decode`; `item` is the span in its payload."""
        return decode_json_spans(payloads, config, _spans, _add_span)


class JaegerUiCodec:
    """`jaeger-ui`: `{"data": [trace, …]}` as the UI and the HTTP API give it, or one trace."""

    name = "jaeger-ui"

    def decode(self, payloads: Sequence[bytes], config: DecodeConfig) -> Decoded:
        """See `Codec.decode`; `item` is the span in its payload."""
        return decode_json_spans(payloads, config, _spans_of_traces, add_jaeger_span)


def _spans(document: object) -> list[object]:
    return document if isinstance(document, list) else [document]


def _spans_of_traces(document: object) -> Iterator[object]:
    """Spans with their processes put in. What is no trace comes out as it is, to be refused as a span."""
    export = as_object(document, "the payload")
    traces: Iterable[object] = [export] if "spans" in export else array(export, "data", required=True)
    for trace in traces:
        fields: Object = trace if isinstance(trace, dict) else {}
        spans, processes = fields.get("spans"), fields.get("processes")
        if not isinstance(spans, list):
            yield trace
            continue
        for span in spans:
            yield _with_process(span, processes if isinstance(processes, dict) else {})


def _with_process(span: object, processes: Object) -> object:
    if not isinstance(span, dict) or span.get("process") is not None:
        return span
    return {**span, "process": processes.get(str(span.get("processID")))}


def _add_span(rows: SpanRows, payload: int, item: int, value: object) -> None:
    if is_proto_json(value):
        add_proto_json_span(rows, payload, item, value)
    else:
        add_jaeger_span(rows, payload, item, value)
