"""Register the clustering Spectroscope, `flowdiff clusters`."""

from __future__ import annotations

from typing import Final

from analyze.methods.clusters.sections import CLUSTERS
from analyze.methods.clusters.settings import ClustersSettings
from analyze.methods.port import Method, Result, SampleCount
from analyze.population import Population
from analyze.report.limits import ReportLimits


def analyse(
    population: Population, _history: Population | None, settings: ClustersSettings, limits: ReportLimits
) -> Result:
    """Groups of requests; of two samples also how groups and samples differ. No history is looked at."""
    # Here, so that the command line has the options without numpy, scipy and scikit-learn.
    from analyze.methods.clusters.run import clusters_result

    return clusters_result(population, settings, limits)


METHOD: Final = Method(
    name="clusters",
    title="What groups requests fall into",
    settings=ClustersSettings,
    samples=SampleCount(1, 2),
    analyse=analyse,
    sections=(CLUSTERS,),
    kinds=("clusters",),
)
"""Found by the registry."""
