"""Explain path changes by a changed mix of root types, if requests of each root type take the same paths as
before."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analyze.methods.robust.changes import Change
from analyze.methods.robust.comparison import Comparison
from analyze.methods.robust.confounders.port import Confounder, Explained, counted_changes
from schemas.arrays import F8
from schemas.report.findings import ChangeKind


class RootMix(Confounder):
    """Confounder for a changed mix of root types: explains changes between known paths at sites that several
    root types pass."""

    name = "root-mix"
    doc = "Fewer requests of one type pass a shared point: no request takes another path."
    case = "tests/unit/test_root_mix.py"

    def explains(self, changes: Sequence[Change], comparison: Comparison) -> Explained | None:
        """Explain path changes that disappear, or are less than half as large, if requests of one root type
        are compared."""
        floor = comparison.settings.pattern_floor
        found = []
        for change in changes:
            if change.kind is ChangeKind.PATH:
                whole, within = _moved(change, comparison)
                if abs(within) < min(floor, abs(whole) / 2) and whole * (change.after - change.before) > 0:
                    found.append(change)
        if not found:
            return None
        names = comparison.profile.names
        first = names.operation(max(found, key=lambda change: abs(change.z)).site)
        return Explained(
            "load",
            f"The mix of request types differs: it explains {counted_changes(found)} (first "
            f"{first.component}/{first.point}), whose paths requests of each type take as before.",
            tuple(found),
        )


def _moved(change: Change, comparison: Comparison) -> tuple[float, float]:
    """Change of the share of a call pattern from reference to problem: (among all requests, within root
    types); the second is inf if fewer than two root types pass the site."""
    roles, population = comparison.roles, comparison.population
    touching: dict[str, F8] = {}
    taking: dict[str, F8] = {}
    for group in comparison.profiled.groups:
        here = group.sites.pattern_of[group.sites.pattern_site == change.site]
        if not len(here):
            continue
        category = population.categories[group.category]
        part = float((here == change.pattern).mean())
        weight = category.weight[group.rows]
        sides = np.array([weight[side[group.slot]].sum() for side in (roles.reference, roles.problem)])
        root = category.graph.root
        touching[root] = touching.get(root, np.zeros(2)) + sides
        taking[root] = taking.get(root, np.zeros(2)) + part * sides
    if len(touching) < 2:
        return 0.0, np.inf
    n, x = np.array(list(touching.values())), np.array(list(taking.values()))
    with np.errstate(divide="ignore", invalid="ignore"):
        whole = np.subtract(*(x.sum(axis=0) / n.sum(axis=0))[::-1])
        both = (n > 0).all(axis=1)
        shares = (x / n)[both]
        counts = (n.prod(axis=1) / n.sum(axis=1))[both]
        within = (counts * (shares[:, 1] - shares[:, 0])).sum() / counts.sum()
    return float(whole), float(within) if both.any() else np.inf
