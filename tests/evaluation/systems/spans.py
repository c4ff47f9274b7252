"""Spans that somebody made up, written as a Collector or the reporters of Zipkin and Jaeger write them."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Any

INTERNAL, SERVER, CLIENT, PRODUCER, CONSUMER = 1, 2, 3, 4, 5
"""OTLP's kinds of spans."""
KINDS = ("", "internal", "server", "client", "producer", "consumer")
FORMATS = ("otlp", "zipkin", "jaeger")

Span = dict[str, Any]
"""As OTLP's JSON has it."""


@dataclass
class MadeSystem:
    """Spans of a window, in which a fault acts."""

    rng: random.Random
    fault: str = ""
    sigma: float = 0.25
    """Of the log-normal law of all times."""
    spans: dict[tuple[str, str, str], list[Span]] = field(default_factory=dict)
    """(service, pod, version) -> its spans."""

    def ms(self, mean: float) -> int:
        """A time around so many milliseconds, ns."""
        return int(mean * 1e6 * self.rng.lognormvariate(0, self.sigma))

    def new_id(self, bits: int = 64) -> str:
        """A random id, hex."""
        return f"{self.rng.getrandbits(bits):0{bits // 4}x}"

    def span(
        self,
        trace: str,
        parent: str,
        name: tuple[str, str],
        kind: int,
        times: tuple[int, int],
        *,
        own: str = "",
        failed: bool = False,
        attributes: dict[str, str] | None = None,
        pod: str = "",
        version: str = "",
    ) -> str:
        """Write a span of (service, operation); its id, drawn where `own` is not given."""
        own = own or self.new_id()
        span: Span = {"traceId": trace, "spanId": own, "name": name[1], "kind": kind}
        span |= {"startTimeUnixNano": str(times[0]), "endTimeUnixNano": str(times[1])}
        span |= {"parentSpanId": parent} if parent else {}
        span |= {"status": {"code": 2}} if failed else {}
        span |= {"attributes": _attributes(attributes)} if attributes else {}
        self.spans.setdefault((name[0], pod, version), []).append(span)
        return own

    def document(self, form: str = "otlp") -> str:
        """All spans, one line of JSON."""
        if form == "otlp":
            return json.dumps({"resourceSpans": [_resource(*key, s) for key, s in self.spans.items()]})
        write = _zipkin if form == "zipkin" else _jaeger
        written = [write(*key, span) for key, spans in self.spans.items() for span in spans]
        return json.dumps(written) if form == "zipkin" else "\n".join(map(json.dumps, written))


def _attributes(known: dict[str, str]) -> list[dict[str, Any]]:
    return [{"key": key, "value": {"stringValue": text}} for key, text in known.items() if text]


def _resource(service: str, pod: str, version: str, spans: list[Span]) -> dict[str, Any]:
    known = {"service.name": service, "host.name": pod, "service.version": version}
    return {"resource": {"attributes": _attributes(known)}, "scopeSpans": [{"spans": spans}]}


def _known(span: Span) -> dict[str, str]:
    return {pair["key"]: pair["value"]["stringValue"] for pair in span.get("attributes", ())}


def _us(span: Span) -> tuple[int, int]:
    start, end = (int(span[f"{side}TimeUnixNano"]) // 1000 for side in ("start", "end"))
    return start, max(end - start, 1)


def _zipkin(service: str, pod: str, version: str, span: Span) -> dict[str, Any]:
    """Who is called and records nothing is the remote endpoint."""
    start, duration = _us(span)
    tags = _known(span) | ({"host.name": pod} if pod else {}) | ({"version": version} if version else {})
    called = tags.pop("peer.service", "") or tags.pop("server.address", "")
    written = {"traceId": span["traceId"], "id": span["spanId"], "name": span["name"]}
    written |= {"parentId": span["parentSpanId"]} if "parentSpanId" in span else {}
    written |= {"kind": KINDS[span["kind"]].upper()} if span["kind"] != INTERNAL else {}
    written |= {"timestamp": start, "duration": duration, "localEndpoint": {"serviceName": service}}
    written |= {"remoteEndpoint": {"serviceName": called}} if called else {}
    tags |= {"error": "failed"} if "status" in span else {}
    return written | ({"tags": tags} if tags else {})


def _jaeger(service: str, pod: str, version: str, span: Span) -> dict[str, Any]:
    start, duration = _us(span)
    parent = {"refType": "CHILD_OF", "traceID": span["traceId"], "spanID": span.get("parentSpanId")}
    tags = _known(span) | {"span.kind": KINDS[span["kind"]]} | ({"error": "true"} if "status" in span else {})
    return {
        **{"traceID": span["traceId"], "spanID": span["spanId"], "operationName": span["name"]},
        **{
            "references": [parent] if "parentSpanId" in span else [],
            "startTime": start,
            "duration": duration,
        },
        "tags": _tags(tags),
        "process": {"serviceName": service, "tags": _tags({"hostname": pod, "version": version})},
    }


def _tags(known: dict[str, str]) -> list[dict[str, Any]]:
    return [{"key": key, "type": "string", "value": text} for key, text in known.items() if text]
