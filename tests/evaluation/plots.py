"""Line plots as SVG text, for the sweeps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 560, 300
LEFT, RIGHT, TOP, BOTTOM = 56, 170, 34, 48
COLOURS = ("#1b6ca8", "#c2571a", "#3a7d44")
DASHES = ("", ' stroke-dasharray="6 3"', ' stroke-dasharray="2 3"')
"""Series come in groups of as many as there are colours; each group has a dash of its own."""
TICKS = (0, 25, 50, 75, 100)


def line_plot(
    title: str, x_title: str, y_title: str, series: Mapping[str, Sequence[tuple[float, float]]]
) -> str:
    """Series of (x > 0, y in 0…100) over a logarithmic x axis with a tick at every x there is.

    Raises ValueError without a point.
    """
    xs = sorted({x for points in series.values() for x, _ in points})
    if not xs:
        raise ValueError(f"nothing to plot in {title!r}")
    low, high = math.log(xs[0]), math.log(xs[-1])
    span = (high - low) or 1.0

    def at(x: float, y: float) -> tuple[float, float]:
        across = (math.log(x) - low) / span if high > low else 0.5
        return (
            LEFT + across * (WIDTH - LEFT - RIGHT),
            HEIGHT - BOTTOM - y / 100.0 * (HEIGHT - TOP - BOTTOM),
        )

    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="11" fill="#333">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{LEFT}" y="18" font-size="13" font-weight="600">{escape(title)}</text>',
    ]
    for tick in TICKS:
        _, y = at(xs[0], tick)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{right}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{tick}</text>')
    for x in xs:
        across, _ = at(x, 0)
        parts.append(f'<path d="M{across:.1f} {bottom}v4" stroke="#999"/>')
        parts.append(f'<text x="{across:.1f}" y="{bottom + 17}" text-anchor="middle">{x:,.0f}</text>')
    middle = (LEFT + right) / 2
    parts.append(f'<text x="{middle:.0f}" y="{HEIGHT - 10}" text-anchor="middle">{escape(x_title)}</text>')
    parts.append(f'<text x="10" y="{TOP - 4}">{escape(y_title)}</text>')
    for number, (name, points) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        dash = DASHES[number // len(COLOURS) % len(DASHES)]
        places = [at(x, min(100.0, max(0.0, y))) for x, y in sorted(points)]
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        parts.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
        line = TOP + 12 + number * 18
        parts.append(
            f'<path d="M{right + 10} {line - 4}h18" stroke="{colour}" stroke-width="2"{dash}/>'
            f'<text x="{right + 33}" y="{line}">{escape(name)}</text>'
        )
    return "\n".join([*parts, "</svg>\n"])
