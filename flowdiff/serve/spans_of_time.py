"""Spans of time that pages show, which end with the lake's last window."""

from __future__ import annotations

from typing import Final

from flowdiff.serve.lake_state import Known
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
"""Windows from which a span is worth to be drawn without being chosen."""


def default_span(known: Known) -> str:
    """Day, or the first longer span that has `LEAST_WINDOWS` windows; the longest if none has."""
    end_ns = known.bounds_ns[1]
    starts = [entry.window.start_ns for entry in known.windows[-LEAST_WINDOWS:]]
    spans = ("1d", "1w", "4w")
    return next((span for span in spans if starts[0] >= end_ns - SPANS[span]), spans[-1])


def shown_time(known: Known, span: str) -> tuple[int, int]:
    """Start and end of a span, one window at least."""
    end_ns = known.bounds_ns[1]
    return end_ns - max(SPANS[span], known.windows[-1].window.length_ns), end_ns
