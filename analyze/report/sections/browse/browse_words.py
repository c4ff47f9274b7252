"""A browsed period in words: one place for terminal and page."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from analyze.report import wording
from schemas.report.browse import BrowseRangesSection, EntryTimeline, ResponseRange, TimelineStrip
from schemas.report.schedules import TypicalRequest

ALPHA: Final = 0.01

STRIP: Final = {
    "usual": "A usual stretch",
    "busiest": "The most requests at work",
    "longest-gap": "The longest time without any",
}


def c2(value: float | None) -> str:
    """`2.3`; `–` for too few requests."""
    return "–" if value is None else wording.significant(value, 2)


def lift(value: float | None) -> str:
    """`×4.2`; `only here` where it is nowhere else."""
    return "only here" if value is None else wording.factor(value)


def span(one: ResponseRange, section: BrowseRangesSection) -> str:
    """`1.2 ms to 4 ms`, `from 4 ms`, `all`."""
    low, high = wording.duration(one.low_us), wording.duration(one.high_us)
    starts, ends = one.first == 0, one.past == len(section.n)
    if starts and ends:
        return "all"
    if starts:
        return f"below {high}"
    return f"from {low}" if ends else f"{low} to {high}"


def range_name(number: int, one: ResponseRange) -> str:
    """`Mode 2, around 3.4 ms`; `Slowest`."""
    if one.peak_us is None:
        return "Slowest"
    return f"Mode {number}, around {wording.duration(one.peak_us)}"


def range_mark(number: int, one: ResponseRange) -> str:
    """What stands over the curve."""
    return str(number) if one.peak_us is not None else "slow"


def range_told(one: ResponseRange) -> str:
    """`45 % of the requests (9 510), 3.1 ms on average; 0.4 % failed (elsewhere 0.1 %)`."""
    failed = ""
    if one.failed > 0 or one.failed_out:
        elsewhere = "" if one.failed_out is None else f" (elsewhere {wording.percent(one.failed_out)})"
        failed = f"; {wording.percent(one.failed)} failed{elsewhere}"
    return (
        f"{wording.percent(one.share)} of the requests ({wording.count(one.n)}), "
        f"{wording.duration(one.mean_us)} on average{failed}"
    )


def density_told(section: BrowseRangesSection) -> str:
    """How the curve was made."""
    rule = {
        "isj": "improved Sheather–Jones",
        "silverman": "rule of thumb",
        "resolution": "the step of the recorded times",
    }
    shown = section.curves[-1]
    return (
        f"Density of {wording.counted(shown.requests, 'response time')} on a log scale, bandwidth "
        f"{wording.significant(shown.bandwidth, 2)} octaves ({rule[shown.rule]})"
    )


def entry_told(entry: EntryTimeline) -> str:
    """`12.3 a second, 0.8 at work on average and 14 at most, none in 43 % of the time …`."""
    text = (
        f"{wording.counted(entry.requests, 'request')}, {wording.significant(entry.rate_per_s)} a second; "
        f"{wording.significant(entry.in_flight)} at work on average, {wording.count(entry.most_in_flight)} "
        f"at most; none in {wording.percent(1 - entry.busy)} of the time"
    )
    if entry.gap_us is None:
        return f"{text}."
    median, p99, longest = (wording.duration(us) for us in entry.gap_us)
    return (
        f"{text}: {wording.counted(entry.gaps, 'gap')} of {median} in the median, {p99} at the 99th "
        f"percentile, {longest} at most."
    )


def before_told(entry: EntryTimeline) -> str:
    """`Reference: 4.1 a second, …; gaps differ by test (p = 0.001), response times do not (p = 0.4).`"""
    before = entry.before
    if before is None:
        return ""
    gaps = "" if before.gap_us is None else f", gaps of {wording.duration(before.gap_us[0])} in the median"
    text = (
        f"{before.sample.capitalize()}: {wording.significant(before.rate_per_s)} a second, "
        f"{wording.significant(before.in_flight)} at work on average, "
        f"none in {wording.percent(1 - before.busy)} of the time{gaps}"
    )
    tested = [
        f"{name} {'differ' if p < ALPHA else 'do not differ'} by test (p = {wording.p_value(p)})"
        for name, p in (("times between requests", before.gaps_p), ("response times", before.times_p))
        if p is not None
    ]
    return f"{text}; {', '.join(tested)}." if tested else f"{text}."


def strip_told(strip: TimelineStrip) -> str:
    """What a strip shows."""
    left = "" if not strip.left_out else f", {wording.count(strip.left_out)} more not drawn"
    return (
        f"{STRIP[strip.kind]}: {wording.duration(strip.length_us)} from {clock(strip.start_ns)}, "
        f"{wording.counted(len(strip.requests), 'request')}{left}"
    )


def typical_told(one: TypicalRequest) -> str:
    """`31 % of the time, 4 120 requests, 12 ms on average`."""
    leads = f"; stands for {', '.join(one.leads)}" if one.leads else ""
    return (
        f"{wording.percent(one.share_of_time)} of all time, {wording.counted(one.requests, 'request')}, "
        f"{wording.duration(one.mean_us)} on average{leads}"
    )


def clock(ns: int) -> str:
    """`2026-11-19 09:05:12.345Z`."""
    when = datetime.fromtimestamp(ns // 10**9, UTC)
    return f"{when:%Y-%m-%d %H:%M:%S}.{ns % 10**9 // 10**6:03d}Z"
