"""Spans as batches of a Collector hold them: messages of OTLP protobuf, spans in the order of their ends.

`heavy`: every trace has a structure of its own and every span eleven attributes. Else traces are alike, with
two attributes a span. Traces of 20 to 30 spans over 12 services live 0.2 to 5 s, 50,000 spans a second.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

SERVICES = 12
ROUTES = 6
RATE = 50_000
"""Spans a second of event time."""
BATCH = 500
"""Spans a message."""


def messages(
    spans: int, *, heavy: bool, begin_ns: int, seed: int = 1, batch: int = BATCH, rate: int = RATE
) -> Iterator[bytes]:
    """At least so many spans, in whole traces, `batch` a message, `rate` a second of event time."""
    for _, message in timed_messages(
        spans, heavy=heavy, begin_ns=begin_ns, seed=seed, batch=batch, rate=rate
    ):
        yield message


def timed_messages(
    spans: int,
    *,
    heavy: bool,
    begin_ns: int,
    seed: int = 1,
    batch: int = BATCH,
    rate: int = RATE,
    life_s: float = 5.0,
) -> Iterator[tuple[int, bytes]]:
    """`(end of its last span in ns, message)`; as `messages`. life_s: the longest life of a trace."""
    rng = np.random.default_rng(seed)
    size = rng.integers(20, 31, spans // 25 + 1) if heavy else np.full(spans // 25 + 1, 25)
    n, total = len(size), int(size.sum())
    trace = np.repeat(np.arange(n), size)
    within = np.arange(total) - np.repeat(np.cumsum(size) - size, size)
    shape = np.random.default_rng(2)
    back = rng.geometric(0.5, total) if heavy else np.tile(shape.geometric(0.5, 25), n)
    parent = np.maximum(0, within - 1 - back)
    parent[within == 1] = 0
    begin, life = np.sort(rng.uniform(0, total / rate, n))[trace], rng.uniform(life_s / 25, life_s, n)[trace]
    low = np.where(within == 0, 0.0, rng.uniform(0, 1, total))
    high = np.where(within == 0, 1.0, low + (1 - low) * rng.uniform(0, 1, total))
    start = begin_ns + ((begin + low * life) * 1e9).astype(np.int64)
    end = begin_ns + ((begin + high * life) * 1e9).astype(np.int64)
    service = (trace * 7 * heavy + within * 5) % SERVICES
    route = trace % ROUTES if heavy else np.zeros(total, dtype=np.int64)
    ids = rng.bytes(16 * n)
    order = np.argsort(end, kind="stable")
    resources = [_resource(number, heavy=heavy) for number in range(SERVICES)]
    for first in range(0, total, batch):
        rows = order[first : first + batch]
        of_service: dict[int, list[bytes]] = {}
        columns = (trace, within, parent, start, end, service, route)
        for t, w, p, s, e, v, r in zip(*(column[rows].tolist() for column in columns), strict=True):
            name = ids[16 * t : 16 * t + 16]
            span = _field(1, name) + _field(2, name[:7] + bytes([w + 1]))
            if w:
                span += _field(4, name[:7] + bytes([p + 1]))
            span += _field(5, f"{'GET' if w else 'ingress'} /{(r + w) % ROUTES}".encode())
            span += bytes([6 << 3, 2 if w % 2 == 0 else 3])
            span += (
                bytes([7 << 3 | 1]) + s.to_bytes(8, "little") + bytes([8 << 3 | 1]) + e.to_bytes(8, "little")
            )
            span += _attribute("http.route", f"/route/{r}")
            if heavy:
                span += _attribute("http.request.method", "GET") + _attribute("net.peer.name", "svc")
                span += _attribute("http.response.status_code", 200)
                span += _attribute("http.response_content_length", 512 + w)
            of_service.setdefault(v, []).append(_field(2, span))
        message = b"".join(
            _field(1, resources[v] + _field(2, _field(1, _field(1, b"otelhttp")) + b"".join(found)))
            for v, found in of_service.items()
        )
        yield int(end[rows[-1]]), message


def _resource(service: int, *, heavy: bool) -> bytes:
    told = {"service.name": f"service-{service}"}
    if heavy:
        told |= {
            "service.version": "1.4.2",
            "k8s.pod.name": f"service-{service}-7d9f8c6b5-x{service}kq",
            "host.name": f"node-{service % 4}",
            "telemetry.sdk.name": "opentelemetry",
            "telemetry.sdk.language": "go",
        }
    return _field(1, b"".join(_field(1, _key_value(key, text)) for key, text in told.items()))


def _attribute(key: str, value: str | int) -> bytes:
    return _field(9, _key_value(key, value))


def _key_value(key: str, value: str | int) -> bytes:
    told = _field(1, value.encode()) if isinstance(value, str) else bytes([3 << 3]) + _varint(value)
    return _field(1, key.encode()) + _field(2, told)


def _field(number: int, contents: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(contents)) + contents


def _varint(number: int) -> bytes:
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])
