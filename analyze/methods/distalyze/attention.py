"""Find and score the variables connected with the response time in a dependency network, for each log and
feature type (DISTALYZER, Algorithm 1; the paper calls the response time P)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from analyze.methods.distalyze.dependency_network import (
    Network,
    happens_before,
    network_of,
    trivial,
)
from analyze.methods.distalyze.divergence import MOSTLY, Divergence
from analyze.methods.distalyze.features import (
    EVENT_TIMES,
    RELATIVE_TIMES,
    TYPES,
    FeatureMaker,
    FeatureType,
)
from analyze.methods.distalyze.settings import DistalyzeSettings
from analyze.stats.welch import MOST_T
from schemas.arrays import B1, F8, I8
from schemas.report.networks import LogType

_NOTABLE: Final = 0.1
"""Minimum normalised |t| of the first variable of a chain, as a share of the largest one in the component."""
NO_PARENT: Final = -1
_POOL_RATIO: Final = 3
"""Maximum number of instances drawn from the larger class per instance of the smaller one, where a network is
learned from both classes."""
_UNMOVED: Final = 0.5
"""Maximum change of an earlier variable that counts as unchanged, as a share of the change of the variable
that it precedes."""


@dataclass(frozen=True, slots=True)
class Component:
    """Variables connected with the response time in a dependency network; arrays are [members], a member
    being a variable or the response time."""

    node: I8
    """Index in the network of each member: the response time first, then variables in breadth-first order."""
    parent: I8
    """Position in this component of each member's parent in the maximum spanning tree; NO_PARENT for the
    response time."""
    weight: F8
    """Weight of the edge from each member to the parent, in (0, 1]; 0 for the response time."""
    score: float

    def chain(self, when_us: F8, divergence: F8) -> tuple[int, ...]:
        """Path of members from the response time to the earliest member whose normalised |t| is at least
        _NOTABLE of the largest one.

        when_us, divergence: float64[members] time and normalised |t| of each member; the response time's
        entries are ignored. Empty if no member diverges.
        """
        others = np.arange(1, len(self.node))
        largest = divergence[others].max(initial=0.0)
        notable = others[(divergence[others] >= _NOTABLE * largest) & (divergence[others] > 0)]
        notable = notable[~np.isnan(when_us[notable])]
        if not len(notable):
            return ()
        place = int(notable[np.lexsort((-divergence[notable], when_us[notable]))[0]])
        steps = [place]
        while self.parent[steps[-1]] != NO_PARENT:
            steps.append(int(self.parent[steps[-1]]))
        return tuple(reversed(steps))


def component_of(network: Network, divergence: F8, alpha: float) -> Component:
    """Find the variables connected with the response time, arrange them as a maximum spanning tree rooted
    there, and score them.

    divergence: float64[nodes] normalised |t|, 0 if it is not significant or the variable is trivial. Score:
    sum over all nodes except the response time of divergence^(2 alpha) · weight^(2 (1 - alpha)), with the
    weight of the edge to the parent. Deterministic.
    """
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

    # The library minimizes the sum, and takes 0 for an absent edge, so weights (0, 1] become costs [1, 2).
    cost = csr_matrix(np.where(network.weight > 0, 2.0 - network.weight, 0.0))
    tree = minimum_spanning_tree(cost)
    order, before = breadth_first_order(tree, network.performance, directed=False)
    place = np.full(len(network.weight), NO_PARENT, np.int64)
    place[order] = np.arange(len(order))
    parent = np.array(
        [NO_PARENT if i == network.performance else place[before[i]] for i in order.tolist()], np.int64
    )
    weight = np.zeros(len(order))
    weight[1:] = network.weight[order[1:], before[order[1:]]]
    parts = divergence[order[1:]] ** (2 * alpha) * weight[1:] ** (2 * (1 - alpha))
    # A node that does not diverge adds nothing, for any alpha.
    score = float(parts[divergence[order[1:]] > 0].sum())
    return Component(order.astype(np.int64), parent, weight, score)


@dataclass(frozen=True, slots=True)
class LogEvidence:
    """Tests and features of the variables of one log (events or states) of one study: the input of its
    networks."""

    maker: FeatureMaker
    """Maker of feature matrices of the variables in the network; all other variables are left out."""
    kept: I8
    """Indices in `tests` of the variables in the network, int64[variables]."""
    tests: Divergence


@dataclass(frozen=True, slots=True)
class FoundComponent:
    """Component of the response time found for one feature type. The network's nodes are the variables, then
    the response time.
    """

    log_type: LogType
    types: tuple[FeatureType, ...]
    """Feature types whose values are `values`; several if their values are equal."""
    evidence: LogEvidence
    """Tests of the log from which the network was learned."""
    values: F8
    """Values of the feature type, float64[variables, instances]."""
    component: Component
    """Component of the response time, found in the second network of `networks`."""
    pooled: bool
    """True if the component's network was learned from both classes together, False if from C1 (slow,
    problem)."""
    networks: tuple[Network, Network]
    """(Network of class C0 (fast, reference), network in which the component was found)."""
    scores: tuple[float, float, float]
    """Scores of the components learned from class C0 (fast, reference), from C1 (slow, problem), and from
    both classes together."""
    tested: I8
    """Row in the tests (`Divergence`) of the test of each variable, int64[variables]."""
    divergence: F8
    """Normalised |t| of each node, in [0, 1], float64[nodes]; 0 if not significant."""
    trivial: B1
    """bool[variables]: True for variables equivalent to the response time."""

    def before(self, a: int, b: int) -> bool:
        """True if the event of node `a` precedes the event of node `b` in all instances; False if the feature
        type is no time of events."""
        if self.types[0] not in EVENT_TIMES:
            return False
        return happens_before(*(self.values[i] if i < len(self.values) else self._end() for i in (a, b)))

    def _end(self) -> F8:
        """Response time of each instance, in the unit of the feature (µs, or 1 for relative times),
        float64[instances]; NaN if it is a mean over many requests."""
        instances = self.evidence.maker.instances
        if not np.array_equal(instances.performance_us, instances.duration_us):
            return np.full(len(instances), np.nan)
        relative = self.types[0] in RELATIVE_TIMES
        return np.ones(len(instances)) if relative else instances.performance_us

    def means(self, node: int) -> tuple[float, float]:
        """Mean of a node's tested feature in each class: (C0, C1)."""
        row, place = self.tested[node], self.evidence.kept[node]
        return float(self.evidence.tests.mean0[row, place]), float(self.evidence.tests.mean1[row, place])

    def just_before(self, node: int) -> int | None:
        """Node of the latest variable that precedes `node` in all instances and changed at most _UNMOVED
        times as much; None if there is none."""
        if self.types[0] not in EVENT_TIMES:
            return None
        before, after = self.means(node)
        best: tuple[float, int] | None = None
        for other in range(len(self.values)):
            was, is_ = self.means(other)
            # Only moves in the same direction count: relative times before a delay fall, as the whole grows.
            moved = (is_ - was) * np.sign(after - before)
            fits = other != node and is_ < after and moved <= _UNMOVED * abs(after - before)
            if fits and (best is None or is_ > best[0]) and self.before(other, node):
                best = is_, other
        return None if best is None else best[1]


def components(
    evidence: LogEvidence, weight: F8, level: float, settings: DistalyzeSettings
) -> list[FoundComponent]:
    """Find the component of the response time for each feature type; feature types with equal values are
    merged.

    weight: float64[instances]; level: maximum p of a significant feature.
    """
    tests, maker, kept = evidence.tests, evidence.maker, evidence.kept
    seen: list[FoundComponent] = []
    finite = np.abs(np.where(tests.significant(level), tests.t, 0.0))
    usual = finite[finite < MOST_T]
    largest = float(usual.max(initial=0.0)) or MOST_T
    presence = tests.types.index(FeatureType.PRESENCE)
    instances = maker.instances
    rows = [
        _spread(np.flatnonzero(instances.problem == late), settings.network_instances)
        for late in (False, True)
    ]
    both = np.concatenate(rows)
    pool, pool_weight = _pool(rows, weight)
    seldom = np.minimum(*maker.present()) < MOSTLY if len(kept) else np.zeros(0, np.bool_)
    for type_ in TYPES[maker.series.log_type]:
        known = next(
            (i for i, f in enumerate(seen) if maker.same_as(type_) is maker.same_as(f.types[0])), None
        )
        tested = np.full(len(kept), tests.types.index(type_), np.int64)
        if known is None:
            values = maker.matrix(type_)
            if type_ is FeatureType.COUNT:
                values[seldom] = values[seldom] > 0
                tested[seldom] = presence
            else:
                values[seldom] = np.nan
            known = next(
                (i for i, f in enumerate(seen) if np.array_equal(f.values, values, equal_nan=True)), None
            )
        if known is not None:
            seen[known] = replace(seen[known], types=(*seen[known].types, type_))
            continue
        says_p = trivial(values[:, both], instances.performance_us[both], instances.problem[both])
        divergence = np.zeros(len(kept) + 1)
        divergence[:-1] = np.minimum(finite[tested, kept] / largest, 1.0)
        divergence[:-1][says_p] = 0.0
        networks = [
            network_of(values[:, mine], instances.performance_us[mine], ~says_p, weighed, settings)
            for mine, weighed in (
                (rows[0], weight[rows[0]]),
                (rows[1], weight[rows[1]]),
                (pool, pool_weight),
            )
        ]
        of_c0, of_c1, of_both = (
            component_of(network, divergence, settings.weigh_divergence) for network in networks
        )
        pooled = of_both.score > of_c1.score
        seen.append(
            FoundComponent(
                maker.series.log_type,
                (type_,),
                evidence,
                values,
                of_both if pooled else of_c1,
                pooled,
                (networks[0], networks[2 if pooled else 1]),
                (of_c0.score, of_c1.score, of_both.score),
                tested,
                divergence,
                says_p,
            )
        )
    return seen


def _pool(rows: Sequence[I8], weight: F8) -> tuple[I8, F8]:
    """Choose instances of both classes for one network; return (indices, weights that give both classes equal
    totals).

    rows: indices of the instances of each class. Both classes are needed: a variable that is shifted equally
    in all instances of C1 correlates with the class, but with nothing within C1.
    """
    most = _POOL_RATIO * min(len(mine) for mine in rows)
    parts = [_spread(mine, most) for mine in rows]
    weights = [weight[part] / weight[part].sum() * len(parts[0]) for part in parts]
    return np.concatenate(parts), np.concatenate(weights)


def _spread(rows: I8, most: int) -> I8:
    """Select at most `most` rows, evenly spaced."""
    if len(rows) <= most:
        return rows
    return np.asarray(rows[np.linspace(0, len(rows) - 1, most).astype(np.int64)])
