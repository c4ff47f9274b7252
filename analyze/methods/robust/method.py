"""Register robust mode, the default of `flowdiff compare`."""

from __future__ import annotations

from typing import Final

from analyze.methods.port import Method, Result, SampleCount
from analyze.methods.robust.sections.breakdown import BREAKDOWN
from analyze.methods.robust.sections.findings import FINDINGS
from analyze.methods.robust.sections.paths import PATHS
from analyze.methods.robust.sections.verdict import VERDICT
from analyze.methods.robust.settings import RobustSettings
from analyze.profile.samples import ComparedSamples
from analyze.report.gate import FINDING_KINDS
from analyze.report.limits import ReportLimits


def analyse(
    compared: ComparedSamples,
    history: ComparedSamples | None,
    settings: RobustSettings,
    limits: ReportLimits,
) -> Result:
    """Compare the second sample with the first; the history shows what is usual."""
    # Here, so that the command line has the options without numpy and scipy.
    from analyze.methods.robust.robust_result import robust_result

    return robust_result(compared, history, settings, limits)


METHOD: Final = Method(
    name="robust",
    title="What changed",
    settings=RobustSettings,
    samples=SampleCount(2, 2),
    analyse=analyse,
    sections=(VERDICT, BREAKDOWN, FINDINGS, PATHS),
    kinds=FINDING_KINDS,
    needs_requests=False,
)
"""Found by the registry."""
