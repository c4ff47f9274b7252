"""Placed flows: request-flow graphs as arrays in canonical order, without strings; both graph builders return
them.

`stitch.spans.span_graphs` (trees of spans) and `stitch.records.record_graphs` (DAGs of activity records)
build them; later steps (keys, text, loops, tables) do not depend on which of the two did.

Labels of a batch are coded: one small integer for each distinct (component, point, label, kind).
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.arrays import B1, I4, I8, U1, U4, U8
from schemas.events import EventKind
from stitch.columnar.hashing import hash_labels
from stitch.columnar.runs import no_rows, offsets, ranges, whole

POINT, START, END = 0, 1, 2
"""Values of `side`: a point, or the start or end of a span."""

MISSING_EVENT, ROOT_EVENT = -1, -2
"""`event` of the synthetic nodes `?/missing` and `?/root`: two nodes of one made-up span (START and END, kind
SPAN_UNSPECIFIED) in flows of spans, a POINT of kind EVENT in flows of activity records."""


@dataclass(frozen=True, slots=True)
class PlacedNodes:
    """Nodes and edges of flows in arrays, concatenated flow by flow, the nodes of each flow in canonical
    order.

    Canonical: the order depends on the labelled graph alone, except that interchangeable branches are ordered
    by start time. It is topological (src < dst on every edge), and node 0 is the only source. So two flows
    have the same structure iff their node labels, `side`, `mate`, `parent`, `deferred`, edges and responses
    are equal position by position.
    """

    first_node: I8
    """[flows + 1] index of each flow's first node; last, the number of nodes."""
    first_edge: I8
    """[flows + 1] index of each flow's first edge; last, the number of edges."""
    event: I8
    """[nodes] row in the event batch, or MISSING_EVENT or ROOT_EVENT for a synthetic node."""
    side: U1
    """[nodes] POINT, START or END."""
    point_code: I4
    """[nodes] index into `mark_names` for a node that is a span event (a mark): its point name; component,
    label and kind are those of the span. -1 for other nodes."""
    ts_ns: I8
    """[nodes] time, ns since the epoch."""
    mate: I4
    """[nodes] position, within the flow, of the span's other node (its end for a start, its start for an
    end); -1 for points."""
    parent: I4
    """[nodes] position, within the flow, of the start of the parent span; -1 for roots and activity
    records."""
    deferred: B1
    """[nodes] True if the response to the caller does not wait for the node."""
    response: B1
    """[nodes] True if the response to the caller may leave from the node."""
    src: I4
    """[edges] position of the source within its flow; edges are sorted by (flow, dst, src) and transitively
    reduced."""
    dst: I4
    """[edges] position of the destination within its flow."""

    def flow_of(self, nodes: I8) -> I8:
        """[nodes] index of the flow to which each of `nodes` belongs."""
        flow: I8 = np.searchsorted(self.first_node, nodes, side="right") - 1
        return flow

    def nodes_of(self, flows: I8) -> I8:
        """Node indices of the given flows, concatenated in the order of `flows`."""
        return ranges(self.first_node[flows], np.diff(self.first_node)[flows])

    def taken(self, flows: I8) -> PlacedNodes:
        """Copy of the nodes and edges of the given flows, in the order of `flows`."""
        nodes, n_edges = self.nodes_of(flows), np.diff(self.first_edge)[flows]
        edges = ranges(self.first_edge[flows], n_edges)
        return PlacedNodes(
            first_node=offsets(np.diff(self.first_node)[flows]),
            first_edge=offsets(n_edges),
            event=self.event[nodes],
            side=self.side[nodes],
            point_code=self.point_code[nodes],
            ts_ns=self.ts_ns[nodes],
            mate=self.mate[nodes],
            parent=self.parent[nodes],
            deferred=self.deferred[nodes],
            response=self.response[nodes],
            src=self.src[edges],
            dst=self.dst[edges],
        )


@dataclass(frozen=True, slots=True)
class PlacedFlows(PlacedNodes):
    """Flows of one event batch, sorted by request code."""

    request: I8
    """[flows] request code, an index into `request_names`."""
    quality: U4
    """[flows] quality flags: bits of `Quality`."""
    code: I8
    """[event rows] code of the row's request; -1 for rows that were dropped before they were assigned to
    requests."""
    request_names: pa.StringArray
    """[request codes] request id for each code."""
    conflicts: I8
    """Rows of the event batch that were dropped because another row with the same id and different content
    was kept."""
    copies: I8
    """Rows of the event batch dropped as exact duplicates."""
    timeless: I8
    """Rows of the event batch that were dropped because no event of their request has a time."""
    mark_names: tuple[str, ...] = ()
    """Names of span-event nodes (marks), indexed by `point_code`."""
    merged: tuple[I8, I8] = field(default_factory=lambda: (no_rows(), no_rows()))
    """(Event rows of partial reports of spans, event rows of the spans into which these were merged): two
    int64 arrays of equal length."""

    @classmethod
    def of_nodes(cls, nodes: PlacedNodes, **more: Any) -> PlacedFlows:
        """Make placed flows from `nodes` and the fields that PlacedFlows adds, passed as keywords."""
        return cls(**{each.name: getattr(nodes, each.name) for each in fields(PlacedNodes)}, **more)

    @property
    def of_spans(self) -> B1:
        """[flows] True if the flow was made of spans (its root has a start and an end, even if synthetic);
        False if of activity records."""
        result: B1 = self.side[self.first_node[:-1]] != POINT
        return result

    @property
    def n_flows(self) -> int:
        """Number of flows."""
        return len(self.request)


def rows_of_nodes(event: I8, rows: I8) -> I8:
    """Map `event` [nodes] from rows of a part of the batch to rows of the whole batch; synthetic nodes keep
    their codes. rows: [rows of the part] row in the batch."""
    return np.where(event >= 0, np.append(rows, [0, 0])[event], event)


_word = pa.dictionary(pa.int32(), pa.string())

LABEL_SCHEMA = pa.schema([("component", _word), ("point", _word), ("label", _word), ("kind", pa.uint8())])
"""Schema of a label: a node's component, point, label and kind."""


@dataclass(frozen=True, slots=True)
class LabelCodes:
    """Label of each event, or of each node of placed flows, as a code: an index into a table of distinct
    labels.

    Codes are local to the batch; hashes are stable everywhere.
    """

    code: I8
    """[events or nodes] index into `hashes` and `words`."""
    hashes: U8
    """[codes] stable 64-bit hash of each distinct label, by `stitch.columnar.hashing.hash_labels`."""
    words: pa.Table
    """[codes] distinct labels, a table with LABEL_SCHEMA."""


def encode_labels(events: pa.Table) -> LabelCodes:
    """Code the labels of `events` (each column in one chunk, with unified dictionaries). O(rows) gathers,
    O(distinct) hashing."""
    parts: list[I8] = []
    sizes: list[int] = []
    for name in ("component", "point", "label"):
        column = whole(events[name])
        sizes.append(len(column.dictionary) + 1)
        indices = column.indices
        if column.null_count:
            indices = pc.fill_null(indices, len(column.dictionary))
        parts.append(indices.to_numpy(zero_copy_only=False).astype(np.int64))
    kind = events["kind"].to_numpy().astype(np.int64)
    # Dictionaries are int32-indexed and a batch has < 2^31 rows, but three full ones would overflow: then
    # the first pair is renumbered densely before the third comes in.
    pair = parts[0] * sizes[1] + parts[1]
    n_pairs = sizes[0] * sizes[1]
    if n_pairs * sizes[2] >= 2**55:
        encoded = pa.array(pair).dictionary_encode()
        pair, n_pairs = encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)
    packed = ((pair * sizes[2] + parts[2]) << 8) | kind
    codes = pa.array(packed).dictionary_encode()
    code = codes.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    sample = np.empty(len(codes.dictionary), dtype=np.int64)
    sample[code] = np.arange(len(code))
    taken = events.select(LABEL_SCHEMA.names).take(pa.array(sample))
    words = pa.Table.from_arrays(taken.columns, schema=LABEL_SCHEMA)
    return LabelCodes(code=code, hashes=hash_labels(words), words=words)


NO_COMPONENT = "?"
"""Component of synthetic nodes, and of spans without a service name."""
SYNTHETIC_POINTS = {MISSING_EVENT: "missing", ROOT_EVENT: "root"}
"""Event code of a synthetic node -> its point; the component of both is `?`."""


def synthetic_hash(event: int, kind: int) -> int:
    """Label hash of a synthetic node: `hash_labels` of component `?` and the node's point."""
    words = synthetic_words([(event, kind)])
    return int(hash_labels(words)[0])


def is_made_up(component: str, point: str) -> bool:
    """True if component and point name a synthetic node, which stands for missing spans or records."""
    return component == NO_COMPONENT and point in SYNTHETIC_POINTS.values()


def synthetic_words(nodes: list[tuple[int, int]]) -> pa.Table:
    """Labels of synthetic nodes, given as (event code, kind): one row of LABEL_SCHEMA for each."""
    columns = {
        "component": [NO_COMPONENT] * len(nodes),
        "point": [SYNTHETIC_POINTS[event] for event, _ in nodes],
        "label": [None] * len(nodes),
        "kind": [kind for _, kind in nodes],
    }
    return pa.Table.from_pydict(columns, schema=LABEL_SCHEMA)


def label_nodes(placed: PlacedFlows, labels: LabelCodes) -> LabelCodes:
    """Code the labels of the nodes of placed flows. labels: those of the event batch.

    A node has its event's label. Synthetic nodes are `?/missing` and `?/root`. A mark (span event) has the
    label of its span, but the mark's name as point.
    """
    # Synthetic nodes have the kind of their surroundings: spans have sides, records are points.
    n = len(labels.hashes)
    extended = np.append(labels.code, np.zeros(2, np.int64))
    code = extended[placed.event]
    words = [labels.words]
    made_up = np.flatnonzero(placed.event < 0)
    if len(made_up):
        variants = [
            (event, kind)
            for event in SYNTHETIC_POINTS
            for kind in (EventKind.EVENT, EventKind.SPAN_UNSPECIFIED)
        ]
        of_span = placed.side[made_up] != POINT
        code[made_up] = n + 2 * (placed.event[made_up] == ROOT_EVENT) + of_span
        words.append(synthetic_words([(event, int(kind)) for event, kind in variants]))
        n += len(variants)
    marks = np.flatnonzero(placed.point_code >= 0)
    if len(marks):
        pair = labels.code[placed.event[marks]] * len(placed.mark_names) + placed.point_code[marks]
        distinct, inverse = np.unique(pair, return_inverse=True)
        code[marks] = n + inverse
        spans, names = np.divmod(distinct, len(placed.mark_names))
        rows = labels.words.take(pa.array(spans))
        points = pa.array(placed.mark_names, pa.string()).take(pa.array(names))
        columns = [rows["component"], points.cast(_word), rows["label"], rows["kind"]]
        words.append(pa.Table.from_arrays(columns, schema=LABEL_SCHEMA))
    if len(words) == 1:
        return LabelCodes(code, labels.hashes, labels.words)
    table = pa.concat_tables(words).unify_dictionaries().combine_chunks()
    return LabelCodes(code, hash_labels(table), table)
