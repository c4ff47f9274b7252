"""Merge drafts into categories: canonical positions, one key for equal graphs, one time matrix a category.

A draft is one refined graph before canonical ordering, with its requests. Its times may have been moved
between interchangeable branches, request by request; `Draft.moved` says from where. A node's hosts, failures
and left-out children are looked up through it, so that a host stays with its times. Settled times are
consistent with the graph: clipped to the parent and the request, and never before a predecessor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from hashlib import blake2b
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from analyze.cache_blocks import MANY_CELLS, blocks
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
from analyze.refine.stored import StoredCategory, row_order
from analyze.stats.sums import numbered
from schemas.arrays import B1, I4, I8
from stitch.columnar.hashing import hash_word
from stitch.graph.order.dag import Dags, canonical_order
from stitch.graph.placed import END
from stitch.graph.template import Template

Columns = npt.NDArray[np.unsignedinteger[Any]]
"""Stored column numbers, in the smallest dtype that holds them."""
_Left = tuple[LeftBehind, ...]


@dataclass(frozen=True, slots=True)
class DraftGraph:
    """A labelled DAG in some topological order; arrays are [nodes], node 0 is the root."""

    labels: tuple[GraphNode, ...]
    column: I8
    """Column of the stored matrix with the node's time."""
    mate: I8
    """Node of the span's other side; -1 for points."""
    within: I8
    """[nodes, 2] nodes that bound this one's time: the parent's start (below) and end (above); -1: only the
    request bounds it."""
    deferred: B1
    edges: I8
    """[edges, 2] (src, dst); may include implied edges."""
    responses: I8

    def ordered(self, order: I8, edges: I8) -> DraftGraph:
        """Reorder: node `order[i]` becomes node i. edges: [edges, 2] in the new numbering."""
        place = np.full(len(order) + 1, -1)  # the last entry is that of no node, -1
        place[order] = np.arange(len(order))
        return DraftGraph(
            labels=tuple(self.labels[node] for node in order.tolist()),
            column=self.column[order],
            mate=place[self.mate[order]],
            within=place[self.within[order]],
            deferred=self.deferred[order],
            edges=edges,
            responses=np.sort(place[self.responses]),
        )

    def node_of(self, n_columns: int) -> I4:
        """[stored columns] node with that column's time; -1 for none."""
        node = np.full(n_columns, -1, dtype=np.int32)
        node[self.column] = np.arange(len(self.column))
        return node


class LeftOut(NamedTuple):
    """A child left out of the graph."""

    column: int
    """Stored column of the calling span's start."""
    operation: str
    """`component/point[/label]`."""


def own_columns(n_columns: int, n_rows: int) -> Columns:
    """[columns, rows] column number in each cell, to be sorted with times."""
    numbers: Columns = np.arange(n_columns).astype(np.min_scalar_type(n_columns))
    return np.repeat(numbers[:, None], n_rows, axis=1)


@dataclass(frozen=True, slots=True)
class Draft:
    """A graph, and the requests it describes."""

    category: StoredCategory
    rows: I8
    """Rows of the stored category, ascending."""
    times: I8
    """[stored nodes, rows] skew-corrected times; interchangeable branches in order of start."""
    graph: DraftGraph
    moved: Columns | None = None
    """[stored nodes, rows] stored column that each time was moved from, if branches were sorted; None: not
    moved. Hosts and failures are not moved, but looked up by this."""
    nested: bool = False
    """True if nodes are sides of spans and points inside them, so that `within` and `mate` give the
    nesting."""
    left_out: tuple[LeftOut, ...] = ()
    """Deferred children that are not among the nodes."""
    shift: I8 | None = None
    """[stored nodes, rows] ns that the skew correction added; None: none."""
    twins_by_row: bool = False
    """True if interchangeable branches may start in another order than their columns: sort each row."""


def equal_rows(columns: npt.NDArray[np.signedinteger]) -> tuple[I8, I8]:
    """Group the equal rows of `columns` [columns, rows], numbers >= 0.

    Returns (first row of each group [groups], group of each row [rows]); groups are numbered by the
    lexicographic order of their contents, so the numbering does not depend on the order of rows.
    """
    differing = columns[(columns != columns[:, :1]).any(axis=1)]
    if not len(differing):
        n_rows = columns.shape[1]
        return np.zeros(min(n_rows, 1), dtype=np.int64), np.zeros(n_rows, dtype=np.int64)
    group, first = numbered(differing)
    return first, group


def assemble(drafts: Sequence[Draft]) -> tuple[Category, ...]:
    """Categories of all drafts, sorted by (root, key); drafts with equal graphs are merged.

    Matrices are built one category at a time; besides the results, at most one draft's copy is alive.
    """
    groups: dict[tuple[str, str], list[Draft]] = {}
    for draft in _canonical(drafts) if drafts else ():
        groups.setdefault((draft.category.structure.root, _key(draft.graph)), []).append(draft)
    return tuple(_category(root, key, members) for (root, key), members in sorted(groups.items()))


def _canonical(drafts: Sequence[Draft]) -> Iterator[Draft]:
    """Yield the drafts with graphs in canonical order, from one vectorised call for all."""
    dags = _dags(drafts)
    # Columns of interchangeable branches stand in order of start, so their number serves as time.
    result = canonical_order(dags, np.arange(len(dags.label), dtype=np.int64))
    for number, draft in enumerate(drafts):
        order = result.order[dags.first_node[number] : dags.first_node[number + 1]]
        edges = slice(result.first_edge[number], result.first_edge[number + 1])
        pairs = np.stack((result.src[edges], result.dst[edges]), axis=1).astype(np.int64)
        if draft.twins_by_row:
            draft = _by_row(draft, order)
        yield replace(draft, graph=draft.graph.ordered(order, pairs))


def _dags(drafts: Sequence[Draft]) -> Dags:
    graphs = [draft.graph for draft in drafts]
    first_node = np.cumsum([0, *(len(graph.labels) for graph in graphs)]).astype(np.int64)
    names: list[str] = []
    for graph in graphs:
        mine = [_name(label) for label in graph.labels]
        # Whether the response may leave at a node distinguishes it, too. No name ends like another one.
        for at in graph.responses.tolist():
            mine[at] += "!"
        names += mine
    hashes = {name: hash_word(name) for name in set(names)}
    edges = np.concatenate(
        [base + graph.edges for base, graph in zip(first_node.tolist(), graphs, strict=False)]
    )
    label = np.array([hashes[name] for name in names], dtype=np.uint64)
    return Dags(first_node=first_node, label=label, src=edges[:, 0], dst=edges[:, 1])


@lru_cache(maxsize=65_536)
def _name(label: GraphNode) -> str:
    """Injective text of a label, for hashing."""
    # The lengths say where each part ends, so no part can pass for two.
    component, point, word, host, side = label
    if word is None:
        return f"{side} {len(host)} {len(component)} {len(point)} {host}{component}{point}"
    return f"{side} {len(host)} {len(component)} {len(point)} {len(word)} {host}{component}{point}{word}"


def _by_row(draft: Draft, order: I8) -> Draft:
    """Sort the draft's interchangeable branches by start in every request (moves times, not nodes)."""
    column = draft.graph.column
    times = np.ascontiguousarray(draft.times[column].T)
    members = np.zeros(len(times), dtype=np.int64)
    by_row = canonical_order(_dags([draft]), times.reshape(-1), member=members).order.reshape(times.shape)
    if bool((by_row == order).all()):
        return draft
    settled, moved = draft.times.copy(), own_columns(*draft.times.shape)
    # Position p of a request is its node by_row[p]; the shared order has node order[p] there.
    settled[column[order]] = np.take_along_axis(times, by_row, axis=1).T
    moved[column[order]] = column[by_row].T
    return replace(draft, times=settled, moved=moved)


def _key(graph: DraftGraph) -> str:
    """128-bit key of (node names, edges, responses), 32 hex digits; the hashed bytes are injective."""
    digest = blake2b(b"flowdiff refined 2\0", digest_size=16)
    sizes = [len(graph.labels), len(graph.edges), len(graph.responses)]
    digest.update(np.array(sizes, dtype="<i8").tobytes())
    for label in graph.labels:
        text = _name(label).encode("utf-8", "surrogatepass")
        digest.update(len(text).to_bytes(8, "little") + text)
    digest.update(graph.edges.astype("<i4").tobytes())
    digest.update(graph.responses.astype("<i4").tobytes())
    return digest.hexdigest()


def _category(root: str, key: str, members: list[Draft]) -> Category:
    graph = _graph(root, key, members[0])
    bounds = [0, *np.cumsum([len(draft.rows) for draft in members]).tolist()]
    node_ns = np.empty((graph.n_nodes, bounds[-1]), dtype=np.int64)
    response_ns = np.empty(bounds[-1], dtype=np.int64)
    skewed = np.zeros(len(graph.edges), dtype=np.bool_)
    for (start, end), draft in zip(pairwise(bounds), members, strict=True):
        settled = node_ns[:, start:end]
        response_ns[start:end], moved = _settle(draft.times, draft.graph, settled)
        skewed |= _changed_edges(draft, moved, settled)
    start_ns = np.concatenate([draft.category.start_ns[draft.rows] for draft in members])
    sample = np.concatenate([draft.category.sample[draft.rows] for draft in members])
    request_id = pa.concat_arrays([d.category.request_id.take(pa.array(d.rows)) for d in members])
    order: I8 | slice = slice(None)
    if len(members) > 1:
        order = row_order(sample.astype(np.int64), start_ns, request_id)
        node_ns = np.take(node_ns, order, axis=1)
        request_id = request_id.take(pa.array(order))
    sources, source = _sources(members)
    origin, left_behind = _left_behind(members)
    return Category(
        graph=graph,
        node_ns=node_ns,
        response_ns=response_ns[order],
        start_ns=start_ns[order],
        weight=np.concatenate([draft.category.weight[draft.rows] for draft in members])[order],
        sample=sample[order],
        status=np.concatenate([draft.category.status[draft.rows] for draft in members])[order],
        request_id=request_id,
        stored=tuple(sorted({draft.category.key for draft in members})),
        skewed_edges=skewed,
        host=_hosts(members, order),
        failures=_failures(members, order),
        sources=sources,
        source=None if source is None else source[order],
        origin=None if origin is None else origin[order],
        left_behind=left_behind,
    )


def _graph(root: str, key: str, draft: Draft) -> Graph:
    graph = draft.graph
    return Graph(
        key=key,
        root=root,
        nodes=graph.labels,
        edges=graph.edges.astype(np.int32),
        responses=graph.responses.astype(np.int32),
        text=GraphText(partial(_template, graph)),
        nesting=_nesting(draft) if draft.nested else None,
    )


def _nesting(draft: Draft) -> Nesting:
    """Nesting of the nodes: span start, parent's start and kind of each."""
    graph = draft.graph
    is_end = np.array([label.side == END for label in graph.labels])
    return Nesting(
        np.where(is_end, graph.mate, np.arange(len(is_end))).astype(np.int32),
        graph.within[:, 0].astype(np.int32),
        np.array(draft.category.structure.kind, dtype=np.uint8)[graph.column],
    )


def _template(graph: DraftGraph) -> Template:
    return Template.of_graph(
        [(n.where, n.point, n.label) for n in graph.labels],
        [(src, dst) for src, dst in graph.edges.tolist()],
        graph.responses.tolist(),
        side=[node.side for node in graph.labels],
        mate=graph.mate.tolist(),
        deferred=graph.deferred.tolist(),
    )


def _hosts(members: Sequence[Draft], order: I8 | slice) -> Codes:
    """[positions, rows] host codes; a broadcast view if all rows have the same hosts."""
    parts = []
    for draft in members:
        stored, columns = draft.category.host, draft.graph.column
        if draft.moved is not None:
            parts.append(stored[draft.moved[columns], draft.rows[None, :]])
        elif len(draft.rows) == draft.category.n_requests:
            parts.append(stored[columns])
        else:
            parts.append(stored[np.ix_(columns, draft.rows)])
    first = parts[0][:, :1].copy()
    if all((part == first).all() for part in parts):
        return np.broadcast_to(first, (len(first), sum(part.shape[1] for part in parts)))
    return np.ascontiguousarray(np.concatenate(parts, axis=1)[:, order])


def _failures(members: Sequence[Draft], order: I8 | slice) -> RecordedFailures:
    """Failures at nodes of the graph; row `i` of the category is row `order[i]` of the concatenated
    drafts."""
    if not any(len(draft.category.failures.row) for draft in members):
        return NO_FAILURES
    rows, positions, errors, first_row = [], [], [], 0
    for draft in members:
        failures = draft.category.failures
        at = np.searchsorted(draft.rows, failures.row)
        at[at == len(draft.rows)] = 0
        mine = np.flatnonzero(draft.rows[at] == failures.row)
        at, column = at[mine], failures.position[mine].astype(np.int64)
        if draft.moved is not None:
            column = _moved_to(draft.moved, at, column)
        place = draft.graph.node_of(draft.category.structure.n_nodes)[column]
        kept = np.flatnonzero(place >= 0)
        rows.append(at[kept] + first_row)
        positions.append(place[kept])
        errors.append(failures.error[mine][kept])
        first_row += len(draft.rows)
    rank = np.empty(first_row, dtype=np.int32)
    rank[order] = np.arange(first_row, dtype=np.int32)
    row, position = rank[np.concatenate(rows)], np.concatenate(positions)
    by_row = np.lexsort((position, row))
    return RecordedFailures(row[by_row], position[by_row], np.concatenate(errors)[by_row])


def _moved_to(moved: Columns, rows: I8, columns: I8) -> I8:
    """[entries] column of `moved` that holds the stored column's time in that row. O(entries · columns)."""
    found = np.empty(len(rows), dtype=np.int64)
    for part in blocks(len(rows), len(moved), MANY_CELLS):
        found[part] = np.argmax(moved[:, rows[part]] == columns[part], axis=0)
    return found


def _sources(members: Sequence[Draft]) -> tuple[tuple[Source, ...], I4 | None]:
    """(`sources`, [rows] `source`) of `Category`; rows in the order of the drafts."""
    each = [Source(draft.category.key, draft.category.positions) for draft in members]
    sources = tuple(sorted(set(each), key=lambda one: (one.key, one.positions or ())))
    if len(sources) == 1:
        return sources, None
    n_rows = [len(draft.rows) for draft in members]
    return sources, np.repeat(np.array([sources.index(one) for one in each], dtype=np.int32), n_rows)


def _left_behind(members: Sequence[Draft]) -> tuple[I4 | None, tuple[_Left, ...]]:
    """([rows] index, distinct sets of children left out) for `Category`; rows in the order of the drafts."""
    if not any(draft.left_out for draft in members):
        return None, ()
    parts = [_left_variants(draft) for draft in members]
    words = sorted({variant for variants, _ in parts for variant in variants})
    if len(words) == 1:
        return None, (words[0],)
    code = {word: at for at, word in enumerate(words)}
    origin = [np.array([code[v] for v in variants], dtype=np.int32)[of_row] for variants, of_row in parts]
    return np.concatenate(origin), tuple(words)


def _left_variants(draft: Draft) -> tuple[list[_Left], I8]:
    """(distinct sets of children left out, [rows] index of each row's set); several if branches were
    sorted."""
    column = np.array([left.column for left in draft.left_out], dtype=np.int64)
    rows = np.arange(len(draft.rows), dtype=np.int64)
    if draft.moved is None or not len(column):
        columns, of_row = column[None, :], np.zeros(len(rows), dtype=np.int64)
    else:
        moved = draft.moved
        by_row = np.stack([_moved_to(moved, rows, np.full(len(rows), at)) for at in column.tolist()])
        first, of_row = equal_rows(by_row)
        columns = by_row[:, first].T
    nodes = draft.graph.node_of(draft.category.structure.n_nodes)[columns]
    operations = [left.operation for left in draft.left_out]
    variants = [tuple(sorted(map(LeftBehind, row, operations))) for row in nodes.tolist()]
    return variants, of_row


def _changed_edges(draft: Draft, moved: B1, settled: I8) -> B1:
    """[edges] True if the skew correction or the settling changed an edge's latency in any request."""
    edges, columns = draft.graph.edges, draft.graph.column
    changed = np.zeros(len(edges), dtype=np.bool_)
    for number in np.flatnonzero(moved[edges].any(axis=1)).tolist():
        src, dst = edges[number]
        before = draft.times[columns[dst]] - draft.times[columns[src]]
        changed[number] = bool((before != settled[dst] - settled[src]).any())
    if draft.shift is not None:
        for number in np.flatnonzero(~changed).tolist():
            src, dst = columns[edges[number]]
            changed[number] = bool((draft.shift[dst] != draft.shift[src]).any())
    return changed


def _settle(times: I8, graph: DraftGraph, out: I8) -> tuple[I8, B1]:
    """Write the settled times of the graph's nodes, [nodes, requests], to `out`.

    Response time T is the latest response (at least 0). Awaited nodes are clipped to [0, T] and to their
    parent's span, then raised to their latest predecessor; neither moves a response past T, because
    everything before a node lies in the same bounds. Returns ([requests] T, [nodes] True if the node was
    moved in any request).
    """
    n_nodes, n_requests = out.shape
    response_ns = np.empty(n_requests, dtype=np.int64)
    moved = np.zeros(n_nodes, dtype=np.bool_)
    starts, ends = graph.within.T
    in_request = (ends < 0) & ~graph.deferred
    before, behind = np.flatnonzero(starts >= 0).tolist(), np.flatnonzero(ends >= 0)[::-1].tolist()
    sources, targets = graph.edges.T
    for rows in blocks(n_requests, n_nodes):
        raw = times[graph.column, rows]
        latest = np.maximum(raw[graph.responses].max(axis=0), 0)
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
            for src, dst in graph.edges.tolist():
                np.maximum(t[dst], t[src], out=t[dst])
        moved |= (t != raw).any(axis=1)
        out[:, rows] = t
    return response_ns, moved
