"""Work that a message starts, as a request of its own.

Nobody waits for the consumer of a message, so it is no part of the response (A.6 S7), and a payment service
that fails behind a queue would be seen by nobody. A consumer with a trace of its own is a request like any
other; one that lies in its sender's trace becomes the same here: from when the message was sent to the end of
the work, so that the wait in the queue has a place, too. The sender's request keeps its own structure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from analyze.population import Failures
from analyze.refine.stored import FlowMatrices, StoredCategory, StoredStructure
from schemas.events import EventKind
from schemas.messages import WAITING
from stitch.graph.placed import END, START

Word = TypeVar("Word")

OK: Final = "ok"
FAILED: Final = "error"
"""Status of failing work whose class the statuses of whole requests do not name."""
_NAMED: Final = 3


def with_messages(matrices: FlowMatrices, n_compared: int) -> tuple[FlowMatrices, tuple[str, ...]]:
    """The flows, and after those of each structure the work that messages started in it; and notes. O(nodes).

    Such a request has the id, the start and the weight of its flow, and the key of its structure. A message
    that a consumer sends on is cut off in turn. Notes tell of the first `n_compared` samples.
    """
    statuses = list(matrices.statuses)
    told: Counter[str] = Counter()
    categories: list[StoredCategory] = []
    for category in matrices.categories:
        categories.append(category)
        for consumer in _consumers(category.structure):
            categories.append(_cut(category, consumer, statuses, matrices.errors))
            name = category.structure.operation(consumer).text
            told[name] += int(np.count_nonzero(category.sample < n_compared))
    found = replace(matrices, categories=tuple(categories), statuses=tuple(statuses))
    return found, tuple(_notes(told))


def _notes(told: Counter[str]) -> Iterator[str]:
    """How many requests are messages, by consumer."""
    n = told.total()
    if not n:
        return
    named = [f"{name} ({count:,})" for name, count in told.most_common(_NAMED)]
    rest = [f"{len(told) - _NAMED} more"] if len(told) > _NAMED else []
    yield (
        f"{n:,} of the requests are messages that another one sent, from then to the end of the work: "
        f"{', '.join([*named, *rest])}."
    )


def _consumers(structure: StoredStructure) -> list[int]:
    """Positions of the starts of consumers that nobody waits for."""
    joins = set(structure.edges)
    return [
        at
        for at, (kind, side) in enumerate(zip(structure.kind, structure.side, strict=True))
        if at > 0
        and kind == EventKind.SPAN_CONSUMER
        and side == START
        and (structure.mate[at], structure.mate[structure.parent[at]]) not in joins
    ]


def _cut(
    category: StoredCategory, consumer: int, statuses: list[str], errors: tuple[str, ...]
) -> StoredCategory:
    """The work of a consumer. `statuses` grows by what they have no word for."""
    structure = category.structure
    inside = [False] * structure.n_nodes
    for at in range(consumer, structure.n_nodes):  # a parent's start comes before all that is its
        start = structure.mate[at] if structure.side[at] == END else at
        inside[at] = start == consumer or (structure.parent[start] >= 0 and inside[structure.parent[start]])
    kept = [at for at, is_inside in enumerate(inside) if is_inside]
    sender, done = structure.parent[consumer], structure.mate[consumer]
    node_ns = category.node_ns[np.array([consumer, *kept, done])]
    # A consumer may be faster than the broker's answer to the sender, or its clock behind.
    np.minimum(node_ns[0], category.node_ns[structure.mate[sender]], out=node_ns[0])
    node_ns -= node_ns[0].copy()
    hosts = category.host[np.array([consumer, *kept, consumer])]
    failures, status = _failures(category, kept, consumer, statuses, errors)
    return replace(
        category,
        structure=_structure(structure, kept, consumer),
        node_ns=node_ns,
        host=hosts,
        status=status,
        failures=failures,
    )


def _structure(structure: StoredStructure, kept: list[int], consumer: int) -> StoredStructure:
    """Nodes `kept`, inside a span that begins where the message is sent and ends with the work."""
    place = {at: 1 + number for number, at in enumerate(kept)}
    first, last = 0, len(kept) + 1
    edges = [(place[src], place[dst]) for src, dst in structure.edges if src in place and dst in place]
    edges += [(first, place[consumer]), (place[structure.mate[consumer]], last)]
    awaited = {last}
    for src, dst in sorted(edges, key=lambda edge: -edge[1]):
        if dst in awaited:
            awaited.add(src)

    def around(end: Word, column: tuple[Word, ...]) -> tuple[Word, ...]:
        return (end, *(column[at] for at in kept), end)

    above = {at: place.get(structure.parent[at], first) for at in kept}
    return StoredStructure(
        component=around(structure.component[consumer], structure.component),
        point=around(f"{WAITING} {structure.point[consumer]}", structure.point),
        label=around(structure.label[consumer], structure.label),
        kind=around(structure.kind[consumer], structure.kind),
        side=(START, *(structure.side[at] for at in kept), END),
        mate=(last, *(place.get(structure.mate[at], -1) for at in kept), first),
        parent=(-1, *(above[at] for at in kept), -1),
        deferred=tuple(at not in awaited for at in range(last + 1)),
        edges=tuple(sorted(edges, key=lambda edge: (edge[1], edge[0]))),
        responses=(last,),
        category=structure.category,
    )


def _failures(
    category: StoredCategory, kept: list[int], consumer: int, statuses: list[str], errors: tuple[str, ...]
) -> tuple[Failures, npt.NDArray[np.int32]]:
    """Failing nodes of the work, and [requests] its status: that of the consumer."""
    place = np.full(category.structure.n_nodes, -1, dtype=np.int32)
    place[kept] = np.arange(1, len(kept) + 1, dtype=np.int32)
    failures = category.failures
    inside = place[failures.position] >= 0
    found = Failures(failures.row[inside], place[failures.position[inside]], failures.error[inside])
    status = np.full(category.n_requests, _code(OK, statuses), dtype=np.int32)
    own = failures.position == consumer
    for error in np.unique(failures.error[own]).tolist():
        word = errors[error] if error >= 0 else FAILED
        status[failures.row[own & (failures.error == error)]] = _code(word, statuses)
    return found, status


def _code(word: str, statuses: list[str]) -> int:
    if word not in statuses:
        statuses.append(word)
    return statuses.index(word)
