"""Run DISTALYZER, `flowdiff distalyze`: population in, section, verdict, tables and notes out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final

import numpy as np
import pyarrow as pa

from analyze.methods.distalyze.attention import Found, LogEvidence, components
from analyze.methods.distalyze.contrasts import Studies, Study, contrast_of
from analyze.methods.distalyze.divergence import Divergence, HeavyTail, divergence, tail_of, tail_weights
from analyze.methods.distalyze.features import EVENT_TIMES, FeatureMaker, quantity_of
from analyze.methods.distalyze.instance_logs import LogType, VariableName
from analyze.methods.distalyze.sections import DISTALYZE, look_first
from analyze.methods.distalyze.settings import DistalyzeSettings
from analyze.methods.port import Method, Result, SampleCount
from analyze.population import Population
from analyze.report import wording
from analyze.report.gate import Weighed
from analyze.report.limits import ReportLimits
from analyze.report.moment_rows import number
from analyze.stats.multiple import q_values
from schemas.arrays import B1, F8, I8
from schemas.report.columns import arrow_schema, stored
from schemas.report.networks import (
    DistalyzeSection,
    Distribution,
    DivergentVariable,
    NetworkComponent,
    NetworkEdge,
    NetworkVariable,
    StudyRow,
)
from schemas.report.report import Verdict

MOST_VARIABLES: Final = 16
"""Variables shown of a component; a drawing of more is a hairball."""
MOST_CHAIN: Final = 30
"""Variables shown of a longer chain: its ends."""
MOST_TRIVIAL: Final = 8
BINS: Final = 24
_LOG_RATIO: Final = 20.0
"""Values that span more than this are put into bins of equal ratio."""
_LEAST_EDGE: Final = 1e-12


def component_row(found: Found, root: str, share: float, level: float, bh_level: float) -> NetworkComponent:
    """A component as the report has it, not ranked yet. share: the root type's part of the difference."""
    component = found.component
    p_node = len(found.values)
    divergence = found.divergence[component.node]
    when = np.append(_when(found), np.nan)[component.node]
    chain = component.chain(when, np.where(_with_p(found)[component.node], divergence, 0.0))
    if len(chain) > MOST_CHAIN:
        chain = chain[: MOST_CHAIN // 2] + chain[-MOST_CHAIN // 2 :]
    shown = _shown(found, chain)
    place = {member: i for i, member in enumerate(shown)}
    nodes = [int(component.node[member]) for member in shown]
    names = found.evidence.maker.series.names
    trivial_names = [names[i].text for i in np.flatnonzero(found.trivial).tolist()]
    just_before = None if not chain else found.just_before(int(component.node[chain[-1]]))
    return NetworkComponent(
        rank=0,
        root=root,
        log_type=found.log_type.value,
        feature_types=tuple(type_.value for type_ in found.types),
        score=component.score * share,
        own_score=component.score,
        pooled=found.pooled,
        scores=found.scores,
        variables=tuple(
            _performance(found) if node == p_node else _variable(found, node, level, bh_level)
            for node in nodes
        ),
        variables_total=len(component.node),
        edges=tuple(_edges(found, nodes, shown)),
        chain=tuple(place[member] for member in chain),
        after="" if just_before is None else names[just_before].text,
        trivial=tuple(trivial_names[:MOST_TRIVIAL]),
        trivial_total=len(trivial_names),
    )


def _when(found: Found) -> F8:
    """[variables] what their order in time goes by: of event times the feature itself, in C1.

    Other means of time would be over the instances that each variable occurs in, which are not the same.
    """
    if found.types[0] in EVENT_TIMES:
        return np.asarray(found.evidence.tests.mean1[found.tested, found.evidence.kept])
    return found.evidence.maker.when_us()


def _with_p(found: Found) -> B1:
    """[nodes] whether a chain may begin there: of event times, those that move the way P does.

    What comes before a delay moves the other way when shown relative to the whole.
    """
    nodes = np.ones(len(found.values) + 1, np.bool_)
    if found.types[0] in EVENT_TIMES:
        instances = found.evidence.maker.instances
        p, late, w = instances.performance_us, instances.problem, instances.weight
        moved = np.average(p[late], weights=w[late]) - np.average(p[~late], weights=w[~late])
        t = found.evidence.tests.t[found.tested, found.evidence.kept]
        nodes[:-1] = np.sign(np.where(np.isnan(t), 0.0, t)) == np.sign(moved)
    return nodes


def _shown(found: Found, chain: Sequence[int]) -> list[int]:
    """Members that are shown: P, the chain, then by what they add to the score, with their ways to P."""
    component = found.component
    worth = found.divergence[component.node] * component.weight
    shown = dict.fromkeys([0, *chain])
    for member in np.argsort(-worth, kind="stable").tolist():
        way = []
        step = int(member)
        while step not in shown and step >= 0:
            way.append(step)
            step = int(component.parent[step])
        if len(shown) + len(way) <= MOST_VARIABLES:
            shown |= dict.fromkeys(way)
    return list(shown)


def _edges(found: Found, nodes: Sequence[int], shown: Sequence[int]) -> list[NetworkEdge]:
    here, there = found.networks[1].weight, found.networks[0].weight
    parent = {member: int(found.component.parent[member]) for member in shown}
    edges = []
    for i, a in enumerate(nodes):
        for j in range(i + 1, len(nodes)):
            b = nodes[j]
            if here[a, b] <= 0:
                continue
            backwards = found.before(b, a)
            directed = backwards or found.before(a, b)
            src, dst = (j, i) if backwards else (i, j)
            edges.append(
                NetworkEdge(
                    src=src,
                    dst=dst,
                    weight=float(here[a, b]),
                    weight_other=float(there[a, b]),
                    directed=directed,
                    in_tree=parent[shown[i]] == shown[j] or parent[shown[j]] == shown[i],
                )
            )
    return edges


def _performance(found: Found) -> NetworkVariable:
    instances = found.evidence.maker.instances
    late = instances.problem
    values = instances.performance_us
    return NetworkVariable(
        component="",
        what="response time",
        measure="",
        quantity="us",
        t=None,
        p=None,
        significant=False,
        q_significant=False,
        divergence=0.0,
        before=number(np.average(values[~late], weights=instances.weight[~late])),
        after=number(np.average(values[late], weights=instances.weight[late])),
        distribution=distribution(values, late),
    )


def _variable(found: Found, node: int, level: float, bh_level: float) -> NetworkVariable:
    tests = found.evidence.tests
    row, place = int(found.tested[node]), int(found.evidence.kept[node])
    name: VariableName = found.evidence.maker.series.names[node]
    t, p = number(tests.t[row, place]), number(tests.p[row, place])
    before, after = found.means(node)
    return NetworkVariable(
        component=name.component,
        what=name.what,
        measure=name.measure,
        quantity=quantity_of(tests.types[row], name.quantity).value,
        t=t,
        p=p,
        significant=p is not None and p <= level,
        q_significant=p is not None and p <= bh_level,
        divergence=float(found.divergence[node]),
        before=number(before),
        after=number(after),
        distribution=distribution(found.values[node], found.evidence.maker.instances.problem),
    )


def distribution(values: F8, problem: B1) -> Distribution | None:
    """Counts of both classes over common bins; None where no instance has a value. values: NaN missing."""
    there = ~np.isnan(values)
    if not there.any():
        return None
    low, high = float(values[there].min()), float(values[there].max())
    log = low > 0 and high > _LOG_RATIO * low
    if high <= low:
        half = max(abs(low) * 0.01, _LEAST_EDGE)
        edges = np.array([low - half, low + half])
    elif log:
        edges = np.geomspace(low, high, BINS + 1)
    else:
        edges = np.linspace(low, high, BINS + 1)
    edges[0], edges[-1] = min(edges[0], low), max(edges[-1], high)
    counts = [np.histogram(values[there & (problem == late)], edges)[0] for late in (False, True)]
    return Distribution(
        edges=tuple(edges.tolist()),
        counts0=tuple(counts[0].tolist()),
        counts1=tuple(counts[1].tolist()),
        absent0=int((~there & ~problem).sum()),
        absent1=int((~there & problem).sum()),
        log=log,
    )


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
    return {
        "distalyze_features": pa.Table.from_pylist(list(_features(run)), schema=arrow_schema(FEATURES)),
        "distalyze_dependencies": pa.Table.from_pylist(
            list(_dependencies(run)), schema=arrow_schema(DEPENDENCIES)
        ),
    }


def _features(run: DistalyzeRun) -> Iterator[dict[str, Any]]:
    for one in run.tested:
        for log in one.logs:
            tests = log.tests
            for row, place in np.argwhere(tests.distinct).tolist():
                name, type_ = tests.names[place], tests.types[row]
                p = float(tests.p[row, place])
                yield {
                    "root": one.study.root,
                    "log": tests.log_type.value,
                    "component": name.component,
                    "name": name.what,
                    "measure": name.measure,
                    "quantity": quantity_of(type_, name.quantity).value,
                    "feature": type_.value,
                    "mean0": float(tests.mean0[row, place]),
                    "mean1": float(tests.mean1[row, place]),
                    "t": float(tests.t[row, place]),
                    "p": p,
                    "significant": p <= run.level,
                    "significant_bh": p <= run.bh_level,
                }


def _dependencies(run: DistalyzeRun) -> Iterator[dict[str, Any]]:
    for row in run.components:
        for edge in row.edges:
            yield {
                "rank": row.rank,
                "root": row.root,
                "log": row.log_type,
                "feature": row.feature_types[0],
                "score": row.score,
                "variable": row.variables[edge.src].text,
                "other": row.variables[edge.dst].text,
                "weight0": edge.weight_other,
                "weight1": edge.weight,
                "directed": edge.directed,
                "in_tree": edge.in_tree,
            }


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
