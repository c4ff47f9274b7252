"""Step-by-step accounts of the time of a mutation's requests, before and after."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from analyze.paths.alignment import Pair, aligned_steps
from analyze.paths.critical_path import Attribution, critical_time_us
from analyze.population import Category
from analyze.report.model_values import node_name
from schemas.arrays import B1, F8
from schemas.report.parts import StepAccount, StepRow


def timing_account(category: Category, found: Attribution, changed: B1, limit: int) -> StepAccount:
    """Account of one category in both samples: time of each step on the critical path, µs per request.

    A step's time is the sum over the edges into it; the differences of all steps add up to the change of the
    mean. changed: [edges] True where a test rejected; limit: approximate maximum number of rows.
    """
    steps = range(category.graph.n_nodes)
    return _account(
        (category, category),
        _by_step(category, found.criticality_0 * found.critical_mean_0_us),
        _by_step(category, found.criticality_1 * found.critical_mean_1_us),
        [(step, step) for step in steps],
        limit,
        tested=_by_step(category, changed.astype(np.float64)) > 0,
    )


def structural_account(mutation: Category, precursor: Category, limit: int) -> StepAccount:
    """Account of a precursor's requests before and a mutation's requests after, with steps aligned by name.

    precursor: the mutation itself if the path that its requests took before is unknown.
    """
    return _account(
        (precursor, mutation),
        _by_step(precursor, critical_time_us(precursor, 0)),
        _by_step(mutation, critical_time_us(mutation, 1)),
        aligned_steps(precursor.graph, mutation.graph),
        limit,
        tested=np.zeros(mutation.graph.n_nodes, np.bool_),
    )


def _by_step(category: Category, by_edge: F8) -> F8:
    """[nodes] sum of `by_edge`, [edges], over the edges into each node."""
    sums = np.zeros(category.graph.n_nodes)
    np.add.at(sums, category.graph.edges[:, 1], by_edge)
    return sums


def _account(
    sides: tuple[Category, Category],
    before_us: F8,
    after_us: F8,
    pairs: Sequence[Pair],
    limit: int,
    *,
    tested: B1,
) -> StepAccount:
    rows = [
        StepRow(
            before=None if i is None else node_name(sides[0].graph.nodes[i]),
            after=None if j is None else node_name(sides[1].graph.nodes[j]),
            before_us=0.0 if i is None else float(before_us[i]),
            after_us=0.0 if j is None else float(after_us[j]),
            tested=j is not None and bool(tested[j]),
        )
        for i, j in pairs
    ]
    return StepAccount(
        category0=sides[0].graph.key,
        category1=sides[1].graph.key,
        requests0=_count(sides[0], 0),
        requests1=_count(sides[1], 1),
        mean0_us=float(before_us.sum()),
        mean1_us=float(after_us.sum()),
        rows=tuple(bounded(rows, limit)),
    )


def _count(category: Category, sample: int) -> int:
    return len(category.sample[category.rows(sample)])


def bounded(rows: Sequence[StepRow], limit: int) -> list[StepRow]:
    """Shorten an account to at most `limit` rows: the steps with the largest parts remain, consecutive steps
    between them are merged."""
    if len(rows) <= limit:
        return list(rows)
    by_part = sorted(range(len(rows)), key=lambda k: (-abs(rows[k].part_us), k))
    kept = set(by_part[: (limit - 1) // 2])
    short: list[StepRow] = []
    for is_kept, group in itertools.groupby(range(len(rows)), key=lambda k: k in kept):
        stretch = [rows[k] for k in group]
        short += stretch if is_kept or len(stretch) == 1 else [StepRow.together(stretch)]
    return short
