"""Advice: where a trace point or a label would tell behaviours apart, or a parameter does (VF §4.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from analyze.explain.chosen_requests import Selection
from analyze.methods.variance.group_parts import GroupParts
from analyze.methods.variance.merged_behaviours import TwoBehaviours, two_behaviours
from analyze.population import Population
from analyze.profile.names import PartName
from schemas.arrays import B1, F8
from schemas.report.explanations import Explanation


@dataclass(frozen=True, slots=True)
class Advice:
    """An edge that merges two behaviours, as it is in the group to which it adds most."""

    group: int
    part: int
    name: PartName
    worth: float
    """Impact of the groups times share of the edge in them: a part of the variance of all."""
    found: TwoBehaviours
    groups: int = 1
    """Groups in which it does."""
    explanation: Explanation | None = None
    """What tells the two apart in the parameters that are there; None: not asked for."""


def merged_parts(
    group: int, parts: GroupParts, share: F8, impact: float, *, least_share: float, seed: int
) -> list[Advice]:
    """Advice on the parts of a group that have at least a share of its variance and no marker."""
    found = []
    for part in np.flatnonzero((share >= least_share) & ~parts.marked).tolist():
        two = two_behaviours(parts.us[part], seed=seed)
        if two is not None:
            found.append(Advice(group, part, parts.names[part], impact * float(share[part]), two))
    return found


def explained(
    population: Population, advice: Sequence[Advice], parts: dict[int, GroupParts], most: int
) -> list[Advice]:
    """One piece of advice an edge label, by worth; of the first `most` the parameters are held against the
    two behaviours."""
    by_label: dict[str, list[Advice]] = {}
    for one in sorted(advice, key=lambda one: (-one.worth, one.group, one.part)):
        by_label.setdefault(one.name.text, []).append(one)
    merged = [
        replace(alike[0], worth=sum(one.worth for one in alike), groups=len({one.group for one in alike}))
        for alike in by_label.values()
    ]
    ordered = sorted(merged, key=lambda one: (-one.worth, one.group, one.part))
    return [
        replace(one, explanation=_explanation(population, parts[one.group], one)) if place < most else one
        for place, one in enumerate(ordered)
    ]


def _explanation(population: Population, parts: GroupParts, advice: Advice) -> Explanation:
    # Here: they bring scipy.stats, a second's worth, and most runs have nothing to explain.
    from analyze.explain.explanation import explain
    from analyze.explain.feature_table import features

    us = parts.us[advice.part]
    slow = us > advice.found.cut_us
    table = features(
        population,
        _selection(parts, slow),
        _selection(parts, (us > 0) & ~slow),
        words=("slow requests", "fast requests"),
    )
    return explain(table)


def _selection(parts: GroupParts, chosen: B1) -> Selection:
    category, row = parts.category[chosen], parts.row[chosen]
    return Selection({int(c): np.sort(row[category == c]) for c in np.unique(category)})
