"""Merge drafts into categories: canonical positions, one key for equal graphs, one settled matrix a category.

A draft is one refined graph before it is canonical, with the requests that take it. Its times may have been
moved between interchangeable branches, request by request; `Draft.moved` says from where. What belongs to a
node (hosts, failures, children left out) is looked up there, so that a host stays with its times. Settled
times fit their graph: clipped to the parent and the request, and never before a predecessor.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from analyze.population import (
    NO_FAILURES,
    Category,
    Codes,
    Graph,
    GraphNode,
    LeftBehind,
    Nesting,
    RecordedFailures,
)
from analyze.refine.stored import StoredCategory, StoredStructure, row_order
from schemas.arrays import B1, I4, I8
from stitch.columnar.hashing import hash_word, mix
from stitch.graph.order.dag import Dags, canonical_order
from stitch.graph.placed import END
from stitch.graph.template import Template
from stitch.graph.text import split_words
from stitch.readings import reading_of

Columns = npt.NDArray[np.unsignedinteger[Any]]
"""Numbers of stored columns, in the smallest type that holds them."""
_Order = tuple[int, ...]
"""[positions] node of the draft."""
_CHUNK_CELLS = 1 << 20
"""Cells looked through at a time: 1 MB, however many nodes fail."""
_Left = tuple[LeftBehind, ...]
_BLOCK_CELLS = 1 << 16
"""Cells of a block worked on at a time: 64 K cells of 8 bytes stay in a core's second-level cache."""


class DraftNode(NamedTuple):
    """One node of a draft. A tuple, because tens of thousands are made in a comparison."""

    label: GraphNode
    """What the node is called."""
    name: str
    """The same as text for hashing, worked out once: equal iff the labels are, whatever is in their parts."""
    mate: int
    """Node of the other side of the span; -1 for points."""
    deferred: bool
    column: int
    """Column of the stored matrix that holds its time."""
    within: tuple[int, int]
    """Nodes whose times bound this one's, the parent's start and end; -1: bounded by the request only."""


def make_node(
    structure: StoredStructure,
    column: int,
    *,
    host: str,
    side: int,
    mate: int,
    deferred: bool,
    within: tuple[int, int],
) -> DraftNode:
    """The node of a stored column."""
    label = GraphNode(
        structure.component[column], structure.point[column], structure.label[column], host, side
    )
    return DraftNode(label, _name(label), mate, deferred, column, within)


def _name(label: GraphNode) -> str:
    # The lengths say where each part ends, so no part can pass for two.
    component, point, word, host, side = label
    if word is None:
        return f"{side} {len(host)} {len(component)} {len(point)} {host}{component}{point}"
    return f"{side} {len(host)} {len(component)} {len(point)} {len(word)} {host}{component}{point}{word}"


class LeftOut(NamedTuple):
    """A child that was left out of the graph."""

    column: int
    """Stored column of the start of the span that started it."""
    operation: str
    """`component/point[/label]`."""


def own_columns(n_columns: int, n_rows: int) -> Columns:
    """[columns, rows] every column's own number, to be moved with its times."""
    numbers: Columns = np.arange(n_columns).astype(np.min_scalar_type(n_columns))
    return np.repeat(numbers[:, None], n_rows, axis=1)


@dataclass(frozen=True, slots=True)
class Draft:
    """A labelled DAG in some topological order, and the rows that take it."""

    category: StoredCategory
    rows: I8
    """Rows of the stored category, ascending."""
    times: I8
    """[stored nodes, rows] skew-corrected times; interchangeable branches in order of start."""
    nodes: tuple[DraftNode, ...]
    """Topological order; node 0 is the root."""
    edges: tuple[tuple[int, int], ...]
    """(src, dst) nodes; may hold edges implied by others."""
    responses: tuple[int, ...]
    moved: Columns | None = None
    """[stored nodes, rows] stored column whose time stands here, where branches were sorted; None: its own.
    Hosts and failures are not moved: `attached` looks them up by this."""
    nested: bool = False
    """Nodes are sides of spans and points inside them, so that `within` and `mate` tell the nesting."""
    left_out: tuple[LeftOut, ...] = ()
    """Children that nobody waits for and that are not among the nodes."""
    shift: I8 | None = None
    """[stored nodes, rows] what the skew correction added, ns; None: nothing."""
    as_stored: bool = False
    """Nodes, edges and labels are those of the stored structure: its text serves."""
    twins_by_row: bool = False
    """Interchangeable branches may start in another order than their columns stand: look at every row."""


def equal_rows(matrix: npt.NDArray[np.signedinteger]) -> tuple[I8, I8]:
    """Group the rows of `matrix` [rows, columns].

    Returns (first row of each group [groups], group of each row [rows]); groups are numbered by the
    lexicographic order of their contents, so the numbering does not depend on the order of rows. Exact: a
    hash finds the groups, a comparison confirms them. O(rows · columns + rows log rows).
    """
    rows = len(matrix)
    if rows == 0 or matrix.shape[1] == 0 or bool((matrix == matrix[:1]).all()):
        return np.zeros(min(rows, 1), dtype=np.int64), np.zeros(rows, dtype=np.int64)
    digest = np.zeros(rows, dtype=np.uint64)
    for column in range(matrix.shape[1]):
        digest = mix(digest ^ matrix[:, column].astype(np.int64).view(np.uint64))
    _, first, inverse = np.unique(digest, return_index=True, return_inverse=True)
    if not np.array_equal(matrix[first][inverse], matrix):
        _, first, inverse = np.unique(matrix, axis=0, return_index=True, return_inverse=True)
    order = np.lexsort(matrix[first].T[::-1])
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return first[order].astype(np.int64), rank[inverse.reshape(-1)]


@dataclass(frozen=True, slots=True)
class Attached:
    """See `Category` for the fields; rows are in the order of the drafts."""

    host: Codes
    failures: RecordedFailures
    origin: I4 | None
    left_behind: tuple[_Left, ...]


def _attach(members: Sequence[tuple[Draft, _Order]]) -> Attached:
    """Everything attached to the requests of drafts of one graph, one draft after the other."""
    hosts, failures, first_row = [], [], 0
    for draft, order in members:
        hosts.append(_hosts(draft, _columns(draft, order)))
        failures.append(_failures(draft, _columns(draft, order), first_row))
        first_row += len(draft.rows)
    origin, left_behind = _left_behind(members)
    return Attached(_joined(hosts), _concatenated(failures), origin, left_behind)


def _in_row_order(attached: Attached, order: I8) -> Attached:
    """The same for requests in another order: row `i` is what was row `order[i]`."""
    host, failures = attached.host, attached.failures
    if host.strides[1] != 0:
        host = np.take(host, order, axis=1)
    if len(failures.row):
        rank = np.empty(len(order), dtype=np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        failures = _sorted(rank[failures.row], failures.position, failures.error)
    origin = None if attached.origin is None else attached.origin[order]
    return Attached(host, failures, origin, attached.left_behind)


def _nesting(draft: Draft, order: _Order) -> Nesting | None:
    """Which span each node belongs to; None where nothing is nested."""
    if not draft.nested:
        return None
    position = {node: at for at, node in enumerate(order)}
    nodes = [draft.nodes[node] for node in order]
    owner = [position[n.mate] if n.label.side == END else at for at, n in enumerate(nodes)]
    parent = [position.get(n.within[0], -1) for n in nodes]
    kind = draft.category.structure.kind
    return Nesting(
        np.array(owner, dtype=np.int32),
        np.array(parent, dtype=np.int32),
        np.array([kind[n.column] for n in nodes], dtype=np.uint8),
    )


def _columns(draft: Draft, order: _Order) -> I8:
    """[positions] stored column of each."""
    return np.array([draft.nodes[node].column for node in order], dtype=np.int64)


def _hosts(draft: Draft, columns: I8) -> Codes:
    """[positions, rows]; one row repeated where all have the same hosts."""
    stored = draft.category.host
    if draft.moved is not None:
        own = stored[draft.moved[columns], draft.rows[None, :]]
    elif len(draft.rows) == draft.category.n_requests:
        own = stored[columns]
    else:
        own = stored[np.ix_(columns, draft.rows)]
    if (own == own[:, :1]).all():
        return np.broadcast_to(own[:, :1].copy(), own.shape)
    return np.ascontiguousarray(own)


def _joined(parts: Sequence[Codes]) -> Codes:
    """Parts side by side; a repeated row stays one if all parts repeat the same."""
    if all(part.strides[1] == 0 for part in parts):
        first = parts[0][:, :1]
        if all((part[:, :1] == first).all() for part in parts[1:]):
            return np.broadcast_to(first, (len(first), sum(part.shape[1] for part in parts)))
    return np.concatenate(parts, axis=1) if len(parts) > 1 else parts[0]


def _failures(draft: Draft, columns: I8, first_row: int) -> RecordedFailures:
    """Failures of the draft's rows at nodes of the graph, rows counted from `first_row`."""
    failures = draft.category.failures
    if not len(failures.row):
        return NO_FAILURES
    at = np.searchsorted(draft.rows, failures.row)
    at[at == len(draft.rows)] = 0
    mine = np.flatnonzero(draft.rows[at] == failures.row)
    at, column = at[mine], failures.position[mine].astype(np.int64)
    if draft.moved is not None:
        column = _moved_to(draft, at, column)
    place = np.full(draft.category.structure.n_nodes, -1, dtype=np.int32)
    place[columns] = np.arange(len(columns))
    kept = np.flatnonzero(place[column] >= 0)
    row = (at[kept] + first_row).astype(np.int32)
    return _sorted(row, place[column[kept]], failures.error[mine][kept])


def _moved_to(draft: Draft, rows: I8, columns: I8) -> I8:
    """[entries] where the time of a stored column stands in a row of the draft. O(entries · columns)."""
    assert draft.moved is not None
    found = np.empty(len(rows), dtype=np.int64)
    step = max(1, _CHUNK_CELLS // len(draft.moved))
    for at in range(0, len(rows), step):
        part = slice(at, at + step)
        found[part] = np.argmax(draft.moved[:, rows[part]] == columns[part], axis=0)
    return found


def _sorted(row: I4, position: I4, error: I4) -> RecordedFailures:
    order = np.lexsort((position, row))
    return RecordedFailures(row[order], position[order], error[order])


def _concatenated(parts: Sequence[RecordedFailures]) -> RecordedFailures:
    if len(parts) == 1:
        return parts[0]
    return RecordedFailures(
        np.concatenate([part.row for part in parts]),
        np.concatenate([part.position for part in parts]),
        np.concatenate([part.error for part in parts]),
    )


def _left_behind(members: Sequence[tuple[Draft, _Order]]) -> tuple[I4 | None, tuple[_Left, ...]]:
    """([rows] index, the different things left out) of `Category`."""
    if not any(draft.left_out for draft, _ in members):
        return None, ()
    found: dict[_Left, None] = {}
    parts: list[tuple[list[_Left], I8]] = []
    for draft, order in members:
        variants, of_row = _left_variants(draft, order)
        found.update(dict.fromkeys(variants))
        parts.append((variants, of_row))
    words = sorted(found)
    if len(words) == 1:
        return None, (words[0],)
    code = {word: at for at, word in enumerate(words)}
    origin = [np.array([code[v] for v in variants], dtype=np.int32)[of_row] for variants, of_row in parts]
    return np.concatenate(origin), tuple(words)


def _left_variants(draft: Draft, order: _Order) -> tuple[list[_Left], I8]:
    """What the draft's rows left out, and [rows] which of these; more than one where branches were sorted."""
    position = {draft.nodes[node].column: at for at, node in enumerate(order)}
    column = np.array([left.column for left in draft.left_out], dtype=np.int64)
    if draft.moved is None or not len(column):
        columns, of_row = column[None, :], np.zeros(len(draft.rows), dtype=np.int64)
    else:
        rows = np.arange(len(draft.rows), dtype=np.int64)
        by_row = np.stack([_moved_to(draft, rows, np.full(len(rows), at)) for at in column.tolist()], axis=1)
        first, of_row = equal_rows(by_row)
        columns = by_row[first]
    variants = [
        tuple(
            sorted(
                LeftBehind(position[at], left.operation) for at, left in zip(row, draft.left_out, strict=True)
            )
        )
        for row in columns.tolist()
    ]
    return variants, of_row


class TemplateText:
    """`GraphText` of a template: 10 µs a node at the first look."""

    def __init__(self, template: Template) -> None:
        self._template = template

    @cached_property
    def _texts(self) -> tuple[str, str]:
        reading = reading_of(self._template)
        return reading.canonical, reading.canonical_l1

    @property
    def canonical(self) -> str:
        """Canonical text, for people."""
        return self._texts[0]

    @property
    def tokens(self) -> tuple[str, ...]:
        """Canonical token sequence at level L1."""
        return split_words(self._texts[1])


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

    def node(self, position: int) -> DraftNode:
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
            # Whether the response may leave at a node distinguishes it, too. No name ends like another one.
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
        nesting=_nesting(placed.draft, placed.order),
    )


def _template(placed: _Placed, nodes: Sequence[DraftNode]) -> Template:
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
    attached = _attach([(p.draft, p.order) for p in members])
    request_id = pa.concat_arrays([p.draft.category.request_id.take(pa.array(p.draft.rows)) for p in members])
    if len(members) > 1:
        order = row_order(sample.astype(np.int64), start_ns, request_id)
        node_ns = np.take(node_ns, order, axis=1)
        response_ns, start_ns = response_ns[order], start_ns[order]
        weight, sample, status = weight[order], sample[order], status[order]
        request_id = request_id.take(pa.array(order))
        attached = _in_row_order(attached, order)
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
