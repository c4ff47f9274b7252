"""The rows on the data of a comparison, by small populations made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from oracles.blocks_of_requests import period_blocks, period_requests, root_types, tail_thresholds
from oracles.period_traffic import PERIOD, blocks_of, drawn
from oracles.refined import Call, call, population

from analyze.methods.robust.period_blocks import PeriodBlocks
from analyze.methods.robust.settings import VerdictSettings
from analyze.methods.robust.verdict.data_quality import (
    excluded_rows,
    history_rows,
    quality_rows,
    sampling_rows,
    useless_rows,
)
from analyze.methods.robust.verdict.load import mix_change, rate_changes
from analyze.population import Population
from schemas.report.accounts import QualityRow, VerdictSection

SETTINGS = VerdictSettings()


def failing(n: int, k: int) -> list[Call]:
    return [call("a/x", 0, 100 + at % 7, status="no" if at < k else "ok") for at in range(n)]


def sides_of(found: Population) -> tuple[PeriodBlocks, PeriodBlocks]:
    before, after = period_requests(found, 0), period_requests(found, 1)
    limits = tail_thresholds(before)
    roots = len(root_types(found))
    return period_blocks(before, roots, [], limits), period_blocks(after, roots, [], limits)


def all_rows(
    found: Population, sides: tuple[PeriodBlocks, PeriodBlocks], roots: Sequence[str]
) -> list[QualityRow]:
    return list(
        quality_rows(
            found,
            *sides,
            roots,
            SETTINGS,
            mix_change(*sides, SETTINGS),
            rate_changes(*sides, roots, SETTINGS),
        )
    )


def rows_of(found: Population) -> list[QualityRow]:
    return all_rows(found, sides_of(found), root_types(found))


def test_rows_of_an_ordinary_pair() -> None:
    rows = rows_of(population(failing(60, 2), failing(60, 3)))
    assert [(row.kind, row.severe) for row in rows] == [("sampling", False)]
    VerdictSection(
        outcome="unchanged",
        external=False,
        reasons=(),
        quality=tuple(rows),
        visible=(),
        untested_requests=0,
        missing_requests=None,
        equivalent_share=None,
        calibration="",
    )


def test_names_with_ids_come_first() -> None:
    calls = [call(f"User: fs -mkdir dir_{at}/go", 0, 100) for at in range(40)]
    rows = rows_of(population(calls[:20], calls[20:]))
    assert [row.kind for row in rows[:2]] == ["labels", "labels"]
    assert "40 root types in 40 traces" in rows[0].text
    assert "A smaller refine.max_names, say 20, folds" in rows[0].text
    assert rows[0].severe
    # Names are folded component by component.
    calls = [call(f"user{at % 10}/mk dir_{at // 10}", 0, 100) for at in range(150)]
    (row,) = (row for row in rows_of(population(calls, calls[:50])) if row.kind == "labels")
    assert "150 root types in 200 traces" in row.text
    assert "A smaller refine.max_names, say 14, folds" in row.text


@pytest.mark.parametrize(
    ("failing", "is_said"), [((0.6, 1.0), True), ((0.6, 0.4), False), ((0.0, 1.0), False)]
)
def test_that_many_requests_fail_in_both_periods_is_said_first(
    failing: tuple[float, float], is_said: bool
) -> None:
    rng = np.random.default_rng(2)
    before, after = (period_blocks(drawn(rng, 300, failing=share), 1, [PERIOD]) for share in failing)
    rows = list(useless_rows(before, after, SETTINGS))
    assert [row.severe for row in rows] == [True] * is_said
    assert not is_said or "and 100\xa0% of the requests fail in both periods" in rows[0].text


@pytest.mark.parametrize(("us", "named"), [((0, 0), "reference or of the problem"), ((5, 0), "problem")])
def test_that_no_request_took_any_time_is_said_first(us: tuple[int, int], named: str) -> None:
    rows = rows_of(population(*([call("a/x", 0, took)] * 30 for took in us)))
    assert f"No request of the {named} took any time" in rows[0].text
    assert not [
        row for row in rows_of(population([call("a/x", 0, 1)], [call("a/x", 0, 1)])) if "took" in row.text
    ]


def test_load_and_mix_are_told() -> None:
    rng = np.random.default_rng(2)
    roots = ["a/x", "b/y"]
    before, after = drawn(rng, 400), drawn(rng, 1_600, roots=2)
    sides = blocks_of(before, after, 2)
    rows = all_rows(population([call("a/x", 0, 1)]), sides, roots)
    kinds = {row.kind: row for row in rows}
    assert kinds["load"].severe
    assert "1.33 → 5.33" in kinds["load"].text
    assert "b/y" in kinds["load"].text
    assert kinds["mix"].severe
    assert "a/x 100\xa0% → " in kinds["mix"].text
    assert not all_rows(population([call("a/x", 0, 1)]), (sides[0], sides[0]), roots)[1:]


def test_sampling_that_differs() -> None:
    one = 1.0
    (row,) = sampling_rows(one, 4.0, (1.0, 1.0), SETTINGS)
    assert "stands for 1 in the reference and 4 in the problem" in row.text
    assert not list(sampling_rows(one, one, (1.0, 1.0), SETTINGS))
    (row,) = sampling_rows(one, one, (1.0, 0.5), SETTINGS)
    assert row.severe
    assert [row.severe for row in sampling_rows(one, one, (0.5, 0.5), SETTINGS)] == [False]


def test_flows_left_out() -> None:
    (row,) = excluded_rows({"INCOMPLETE": (0, 50)}, (1_000, 950), SETTINGS)
    assert row.severe
    assert "5.0\xa0% of the" in row.text
    assert not list(excluded_rows({"INCOMPLETE": (20, 21)}, (1_000, 950), SETTINGS))
    (row,) = excluded_rows({"CYCLE": (100, 101)}, (900, 900), SETTINGS)
    assert not row.severe
    (row,) = excluded_rows({"CYCLE": (1, 0)}, (0, 900), SETTINGS)
    assert "100\xa0% of the reference" in row.text
    assert not list(excluded_rows({"CYCLE": (1, 0)}, (5, 0), SETTINGS))


def joined(windows: Sequence[PeriodBlocks]) -> PeriodBlocks:
    """A block for each window."""
    whole = [window.whole() for window in windows]
    names = PeriodBlocks.__slots__[:-1]
    return PeriodBlocks(*(np.concatenate([getattr(one, name) for one in whole]) for name in names), ())


def not_normal(
    windows: Sequence[PeriodBlocks], before: PeriodBlocks, after: PeriodBlocks | None = None
) -> list[str]:
    rows = history_rows(before, before if after is None else after, joined(windows), SETTINGS)
    return [row.text for row in rows]


def test_a_reference_that_is_not_normal() -> None:
    rng = np.random.default_rng(3)
    windows = [period_blocks(drawn(rng, 300), 1, [PERIOD]) for _ in range(12)]
    quiet, slow, bad = (
        period_blocks(drawn(rng, 300, **more), 1, [PERIOD])
        for more in ({}, {"mean_us": 2_000}, {"failing": 0.2})
    )
    assert not not_normal(windows, quiet)
    (text,) = not_normal(windows, slow, quiet)
    assert "12 ordinary windows" in text
    assert "was there before" not in text
    (text,) = not_normal(windows, bad, quiet)
    assert "of its requests fail" in text
    assert not not_normal(windows[:3], slow)


@pytest.mark.parametrize("fault", [{"mean_us": 2_000}, {"failing": 0.2}])
def test_the_same_incident_on_both_sides_was_there_before(fault: dict[str, float]) -> None:
    rng = np.random.default_rng(3)
    windows = [period_blocks(drawn(rng, 300), 1, [PERIOD]) for _ in range(12)]
    before, after = (period_blocks(drawn(rng, 300, **fault), 1, [PERIOD]) for _ in range(2))  # type: ignore[arg-type]
    (text,) = not_normal(windows, before, after)
    assert text.endswith("The problem period is like it: what is wrong was there before.")


@pytest.mark.parametrize("weight", [1.0, 10.0, 40.0])
def test_failures_of_sampled_windows_are_compared_with_what_was_recorded(weight: float) -> None:
    rng = np.random.default_rng(5)

    def window(failed: int) -> PeriodBlocks:
        requests = drawn(rng, 100, weight=weight)
        return period_blocks(replace(requests, failed=np.arange(100) < failed), 1, [PERIOD])

    windows = [window(3) for _ in range(10)]
    said = [bool([text for text in not_normal(windows, window(n)) if "fail" in text]) for n in (3, 6, 15)]
    assert said == [False, False, True]


def test_ordinary_references_are_seldom_called_abnormal() -> None:
    rng = np.random.default_rng(4)
    said = 0
    for _ in range(100):
        windows = [
            period_blocks(drawn(rng, 100, mean_us=1_000 * np.exp(rng.normal(0, 0.1))), 1, [PERIOD])
            for _ in range(9)
        ]
        said += bool(not_normal(windows[1:], windows[0]))
    assert said <= 6
