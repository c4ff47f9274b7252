"""The slow, obvious way from the spans of one trace to its flow."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from oracles.plain_flow import Event, Node, PlainFlow

from schemas.config import StitchConfig
from schemas.events import EventKind as K
from schemas.quality import Quality

OUTSIDE_IN: list[int] = [
    K.SPAN_CLIENT,
    K.SPAN_PRODUCER,
    K.SPAN_INTERNAL,
    K.SPAN_UNSPECIFIED,
    K.SPAN_CONSUMER,
    K.SPAN_SERVER,
]
LATE = 2**63 - 1


@dataclass(slots=True)
class Span:
    event: Event | None
    """None: `?/root` or `?/missing`."""
    id: str
    kind: int
    component: str
    point: str
    start: int | None
    end: int | None
    parents: list[str] = field(default_factory=list)
    follows: list[str] = field(default_factory=list)
    parent: Span | None = None
    asynchronous: bool = False
    orphan: bool = False

    def order(self) -> tuple[int, int, str, int, int]:
        """Earlier spans win ties."""
        start = LATE if self.start is None else self.start
        end = LATE if self.end is None else self.end
        return (start, end, self.id, self.kind, self.event["content"] if self.event else 0)


def stitch_trace(
    request_id: str, rows: list[Event], config: StitchConfig
) -> tuple[PlainFlow | None, int, list[Event]]:
    """The flow (None: nothing in the trace has a time), exact duplicates, and rows in conflict."""
    if all(row["ts_ns"] is None and row["end_ns"] is None for row in rows):
        return None, 0, []
    flow = PlainFlow(request_id)
    spans, n_duplicates, conflicts = _identify(rows)
    if conflicts:
        flow.quality |= Quality.CONFLICT
    spans.sort(key=Span.order)
    if len(spans) > config.max_events_per_flow:
        spans = spans[: config.max_events_per_flow]
        flow.quality |= Quality.CAPPED
    if any(span.start is None or span.end is None for span in spans):
        flow.quality |= Quality.UNTIMED
    _find_parents(flow, spans)
    root = _plant(flow, spans, config)
    _fill_times(root, spans)
    _lay_nodes(flow, root, spans, config)
    return flow, n_duplicates, conflicts


def _identify(rows: list[Event]) -> tuple[list[Span], int, list[Event]]:
    by_id: dict[str, list[Event]] = defaultdict(list)
    for row in rows:
        by_id[row["id"]].append(row)
    spans, conflicts, n_duplicates = [], [], 0
    for versions in by_id.values():
        by_kind: dict[int, list[tuple[bool, Event]]] = defaultdict(list)
        named = [row for row in versions if row["kind"] != K.SPAN_UNSPECIFIED]
        for row in versions:
            kind, partial = row["kind"], False
            if kind == K.SPAN_UNSPECIFIED and named and (row["ts_ns"] is None or row["end_ns"] is None):
                own = [r for r in named if r["component"] == row["component"]] or named
                kind = min((r["kind"] for r in own), key=OUTSIDE_IN.index)
                partial = True
            by_kind[kind].append((partial, row))
        for kind, candidates in by_kind.items():
            candidates.sort(
                key=lambda c: (
                    c[0],
                    -_completeness(c[1]),
                    _time(c[1], "ts_ns"),
                    _time(c[1], "end_ns"),
                    c[1]["content"],
                )
            )
            kept = candidates[0][1]
            span = Span(
                kept, kept["id"], kind, kept["component"], kept["point"], kept["ts_ns"], kept["end_ns"]
            )
            span.parents, span.follows = list(kept["parents"] or []), list(kept["follows"] or [])
            lenders = []
            seen = {kept["content"]}
            for partial, row in candidates[1:]:
                if row["content"] in seen:
                    n_duplicates += 1
                    continue
                seen.add(row["content"])
                if partial or _completeness(row) < _completeness(kept):
                    lenders.append(row)
                else:
                    conflicts.append(row)
            if not span.parents and not span.follows:
                for row in lenders:
                    span.parents += row["parents"] or []
                    span.follows += row["follows"] or []
            spans.append(span)
    return spans, n_duplicates, conflicts


def _completeness(row: Event) -> int:
    return (row["ts_ns"] is not None) + (row["end_ns"] is not None)


def _time(row: Event, column: str) -> int:
    return LATE if row[column] is None else row[column]


def _find_parents(flow: PlainFlow, spans: list[Span]) -> None:
    by_id: dict[str, list[Span]] = defaultdict(list)
    for span in spans:
        by_id[span.id].append(span)
    for sides in by_id.values():
        sides.sort(key=lambda span: OUTSIDE_IN.index(span.kind))
    for span in spans:
        sides = by_id[span.id]
        if span is not sides[0]:
            span.parent = sides[0]
            continue
        declared = [(name, False) for name in span.parents] + [(name, True) for name in span.follows]
        present = sorted(((f, name) for name, f in declared if name in by_id))
        if present:
            follows, name = present[0]
            candidates = by_id[name]
            own = [side for side in candidates if side.component == span.component]
            span.parent = (own if own and len(candidates) > 1 else candidates)[-1]
            span.asynchronous = follows
        elif declared:
            span.orphan = True
            span.asynchronous = all(follows for _, follows in declared)
    for span in spans:
        if span.parent and span.kind == K.SPAN_CONSUMER and span.parent.kind == K.SPAN_PRODUCER:
            span.asynchronous = True
    for span in spans:  # in order: the earliest of each cycle is met first
        above, steps = span.parent, 0
        while above is not None and above is not span and steps <= len(spans):
            above, steps = above.parent, steps + 1
        if above is span:
            span.parent, span.asynchronous = None, False
            flow.quality |= Quality.CYCLE


def _plant(flow: PlainFlow, spans: list[Span], config: StitchConfig) -> Span:
    orphans = [span for span in spans if span.orphan]
    roots = [span for span in spans if span.parent is None and not span.orphan]
    if orphans:
        flow.quality |= Quality.ORPHAN
        if len(orphans) > max(1, config.orphan_share * len(spans)):
            flow.quality |= Quality.INCOMPLETE

    def top(span: Span) -> Span:
        while span.parent is not None:
            span = span.parent
        return span

    hosts = [
        (s, s.start, s.end) for s in spans if s.start is not None and s.end is not None and not top(s).orphan
    ]
    found = {}
    for orphan in orphans:
        if orphan.start is None or orphan.end is None:
            continue
        fitting = [
            (end - start, -start, *s.order(), s)
            for s, start, end in hosts
            if start <= orphan.start
            and orphan.end <= end
            and s.event is not None
            and orphan.component in (s.component, s.event["peer"])
        ]
        if fitting:
            found[id(orphan)] = min(fitting, key=lambda host: host[:-1])[-1]
    for orphan in orphans:
        orphan.parent = found.get(id(orphan))
    lost = [orphan for orphan in orphans if orphan.parent is None]
    if not roots and len(orphans) == 1:
        roots, lost = lost, []
    if len(roots) > 1:
        flow.quality |= Quality.MULTI_ROOT
        root = Span(None, "", K.SPAN_UNSPECIFIED, "?", "root", None, None)
        for span in roots:
            span.parent = root
        spans.append(root)
    elif roots:
        root = roots[0]
    if lost:
        missing = Span(None, "", K.SPAN_UNSPECIFIED, "?", "missing", None, None)
        for span in lost:
            span.parent = missing
        spans.append(missing)
        if roots:
            missing.parent = root
        else:
            root = missing
    return root


def _below(root: Span, spans: list[Span]) -> list[Span]:
    """Spans, parents before children."""
    children: dict[int, list[Span]] = defaultdict(list)
    for span in spans:
        if span.parent is not None:
            children[id(span.parent)].append(span)
    order = [root]
    for span in order:
        order.extend(children[id(span)])
    assert len(order) == len(spans), "every span hangs below the root"
    return order


def _fill_times(root: Span, spans: list[Span]) -> None:
    order = _below(root, spans)
    lacks = {id(s): (s.start is None, s.end is None) for s in order}
    starts: dict[int, list[int]] = defaultdict(list)
    ends: dict[int, list[int]] = defaultdict(list)
    for span in reversed(order):
        span.start = min(starts[id(span)], default=None) if span.start is None else span.start
        span.end = max(ends[id(span)], default=None) if span.end is None else span.end
        if span.parent is not None:
            starts[id(span.parent)] += [] if span.start is None else [span.start]
            ends[id(span.parent)] += [] if span.end is None else [span.end]
    for span in order:
        if span.parent is not None:
            span.start = span.parent.start if span.start is None else span.start
            span.end = span.parent.end if span.end is None else span.end
        span.start = span.end if span.start is None else span.start
        span.end = span.start if span.end is None else span.end
        assert span.start is not None
        assert span.end is not None
        no_start, no_end = lacks[id(span)]
        if no_end:
            span.end = max(span.start, span.end)
        if no_start:
            span.start = min(span.start, span.end)


def _lay_nodes(flow: PlainFlow, root: Span, spans: list[Span], config: StitchConfig) -> None:
    start: dict[int, int] = {}
    end: dict[int, int] = {}
    inside: dict[int, int] = defaultdict(int)
    order = _below(root, spans)
    marks = _marks(flow, spans, config)
    for span in order:
        event = span.event
        label, host, status = (
            (event["label"], event["host"], event["status"]) if event else (None, None, "ok")
        )
        above = -1 if span.parent is None else start[id(span.parent)]
        i = len(flow.nodes)
        start[id(span)], end[id(span)] = i, i + 1
        assert span.start is not None
        assert span.end is not None
        for side, ts_ns, mate in ((1, span.start, i + 1), (2, span.end, i)):
            name = (span.component, span.point, label, span.kind, side)
            flow.nodes.append(Node(name, ts_ns, host, status, above, mate, event))
        for mark in marks[id(span)]:
            point = len(flow.nodes)
            name = (span.component, mark["name"], label, span.kind, 0)
            flow.nodes.append(Node(name, mark["ts_ns"], host, status, i, -1, event))
            flow.edges |= {(i, point), (point, i + 1)}
            inside[id(span)] += 1
    for span in order[1:]:
        flow.edges.add((start[id(span.parent)], start[id(span)]))
        if not span.asynchronous:
            flow.edges.add((end[id(span)], end[id(span.parent)]))
            inside[id(span.parent)] += 1
    for span in order:
        if not inside[id(span)]:
            flow.edges.add((start[id(span)], end[id(span)]))
    flow.root = start[id(root)]
    flow.choices = [{end[id(root)]}]


def _marks(flow: PlainFlow, spans: list[Span], config: StitchConfig) -> dict[int, list[Event]]:
    """Marks by id() of their span; of too many in a flow the first by (time, name, span in order)."""
    marks = sorted(
        (mark["ts_ns"], mark["name"], i)
        for i, span in enumerate(spans)
        for mark in (span.event and span.event["marks"]) or []
        if mark["ts_ns"] is not None and mark["name"] is not None
    )
    if len(marks) > config.max_events_per_flow:
        flow.quality |= Quality.CAPPED
        marks = marks[: config.max_events_per_flow]
    of_span: dict[int, list[Event]] = defaultdict(list)
    for ts_ns, name, i in marks:
        of_span[id(spans[i])].append({"ts_ns": ts_ns, "name": name})
    return of_span
