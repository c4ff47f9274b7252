"""What a gate weighs of statistics is what it weighs of the requests that they were made of."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from oracles.refined import Call, call, population
from oracles.span_events import T0

from analyze.compare import compare
from analyze.methods.port import Chosen
from analyze.methods.robust.method import METHOD
from analyze.methods.robust.settings import RobustSettings
from analyze.population import Sample
from analyze.profile.build import profile_of
from analyze.profile.profile import Slot
from analyze.profile.samples import ComparedSamples

N, SECOND_NS, HOUR_NS = 800, 10**9, 3_600 * 10**9


def requests(slow_us: float) -> list[Call]:
    """Every third takes longer, and the others less, so that the mean stays."""
    rng = np.random.default_rng(5)
    ends = 700 + 400 * rng.lognormal(0, 0.2, N) + np.where(np.arange(N) % 3, -slow_us / 2, slow_us)
    return [call("web/get", 0, end + 50, call("db/read", 20, end)) for end in ends.tolist()]


def test_a_tail_that_nothing_explains_is_open_for_the_same_kinds() -> None:
    """Statistics have no breakdown of slow requests: that they changed is known all the same."""
    starts = [T0 + at * HOUR_NS for at in range(2)]
    samples = tuple(Sample(name, "", at, at + N * SECOND_NS) for name, at in zip("ab", starts, strict=True))
    made = replace(population(requests(0.0), requests(600.0)), samples=samples)
    slots = [
        Slot(sample, begin + at * SECOND_NS, begin + (at + N // 20) * SECOND_NS)
        for sample, begin in enumerate(starts)
        for at in range(0, N, N // 20)
    ]
    # So sure a test is of nothing: there is no finding.
    chosen = Chosen(METHOD, RobustSettings(paths=False, min_z=30.0))
    outcomes = [
        compare(one, [chosen])
        for one in (made, ComparedSamples.of_statistics(samples, profile_of(made, slots).profile))
    ]
    for outcome in outcomes:
        assert outcome.report.methods[0].verdict.outcome == "not-explained"
        assert {(w.kind, w.sure) for w in outcome.weighed} == {
            (kind, False) for kind in ("response-time", "structural", "workload")
        }
