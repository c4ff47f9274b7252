"""Browse a period: one sample in, what can be looked at out."""

from __future__ import annotations

from typing import Final

from analyze.methods.browse.browse_tables import browse_tables
from analyze.methods.browse.c2 import c2_section
from analyze.methods.browse.places import SitesAndHosts, places_section
from analyze.methods.browse.ranges import Ranges, ranges_section
from analyze.methods.browse.schedules import schedules_section
from analyze.methods.browse.settings import BrowseSettings
from analyze.methods.browse.timeline import timeline_section
from analyze.methods.port import Result
from analyze.population import Population
from analyze.profile.times import path_times
from analyze.report import wording
from analyze.report.limits import ReportLimits
from analyze.stats.moments import category_moments
from schemas.report.browse import BrowsePlacesSection, BrowseRangesSection
from schemas.report.report import Verdict

_NAMED: Final = 3
"""Modes that the first sentence names."""


def browse_result(population: Population, settings: BrowseSettings, limits: ReportLimits) -> Result:
    """What the last sample looks like; densities and C² curves are of all samples. Judges nothing."""
    times = path_times(population)
    moments = category_moments(population.categories, len(population.samples))
    ranges = Ranges(population, times, settings)
    shown = ranges_section(population, times, moments, ranges, limits)
    timeline = timeline_section(population, ranges.sample, settings)
    places = SitesAndHosts(population, times, ranges)
    last = places_section(population, places)
    return Result(
        settings=settings,
        verdict=_verdict(shown, last),
        sections=(
            shown,
            schedules_section(population, times, moments, ranges, settings),
            timeline,
            last,
            c2_section(population, moments),
        ),
        tables=browse_tables(population, ranges, places, timeline),
    )


def _verdict(ranges: BrowseRangesSection, places: BrowsePlacesSection) -> Verdict:
    if not ranges.ranges:
        return Verdict(outcome="empty", text="No request.")
    peaks = [one for one in ranges.ranges if one.peak_us is not None]
    if not peaks:
        text = f"All requests take {wording.duration(ranges.ranges[0].mean_us)}."
    elif len(peaks) == 1:
        text = f"Response times have one hump, at {wording.duration(peaks[0].peak_us)}."
    else:
        largest = sorted(peaks, key=lambda one: -one.share)[:_NAMED]
        listed = ", ".join(
            f"{wording.duration(one.peak_us)} ({wording.percent(one.share)})" for one in largest
        )
        which = "" if len(largest) == len(peaks) else ", the largest"
        text = f"Response times have {len(peaks)} humps{which} at {listed}."
    if places.sites:
        top = places.sites[0]
        text += f" Most time is spent at {top.label}, {wording.percent(top.share_of_time)}."
    if places.failed_inside > 0:
        text += f" Something fails in {wording.percent(places.failed_inside)} of the requests."
    return Verdict(outcome="shown", text=text)
