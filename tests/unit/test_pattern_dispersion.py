"""What all call patterns say of two periods together: other requests were made, or one place changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from oracles.refined import Call, call, population
from oracles.span_events import T0

from analyze.compare import compare
from analyze.methods.port import Chosen
from analyze.methods.robust.method import METHOD
from analyze.methods.robust.pattern_dispersion import PATTERN_DISPERSION, least_median
from analyze.methods.robust.settings import RobustSettings
from analyze.population import Sample
from schemas.arrays import F8
from schemas.report.findings import FindingsSection

HOUR_NS, MINUTE_NS = 3_600 * 10**9, 60 * 10**9
SITES, REQUESTS = 12, 12


def requests(of_one_kind: int, calls: int) -> list[Call]:
    """Twelve pages that read from one of two tables, and one that calls a bank, or no more."""
    pages = [
        call(f"page{site}/get", 0, 1_000, call(f"db{site}/{'a' if at < of_one_kind else 'b'}", 10, 900))
        for site in range(SITES)
        for at in range(REQUESTS)
    ]
    bank = [call("bank/pay", 10, 900)] * calls
    return pages + [call("shop/get", 0, 1_000, *bank) for _ in range(10)]


@pytest.mark.parametrize(
    ("kinds", "without", "finds"),
    [((6, 6), (), True), ((10, 2), (), False), ((10, 2), (PATTERN_DISPERSION,), True)],
)
def test_a_path_of_few_requests_counts_only_where_the_others_are_alike(
    kinds: Sequence[int], without: tuple[str, ...], finds: bool
) -> None:
    """Ten of ten is no chance where requests are independent; where all mixes moved, it is one more."""
    samples = tuple(
        Sample(name, "", T0 + at * HOUR_NS, T0 + at * HOUR_NS + 4 * MINUTE_NS)
        for at, name in enumerate(("reference", "problem"))
    )
    before, after = (requests(kind, to) for kind, to in zip(kinds, (1, 0), strict=True))
    found = replace(population(before, after), samples=samples)
    settings = RobustSettings(without=without)
    section = compare(found, [Chosen(METHOD, settings)]).report.section(FindingsSection)
    assert section is not None
    assert ("shop/get" in [finding.site.text for finding in section.findings]) == finds
    assert finds or not section.findings


def test_the_bound_is_that_of_the_median() -> None:
    """Four times as much as chance is four times; a tenth of the sites that changed does not matter."""

    def bound(z2: F8) -> float:
        return least_median(z2, 10, 0.9)

    z2 = np.random.default_rng(1).chisquare(1, 4_000)
    z2[:400] = 1e6
    assert bound(z2) == pytest.approx(1.2, abs=0.15)
    assert bound(4 * z2) == pytest.approx(4 * bound(z2))
    assert bound(z2[400:420]) < 1
    assert bound(np.full(9, 50.0)) == 1
