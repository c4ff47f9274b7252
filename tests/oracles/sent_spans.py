"""Requests of OTLP with plain traces of now, and what a lake must say of them."""

from __future__ import annotations

import http.client
import json
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from stitch.lake.encoding import decode
from stitch.lake.manifest import open_manifest
from stitch.lake.place import open_store

CALLS = 3
PROTOBUF = {"Content-Type": "application/x-protobuf"}


@dataclass(frozen=True)
class Trace:
    """One trace: a root with some calls below it."""

    number: int
    began_ns: int

    @property
    def trace_id(self) -> bytes:
        return self.number.to_bytes(16, "big")

    def spans(self) -> ExportTraceServiceRequest:
        """All of its spans in one request."""
        request = ExportTraceServiceRequest()
        resource = request.resource_spans.add()
        resource.resource.attributes.add(key="service.name").value.string_value = "shop"
        scope = resource.scope_spans.add()
        for call in range(CALLS + 1):
            span = scope.spans.add(
                trace_id=self.trace_id,
                span_id=(self.number * 16 + call + 1).to_bytes(8, "big"),
                name=f"call-{call}" if call else "GET /",
                kind=2 if call == 0 else 1,
                start_time_unix_nano=self.began_ns + call * 1_000_000,
                end_time_unix_nano=self.began_ns + (10 if call == 0 else call + 1) * 1_000_000,
            )
            if call:
                span.parent_span_id = (self.number * 16 + 1).to_bytes(8, "big")
        return request

    def protobuf(self) -> bytes:
        """Request in protobuf."""
        return self.spans().SerializeToString()

    def json(self) -> bytes:
        """Request in OTLP's JSON: ids in hex."""
        document = MessageToDict(self.spans(), preserving_proto_field_name=False, use_integers_for_enums=True)
        for resource in document["resourceSpans"]:
            for scope in resource["scopeSpans"]:
                for span, made in zip(
                    scope["spans"], self.spans().resource_spans[0].scope_spans[0].spans, strict=True
                ):
                    span["traceId"], span["spanId"] = made.trace_id.hex(), made.span_id.hex()
                    if made.parent_span_id:
                        span["parentSpanId"] = made.parent_span_id.hex()
        return json.dumps(document).encode()


def nodes_by_request(lake: Path) -> dict[str, int]:
    """Nodes of every flow of a lake by request id; fails where a request has two flows."""
    store = open_store(str(lake))
    found: Counter[str] = Counter()
    nodes: dict[str, int] = {}
    for file in open_manifest(store).files("flows"):
        for row in decode("flows", store.read(file.name)).select(["request_id", "offset_ns"]).to_pylist():
            found[row["request_id"]] += 1
            nodes[row["request_id"]] = len(row["offset_ns"])
    assert set(found.values()) <= {1}, "a request has two flows"
    return nodes


def nodes_of(traces: list[Trace]) -> dict[str, int]:
    """Nodes that traces must have in a lake: two a span."""
    return {trace.trace_id.hex(): 2 * (CALLS + 1) for trace in traces}


def post(
    address: str, body: bytes, headers: dict[str, str] | None = None, path: str = "/v1/traces"
) -> tuple[int, bytes, dict[str, str]]:
    """Status, body and headers of an answer."""
    connection = http.client.HTTPConnection(address, timeout=30)
    try:
        connection.request("POST", path, body, PROTOBUF if headers is None else headers)
        answer = connection.getresponse()
        return answer.status, answer.read(), {k.lower(): v for k, v in answer.getheaders()}
    finally:
        connection.close()


def traces(n: int, *, first: int = 1, ago_s: int = 3_600) -> list[Trace]:
    """Traces of some time ago, apart by a tenth of a second."""
    began = time.time_ns() - ago_s * 10**9
    return [Trace(first + i, began + i * 10**9 // 10) for i in range(n)]
