"""What a Collector really wrote to Kafka, and what had been sent to it (`tests/data/kafka-captured`).

`sent.jsonl` has ids, parent, name, service and times of every span; the rest follows from the span's name
and its place in the run.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

NS_BETWEEN_TRACES: Final = 10_000_000
FILES: Final = {
    "otlp-proto": "otlp_proto",
    "otlp-json": "otlp_json",
    "otlp-proto-by-trace": "otlp_proto",
    "otlp-json-by-trace": "otlp_json",
    "jaeger-proto": "jaeger_proto",
    "jaeger-json": "jaeger_json",
    "zipkin-json": "zipkin_json",
    "zipkin-proto": "zipkin_proto",
}
"""Name of each file, and its encoding as the Collector calls it."""
KINDS: Final = {
    "call cart": "SPAN_CLIENT",
    "Cart/Get": "SPAN_SERVER",
    "SELECT cart": "SPAN_CLIENT",
    "queue send": "SPAN_PRODUCER",
    "queue process": "SPAN_CONSUMER",
    "render": "SPAN_INTERNAL",
}
"""Of the others: SPAN_SERVER."""
ATTRIBUTES: Final[dict[str, dict[str, str | float]]] = {
    "call cart": {"server.address": "cart", "net.peer.port": 8080.0, "ratio": 0.25, "ok": "true"},
    "Cart/Get": {
        "list.text": '["a","b"]',
        "list.int": "[1,2,3]",
        "big": 2.0**62,
        "tiny": 5e-324,
        "not.a.number": "NaN",
        "text.utf8": "日本語 ✓ <b>",
        "text.empty": "",
        "bytes": "AP8=",
        "list.empty": "[]",
    },
    "SELECT cart": {"db.system": "postgresql"},
}
EVENT_OFFSET_NS: Final = 50_000
"""Both events of the run come so long after the start of their span."""


def _lines(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]


def messages(folder: Path, name: str) -> list[bytes]:
    """Values of the captured messages of one file."""
    return [base64.b64decode(line["value"]) for line in _lines(folder, name)]


def span_ids(folder: Path, name: str) -> set[tuple[str, str]]:
    """(trace, span) of all spans of one file."""
    return {(trace, span) for line in _lines(folder, name) for trace, span in line["spans"]}


@dataclass(frozen=True)
class Sent:
    """One span as it was sent."""

    trace: str
    span: str
    parent: str | None
    name: str
    service: str
    start_ns: int
    end_ns: int
    number: int
    """Of its trace in the run, from 0."""

    @property
    def failed(self) -> bool:
        """Every fifth query, with an exception and a description."""
        return self.name == "SELECT cart" and self.number % 5 == 0

    def params(self) -> dict[str, Any]:
        """Parameters, but for `service.instance.id`, which is random."""
        out: dict[str, Any] = {
            "service.version": "1.0",
            "k8s.pod.name": f"{self.service}-0",
            "process.command_args": '["run","--fast"]',
            "telemetry.sdk.language": "python",
            "telemetry.sdk.name": "opentelemetry",
            "telemetry.sdk.version": "1.45.2",
            **ATTRIBUTES.get(self.name, {}),
        }
        if self.name.startswith("GET "):
            out["span.name"] = self.name
        if self.name == "Cart/Get":
            out |= {"event.cache.miss": EVENT_OFFSET_NS}
            out |= {"event.cache.miss.key": "k1", "event.cache.miss.size": 3.0}
        if self.failed:
            out |= {
                "status.message": "no row",
                "event.exception": EVENT_OFFSET_NS,
                "event.exception.exception.type": "ValueError",
                "event.exception.exception.message": "no row",
                "event.exception.exception.stacktrace": "ValueError: no row\n",
                "event.exception.exception.escaped": "False",
            }
        return out


def sent_spans(folder: Path) -> dict[tuple[str, str], Sent]:
    """Everything that was sent, by trace and span id."""
    rows = _lines(folder, "sent")
    first = min(row["start"] for row in rows)
    return {
        (row["trace"], row["span"]): Sent(
            row["trace"],
            row["span"],
            row["parent"],
            row["name"],
            row["service"],
            row["start"],
            row["end"],
            (row["start"] - first) // NS_BETWEEN_TRACES,
        )
        for row in rows
    }
