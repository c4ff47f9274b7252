"""Order trees of spans canonically, before spans become nodes; vectorised over a batch.

Children are unordered. Siblings are sorted by (synchronous before asynchronous, hash of the labelled subtree,
row), so the order depends on the labelled tree alone; interchangeable siblings are ordered by row, and
callers sort rows by start time. Positions are assigned by a depth-first walk in that order: a span's start,
its marks (span events), its children's subtrees, its end. All steps process whole levels; there is no Python
loop over spans.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from schemas.arrays import B1, I8, U8
from stitch.columnar.hashing import mix
from stitch.columnar.runs import run_starts

_ASYNC = np.uint64(0xD6E8FEB86659FD93)


@dataclass(frozen=True, slots=True)
class CanonicalTree:
    """Canonical positions of the spans of a forest; each array has one element per span, in the given
    order."""

    start: I8
    """[spans] position of the span's start node in its flow."""
    size: I8
    """[spans] number of nodes (starts, ends and marks) in the span's subtree; the span ends at position
    `start + size - 1`."""
    sync_rank: I8
    """[spans] rank among the synchronous children of the span's parent, from 0; undefined for asynchronous
    spans and roots."""
    n_sync: I8
    """[spans] number of the span's synchronous children."""
    deferred: B1
    """[spans] True if the span or an ancestor is asynchronous."""


def levels_of(parent: I8) -> tuple[I8, I8]:
    """Group spans by depth: `(rows, bounds)`; level d (0: roots) is `rows[bounds[d] : bounds[d + 1]]`,
    ascending.

    parent: [spans] row of the parent span, or the number of spans for a root; there must be no cycle. O(spans
    log depth) by pointer jumping.
    """
    n = len(parent)
    depth = np.zeros(n + 1, dtype=np.int64)
    depth[:n] = parent != n
    jump = np.append(parent, n)
    while True:
        step = depth[jump]
        if not step.any():
            break
        depth += step
        jump = jump[jump]
    depth = depth[:n]
    deepest = int(depth.max(initial=0))
    narrow = depth.astype(np.uint8 if deepest < 2**8 else np.uint16 if deepest < 2**16 else np.int64)
    rows = np.argsort(narrow, kind="stable")
    return rows, np.concatenate(([0], np.cumsum(np.bincount(depth, minlength=deepest + 1))))


def order_trees(
    parent: I8,
    label_hash: U8,
    asynchronous: B1,
    n_marks: I8,
    mark_hash: U8,
    levels: tuple[I8, I8],
) -> CanonicalTree:
    """Assign canonical positions to the spans of a forest (one tree per flow).

    parent: [spans] row of the parent, or the number of spans for a root. asynchronous: [spans] True if the
    parent does not wait for the span. n_marks: [spans] number of marks (span events). mark_hash: [spans]
    order-independent hash of the marks. levels: result of `levels_of(parent)`. O(spans log siblings).
    """
    n = len(parent)
    rows, bounds = levels
    total = np.append(label_hash + mark_hash, np.uint64(0))
    size = np.append(n_marks, 0) + 2
    any_async = bool(asynchronous.any())
    subtree = np.empty(n, dtype=np.uint64)
    for level in range(len(bounds) - 2, -1, -1):
        here = rows[bounds[level] : bounds[level + 1]]
        mixed = mix(total[here])
        subtree[here] = mixed
        if level:
            above = parent[here]
            if any_async:
                mixed = np.where(asynchronous[here], mix(mixed ^ _ASYNC), mixed)
            np.add.at(total, above, mixed)
            np.add.at(size, above, size[here])
    size = size[:n]
    offset, sync_rank = _sibling_offsets(parent, subtree, size, asynchronous)
    offset += np.append(n_marks, 0)[parent]
    start = np.zeros(n + 1, dtype=np.int64)
    deferred = np.append(asynchronous, np.False_)
    for level in range(1, len(bounds) - 1):
        here = rows[bounds[level] : bounds[level + 1]]
        above = parent[here]
        start[here] = start[above] + offset[here]
        deferred[here] |= deferred[above]
    n_sync = np.bincount(parent[~asynchronous], minlength=n + 1)[:n]
    return CanonicalTree(start[:n], size, sync_rank, n_sync, deferred[:n])


def _sibling_offsets(parent: I8, subtree: U8, size: I8, asynchronous: B1) -> tuple[I8, I8]:
    """`([spans] number of nodes between the parent's start and the span's start, the parent's marks excluded;
    [spans] rank among siblings)`."""
    n = len(parent)
    offset = np.ones(n, dtype=np.int64)
    rank = np.zeros(n, dtype=np.int64)
    n_children = np.bincount(parent, minlength=n + 1)
    n_children[n] = 0  # roots are not siblings
    siblings = np.flatnonzero(n_children[parent] > 1)
    if not len(siblings):
        return offset, rank
    # One sort key: the parent in the high bits, one bit for asynchronous, the top bits of the subtree hash.
    above = parent[siblings]
    hash_bits = 63 - int(n).bit_length()
    key = (above.astype(np.uint64) << np.uint64(hash_bits + 1)) | (
        subtree[siblings] >> np.uint64(64 - hash_bits)
    )
    key |= asynchronous[siblings].astype(np.uint64) << np.uint64(hash_bits)
    order = np.argsort(key, kind="stable")
    key = key[order]
    siblings = siblings[order]
    tied = key[1:] == key[:-1]
    differ = tied & (subtree[siblings[1:]] != subtree[siblings[:-1]])
    if differ.any():  # equal high bits of different hashes: sort these groups by the whole hash
        group = np.concatenate(([0], np.cumsum(~tied)))
        again = np.flatnonzero(np.isin(group, group[1:][differ]))
        members = siblings[again]
        siblings[again] = members[np.lexsort((members, subtree[members], group[again]))]
    above = parent[siblings]
    first = np.flatnonzero(run_starts(above))
    counts = np.diff(np.append(first, len(siblings)))
    before = np.cumsum(size[siblings]) - size[siblings]
    offset[siblings] += before - np.repeat(before[first], counts)
    rank[siblings] = np.arange(len(siblings)) - np.repeat(first, counts)
    return offset, rank
