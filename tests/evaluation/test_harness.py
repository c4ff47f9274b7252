"""The harness itself: knowing the truth scores perfectly, guessing at chance."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from evaluation.drift import drift_us
from evaluation.modes import ROBUST, modes
from evaluation.reference_modes import cheat, every_category, guess
from evaluation.scoring import covered_weight, is_relevant, score
from evaluation.trials import Prepared, Trial, prepare

from simulator.output import RunFormat

pytestmark = pytest.mark.evaluation

TRACED = 1_000
prepared = cache(prepare)


@pytest.fixture(
    scope="module",
    params=[("8.2", RunFormat.NATIVE), ("8.6-500", RunFormat.OTLP_JSON)],
    ids=lambda p: f"{p[0]}-{p[1]}",
)
def ready(request: pytest.FixtureRequest) -> Prepared:
    case, told_as = request.param
    return prepared(Trial(case, 1, TRACED, 1.0, told_as))


def test_reading_the_truth_scores_perfectly(ready: Prepared) -> None:
    found = score(cheat(ready.subject.population, ready.evidence), ready.evidence, None, None)
    assert found.results >= 10
    assert (found.top10_pct, found.false_positive_pct, found.first_rank) == (100.0, 0.0, 1)
    assert found.coverage_pct == pytest.approx(100.0)


def test_a_random_ranking_scores_at_chance(ready: Prepared) -> None:
    """Of N categories m are relevant. A random n of them: FP 1 - m/N, top 10 m/N, coverage n/N; of all in
    random order, the first relevant one is at (N + 1) / (m + 1). Means over draws, within four standard
    errors.
    """
    evidence = ready.evidence
    pool = every_category(ready.subject.population, evidence)
    relevant = [r for r in pool if is_relevant(r, evidence)]
    size, hits = len(pool), len(relevant)
    assert 0 < hits < size
    rng = np.random.default_rng(7)
    n, draws = 30, 40
    few = [score(guess(pool, n, rng), evidence, None, None) for _ in range(draws)]
    every = [score(guess(pool, size, rng), evidence, None, None) for _ in range(draws)]
    share = 100.0 * hits / size
    reachable = 100.0 * covered_weight(relevant, evidence) / evidence.concerned_weight
    for values, expected in (
        ([s.false_positive_pct for s in few], 100.0 - share),
        ([s.top10_pct for s in few], share),
        ([s.coverage_pct for s in few], reachable * n / size),
        ([s.first_rank for s in every], (size + 1) / (hits + 1)),
        ([s.false_positive_pct for s in every], 100.0 - share),
        ([s.coverage_pct for s in every], reachable),
    ):
        drawn = np.array(values, dtype=np.float64)
        spread = 4.0 * float(drawn.std()) / np.sqrt(draws)
        assert drawn.mean() == pytest.approx(expected, abs=spread + 1e-6)


def test_both_tellings_have_the_same_truth() -> None:
    first, second = (prepared(Trial("8.6-500", 1, TRACED, 1.0, f)) for f in RunFormat)
    assert first.evidence.concerned.tolist() == second.evidence.concerned.tolist()
    assert first.evidence.concerned_weight == second.evidence.concerned_weight > 0


def test_what_a_finding_claims_less_what_drifted_is_what_the_fault_did() -> None:
    """To a hundredth; with the drift it is a fifth off."""
    ready = prepared(Trial("8.2", 1, TRACED, 1.0, RunFormat.NATIVE))
    (robust,) = (mode for mode in modes() if mode.name == ROBUST)
    (result,) = robust.analyse(ready.subject, 0).results
    assert ready.without_fault is not None
    assert result.explained_us is not None
    (drift,) = drift_us(ready.subject.population, ready.without_fault())
    (cause,) = ready.truths1[0].summary.causes
    assert result.explained_us - drift == pytest.approx(cause.share_ns / 1e3, rel=0.01)


def test_first_and_last_creates_share_no_request() -> None:
    ready = prepare(Trial("8.5", 1, TRACED, 1.0))
    before, after = ready.evidence.reference, ready.evidence.problem
    assert set(before.op) == set(after.op) == {"CREATE"}
    assert len(before) == len(after) == ready.n_creates > 20
    assert before.start_ns.max() < after.start_ns.min()
    assert len(ready.subject.population.categories) > 0
