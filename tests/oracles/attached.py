"""What a request carries at its spans, read back span by span from a population: slow and obvious."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from oracles.refined import US, Call

from analyze.population import Category, Population
from stitch.graph.placed import END, START

Tree = tuple[object, ...]
"""(operation, start ns, end ns, host, error class or None, times of marks, number of children left behind,
trees of the others)."""

LATE = "a/late"
"""Operation of calls that outlive their parent."""


@dataclass
class Seen:
    """A span of a request, as the population shows it."""

    operation: str
    start_ns: int
    host: str
    error: str | None
    kind: int
    parent: int
    """Position of the parent's start."""
    end_ns: int | None = None
    left_behind: Counter[str] = field(default_factory=Counter)
    below: list[int] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)


def requests(population: Population) -> Iterator[tuple[str, dict[int, Seen]]]:
    """(id, spans and points by position of their start) of every request."""
    for category in population.categories:
        for row, name in enumerate(category.request_id.to_pylist()):
            yield name, _seen(population, category, row)


def _seen(population: Population, category: Category, row: int) -> dict[int, Seen]:
    nesting = category.graph.nesting
    assert nesting is not None
    assert category.host is not None
    fails = category.failures
    failed = {
        position: population.errors[error]
        for at, position, error in zip(
            fails.row.tolist(), fails.position.tolist(), fails.error.tolist(), strict=True
        )
        if at == row
    }
    found = {}
    for position, node in enumerate(category.graph.nodes):
        if node.side == END:
            continue
        found[position] = Seen(
            node.operation,
            int(category.node_ns[position, row]),
            population.hosts[category.host[position, row]],
            failed.pop(position, None),
            int(nesting.kind[position]),
            int(nesting.parent[position]),
        )
        assert nesting.owner[position] == position
    assert not failed, "failures at ends or nowhere"
    for position, node in enumerate(category.graph.nodes):
        span = found[int(nesting.owner[position])]
        assert span.operation == node.operation
        if node.side == END:
            assert category.graph.nodes[nesting.owner[position]].side == START
            assert nesting.parent[position] == span.parent
            span.end_ns = int(category.node_ns[position, row])
    for position, span in found.items():
        if span.parent >= 0:
            found[span.parent].below.append(position)
    if category.left_behind:
        origin = 0 if category.origin is None else int(category.origin[row])
        for parent, operation in category.left_behind[origin]:
            found[parent].left_behind[operation] += 1
    return found


def seen_tree(spans: dict[int, Seen], position: int = 0) -> Tree:
    """A request's spans as one nested value."""
    span = spans[position]
    points = [at for at in span.below if spans[at].end_ns is None]
    return (
        span.operation,
        span.start_ns,
        span.end_ns,
        span.host,
        span.error,
        tuple(sorted(spans[at].start_ns for at in points)),
        span.left_behind[LATE],
        tuple(sorted((seen_tree(spans, at) for at in span.below if at not in points), key=repr)),
    )


def written_tree(call: Call) -> Tree:
    """The same of the request as it was written down; times since its start at 0."""
    return (
        call.name,
        round(call.start * US),
        round(call.end * US),
        call.host,
        None if call.status == "ok" else call.status,
        tuple(sorted(round(at * US) for at in call.marks)),
        sum(child.name == LATE for child in call.calls),
        tuple(sorted((written_tree(child) for child in call.calls if child.name != LATE), key=repr)),
    )
