"""Register browsing, `flowdiff browse`."""

from __future__ import annotations

from typing import Final

from analyze.methods.browse.sections import PLACES, RANGES, SCHEDULES, TIMELINE, VARIANCE_CURVES
from analyze.methods.browse.settings import BrowseSettings
from analyze.methods.port import Method, Result, SampleCount
from analyze.population import Population
from analyze.report.limits import ReportLimits


def analyse(
    population: Population, _history: Population | None, settings: BrowseSettings, limits: ReportLimits
) -> Result:
    """What a period looks like: response times, typical requests, time, places. Of two samples the second,
    with the first's curves beside it."""
    # Here, so that the command line has the options without numpy and scipy.
    from analyze.methods.browse.run import browse_result

    return browse_result(population, settings, limits)


METHOD: Final = Method(
    name="browse",
    title="Browsing",
    settings=BrowseSettings,
    samples=SampleCount(1, 2),
    analyse=analyse,
    sections=(RANGES, SCHEDULES, TIMELINE, PLACES, VARIANCE_CURVES),
)
"""Found by the registry."""
