"""Times of spans that came without: from their children, else from their parent."""

from __future__ import annotations

import numpy as np

from schemas.arrays import I8
from stitch.spans.span_columns import UNKNOWN_NS

_LOWEST = np.int64(-(2**63))


def fill_times(start_ns: I8, end_ns: I8, parent: I8, levels: tuple[I8, I8]) -> tuple[I8, I8]:
    """Starts and ends [spans] without UNKNOWN_NS, for flows in which some time is known.

    A missing start is the earliest start of the children, a missing end their latest end; what is still
    missing is the parent's, from the root down. A root without children's times gets its other time. A filled
    end never precedes the start, nor a filled start follows the end. parent, levels: as in
    `stitch.graph.order.tree.order_trees`. O(spans).
    """
    n = len(parent)
    rows, bounds = levels
    start = np.append(start_ns, UNKNOWN_NS)
    end = np.append(np.where(end_ns == UNKNOWN_NS, _LOWEST, end_ns), _LOWEST)
    no_start, no_end = start == UNKNOWN_NS, end == _LOWEST
    children_start = np.full(n + 1, UNKNOWN_NS)
    children_end = np.full(n + 1, _LOWEST)
    for level in range(len(bounds) - 2, -1, -1):
        here = rows[bounds[level] : bounds[level + 1]]
        start[here] = np.where(no_start[here], children_start[here], start[here])
        end[here] = np.where(no_end[here], children_end[here], end[here])
        np.minimum.at(children_start, parent[here], start[here])
        np.maximum.at(children_end, parent[here], end[here])
    for level in range(len(bounds) - 1):
        here = rows[bounds[level] : bounds[level + 1]]
        above = parent[here] if level else here
        own_start = np.where(start[here] == UNKNOWN_NS, start[above], start[here])
        own_end = np.where(end[here] == _LOWEST, end[above], end[here])
        own_start = np.where(own_start == UNKNOWN_NS, own_end, own_start)
        own_end = np.where(own_end == _LOWEST, own_start, own_end)
        end[here] = np.where(no_end[here], np.maximum(own_start, own_end), own_end)
        start[here] = np.where(no_start[here], np.minimum(own_start, end[here]), own_start)
    return start[:n], end[:n]
