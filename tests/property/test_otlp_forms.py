"""The same spans as protobuf, as JSON, and read by protobuf's own parser: the same events."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from oracles.examples import examples
from oracles.otlp_spans import as_json, as_printed, read_slowly, requests

from ingest.formats import codec_for
from schemas.config import DecodeConfig

CONFIG = DecodeConfig(event_points=("mark",), max_params_per_event=6)


def rows(events: pa.Table) -> list[dict[str, object]]:
    return events.to_pylist()


@examples(50, suppress_health_check=list(HealthCheck))
@given(st.lists(requests(), min_size=1, max_size=3))
def test_protobuf_json_and_the_slow_parser_agree(batch: list[ExportTraceServiceRequest]) -> None:
    batch = [r for r in batch if r.ByteSize()]
    messages = [r.SerializeToString() for r in batch]
    slow = read_slowly(messages, CONFIG)
    fast = codec_for("otlp-proto").decode(messages, CONFIG)
    json_ = codec_for("otlp-json").decode([as_json(r) for r in batch], CONFIG)
    assert rows(fast.events) == rows(slow)
    assert rows(json_.events) == rows(slow)
    for enum_names in (False, True):  # by columns, item by item
        printed = codec_for("otlp-json").decode([as_printed(r, enum_names=enum_names) for r in batch], CONFIG)
        assert rows(printed.events) == rows(slow)
    assert fast.oddities == json_.oddities
    assert [(r.payload, r.item, r.reason) for r in fast.rejects] == [
        (r.payload, r.item, r.reason) for r in json_.rejects
    ]
