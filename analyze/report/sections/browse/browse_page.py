"""A browsed period on the page: densities and ranges, typical requests, time, places.

The page is complete without its script; with it any range can be chosen, and tables can be sorted.
"""

from __future__ import annotations

from importlib import resources
from typing import Final

from markupsafe import Markup

from analyze.report import measures
from analyze.report.drawing.by_time import Block, Series, draw_by_time, draw_lanes
from analyze.report.drawing.cumulative import Curve, draw_cumulative
from analyze.report.drawing.density_curves import DrawnDensity, Mark, draw_density
from analyze.report.drawing.stretched import Stretched, steps_path
from analyze.report.drawing.train import draw_train
from analyze.report.page_templates import template
from analyze.report.section_view import SectionView
from analyze.report.sections.browse import browse_terminal
from analyze.report.sections.browse import browse_words as words
from analyze.report.wording import duration, significant
from schemas.report.browse import (
    BrowsePlacesSection,
    BrowseRangesSection,
    BrowseTimelineSection,
    BrowseVarianceSection,
    EntryTimeline,
    ErrorRow,
    TimelineStrip,
)
from schemas.report.schedules import BrowseSchedulesSection, TrainSchedule

SHOWN: Final = 15
"""Rows of a table that are seen at once."""
OPEN_STRIPS: Final = 2

_PACKAGE: Final = "analyze.report.sections.browse"
_STYLE: Final = resources.files(_PACKAGE).joinpath("browse.css").read_text(encoding="utf-8")
_SCRIPT: Final = resources.files(_PACKAGE).joinpath("browse.js").read_text(encoding="utf-8")


def ranges_html(section: BrowseRangesSection, end: str) -> Markup:
    """Density, ranges, and the tables that any range is told from."""
    kinds = ("after",) if len(section.curves) == 1 else ("before", "after")
    drawn = draw_density(
        f"Response times of {sum(section.n)} requests",
        (section.edges_us[0], section.edges_us[-1]),
        [DrawnDensity(kind, curve.points) for kind, curve in zip(kinds, section.curves, strict=False)],
        [
            Mark(words.range_mark(number, one), one.low_us, one.high_us, one.peak_us, f"range{number}{end}")
            for number, one in enumerate(section.ranges, 1)
        ],
    )
    return Markup(
        template(_PACKAGE, "ranges.html.jinja").render(
            s=section, end=end, words=words, drawn=drawn, shown=SHOWN
        )
    )


def schedules_html(section: BrowseSchedulesSection, end: str) -> Markup:
    """Typical requests as train schedules, components to open."""
    return Markup(
        template(_PACKAGE, "schedules.html.jinja").render(
            s=section, end=end, words=words, train=draw_train, step=_step
        )
    )


def _step(schedule: TrainSchedule, start_us: float, end_us: float) -> tuple[float, float]:
    """Where a step lies on the axis of its schedule, percent: from, and how wide."""
    last = max([schedule.response_us, *(bar.end_us for bar in schedule.bars)]) or 1.0
    left = min(max(100 * start_us / last, 0.0), 100.0)
    return left, min(max(100 * (end_us - start_us) / last, 0.3), 100.0 - min(left, 99.7))


def timeline_html(section: BrowseTimelineSection, end: str) -> Markup:
    """Entries by time, and strips of requests."""
    return Markup(
        template(_PACKAGE, "timeline.html.jinja").render(
            s=section, end=end, words=words, series=_series, strip=_strip, opened=OPEN_STRIPS
        )
    )


def _series(entry: EntryTimeline) -> list[Markup]:
    ends = entry.edges_ns[0], entry.edges_ns[-1]
    seconds = [(b - a) / 1e9 for a, b in zip(entry.edges_ns[:-1], entry.edges_ns[1:], strict=True)]

    def watched(values: list[float]) -> list[float | None]:
        return [value if seen else None for value, seen in zip(values, entry.watched, strict=True)]

    rates = [n / length for n, length in zip(entry.arrivals, seconds, strict=True)]
    failed = [n / length for n, length in zip(entry.failed, seconds, strict=True)]
    arrivals = [Series("area", watched(rates))]
    if any(failed):
        arrivals.append(Series("bad", watched(failed)))
    gaps = [us for us in entry.longest_gap_us if us]
    return [
        draw_by_time("Arrivals a second", f"most {significant(max(rates))}", arrivals, ends, axis=False),
        draw_by_time(
            "At work: most, and on average",
            f"most {max(entry.max_in_flight)}",
            [
                Series("faint", watched([float(n) for n in entry.max_in_flight])),
                Series("area", watched(list(entry.mean_in_flight))),
            ],
            ends,
            axis=False,
        ),
        draw_by_time(
            "Longest time without any at work",
            f"longest {duration(max(gaps))}" if gaps else "none",
            [Series("area", watched(list(entry.longest_gap_us)))],
            ends,
            axis=False,
        ),
        draw_by_time(
            "Response time: 99th percentile, and median",
            f"longest {duration(max((us for us in entry.p99_us if us is not None), default=0.0))}",
            [Series("faint", entry.p99_us), Series("area", entry.median_us)],
            ends,
            axis=True,
        ),
    ]


def _strip(strip: TimelineStrip) -> Markup:
    length = strip.length_us or 1.0
    blocks = [
        Block(one.start_us / length, (one.start_us + one.us) / length, one.lane, one.failed)
        for one in strip.requests
    ]
    past_ns = strip.start_ns + round(strip.length_us * 1e3)
    return draw_lanes(words.strip_told(strip), blocks, strip.lanes, (strip.start_ns, past_ns))


def places_html(section: BrowsePlacesSection, end: str) -> Markup:
    """Errors, hosts, sites."""
    return Markup(
        template(_PACKAGE, "places.html.jinja").render(
            s=section, end=end, words=words, shown=SHOWN, spark=_spark
        )
    )


def _spark(row: ErrorRow) -> Markup:
    """When it failed."""
    drawing = Stretched(18, "spark", "by time")
    highest = max(row.by_time, default=0) or 1
    drawing.path("bad", steps_path([n / highest for n in row.by_time], len(row.by_time), 17, 16))
    return drawing.svg()


def variance_html(section: BrowseVarianceSection, end: str) -> Markup:
    """C² curves."""
    kinds = ("after",) if len(section.curves) == 1 else ("before", "after")
    drawn = draw_cumulative(
        "C² of categories of more than 10 requests, cumulative",
        "C² (log scale); the line is C² = 1",
        [Curve(kind, curve.points) for kind, curve in zip(kinds, section.curves, strict=True)],
        1.0,
    )
    return Markup(
        template(_PACKAGE, "curves.html.jinja").render(
            s=section, end=end, words=words, drawn=drawn, c2_sentence=measures.c2_sentence
        )
    )


RANGES: Final = SectionView(
    BrowseRangesSection, html=ranges_html, text=browse_terminal.print_ranges, style=_STYLE, script=_SCRIPT
)
SCHEDULES: Final = SectionView(
    BrowseSchedulesSection, html=schedules_html, text=browse_terminal.print_schedules, style=_STYLE
)
TIMELINE: Final = SectionView(
    BrowseTimelineSection, html=timeline_html, text=browse_terminal.print_timeline, style=_STYLE
)
PLACES: Final = SectionView(
    BrowsePlacesSection, html=places_html, text=browse_terminal.print_places, style=_STYLE
)
VARIANCE_CURVES: Final = SectionView(
    BrowseVarianceSection, html=variance_html, text=browse_terminal.print_variance_curves, style=_STYLE
)
