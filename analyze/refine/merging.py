"""Drafts to categories: canonical positions, one key for equal graphs, one settled matrix a category.

Settled times fit their graph: clipped to the parent and the request, and never before a predecessor.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import pairwise

import numpy as np
import pyarrow as pa

from analyze.population import Category, Graph
from analyze.refine.attached import attach, in_row_order, nesting
from analyze.refine.draft import Draft, Node, own_columns
from analyze.refine.stored import row_order
from analyze.refine.template_text import TemplateText
from schemas.arrays import B1, I4, I8
from stitch.columnar.mixing import hash_word
from stitch.graph.order.dag import Dags, canonical_order
from stitch.graph.template import Template

_BLOCK_CELLS = 1 << 16
"""Cells of a block worked on at a time: 64 K cells of 8 bytes stay in a core's second-level cache."""


@dataclass(frozen=True, slots=True)
class _Placed:
    """A draft in canonical positions."""

    draft: Draft
    order: tuple[int, ...]
    """[positions] node of the draft."""
    edges: I4
    """[edges, 2] positions, sorted by (dst, src), transitively reduced."""
    responses: tuple[int, ...]
    key: str

    def node(self, position: int) -> Node:
        """Node at a canonical position."""
        return self.draft.nodes[self.order[position]]


def assemble(drafts: Sequence[Draft]) -> tuple[Category, ...]:
    """Categories of all drafts, sorted by (root, key); drafts with equal graphs become one.

    Matrices are built one category at a time; beside the results, at most one draft's copy is alive.
    """
    groups: dict[tuple[str, str], list[_Placed]] = {}
    for placed in _placed(drafts):
        groups.setdefault((placed.draft.category.structure.root, placed.key), []).append(placed)
    return tuple(_category(root, members) for (root, _), members in sorted(groups.items()))


def _placed(drafts: Sequence[Draft]) -> Iterable[_Placed]:
    """Canonical positions of every draft, from one vectorised call for all of them."""
    if not drafts:
        return
    dags = _dags(drafts)
    # Columns of interchangeable branches stand in order of start, so their number serves as time.
    result = canonical_order(dags, np.arange(len(dags.label), dtype=np.int64))
    for number, draft in enumerate(drafts):
        nodes = slice(dags.first_node[number], dags.first_node[number + 1])
        edges = slice(result.first_edge[number], result.first_edge[number + 1])
        order = tuple(result.order[nodes].tolist())
        positions = {node: at for at, node in enumerate(order)}
        responses = tuple(sorted(positions[node] for node in draft.responses))
        pairs = np.stack((result.src[edges], result.dst[edges]), axis=1).astype(np.int32)
        if draft.twins_by_row:
            draft = _by_row(draft, order)
        names = [draft.nodes[node].name for node in order]
        yield _Placed(draft, order, pairs, responses, _key(names, pairs, responses))


def _dags(drafts: Sequence[Draft]) -> Dags:
    first_node = np.cumsum([0, *(len(draft.nodes) for draft in drafts)]).astype(np.int64)
    hashes: dict[str, int] = {}
    label = []
    src: list[int] = []
    dst: list[int] = []
    for base, draft in zip(first_node.tolist(), drafts, strict=False):
        for at, node in enumerate(draft.nodes):
            # Whether the response may leave at a node tells it apart, too. No name ends like another one.
            name = f"{node.name}!" if at in draft.responses else node.name
            if name not in hashes:
                hashes[name] = hash_word(name)
            label.append(hashes[name])
        src += [base + edge[0] for edge in draft.edges]
        dst += [base + edge[1] for edge in draft.edges]
    return Dags(
        first_node=first_node,
        label=np.array(label, dtype=np.uint64),
        src=np.array(src, dtype=np.int64),
        dst=np.array(dst, dtype=np.int64),
    )


def _by_row(draft: Draft, order: tuple[int, ...]) -> Draft:
    """The draft with interchangeable branches in order of start in every request (times moved, not nodes)."""
    columns = [node.column for node in draft.nodes]
    times = np.ascontiguousarray(draft.times[columns].T)
    dags = _dags([draft])
    members = np.zeros(len(times), dtype=np.int64)
    by_row = canonical_order(dags, times.reshape(-1), member=members).order.reshape(times.shape)
    if bool((by_row == np.array(order)).all()):
        return draft
    settled, moved = draft.times.copy(), own_columns(*draft.times.shape)
    # Position p of a request is its node by_row[p]; the shared order has node order[p] there.
    targets = [columns[node] for node in order]
    settled[targets] = np.take_along_axis(times, by_row, axis=1).T
    moved[targets] = np.array(columns)[by_row].T
    return replace(draft, times=settled, moved=moved)


def _key(names: Sequence[str], edges: I4, responses: Sequence[int]) -> str:
    """128-bit key of (node names, edges, responses), 32 hex digits; what is hashed is injective."""
    digest = blake2b(b"flowdiff refined 2\0", digest_size=16)
    digest.update(np.array([len(names), len(edges), len(responses)], dtype="<i8").tobytes())
    for name in names:
        text = name.encode("utf-8", "surrogatepass")
        digest.update(len(text).to_bytes(8, "little") + text)
    digest.update(edges.astype("<i4").tobytes())
    digest.update(np.array(responses, dtype="<i4").tobytes())
    return digest.hexdigest()


def _graph(root: str, placed: _Placed) -> Graph:
    nodes = [placed.node(at) for at in range(len(placed.order))]
    stored = placed.draft.category.structure
    return Graph(
        key=placed.key,
        root=root,
        nodes=tuple(node.label for node in nodes),
        edges=placed.edges,
        responses=np.array(placed.responses, dtype=np.int32),
        text=TemplateText(stored if placed.draft.as_stored else _template(placed, nodes)),
        nesting=nesting(placed.draft, placed.order),
    )


def _template(placed: _Placed, nodes: Sequence[Node]) -> Template:
    position = {node: at for at, node in enumerate(placed.order)}
    return Template.of_graph(
        [
            (f"{n.host}/{n.component}" if n.host else n.component, n.point, n.label)
            for n in (node.label for node in nodes)
        ],
        [(int(src), int(dst)) for src, dst in placed.edges.tolist()],
        placed.responses,
        side=[node.label.side for node in nodes],
        mate=[position.get(node.mate, -1) for node in nodes],
        deferred=[node.deferred for node in nodes],
    )


def _frame_of(placed: _Placed) -> _Frame:
    position = {node: at for at, node in enumerate(placed.order)}
    predecessors: list[list[int]] = [[] for _ in placed.order]
    for src, dst in placed.edges.tolist():
        predecessors[dst].append(src)
    nodes = [placed.node(at) for at in range(len(placed.order))]
    return _frame(
        tuple(tuple(before) for before in predecessors),
        tuple((position.get(node.within[0], -1), position.get(node.within[1], -1)) for node in nodes),
        tuple(node.deferred for node in nodes),
        placed.responses,
    )


def _category(root: str, members: list[_Placed]) -> Category:
    graph = _graph(root, members[0])
    bounds = [0, *np.cumsum([len(placed.draft.rows) for placed in members]).tolist()]
    node_ns = np.empty((graph.n_nodes, bounds[-1]), dtype=np.int64)
    response_ns = np.empty(bounds[-1], dtype=np.int64)
    skewed = np.zeros(len(graph.edges), dtype=np.bool_)
    for (start, end), placed in zip(pairwise(bounds), members, strict=True):
        columns = np.array([placed.node(at).column for at in range(graph.n_nodes)], dtype=np.int64)
        settled = node_ns[:, start:end]
        response_ns[start:end], moved = _settle(placed.draft.times, columns, _frame_of(placed), settled)
        skewed |= _changed_edges(placed, columns, moved, settled)
    start_ns = np.concatenate([p.draft.category.start_ns[p.draft.rows] for p in members])
    weight = np.concatenate([p.draft.category.weight[p.draft.rows] for p in members])
    sample = np.concatenate([p.draft.category.sample[p.draft.rows] for p in members])
    status = np.concatenate([p.draft.category.status[p.draft.rows] for p in members])
    attached = attach([(p.draft, p.order) for p in members])
    request_id = pa.concat_arrays([p.draft.category.request_id.take(pa.array(p.draft.rows)) for p in members])
    if len(members) > 1:
        order = row_order(sample.astype(np.int64), start_ns, request_id)
        node_ns = np.take(node_ns, order, axis=1)
        response_ns, start_ns = response_ns[order], start_ns[order]
        weight, sample, status = weight[order], sample[order], status[order]
        request_id = request_id.take(pa.array(order))
        attached = in_row_order(attached, order)
    return Category(
        graph=graph,
        node_ns=node_ns,
        response_ns=response_ns,
        start_ns=start_ns,
        weight=weight,
        sample=sample,
        status=status,
        request_id=request_id,
        stored=tuple(sorted({placed.draft.category.structure.category for placed in members})),
        skewed_edges=skewed,
        host=attached.host,
        failures=attached.failures,
        origin=attached.origin,
        left_behind=attached.left_behind,
    )


def _changed_edges(placed: _Placed, columns: I8, moved: B1, settled: I8) -> B1:
    """[edges] whether the skew correction or the settling changed an edge's latency in any request."""
    changed = np.zeros(len(placed.edges), dtype=np.bool_)
    draft = placed.draft
    for number, (src, dst) in enumerate(placed.edges.tolist()):
        if moved[src] or moved[dst]:
            before = draft.times[columns[dst]] - draft.times[columns[src]]
            changed[number] = bool((before != settled[dst] - settled[src]).any())
        if draft.shift is not None and not changed[number]:
            changed[number] = bool((draft.shift[columns[dst]] != draft.shift[columns[src]]).any())
    return changed


@dataclass(frozen=True, slots=True)
class _Frame:
    """What bounds the times of a graph, by canonical position."""

    predecessors: tuple[tuple[int, ...], ...]
    within: tuple[tuple[int, int], ...]
    """Positions of the parent's start and end; -1 for none."""
    deferred: tuple[bool, ...]
    responses: tuple[int, ...]
    outermost_first: tuple[int, ...]
    """Positions in an order in which bounds come before what they bound."""


def _frame(
    predecessors: tuple[tuple[int, ...], ...],
    within: tuple[tuple[int, int], ...],
    deferred: tuple[bool, ...],
    responses: tuple[int, ...],
) -> _Frame:
    """A frame, with the order of nesting worked out. O(nodes · depth of nesting) at worst."""
    depth = [-1] * len(within)
    for position in range(len(within)):
        path = []
        at = position
        while at >= 0 and depth[at] < 0:
            path.append(at)
            at = within[at][0]
        base = depth[at] if at >= 0 else -1
        for step, node in enumerate(reversed(path), start=1):
            depth[node] = base + step
    order = sorted(range(len(within)), key=lambda node: (depth[node], node))
    return _Frame(predecessors, within, deferred, responses, tuple(order))


def _settle(times: I8, columns: I8, bounds: _Frame, out: I8) -> tuple[I8, B1]:
    """Write the settled times of `times[columns]` [nodes, requests] to `out`, of the same shape.

    Response time T is the latest response (at least 0). Awaited nodes are clipped to [0, T] and to their
    parent's span, outermost first, then raised to their latest predecessor; neither moves a response past
    T, because everything before a node lies in the same bounds. Returns ([requests] T, [nodes] whether a
    node was moved in any request).
    """
    n_nodes, n_requests = out.shape
    response_ns = np.empty(n_requests, dtype=np.int64)
    moved = np.zeros(n_nodes, dtype=np.bool_)
    step = max(1, _BLOCK_CELLS // max(n_nodes, 1))
    for start in range(0, n_requests, step):
        rows = slice(start, min(start + step, n_requests))
        raw = times[columns, rows]
        t = raw.copy()
        latest = np.maximum(t[list(bounds.responses)].max(axis=0), 0)
        _clip(t, latest, bounds)
        for node, before in enumerate(bounds.predecessors):
            for src in before:
                np.maximum(t[node], t[src], out=t[node])
        response_ns[rows] = latest
        moved |= (t != raw).any(axis=1)
        out[:, rows] = t
    return response_ns, moved


def _clip(t: I8, latest: I8, bounds: _Frame) -> None:
    """Clip times [nodes, requests] in place."""
    for node in bounds.outermost_first:
        low, high = bounds.within[node]
        if low >= 0:
            np.maximum(t[node], t[low], out=t[node])
        else:
            np.maximum(t[node], 0, out=t[node])
        if high >= 0:
            np.minimum(t[node], t[high], out=t[node])
        elif not bounds.deferred[node]:
            np.minimum(t[node], latest, out=t[node])
