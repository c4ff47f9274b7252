"""Method "browse", `flowdiff browse`: describe a period in sections to explore."""

from __future__ import annotations

from typing import Final

from analyze.methods.browse.browse_run import browse_run
from analyze.methods.browse.places import places_of
from analyze.methods.browse.ranges import ranges_section
from analyze.methods.browse.rows import browse_tables, c2_section
from analyze.methods.browse.schedules import schedules_section
from analyze.methods.browse.sections import (
    PLACES,
    RANGES,
    SCHEDULES,
    TIMELINE,
    VARIANCE_CURVES,
)
from analyze.methods.browse.settings import BrowseSettings
from analyze.methods.browse.timeline import timeline_section
from analyze.methods.port import Method, Result, SampleCount
from analyze.profile.samples import ComparedSamples
from analyze.report import wording
from analyze.report.limits import ReportLimits
from schemas.report.browse import (
    BrowsePlacesSection,
    BrowseRangesSection,
)
from schemas.report.report import Verdict

_NAMED: Final = 3
"""Maximum number of modes named in the sentence at the head of the report."""


def analyse(
    compared: ComparedSamples,
    _history: ComparedSamples | None,
    settings: BrowseSettings,
    limits: ReportLimits,
) -> Result:
    """Describe a period: response times, typical requests, load over time, call sites and hosts.

    Of two samples the second is described, with the curves of the first for comparison. The history is not
    used.
    """
    population = compared.population
    run = browse_run(population, settings)
    shown = ranges_section(run, limits)
    timeline = timeline_section(population, run.sample, settings)
    places, tables = places_of(run)
    return Result(
        settings=settings,
        verdict=_verdict(shown, places),
        sections=(
            shown,
            schedules_section(run),
            timeline,
            places,
            c2_section(run),
        ),
        tables=tables | browse_tables(run, timeline),
    )


def _verdict(ranges: BrowseRangesSection, places: BrowsePlacesSection) -> Verdict:
    if not ranges.ranges:
        return Verdict(outcome="empty", text="No request.")
    parts = []
    if places.sites:
        top = places.sites[0]
        parts.append(f"Most time is spent at {top.label} ({wording.percent(top.share_of_time)}).")
    peaks = [one for one in ranges.ranges if one.peak_us is not None]
    if not peaks:
        text = f"All requests take {wording.duration(ranges.ranges[0].mean_us)}."
    elif len(peaks) == 1:
        text = f"Response times have one peak, at {wording.duration(peaks[0].peak_us)}."
    else:
        largest = sorted(peaks, key=lambda one: -one.share)[:_NAMED]
        listed = ", ".join(
            f"{wording.duration(one.peak_us)} ({wording.percent(one.share)})" for one in largest
        )
        which = "" if len(largest) == len(peaks) else ", the largest"
        text = f"Response times have {len(peaks)} peaks{which} at {listed}."
    parts.append(text)
    if places.failed_inside > 0:
        parts.append(f"Something fails in {wording.percent(places.failed_inside)} of the requests.")
    return Verdict(outcome="shown", text=" ".join(parts))


METHOD: Final = Method(
    name="browse",
    title="Browsing",
    settings=BrowseSettings,
    samples=SampleCount(1, 2),
    analyse=analyse,
    sections=(RANGES, SCHEDULES, TIMELINE, PLACES, VARIANCE_CURVES),
)
"""Browse method as an entry of the registry of methods."""
