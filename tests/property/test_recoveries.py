"""A failure that got mended is told in as many findings as the failure was."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from oracles.failing_programs import Program
from oracles.refined import Call, population
from oracles.span_events import T0

from analyze.compare import compare
from analyze.methods.port import Chosen
from analyze.methods.robust.method import METHOD
from analyze.methods.robust.robust_settings import RobustSettings
from analyze.population import Sample
from schemas.report.findings import Finding, FindingsSection

N = 100


def findings(reference: list[Call], problem: list[Call]) -> tuple[Finding, ...]:
    hour, second = 3_600 * 10**9, 10**9
    samples = tuple(
        Sample(name, "", T0 + at * hour, T0 + at * hour + N * second)
        for at, name in enumerate(("reference", "problem"))
    )
    found = replace(population(reference, problem), samples=samples)
    section = compare(found, [Chosen(METHOD, RobustSettings(paths=False))]).report.section(FindingsSection)
    assert section is not None
    return section.findings


def both_ways(seed: int) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """Findings of the failure, and of its end."""
    rng = random.Random(seed)
    program = Program.drawn(rng)
    fine, broken = (program.requests(rng, N, fails=fails) for fails in (False, True))
    return findings(fine, broken), findings(broken, fine)


@pytest.mark.parametrize("seed", [1, 3, 6, 9])
def test_a_failure_that_is_mended_is_as_many_findings(seed: int) -> None:
    failure, end = both_ways(seed)
    assert len(end) == len(failure) == 1
