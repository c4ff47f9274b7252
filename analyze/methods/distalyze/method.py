"""Register DISTALYZER: what diverges between two classes of instances, and what response time depends on."""

from __future__ import annotations

from typing import Final

from analyze.methods.distalyze.sections import DISTALYZE
from analyze.methods.distalyze.settings import DistalyzeSettings
from analyze.methods.port import Method, Result, SampleCount
from analyze.population import Population
from analyze.report.limits import ReportLimits


def analyse(
    population: Population, _history: Population | None, settings: DistalyzeSettings, limits: ReportLimits
) -> Result:
    """Slow against fast in one sample, or the second sample against the first. No history is looked at."""
    # Here, so that the command line has the options without numpy and scipy.
    from analyze.methods.distalyze.run import distalyze_result

    return distalyze_result(population, settings, limits)


METHOD: Final = Method(
    name="distalyze",
    title="What diverges, and what depends on it",
    settings=DistalyzeSettings,
    samples=SampleCount(1, 2),
    analyse=analyse,
    sections=(DISTALYZE,),
    kinds=("divergence",),
)
"""Found by the registry."""
