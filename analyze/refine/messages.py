"""Split off the work that a message starts as a separate request.

No request waits for the consumer of a message, so the consumer's time is not part of any response time, and a
failing payment service behind a queue would go unnoticed. A consumer with its own trace is already a request.
For a consumer inside its sender's trace this module adds a request, from the sending of the message to the
end of the consumer's work, so that it includes the wait in the queue. The sender's request is not changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import numpy as np

from analyze.population import OK, RecordedFailures
from analyze.refine.stored import FlowMatrices, Operation, StoredCategory
from schemas.arrays import I4, I8
from schemas.events import EventKind
from schemas.messages import WAITING
from stitch.graph.placed import END, START
from stitch.graph.template import Template

T = TypeVar("T")

FAILED: Final = "error"
"""Status of a message's request if its consumer failed with an unknown error class."""
_NAMED: Final = 3


def with_messages(matrices: FlowMatrices, n_compared: int) -> tuple[FlowMatrices, tuple[str, ...]]:
    """(flows with the requests of messages added, notes).

    The categories of messages follow the category of their sender. A message's request has the id, start and
    weight of the sender's flow, and the key of the sender's structure. A message sent by a consumer becomes a
    separate request, too. Notes count the first `n_compared` samples. O(nodes · requests) for any number of
    messages, since each node belongs to at most one consumer's work.
    """
    statuses = list(matrices.statuses)
    counts: Counter[str] = Counter()
    categories: list[StoredCategory] = []
    for category in matrices.categories:
        categories.append(category)
        works, owner = _works(category.structure)
        n = int(np.count_nonzero(category.sample < n_compared))
        for work, failures in zip(works, _failures_of(works, owner, category.failures), strict=True):
            categories.append(_cut(category, work, failures, statuses, matrices.errors))
            counts[Operation.of(category.structure, work.consumer).text] += n
    found = replace(matrices, categories=tuple(categories), statuses=tuple(statuses))
    return found, tuple(_notes(counts))


def _notes(counts: Counter[str]) -> Iterator[str]:
    """Yield at most one note: the number of requests of messages, by consumer. counts: consumer -> number."""
    n = counts.total()
    if not n:
        return
    named = [f"{name} ({count:,})" for name, count in counts.most_common(_NAMED)]
    rest = [f"{len(counts) - _NAMED} more"] if len(counts) > _NAMED else []
    yield (
        f"{n:,} of the requests are messages that other requests sent, timed from then to the end of their "
        f"work: {', '.join([*named, *rest])}."
    )


@dataclass(frozen=True, slots=True)
class _Work:
    """Part of a stored structure that one consumer runs; positions are node numbers of that structure."""

    consumer: int
    """Position of the node at which the consumer's span starts."""
    nodes: list[int]
    """Positions of the consumer's nodes, ascending. If the consumer sends messages, only the start and the
    end of the spans that consume these are included."""
    edges: list[tuple[int, int]]
    """(source, destination) positions of the edges between `nodes`."""


def _works(structure: Template) -> tuple[list[_Work], I8]:
    """(work of each consumer that is not awaited, by ascending position; int64[nodes] position of the
    consumer whose work the node belongs to, or -1). O(nodes + edges)."""
    consumers = set(_consumers(structure))
    if not consumers:
        return [], np.full(structure.n_nodes, -1)
    starts = [structure.mate[at] if side == END else at for at, side in enumerate(structure.side)]
    owner: list[int] = []
    for start in starts:  # a parent's start comes before all that is its
        above = structure.parent[start]
        owner.append(start if start in consumers else owner[above] if above >= 0 else -1)
    works = {at: _Work(at, [], []) for at in sorted(consumers)}
    for at, start in enumerate(starts):
        for mine in {owner[at], owner[structure.parent[start]] if start in consumers else -1} - {-1}:
            works[mine].nodes.append(at)
    for src, dst in structure.edges:
        if owner[src] >= 0 and (owner[src] == owner[dst] or dst in consumers):
            works[owner[src]].edges.append((src, dst))
    for at in consumers:
        if (around := owner[structure.parent[at]]) >= 0:
            works[around].edges.append((at, structure.mate[at]))
    return list(works.values()), np.array(owner)


def _consumers(structure: Template) -> list[int]:
    """Positions of the start nodes of CONSUMER spans whose parent's end does not wait for them."""
    if EventKind.SPAN_CONSUMER not in structure.kind:
        return []
    joins = set(structure.edges)
    return [
        at
        for at, (kind, side) in enumerate(zip(structure.kind, structure.side, strict=True))
        if at > 0
        and kind == EventKind.SPAN_CONSUMER
        and side == START
        and (structure.mate[at], structure.mate[structure.parent[at]]) not in joins
    ]


def _failures_of(works: list[_Work], owner: I8, failures: RecordedFailures) -> Iterator[RecordedFailures]:
    """Yield, for each entry of `works`, the failures at its nodes; positions stay those of the stored
    structure. owner: int64[nodes] consumer of each node. O(failures log failures)."""
    mine = owner[failures.position]
    order = np.argsort(mine, kind="stable")
    mine = mine[order]
    for work in works:
        part = order[np.searchsorted(mine, work.consumer) : np.searchsorted(mine, work.consumer, "right")]
        yield RecordedFailures(failures.row[part], failures.position[part], failures.error[part])


def _cut(
    category: StoredCategory,
    work: _Work,
    failures: RecordedFailures,
    statuses: list[str],
    errors: tuple[str, ...],
) -> StoredCategory:
    """Category whose requests are the work of one consumer. Appends new status words to `statuses`."""
    structure, consumer = category.structure, work.consumer
    sender, done = structure.parent[consumer], structure.mate[consumer]
    node_ns = category.node_ns[np.array([consumer, *work.nodes, done])]
    # A consumer may be faster than the broker's answer to the sender, or its clock behind.
    np.minimum(node_ns[0], category.node_ns[structure.mate[sender]], out=node_ns[0])
    node_ns -= node_ns[0].copy()
    place = np.searchsorted(work.nodes, failures.position).astype(np.int32) + 1
    return replace(
        category,
        structure=_structure(structure, work),
        node_ns=node_ns,
        host=category.host[np.array([consumer, *work.nodes, consumer])],
        status=_status(category.n_requests, consumer, failures, statuses, errors),
        failures=RecordedFailures(failures.row, place, failures.error),
        positions=tuple(work.nodes),
    )


def _structure(structure: Template, work: _Work) -> Template:
    """Template of a message's request: the nodes of `work` inside an added root span, which lasts from the
    sending of the message to the end of the consumer's work."""
    consumer, kept = work.consumer, work.nodes
    place = {at: 1 + number for number, at in enumerate(kept)}
    first, last = 0, len(kept) + 1
    edges = [(place[src], place[dst]) for src, dst in work.edges]
    edges += [(first, place[consumer]), (place[structure.mate[consumer]], last)]
    edges.sort(key=lambda edge: (edge[1], edge[0]))
    awaited = {last}
    for src, dst in reversed(edges):
        if dst in awaited:
            awaited.add(src)

    def around(end: T, column: tuple[T, ...]) -> tuple[T, ...]:
        return (end, *(column[at] for at in kept), end)

    return Template(
        component=around(structure.component[consumer], structure.component),
        point=around(f"{WAITING} {structure.point[consumer]}", structure.point),
        label=around(structure.label[consumer], structure.label),
        kind=around(structure.kind[consumer], structure.kind),
        side=(START, *(structure.side[at] for at in kept), END),
        mate=(last, *(place.get(structure.mate[at], -1) for at in kept), first),
        parent=(-1, *(place.get(structure.parent[at], first) for at in kept), -1),
        deferred=tuple(at not in awaited for at in range(last + 1)),
        edges=tuple(edges),
        responses=(last,),
    )


def _status(
    n_requests: int, consumer: int, failures: RecordedFailures, statuses: list[str], errors: tuple[str, ...]
) -> I4:
    """int32[requests]: index into `statuses` of the consumer span's status. Appends new words to
    `statuses`."""
    status = np.full(n_requests, _code(OK, statuses), dtype=np.int32)
    own = failures.position == consumer
    for error in np.unique(failures.error[own]).tolist():
        word = errors[error] if error >= 0 else FAILED
        status[failures.row[own & (failures.error == error)]] = _code(word, statuses)
    return status


def _code(word: str, statuses: list[str]) -> int:
    if word not in statuses:
        statuses.append(word)
    return statuses.index(word)
