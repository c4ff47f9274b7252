"""Write recorded requests as OpenTelemetry spans: OTLP JSON, one message per request and line.

A call opens a span and its reply closes it; other steps are leaf spans that last from the step before. Work
that the response does not wait for is a CONSUMER span. Splits and joins need no spans: parallel branches are
overlapping children.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ingest.codecs.otlp.encode_otlp import threshold
from simulator.points import Point, Span
from simulator.recording import ID, ID_BEGIN, Filled, Recording, recorded_point, request_lines
from simulator.trace import Structure, Trace
from simulator.workloads import BLOCK_BYTES


@dataclass(frozen=True, slots=True)
class _SpanShape:
    """Span of a structure: its text, and the steps of the request from which its times are taken."""

    text: str
    """Format string with placeholders for start and end (and, for the root, the call's attributes)."""
    service: str
    host: str
    start: int
    end: int
    own: int
    """Index of the step that records the span: if that step's record is lost, the span is lost."""
    root: bool


def otlp_lines(recording: Recording, traces: Sequence[Trace]) -> Iterator[bytes]:
    """Yield chunks of JSON lines, requests by start."""
    return request_lines(recording, traces, _template, lambda recorded: recorded.trace_id)


def _template(structure: Structure, renamed: bool, rate: float) -> Filled:
    """Function that writes requests of a structure, from one format string of all spans.

    Requests with lost spans get a format string of their own.
    """
    spans = _spans(structure, renamed, rate)
    whole = _line(spans)

    def filled(trace: Trace, row: int, at: list[int], gone: list[bool] | None) -> str:
        text, order = whole if gone is None else _line([s for s in spans if not gone[s.own]])
        attributes = call_attributes(trace, row)
        return text % tuple(at[p] if p >= 0 else attributes for p in order)

    return filled


_ROOT_ATTRIBUTES = -1
"""Placeholder in an order of values: the call's attributes go here instead of a time."""


def _line(spans: list[_SpanShape]) -> tuple[str, list[int]]:
    """(Format string of a request's line; indices of the steps whose times fill the placeholders, in
    order)."""
    groups: dict[tuple[str, str], list[_SpanShape]] = {}
    for span in spans:
        groups.setdefault((span.service, span.host), []).append(span)
    parts, order = [], []
    for (service, host), members in groups.items():
        body = ",".join([s.text for s in members])
        parts.append(f'{{"resource":{_resource(service, host)},"scopeSpans":[{{"spans":[{body}]}}]}}')
        for s in members:
            order += [s.start, s.end]
            if s.root:
                order.append(_ROOT_ATTRIBUTES)
    return f'{{"resourceSpans":[{",".join(parts)}]}}\n', order


@lru_cache(maxsize=1024)
def _resource(service: str, host: str) -> str:
    return _dumps({"attributes": [_attribute("service.name", service), _attribute("host.name", host)]})


def _dumps(value: object) -> str:
    return json.dumps(value, separators=(",", ":")).replace("%", "%%")


def _attribute(key: str, value: str | int) -> dict[str, object]:
    # OTLP JSON writes 64-bit integers as strings.
    return {
        "key": key,
        "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value},
    }


def call_attributes(trace: Trace, row: int) -> str:
    """Low-level parameters of a call as OTLP attributes, JSON text without the brackets."""
    offset = int(trace.offset[row])
    aligned = {"key": "aligned", "value": {"boolValue": offset % BLOCK_BYTES == 0}}
    attributes = [
        _attribute("count", int(trace.count[row])),
        _attribute("offset", offset),
        _attribute("file", int(trace.file[row])),
        _attribute("client", f"client-{int(trace.client[row])}"),
        aligned,
    ]
    return json.dumps(attributes, separators=(",", ":"))


def _spans(structure: Structure, renamed: bool, rate: float) -> list[_SpanShape]:
    """Spans of a structure, sorted by start, root first."""
    spans: list[_SpanShape] = []
    state = f"ot=th:{threshold(rate)}" if rate < 1.0 else ""

    def walk(number: int, outer: int | None) -> None:
        """Add the spans of strand `number`.

        outer: index of the span that was open where the strand began, None for none.
        """
        open_spans: list[tuple[int, Point, int, int | None]] = []
        before = structure.strands[number][0].position
        for step in structure.strands[number]:
            point = recorded_point(step.code, renamed)
            parent = open_spans[-1][0] if open_spans else outer
            here = step.position
            if point.span is Span.CLOSE:
                span_id, call, start, above = open_spans.pop()
                spans.append(_shape(span_id, above, call, start, here, point.status, state))
            elif point.span is Span.LEAF:
                spans.append(_shape(here, parent, point, before, here, point.status, state))
            elif point.span is not Span.NONE:
                open_spans.append((here, point, here, parent))
            elif point.kind == "split":
                for child in step.strands:
                    walk(child, parent)
            before = here

    walk(0, None)
    return sorted(spans, key=lambda s: (s.start, -s.end))


def _shape(
    span_id: int, parent: int | None, point: Point, start: int, end: int, status: str, state: str
) -> _SpanShape:
    root = parent is None
    above = "" if root else f',"parentSpanId":"{ID_BEGIN}{parent:04x}"'
    words = _words(point, status, state, root)
    text = f'{{"traceId":"{ID}","spanId":"{ID_BEGIN}{span_id:04x}"{above}{words}'
    return _SpanShape(text, point.component, point.host, start, end, span_id, root)


@lru_cache(maxsize=4096)
def _words(point: Point, status: str, state: str, root: bool) -> str:
    """Format string of the part of a span after its ids, with placeholders for times (and a root's
    attributes).
    """
    fields: dict[str, object] = {"traceState": state} if state else {}
    fields |= {"name": point.span_name or point.name, "kind": point.span.value}
    attributes = [_attribute(k, v) for k, v in point.params]
    if point.label:
        attributes.append(_attribute("flowdiff.label", point.label))
    if status != "ok":
        fields["status"] = {"code": 2}
        attributes.append(_attribute("error.type", status))
    if attributes and not root:
        fields["attributes"] = attributes
    text = f',{_dumps(fields)[1:-1]},"startTimeUnixNano":"%d","endTimeUnixNano":"%d"'
    return text + (',"attributes":%s}' if root else "}")
