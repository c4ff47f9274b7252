"""Two modes that show the harness measures: one reads the truth, one guesses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from evaluation.modes import Result
from evaluation.scoring import Evidence, is_relevant

from analyze.population import Population


def every_category(population: Population, evidence: Evidence) -> list[Result]:
    """A result for every category with requests in the problem period, as favourable as truth allows.

    Kind, precursor and edges are right wherever some right ones exist, so that only the choice of the
    category is left: to knowledge or to chance.
    """
    rule = evidence.rule
    results = []
    for category in population.categories:
        graph = category.graph
        rows = evidence.categories[graph.key].rows1
        if len(rows) == 0:
            continue
        moved = float(evidence.problem.moved[rows].mean()) >= rule.least_share
        is_structural = rule.structural and (moved or not rule.response_time)
        labels = graph.labels
        edges = [(labels[s], labels[d]) for s, d in graph.edges.tolist()]
        results.append(
            Result(
                kind="structural" if is_structural else "response-time",
                categories=(graph.key,),
                precursors=_precursor(graph.key, evidence) if is_structural else (),
                edges=evidence.is_cause_edge.among(edges),
            )
        )
    return results


def _precursor(key: str, evidence: Evidence) -> tuple[str, ...]:
    """The category that the concerned requests of `key` would have been in, if the rule takes it.

    Else (they may have gone where no reference request did) the largest one with their operations that it
    takes.
    """
    rule = evidence.rule
    if rule.precursor is None:
        return ()
    rows = evidence.categories[key].rows1
    wanted = evidence.problem.base_path[rows[evidence.concerned[rows]]]
    ops = np.unique(evidence.problem.op[rows].astype(str))
    reference, result = evidence.reference, evidence.problem.take(rows)
    like_it = np.isin(reference.path, wanted)
    same_op = np.isin(reference.op.astype(str), ops)
    candidates = sorted(
        (-int(like_it[c.rows0].sum()), -int(same_op[c.rows0].sum()), k)
        for k, c in evidence.categories.items()
        if same_op[c.rows0].any()
    )
    for _, _, candidate in candidates:
        if rule.precursor(result, reference.take(evidence.categories[candidate].rows0)):
            return (candidate,)
    return ()


def cheat(population: Population, evidence: Evidence) -> list[Result]:
    """The results that are right, those with most concerned requests first: what no analysis can beat."""
    right = [r for r in every_category(population, evidence) if is_relevant(r, evidence)]

    def weight(result: Result) -> float:
        truth = evidence.categories[result.categories[0]]
        return float(truth.weight1[evidence.concerned[truth.rows1]].sum())

    return sorted(right, key=lambda r: (-weight(r), r.categories))


def guess(pool: Sequence[Result], n: int, rng: np.random.Generator) -> list[Result]:
    """`n` of the results drawn at random, in random order."""
    return [pool[i] for i in rng.permutation(len(pool))[:n]]
