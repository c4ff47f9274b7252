"""Method "variance", `flowdiff variance`: sources of variance; sections and tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from analyze.methods.port import Method, Result, SampleCount
from analyze.methods.variance.markers import Marker, read_markers
from analyze.methods.variance.rows import (
    category_rows,
    details_section,
    site_table,
    variance_section,
    variance_tables,
)
from analyze.methods.variance.sections import VARIANCE, VARIANCE_CHANGE, VARIANCE_DETAILS
from analyze.methods.variance.settings import VarianceSettings
from analyze.methods.variance.variance_change import change_section
from analyze.methods.variance.variance_run import variance_run
from analyze.population import Population
from analyze.profile.samples import ComparedSamples
from analyze.report import wording
from analyze.report.gate import Weighed
from analyze.report.limits import ReportLimits
from schemas.report.parts import Section
from schemas.report.report import Verdict
from schemas.report.variance import VarianceChangeSection, VarianceSection

_NAMED: Final = 0.01
"""Minimum share of the variance for a source to be named in the verdict, in [0, 1]."""
_RARE_NOTE = 0.1
"""Share of requests in rare categories from which the report has a note, in [0, 1]."""


def variance_result(
    population: Population, markers: Sequence[Marker], settings: VarianceSettings, limits: ReportLimits
) -> Result:
    """Decompose the variance of the last sample; if there are two samples, compare it with the variance of
    the first.

    Markers apply unless they have expired on the last day of the samples. Raises ConfigError for an unknown
    category, PeriodError if a sample has no requests.
    """
    run = variance_run(population, markers, settings, limits)
    sites, categories = site_table(run), category_rows(run)
    first = variance_section(run, sites, categories)
    second, looked = details_section(run, sites)
    change = change_section(run) if len(run.samples) == 2 else None
    sections: tuple[Section, ...] = (first, second) if change is None else (change, first, second)
    return Result(
        settings=settings,
        verdict=_verdict(first, change),
        sections=sections,
        tables=variance_tables(run, sites, categories, looked),
        notes=_notes(first),
        weighed=[] if change is None else _weighed(change),
    )


def _weighed(change: VarianceChangeSection) -> list[Weighed]:
    return [Weighed("variance", None) for row in change.sites if row.ratio > 1]


def _verdict(first: VarianceSection, change: VarianceChangeSection | None) -> Verdict:
    if change is not None:
        more = [row for row in change.sites if row.ratio > 1]
        less = len(change.sites) - len(more)
        if more:
            top = more[0]
            others = f" and {wording.counted(len(more) - 1, 'more call site')}" if len(more) > 1 else ""
            own, of_all = (wording.moved_duration(row.sd0_us, row.sd1_us) for row in (top, change))
            text = (
                f"Times vary more at {top.label}{others}: its standard deviation {own}, "
                f"that of all response times {of_all}."
            )
            return Verdict(outcome="more-variable", text=text)
        if less:
            text = f"Times vary less at {wording.counted(less, 'call site')}, nowhere more."
            return Verdict(outcome="less-variable", text=text)
        return Verdict(outcome="as-variable", text="Times vary as before at every call site.")
    if first.sd_us == 0:
        return Verdict(outcome="constant", text="All response times are equal.")
    whole = {part.kind: part.share for part in first.parts if part.root is None}
    causes = [
        (whole.get("roots", 0.0), "differences between root types"),
        (whole.get("paths", 0.0), "different paths of the same root type"),
    ]
    source = next((site for site in first.sites if site.marker is None or site.marker == "inadvertent"), None)
    if source is not None and source.within > 0:
        causes.append((source.within, source.label))
    named = [cause for cause in sorted(causes, reverse=True) if cause[0] >= _NAMED][:2]
    shares = [f"{wording.percent(share)} of the variance comes from {what}" for share, what in named[:1]]
    shares += [f"{wording.percent(share)} from {what}" for share, what in named[1:]]
    text = f"Requests take {wording.duration(first.mean_us)}, with a standard deviation of "
    text += wording.duration(first.sd_us)
    if shares:
        text += f": {', '.join(shares)}"
    return Verdict(outcome="measured", text=f"{text}.")


def _notes(first: VarianceSection) -> tuple[str, ...]:
    notes = []
    if first.rare_requests >= _RARE_NOTE:
        notes.append(
            f"{wording.percent(first.rare_requests)} of the requests lie in categories of at most 10. "
            "Those of a root type are looked at together: part of their variance is one of paths."
        )
    notes += [
        f"The marker '{row.label}' means no edge and no site of these requests."
        for row in first.markers
        if row.state == "unused"
    ]
    return tuple(notes)


def analyse(
    compared: ComparedSamples,
    _history: ComparedSamples | None,
    settings: VarianceSettings,
    limits: ReportLimits,
) -> Result:
    """Decompose the variance of response times; compare the variances of two samples. The history is not
    used.

    Raises ConfigError if the markers cannot be read, or a requested category does not exist.
    """
    markers = () if settings.markers is None else read_markers(settings.markers)
    return variance_result(compared.population, markers, settings, limits)


METHOD: Final = Method(
    name="variance",
    title="VarianceFinder",
    settings=VarianceSettings,
    samples=SampleCount(1, 2),
    analyse=analyse,
    sections=(VARIANCE_CHANGE, VARIANCE, VARIANCE_DETAILS),
    kinds=("variance",),
)
"""Variance method as an entry of the registry of methods."""
