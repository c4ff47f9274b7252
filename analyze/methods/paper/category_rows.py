"""Rows of the sections `categories`, `roots` and `sums` from what paper mode found."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analyze.methods.paper.mutation_rows import ks_row
from analyze.methods.paper.mutations import PaperResult
from analyze.population import Population
from analyze.report.moment_rows import moments_row
from analyze.stats.moments import pooled
from schemas.report.categories import CategoryRow, Role
from schemas.report.mutations import MutationKind
from schemas.report.roots import RootRow
from schemas.report.sums import SumsSection


def category_rows(result: PaperResult, population: Population) -> list[CategoryRow]:
    """Every category, by |change of its summed response time|, ties by key; canonical text whole."""
    change = result.moments.total_us[1] - result.moments.total_us[0]
    roles = _roles(result)
    keys = [c.graph.key for c in population.categories]
    order = sorted(range(len(keys)), key=lambda i: (-abs(change[i]), keys[i]))
    return [
        CategoryRow(
            category=keys[i],
            root=population.categories[i].graph.root,
            canonical=population.categories[i].graph.canonical,
            n_nodes=population.categories[i].graph.n_nodes,
            before=moments_row(result.moments, 0, i),
            after=moments_row(result.moments, 1, i),
            ks=ks_row(result.times, i),
            roles=roles.get(i, ()),
            change_us=float(change[i]),
        )
        for i in order
    ]


def _roles(result: PaperResult) -> dict[int, tuple[Role, ...]]:
    sets: Sequence[tuple[Role, list[int]]] = (
        (Role.STRUCTURAL, result.sets.mutations.tolist()),
        (Role.PRECURSOR, result.sets.precursors.tolist()),
        (Role.RESPONSE_TIME, np.flatnonzero(result.times.changed).tolist()),
    )
    roles: dict[int, tuple[Role, ...]] = {}
    for role, members in sets:
        for i in members:
            roles[i] = (*roles.get(i, ()), role)
    return roles


def root_rows(result: PaperResult, population: Population) -> list[RootRow]:
    """Root types, busiest first, ties by name."""
    rows = []
    for code in np.unique(result.root):
        members = np.flatnonzero(result.root == code)
        together = pooled(result.moments, members)
        rows.append(
            RootRow(
                root=population.categories[int(members[0])].graph.root,
                before=moments_row(together, 0, 0),
                after=moments_row(together, 1, 0),
            )
        )
    return sorted(rows, key=lambda r: (-(r.before.count + r.after.count), r.root))


def sums(result: PaperResult) -> SumsSection:
    """What the contributions add up to, beside the exact change they approximate (B.1b, C.7)."""
    moments = result.moments
    filled = np.nan_to_num(moments.filled_mean_us())
    structural = float((filled[1] * (moments.count[1] - moments.count[0])).sum())
    timing = float((moments.count[0] * (filled[1] - filled[0])).sum())
    estimates = {
        kind: sum(m.contribution_us for m in result.mutations if m.kind is kind) for kind in MutationKind
    }
    guess_s, guess_t = estimates[MutationKind.STRUCTURAL], estimates[MutationKind.RESPONSE_TIME]
    return SumsSection(
        total_change_us=float(moments.total_us[1].sum() - moments.total_us[0].sum()),
        structural_estimate_us=guess_s,
        structural_exact_us=structural,
        structural_error=(guess_s - structural) / abs(structural) if structural else None,
        response_time_estimate_us=guess_t,
        response_time_exact_us=timing,
        response_time_error=(guess_t - timing) / abs(timing) if timing else None,
    )
