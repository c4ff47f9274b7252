"""Merge drafts into categories: nodes in canonical order, one key for equal graphs, one time matrix each.

A draft is a refined graph before canonical ordering, with its requests. Interchangeable branches may have
been sorted, request by request; hosts, failures and left-out children were moved with the times. Settled
times are consistent with the graph: clipped to the parent and the request, and never before a predecessor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from analyze.cache_blocks import FEW_CELLS, blocks
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
from analyze.refine.consensus import FlowBatch, flow_batches
from analyze.refine.stored import Columns, Operation, StoredCategory, row_order
from analyze.stats.sums import numbered
from schemas.arrays import B1, I4, I8, U8
from stitch.columnar.hashing import hash_word
from stitch.columnar.runs import inverse, run_starts
from stitch.graph.order.dag import Dags, canonical_order
from stitch.graph.placed import END
from stitch.graph.template import Template

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
    """int64[nodes]: row of `StoredCategory.node_ns` (of the draft's category) with the node's time."""
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
    """Row of `StoredCategory.node_ns` with the start of the span that called the child."""
    operation: str
    """Operation of the child: `component/point[/label]`."""


def own_columns(n_columns: int, n_rows: int) -> Columns:
    """Unsigned integers [n_columns, n_rows]: each cell holds the number of its column. Sorted in the way that
    times are sorted, they are the argument of `Draft.moved`."""
    numbers: Columns = np.arange(n_columns).astype(np.min_scalar_type(n_columns))
    return np.repeat(numbers[:, None], n_rows, axis=1)


@dataclass(frozen=True, slots=True)
class Draft:
    """Requests of one stored category that get the same refined graph: input of `assemble`, which merges
    drafts with equal graphs."""

    category: StoredCategory
    """Stored nodes of the draft's requests; interchangeable branches are in order of start."""
    structure: int
    """Index of the stored category in `FlowMatrices.categories`."""
    left_out: tuple[str, ...]
    """Operations, `component/point[/label]`, of deferred children that are not among the nodes."""
    left_column: I8
    """int64[left_out, requests]: row of `category.node_ns` with the start of the span that called the child;
    int64[left_out, 1] if it is the same row in all requests."""
    nested: bool
    """True if the nodes are starts and ends of spans and points inside spans; False for activity records,
    which are not nested."""
    twins_by_row: bool
    """True if interchangeable branches may start in another order than their stored columns, and have to be
    sorted in every request."""

    @staticmethod
    def of(
        category: StoredCategory,
        structure: int,
        rows: I8 | None,
        left_out: Sequence[LeftOut] = (),
        *,
        nested: bool = True,
        twins_by_row: bool = False,
    ) -> Draft:
        """Draft of a stored category. structure: its index. rows: the draft's requests, ascending; None: all.
        left_out: deferred children that are not among the nodes."""
        columns = np.array([left.column for left in left_out], dtype=np.int64)[:, None]
        operations = tuple(left.operation for left in left_out)
        category = category if rows is None else category.of_rows(rows)
        return Draft(category, structure, operations, columns, nested, twins_by_row)

    def of_rows(self, chosen: I8) -> Draft:
        """Copy of the draft with only the requests in the rows `chosen`, int64[chosen], ascending."""
        left = self.left_column
        return replace(
            self,
            category=self.category.of_rows(chosen),
            left_column=left if left.shape[1] == 1 else left[:, chosen],
        )

    def moved(self, came: Columns) -> Draft:
        """Copy in which interchangeable branches (equal subtrees of one parent) swap their times, hosts and
        failures.

        came: [nodes, requests] node from which the content of each cell comes; a permutation per request.
        """
        category, went = self.category.moved(came)
        return replace(self, category=category, left_column=went[self.left_column[:, 0]])


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
    times = np.ascontiguousarray(draft.category.node_ns[column].T)
    members = np.zeros(len(times), dtype=np.int64)
    hashes = labels._replace(code=labels.code[nodes]).hashed(graph.nodes.response)
    dag = Dags(graph.first, hashes, graph.src, graph.dst)
    by_row = canonical_order(dag, times.reshape(-1), member=members).order.reshape(times.shape)
    if bool((by_row == order).all()):
        return draft
    came = own_columns(*draft.category.node_ns.shape)
    # Position p of a request is its node by_row[p]; the shared order has node order[p] there.
    came[column[order]] = column[by_row].T
    return draft.moved(came)


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
        self.contradicted = _contradicted(drafts, graphs)
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
        """Settled times of a draft."""
        stored, (nodes, _, responses) = self.drafts[number].category.node_ns, self._ranges(number)
        if self.contradicted[number]:
            return _settle(stored, self.graphs.of_draft(number))
        times = stored[self.graphs.nodes.column[nodes]]
        return _Times(times, np.maximum(times[self.responses[responses]].max(axis=0), 0), None)

    def category(self, root: str, key: str, numbers: Sequence[int]) -> Category:
        """Merge drafts that have the same graph into one category. numbers: the drafts' numbers."""
        graph = self.graph(root, key, numbers[0])
        drafts = [self.drafts[number] for number in numbers]
        members = [draft.category for draft in drafts]
        settled = [self._times(number) for number in numbers]
        columns = [self.graphs.nodes.column[self._ranges(number)[0]] for number in numbers]
        skewed = np.zeros(len(graph.edges), dtype=np.bool_)
        for one, column, times in zip(members, columns, settled, strict=True):
            skewed |= _changed_edges(one, graph.edges, column, times)
        start_ns, sample, weight, status = (
            _joined([getattr(one, name) for one in members])
            for name in ("start_ns", "sample", "weight", "status")
        )
        node_ns = _joined([one.node_ns for one in settled], axis=1)
        response_ns = _joined([one.response_ns for one in settled])
        ids = [one.request_id for one in members]
        request_id = ids[0] if len(ids) == 1 else pa.concat_arrays(ids)
        order: I8 | slice = slice(None)
        if len(members) > 1:
            order = row_order(sample.astype(np.int64), start_ns, request_id)
            node_ns = np.take(node_ns, order, axis=1)
            request_id = request_id.take(pa.array(order))
        sources, source = _sources(members)
        origin, left_behind = _left_behind(drafts, columns)
        return Category(
            graph=graph,
            node_ns=node_ns,
            response_ns=response_ns[order],
            start_ns=start_ns[order],
            weight=weight[order],
            sample=sample[order],
            status=status[order],
            request_id=request_id,
            stored=tuple(sorted({one.key for one in members})),
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


def _hosts(members: Sequence[StoredCategory], columns: Sequence[I8], order: I8 | slice) -> Codes:
    """[nodes, requests]: host codes of a merged category; a broadcast view if they are equal in all requests.

    members: the merged drafts. columns: [drafts], each int64[nodes], stored column of each node. order:
    int64[requests], index into the drafts' concatenated requests of each request of the category.
    """
    parts = [one.host[column] for one, column in zip(members, columns, strict=True)]
    first = parts[0][:, :1].copy()
    if all((part == first).all() for part in parts):
        return np.broadcast_to(first, (len(first), sum(part.shape[1] for part in parts)))
    return np.ascontiguousarray(_joined(parts, axis=1)[:, order])


def _failures(
    members: Sequence[StoredCategory], columns: Sequence[I8], order: I8 | slice
) -> RecordedFailures:
    """Failures at nodes of the graph; row `i` of the category is row `order[i]` of the concatenated
    drafts."""
    if not any(len(one.failures.row) for one in members):
        return NO_FAILURES
    rows, positions, errors, first_row = [], [], [], 0
    for one, column in zip(members, columns, strict=True):
        place = _node_of(column, len(one.node_ns))[one.failures.position]
        kept = np.flatnonzero(place >= 0)
        rows.append(one.failures.row[kept] + first_row)
        positions.append(place[kept])
        errors.append(one.failures.error[kept])
        first_row += one.n_requests
    rank = np.empty(first_row, dtype=np.int32)
    rank[order] = np.arange(first_row, dtype=np.int32)
    row, position = rank[np.concatenate(rows)], np.concatenate(positions)
    by_row = np.lexsort((position, row))
    return RecordedFailures(row[by_row], position[by_row], np.concatenate(errors)[by_row])


def _node_of(column: I8, n_columns: int) -> I4:
    """int32[n_columns]: node whose time is in the stored column; -1 if there is no such node.

    column: int64[nodes], stored column of each node."""
    node = np.full(n_columns, -1, dtype=np.int32)
    node[column] = np.arange(len(column))
    return node


def _sources(members: Sequence[StoredCategory]) -> tuple[tuple[Source, ...], I4 | None]:
    """(`Category.sources`, `Category.source` with the requests in the order of the drafts)."""
    each = [Source(one.key, one.positions) for one in members]
    sources = tuple(sorted(set(each), key=lambda one: (one.key, one.positions or ())))
    if len(sources) == 1:
        return sources, None
    n_rows = [one.n_requests for one in members]
    return sources, np.repeat(np.array([sources.index(one) for one in each], dtype=np.int32), n_rows)


def _left_behind(drafts: Sequence[Draft], columns: Sequence[I8]) -> tuple[I4 | None, tuple[_Left, ...]]:
    """(`Category.origin` with the requests in the order of the drafts, `Category.left_behind`)."""
    if not any(draft.left_out for draft in drafts):
        return None, ()
    parts = [_left_variants(draft, column) for draft, column in zip(drafts, columns, strict=True)]
    words = sorted({variant for variants, _ in parts for variant in variants})
    if len(words) == 1:
        return None, (words[0],)
    code = {word: at for at, word in enumerate(words)}
    origin = [np.array([code[v] for v in variants], dtype=np.int32)[of_row] for variants, of_row in parts]
    return np.concatenate(origin), tuple(words)


def _left_variants(draft: Draft, column_of: I8) -> tuple[list[_Left], I8]:
    """(sets of children left out, int64[requests] index of each request's set). Two sets may be equal. There
    are several only if branches were sorted, as the calling span is then not the same node in all requests.

    column_of: int64[nodes], stored column of each node."""
    first, of_row = equal_rows(draft.left_column)
    if draft.left_column.shape[1] == 1:
        of_row = np.zeros(draft.category.n_requests, dtype=np.int64)
    nodes = _node_of(column_of, len(draft.category.node_ns))[draft.left_column[:, first].T]
    variants = [tuple(sorted(map(LeftBehind, row, draft.left_out))) for row in nodes.tolist()]
    return variants, of_row


def _changed_edges(category: StoredCategory, edges: I4, column: I8, times: _Times) -> B1:
    """bool[edges]: True if the skew correction or the settling changed the edge's latency in any request.

    category: a draft's. edges: int32[edges, 2]. column: int64[nodes], stored column of each node."""
    changed = np.zeros(len(edges), dtype=np.bool_)
    moved = np.zeros(len(edges), dtype=np.bool_) if times.moved is None else times.moved[edges].any(axis=1)
    for number in np.flatnonzero(moved).tolist():
        src, dst = edges[number]
        before = category.node_ns[column[dst]] - category.node_ns[column[src]]
        changed[number] = bool((before != times.node_ns[dst] - times.node_ns[src]).any())
    if category.shift is not None:
        for number in np.flatnonzero(~changed).tolist():
            src, dst = column[edges[number]]
            changed[number] = bool((category.shift[dst] != category.shift[src]).any())
    return changed


def _contradicted(drafts: Sequence[Draft], graphs: DraftGraphs) -> B1:
    """bool[drafts]: True if the times of any of its requests contradict the draft's graph, which is rare.
    O(edges · requests)."""
    nodes, links, draft = graphs.nodes, graphs.links, graphs.draft
    # Spans begin and end by a path of edges after their parent began and before it ends.
    inside, answering = np.flatnonzero((links.above < 0) & ~nodes.deferred), np.flatnonzero(nodes.response)
    categories = [one.category for one in drafts]
    width = np.bincount(draft[graphs.dst], minlength=len(drafts))
    width += np.array([len(one.node_ns) for one in categories])
    found = np.zeros(len(drafts), dtype=np.bool_)
    for batch in flow_batches(categories, width, FEW_CELLS):

        def times(rows: I8, batch: FlowBatch = batch) -> I8:
            return batch.at(draft[rows], nodes.column[rows])

        mine, first, last = (rows[batch.part(draft[rows])] for rows in (inside, graphs.first[:-1], answering))
        before, after = (rows[batch.part(draft[graphs.src])] for rows in (graphs.src, graphs.dst))
        # All nodes come after the root, and none after the response.
        latest = np.maximum.reduceat(times(last), np.flatnonzero(run_starts(draft[last])))
        for rows, wrong in (
            (after, times(before) > times(after)),
            (mine, times(mine) > np.maximum(latest, 0)[batch.place(draft[mine])]),
            (first, times(first) < 0),
        ):
            found[draft[rows[wrong.any(axis=1)]]] = True
    return found


def _settle(times: I8, graph: DraftGraphs) -> _Times:
    """Settle the times of one draft, which contradict its graph. times: int64[stored nodes, requests], ns.

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
