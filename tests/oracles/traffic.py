"""Seeded traffic as files: native records and OTLP messages, written by the plainest means."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

START_NS = 1_763_600_000_000_000_000
SPANS_PER_MESSAGE = 100


def native_lines(n_requests: int, *, seed: int = 1, seconds: int = 600, id_base: int = 0) -> Iterator[str]:
    """NDJSON records, about 30 a request: loops and a fork of two strands, with parameters.

    Requests are interleaved four at a time, as their records would be on a topic.
    """
    rng = random.Random(seed)
    open_requests: list[list[str]] = []
    for number in range(n_requests):
        open_requests.append(_native_request(rng, id_base + number, number * seconds * 10**9 // n_requests))
        if len(open_requests) == 4 or number == n_requests - 1:
            for tail in range(max(map(len, open_requests))):
                yield from (lines[tail] for lines in open_requests if tail < len(lines))
            open_requests = []


def _native_request(rng: random.Random, number: int, after_ns: int) -> list[str]:
    request, ts = f"req-{number:08d}", START_NS + after_ns
    lines: list[str] = []

    def record(crumb: str, component: str, point: str, extra: str = "") -> None:
        nonlocal ts
        ts += rng.randrange(20_000, 400_000)
        lines.append(
            f'{{"request_id":"{request}","breadcrumb":"{request}{crumb}","ts":{ts},"component":"{component}",'
            f'"point":"{point}","host":"{component}-{number % 3}"{extra}}}'
        )

    record("", "nfs", "ENTER", f',"params":{{"size":{rng.randrange(1 << 20)},"op":"read"}}')
    for _ in range(rng.randrange(1, 6)):
        record("", "mds", "LOOKUP", f',"label":"{rng.choice(["HIT", "MISS"])}"')
    record("", "nfs", "FORK", f',"kind":"split","links":["{request}-a","{request}-b"]')
    for crumb in ("-a", "-b"):
        for _ in range(rng.choice((4, 8))):
            record(crumb, "storage", "READ")
            record(crumb, "storage", "DISK", f',"params":{{"block":{rng.randrange(1 << 30)}}}')
    record("", "nfs", "MERGE", f',"kind":"join","links":["{request}-a","{request}-b"]')
    record("", "nfs", "REPLY", ',"kind":"end"')
    return lines


def otlp_messages(n_traces: int, *, seed: int = 1, seconds: int = 600, spans: int = 48) -> Iterator[bytes]:
    """OTLP protobuf messages: up to 100 spans of one service, two attributes a span and two a resource."""
    rng = random.Random(seed)
    waiting: dict[int, list[tuple[str, bytes, bytes, bytes, int, int]]] = {}
    for number in range(n_traces):
        trace = rng.randbytes(16)
        shape = random.Random(min(number % 1000, int(rng.paretovariate(1.0)) % 60))
        start = START_NS + number * seconds * 10**9 // n_traces
        tree = [(b"", start, rng.randrange(50_000_000, 400_000_000))]
        for position in range(spans):
            parent, begin, length = tree[shape.randrange(max(0, len(tree) - 6), len(tree))]
            begin += int(length * rng.uniform(0.01, 0.4))
            length = max(1000, int(length * rng.uniform(0.1, 0.55)))
            span = rng.randbytes(8)
            tree = [*tree, (span, begin, length)] if position else [(span, begin, length)]
            service = shape.randrange(10)
            waiting.setdefault(service, []).append(
                (f"op-{shape.randrange(12)}", trace, span, parent, begin, begin + length)
            )
            if len(waiting[service]) == SPANS_PER_MESSAGE:
                yield _message(rng, service, waiting.pop(service))
    for service, left in sorted(waiting.items()):
        yield _message(rng, service, left)


def _message(
    rng: random.Random, service: int, spans: list[tuple[str, bytes, bytes, bytes, int, int]]
) -> bytes:
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    for key, value in (
        ("service.name", f"service-{service}"),
        ("host.name", f"pod-{service}-{rng.randrange(3)}"),
    ):
        resource.resource.attributes.add(key=key).value.string_value = value
    scope = resource.scope_spans.add()
    for name, trace, span_id, parent, start, end in spans:
        span = scope.spans.add(
            name=name,
            trace_id=trace,
            span_id=span_id,
            parent_span_id=parent,
            kind=2,
            start_time_unix_nano=start,
            end_time_unix_nano=end,
        )
        span.attributes.add(key="http.request.method").value.string_value = "GET"
        span.attributes.add(key="http.response.status_code").value.int_value = 200
    data: bytes = request.SerializeToString()
    return data


def write_native(path: Path, n_requests: int, **how: int) -> int:
    """Write an NDJSON file; returns the number of records."""
    n = 0
    with path.open("w") as file:
        for line in native_lines(n_requests, **how):
            file.write(line + "\n")
            n += 1
    return n


def write_otlp(path: Path, n_traces: int, **how: int) -> int:
    """Write a file as the Collector does (length before each message); returns the number of spans."""
    n = 0
    with path.open("wb") as file:
        for message in otlp_messages(n_traces, **how):
            file.write(len(message).to_bytes(4, "big") + message)
            n += sum(
                len(scope.spans)
                for resource in ExportTraceServiceRequest.FromString(message).resource_spans
                for scope in resource.scope_spans
            )
    return n
