"""Turn stored flows back into events (EVENT_SCHEMA): the inverse of the kernel, up to the names of ids.

The lake keeps no span ids and breadcrumbs: an event gets the id of its node, `position + 1` as 16 hex
digits, unique in its request. Spans exported as spans and records exported as records come back with the
same categories, times, hosts and parameters (a test holds that), but for records without an `end`, whose
response node is then every sink. Crossed over (spans as records, records as spans) categories get other keys,
as a record is one node and a span two; the requests, when they began, how long they took and which of them
share a category stay (tested too).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.arrays import I8
from schemas.events import EVENT_SCHEMA, MARK_TYPE, PARAM_TYPE, EventKind, concat_events
from stitch.graph.placed import END, MISSING_EVENT, NO_COMPONENT, POINT, ROOT_EVENT, START, SYNTHETIC_POINTS
from stitch.lake.windowing import flow_names

_WORD: Final = pa.dictionary(pa.int32(), pa.string())
_STRINGS: Final = pa.list_(pa.string())

SIDE_MARK: Final = {POINT: "", START: ">", END: "<"}
"""What the two records made of a span add to the name of its operation."""


class EventForm(StrEnum):
    """What the events are to be."""

    SPANS = "spans"
    """Flows of records become one span of no length a record, but for the root's: a parent, and links to
    further predecessors."""
    RECORDS = "records"
    """Flows of spans become two records a span, `op>` and `op<`."""


def events_of_flows(
    flows: pa.Table,
    structures: Mapping[str, Mapping[str, Any]],
    params: pa.Table,
    form: EventForm,
    both_kinds: pa.Array | None = None,
) -> pa.Table:
    """Events of `flows` (FLOWS_SCHEMA), category by category; rows of one request are not adjacent.

    `structures` maps a category to its STRUCTURES_SCHEMA row; `params` holds PARAMS_SCHEMA rows of these
    flows. `both_kinds` are request ids with a flow of spans and one of records. Events of one form have no
    place for `kind`, so of these two the flow that is crossed over gets an id of its own (`own_id`): else
    readers would make one request of both. O(nodes); the loop is over categories and their nodes.
    """
    batches = []
    category = flows["category"].cast(pa.string()).combine_chunks()
    attached = _ParamIndex(params)
    for key in pc.unique(category).to_pylist():
        members = flows.filter(pc.equal(category, key))
        ids = _exported_ids(members, form, both_kinds)
        batches.append(_category_events(members, ids, structures[key], attached, form))
    return concat_events(batches)


def _exported_ids(flows: pa.Table, form: EventForm, both_kinds: pa.Array | None) -> pa.Array:
    """[flows] request ids of one category; `own_id` for `both_kinds`, where `form` is not the flows' kind."""
    ids = flows["request_id"].combine_chunks()
    kind = str(flows["kind"][0])
    if both_kinds is None or kind == form.value:
        return ids
    shared = pc.is_in(ids, value_set=both_kinds)
    apart = [own_id(name, kind) for name in ids.filter(shared).to_pylist()]
    return pc.replace_with_mask(ids, shared, pa.array(apart, pa.string()))


def own_id(request_id: str, kind: str) -> str:
    """32 hex digits, which OTLP wants, from a request id and a kind."""
    return blake2b(f"{kind} {request_id}".encode(), digest_size=16).hexdigest()


class _ParamIndex:
    """Parameters by (request, kind, position), ready to be cut into one list an event."""

    def __init__(self, params: pa.Table) -> None:
        # The lake keeps them by flow, position and key; a stable sort restores that over several files.
        names = flow_names(params)
        params = params.append_column("flow", names)
        params = params.sort_by([("flow", "ascending"), ("position", "ascending"), ("key", "ascending")])
        ids = params["flow"].combine_chunks().dictionary_encode()
        self._ids = ids.dictionary
        self._request: I8 = ids.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        self._position: I8 = params["position"].to_numpy().astype(np.int64)
        self._code = self._request * (1 << 32) + self._position
        self._values = pa.StructArray.from_arrays(
            [
                params["key"].cast(pa.string()).combine_chunks(),
                params["num"].combine_chunks(),
                params["text"].combine_chunks(),
            ],
            fields=list(PARAM_TYPE.fields),
        )

    def lists(self, flow_name: pa.Array, position: int) -> pa.Array:
        """[flows] list of parameters at one position; null where there is none. By `flow_names`."""
        code = pc.index_in(flow_name, value_set=self._ids).fill_null(-1).to_numpy().astype(np.int64)
        wanted = np.where(code < 0, np.int64(-1), code * (1 << 32) + position)
        begin = np.searchsorted(self._code, wanted, side="left")
        length = np.searchsorted(self._code, wanted, side="right") - begin
        offsets = np.concatenate([[0], np.cumsum(length)])
        rows = np.repeat(begin - offsets[:-1], length) + np.arange(offsets[-1])
        return pa.ListArray.from_arrays(
            pa.array(offsets, pa.int32()), self._values.take(pa.array(rows)), mask=pa.array(length == 0)
        ).cast(pa.list_(PARAM_TYPE))


def node_id(position: int) -> str:
    """Id of the event of a node, as text."""
    return f"{position + 1:016x}"


def event_id(position: int, form: EventForm) -> bytes:
    """The same as an event holds it."""
    text = node_id(position)
    return bytes.fromhex(text) if form is EventForm.SPANS else text.encode()


@dataclass(frozen=True, slots=True)
class _Category:
    """What the flows of one category are, and when each went by each node."""

    nodes: list[dict[str, Any]]
    edges: list[tuple[int, int]]
    made_up: frozenset[int]
    """Nodes that the kernel put in: they are no events."""
    request_id: pa.Array
    """[requests]"""
    times: I8
    """[requests, nodes] ns since the epoch."""
    end_ns: I8
    """[requests] when the response left."""

    def predecessors(self, position: int) -> list[int]:
        """Nodes right before one, but for those the kernel put in."""
        return [s for s, d in self.edges if d == position and s not in self.made_up]


def _made_up(nodes: list[dict[str, Any]], edges: list[tuple[int, int]]) -> frozenset[int]:
    """Nodes that the kernel put in: named as it names them, and with nodes below, for whose sake it did.

    A recorded node of that name and kind, with nodes below, cannot be known from it; read again, the kernel
    puts it back.
    """
    from_spans = any(node["side"] == START for node in nodes)
    below = Counter(node["parent"] for node in nodes) if from_spans else Counter(src for src, _ in edges)
    kinds = (EventKind.EVENT, EventKind.SPAN_UNSPECIFIED)
    named = [
        position
        for position, node in enumerate(nodes)
        if node["component"] == NO_COMPONENT and node["label"] is None and node["kind"] in kinds
    ]
    leading = {
        p
        for p in named
        # Two nodes make one below: the two sides of a span.
        if (nodes[p]["point"] == SYNTHETIC_POINTS[MISSING_EVENT] and below[p])
        or (nodes[p]["point"] == SYNTHETIC_POINTS[ROOT_EVENT] and below[p] > (2 if from_spans else 1))
    }
    return frozenset(leading | {p for p in named if from_spans and nodes[p]["mate"] in leading})


def _category_events(
    flows: pa.Table, request_id: pa.Array, structure: Mapping[str, Any], params: _ParamIndex, form: EventForm
) -> pa.Table:
    """All events of the flows of one category, node by node; `request_id` [flows] is what to call them."""
    nodes: list[dict[str, Any]] = structure["nodes"]
    offsets = flows["offset_ns"].combine_chunks().flatten().to_numpy().reshape(flows.num_rows, len(nodes))
    start = flows["start_ns"].to_numpy()
    edges = [(edge["src"], edge["dst"]) for edge in structure["in_edges"]]
    category = _Category(
        nodes=nodes,
        edges=edges,
        made_up=_made_up(nodes, edges),
        request_id=request_id,
        times=offsets + start[:, None],
        end_ns=start + flows["response_ns"].to_numpy(),
    )
    flow_name = flow_names(flows)
    hosts = flows["host"].combine_chunks().flatten()
    from_spans = any(node["side"] == START for node in nodes)
    as_spans = form is EventForm.SPANS
    describe = _RECORDS_OF[from_spans] if form is EventForm.RECORDS else _SPANS_OF[from_spans]
    batches = []
    errors = _Errors(flows)
    for position, node in enumerate(nodes):
        if position in category.made_up or (as_spans and (node["side"] == END or _is_mark(node))):
            continue
        n = flows.num_rows
        at = pa.array(np.arange(n) * len(nodes) + position)
        columns: dict[str, Any] = {
            "request_id": request_id,
            "id": pa.repeat(pa.scalar(event_id(position, form), pa.binary()), n),
            "ts_ns": pa.array(category.times[:, position]),
            "component": _repeat(node["component"], n, _WORD),
            "point": _repeat(
                node["point"] if as_spans else node["point"] + SIDE_MARK[node["side"]], n, _WORD
            ),
            "label": _repeat(node["label"], n, _WORD),
            "host": hosts.take(at),
            "shared": pa.array(np.zeros(n, np.bool_)),
            "status": errors.statuses(position),
            "sample_rate": _rates(flows),
            "params": params.lists(flow_name, position),
            **describe(category, position),
        }
        arrays = [
            columns[field.name].cast(field.type) if field.name in columns else pa.nulls(n, field.type)
            for field in EVENT_SCHEMA
        ]
        batches.append(pa.Table.from_arrays(arrays, schema=EVENT_SCHEMA))
    return pa.concat_tables(batches)


def _repeat(value: object, n: int, type_: pa.DataType | None = None) -> pa.Array:
    array = pa.repeat(pa.scalar(value, pa.string()), n)
    return array.dictionary_encode().cast(type_) if type_ is not None else array


class _Errors:
    """Which nodes of some flows failed, and how."""

    def __init__(self, flows: pa.Table) -> None:
        positions = flows["error_position"].combine_chunks()
        self._n = flows.num_rows
        self._row = pc.list_parent_indices(positions).to_numpy()
        self._position = positions.flatten().to_numpy()
        words = flows["error_class"].combine_chunks().flatten().cast(pa.string()).dictionary_encode()
        self._words = ["ok", *words.dictionary.to_pylist()]
        self._code = words.indices.to_numpy(zero_copy_only=False).astype(np.int32) + 1

    def statuses(self, position: int) -> pa.DictionaryArray:
        """[flows] status of the node at a position."""
        codes = np.zeros(self._n, np.int32)
        here = self._position == position
        codes[self._row[here]] = self._code[here]
        return pa.DictionaryArray.from_arrays(codes, pa.array(self._words, pa.string()))


def _rates(flows: pa.Table) -> pa.Array:
    """Sampling probabilities; null where the records did not tell."""
    rates = pc.divide(1.0, flows["weight"].combine_chunks())
    return pc.if_else(flows["weight_known"].combine_chunks(), rates, pa.scalar(None, pa.float64()))


def _is_mark(node: Mapping[str, Any]) -> bool:
    """A span event: a point that lies in a span."""
    return bool(node["side"] == POINT and node["parent"] >= 0)


def _span(category: _Category, position: int) -> dict[str, Any]:
    """A span as it was: its end, its parent (asynchronous where nothing waits for it), its marks."""
    nodes, times, n = category.nodes, category.times, len(category.times)
    node = nodes[position]
    columns: dict[str, Any] = {"kind": _kinds(node["kind"], n), "end_ns": pa.array(times[:, node["mate"]])}
    parent = node["parent"]
    root = SYNTHETIC_POINTS[ROOT_EVENT]
    if parent >= 0 and not (parent in category.made_up and nodes[parent]["point"] == root):
        messaging = node["kind"] in (EventKind.SPAN_PRODUCER, EventKind.SPAN_CONSUMER)
        waits = (node["mate"], nodes[parent]["mate"]) in category.edges
        asynchronous = node["deferred"] and not messaging and not waits
        columns["follows" if asynchronous else "parents"] = _lists([event_id(parent, EventForm.SPANS)], n)
    marks = [p for p, other in enumerate(nodes) if _is_mark(other) and other["parent"] == position]
    if marks:
        columns["marks"] = _mark_lists(nodes, marks, times)
    return columns


def _mark_lists(nodes: list[dict[str, Any]], marks: list[int], times: I8) -> pa.Array:
    n, k = len(times), len(marks)
    at = times[:, marks]
    order = np.argsort(at, axis=1, kind="stable")
    names = np.array([nodes[mark]["point"] for mark in marks], dtype=object)[order]
    values = pa.StructArray.from_arrays(
        [
            pa.array(np.take_along_axis(at, order, axis=1).reshape(-1)),
            pa.array(names.reshape(-1), pa.string()),
        ],
        fields=list(MARK_TYPE.fields),
    )
    return pa.ListArray.from_arrays(pa.array(np.arange(n + 1) * k, pa.int32()), values).cast(
        pa.list_(MARK_TYPE)
    )


def _record(category: _Category, position: int) -> dict[str, Any]:
    """A record: happens-before by explicit parents, each node on a breadcrumb of its own."""
    n = len(category.times)
    parents = [event_id(src, EventForm.RECORDS) for src in category.predecessors(position)]
    return {
        "kind": _kinds(category.nodes[position]["kind"], n),
        "breadcrumb": _repeat(node_id(position), n),
        "parents": _lists(parents, n),
    }


def _record_of_span(category: _Category, position: int) -> dict[str, Any]:
    """One side of a span as a record; the end of the root span is the response."""
    kind = EventKind.END if position == category.nodes[0]["mate"] else EventKind.EVENT
    return {**_record(category, position), "kind": _kinds(kind, len(category.times))}


def _span_of_record(category: _Category, position: int) -> dict[str, Any]:
    """A record as a span without length: OTLP knows one parent, further predecessors become links.

    The root lasts until the response, so that its length is the response time.
    """
    n = len(category.times)
    before = category.predecessors(position)
    return {
        "kind": _kinds(EventKind.SPAN_INTERNAL, n),
        "end_ns": pa.array(category.end_ns if position == 0 else category.times[:, position]),
        "parents": _lists([event_id(src, EventForm.SPANS) for src in before[:1]], n),
        "links": _links(category.request_id, [node_id(src) for src in before[1:]]),
    }


def _links(request_id: pa.Array, ids: list[str]) -> pa.Array:
    """`trace/span` of the same spans of each request."""
    n, k = len(request_id), len(ids)
    traces = request_id.take(pa.array(np.repeat(np.arange(n), k)))
    spans = pa.array(ids * n, pa.string())
    values = pc.binary_join_element_wise(traces, spans, "/")
    return pa.ListArray.from_arrays(pa.array(np.arange(n + 1) * k, pa.int32()), values).cast(_STRINGS)


_SPANS_OF: Final = {True: _span, False: _span_of_record}
_RECORDS_OF: Final = {True: _record_of_span, False: _record}
"""How to describe a node, by whether the flow came from spans."""


def _kinds(kind: int, n: int) -> pa.Array:
    return pa.array(np.full(n, int(kind)), pa.uint8())


def _lists(ids: list[bytes], n: int) -> pa.Array:
    """The same list of ids `n` times."""
    k = len(ids)
    flat = pa.array(ids * n, pa.binary())
    return pa.ListArray.from_arrays(pa.array(np.arange(n + 1) * k, pa.int32()), flat)
