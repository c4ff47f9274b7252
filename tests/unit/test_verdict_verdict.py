"""The outcome of a comparison, and the rows on its data, by small populations made by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from oracles.blocks_of_requests import period_blocks, tail_thresholds
from oracles.period_traffic import PERIOD, blocks_of, drawn
from oracles.refined import Call, call, population

from analyze.methods.robust.verdict.data_quality import (
    excluded_rows,
    history_rows,
    quality_rows,
    sampling_rows,
)
from analyze.methods.robust.verdict.load import Arrivals, ExternalCause
from analyze.methods.robust.verdict.outcome import Explained, Outcome, outcome
from analyze.methods.robust.verdict.period_blocks import PeriodBlocks, period_requests, root_types
from analyze.methods.robust.verdict.period_tests import (
    Equivalence,
    PeriodNoise,
    PeriodTest,
    RootEquivalence,
    equivalence,
    period_tests,
)
from analyze.population import Population
from analyze.report import wording
from schemas.report.accounts import QualityRow, VerdictSection

CALM = PeriodNoise(tau=0.0, phi=1.0)
SAME = Equivalence((RootEquivalence("a/x", 1.0, 0.99, 1.01, True, 1.0, None),), 0.05)
OPEN = Equivalence((RootEquivalence("a/x", 1.0, 0.8, 1.2, False, 1.0, 9.0),), 0.05)


def a_test(measure: str = "mean", **fields: object) -> PeriodTest:
    base = PeriodTest("mean", None, 100.0, 100.0, -1.0, 1.0, 0.9, 5.0, False, True, 100.0, 50.0)
    return replace(base, measure=measure, **fields)


CHANGED = a_test(after=600.0, low=400.0, high=600.0, p=0.0, changed=True, settled=False)
STILL = a_test(
    "errors",
    before=0.0,
    after=1 / 14,
    low=-0.1,
    high=0.3,
    p=0.5,
    floor=0.001,
    settled=False,
    n0=14.0,
    n1=14.0,
)


def decide(**fields: object) -> Outcome:
    base: dict[str, object] = {
        "findings": 0,
        "explained": None,
        "tests": (a_test(),),
        "mix_changed": False,
        "equivalent": SAME,
    }
    return outcome(**(base | fields))  # type: ignore[arg-type]


def test_nothing_found_and_all_the_same_is_unchanged() -> None:
    found = decide()
    assert found.outcome == "unchanged"
    assert found.missing_requests is None
    assert not found.external


def test_a_mean_that_changed_never_passes() -> None:
    for equivalent in (SAME, OPEN):
        found = decide(tests=(CHANGED,), equivalent=equivalent)
        assert found.outcome == "not-explained"
        assert "mean response time changed by test" in found.reasons[0]
    assert decide(mix_changed=True).outcome == "not-explained"


@pytest.mark.parametrize(("share", "word"), [(0.95, "changed"), (0.7, "changed"), (0.4, "partly-explained")])
def test_findings_explain_all_or_part(share: float, word: str) -> None:
    found = decide(findings=2, explained=Explained(share * 500.0, 500.0), tests=(CHANGED,))
    assert found.outcome == word


@pytest.mark.parametrize(
    ("found_us", "change_us", "text"),
    [
        (9_200.0, 10_000.0, "1 finding explains 92 % of the change of the mean (+9.2 ms of +10 ms)."),
        (-9_200.0, -10_000.0, "1 finding explains 92 % of the change of the mean (−9.2 ms of −10 ms)."),
        (10_000.1, 10_000.0, "1 finding explains 100 % of the change of the mean (+10 ms of +10 ms)."),
        (-1_000.0, 10_000.0, "1 finding explains 0 % of the change of the mean (−1 ms of +10 ms)."),
        (
            15_000.0,
            10_400.0,
            "1 finding explains more than the change of the mean (+15 ms of +10.4 ms): the rest took time "
            "away.",
        ),
        (
            -15_000.0,
            -10_400.0,
            "1 finding explains more than the change of the mean (−15 ms of −10.4 ms): the rest added time.",
        ),
    ],
)
def test_what_is_explained_is_told_with_what_it_is_of(found_us: float, change_us: float, text: str) -> None:
    reasons = decide(findings=1, explained=Explained(found_us, change_us), tests=(CHANGED,)).reasons
    assert reasons[-1].replace(wording.NBSP, " ") == text


def test_findings_without_a_change_of_the_mean() -> None:
    assert decide(findings=1).outcome == "changed"
    assert decide(findings=1, tests=(CHANGED,)).outcome == "partly-explained"


def test_too_few_requests_cannot_tell() -> None:
    found = decide(equivalent=OPEN)
    assert found.outcome == "cannot-tell"
    assert found.missing_requests == 50 * 8
    errors = decide(tests=(a_test(), STILL))
    assert errors.outcome == "cannot-tell"
    assert errors.missing_requests is not None
    assert f"{errors.missing_requests:,}" in errors.reasons[0]
    assert decide(tests=()).outcome == "cannot-tell"


def test_an_external_cause_is_told_of_the_unchanged_only() -> None:
    arrived = Arrivals(1.0, 1.0, None)
    cause = ExternalCause(arrived, arrived, 0.0, True, True, "Clients sent less.")
    found = decide(external=cause)
    assert (found.outcome, found.external, found.reasons[0]) == ("unchanged", True, "Clients sent less.")
    assert not decide(external=cause, equivalent=OPEN).external
    assert not decide(external=cause, tests=(CHANGED,)).external


def failing(n: int, k: int) -> list[Call]:
    return [call("a/x", 0, 100 + at % 7, status="no" if at < k else "ok") for at in range(n)]


def sides_of(found: Population) -> tuple[PeriodBlocks, PeriodBlocks]:
    before, after = period_requests(found, 0), period_requests(found, 1)
    limits = tail_thresholds(before)
    roots = len(root_types(found))
    return period_blocks(before, roots, [], limits), period_blocks(after, roots, [], limits)


def judged(reference: list[Call], problem: list[Call]) -> Outcome:
    found = population(reference, problem)
    blocks = sides_of(found)
    tests = period_tests(*blocks, PeriodNoise())
    same = equivalence(*blocks, root_types(found), PeriodNoise())
    return outcome(findings=0, explained=None, tests=tests, mix_changed=False, equivalent=same)


def test_twelve_failing_of_fourteen_and_one() -> None:
    assert judged(failing(14, 0), failing(14, 12)).outcome == "not-explained"
    one = judged(failing(14, 0), failing(14, 1))
    assert one.outcome == "cannot-tell"
    assert one.missing_requests is not None
    assert 14 < one.missing_requests < 300
    assert "error rate" in one.reasons[0]
    assert judged(failing(200, 0), failing(200, 0)).outcome == "unchanged"


def test_outcomes_of_drawn_periods() -> None:
    """Many requests: quiet ones are unchanged nine times of ten, and a mean 20 % up never is."""
    rng = np.random.default_rng(1)
    words: dict[float, list[str]] = {1.0: [], 1.2: []}
    for ratio, found in words.items():
        for _ in range(60):
            sides = blocks_of(
                drawn(rng, 4_000, failing=0.01), drawn(rng, 4_000, failing=0.01, mean_us=1_000 * ratio)
            )
            same = equivalence(*sides, ["a/x"], CALM)
            tests = period_tests(*sides, CALM)
            found.append(
                outcome(findings=0, explained=None, tests=tests, mix_changed=False, equivalent=same).outcome
            )
    assert words[1.0].count("unchanged") >= 54
    assert "unchanged" not in words[1.2]


def test_a_silence_is_not_unchanged() -> None:
    told = {"findings": 0, "explained": None, "mix_changed": False, "silent": "Nothing for a while."}
    quiet = outcome(tests=[a_test()], equivalent=SAME, **told)
    assert (quiet.outcome, quiet.external) == ("not-explained", False)
    assert quiet.reasons[0] == "Nothing for a while."
    assert quiet.reasons[1].startswith("Beside it: Mean response times")
    unsure = outcome(tests=[STILL], equivalent=OPEN, **told)
    assert (unsure.outcome, unsure.reasons[0]) == ("cannot-tell", "Nothing for a while.")


def rows_of(found: Population) -> list[QualityRow]:
    return list(quality_rows(found, sides_of(found), root_types(found)))


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
    assert "s/[0-9]+/#/g" in rows[0].text
    assert rows[0].severe


def test_load_and_mix_are_told() -> None:
    rng = np.random.default_rng(2)
    roots = ["a/x", "b/y"]
    before, after = drawn(rng, 400), drawn(rng, 1_600, roots=2)
    sides = blocks_of(before, after, 2)
    rows = quality_rows(population([call("a/x", 0, 1)]), sides, roots)
    kinds = {row.kind: row for row in rows}
    assert kinds["load"].severe
    assert "1.33 → 5.33" in kinds["load"].text
    assert "b/y" in kinds["load"].text
    assert kinds["mix"].severe
    assert "a/x 100\xa0% → " in kinds["mix"].text
    assert not quality_rows(population([call("a/x", 0, 1)]), (sides[0], sides[0]), roots)[1:]


def test_sampling_that_differs() -> None:
    one = 1.0
    (row,) = sampling_rows(one, 4.0, (1.0, 1.0))
    assert "stands for 1 in the reference and 4 in the problem" in row.text
    assert not list(sampling_rows(one, one, (1.0, 1.0)))
    (row,) = sampling_rows(one, one, (1.0, 0.5))
    assert row.severe
    assert [row.severe for row in sampling_rows(one, one, (0.5, 0.5))] == [False]


def test_flows_left_out() -> None:
    (row,) = excluded_rows({"INCOMPLETE": (0, 50)}, (1_000, 950))
    assert row.severe
    assert "5.0\xa0% of the" in row.text
    assert not list(excluded_rows({"INCOMPLETE": (20, 21)}, (1_000, 950)))
    (row,) = excluded_rows({"CYCLE": (100, 101)}, (900, 900))
    assert not row.severe
    (row,) = excluded_rows({"CYCLE": (1, 0)}, (0, 900))
    assert "100\xa0% of the reference" in row.text
    assert not list(excluded_rows({"CYCLE": (1, 0)}, (5, 0)))


def test_a_reference_that_is_not_normal() -> None:
    rng = np.random.default_rng(3)
    windows = [period_blocks(drawn(rng, 300), 1, [PERIOD]) for _ in range(12)]
    assert not list(history_rows(period_blocks(drawn(rng, 300), 1, [PERIOD]), windows))
    (row,) = history_rows(period_blocks(drawn(rng, 300, mean_us=2_000), 1, [PERIOD]), windows)
    assert "12 ordinary windows" in row.text
    (row,) = history_rows(period_blocks(drawn(rng, 300, failing=0.2), 1, [PERIOD]), windows)
    assert "of its requests fail" in row.text
    assert not list(history_rows(windows[0], windows[:3]))


@pytest.mark.parametrize("weight", [1.0, 10.0, 40.0])
def test_failures_of_sampled_windows_are_held_against_what_was_recorded(weight: float) -> None:
    rng = np.random.default_rng(5)

    def window(failed: int) -> PeriodBlocks:
        requests = drawn(rng, 100, weight=weight)
        return period_blocks(replace(requests, failed=np.arange(100) < failed), 1, [PERIOD])

    windows = [window(3) for _ in range(10)]
    said = [bool([row for row in history_rows(window(n), windows) if "fail" in row.text]) for n in (3, 6, 15)]
    assert said == [False, False, True]


def test_ordinary_references_are_seldom_called_abnormal() -> None:
    rng = np.random.default_rng(4)
    said = 0
    for _ in range(100):
        windows = [
            period_blocks(drawn(rng, 100, mean_us=1_000 * np.exp(rng.normal(0, 0.1))), 1, [PERIOD])
            for _ in range(9)
        ]
        said += bool(list(history_rows(windows[0], windows[1:])))
    assert said <= 6
