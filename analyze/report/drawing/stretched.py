"""A drawing that is as wide as the page: lines and areas are stretched, texts and line widths are not.

Inside lies a second drawing of WIDE units across whatever the width; texts stand in percent beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from markupsafe import Markup

WIDE: Final = 1000.0


def px(value: float) -> str:
    """A coordinate with as many digits as can be seen."""
    return f"{value:.1f}".removesuffix(".0")


@dataclass(slots=True)
class Stretched:
    """What is drawn; x is a share of the width from 0 to 1, y are pixels from the top."""

    height: int
    kind: str
    """CSS class."""
    title: str
    """What a screen reader says; fit to be shown."""
    _below: list[Markup] = field(default_factory=list)
    _inside: list[Markup] = field(default_factory=list)
    _beside: list[Markup] = field(default_factory=list)

    def path(self, kind: str, d: str) -> None:
        """A path by its commands, x from 0 to WIDE."""
        if d:
            self._inside.append(Markup('<path class="{k}" d="{d}"/>').format(k=kind, d=d))

    def text(self, kind: str, x: float, y: float, text: str, link: str = "") -> None:
        """A text at a share of the width; with `link` one to an id of the page."""
        one = Markup('<text class="{k}" x="{x}%" y="{y}">{t}</text>').format(
            k=kind, x=px(100 * x), y=px(y), t=text
        )
        self._beside.append(Markup('<a href="#{h}">{t}</a>').format(h=link, t=one) if link else one)

    def line(self, kind: str, x0: float, y0: float, x1: float, y1: float, *, below: bool = False) -> None:
        """A straight line between two places, over or below areas."""
        (self._below if below else self._beside).append(
            Markup('<line class="{k}" x1="{a}%" y1="{b}" x2="{c}%" y2="{d}"/>').format(
                k=kind, a=px(100 * x0), b=px(y0), c=px(100 * x1), d=px(y1)
            )
        )

    def box(self, kind: str, x0: float, x1: float, y: float, height: float) -> None:
        """A rectangle from one share of the width to another, below everything else."""
        self._below.append(
            Markup('<rect class="{k}" x="{x}%" width="{w}%" y="{y}" height="{h}"/>').format(
                k=kind, x=px(100 * x0), w=px(100 * max(x1 - x0, 0.0)), y=px(y), h=px(height)
            )
        )

    def svg(self) -> Markup:
        """The drawing."""
        return Markup(
            '<svg class="stretched {k}" role="img" width="100%" height="{h}"><title>{t}</title>{below}'
            '<svg class="wide" viewBox="0 0 {w} {h}" width="100%" height="{h}" preserveAspectRatio="none">'
            "{inside}</svg>{beside}</svg>"
        ).format(
            k=self.kind,
            h=self.height,
            t=self.title,
            w=f"{WIDE:.0f}",
            below=Markup("").join(self._below),
            inside=Markup("").join(self._inside),
            beside=Markup("").join(self._beside),
        )


@dataclass(frozen=True, slots=True)
class Tick:
    """A value on an axis."""

    at: float
    """Share of the width."""
    text: str


def draw_ticks(drawing: Stretched, ticks: Sequence[Tick], top: float, floor: float) -> None:
    """Lines and texts below; on narrow screens every second text is left out (CSS class `odd`)."""
    for number, tick in enumerate(ticks):
        drawing.line("grid", tick.at, top, tick.at, floor, below=True)
        end = " first" if tick.at < 0.03 else " last" if tick.at > 0.97 else ""
        drawing.text(f"tick{' odd' if number % 2 else ''}{end}", tick.at, floor + 15, tick.text)


def steps_path(heights: Iterable[float | None], count: int, floor: float, room: float) -> str:
    """Area of a step curve of values from 0 to 1, `count` of the same width; None is a hole."""
    width = WIDE / max(count, 1)
    parts = []
    is_open = False
    for number, value in enumerate(heights):
        if value is None:
            parts.append(f"V{px(floor)}" if is_open else "")
            is_open = False
            continue
        if not is_open:
            parts.append(f"M{px(number * width)} {px(floor)}")
        parts.append(f"V{px(floor - room * value)}H{px((number + 1) * width)}")
        is_open = True
    return "".join(parts) + (f"V{px(floor)}" if is_open else "")


def points_path(points: Iterable[tuple[float, float]]) -> str:
    """A line through points: (share of the width, y)."""
    return "".join(
        f"{'M' if number == 0 else 'L'}{px(WIDE * x)} {px(y)}" for number, (x, y) in enumerate(points)
    )
