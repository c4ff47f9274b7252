"""Who is whose parent, as declared: references resolved, shared ids, asynchronous children, cycles cut.

A span has one parent in the tree. Of several declared ones it is the smallest id among those present in the
trace, `parents` before `follows`; if none is present the span is an orphan. A child is asynchronous if it is
tied by `follows`, or is the CONSUMER of a PRODUCER. In a cycle of parents the earliest span (start, end, id)
loses its parent and becomes a root.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from schemas.arrays import B1, I8
from schemas.events import EventKind
from stitch.spans.identity import Identified

NO_PARENT = -1


@dataclass(frozen=True, slots=True)
class Parents:
    """Declared parents, per span in work order."""

    parent: I8
    """[spans] row of the parent, NO_PARENT for roots and orphans."""
    orphan: B1
    """[spans] it declares parents, and none is in the trace."""
    asynchronous: B1
    """[spans] nothing returns to the parent."""
    cut: I8
    """Rows that lost their parent because it was a cycle."""


def resolve_parents(identified: Identified, component: I8) -> Parents:
    """Parents of the identified spans; `component` [label codes] is the component's code. O(spans)."""
    spans, shared = identified.spans, identified.shared
    references = spans.references
    n = len(spans)
    found = identified.index.find(spans.flow[references.row], references.key)
    if shared is not None:
        found = shared.attach(found, component[spans.label[references.row]])
    row, follows = references.row, references.follows
    if np.bincount(row, minlength=1).max() > 1:
        order = np.lexsort((references.key, follows, found < 0, row))
        row, found, follows = row[order], found[order], follows[order]
        first = np.concatenate(([True], row[1:] != row[:-1]))
        row, found, follows = row[first], found[first], follows[first]
    parent = np.full(n, NO_PARENT, dtype=np.int64)
    parent[row] = found
    orphan = np.zeros(n, dtype=np.bool_)
    orphan[row] = found < 0
    asynchronous = np.zeros(n, dtype=np.bool_)
    if follows.any():
        asynchronous[row] = follows
    if shared is not None:
        inner = np.flatnonzero(shared.owner >= 0)
        parent[inner] = shared.owner[inner]
        orphan[inner] = asynchronous[inner] = False
    consumers = np.flatnonzero((spans.kind == EventKind.SPAN_CONSUMER) & (parent >= 0))
    asynchronous[consumers] |= spans.kind[parent[consumers]] == EventKind.SPAN_PRODUCER
    cut = _cycle_heads(parent)
    parent[cut] = NO_PARENT
    asynchronous[cut] = False
    return Parents(parent, orphan, asynchronous, cut)


def _cycle_heads(parent: I8) -> I8:
    """The lowest row of every cycle of `parent` [spans; NO_PARENT: none]. O(spans log depth).

    After as many jumps as there are spans, what has not reached a top stands on a cycle, and every span of a
    cycle is where some span of it stands.
    """
    n = len(parent)
    if bool((parent < np.arange(n)).all()):
        return np.zeros(0, np.int64)  # every parent starts first: the usual case
    jump = np.append(np.where(parent < 0, n, parent), n)
    steps = 1
    while steps <= n:
        if bool((jump == n).all()):
            return np.zeros(0, np.int64)
        jump = jump[jump]
        steps *= 2
    on_cycle = np.unique(jump[jump != n])
    if not len(on_cycle):
        return on_cycle
    following = np.searchsorted(on_cycle, parent[on_cycle])
    lowest = np.arange(len(on_cycle))
    steps = 1
    while steps <= len(on_cycle):
        lowest = np.minimum(lowest, lowest[following])
        following = following[following]
        steps *= 2
    heads: I8 = on_cycle[np.unique(lowest)]
    return heads
