"""Register VarianceFinder, `flowdiff variance`."""

from __future__ import annotations

from typing import Final

from analyze.methods.port import Method, Result, SampleCount
from analyze.methods.variance.sections import VARIANCE, VARIANCE_CHANGE, VARIANCE_DETAILS
from analyze.methods.variance.settings import VarianceSettings
from analyze.population import Population
from analyze.report.limits import ReportLimits


def analyse(
    population: Population, _history: Population | None, settings: VarianceSettings, limits: ReportLimits
) -> Result:
    """Where response times vary, and why; of two samples also what became more variable.

    Raises ConfigError where the markers cannot be read, or a category that was asked for is not there.
    """
    # Here, so that the command line has the options without numpy and scipy.
    from analyze.methods.variance.markers import read_markers
    from analyze.methods.variance.run import variance_result

    markers = () if settings.markers is None else read_markers(settings.markers)
    return variance_result(population, markers, settings, limits)


METHOD: Final = Method(
    name="variance",
    title="VarianceFinder",
    settings=VarianceSettings,
    samples=SampleCount(1, 2),
    analyse=analyse,
    sections=(VARIANCE_CHANGE, VARIANCE, VARIANCE_DETAILS),
    kinds=("variance",),
)
"""Found by the registry."""
