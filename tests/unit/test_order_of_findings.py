"""What leads where some things got slower and others faster."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from oracles.populations import chain, population

from analyze.compare import compare
from analyze.methods.port import Chosen
from analyze.methods.robust.causes.resolve import BETTER_LAST
from analyze.methods.robust.method import METHOD
from analyze.methods.robust.settings import RobustSettings
from analyze.population import Sample
from schemas.report.findings import FindingsSection

LABELS = ("shop/get", "store/read", "search/find", "cart/add")
MS = 1_000_000
N = 200


def findings(before_ms: tuple[int, ...], after_ms: tuple[int, ...], *without: str) -> list[tuple[str, bool]]:
    """Compare requests whose steps take about so long: (title, whether for the better) of each finding."""
    rng = np.random.default_rng(1)
    rows = [
        (rng.lognormal(0, 0.1, (N, len(LABELS) - 1)) * steps * MS).astype(int).tolist()
        for steps in (np.array(before_ms), np.array(after_ms))
    ]
    starts = np.concatenate([np.arange(N) * 1_000 // N + at for at in (0, 1_000)]).astype(np.int64)
    samples = (Sample("reference", "", 0, 1_000), Sample("problem", "", 1_000, 2_000))
    made = population(replace(chain(list(LABELS), *rows), start_ns=starts), samples=samples)
    (section,) = [
        one
        for one in compare(made, [Chosen(METHOD, RobustSettings(without=without))]).report.sections
        if isinstance(one, FindingsSection)
    ]
    assert section.better_total == sum(finding.is_better for finding in section.findings) == 1
    return [(finding.title, finding.is_better) for finding in section.findings]


@pytest.mark.parametrize(
    ("cart_ms", "first"), [(2, "search/find"), (900, "cart/add")], ids=["the mean fell", "the mean rose"]
)
def test_what_the_mean_fell_by_leads_and_what_got_better_comes_last_where_it_rose(
    cart_ms: int, first: str
) -> None:
    found = findings((2, 400, 2), (4, 10, cart_ms))
    assert first in found[0][0]
    assert [better for _, better in found] == sorted(
        (better for _, better in found), reverse=first == "search/find"
    )


def test_by_size_alone_a_reader_would_see_first_what_needs_no_mending() -> None:
    steps = (2, 400, 2), (250, 10, 250)
    assert [better for _, better in findings(*steps)] == [False, False, True]
    assert findings(*steps, BETTER_LAST)[0][1], "the rule pays its rent"
