"""Run DISTALYZER: population in, section, verdict, tables, notes and what a gate weighs out."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from analyze.methods.distalyze.divergence_tables import divergence_tables
from analyze.methods.distalyze.features import quantity_of
from analyze.methods.distalyze.pipeline import DistalyzeRun, TestedStudy, distalyze_run
from analyze.methods.distalyze.sections import look_first
from analyze.methods.distalyze.settings import DistalyzeSettings
from analyze.methods.port import Result
from analyze.population import Population
from analyze.report import wording
from analyze.report.limits import ReportLimits
from analyze.report.outcome import Weighed
from schemas.report.networks import DistalyzeSection, DivergentVariable, StudyRow
from schemas.report.report import Verdict

_KIND: Final = "divergence"
_COMPONENTS: Final = 8
"""Components shown; the table has the others' edges."""
_VARIABLES: Final = 60
"""Diverging variables listed; the table has all features."""


def distalyze_result(population: Population, settings: DistalyzeSettings, limits: ReportLimits) -> Result:
    """Run it, and tell it."""
    del limits  # its bounds are of other sections
    run = distalyze_run(population, settings)
    section = _section(run, settings)
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


def _section(run: DistalyzeRun, settings: DistalyzeSettings) -> DistalyzeSection:
    variables = _variables(run, settings)
    return DistalyzeSection(
        instances=settings.instances,
        class0=run.contrast.names[0],
        class1=run.contrast.names[1],
        alpha=settings.alpha,
        features=run.features,
        significant=run.significant,
        significant_bh=run.significant_bh,
        studies=tuple(_study(one) for one in run.tested),
        components=run.components[:_COMPONENTS],
        components_total=len(run.components),
        variables=tuple(variables[:_VARIABLES]),
        variables_total=len(variables),
    )


def _study(one: TestedStudy) -> StudyRow:
    instances = one.study.instances
    late, p, w = instances.problem, instances.performance_us, instances.weight
    return StudyRow(
        root=one.study.root,
        instances0=int((~late).sum()),
        instances1=int(late.sum()),
        mean0_us=float(np.average(p[~late], weights=w[~late])),
        mean1_us=float(np.average(p[late], weights=w[late])),
        share=one.share,
        events=one.variables[0],
        states=one.variables[1],
        tail_share=one.tail.outside,
        heavy=one.tail.heavy,
        half_us=one.tail.half_us,
        weighted=one.weighted,
    )


def _variables(run: DistalyzeRun, settings: DistalyzeSettings) -> list[DivergentVariable]:
    found = []
    for one in run.tested:
        for log in one.logs:
            tests = log.tests
            strength = tests.strength(run.level, settings.ranking)
            significant = tests.significant(run.level)
            size = np.where(significant, np.abs(tests.t), -1.0)
            for place in np.flatnonzero(significant.any(axis=0)).tolist():
                row = int(np.argmax(size[:, place]))
                name, type_ = tests.names[place], tests.types[row]
                found.append(
                    DivergentVariable(
                        rank=1,
                        root=one.study.root,
                        log_type=tests.log_type.value,
                        component=name.component,
                        name=f"{name.what} {name.measure}".rstrip(),
                        strength=float(strength[place]),
                        features=int(significant[:, place].sum()),
                        feature_type=type_.value,
                        quantity=quantity_of(type_, name.quantity).value,
                        t=float(tests.t[row, place]),
                        before=_number(tests.mean0[row, place]),
                        after=_number(tests.mean1[row, place]),
                    )
                )
    found.sort(key=lambda v: (-v.strength, v.root, v.log_type, v.component, v.name))
    return [variable.model_copy(update={"rank": rank}) for rank, variable in enumerate(found, 1)]


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _verdict(run: DistalyzeRun, section: DistalyzeSection, settings: DistalyzeSettings) -> Verdict:
    if not run.tested:
        least = wording.counted(settings.least_instances, "instance")
        return Verdict(
            outcome="too-few", text=f"Nothing to hold against each other: {least} of either class are needed."
        )
    if not section.components:
        what = wording.counted(section.features, "feature")
        differ = f"{section.class0} and {section.class1}"
        told = f"Of {what} none that response time depends on differs between {differ}."
        if section.significant:
            some = wording.counted(section.significant, "feature")
            told = f"{some} differ between {differ}, but response time depends on none."
        return Verdict(outcome="no-divergence", text=told)
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
