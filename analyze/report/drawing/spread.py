"""Two distributions of one variable as SVG: the first class filled, the second as an outline."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from markupsafe import Markup

WIDTH, HEIGHT = 260, 76
SIDE, TOP, BOTTOM = 8, 6, 18
_LEAST: Final = 1e-300


def draw_spread(
    edges: Sequence[float],
    counts: tuple[Sequence[int], Sequence[int]],
    *,
    log: bool,
    title: str,
    worded: Callable[[float], str],
) -> Markup:
    """Each class scaled to its own size. edges: [bins + 1] ascending, > 0 where `log`."""
    shares = [[c / max(sum(of), 1) for c in of] for of in counts]
    tallest = max((share for of in shares for share in of), default=0.0) or 1.0
    low, high = edges[0], edges[-1]

    def x(value: float) -> float:
        if log:
            part = math.log(max(value, _LEAST) / low) / math.log(high / low)
        else:
            part = (value - low) / (high - low)
        return SIDE + (WIDTH - 2 * SIDE) * min(1.0, max(0.0, part))

    floor = HEIGHT - BOTTOM
    parts = [
        Markup(
            '<svg class="spread" role="img" viewBox="0 0 {w} {h}" width="{w}" height="{h}"><title>{t}</title>'
        ).format(w=WIDTH, h=HEIGHT, t=title)
    ]
    for name, of in (("before", shares[0]), ("after", shares[1])):
        if not any(of):
            continue
        path = f"M{x(low):.1f} {floor}"
        for share, right in zip(of, edges[1:], strict=True):
            path += f"V{floor - (floor - TOP) * share / tallest:.1f}H{x(right):.1f}"
        parts.append(Markup('<path class="{n}" d="{d}V{f}Z"/>').format(n=name, d=path, f=floor))
    parts.append(
        Markup(
            '<line class="axis" x1="{a}" x2="{b}" y1="{y}" y2="{y}"/>'
            '<text class="tick first" x="{a}" y="{t}">{low}</text>'
            '<text class="tick last" x="{b}" y="{t}">{high}</text></svg>'
        ).format(a=SIDE, b=WIDTH - SIDE, y=floor, t=HEIGHT - 5, low=worded(low), high=worded(high))
    )
    return Markup("").join(parts)
