"""Turn stored flows back into events (EVENT_SCHEMA): the inverse of `stitch`, except for ids.

The lake stores neither span ids nor breadcrumbs, so an event gets an id made of its node's index: `position +
1` as 16 hex digits, unique within its request. Spans exported as spans and records exported as records have
the same categories, times, hosts and parameters when read again (tested), except for records without an
`end`, whose response node is then every sink. Exported in the other form (spans as records, records as
spans), categories get other keys, as a record is one node and a span two; requests, their start times,
response times and partition into categories are preserved (tested). A request id that is no OTLP trace id is
replaced by one (`own_id`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.arrays import I8
from schemas.events import EVENT_SCHEMA, MARK_TYPE, PARAM_TYPE, EventKind, concat_events
from stitch.columnar.runs import whole
from stitch.graph.placed import END, MISSING_EVENT, NO_COMPONENT, POINT, ROOT_EVENT, START, SYNTHETIC_POINTS
from stitch.lake.windowing import flow_names

_WORD: Final = pa.dictionary(pa.int32(), pa.string())
_STRINGS: Final = pa.list_(pa.string())
_IDS: Final = pa.list_(pa.binary())
_TRACE_ID: Final = "^([0-9a-f]{16}){1,2}$"
"""Regular expression of request ids that are valid OTLP trace ids, or become so by padding with zeros."""

SIDE_MARK: Final = {POINT: "", START: ">", END: "<"}
"""Side of a span -> suffix that marks the side in the operation's name, if the span is exported as
records."""


class EventForm(StrEnum):
    """Form of the exported events, spans or activity records; independent of the form in which the flows were
    recorded."""

    SPANS = "spans"
    """Spans. A flow of activity records becomes one span of zero length per record (the root's lasts until
    the response), with one parent and links to further predecessors."""
    RECORDS = "records"
    """Activity records. A flow of spans becomes two records per span, `op>` and `op<`."""


def events_of_flows(
    flows: pa.Table,
    structures: Mapping[str, Mapping[str, Any]],
    params: pa.Table,
    form: EventForm,
    both_kinds: pa.Array | None = None,
) -> pa.Table:
    """Make the events (EVENT_SCHEMA) of `flows` (FLOWS_SCHEMA), category by category; rows of one request are
    not adjacent.

    `structures` maps a category to its STRUCTURES_SCHEMA row; `params` holds PARAMS_SCHEMA rows of these
    flows. `both_kinds`: ids of requests that have both a flow of spans and a flow of activity records. Events
    have no field for `kind`, so of these two flows the one whose form changes gets another id (`own_id`):
    otherwise readers would merge both into one request. O(nodes); the loop is over categories.
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
    """Request ids under which the flows of one category are exported, [flows]: the stored ids, or ids made by
    `own_id`.

    An id is replaced if the flows change their form and the id is in `both_kinds`, or if the flows become
    spans and the id is not a trace id.
    """
    ids = flows["request_id"].combine_chunks()
    kind = str(flows["kind"][0])
    crossed = both_kinds is not None and kind != form.value
    replaced = pc.is_in(ids, value_set=both_kinds if crossed else pa.array([], pa.string()))
    if form is EventForm.SPANS:
        replaced = pc.or_(replaced, pc.invert(pc.match_substring_regex(ids, _TRACE_ID)))
    own = [own_id(name, kind) for name in ids.filter(replaced).to_pylist()]
    return pc.replace_with_mask(ids, replaced, pa.array(own, pa.string()))


def own_id(request_id: str, kind: str) -> str:
    """Make an OTLP trace id of a request id and a kind: their hash as 32 hex digits."""
    return blake2b(f"{kind} {request_id}".encode(), digest_size=16).hexdigest()


class _ParamIndex:
    """Index of parameters by (request, kind, node), from which the parameter list of each event is taken."""

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
                whole(params["key"].cast(PARAM_TYPE.field("key").type).unify_dictionaries()),
                whole(params["num"]),
                whole(params["text"].cast(PARAM_TYPE.field("text").type).unify_dictionaries()),
            ],
            fields=list(PARAM_TYPE.fields),
        )

    def lists(self, flow_name: pa.Array, positions: I8) -> pa.Array:
        """List the parameters of each flow at each node index in `positions`: Arrow lists in the order
        [positions, flows], null if there are none.

        flow_name: name of each flow, by `flow_names`.
        """
        code = pc.index_in(flow_name, value_set=self._ids).fill_null(-1).to_numpy().astype(np.int64)
        wanted = np.where(code < 0, np.int64(-1), code * (1 << 32) + positions[:, None]).reshape(-1)
        begin = np.searchsorted(self._code, wanted, side="left")
        length = np.searchsorted(self._code, wanted, side="right") - begin
        offsets = np.concatenate([[0], np.cumsum(length)])
        rows = np.repeat(begin - offsets[:-1], length) + np.arange(offsets[-1])
        return pa.ListArray.from_arrays(
            pa.array(offsets, pa.int32()), self._values.take(pa.array(rows)), mask=pa.array(length == 0)
        )


def node_id(position: int) -> str:
    """Id of the event of the node with index `position`, as 16 hex digits."""
    return f"{position + 1:016x}"


def event_id(position: int, form: EventForm) -> bytes:
    """Id of the event of the node with index `position`, as bytes: 8 raw bytes for spans, 16 hex digits for
    records."""
    text = node_id(position)
    return bytes.fromhex(text) if form is EventForm.SPANS else text.encode()


@dataclass(frozen=True, slots=True)
class _Category:
    """Flows of one category: their common structure, and the time of each node in each flow."""

    nodes: list[dict[str, Any]]
    """Rows of the structure's nodes."""
    edges: frozenset[tuple[int, int]]
    """(source, destination) node indices of each edge."""
    made_up: frozenset[int]
    """Indices of nodes that `stitch` inserted (a missing root or parent), and that correspond to no recorded
    event."""
    kept: list[int]
    """Indices of the nodes that become events, ascending."""
    request_id: pa.Array
    """Exported request ids, [requests]."""
    times: I8
    """int64[requests, nodes]: time of each node, ns since the epoch."""
    end_ns: I8
    """int64[requests]: time at which the response was sent, ns since the epoch."""

    def of_nodes(self, values: Sequence[object], type_: pa.DataType) -> pa.Array:
        """Repeat values [kept nodes] for every request: Arrow array in the order [kept nodes, requests]."""
        at = np.repeat(np.arange(len(self.kept)), len(self.times))
        return pa.array(values, type_).take(pa.array(at))

    def of_requests(self, values: pa.Array) -> pa.Array:
        """Repeat values [requests] for every kept node: Arrow array in the order [kept nodes, requests]."""
        return values.take(pa.array(np.tile(np.arange(len(self.times)), len(self.kept))))

    def times_of(self, positions: Sequence[int]) -> pa.Array:
        """Times at the nodes with indices `positions`, ns since the epoch, in the order [positions,
        requests]."""
        return pa.array(self.times[:, positions].T.reshape(-1))

    def predecessors(self) -> list[list[int]]:
        """Indices of the direct predecessors of each node in `kept`; nodes that `stitch` inserted are left
        out."""
        before: dict[int, list[int]] = {}
        for source, to in sorted(self.edges):
            if source not in self.made_up:
                before.setdefault(to, []).append(source)
        return [before.get(position, []) for position in self.kept]


def _made_up(nodes: list[dict[str, Any]], edges: list[tuple[int, int]]) -> frozenset[int]:
    """Find the indices of nodes that `stitch` inserted: nodes with children and with the names that `stitch`
    gives to inserted nodes.

    A recorded node with such a name and kind, and with child nodes, cannot be told from an inserted one; when
    the export is read again, `stitch` inserts that node again.
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
        # The two sides of a span count as one node below.
        if (nodes[p]["point"] == SYNTHETIC_POINTS[MISSING_EVENT] and below[p])
        or (nodes[p]["point"] == SYNTHETIC_POINTS[ROOT_EVENT] and below[p] > (2 if from_spans else 1))
    }
    return frozenset(leading | {p for p in named if from_spans and nodes[p]["mate"] in leading})


def _category_events(
    flows: pa.Table, request_id: pa.Array, structure: Mapping[str, Any], params: _ParamIndex, form: EventForm
) -> pa.Table:
    """Make the events of all flows of one category, node by node. request_id: [flows] ids under which they
    are exported."""
    nodes: list[dict[str, Any]] = structure["nodes"]
    offsets = flows["offset_ns"].combine_chunks().flatten().to_numpy().reshape(flows.num_rows, len(nodes))
    start = flows["start_ns"].to_numpy()
    edges = [(edge["src"], edge["dst"]) for edge in structure["in_edges"]]
    made_up = _made_up(nodes, edges)
    as_spans = form is EventForm.SPANS
    category = _Category(
        nodes=nodes,
        edges=frozenset(edges),
        made_up=made_up,
        kept=[
            position
            for position, node in enumerate(nodes)
            if position not in made_up and not (as_spans and (node["side"] == END or _is_mark(node)))
        ],
        request_id=request_id,
        times=offsets + start[:, None],
        end_ns=start + flows["response_ns"].to_numpy(),
    )
    kept, positions = [nodes[position] for position in category.kept], np.array(category.kept, np.int64)
    from_spans = any(node["side"] == START for node in nodes)
    describe = _RECORDS_OF[from_spans] if form is EventForm.RECORDS else _SPANS_OF[from_spans]
    hosts = flows["host"].combine_chunks().flatten()
    columns: dict[str, pa.Array] = {
        "request_id": category.of_requests(request_id),
        "id": category.of_nodes([event_id(position, form) for position in category.kept], pa.binary()),
        "ts_ns": category.times_of(category.kept),
        "component": category.of_nodes([node["component"] for node in kept], _WORD),
        "point": category.of_nodes(
            [node["point"] + ("" if as_spans else SIDE_MARK[node["side"]]) for node in kept], _WORD
        ),
        "label": category.of_nodes([node["label"] for node in kept], _WORD),
        "host": hosts.take(
            pa.array((positions[:, None] + np.arange(flows.num_rows) * len(nodes)).reshape(-1))
        ),
        "shared": pa.array(np.zeros(len(kept) * flows.num_rows, np.bool_)),
        "status": _statuses(flows, positions, len(nodes)),
        "sample_rate": category.of_requests(_rates(flows)),
        "params": params.lists(flow_names(flows), positions),
        **describe(category),
    }
    n = len(kept) * flows.num_rows
    arrays = [
        columns[field.name].cast(field.type) if field.name in columns else pa.nulls(n, field.type)
        for field in EVENT_SCHEMA
    ]
    return pa.Table.from_arrays(arrays, schema=EVENT_SCHEMA)


def _statuses(flows: pa.Table, positions: I8, n_nodes: int) -> pa.DictionaryArray:
    """Status of each flow at the node indices `positions`, in the order [positions, flows]: "ok" or an error
    class."""
    failed = flows["error_position"].combine_chunks()
    words = flows["error_class"].combine_chunks().flatten().cast(pa.string()).dictionary_encode()
    codes = np.zeros((n_nodes, flows.num_rows), np.int32)
    codes[failed.flatten().to_numpy(), pc.list_parent_indices(failed).to_numpy()] = (
        words.indices.to_numpy(zero_copy_only=False).astype(np.int32) + 1
    )
    return pa.DictionaryArray.from_arrays(
        codes[positions].reshape(-1), pa.array(["ok", *words.dictionary.to_pylist()], pa.string())
    )


def _rates(flows: pa.Table) -> pa.Array:
    """Sampling probability of each flow, float64[flows]; null where it was not recorded."""
    rates = pc.divide(1.0, flows["weight"].combine_chunks())
    return pc.if_else(flows["weight_known"].combine_chunks(), rates, pa.scalar(None, pa.float64()))


def _is_mark(node: Mapping[str, Any]) -> bool:
    """True if a node is a span event, i.e. a point in time inside a span."""
    return bool(node["side"] == POINT and node["parent"] >= 0)


def _spans(category: _Category) -> dict[str, pa.Array]:
    """Make the columns that describe spans as recorded: end times, parents, span events.

    A span gets `follows` instead of `parents` if it is asynchronous, i.e. nothing waits for it.
    """
    nodes = category.nodes
    root = SYNTHETIC_POINTS[ROOT_EVENT]
    parents: list[list[bytes] | None] = []
    follows: list[list[bytes] | None] = []
    for position in category.kept:
        node = nodes[position]
        parent = node["parent"]
        has_parent = parent >= 0 and not (parent in category.made_up and nodes[parent]["point"] == root)
        messaging = node["kind"] in (EventKind.SPAN_PRODUCER, EventKind.SPAN_CONSUMER)
        waits = has_parent and (node["mate"], nodes[parent]["mate"]) in category.edges
        asynchronous = node["deferred"] and not messaging and not waits
        ids = [event_id(parent, EventForm.SPANS)] if has_parent else None
        parents.append(None if asynchronous else ids)
        follows.append(ids if asynchronous else None)
    return {
        "kind": category.of_nodes([nodes[position]["kind"] for position in category.kept], pa.uint8()),
        "end_ns": category.times_of([nodes[position]["mate"] for position in category.kept]),
        "parents": category.of_nodes(parents, _IDS),
        "follows": category.of_nodes(follows, _IDS),
        "marks": _mark_lists(category),
    }


def _mark_lists(category: _Category) -> pa.Array:
    """Span events of each exported span in time order, as Arrow lists in the order [kept, requests]; null if
    it has none."""
    nodes, n = category.nodes, len(category.times)
    marks: dict[int, list[int]] = {}
    for position, node in enumerate(nodes):
        if _is_mark(node):
            marks.setdefault(node["parent"], []).append(position)
    none = pa.nulls(n, pa.list_(MARK_TYPE))
    lists = [
        _marks_of(nodes, marks[position], category.times) if position in marks else none
        for position in category.kept
    ]
    return pa.concat_arrays(lists)


def _marks_of(nodes: list[dict[str, Any]], marks: list[int], times: I8) -> pa.Array:
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


def _records(category: _Category) -> dict[str, pa.Array]:
    """Make the columns that describe records: predecessors as explicit parents, and a separate breadcrumb for
    each node."""
    parents = [[event_id(p, EventForm.RECORDS) for p in before] for before in category.predecessors()]
    kinds = [category.nodes[position]["kind"] for position in category.kept]
    return {
        "kind": category.of_nodes(kinds, pa.uint8()),
        "breadcrumb": category.of_nodes([node_id(position) for position in category.kept], pa.string()),
        "parents": category.of_nodes(parents, _IDS),
    }


def _records_of_spans(category: _Category) -> dict[str, pa.Array]:
    """Make the columns of activity records for the starts and ends of spans; the end of the root span is the
    END record."""
    response = category.nodes[0]["mate"]
    kinds = [EventKind.END if position == response else EventKind.EVENT for position in category.kept]
    return {**_records(category), "kind": category.of_nodes(kinds, pa.uint8())}


def _spans_of_records(category: _Category) -> dict[str, pa.Array]:
    """Make the columns of spans of zero length for records: the first predecessor is the parent, all other
    predecessors become links, as OTLP allows one parent.

    The root lasts until the response, so that its length is the response time.
    """
    before = category.predecessors()
    ends = category.times[:, category.kept].T.copy()
    ends[[position == 0 for position in category.kept]] = category.end_ns
    parents = [[event_id(p, EventForm.SPANS) for p in some[:1]] for some in before]
    return {
        "kind": category.of_nodes([EventKind.SPAN_INTERNAL] * len(before), pa.uint8()),
        "end_ns": pa.array(ends.reshape(-1)),
        "parents": category.of_nodes(parents, _IDS),
        "links": _links(category, [[node_id(p) for p in some[1:]] for some in before]),
    }


def _links(category: _Category, ids: list[list[str]]) -> pa.Array:
    """Lists of links `trace/span`, Arrow lists in the order [kept, requests]. ids: for each kept node the ids
    of the spans to link to."""
    spans = category.of_nodes(ids, _STRINGS)
    traces = category.of_requests(category.request_id).take(pc.list_parent_indices(spans))
    values = pc.binary_join_element_wise(traces, spans.flatten(), "/")
    return pa.ListArray.from_arrays(spans.offsets, values).cast(_STRINGS)


_SPANS_OF: Final = {True: _spans, False: _spans_of_records}
"""Form in which flows were recorded (True: spans, False: activity records) -> function that makes the columns
of spans."""
_RECORDS_OF: Final = {True: _records_of_spans, False: _records}
"""Form in which flows were recorded (True: spans, False: activity records) -> function that makes the columns
of records."""
