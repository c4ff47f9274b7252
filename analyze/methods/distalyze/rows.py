"""Rows of DISTALYZER for the report: studies, components, variables; and its complete tables."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from analyze.methods.distalyze.distalyze_run import DistalyzeRun, TestedStudy
from analyze.methods.distalyze.divergence import Divergence
from analyze.methods.distalyze.features import quantity_of
from analyze.methods.distalyze.settings import DistalyzeSettings
from analyze.report.model_values import number
from schemas.report.columns import arrow_columns, arrow_table, stored
from schemas.report.networks import DistalyzeSection, DivergentVariable, StudyRow

_COMPONENTS: Final = 8
"""Maximum number of components in the section; the tables hold the edges of all."""
_VARIABLES: Final = 60
"""Maximum number of divergent variables in the section; the tables hold all features."""
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
    """Make the tables `distalyze_features` (one row per distinct test) and `distalyze_dependencies` (edges
    among the variables in the section)."""
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
        log=[tests.log_type] * len(p),
        component=[name.component for name in names],
        name=[name.what for name in names],
        measure=[name.measure for name in names],
        quantity=[quantity_of(type_, name.quantity) for type_, name in zip(types, names, strict=True)],
        feature=types,
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


def distalyze_section(run: DistalyzeRun, settings: DistalyzeSettings) -> DistalyzeSection:
    """Fill the section from the results, up to the limits on components and variables."""
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
    before, after = instances.means_us
    events, states = (len(log.tests.names) for log in one.logs)
    return StudyRow(
        root=one.study.root,
        instances0=int((~instances.problem).sum()),
        instances1=int(instances.problem.sum()),
        mean0_us=before,
        mean1_us=after,
        share=one.share,
        events=events,
        states=states,
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
                        log_type=tests.log_type,
                        component=name.component,
                        name=f"{name.what} {name.measure}".rstrip(),
                        strength=float(strength[place]),
                        features=int(significant[:, place].sum()),
                        feature_type=type_,
                        quantity=quantity_of(type_, name.quantity),
                        t=float(tests.t[row, place]),
                        before=number(tests.mean0[row, place]),
                        after=number(tests.mean1[row, place]),
                    )
                )
    found.sort(key=lambda v: (-v.strength, v.root, v.log_type, v.component, v.name))
    return [variable.model_copy(update={"rank": rank}) for rank, variable in enumerate(found, 1)]
