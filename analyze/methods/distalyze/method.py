"""Method "distalyze", `flowdiff distalyze`: section, verdict, tables and notes."""

from __future__ import annotations

from typing import Final

from analyze.methods.distalyze.distalyze_run import DistalyzeRun, distalyze_run
from analyze.methods.distalyze.rows import distalyze_section, divergence_tables
from analyze.methods.distalyze.sections import DISTALYZE, look_first
from analyze.methods.distalyze.settings import DistalyzeSettings
from analyze.methods.port import Method, Result, SampleCount
from analyze.profile.samples import ComparedSamples
from analyze.report import wording
from analyze.report.gate import Weighed
from analyze.report.limits import ReportLimits
from schemas.report.networks import DistalyzeSection
from schemas.report.report import Verdict

_KIND: Final = "divergence"


def analyse(
    compared: ComparedSamples,
    _history: ComparedSamples | None,
    settings: DistalyzeSettings,
    limits: ReportLimits,
) -> Result:
    """Contrast slow with fast requests of one sample, or the second sample with the first. The history is not
    used."""
    del limits  # its bounds are of other sections
    run = distalyze_run(compared.population, settings)
    section = distalyze_section(run, settings)
    few = not run.tested
    return Result(
        settings=settings,
        verdict=_verdict(run, section, settings),
        sections=(section,),
        tables=divergence_tables(run),
        notes=_notes(run, settings),
        weighed=[Weighed(_KIND, None, sure=False)]
        if few
        else [Weighed(_KIND, row.score) for row in run.components],
    )


def _verdict(run: DistalyzeRun, section: DistalyzeSection, settings: DistalyzeSettings) -> Verdict:
    if not run.tested:
        least = wording.counted(settings.least_instances, "instance")
        return Verdict(outcome="too-few", text=f"Nothing to compare: {least} of either class are needed.")
    if not section.components:
        what = wording.counted(section.features, "feature")
        differ = f"{section.class0} and {section.class1}"
        sentence = f"Of {what} none that response time depends on differs between {differ}."
        if section.significant:
            some = wording.counted(section.significant, "feature")
            sentence = f"{some} differ between {differ}, but response time depends on none."
        return Verdict(outcome="no-divergence", text=sentence)
    return Verdict(outcome="divergence", text=look_first(section.components[0], section))


def _notes(run: DistalyzeRun, settings: DistalyzeSettings) -> tuple[str, ...]:
    notes = []
    if run.contrast.too_few and run.tested:
        notes.append(
            f"Not looked at, for want of {settings.least_instances} instances a class: "
            f"{wording.counted(len(run.contrast.too_few), 'root type')}."
        )
    if run.contrast.left_out:
        notes.append(
            f"{wording.counted(run.contrast.left_out, 'root type')} that moved less "
            f"{'is' if run.contrast.left_out == 1 else 'are'} not looked at (--roots)."
        )
    return tuple(notes)


METHOD: Final = Method(
    name="distalyze",
    title="What diverges, and what depends on it",
    settings=DistalyzeSettings,
    samples=SampleCount(1, 2),
    analyse=analyse,
    sections=(DISTALYZE,),
    kinds=("divergence",),
)
"""Distalyze method as an entry of the registry of methods."""
