"""A browsed period on a terminal of 80 columns and more."""

from __future__ import annotations

from typing import Final

from rich.console import Console
from rich.text import Text

from analyze.report import measures, wording
from analyze.report.drawing.name_table import print_name_table
from analyze.report.sections.browse import browse_words as words
from schemas.report.browse import (
    BrowsePlacesSection,
    BrowseRangesSection,
    BrowseTimelineSection,
    BrowseVarianceSection,
)
from schemas.report.schedules import BrowseSchedulesSection

ROWS: Final = 6
ID_CHARS: Final = 40


def print_ranges(section: BrowseRangesSection, console: Console) -> None:
    """Modes and the slow end: how many, what most of them are, what makes them so."""
    if not section.ranges:
        return
    console.print()
    _say(console, "Response times", style="bold")
    for number, one in enumerate(section.ranges, 1):
        name = f"{words.range_name(number, one)} ({words.span(one, section)})"
        _say(console, f"{name}: {words.range_told(one)}")
        if one.roots and len(section.roots) > 1:
            row = one.roots[0]
            name = section.roots[row.place].root
        else:
            row = one.categories[0]
            name = wording.short(section.categories[row.place].category)
        told = f"{wording.percent(row.share_in)}, lift {words.lift(row.lift)}"
        _say(console, f"   most are {name}: {told}", style="dim")
        if one.sites and one.mean_out_us is not None:
            place = one.sites[0]
            moved = wording.change(place.mean_in_us - place.mean_out_us)
            _say(
                console,
                f"   {section.sites[place.place].label}: {moved} a request against the others",
                style="dim",
            )


def print_schedules(section: BrowseSchedulesSection, console: Console) -> None:
    """Typical requests by id, and where they wait."""
    if not section.requests:
        return
    console.print()
    _say(console, "Typical requests (flowdiff flow ID draws one)", style="bold")
    for one in section.requests[:ROWS]:
        lanes = sorted(one.medoid.lanes, key=lambda lane: -lane.waited_us)[:3]
        told = ", ".join(f"{lane.component} {wording.duration(lane.waited_us)}" for lane in lanes)
        identifier = wording.clip(one.medoid.request_id or "", ID_CHARS)
        _say(console, f"{identifier}  {one.root}: {words.typical_told(one)}")
        _say(console, f"   {wording.duration(one.medoid.response_us)}: {told}", style="dim")


def print_timeline(section: BrowseTimelineSection, console: Console) -> None:
    """Entries, a sentence each."""
    for entry in section.entries:
        console.print()
        _say(console, f"At {entry.component}", style="bold")
        _say(console, words.entry_told(entry))
        if before := words.before_told(entry):
            _say(console, before)
    if section.sampled:
        _say(console, "Requests were sampled: gaps and requests at work are of those kept.", style="dim")


def print_places(section: BrowsePlacesSection, console: Console) -> None:
    """Sites, hosts, errors."""
    console.print()
    print_name_table(
        console,
        "Places, by time",
        ("time", "mean", "C²", "requests", "failed"),
        [
            (
                row.label,
                wording.percent(row.share_of_time),
                wording.duration(row.mean_us),
                words.c2(row.c2),
                wording.count(row.requests),
                wording.count(row.failed) if row.failed else "",
            )
            for row in section.sites[:ROWS]
        ],
    )
    _rest(console, section.sites_total, "place")
    if section.hosts:
        console.print()
        print_name_table(
            console,
            "Hosts",
            ("time", "a request", "requests", "failed"),
            [
                (
                    row.host,
                    wording.percent(row.share_of_time),
                    wording.duration(row.per_request_us),
                    wording.count(row.requests),
                    wording.count(row.failed) if row.failed else "",
                )
                for row in section.hosts[:ROWS]
            ],
        )
        _rest(console, section.hosts_total, "host")
    if section.errors:
        console.print()
        print_name_table(
            console,
            "Errors",
            ("class", "requests", "share", "answered ok"),
            [
                (
                    row.site,
                    wording.clip(row.error, 20),
                    wording.count(row.requests),
                    wording.percent(row.share),
                    wording.percent(row.answered_ok),
                )
                for row in section.errors[:ROWS]
            ],
        )
        _rest(console, section.errors_total, "error")


def print_variance_curves(section: BrowseVarianceSection, console: Console) -> None:
    """A sentence a sample."""
    console.print()
    for curve in section.curves:
        name = f"{curve.sample.capitalize()}: " if len(section.curves) > 1 else ""
        _say(console, f"{name}{measures.c2_sentence(curve)}")


def _say(console: Console, text: str, style: str = "") -> None:
    console.print(Text(wording.visible(text), style=style))


def _rest(console: Console, total: int, word: str) -> None:
    if total > ROWS:
        _say(console, f"{ROWS} of {wording.counted(total, word)}.", style="dim")
