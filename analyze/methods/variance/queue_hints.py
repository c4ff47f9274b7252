"""Edges that may be long because of what comes after them: a queue before a busy component (VF §4.3)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from analyze.methods.variance.correlated_parts import CorrelatedPair
from analyze.population import Graph
from analyze.profile.names import PartName

WAITS: Final = re.compile(r"queue|wait|(?<![bc])lock|pend|acquire|schedul", re.IGNORECASE)
"""Words of a trace point at which requests wait."""


class QueueHint(NamedTuple):
    """Part `waiting` is long where `serving` is."""

    waiting: int
    serving: int


def queue_hints(
    graph: Graph, names: Sequence[PartName], pairs: Sequence[CorrelatedPair]
) -> tuple[QueueHint, ...]:
    """For each edge that leads into another component, or is named like a queue: the later edge of that
    component, the server behind it, with which it has the largest positive covariance."""
    found: dict[int, int] = {}
    for pair in pairs:  # the largest covariance first
        if pair.covariance <= 0 or pair.rho <= 0:
            continue
        one, other = sorted((pair.one, pair.other), key=lambda part: (names[part].src, names[part].dst))
        if one not in found and _serves(graph, names[one], names[other]):
            found[one] = other
    return tuple(QueueHint(waiting, serving) for waiting, serving in sorted(found.items()))


def _serves(graph: Graph, waiting: PartName, serving: PartName) -> bool:
    if serving.src < waiting.dst:
        return False
    source, target = graph.nodes[waiting.src], graph.nodes[waiting.dst]
    crosses = source.component != target.component
    if not crosses and not WAITS.search(f"{source.operation} {target.operation}"):
        return False
    begin, end = graph.nodes[serving.src], graph.nodes[serving.dst]
    return begin.component == end.component and (not crosses or begin.component == target.component)
