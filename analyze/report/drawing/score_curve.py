"""The choice of a number as SVG: a score for each, its standard error, and the one that was taken."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from analyze.report import wording

WIDTH, HEIGHT = 430, 190
LEFT, RIGHT, TOP, BOTTOM = 42, 16, 12, 38
_LEVELS: Final = 4
_LEAST_SPAN: Final = 0.05


@dataclass(frozen=True, slots=True)
class CurveDot:
    """One number that was tried."""

    k: int
    score: float
    se: float


def draw_score_curve(dots: Sequence[CurveDot], chosen: int, axis: str, title: str) -> Markup:
    """Scores over k on a log axis, ascending; nothing for fewer than two."""
    if len(dots) < 2:
        return Markup("")
    low = min(dot.score - dot.se for dot in dots)
    high = max(max(dot.score + dot.se for dot in dots), low + _LEAST_SPAN)
    first, last = math.log(dots[0].k), math.log(dots[-1].k)
    floor = HEIGHT - BOTTOM

    def x(k: float) -> float:
        return LEFT + 10 + (WIDTH - LEFT - RIGHT - 20) * (math.log(k) - first) / (last - first)

    def y(score: float) -> float:
        return floor - (floor - TOP) * (score - low) / (high - low)

    parts = [
        Markup(
            '<svg class="plot scores" role="img" viewBox="0 0 {w} {h}" width="{w}" height="{h}">'
            "<title>{t}</title>"
        ).format(w=WIDTH, h=HEIGHT, t=wording.visible(title))
    ]
    for level in range(_LEVELS + 1):
        score = low + (high - low) * level / _LEVELS
        parts.append(
            Markup(
                '<line class="grid" x1="{a}" x2="{b}" y1="{y}" y2="{y}"/>'
                '<text class="tick level" x="{t}" y="{u}">{s}</text>'
            ).format(
                a=LEFT, b=WIDTH - RIGHT, y=_px(y(score)), t=LEFT - 6, u=_px(y(score) + 4), s=f"{score:.2f}"
            )
        )
    path = "M" + "L".join(f"{_px(x(dot.k))} {_px(y(dot.score))}" for dot in dots)
    parts.append(Markup('<path class="score" d="{d}"/>').format(d=path))
    for dot in dots:
        here = " taken" if dot.k == chosen else ""
        parts.append(
            Markup(
                '<g class="dot{c}"><title>{k}: {s} ± {e}</title>'
                '<line x1="{x}" x2="{x}" y1="{a}" y2="{b}"/><circle cx="{x}" cy="{y}" r="{r}"/></g>'
                '<text class="tick{c}" x="{x}" y="{t}">{k}</text>'
            ).format(
                c=here,
                k=dot.k,
                s=f"{dot.score:.3f}",
                e=f"{dot.se:.3f}",
                x=_px(x(dot.k)),
                a=_px(y(dot.score - dot.se)),
                b=_px(y(dot.score + dot.se)),
                y=_px(y(dot.score)),
                r=6 if here else 3,
                t=floor + 15,
            )
        )
    parts.append(
        Markup('<text class="tick" x="{x}" y="{y}">{t}</text></svg>').format(
            x=(LEFT + WIDTH - RIGHT) / 2, y=HEIGHT - 5, t=axis
        )
    )
    return Markup("").join(parts)


def _px(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".")
