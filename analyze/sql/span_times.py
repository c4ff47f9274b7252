"""DuckDB function that computes own times and critical times of spans; used by queries that ask for them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.arrays import B1, I8

RETURNS = "STRUCT(own_ns BIGINT[], critical_ns BIGINT[])"
"""DuckDB type of the result: own time and critical time of each span of a request, ns, by the span's number;
`critical_ns` is null for spans off the critical path.
"""


class SpanTimes:
    """DuckDB function from categories and node times of requests to own and critical times of their spans."""

    def __init__(self) -> None:
        self._of: _Spans | None = None

    def set_structures(self, structures: pa.Table) -> None:
        """Set the structures (STRUCTURES_SCHEMA) of all categories that occur in calls."""
        self._of = _Spans(structures)

    def __call__(self, category: pa.ChunkedArray, offset_ns: pa.ChunkedArray) -> pa.Array:
        """[requests] values of type RETURNS. O(spans log children)."""
        if self._of is None:
            raise ValueError("the structures were not read")
        return self._of.times(_whole(category), _whole(offset_ns))


class _Spans:
    """Spans of all structures, concatenated structure by structure, each in order of start."""

    def __init__(self, structures: pa.Table) -> None:
        self.category = structures["category"].combine_chunks()
        per_structure = structures["nodes"].combine_chunks()
        node_begin = per_structure.offsets.to_numpy()
        nodes = per_structure.values
        side, mate, parent = (_numbers(nodes.field(name)) for name in ("side", "mate", "parent"))
        at = np.flatnonzero(side == 1)
        structure = np.searchsorted(node_begin, at, side="right") - 1
        self.first = np.searchsorted(at, node_begin)
        """[structures + 1] index of each structure's first span."""
        self.start = at - node_begin[structure]
        """[spans] position of the node, in its structure, at which the span starts."""
        self.end = mate[at]
        number = np.cumsum(side == 1) - 1
        has_parent = parent[at] >= 0
        above = np.where(has_parent, node_begin[structure] + parent[at], 0)
        self.parent = np.where(has_parent, number[above] - self.first[structure], -1)
        """[spans] number of the parent span within the structure; -1 for the root."""
        self.is_awaited = has_parent & ~nodes.field("deferred").to_numpy(zero_copy_only=False)[at]
        self.depth = np.zeros(len(at), dtype=np.int64)
        up, rows = self.first[structure] + self.parent, np.flatnonzero(has_parent)
        while len(rows := rows[self.depth[rows] != self.depth[up[rows]] + 1]):
            self.depth[rows] = self.depth[up[rows]] + 1

    def times(self, category: pa.Array, offset_ns: pa.Array) -> pa.Array:
        """[requests] values of type RETURNS, computed for the spans of all requests at once."""
        structure = pc.index_in(category, value_set=self.category).to_numpy()
        counts = np.diff(self.first)[structure]
        begin = np.concatenate([[0], np.cumsum(counts)])
        request = np.repeat(np.arange(len(counts)), counts)
        span = np.repeat(self.first[structure] - begin[:-1], counts) + np.arange(begin[-1])
        node, times = offset_ns.offsets.to_numpy()[request], offset_ns.values.to_numpy()
        start, end = times[node + self.start[span]], times[node + self.end[span]]
        child = np.flatnonzero(self.is_awaited[span])
        parent = np.maximum(begin[request] + self.parent[span], 0)
        own = end - start - _covered(start, end, child, parent[child])
        on_path = _critical(start, end, child, parent, self.depth[span])
        below = child[on_path[child]]
        critical = end - start
        np.subtract.at(critical, parent[below], end[below] - start[below])
        lists = (
            pa.array(own),
            pa.array(np.maximum(critical, 0), mask=~on_path),
        )
        offsets = pa.array(begin, pa.int32())
        names = ["own_ns", "critical_ns"]
        return pa.StructArray.from_arrays([pa.ListArray.from_arrays(offsets, one) for one in lists], names)


def _covered(start: I8, end: I8, child: I8, parent: I8) -> I8:
    """[spans] time, ns, of each span during which at least one of its children ran."""
    low = np.clip(start[child], start[parent], None)
    high = np.clip(end[child], start[parent], end[parent])
    order = np.lexsort((low, parent))
    low, high, parent = low[order], high[order], parent[order]
    # How far those before have reached, within each parent: ranks of later parents are higher.
    by_high = np.lexsort((high, parent))
    rank = np.empty_like(by_high)
    rank[by_high] = np.arange(len(by_high))
    reach = high[by_high][np.maximum.accumulate(rank)]
    before = np.concatenate([low[:1], reach[:-1]])
    before[np.flatnonzero(np.diff(parent)) + 1] = np.iinfo(np.int64).min
    covered = np.zeros(len(start), dtype=np.int64)
    np.add.at(covered, parent, np.maximum(high - np.maximum(low, before), 0))
    return covered


def _critical(start: I8, end: I8, child: I8, parent: I8, depth: I8) -> B1:
    """[spans] True for spans on the critical path.

    Among the children of a span these are the one that ended last, then the one that ended last before that
    one started, and so on.
    """
    child = child[start[child] >= start[parent[child]]]
    child = child[np.lexsort((-child, -end[child], parent[child]))]
    first = np.flatnonzero(np.diff(parent[child], prepend=-1))
    place = np.arange(len(child)) - np.repeat(first, np.diff(np.append(first, len(child))))
    until, is_taken = end.copy(), np.zeros(len(start), dtype=np.bool_)
    for rows in _groups(place):
        some = child[rows]
        some = some[end[some] <= until[parent[some]]]
        is_taken[some] = True
        until[parent[some]] = start[some]
    on_path: B1 = depth == 0
    for rows in _groups(depth)[1:]:
        on_path[rows] = is_taken[rows] & on_path[parent[rows]]
    return on_path


def _groups(number: I8) -> list[I8]:
    """For each number from 0 to the largest: indices of the elements with that number."""
    order = np.argsort(number, kind="stable")
    return np.split(order, np.cumsum(np.bincount(number)[:-1])) if len(number) else []


def _whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _numbers(column: pa.Array) -> I8:
    found: I8 = column.to_numpy(zero_copy_only=False).astype(np.int64)
    return found
