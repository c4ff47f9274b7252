"""Time spans that pages show, ending with the lake's last window."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from markupsafe import Markup

from flowdiff.serve.lake_state import Known
from flowdiff.serve.shell import Shell
from schemas.periods import format_instant
from schemas.windows import NS_PER_DAY

SPANS: Final = {
    "1h": NS_PER_DAY // 24,
    "6h": NS_PER_DAY // 4,
    "1d": NS_PER_DAY,
    "1w": 7 * NS_PER_DAY,
    "4w": 28 * NS_PER_DAY,
}
SPAN_NAMES: Final = {"1h": "hour", "6h": "six hours", "1d": "day", "1w": "week", "4w": "four weeks"}
LEAST_WINDOWS: Final = 12
"""Minimum number of windows in a time span for it to be the default."""


def default_span(known: Known) -> str:
    """Name of the default time span: the shortest one that covers the whole lake, or is at least a day long
    and has LEAST_WINDOWS windows."""
    first_ns, end_ns = known.bounds_ns
    starts = [entry.window.start_ns for entry in known.windows[-LEAST_WINDOWS:]]
    for span, length_ns in SPANS.items():
        is_enough = length_ns >= NS_PER_DAY and starts[0] >= end_ns - length_ns
        if first_ns >= end_ns - length_ns or is_enough:
            return span
    return [*SPANS][-1]


def shown_time(known: Known, span: str) -> tuple[int, int]:
    """(Start, end) of a time span that ends with the lake's last window, ns since the epoch; at least one
    window long.
    """
    end_ns = known.bounds_ns[1]
    return end_ns - max(SPANS[span], known.windows[-1].window.length_ns), end_ns


def span_choice(
    shell: Shell, chosen: str, start_ns: int, end_ns: int, address: Callable[[str], str]
) -> Markup:
    """HTML with the time shown, and a link to the same page for every time span, the chosen one marked.

    address: function time span -> address of the page.
    """
    return shell.rendered(
        "choice.html.jinja",
        label="Length of time",
        choices=[(name, address(span), span == chosen) for span, name in SPAN_NAMES.items()],
        note=f"{format_instant(start_ns)} to {format_instant(end_ns)}",
    )
