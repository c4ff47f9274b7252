"""Distances between groups as SVG: a square a pair, the darker the nearer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from analyze.report import wording

CELL: Final = 20
MARGIN: Final = 26
SHADES: Final = 5
"""Shades by rank of the distance; 0 is the farthest fifth."""


def draw_distances(names: Sequence[str], apart: Sequence[Sequence[float]], title: str) -> Markup:
    """names: [n] short; apart: [n][n] symmetric, 0 on the diagonal. Nothing for fewer than two."""
    n = len(names)
    if n < 2:
        return Markup("")
    size = MARGIN + n * CELL + 4
    far = sorted(apart[i][j] for i in range(n) for j in range(i))
    bounds = [far[len(far) * part // SHADES] for part in range(1, SHADES)]
    parts = [
        Markup(
            '<svg class="plot apart" role="img" viewBox="0 0 {s} {s}" width="{s}" height="{s}">'
            "<title>{t}</title>"
        ).format(s=size, t=wording.visible(title))
    ]
    for i, name in enumerate(names):
        middle = MARGIN + i * CELL + CELL / 2
        parts.append(
            Markup(
                '<text class="tick" x="{m}" y="{y}">{n}</text>'
                '<text class="tick left" x="{x}" y="{z}">{n}</text>'
            ).format(m=middle, y=MARGIN - 8, x=MARGIN - 6, z=middle + 4, n=name)
        )
    for i in range(n):
        for j in range(n):
            shade = "own" if i == j else f"h{SHADES - 1 - sum(apart[i][j] > bound for bound in bounds)}"
            parts.append(
                Markup(
                    '<rect class="{c}" x="{x}" y="{y}" width="{w}" height="{w}"><title>{t}</title></rect>'
                ).format(
                    c=shade,
                    x=MARGIN + j * CELL,
                    y=MARGIN + i * CELL,
                    w=CELL - 1,
                    t=f"{names[i]} and {names[j]}: {wording.significant(apart[i][j])}",
                )
            )
    return Markup("").join([*parts, Markup("</svg>")])
