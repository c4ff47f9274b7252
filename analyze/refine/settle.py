"""Times that fit their graph: clipped to the parent and the request, and never before a predecessor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

I8 = npt.NDArray[np.int64]
B1 = npt.NDArray[np.bool_]

_BLOCK_CELLS = 1 << 16
"""Cells of a block worked on at a time: 64 K cells of 8 bytes stay in a core's second-level cache."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What bounds the times of a graph, by canonical position."""

    predecessors: tuple[tuple[int, ...], ...]
    within: tuple[tuple[int, int], ...]
    """Positions of the parent's start and end; -1 for none."""
    deferred: tuple[bool, ...]
    responses: tuple[int, ...]
    outermost_first: tuple[int, ...]
    """Positions in an order in which bounds come before what they bound."""


def frame(
    predecessors: tuple[tuple[int, ...], ...],
    within: tuple[tuple[int, int], ...],
    deferred: tuple[bool, ...],
    responses: tuple[int, ...],
) -> Frame:
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
    return Frame(predecessors, within, deferred, responses, tuple(order))


def settle(times: I8, columns: I8, bounds: Frame, out: I8) -> tuple[I8, B1]:
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


def _clip(t: I8, latest: I8, bounds: Frame) -> None:
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
