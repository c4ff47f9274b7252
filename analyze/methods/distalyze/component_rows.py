"""Rows of a component for the report: variables with their distributions in both classes, edges, chain,
equivalent variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from analyze.methods.distalyze.attention import FoundComponent
from analyze.methods.distalyze.features import EVENT_TIMES, quantity_of
from analyze.methods.distalyze.instance_logs import VariableName
from analyze.report.model_values import number
from schemas.arrays import B1, F8
from schemas.report.networks import (
    Distribution,
    NetworkComponent,
    NetworkEdge,
    NetworkVariable,
)

MOST_VARIABLES: Final = 16
"""Maximum number of variables of a component that are shown; a larger drawing is not readable."""
MOST_CHAIN: Final = 30
"""Maximum number of variables of a chain that are shown; a longer one is cut in the middle."""
MOST_TRIVIAL: Final = 8
BINS: Final = 24
_LOG_RATIO: Final = 20.0
"""Minimum ratio of the largest to the smallest value for bins of equal ratio instead of equal width."""
_LEAST_EDGE: Final = 1e-12


def component_row(
    found: FoundComponent, root: str, share: float, level: float, bh_level: float
) -> NetworkComponent:
    """Make the row of a component, with rank 0, which the caller replaces.

    share: share of the root type in the summed difference; level, bh_level: largest significant p, by
    Bonferroni and by Benjamini-Hochberg.
    """
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
        log_type=found.log_type,
        feature_types=found.types,
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


def _when(found: FoundComponent) -> F8:
    """Time by which variables are ordered, float64[variables]: for times of events, the mean of the tested
    feature in class C1; for other features, the mean time of the variable's first occurrence.

    The mean time is over the instances in which a variable occurs, which differ between variables.
    """
    if found.types[0] in EVENT_TIMES:
        return np.asarray(found.evidence.tests.mean1[found.tested, found.evidence.kept])
    return found.evidence.maker.when_us()


def _with_p(found: FoundComponent) -> B1:
    """bool[nodes]: True where a chain may begin.

    For times of events, only variables that move in the same direction as the response time: relative to the
    duration of the instance, events before a delay move in the opposite direction.
    """
    nodes = np.ones(len(found.values) + 1, np.bool_)
    if found.types[0] in EVENT_TIMES:
        before, after = found.evidence.maker.instances.means_us
        t = found.evidence.tests.t[found.tested, found.evidence.kept]
        nodes[:-1] = np.sign(np.where(np.isnan(t), 0.0, t)) == np.sign(after - before)
    return nodes


def _shown(found: FoundComponent, chain: Sequence[int]) -> list[int]:
    """Members to show: the response time, the chain, then further members by contribution to the score, each
    with its path to the response time."""
    component = found.component
    score_part = found.divergence[component.node] * component.weight
    shown = dict.fromkeys([0, *chain])
    for member in np.argsort(-score_part, kind="stable").tolist():
        way = []
        step = int(member)
        while step not in shown and step >= 0:
            way.append(step)
            step = int(component.parent[step])
        if len(shown) + len(way) <= MOST_VARIABLES:
            shown |= dict.fromkeys(way)
    return list(shown)


def _edges(found: FoundComponent, nodes: Sequence[int], shown: Sequence[int]) -> list[NetworkEdge]:
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


def _performance(found: FoundComponent) -> NetworkVariable:
    instances = found.evidence.maker.instances
    before, after = instances.means_us
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
        before=number(before),
        after=number(after),
        distribution=distribution(instances.performance_us, instances.problem),
    )


def _variable(found: FoundComponent, node: int, level: float, bh_level: float) -> NetworkVariable:
    tests = found.evidence.tests
    row, place = int(found.tested[node]), int(found.evidence.kept[node])
    name: VariableName = found.evidence.maker.series.names[node]
    t, p = number(tests.t[row, place]), number(tests.p[row, place])
    before, after = found.means(node)
    return NetworkVariable(
        component=name.component,
        what=name.what,
        measure=name.measure,
        quantity=quantity_of(tests.types[row], name.quantity),
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
    """Histogram of the values of both classes in the same bins; None if no instance has a value.

    values: float64[instances], NaN for missing; problem: bool[instances], True for class C1.
    """
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
