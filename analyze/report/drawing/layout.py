"""Layered drawing of a DAG, top to bottom (Sugiyama): levels by longest path, order by barycentre.

Small on purpose: graphs of a few hundred boxes, drawn once. Deterministic.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

GAP_X = 26.0
"""Horizontal gap between two boxes of a level, px."""
SWEEPS = 6
"""Number of rounds of ordering and of aligning; more rounds made no visible difference on graphs of 200
boxes."""
MAX_BENDS = 4000
"""Maximum number of bends of long arrows in one drawing; with more, all long arrows are straight, so that a
wide graph can be drawn."""


@dataclass(frozen=True, slots=True)
class Box:
    """Size of one box, px."""

    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Layout:
    """Centres of the boxes, and bends of the arrows; px, origin at the top left."""

    x: tuple[float, ...]
    y: tuple[float, ...]
    bends: dict[tuple[int, int], tuple[tuple[float, float], ...]]
    """(Index of a box, index of a lower box) -> points (x, y), px, through which the arrow between them goes,
    from top to bottom."""
    width: float
    height: float


def lay_out(boxes: Sequence[Box], arrows: Iterable[tuple[int, int]], *, gap_y: float = 40) -> Layout:
    """Place `boxes` in levels; each arrow goes from a lower to a higher box index.

    gap_y: vertical gap between two levels, px. O(SWEEPS · (boxes + bends)).
    """
    links = sorted(set(arrows))
    level = _levels(len(boxes), links)
    points = list(boxes)
    depth = list(level)
    chains: dict[tuple[int, int], list[int]] = {}
    segments: list[tuple[int, int]] = []
    for a, b in links:
        chain = [a]
        if len(points) - len(boxes) < MAX_BENDS:
            for passed in range(level[a] + 1, level[b]):
                points.append(Box(8, 1))
                depth.append(passed)
                chain.append(len(points) - 1)
        chain.append(b)
        chains[a, b] = chain[1:-1]
        segments += itertools.pairwise(chain)
    rows: list[list[int]] = [[] for _ in range(max(depth, default=-1) + 1)]
    for i, d in enumerate(depth):
        rows[d].append(i)
    up, down = _adjacent(len(points), segments)
    _order(rows, up, down)
    x = _align(rows, points, up, down, GAP_X)
    y = [0.0] * len(points)
    top = 0.0
    for row in rows:
        tall = max(points[i].height for i in row)
        for i in row:
            y[i] = top + tall / 2
        top += tall + gap_y
    left = min((x[i] - points[i].width / 2 for i in range(len(points))), default=0.0)
    x = [value - left for value in x]
    n = len(boxes)
    return Layout(
        tuple(x[:n]),
        tuple(y[:n]),
        {link: tuple((x[i], y[i]) for i in chain) for link, chain in chains.items()},
        max((x[i] + points[i].width / 2 for i in range(len(points))), default=0.0),
        max(top - gap_y, 0.0),
    )


def _levels(n: int, links: list[tuple[int, int]]) -> list[int]:
    """Level of each box, 0 at the top: length of the longest path to it.

    Arrows never connect boxes of one level.
    """
    level = [0] * n
    for a, b in links:  # sorted by a; all arrows into a come from lower indices, so level[a] is final
        level[b] = max(level[b], level[a] + 1)
    return level


def _adjacent(n: int, segments: list[tuple[int, int]]) -> tuple[list[list[int]], list[list[int]]]:
    up: list[list[int]] = [[] for _ in range(n)]
    down: list[list[int]] = [[] for _ in range(n)]
    for a, b in segments:
        up[b].append(a)
        down[a].append(b)
    return up, down


def _order(rows: list[list[int]], up: list[list[int]], down: list[list[int]]) -> None:
    """Order every row by the mean position of its neighbours, downwards and upwards in turn."""
    place = [0.0] * len(up)
    for row in rows:
        for k, i in enumerate(row):
            place[i] = k
    for sweep in range(SWEEPS):
        near, order = (up, rows) if sweep % 2 == 0 else (down, rows[::-1])
        for row in order:
            row.sort(key=lambda i: (_mean([place[j] for j in near[i]], place[i]), place[i], i))
            for k, i in enumerate(row):
                place[i] = k


def _align(
    rows: list[list[int]], points: list[Box], up: list[list[int]], down: list[list[int]], gap: float
) -> list[float]:
    """Horizontal centre of each box, px: near the mean of its neighbours in the levels above and below,
    without overlap or change of order."""
    x = [0.0] * len(points)
    for row in rows:
        _spread(row, [0.0] * len(row), points, gap, x)
    for sweep in range(2 * SWEEPS):
        near, order = (up, rows) if sweep % 2 == 0 else (down, rows[::-1])
        for row in order:
            _spread(row, [_mean([x[j] for j in near[i]], x[i]) for i in row], points, gap, x)
    return x


def _spread(row: list[int], wish: list[float], points: list[Box], gap: float, x: list[float]) -> None:
    """Set the centres of a row near `wish` without overlap: the mean of packing from the left and from the
    right.
    """
    apart = [(points[a].width + points[b].width) / 2 + gap for a, b in itertools.pairwise(row)]
    left, right = wish[:], wish[:]
    for k in range(1, len(row)):
        left[k] = max(left[k], left[k - 1] + apart[k - 1])
    for k in range(len(row) - 2, -1, -1):
        right[k] = min(right[k], right[k + 1] - apart[k])
    for k, i in enumerate(row):
        x[i] = (left[k] + right[k]) / 2


def _mean(values: list[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
