"""Events → OTLP protobuf, by way of the JSON that the product writes and of protobuf's own reader of JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ingest.codecs.otlp.encode_otlp import SPANS_PER_MESSAGE, otlp_json_lines

_IDS = ("traceId", "spanId", "parentSpanId")


def otlp_messages(events: pa.Table, spans_per_message: int = SPANS_PER_MESSAGE) -> Iterator[bytes]:
    """Serialised `ExportTraceServiceRequest` messages. Raises InputError on records."""
    for line in otlp_json_lines(events, spans_per_message):
        told = _with_base64_ids(json.loads(line))
        yield ParseDict(told, ExportTraceServiceRequest()).SerializeToString()


def length_prefixed(messages: Iterator[bytes]) -> Iterator[bytes]:
    """Messages as the Collector's file exporter frames them: after their length in 4 bytes, big endian."""
    for message in messages:
        yield len(message).to_bytes(4, "big") + message


def _with_base64_ids(value: Any) -> Any:
    """OTLP's JSON has ids in hexadecimal, protobuf's own in base64."""
    if isinstance(value, list):
        return [_with_base64_ids(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: base64.b64encode(bytes.fromhex(item)).decode() if key in _IDS else _with_base64_ids(item)
        for key, item in value.items()
    }
