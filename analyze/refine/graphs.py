"""Merge drafts into categories: nodes in canonical order, one key for equal graphs, one time matrix each.

A draft is a refined graph before canonical ordering, with its requests. Interchangeable branches may have
been sorted, request by request; hosts, failures and left-out children were moved with the times. Settled
times are consistent with the graph: clipped to the parent and the request, and never before a predecessor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from analyze.cache_blocks import blocks
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
from analyze.refine.consensus import disordered
from analyze.refine.drafts import Drafts
from analyze.refine.stored import StoredCategory, equal_rows, own_columns, row_order
from analyze.refine.structure_nodes import StructureNodes
from analyze.stats.sums import numbered
from schemas.arrays import B1, I4, I8, U8
from stitch.columnar.hashing import hash_word
from stitch.columnar.runs import inverse, joined_arrays, offsets, ranges
from stitch.graph.order.dag import Dags, canonical_order
from stitch.graph.placed import END
from stitch.graph.template import Template

_Left = tuple[LeftBehind, ...]


class NodeLinks(NamedTuple):
    """References from nodes of draft graphs to other nodes, one array each."""

    mate: I8
    """int64[nodes]: for a span's start, the node of its end, and vice versa; -1 for a point."""
    parent: I8
    """int64[nodes]: node at which the parent starts, as `StructureNodes.parent`."""
    parent_end: I8
    """int64[nodes]: node at which the parent ends, as `StructureNodes.parent_end`."""


@dataclass(frozen=True, slots=True)
class DraftGraphs:
    """Labelled DAGs of many drafts, with one numbering of all nodes; the nodes of a DAG are in the order of
    the stored structure, and then, by `_canonical`, in canonical order."""

    nodes: StructureNodes
    first: I8
    """int64[drafts + 1]: index of each draft's first node; the last entry is the number of nodes."""
    node: I8
    """int64[nodes]: index in `nodes` of the node."""
    links: NodeLinks
    first_edge: I8
    """int64[drafts + 1]: index of each draft's first edge; the last entry is the number of edges."""
    src: I8
    """int64[edges]: node at which the edge begins."""
    dst: I8
    """int64[edges]: node at which the edge ends; an edge may be implied by a path of other edges."""

    @staticmethod
    def of(nodes: StructureNodes, drafts: Drafts) -> DraftGraphs:
        """Graphs with the nodes of each draft's structure. O(nodes + edges log edges)."""
        structure, edges = drafts.structure, drafts.edges
        kept = np.flatnonzero(nodes.kept)
        first_kept = kept.searchsorted(nodes.first)
        n_nodes = np.diff(first_kept)[structure]
        first, node = offsets(n_nodes), kept[ranges(first_kept[structure], n_nodes)]
        # A node of the structure is, in the draft, `place + shift`.
        place, shift = np.full(len(nodes.kept) + 1, -1), first[:-1] - first_kept[structure]
        place[kept] = np.arange(len(kept))
        draft = np.repeat(np.arange(len(structure)), n_nodes)
        links = (place[of[node]] for of in (nodes.mate, nodes.parent, nodes.parent_end))
        by_draft = np.argsort(edges.draft, kind="stable")
        src, dst = (place[side] + shift[edges.draft] for side in (edges.src, edges.dst))
        return DraftGraphs(
            nodes,
            first,
            node,
            NodeLinks._make(np.where(link < 0, -1, link + shift[draft]) for link in links),
            offsets(np.bincount(edges.draft, minlength=len(structure))),
            src[by_draft],
            dst[by_draft],
        )

    @property
    def draft(self) -> I8:
        """int64[nodes]: number of the draft that each node belongs to."""
        return np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))

    @property
    def column(self) -> I8:
        """int64[nodes]: row of `StoredCategory.node_ns` (of the draft) with the node's time."""
        return self.nodes.column[self.node]

    @property
    def response(self) -> B1:
        """bool[nodes]: True if the request's response may be sent at this node."""
        return self.nodes.response[self.node]

    def of_draft(self, number: int) -> DraftGraphs:
        """The graph of draft `number` alone, with its nodes numbered from 0."""
        begin, end = self.first[number : number + 2].tolist()
        edges = slice(*self.first_edge[number : number + 2].tolist())
        return DraftGraphs(
            self.nodes,
            np.array([0, end - begin]),
            self.node[begin:end],
            NodeLinks._make(np.maximum(link[begin:end] - begin, -1) for link in self.links),
            np.array([0, edges.stop - edges.start]),
            self.src[edges] - begin,
            self.dst[edges] - begin,
        )


def assemble(nodes: StructureNodes, drafts: Drafts, words: Sequence[str]) -> tuple[Category, ...]:
    """Categories of all drafts, sorted by (root, key); drafts with equal graphs are merged.

    words: hosts or roles, indexed by `StructureNodes.host`. O(nodes · requests).
    """
    if not drafts.categories:
        return ()
    graphs = DraftGraphs.of(nodes, drafts)
    graphs, labels, categories = _canonical(drafts, graphs, _Labels.of(graphs, words))
    made = _Made(categories, graphs, labels)
    groups: dict[tuple[str, str], list[int]] = {}
    for number, category in enumerate(categories):
        groups.setdefault((category.structure.root, made.key(number)), []).append(number)
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
    def of(graphs: DraftGraphs, words: Sequence[str]) -> _Labels:
        """Find the distinct labels of nodes. O(nodes log nodes)."""
        nodes = graphs.nodes
        columns = nodes.name[graphs.node], nodes.host[graphs.node], nodes.side[graphs.node]
        code, first = numbered(columns)
        parts = zip(*(column[first].tolist() for column in columns), strict=True)
        label = tuple(
            GraphNode(name.component, name.point, name.label, words[host], side)
            for name, host, side in ((nodes.names[at], host, side) for at, host, side in parts)
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
    drafts: Drafts, graphs: DraftGraphs, labels: _Labels
) -> tuple[DraftGraphs, _Labels, list[StoredCategory]]:
    """(graphs with nodes in canonical order, their labels, categories of the drafts).

    Branches of activity records that differed in what was dropped may be interchangeable now: they are sorted
    in each request."""
    dags = Dags(graphs.first, labels.hashed(graphs.response), graphs.src, graphs.dst)
    # Columns of interchangeable branches stand in order of start, so their number serves as time.
    result = canonical_order(dags, np.arange(len(dags.label), dtype=np.int64))
    categories = [*drafts.categories]
    shortened = np.diff(graphs.first) < np.diff(graphs.nodes.first)[drafts.structure]
    for number in np.flatnonzero(shortened & ~graphs.nodes.of_spans[drafts.structure]).tolist():
        categories[number] = _by_row(categories[number], number, graphs, labels, result.order)
    order = result.order + np.repeat(graphs.first[:-1], np.diff(graphs.first))
    place = np.append(inverse(order), -1)  # the last entry is that of no node, -1
    first_of_edge = np.repeat(graphs.first[:-1], np.diff(result.first_edge))
    ordered = DraftGraphs(
        graphs.nodes,
        graphs.first,
        graphs.node[order],
        NodeLinks._make(place[link[order]] for link in graphs.links),
        result.first_edge,
        result.src + first_of_edge,
        result.dst + first_of_edge,
    )
    return ordered, labels._replace(code=labels.code[order]), categories


def _by_row(
    draft: StoredCategory, number: int, graphs: DraftGraphs, labels: _Labels, orders: I8
) -> StoredCategory:
    """Draft with its interchangeable branches sorted by start in every request (moves times, not nodes).

    number: the draft's number in `graphs`. orders: int64[nodes], node at each canonical position, from 0 in
    each draft."""
    nodes, graph = slice(*graphs.first[number : number + 2].tolist()), graphs.of_draft(number)
    codes = labels.code[nodes]
    if len(np.unique(codes)) == len(codes):  # no branches are equal
        return draft
    order, column = orders[nodes], graph.column
    times = np.ascontiguousarray(draft.node_ns[column].T)
    members = np.zeros(len(times), dtype=np.int64)
    hashes = labels._replace(code=codes).hashed(graph.response)
    dag = Dags(graph.first, hashes, graph.src, graph.dst)
    by_row = canonical_order(dag, times.reshape(-1), member=members).order.reshape(times.shape)
    if bool((by_row == order).all()):
        return draft
    came = own_columns(*draft.node_ns.shape)
    # Position p of a request is its node by_row[p]; the shared order has node order[p] there.
    came[column[order]] = column[by_row].T
    return draft.moved(came)


class _Made:
    """Builds `Category` objects from drafts whose graphs are in canonical order."""

    def __init__(self, drafts: Sequence[StoredCategory], graphs: DraftGraphs, labels: _Labels) -> None:
        self.drafts, self.graphs, self.labels = drafts, graphs, labels
        self.column, links, nodes = graphs.column, graphs.links, graphs.nodes
        # The response waits for every node that is not deferred, by a path of edges: these tell all.
        draft, src, dst = graphs.draft[graphs.src], self.column[graphs.src], self.column[graphs.dst]
        wrong = draft[disordered(drafts, draft, src, dst)]
        self.contradicted = np.bincount(wrong, minlength=len(drafts)) > 0
        base = np.repeat(graphs.first[:-1], np.diff(graphs.first))
        self.code = labels.code.tolist()
        self.first, self.first_edge = graphs.first.tolist(), graphs.first_edge.tolist()
        edges = np.stack((graphs.src, graphs.dst), axis=1)
        self.edges: I4 = (edges - base[edges]).astype(np.int32)
        local = np.arange(len(base)) - base
        self.owner: I4 = np.where(nodes.side[graphs.node] == END, links.mate - base, local).astype(np.int32)
        self.parent: I4 = np.where(links.parent < 0, -1, links.parent - base).astype(np.int32)
        self.mate: I4 = np.where(links.mate < 0, -1, links.mate - base).astype(np.int32)
        self.kind = nodes.kind[graphs.node].astype(np.uint8)
        self.deferred = nodes.deferred[graphs.node]
        self.nested = nodes.of_spans[nodes.structure[graphs.node[graphs.first[:-1]]]]
        answering = np.flatnonzero(graphs.response)
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
            text=GraphText(partial(_template, *parts, self.mate[nodes], self.deferred[nodes])),
            nesting=nesting if self.nested[number] else None,
        )

    def _settled(self, number: int) -> tuple[I8, I8, B1]:
        """(int64[nodes, requests] times of a draft that are consistent with its graph, ns; int64[requests]
        response times, ns; bool[edges] True if the skew correction or the settling changed the edge's latency
        in any request)."""
        draft, (nodes, edges, responses) = self.drafts[number], self._ranges(number)
        column = self.column[nodes]
        stored = draft.node_ns[column]
        times, response_ns = stored, np.maximum(stored[self.responses[responses]].max(axis=0), 0)
        if self.contradicted[number]:
            times = _settled(stored, response_ns, self.graphs.of_draft(number))
        changed = np.zeros(edges.stop - edges.start, dtype=np.bool_)
        if times is not stored or draft.shift is not None:
            for place, (src, dst) in enumerate(self.edges[edges].tolist()):
                moved = (times[dst] - times[src] != stored[dst] - stored[src]).any()
                if draft.shift is not None and not moved:
                    moved = (draft.shift[column[dst]] != draft.shift[column[src]]).any()
                changed[place] = moved
        return times, response_ns, changed

    def category(self, root: str, key: str, numbers: Sequence[int]) -> Category:
        """Merge drafts that have the same graph into one category. numbers: the drafts' numbers."""
        graph = self.graph(root, key, numbers[0])
        members = [self.drafts[number] for number in numbers]
        times, responses, changed = zip(*map(self._settled, numbers), strict=True)
        columns = [self.column[self._ranges(number)[0]] for number in numbers]
        start_ns, sample, weight, status = (
            joined_arrays([getattr(one, name) for one in members])
            for name in ("start_ns", "sample", "weight", "status")
        )
        node_ns, response_ns = joined_arrays(times, axis=1), joined_arrays(responses)
        ids = [one.request_id for one in members]
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
            stored=tuple(sorted({one.key for one in members})),
            skewed_edges=np.logical_or.reduce(changed),
            host=_hosts(members, columns, order),
            failures=_failures(members, columns, order),
            sources=sources,
            source=None if source is None else source[order],
            origin=None if origin is None else origin[order],
            left_behind=left_behind,
        )


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
    return np.ascontiguousarray(joined_arrays(parts, axis=1)[:, order])


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


def _left_behind(
    drafts: Sequence[StoredCategory], columns: Sequence[I8]
) -> tuple[I4 | None, tuple[_Left, ...]]:
    """(`Category.origin` with the requests in the order of the drafts, `Category.left_behind`)."""
    parts = [_left_variants(draft, column) for draft, column in zip(drafts, columns, strict=True)]
    words = sorted({variant for variants, _ in parts for variant in variants})
    if len(words) == 1:
        return None, (words[0],)
    code = {word: at for at, word in enumerate(words)}
    origin = [np.array([code[v] for v in variants], dtype=np.int32)[of_row] for variants, of_row in parts]
    return np.concatenate(origin), tuple(words)


def _left_variants(draft: StoredCategory, column_of: I8) -> tuple[list[_Left], I8]:
    """(sets of children left out, int64[requests] index of each request's set). Two sets may be equal. There
    are several only if branches were sorted, as the calling span is then not the same node in all requests.

    column_of: int64[nodes], stored column of each node."""
    if draft.left_column is None:
        return [()], np.zeros(draft.n_requests, dtype=np.int64)
    first, of_row = equal_rows(draft.left_column)
    nodes = _node_of(column_of, len(draft.node_ns))[draft.left_column[:, first].T]
    variants = [tuple(sorted(map(LeftBehind, row, draft.left_out))) for row in nodes.tolist()]
    return variants, of_row


def _settled(raw: I8, latest: I8, graph: DraftGraphs) -> I8:
    """Times of one draft, which contradict its graph, made consistent: int64[nodes, requests], ns.

    raw: int64[nodes, requests], ns. latest: int64[requests], response time T, the latest response (at least
    0). Awaited nodes are clipped to [0, T] and to their parent's span, then raised to their latest
    predecessor. Neither step moves a response past T, because all predecessors of a node lie within the same
    bounds.
    """
    n_nodes, n_requests = raw.shape
    out = np.empty((n_nodes, n_requests), dtype=np.int64)
    starts, ends = graph.links.parent, graph.links.parent_end
    in_request = (ends < 0) & ~graph.nodes.deferred[graph.node]
    before, behind = np.flatnonzero(starts >= 0).tolist(), np.flatnonzero(ends >= 0)[::-1].tolist()
    sources, targets = graph.src, graph.dst
    for rows in blocks(n_requests, n_nodes):
        t = raw[:, rows].copy()
        np.maximum(t, 0, out=t, where=(starts < 0)[:, None])
        # A parent's start lies before its nodes and its end behind them: it is settled when they need it.
        for node in before:
            np.maximum(t[node], t[starts[node]], out=t[node])
        np.minimum(t, latest[rows], out=t, where=in_request[:, None])
        for node in behind:
            np.minimum(t[node], t[ends[node]], out=t[node])
        if (t[sources] > t[targets]).any():
            for src, dst in zip(sources.tolist(), targets.tolist(), strict=True):
                np.maximum(t[dst], t[src], out=t[dst])
        out[:, rows] = t
    return out
