"""Run DISTALYZER, `flowdiff distalyze`: population in, section, verdict, tables and notes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

import numpy as np
import pyarrow as pa

from analyze.methods.distalyze.attention import LogEvidence, components
from analyze.methods.distalyze.component_rows import component_row
from analyze.methods.distalyze.contrasts import Studies, Study, contrast_of
from analyze.methods.distalyze.divergence import Divergence, HeavyTail, divergence, tail_of, tail_weights
from analyze.methods.distalyze.features import FeatureMaker, quantity_of
from analyze.methods.distalyze.instance_logs import LogType
from analyze.methods.distalyze.sections import DISTALYZE, look_first
from analyze.methods.distalyze.settings import DistalyzeSettings
from analyze.methods.port import Method, Result, SampleCount
from analyze.population import Population
from analyze.report import wording
from analyze.report.gate import Weighed
from analyze.report.limits import ReportLimits
from analyze.report.moment_rows import number
from analyze.stats.multiple import q_values
from schemas.arrays import F8, I8
from schemas.report.columns import arrow_columns, arrow_table, stored
from schemas.report.networks import (
    DistalyzeSection,
    DivergentVariable,
    NetworkComponent,
    StudyRow,
)
from schemas.report.report import Verdict

_LOG_TYPES: Final = (LogType.EVENT, LogType.STATE)


@dataclass(frozen=True, slots=True)
class TestedStudy:
    """One study after its tests."""

    study: Study
    tail: HeavyTail
    weighted: bool
    weight: F8
    """[instances]"""
    share: float
    """Part of the difference of all studies."""
    logs: tuple[LogEvidence, ...]
    variables: tuple[int, ...]
    """Of each log."""


@dataclass(frozen=True, slots=True)
class DistalyzeRun:
    """What was found."""

    contrast: Studies
    tested: tuple[TestedStudy, ...]
    features: int
    """Distinct ones that were tested."""
    level: float
    """Largest p that is significant after Bonferroni."""
    bh_level: float
    """Largest p that is significant after Benjamini-Hochberg; below 0: none."""
    significant: int
    significant_bh: int
    components: tuple[NetworkComponent, ...]
    """In which something diverges, ranked."""


def distalyze_run(population: Population, settings: DistalyzeSettings) -> DistalyzeRun:
    """All studies of a population. Deterministic in its arguments. Raises ConfigError (`contrast_of`)."""
    contrast = contrast_of(population, settings)
    moved = sum(study.moved_us for study in contrast.studies)
    tested = []
    for study in contrast.studies:
        share = study.moved_us / moved if moved > 0 else 1 / len(contrast.studies)
        tested.append(_tested(study, share, contrast.slow, settings))
    listed = [log.tests for one in tested for log in one.logs]
    p = np.concatenate([np.zeros(0), *(tests.p[tests.distinct] for tests in listed)])
    level = settings.alpha / max(len(p), 1)
    by_rate = p[q_values(p) <= settings.alpha] if len(p) else p
    bh_level = float(by_rate.max()) if len(by_rate) else -1.0
    rows = [
        component_row(found, one.study.root, one.share, level, bh_level)
        for one in tested
        for log in one.logs
        for found in components(log, one.weight, level, settings)
    ]
    rows = _in_turn([row for row in rows if row.score > 0])
    return DistalyzeRun(
        contrast,
        tuple(tested),
        len(p),
        level,
        bh_level,
        int((p <= level).sum()),
        len(by_rate),
        tuple(row.model_copy(update={"rank": rank}) for rank, row in enumerate(rows, 1)),
    )


def _in_turn(rows: Sequence[NetworkComponent]) -> list[NetworkComponent]:
    """Components of events and of states in turn, each by score.

    Algorithm 1 scores are for one log (T̂ is relative to the log's largest |t|, and a shift that events carry
    on to the end counts at each): the log whose best component holds the larger |t| comes first.
    """
    best = sorted(rows, key=lambda row: (-row.score, row.root, row.feature_types))
    lists = [_without_repeats([row for row in best if row.log_type == log_type]) for log_type in _LOG_TYPES]
    lists.sort(key=lambda listed: -_largest_t(listed[0]) if listed else 0.0)
    turns = zip_longest(*lists)
    return [row for turn in turns for row in turn if row is not None]


def _without_repeats(rows: Sequence[NetworkComponent]) -> list[NetworkComponent]:
    """Components that begin alike as one, the best: the same story by the mean, the final value, at half …"""
    first: dict[tuple[str, str], NetworkComponent] = {}
    for row in rows:
        key = row.root, row.variables[row.chain[-1]].text if row.chain else ""
        known = first.get(key)
        first[key] = (
            row if known is None else known.model_copy(update={"also": (*known.also, *row.feature_types)})
        )
    return list(first.values())


def _largest_t(row: NetworkComponent) -> float:
    return max((abs(v.t) for v in row.variables if v.t is not None and v.divergence > 0), default=0.0)


def _tested(study: Study, share: float, slow: bool, settings: DistalyzeSettings) -> TestedStudy:
    instances = study.instances
    tail = tail_of(study.all_us, study.all_weight)
    weighted = settings.tail_weights == "on" or (settings.tail_weights == "auto" and slow and tail.heavy)
    weight = instances.weight * (tail_weights(instances.performance_us, tail) if weighted else 1.0)
    logs, sizes = [], []
    for log_type in _LOG_TYPES:
        series = study.log(log_type)
        tests = divergence(series, instances, weight)
        kept = _most_diverging(tests, settings.network_variables)
        logs.append(LogEvidence(FeatureMaker.of(series.of_variables(kept), instances), kept, tests))
        sizes.append(len(tests.names))
    return TestedStudy(study, tail, weighted, weight, share, tuple(logs), tuple(sizes))


def _most_diverging(tests: Divergence, most: int) -> I8:
    """The variables of the networks, ascending: all, or those of the largest |t| of any feature."""
    if len(tests.names) <= most:
        return np.arange(len(tests.names), dtype=np.int64)
    largest = np.where(np.isnan(tests.t), 0.0, np.abs(tests.t)).max(axis=0)
    return np.sort(np.argsort(-largest, kind="stable")[:most])


FEATURES: Final = (
    stored("root", "text", "root type; empty: all"),
    stored("log", "text", "event or state"),
    stored("component", "text", "component of the variable"),
    stored("name", "text", "what it is called there"),
    stored("measure", "text", "what of it is measured"),
    stored("quantity", "text", "unit of its values: us, share, count, value"),
    stored("feature", "text", "feature type"),
    stored("mean0", "number", "mean of the first class"),
    stored("mean1", "number", "mean of the second class"),
    stored("t", "number", "Welch's t"),
    stored("p", "number", "its p-value"),
    stored("significant", "flag", "after Bonferroni over all features of the run"),
    stored("significant_bh", "flag", "after Benjamini-Hochberg"),
)
DEPENDENCIES: Final = (
    stored("rank", "place", "component that the edge is of"),
    stored("root", "text", "root type; empty: all"),
    stored("log", "text", "event or state"),
    stored("feature", "text", "feature type"),
    stored("score", "number", "Algorithm 1's, times the root type's part of the difference"),
    stored("variable", "text", "one end; of a directed edge what happens first"),
    stored("other", "text", "the other end"),
    stored(
        "weight0",
        "number",
        "largest node that one splits in the other's tree, first class's network",
    ),
    stored("weight1", "number", "the same in the network that the component is of"),
    stored("directed", "flag", "one comes before the other in all instances"),
    stored("in_tree", "flag", "of the maximum spanning tree that the score is of"),
)


def divergence_tables(run: DistalyzeRun) -> dict[str, pa.Table]:
    """`distalyze_features`: distinct tests; `distalyze_dependencies`: edges among the variables shown."""
    features = [_features(run, one.study.root, log.tests) for one in run.tested for log in one.logs]
    return {
        "distalyze_features": pa.concat_tables(features) if features else arrow_table(FEATURES, ()),
        "distalyze_dependencies": _dependencies(run),
    }


def _features(run: DistalyzeRun, root: str, tests: Divergence) -> pa.Table:
    row, place = np.nonzero(tests.distinct)
    names, types, p = [tests.names[i] for i in place], [tests.types[i] for i in row], tests.p[row, place]
    return arrow_columns(
        FEATURES,
        root=[root] * len(p),
        log=[tests.log_type.value] * len(p),
        component=[name.component for name in names],
        name=[name.what for name in names],
        measure=[name.measure for name in names],
        quantity=[quantity_of(type_, name.quantity).value for type_, name in zip(types, names, strict=True)],
        feature=[type_.value for type_ in types],
        mean0=tests.mean0[row, place],
        mean1=tests.mean1[row, place],
        t=tests.t[row, place],
        p=p,
        significant=p <= run.level,
        significant_bh=p <= run.bh_level,
    )


def _dependencies(run: DistalyzeRun) -> pa.Table:
    edges = [(row, edge) for row in run.components for edge in row.edges]
    return arrow_columns(
        DEPENDENCIES,
        rank=[row.rank for row, _ in edges],
        root=[row.root for row, _ in edges],
        log=[row.log_type for row, _ in edges],
        feature=[row.feature_types[0] for row, _ in edges],
        score=[row.score for row, _ in edges],
        variable=[row.variables[edge.src].text for row, edge in edges],
        other=[row.variables[edge.dst].text for row, edge in edges],
        weight0=[edge.weight_other for _, edge in edges],
        weight1=[edge.weight for _, edge in edges],
        directed=[edge.directed for _, edge in edges],
        in_tree=[edge.in_tree for _, edge in edges],
    )


_KIND: Final = "divergence"
_COMPONENTS: Final = 8
"""Components shown; the table has the others' edges."""
_VARIABLES: Final = 60
"""Diverging variables listed; the table has all features."""


def analyse(
    population: Population, _history: Population | None, settings: DistalyzeSettings, limits: ReportLimits
) -> Result:
    """Slow against fast in one sample, or the second sample against the first. No history is looked at."""
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
    variables = _variables(run)
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


def _variables(run: DistalyzeRun) -> list[DivergentVariable]:
    found = []
    for one in run.tested:
        for log in one.logs:
            tests = log.tests
            strength = tests.strength(run.level)
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
                        before=number(tests.mean0[row, place]),
                        after=number(tests.mean1[row, place]),
                    )
                )
    found.sort(key=lambda v: (-v.strength, v.root, v.log_type, v.component, v.name))
    return [variable.model_copy(update={"rank": rank}) for rank, variable in enumerate(found, 1)]


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
"""Found by the registry."""
