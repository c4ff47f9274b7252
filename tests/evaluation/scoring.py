"""Results held against the truth: relevance by rule, then the figures of TR 6.1 and NSDI 8.1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from evaluation.causes import CauseSite
from evaluation.edges import EdgeMatcher
from evaluation.modes import Result
from evaluation.truths import RequestTruth, Rule

from analyze.population import Population

B1 = npt.NDArray[np.bool_]
F8 = npt.NDArray[np.float64]

TOP = 10
LEAST_CHANGE = 0.05
"""Of the mean response time: shares are not taken of a smaller change."""


@dataclass(frozen=True, slots=True)
class CategoryTruth:
    """What the requests of one category really did."""

    rows1: npt.NDArray[np.int64]
    """Rows of the problem period's truth."""
    rows0: npt.NDArray[np.int64]
    weight1: F8
    """[rows1]"""


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that results of one subject are judged by."""

    rule: Rule
    reference: RequestTruth
    problem: RequestTruth
    concerned: B1
    """[problem requests]"""
    categories: dict[str, CategoryTruth]
    is_cause_edge: EdgeMatcher
    weight1: float
    """Of a request of the problem period that is in no category (every one of a run has the same)."""
    causes: tuple[CauseSite, ...] = ()
    """What was injected, as findings may name it."""

    @property
    def concerned_weight(self) -> float:
        """Of all concerned requests, whether or not the analyzer kept them."""
        placed = np.zeros(len(self.concerned), dtype=bool)
        total = 0.0
        for c in self.categories.values():
            placed[c.rows1] = True
            total += float(c.weight1[self.concerned[c.rows1]].sum())
        return total + self.weight1 * int(np.count_nonzero(self.concerned & ~placed))


def gather(
    population: Population,
    rule: Rule,
    reference: RequestTruth,
    problem: RequestTruth,
    is_cause_edge: EdgeMatcher,
    causes: tuple[CauseSite, ...] = (),
) -> Evidence:
    """Join a population's categories to the truth of their requests."""
    categories = {}
    weights = []
    for category in population.categories:
        late = category.sample == 1
        weight = category.weight[late]
        weights.append(weight)
        categories[category.graph.key] = CategoryTruth(
            rows1=problem.rows(category.request_id.filter(late)),
            rows0=reference.rows(category.request_id.filter(~late)),
            weight1=weight,
        )
    every = np.concatenate(weights) if weights else np.zeros(0)
    return Evidence(
        rule=rule,
        reference=reference,
        problem=problem,
        concerned=rule.affected(problem),
        categories=categories,
        is_cause_edge=is_cause_edge,
        weight1=float(every.mean()) if len(every) else 1.0,
        causes=causes,
    )


def is_relevant(result: Result, evidence: Evidence) -> bool:
    """Whether a result is right, by the case's rule; a finding, if it names an injected cause."""
    rule = evidence.rule
    if result.finding is not None:
        return any(cause.named_by(result.finding) for cause in evidence.causes)
    if not (rule.structural if result.kind == "structural" else rule.response_time):
        return False
    members = [evidence.categories[key] for key in dict.fromkeys(result.categories)]
    rows = np.concatenate([m.rows1 for m in members])
    weight = np.concatenate([m.weight1 for m in members])
    concerned = evidence.concerned[rows]
    if result.kind == "structural":
        concerned = concerned & evidence.problem.moved[rows]
    if weight.sum() == 0 or weight[concerned].sum() < rule.least_share * weight.sum():
        return False
    if result.kind == "response-time":
        return any(evidence.is_cause_edge(*edge) for edge in result.edges)
    if rule.precursor is None:
        return True
    if not result.precursors:
        return False
    best = evidence.categories[result.precursors[0]]
    return rule.precursor(evidence.problem.take(rows), evidence.reference.take(best.rows0))


def covered_weight(results: Sequence[Result], evidence: Evidence) -> float:
    """Weight of the concerned requests in the categories of `results`, each counted once."""
    keys = {key for result in results for key in result.categories}
    parts = [evidence.categories[key] for key in sorted(keys)]
    return sum(float(p.weight1[evidence.concerned[p.rows1]].sum()) for p in parts)


@dataclass(frozen=True, slots=True)
class Scores:
    """The figures of one list of results."""

    results: int
    relevant: int
    top10_pct: float
    """0 without results."""
    false_positive_pct: float
    """0 without results."""
    coverage_pct: float | None
    """None where no request is concerned."""
    first_rank: int | None
    """Rank of the first relevant result, from 1."""
    false_members_pct: float | None
    """Findings: categories that are members of one and hold too few concerned requests, among all members."""
    causes_named: int | None
    """Findings: injected causes that one of them names."""
    explained_error_points: float | None
    """|claimed by the relevant results - true share| of the true change of the mean, in points; None where
    nothing is explained or nothing changed."""


def figures(relevant: Sequence[bool], covered: float, concerned: float) -> Scores:
    """Scores of a ranked list of judged results (without the explained share)."""
    n = len(relevant)
    top = min(TOP, n)
    return Scores(
        results=n,
        relevant=sum(relevant),
        top10_pct=100.0 * sum(relevant[:top]) / top if n else 0.0,
        false_positive_pct=100.0 * (n - sum(relevant)) / n if n else 0.0,
        coverage_pct=100.0 * covered / concerned if concerned > 0 else None,
        first_rank=next((rank for rank, hit in enumerate(relevant, 1) if hit), None),
        false_members_pct=None,
        causes_named=None,
        explained_error_points=None,
    )


def score(
    results: Sequence[Result],
    evidence: Evidence,
    true_share_us: float | None,
    true_change_us: float | None,
    *,
    drift_us: Sequence[float] | None = None,
    base_mean_us: float = 0.0,
) -> Scores:
    """Judge and score the results of one mode.

    true_share_us: what the causes did to the mean response time (their Shapley values); true_change_us: the
    change of the mean against the counterfactual. None where the truth has neither. drift_us: [results] what
    of each claim is drift between the runs. Shares are of the true change, or of a twentieth of the mean
    (`base_mean_us`) where that is more: of next to nothing nobody can claim a share.
    """
    judged = [is_relevant(result, evidence) for result in results]
    right = [result for result, hit in zip(results, judged, strict=True) if hit]
    plain = figures(judged, covered_weight(right, evidence), evidence.concerned_weight)
    error = None
    drift = [0.0] * len(results) if drift_us is None else drift_us
    claims = [
        result.explained_us - moved
        for result, moved, hit in zip(results, drift, judged, strict=True)
        if hit and result.explained_us is not None
    ]
    if claims and true_share_us is not None and true_change_us:
        whole = max(abs(true_change_us), LEAST_CHANGE * base_mean_us)
        error = 100.0 * abs(sum(claims) - true_share_us) / whole
    return replace(
        plain,
        false_members_pct=false_members(results, evidence),
        causes_named=_named(results, evidence),
        explained_error_points=error,
    )


def false_members(results: Sequence[Result], evidence: Evidence) -> float | None:
    """Among the categories of all findings: those with less than the rule's share of concerned requests, %.

    Categories without a request of the problem period (lost paths) are not counted. None: no members.
    """
    keys = {key for result in results if result.finding is not None for key in result.categories}
    shares = []
    for key in sorted(keys):
        member = evidence.categories[key]
        total = float(member.weight1.sum())
        if total:
            shares.append(float(member.weight1[evidence.concerned[member.rows1]].sum()) / total)
    if not shares:
        return None
    return 100.0 * sum(share < evidence.rule.least_share for share in shares) / len(shares)


def _named(results: Sequence[Result], evidence: Evidence) -> int | None:
    findings = [result.finding for result in results if result.finding is not None]
    if not findings:
        return None
    return sum(any(cause.named_by(finding) for finding in findings) for cause in evidence.causes)
