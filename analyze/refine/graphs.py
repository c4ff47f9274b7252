"""Merge drafts into categories: nodes in canonical order, one key for equal graphs, one time matrix each.

A draft is a refined graph before canonical ordering, with its requests. Its times may have been moved between
interchangeable branches, request by request; `Draft.moved` holds the column that each time comes from. A
node's host, failures and left-out children are looked up through `moved`, so that a host stays with its time.
Settled times are consistent with the graph: clipped to the parent's span and to [0, response time], and never
before a predecessor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from analyze.cache_blocks import FEW_CELLS, MANY_CELLS, blocks, uneven_blocks
from analyze.population import (
    NO_FAILURES,
    Category,
    Codes,
    Graph,
    GraphNode,
    GraphText,
    LeftBehind,
    Nesting,
    RecordedFailures,
    Source,
)
from analyze.ragged import Ragged
from analyze.refine.stored import Operation, StoredCategory, row_order
from analyze.stats.sums import numbered
from schemas.arrays import B1, I4, I8, U8
from stitch.columnar.hashing import hash_word
from stitch.columnar.runs import inverse, ranges
from stitch.graph.order.dag import Dags, canonical_order
from stitch.graph.placed import END
from stitch.graph.template import Template

Columns = npt.NDArray[np.unsignedinteger[Any]]
"""Array of column numbers of the stored structure, in the smallest unsigned dtype that holds them."""
_Left = tuple[LeftBehind, ...]
_N_SIDES = 3
"""Number of sides of nodes: POINT, START, END."""


class NodeColumns(NamedTuple):
    """Properties of the nodes of draft graphs, one array each."""

    name: I8
    """int64[nodes]: index into `StructureNodes.names` of the node's operation."""
    word: I8
    """int64[nodes]: index into `HostLabels.words` of the host in the node's label; 0 if it has none."""
    side: I8
    """int64[nodes]: POINT, START or END (of a span)."""
    kind: I8
    """int64[nodes]: `EventKind` of the event that the node stands for."""
    column: I8
    """int64[nodes]: row of `Draft.times` with the node's time."""
    deferred: B1
    """bool[nodes]: True if the response does not wait for the node."""
    response: B1
    """bool[nodes]: True if the request's response may be sent at this node."""


class NodeLinks(NamedTuple):
    """References from nodes of draft graphs to other nodes, one array each."""

    mate: I8
    """int64[nodes]: for a span's start, the node of its end, and vice versa; -1 for a point."""
    below: I8
    """int64[nodes]: node at which the parent starts, the lower bound of the node's time; -1: the bound is the
    request's start."""
    above: I8
    """int64[nodes]: node at which the parent ends, the upper bound of the node's time; -1: the bound is the
    request's response, because there is no parent or it does not wait for the node."""


@dataclass(frozen=True, slots=True)
class DraftGraphs:
    """Labelled DAGs of many drafts, with one numbering of all nodes; each DAG's nodes are in topological
    order."""

    first: I8
    """int64[drafts + 1]: index of each draft's first node; the last entry is the number of nodes."""
    nodes: NodeColumns
    links: NodeLinks
    first_edge: I8
    """int64[drafts + 1]: index of each draft's first edge; the last entry is the number of edges."""
    src: I8
    """int64[edges]: node at which the edge begins."""
    dst: I8
    """int64[edges]: node at which the edge ends; an edge may be implied by a path of other edges."""

    @property
    def draft(self) -> I8:
        """int64[nodes]: number of the draft that each node belongs to."""
        return np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))

    def followed_by(self, other: DraftGraphs) -> DraftGraphs:
        """Concatenation: the graphs of this object, then those of `other`."""
        n = self.first[-1]
        links = (
            np.concatenate((mine, np.where(its < 0, -1, its + n)))
            for mine, its in zip(self.links, other.links, strict=True)
        )
        return DraftGraphs(
            np.concatenate((self.first, other.first[1:] + n)),
            NodeColumns._make(np.concatenate(pair) for pair in zip(self.nodes, other.nodes, strict=True)),
            NodeLinks._make(links),
            np.concatenate((self.first_edge, other.first_edge[1:] + self.first_edge[-1])),
            np.concatenate((self.src, other.src + n)),
            np.concatenate((self.dst, other.dst + n)),
        )

    def of_draft(self, number: int) -> DraftGraphs:
        """The graph of draft `number` alone, with its nodes numbered from 0."""
        begin, end = self.first[number : number + 2].tolist()
        edges = slice(*self.first_edge[number : number + 2].tolist())
        return DraftGraphs(
            np.array([0, end - begin]),
            NodeColumns._make(column[begin:end] for column in self.nodes),
            NodeLinks._make(np.maximum(link[begin:end] - begin, -1) for link in self.links),
            np.array([0, edges.stop - edges.start]),
            self.src[edges] - begin,
            self.dst[edges] - begin,
        )


class LeftOut(NamedTuple):
    """Deferred child that is not a node of the graph, because no response waits for it."""

    column: int
    """Row of `Draft.times` with the start of the span that called the child."""
    operation: str
    """Operation of the child: `component/point[/label]`."""


def own_columns(n_columns: int, n_rows: int) -> Columns:
    """[n_columns, n_rows]: every cell holds its column's number; initial value of `Draft.moved`."""
    numbers: Columns = np.arange(n_columns).astype(np.min_scalar_type(n_columns))
    return np.repeat(numbers[:, None], n_rows, axis=1)


@dataclass(frozen=True, slots=True)
class Draft:
    """Requests of one stored category that get the same refined graph."""

    category: StoredCategory
    structure: int
    """Number of the stored category (index into `FlowMatrices.categories`)."""
    rows: I8 | None
    """int64[requests]: rows of `category` that belong to the draft, ascending; None: all rows."""
    times: I8
    """int64[stored nodes, requests]: skew-corrected times, ns since the request's start; interchangeable
    branches are sorted by start."""
    moved: Columns | None = None
    """[stored nodes, requests]: stored column that each time came from when branches were sorted; None: no
    time was moved. Hosts and failures are not moved, so look them up by this column."""
    left_out: tuple[LeftOut, ...] = ()
    """Deferred children (no response waits for them), which are not nodes of the graph."""
    nested: bool = True
    """True if nodes belong to spans, so that `NodeLinks` gives the nesting; False for activity records."""
    shift: I8 | None = None
    """int64[stored nodes, requests]: ns that the skew correction added to each time; None: nothing."""
    twins_by_row: bool = False
    """True if interchangeable branches may not be sorted by start yet, so that `assemble` has to sort them in
    each request."""

    @property
    def n_requests(self) -> int:
        """Number of requests in the draft."""
        return int(self.times.shape[1])

    def of_rows(self, chosen: I8) -> Draft:
        """Copy of the draft with the chosen requests only. chosen: int64[n], indices of requests,
        ascending."""
        return replace(
            self,
            rows=chosen if self.rows is None else self.rows[chosen],
            times=self.times[:, chosen],
            moved=None if self.moved is None else self.moved[:, chosen],
            shift=None if self.shift is None else self.shift[:, chosen],
        )

    def taken(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """[requests of the draft]: select from `values`, [requests of the stored category]."""
        return values if self.rows is None else values[self.rows]


def equal_rows(columns: npt.NDArray[np.signedinteger]) -> tuple[I8, I8]:
    """Group equal rows of `columns`, an array [columns, rows] of numbers >= 0.

    Returns (int64[groups] first row of each group, int64[rows] group of each row). Groups are numbered in
    lexicographic order of their contents, so the numbering does not depend on the order of rows.
    """
    differing = columns[(columns != columns[:, :1]).any(axis=1)]
    if not len(differing):
        n_rows = columns.shape[1]
        return np.zeros(min(n_rows, 1), dtype=np.int64), np.zeros(n_rows, dtype=np.int64)
    group, first = numbered(differing)
    return first, group


def assemble(
    drafts: Sequence[Draft],
    graphs: DraftGraphs,
    names: Sequence[Operation],
    words: Sequence[str],
) -> tuple[Category, ...]:
    """Categories of all drafts, sorted by (root, key); drafts with equal graphs are merged.

    names: operations, indexed by `NodeColumns.name`; words: hosts or roles, indexed by `NodeColumns.word`.
    O(nodes · requests).
    """
    if not drafts:
        return ()
    labels = _Labels.of(graphs, names, words)
    graphs, labels, drafts = _canonical(drafts, graphs, labels)
    made = _Made(drafts, graphs, labels)
    groups: dict[tuple[str, str], list[int]] = {}
    for number in np.argsort([draft.structure for draft in drafts], kind="stable").tolist():
        groups.setdefault((drafts[number].category.structure.root, made.key(number)), []).append(number)
    return tuple(made.category(root, key, members) for (root, key), members in sorted(groups.items()))


class _Labels(NamedTuple):
    """Distinct labels (name, host, side) of the nodes of draft graphs."""

    code: I8
    """int64[nodes]: index into `label`."""
    label: tuple[GraphNode, ...]
    text: tuple[bytes, ...]
    """[labels]: length (8 bytes) and UTF-8 text of each label, different for different labels; hashed for the
    category's key."""
    hash: U8
    """uint64[2, labels]: hash of each label, [0] for nodes at which no response is sent, [1] for nodes at
    which the response may be sent."""

    @staticmethod
    def of(graphs: DraftGraphs, names: Sequence[Operation], words: Sequence[str]) -> _Labels:
        """Find the distinct labels of nodes. O(nodes log nodes)."""
        nodes = graphs.nodes
        _, first, code = np.unique(
            (nodes.name * len(words) + nodes.word) * _N_SIDES + nodes.side,
            return_index=True,
            return_inverse=True,
        )
        label = tuple(
            GraphNode(names[name].component, names[name].point, names[name].label, words[word], side)
            for name, word, side in zip(
                nodes.name[first].tolist(),
                nodes.word[first].tolist(),
                nodes.side[first].tolist(),
                strict=True,
            )
        )
        texts = [_name(one) for one in label]
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        # Whether the response may leave at a node distinguishes it, too. No name ends like another one.
        hashes = [[hash_word(text + end) for text in texts] for end in ("", "!")]
        return _Labels(
            code,
            label,
            tuple(len(text).to_bytes(8, "little") + text for text in encoded),
            np.array(hashes, dtype=np.uint64),
        )

    def hashed(self, response: B1) -> U8:
        """uint64[nodes]: hash of each node's label. response: bool[nodes], True if the response may be sent
        at the node."""
        return self.hash[response.astype(np.int64), self.code]


def _name(label: GraphNode) -> str:
    """Text of a label, to be hashed; different labels have different texts."""
    # The lengths say where each part ends, so no part can pass for two.
    component, point, word, host, side = label
    if word is None:
        return f"{side} {len(host)} {len(component)} {len(point)} {host}{component}{point}"
    return f"{side} {len(host)} {len(component)} {len(point)} {len(word)} {host}{component}{point}{word}"


def _canonical(
    drafts: Sequence[Draft], graphs: DraftGraphs, labels: _Labels
) -> tuple[DraftGraphs, _Labels, list[Draft]]:
    """(graphs with nodes in canonical order, their labels, drafts). Sorts the interchangeable branches of
    drafts with `twins_by_row` in each request."""
    dags = Dags(graphs.first, labels.hashed(graphs.nodes.response), graphs.src, graphs.dst)
    # Columns of interchangeable branches stand in order of start, so their number serves as time.
    result = canonical_order(dags, np.arange(len(dags.label), dtype=np.int64))
    drafts = [
        _by_row(draft, number, graphs, labels, result.order) if draft.twins_by_row else draft
        for number, draft in enumerate(drafts)
    ]
    order = result.order + np.repeat(graphs.first[:-1], np.diff(graphs.first))
    place = np.append(inverse(order), -1)  # the last entry is that of no node, -1
    first_of_edge = np.repeat(graphs.first[:-1], np.diff(result.first_edge))
    ordered = DraftGraphs(
        graphs.first,
        NodeColumns._make(column[order] for column in graphs.nodes),
        NodeLinks._make(place[link[order]] for link in graphs.links),
        result.first_edge,
        result.src + first_of_edge,
        result.dst + first_of_edge,
    )
    return ordered, labels._replace(code=labels.code[order]), drafts


def _by_row(draft: Draft, number: int, graphs: DraftGraphs, labels: _Labels, orders: I8) -> Draft:
    """Draft with its interchangeable branches sorted by start in every request (moves times, not nodes).

    number: the draft's number in `graphs`. orders: int64[nodes], node at each canonical position, from 0 in
    each draft."""
    nodes, graph = slice(*graphs.first[number : number + 2].tolist()), graphs.of_draft(number)
    order, column = orders[nodes], graph.nodes.column
    times = np.ascontiguousarray(draft.times[column].T)
    members = np.zeros(len(times), dtype=np.int64)
    hashes = labels._replace(code=labels.code[nodes]).hashed(graph.nodes.response)
    dag = Dags(graph.first, hashes, graph.src, graph.dst)
    by_row = canonical_order(dag, times.reshape(-1), member=members).order.reshape(times.shape)
    if bool((by_row == order).all()):
        return draft
    settled, moved = draft.times.copy(), own_columns(*draft.times.shape)
    # Position p of a request is its node by_row[p]; the shared order has node order[p] there.
    settled[column[order]] = np.take_along_axis(times, by_row, axis=1).T
    moved[column[order]] = column[by_row].T
    return replace(draft, times=settled, moved=moved)


class _Times(NamedTuple):
    """Times of a draft's requests, made consistent with its graph."""

    node_ns: I8
    """int64[nodes, requests]: time of each node, ns since the request's start."""
    response_ns: I8
    """int64[requests]: response time, ns."""
    moved: B1 | None
    """bool[nodes]: True if the node's time was changed in any request; None: no time was changed."""


class _Made:
    """Builds `Category` objects from drafts whose graphs are in canonical order."""

    def __init__(self, drafts: Sequence[Draft], graphs: DraftGraphs, labels: _Labels) -> None:
        self.drafts, self.graphs, self.labels = drafts, graphs, labels
        self.fitting = _fitting_times(drafts, graphs)
        nodes, links = graphs.nodes, graphs.links
        base = np.repeat(graphs.first[:-1], np.diff(graphs.first))
        self.code = labels.code.tolist()
        self.first, self.first_edge = graphs.first.tolist(), graphs.first_edge.tolist()
        edges = np.stack((graphs.src, graphs.dst), axis=1)
        self.edges: I4 = (edges - base[edges]).astype(np.int32)
        local = np.arange(len(base)) - base
        self.owner: I4 = np.where(nodes.side == END, links.mate - base, local).astype(np.int32)
        self.parent: I4 = np.where(links.below < 0, -1, links.below - base).astype(np.int32)
        self.mate: I4 = np.where(links.mate < 0, -1, links.mate - base).astype(np.int32)
        self.kind = nodes.kind.astype(np.uint8)
        answering = np.flatnonzero(nodes.response)
        self.first_response = np.searchsorted(answering, graphs.first).tolist()
        self.responses: I4 = local[answering].astype(np.int32)

    def _ranges(self, number: int) -> tuple[slice, slice, slice]:
        """(range of nodes, range of edges, range of responses) of draft `number` in the flat arrays."""
        return tuple(
            slice(first[number], first[number + 1])
            for first in (self.first, self.first_edge, self.first_response)
        )  # type: ignore[return-value]

    def key(self, number: int) -> str:
        """Key of the draft's graph: 32 hex digits, a 128-bit hash of its node labels, edges and responses.
        Different graphs are hashed from different bytes."""
        nodes, edges, responses = self._ranges(number)
        digest = blake2b(b"flowdiff refined 2\0", digest_size=16)
        sizes = [one.stop - one.start for one in (nodes, edges, responses)]
        digest.update(np.array(sizes, dtype="<i8").tobytes())
        digest.update(b"".join(map(self.labels.text.__getitem__, self.code[nodes])))
        digest.update(self.edges[edges].astype("<i4", copy=False).tobytes())
        digest.update(self.responses[responses].astype("<i4", copy=False).tobytes())
        return digest.hexdigest()

    def graph(self, root: str, key: str, number: int) -> Graph:
        """Graph of draft `number`. root: root type; key: `self.key(number)`."""
        nodes, edges, responses = self._ranges(number)
        labels = tuple(map(self.labels.label.__getitem__, self.code[nodes]))
        nesting = Nesting(self.owner[nodes], self.parent[nodes], self.kind[nodes])
        parts = (labels, self.edges[edges], self.responses[responses])
        return Graph(
            key,
            root,
            *parts,
            text=GraphText(partial(_template, *parts, self.mate[nodes], self.graphs.nodes.deferred[nodes])),
            nesting=nesting if self.drafts[number].nested else None,
        )

    def _times(self, number: int) -> _Times:
        """Times of draft `number`, consistent with its graph. Call at most once per draft."""
        if number in self.fitting:
            return self.fitting.pop(number)
        return _settle(self.drafts[number].times, self.graphs.of_draft(number))

    def category(self, root: str, key: str, numbers: Sequence[int]) -> Category:
        """Merge drafts that have the same graph into one category. numbers: the drafts' numbers."""
        graph = self.graph(root, key, numbers[0])
        members = [self.drafts[number] for number in numbers]
        settled = [self._times(number) for number in numbers]
        columns = [self.graphs.nodes.column[self._ranges(number)[0]] for number in numbers]
        skewed = np.zeros(len(graph.edges), dtype=np.bool_)
        for draft, column, times in zip(members, columns, settled, strict=True):
            skewed |= _changed_edges(draft, graph.edges, column, times)
        start_ns, sample, weight, status = (
            _joined([draft.taken(getattr(draft.category, name)) for draft in members])
            for name in ("start_ns", "sample", "weight", "status")
        )
        node_ns = _joined([one.node_ns for one in settled], axis=1)
        response_ns = _joined([one.response_ns for one in settled])
        ids = [
            draft.category.request_id
            if draft.rows is None
            else draft.category.request_id.take(pa.array(draft.rows))
            for draft in members
        ]
        request_id = ids[0] if len(ids) == 1 else pa.concat_arrays(ids)
        order: I8 | slice = slice(None)
        if len(members) > 1:
            order = row_order(sample.astype(np.int64), start_ns, request_id)
            node_ns = np.take(node_ns, order, axis=1)
            request_id = request_id.take(pa.array(order))
        sources, source = _sources(members)
        origin, left_behind = _left_behind(members, columns)
        return Category(
            graph=graph,
            node_ns=node_ns,
            response_ns=response_ns[order],
            start_ns=start_ns[order],
            weight=weight[order],
            sample=sample[order],
            status=status[order],
            request_id=request_id,
            stored=tuple(sorted({draft.category.key for draft in members})),
            skewed_edges=skewed,
            host=_hosts(members, columns, order),
            failures=_failures(members, columns, order),
            sources=sources,
            source=None if source is None else source[order],
            origin=None if origin is None else origin[order],
            left_behind=left_behind,
        )


def _joined(parts: Sequence[npt.NDArray[Any]], axis: int = 0) -> npt.NDArray[Any]:
    """Concatenation of arrays; a single one without a copy."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=axis)


def _template(labels: Sequence[GraphNode], edges: I4, responses: I4, mate: I4, deferred: B1) -> Template:
    return Template.of_graph(
        [(n.where, n.point, n.label) for n in labels],
        [(src, dst) for src, dst in edges.tolist()],
        responses.tolist(),
        side=[node.side for node in labels],
        mate=mate.tolist(),
        deferred=deferred.tolist(),
    )


def _hosts(members: Sequence[Draft], columns: Sequence[I8], order: I8 | slice) -> Codes:
    """[nodes, rows]: host codes of a category; a broadcast view if all rows have the same hosts.

    columns: [drafts], each int64[nodes], stored column of each node. order: row of the concatenated drafts
    that becomes each row of the category.
    """
    parts = []
    for draft, column in zip(members, columns, strict=True):
        stored = draft.category.host if draft.rows is None else draft.category.host[:, draft.rows]
        if draft.moved is None:
            parts.append(stored[column])
        else:
            parts.append(np.take_along_axis(stored, draft.moved[column].astype(np.int64), axis=0))
    first = parts[0][:, :1].copy()
    if all((part == first).all() for part in parts):
        return np.broadcast_to(first, (len(first), sum(part.shape[1] for part in parts)))
    return np.ascontiguousarray(_joined(parts, axis=1)[:, order])


def _failures(members: Sequence[Draft], columns: Sequence[I8], order: I8 | slice) -> RecordedFailures:
    """Failures at the nodes of a category's graph, sorted by (row, node).

    columns: [drafts], each int64[nodes], stored column of each node. Row i of the category is row `order[i]`
    of the concatenated drafts."""
    if not any(len(draft.category.failures.row) for draft in members):
        return NO_FAILURES
    rows, positions, errors, first_row = [], [], [], 0
    for draft, column_of in zip(members, columns, strict=True):
        failures = draft.category.failures
        at, mine = failures.row.astype(np.int64), np.arange(len(failures.row))
        if draft.rows is not None:
            at = np.searchsorted(draft.rows, failures.row)
            at[at == len(draft.rows)] = 0
            mine = np.flatnonzero(draft.rows[at] == failures.row)
            at = at[mine]
        column = failures.position[mine].astype(np.int64)
        if draft.moved is not None:
            column = _moved_to(draft.moved, at, column)
        place = _node_of(column_of, draft)[column]
        kept = np.flatnonzero(place >= 0)
        rows.append(at[kept] + first_row)
        positions.append(place[kept])
        errors.append(failures.error[mine][kept])
        first_row += draft.n_requests
    rank = np.empty(first_row, dtype=np.int32)
    rank[order] = np.arange(first_row, dtype=np.int32)
    row, position = rank[np.concatenate(rows)], np.concatenate(positions)
    by_row = np.lexsort((position, row))
    return RecordedFailures(row[by_row], position[by_row], np.concatenate(errors)[by_row])


def _node_of(column: I8, draft: Draft) -> I4:
    """int32[stored columns]: node whose time is in that column; -1 if no node's is. column: int64[nodes],
    stored column of each node."""
    node = np.full(len(draft.times), -1, dtype=np.int32)
    node[column] = np.arange(len(column))
    return node


def _moved_to(moved: Columns, rows: I8, columns: I8) -> I8:
    """int64[entries]: column to which the time of stored column `columns[i]` was moved in request `rows[i]`.

    rows, columns: int64[entries]. O(entries · columns of `moved`)."""
    found = np.empty(len(rows), dtype=np.int64)
    for part in blocks(len(rows), len(moved), MANY_CELLS):
        found[part] = np.argmax(moved[:, rows[part]] == columns[part], axis=0)
    return found


def _sources(members: Sequence[Draft]) -> tuple[tuple[Source, ...], I4 | None]:
    """(`Category.sources`, `Category.source` or None if there is one source); rows in the order of the
    drafts."""
    each = [Source(draft.category.key, draft.category.positions) for draft in members]
    sources = tuple(sorted(set(each), key=lambda one: (one.key, one.positions or ())))
    if len(sources) == 1:
        return sources, None
    n_rows = [draft.n_requests for draft in members]
    return sources, np.repeat(np.array([sources.index(one) for one in each], dtype=np.int32), n_rows)


def _left_behind(members: Sequence[Draft], columns: Sequence[I8]) -> tuple[I4 | None, tuple[_Left, ...]]:
    """(`Category.origin`, `Category.left_behind`): int32[rows] index of each row's set of deferred children,
    and the distinct sets; rows in the order of the drafts. The index is None if there is at most one set."""
    if not any(draft.left_out for draft in members):
        return None, ()
    parts = [_left_variants(draft, column) for draft, column in zip(members, columns, strict=True)]
    words = sorted({variant for variants, _ in parts for variant in variants})
    if len(words) == 1:
        return None, (words[0],)
    code = {word: at for at, word in enumerate(words)}
    origin = [np.array([code[v] for v in variants], dtype=np.int32)[of_row] for variants, of_row in parts]
    return np.concatenate(origin), tuple(words)


def _left_variants(draft: Draft, column_of: I8) -> tuple[list[_Left], I8]:
    """(distinct sets of deferred children of the draft, int64[rows] index of each row's set).

    There can be several sets if branches were sorted. column_of: int64[nodes], stored column of each node."""
    column = np.array([left.column for left in draft.left_out], dtype=np.int64)
    rows = np.arange(draft.n_requests, dtype=np.int64)
    if draft.moved is None or not len(column):
        columns, of_row = column[None, :], np.zeros(len(rows), dtype=np.int64)
    else:
        moved = draft.moved
        by_row = np.stack([_moved_to(moved, rows, np.full(len(rows), at)) for at in column.tolist()])
        first, of_row = equal_rows(by_row)
        columns = by_row[:, first].T
    nodes = _node_of(column_of, draft)[columns]
    operations = [left.operation for left in draft.left_out]
    variants = [tuple(sorted(map(LeftBehind, row, operations))) for row in nodes.tolist()]
    return variants, of_row


def _changed_edges(draft: Draft, edges: I4, column: I8, times: _Times) -> B1:
    """bool[edges]: True if the skew correction, or making times consistent with the graph, changed the edge's
    latency in any request.

    edges: int32[edges, 2] nodes. column: int64[nodes], stored column of each node."""
    changed = np.zeros(len(edges), dtype=np.bool_)
    moved = np.zeros(len(edges), dtype=np.bool_) if times.moved is None else times.moved[edges].any(axis=1)
    for number in np.flatnonzero(moved).tolist():
        src, dst = edges[number]
        before = draft.times[column[dst]] - draft.times[column[src]]
        changed[number] = bool((before != times.node_ns[dst] - times.node_ns[src]).any())
    if draft.shift is not None:
        for number in np.flatnonzero(~changed).tolist():
            src, dst = column[edges[number]]
            changed[number] = bool((draft.shift[dst] != draft.shift[src]).any())
    return changed


def _fitting_times(drafts: Sequence[Draft], graphs: DraftGraphs) -> dict[int, _Times]:
    """Draft number -> times, for small drafts whose stored times need no change to fit their graphs.

    Small: at most `FEW_CELLS` cells (nodes · requests). Drafts that are absent need `_settle`."""
    n_nodes = np.diff(graphs.first)
    n_requests = np.array([draft.n_requests for draft in drafts])
    few = np.flatnonzero(n_nodes * n_requests <= FEW_CELLS)
    n_stored = np.array([len(draft.times) for draft in drafts])
    return {
        number: times
        for part in uneven_blocks((n_stored * n_requests)[few], FEW_CELLS)
        for number, times in _fitting(drafts, graphs, few[part], n_requests)
    }


def _fitting(
    drafts: Sequence[Draft], graphs: DraftGraphs, numbers: I8, n_requests: I8
) -> Iterator[tuple[int, _Times]]:
    """Yield (number, times) for those drafts in `numbers` whose stored times already fit their graphs.

    n_requests: int64[all drafts]."""
    matrices = [drafts[number].times for number in numbers.tolist()]
    stored = np.concatenate([matrix.ravel() for matrix in matrices])
    n_nodes, of = np.diff(graphs.first)[numbers], n_requests[numbers]
    first_cell = np.cumsum([0, *(matrix.size for matrix in matrices[:-1])])
    node = ranges(graphs.first[numbers], n_nodes)
    draft = np.repeat(np.arange(len(numbers)), n_nodes)
    layout, request = Ragged.of(of[draft]), Ragged.of(of)
    raw = stored[layout.at(first_cell[draft] + graphs.nodes.column[node] * of[draft])]
    answering = np.flatnonzero(graphs.nodes.response[node])
    answers = Ragged.of(of[draft[answering]])
    response_ns = np.zeros(request.n_cells, dtype=np.int64)
    np.maximum.at(
        response_ns, answers.at(request.first[draft[answering]]), raw[answers.at(layout.first[answering])]
    )
    # Rows whose times must not be after those of other rows, by their first cells; responses come last.
    first = np.zeros(int(graphs.first[-1]) + 1, dtype=np.int64)
    first[node] = layout.first
    below, above = graphs.links.below[node], graphs.links.above[node]
    inside, under = np.flatnonzero((above < 0) & ~graphs.nodes.deferred[node]), np.flatnonzero(above >= 0)
    n_edges = np.diff(graphs.first_edge)[numbers]
    edge = ranges(graphs.first_edge[numbers], n_edges)
    started = np.flatnonzero(below >= 0)
    earlier = (layout.first[inside], first[below[started]], layout.first[under], first[graphs.src[edge]])
    later = (
        len(raw) + request.first[draft[inside]],
        layout.first[started],
        first[above[under]],
        first[graphs.dst[edge]],
    )
    of_pair = np.concatenate(
        (draft[inside], draft[started], draft[under], np.repeat(np.arange(len(numbers)), n_edges))
    )
    pairs, times = Ragged.of(of[of_pair]), np.concatenate((raw, response_ns))
    wrong = times[pairs.at(np.concatenate(earlier))] > times[pairs.at(np.concatenate(later))]
    fits = np.ones(len(numbers), dtype=np.bool_)
    fits[pairs.spread(of_pair)[wrong]] = False
    fits[layout.spread(draft)[raw < 0]] = False
    ends = np.cumsum(n_nodes * of)
    for at in np.flatnonzero(fits).tolist():
        cells, mine = slice(ends[at] - n_nodes[at] * of[at], ends[at]), request.first[at]
        yield (
            int(numbers[at]),
            _Times(raw[cells].reshape(n_nodes[at], of[at]), response_ns[mine : mine + of[at]], None),
        )


def _settle(times: I8, graph: DraftGraphs) -> _Times:
    """Make the times of one draft consistent with its graph. times: int64[stored nodes, requests], ns.

    The response time T is the latest response (at least 0). Awaited nodes are clipped to [0, T] and to their
    parent's span, then raised to their latest predecessor. Neither step moves a response past T, because all
    predecessors of a node lie within the same bounds.
    """
    column, responses = graph.nodes.column, np.flatnonzero(graph.nodes.response)
    n_nodes, n_requests = len(column), times.shape[1]
    out = np.empty((n_nodes, n_requests), dtype=np.int64)
    response_ns = np.empty(n_requests, dtype=np.int64)
    moved = np.zeros(n_nodes, dtype=np.bool_)
    starts, ends = graph.links.below, graph.links.above
    in_request = (ends < 0) & ~graph.nodes.deferred
    before, behind = np.flatnonzero(starts >= 0).tolist(), np.flatnonzero(ends >= 0)[::-1].tolist()
    sources, targets = graph.src, graph.dst
    for rows in blocks(n_requests, n_nodes):
        raw = times[column, rows]
        latest = np.maximum(raw[responses].max(axis=0), 0)
        response_ns[rows] = latest
        if (
            (raw >= 0).all()
            and (raw[in_request] <= latest).all()
            and (raw[before] >= raw[starts[before]]).all()
            and (raw[behind] <= raw[ends[behind]]).all()
            and (raw[sources] <= raw[targets]).all()
        ):  # most graphs: they fit as they are
            out[:, rows] = raw
            continue
        t = raw.copy()
        np.maximum(t, 0, out=t, where=(starts < 0)[:, None])
        # A parent's start lies before its nodes and its end behind them: it is settled when they need it.
        for node in before:
            np.maximum(t[node], t[starts[node]], out=t[node])
        np.minimum(t, latest, out=t, where=in_request[:, None])
        for node in behind:
            np.minimum(t[node], t[ends[node]], out=t[node])
        if (t[sources] > t[targets]).any():
            for src, dst in zip(sources.tolist(), targets.tolist(), strict=True):
                np.maximum(t[dst], t[src], out=t[dst])
        moved |= (t != raw).any(axis=1)
        out[:, rows] = t
    return _Times(out, response_ns, moved)
