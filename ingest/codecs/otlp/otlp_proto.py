"""OTLP protobuf: `ExportTraceServiceRequest` messages, as the Collector's Kafka and file exporters write.

ptars turns all payloads into nested Arrow at once; those that it refuses go to protobuf's own parser.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec
import numpy as np
import pyarrow as pa
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import DESCRIPTOR, ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from ptars import HandlerPool

from ingest.codecs.otlp.otlp_arrow import OtlpArrowReader
from ingest.codecs.otlp.otlp_message import add_request, parse_request, spans_of, value_of
from ingest.codecs.payloads import sized
from ingest.codecs.port import Decoded
from ingest.codecs.spans.span_batch import SpanBatch, log_bad_spans
from ingest.codecs.spans.span_rows import SpanRows
from ingest.codecs.spans.spans_to_events import events_of_spans, in_payload_order
from ingest.codecs.values.nested import batches_of
from schemas.config import DecodeConfig
from schemas.rejects import Reason, Reject

_HANDLER = HandlerPool([DESCRIPTOR]).get_for_message(ExportTraceServiceRequest.DESCRIPTOR)


class OtlpProtoCodec:
    """`otlp-proto`: one request message a payload."""

    name = "otlp-proto"

    def decode(self, payloads: Sequence[bytes], config: DecodeConfig) -> Decoded:
        """See `Codec.decode`. O(bytes)."""
        good, log = sized(payloads, config)
        pieces = [
            (part, batch.column(0))
            for part, batch in batches_of(_HANDLER, ExportTraceServiceRequest, payloads, good)
        ]
        rows = SpanRows()
        for index in sorted(set(good).difference(*(part for part, _ in pieces))):
            try:
                add_request(rows, index, parse_request(payloads[index]))
            except DecodeError:
                detail = "no ExportTraceServiceRequest message"
                log.add(Reject(Reason.BAD_PROTOBUF, detail, payloads[index], index))
        batches = [rows.batch()] if len(rows) else []
        if pieces:
            batches.append(_span_batch(pieces))
        results = [events_of_spans(batch, config) for batch in batches]
        oddities: Counter[str] = Counter()
        for result in results:
            oddities += result.oddities
            log_bad_spans(result.bad, lambda p: _raw_spans(payloads[p]), log)
        return Decoded(in_payload_order(results), log.in_order(), oddities, log.counts)


def _span_batch(pieces: list[tuple[list[int], pa.Array]]) -> SpanBatch:
    """One batch of all pieces, its payload numbers those of the codec's list."""
    columns = [column for _, column in pieces]
    spans = _READER.spans(columns[0] if len(columns) == 1 else pa.concat_arrays(columns))
    index = np.array([i for part, _ in pieces for i in part], np.int64)
    return replace(spans, payload=index[spans.payload])


def _nested_text(column: pa.Array, which: str) -> pa.Array:
    """Base64 of bytes; compact JSON of arrays and key-value lists, whose elements ptars leaves serialised.

    Python per value, once per distinct one: command lines and the like repeat in every resource.
    """
    known: dict[tuple[bytes, ...], str] = {}
    out: list[str | None] = []
    for value in column.to_pylist():
        if value is None:
            out.append(None)
            continue
        if which == "bytes_value":
            out.append(base64.b64encode(value).decode())
            continue
        elements = tuple(value["values"] or ())
        if elements not in known:
            known[elements] = _json_of(elements, which)
        out.append(known[elements])
    return pa.array(out, pa.string())


def _json_of(elements: tuple[bytes, ...], which: str) -> str:
    """JSON of the elements; base64 of their bytes if protobuf refuses them (nested deeper than 100)."""
    try:
        if which == "array_value":
            plain: object = [value_of(AnyValue.FromString(e)) for e in elements]
        else:
            pairs = [KeyValue.FromString(e) for e in elements]
            plain = {pair.key: value_of(pair.value) for pair in pairs}
    except DecodeError:
        plain = [base64.b64encode(e).decode() for e in elements]
    return msgspec.json.encode(plain).decode()


def _raw_spans(payload: bytes) -> Callable[[int], bytes]:
    """Bytes of a span of the message by item; of the whole message if protobuf itself refuses it."""
    try:
        spans = list(spans_of(parse_request(payload)))
    except DecodeError:
        return lambda _: payload
    return lambda item: spans[item].SerializeToString()


_READER = OtlpArrowReader(lambda name: name, _nested_text)
