"""What requests carry at their nodes beside times: hosts, failures, children left out; canonical positions.

A draft's times may have been moved between interchangeable branches, request by request; `Draft.moved` says
from where. What belongs to a node is looked up there, so that a host stays with its times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analyze.population import NO_FAILURES, Codes, Failures, LeftBehind, Nesting
from analyze.refine.draft import Draft, equal_rows
from schemas.arrays import I4, I8
from stitch.graph.placed import END

Order = tuple[int, ...]
"""[positions] node of the draft."""
_CHUNK_CELLS = 1 << 20
"""Cells looked through at a time: 1 MB, however many nodes fail."""
_Left = tuple[LeftBehind, ...]


@dataclass(frozen=True, slots=True)
class Attached:
    """See `Category` for the fields; rows are in the order of the drafts."""

    host: Codes
    failures: Failures
    origin: I4 | None
    left_behind: tuple[_Left, ...]


def attach(members: Sequence[tuple[Draft, Order]]) -> Attached:
    """Everything attached to the requests of drafts of one graph, one draft after the other."""
    hosts, failures, first_row = [], [], 0
    for draft, order in members:
        hosts.append(_hosts(draft, _columns(draft, order)))
        failures.append(_failures(draft, _columns(draft, order), first_row))
        first_row += len(draft.rows)
    origin, left_behind = _left_behind(members)
    return Attached(_joined(hosts), _concatenated(failures), origin, left_behind)


def in_row_order(attached: Attached, order: I8) -> Attached:
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


def nesting(draft: Draft, order: Order) -> Nesting | None:
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


def _columns(draft: Draft, order: Order) -> I8:
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


def _failures(draft: Draft, columns: I8, first_row: int) -> Failures:
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


def _sorted(row: I4, position: I4, error: I4) -> Failures:
    order = np.lexsort((position, row))
    return Failures(row[order], position[order], error[order])


def _concatenated(parts: Sequence[Failures]) -> Failures:
    if len(parts) == 1:
        return parts[0]
    return Failures(
        np.concatenate([part.row for part in parts]),
        np.concatenate([part.position for part in parts]),
        np.concatenate([part.error for part in parts]),
    )


def _left_behind(members: Sequence[tuple[Draft, Order]]) -> tuple[I4 | None, tuple[_Left, ...]]:
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


def _left_variants(draft: Draft, order: Order) -> tuple[list[_Left], I8]:
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
