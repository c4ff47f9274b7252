"""The outcome of a comparison, and what may be called unchanged: by measures made by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from oracles.period_traffic import blocks_of, drawn

from analyze.methods.robust.period_blocks import PeriodBlocks
from analyze.methods.robust.settings import RobustSettings, VerdictSettings
from analyze.methods.robust.site_times import SiteTimes
from analyze.methods.robust.verdict.assertions import ContradictionWarning, checked, contradictions
from analyze.methods.robust.verdict.judgement import Judgement
from analyze.methods.robust.verdict.load import mix_change
from analyze.methods.robust.verdict.outcome import VerdictBasis, VerdictReached, outcome
from analyze.methods.robust.verdict.reasons import ExplainedShare
from analyze.methods.robust.verdict.sizes import LargestChange, Paths, Sizes, paths_of, visible_rows
from analyze.methods.robust.verdict.whole import Name, Noise, PeriodMeasure, whole_change
from analyze.report import wording
from analyze.stats.estimate import Estimate, share_change
from analyze.stats.time_blocks import level_estimate
from schemas.report.accounts import Account, Reason, ReasonKind, VerdictSection

SETTINGS = RobustSettings()
ONE = np.ones(1)


def times(ratio: float, error: float, n: float = 300.0) -> Estimate:
    """A mean that moved by a factor, of 100 µs."""
    found = level_estimate(
        np.log([100.0]),
        np.log([100.0 * ratio]),
        error**2 * ONE,
        between=0 * ONE,
        freedom=np.inf * ONE,
        inner_freedom=np.inf * ONE,
        p=ONE,
        n=(n * ONE, n * ONE),
    )
    return replace(found, p=found.p_with_noise)


def share(k0: float, k1: float, n: float = 300.0) -> Estimate:
    return share_change(np.array([[k0, k1]]), np.array([[n, n]]))


def measure(name: Name, estimate: Estimate) -> PeriodMeasure:
    floor, margin = {"mean": (0.05, 0.2), "tail": (0.05, 0.05)}.get(name, (0.01, 0.01))
    return PeriodMeasure(name, estimate, 0.01, floor, margin)


MEAN = measure("mean", times(1.04, 0.1))
CHANGED = measure("mean", times(6.0, 0.1))
QUIET = (
    MEAN,
    measure("tail", share(15, 15)),
    measure("errors", share(0, 0)),
    measure("failing", share(0, 0)),
)
SMALL = LargestChange(mean=0.3, site=0.4, slow=0.05, errors=0.01, path=0.05, usual=True)
OUTSIDE = "Clients sent less."
BASIS = VerdictBasis(measures=QUIET, mix_changed=False, largest=lambda: SMALL, missing=lambda: None)


def decide(settings: RobustSettings = SETTINGS, **fields: object) -> VerdictReached:
    return outcome(replace(BASIS, **fields), settings)  # type: ignore[arg-type]


def texts(found: VerdictReached) -> list[str]:
    return [reason.text for reason in found.reasons]


def test_nothing_found_and_nothing_possible_is_unchanged() -> None:
    found = decide()
    assert (found.outcome, found.missing_requests, found.external) == ("unchanged", None, False)
    assert "no change that matters (times twice as long, 10 points of requests)" in texts(found)[0]
    assert texts(found)[-1].startswith("At most this may have changed unseen: the mean by 30")


def test_nothing_is_said_of_the_change_of_what_cannot_be_tested() -> None:
    """Of one request a period there is no mean: `0 µs → 0 µs` stood beside 19 and 104 ms."""
    unknown = measure("mean", replace(times(1.0, 0.1), sampling=ONE * np.nan))
    found = decide(measures=(unknown, *QUIET[1:]), largest=lambda: replace(SMALL, mean=np.inf))
    assert not [reason for reason in texts(found) if "not significant" in reason]


def test_what_was_there_before_is_said_beside_what_began() -> None:
    said = "The reference is not normal: it was there before the problem period."
    assert texts(decide(there_before=said))[0] == said
    for more in ({"findings": 1}, {"measures": (CHANGED, *QUIET[1:])}):
        reasons = texts(decide(there_before=said, **more))
        assert reasons[-1] == said
        assert len(reasons) > 1


def test_a_mean_that_changed_never_passes() -> None:
    for more in (
        {},
        {"by_load": "Load."},
        {"incomplete": "Lost."},
        {"external": lambda: OUTSIDE},
        {"silent": "Nothing."},
    ):
        found = decide(measures=(CHANGED,), **more)
        assert found.outcome != "unchanged"
        assert not found.external
        assert any("mean response time changed significantly" in reason for reason in texts(found))
    assert decide(mix_changed=True).outcome == "not-explained"


@pytest.mark.parametrize("name", ["tail", "errors", "failing"])
def test_neither_does_a_share(name: Name) -> None:
    """98 of 1,847 requests with a failing call inside, of requests that succeeded."""
    moved = measure(name, share(0, 98, 1_847))
    found = decide(measures=(*QUIET, moved))
    assert found.outcome == "not-explained"
    assert moved.changed


@pytest.mark.parametrize(("part", "word"), [(0.95, "changed"), (0.7, "changed"), (0.4, "partly-explained")])
def test_findings_explain_all_or_part(part: float, word: str) -> None:
    explained = ExplainedShare(part * 500.0, 500.0, (400.0, 600.0))
    assert decide(findings=2, explained=explained, measures=(CHANGED,)).outcome == word


@pytest.mark.parametrize(
    ("found_us", "change_us", "text"),
    [
        (9_200.0, 10_000.0, "1 finding explains 92 % of the change of the mean (+9.2 ms of +10 ms)."),
        (-9_200.0, -10_000.0, "1 finding explains 92 % of the change of the mean (−9.2 ms of −10 ms)."),
        (10_000.1, 10_000.0, "1 finding explains 100 % of the change of the mean (+10 ms of +10 ms)."),
        (
            -1_000.0,
            10_000.0,
            "1 finding goes the other way than the mean (−1 ms of +10 ms): what moved it is not explained.",
        ),
        # What the change may be itself is no more than it.
        (
            11_500.0,
            10_400.0,
            "1 finding explains all of the change of the mean (+11.5 ms of +10.4 ms); other changes saved "
            "1.1 ms.",
        ),
        (
            15_000.0,
            10_400.0,
            "1 finding explains more than the change of the mean (+15 ms of +10.4 ms); other changes saved "
            "4.6 ms.",
        ),
        (
            -15_000.0,
            -10_400.0,
            "1 finding explains more than the change of the mean (−15 ms of −10.4 ms); other changes added "
            "4.6 ms.",
        ),
    ],
)
def test_what_is_explained_is_told_with_what_it_is_of(found_us: float, change_us: float, text: str) -> None:
    interval = change_us - 2_000, change_us + 2_000
    explained = ExplainedShare(found_us, change_us, interval)
    reasons = texts(decide(findings=1, explained=explained, measures=(CHANGED,)))
    assert reasons[-1].replace(wording.NBSP, " ") == text


@pytest.mark.parametrize(
    ("findings", "found_us", "interval", "text"),
    [
        (
            1,
            1_880.0,
            (-4_390.0, 17_300.0),
            "1 finding; the mean response time did not change significantly (−4.39 ms to +17.3 ms): how "
            "large a part of it the finding's +1.88 ms are cannot be told.",
        ),
        (
            2,
            -900.0,
            (-4_390.0, 17_300.0),
            "2 findings; the mean response time did not change significantly (−4.39 ms to +17.3 ms): how "
            "large a part of it the findings' −900 µs are cannot be told.",
        ),
        (1, 0.0, (-4_390.0, 17_300.0), "1 finding; the mean response time did not change significantly."),
        (1, 1_880.0, (-np.inf, np.inf), "1 finding; the mean response time did not change significantly."),
    ],
)
def test_of_a_mean_that_may_be_the_same_nothing_is_explained(
    findings: int, found_us: float, interval: tuple[float, float], text: str
) -> None:
    explained = ExplainedShare(found_us, 4_400.0, interval, significant=False)
    found = decide(findings=findings, explained=explained)
    assert found.outcome == "changed"
    assert texts(found)[-1].replace(wording.NBSP, " ") == text


def test_findings_without_a_change_of_the_mean() -> None:
    assert decide(findings=1).outcome == "changed"


def test_what_matters_may_be_possible() -> None:
    large = replace(SMALL, mean=1.3, path=0.2)
    found = decide(largest=lambda: large, missing=lambda: 1_200)
    assert (found.outcome, found.missing_requests) == ("cannot-tell", 1_200)
    (why,) = (reason for reason in texts(found) if "may have changed by" in reason)
    assert "mean response time" in why
    assert "share of a path" in why
    assert "1,200 more problem requests would tell" in why.replace(wording.NBSP, " ")
    assert why.startswith("Too few requests to tell")
    reasons = texts(decide(largest=lambda: large))
    assert reasons[0].startswith("Periods this short cannot decide it")
    assert decide(measures=()).outcome == "cannot-tell"
    assert decide(RobustSettings(matters_time=0.39)).outcome == "cannot-tell"
    assert decide(RobustSettings(matters_share=0.04)).outcome == "cannot-tell"
    assert decide(largest=lambda: replace(SMALL, usual=False)).outcome == "cannot-tell"


def test_load_is_said_to_be_load() -> None:
    found = decide(by_load="Requests meet twice the load.")
    assert (found.outcome, found.by_load) == ("not-explained", True)
    assert texts(found)[0] == "Requests meet twice the load."


def test_what_is_missing_may_be_what_changed() -> None:
    assert decide(by_load="More load.", incomplete="Events are missing.").outcome == "cannot-tell"
    found = decide(measures=(CHANGED,), incomplete="Events of the problem are missing.")
    assert found.outcome == "cannot-tell"
    assert texts(found)[0] == "Events of the problem are missing."


def test_an_external_cause_is_told_of_the_unchanged_only() -> None:
    found = decide(external=lambda: OUTSIDE)
    assert (found.outcome, found.external, texts(found)[0]) == ("unchanged", True, OUTSIDE)
    assert not decide(external=lambda: OUTSIDE, largest=lambda: replace(SMALL, mean=2.0)).external


def test_what_may_have_gone_unseen_is_not_said_beside_what_was_seen() -> None:
    """A mean that rose by 86 % stood beside "at most the mean may have changed unseen by 167 %"."""
    for more in ({"findings": 1}, {"measures": (CHANGED, *QUIET[1:])}):
        for silent in ("", "Nothing for a while."):
            assert not [reason for reason in texts(decide(silent=silent, **more)) if "unseen" in reason]
    assert "unseen" in texts(decide(silent="Nothing for a while."))[-1]


def test_a_silence_is_not_unchanged() -> None:
    quiet = decide(silent="Nothing for a while.")
    assert (quiet.outcome, quiet.external) == ("not-explained", False)
    assert texts(quiet)[1].startswith("Beside it: Nothing was found")
    unsure = decide(silent="Nothing for a while.", largest=lambda: replace(SMALL, mean=2.0))
    assert (unsure.outcome, texts(unsure)[0]) == ("cannot-tell", "Nothing for a while.")


@pytest.mark.parametrize(
    ("estimate", "why"),
    [
        (times(1.04, 0.01), "less than 5"),
        (times(1.25, 0.1), "chance alone does as much once in "),
    ],
)
def test_an_interval_that_excludes_0_and_is_not_significant_says_why(estimate: Estimate, why: str) -> None:
    open_ = measure("mean", estimate)
    assert not open_.changed
    assert open_.interval(0.95)[0] > 0
    found = decide(measures=(open_,), largest=lambda: replace(SMALL, usual=False))
    assert [reason for reason in texts(found) if "is not significant" in reason and why in reason]
    assert not [reason for reason in texts(decide()) if "significant" in reason]


def test_a_plain_change_is_not_unchanged_by_noise_that_is_assumed() -> None:
    """F11: from 24.5 ms to 30.2 ms, sure to three points, and only assumed noise makes as much."""
    estimate = replace(times(1.23, 0.03), between=0.02 * ONE)
    plain = replace(measure("mean", estimate), margin=0.25, noise_assumed=True)
    assert not plain.changed
    assert not plain.usual
    found = decide(measures=(plain, *QUIET[1:]), largest=lambda: replace(SMALL, usual=plain.usual))
    assert found.outcome == "cannot-tell"
    assert "there are no earlier windows to compare with" in texts(found)[0]
    assert texts(found)[-1] == "What helps: longer periods, and ordinary times as --history."
    seen = replace(plain, noise_assumed=False, least=math.log(1.5))
    assert (
        decide(measures=(seen, *QUIET[1:]), largest=lambda: replace(SMALL, usual=seen.usual)).outcome
        == "unchanged"
    )


def everywhere(size: float) -> SiteTimes:
    """One call site that may have changed by so much."""
    known = times(1.0, np.log1p(size) / 1.96)
    return SiteTimes(known, known, ONE, ONE, np.ones((1, 2)))


def sizes(before: PeriodBlocks, after: PeriodBlocks, settings: RobustSettings = SETTINGS) -> Sizes:
    whole = whole_change(before, after, None, Noise(0.05), settings.verdict)
    return Sizes(whole, everywhere(0.2), paths_of(before, after, 0.0), settings)


def pair(n: int, seed: int = 1, **after: float) -> tuple[PeriodBlocks, PeriodBlocks]:
    rng = np.random.default_rng(seed)
    return blocks_of(drawn(rng, n), drawn(rng, n, **after))  # type: ignore[arg-type]


def test_more_requests_exclude_more() -> None:
    few, many = (sizes(*pair(n)).largest() for n in (60, 2_000))
    assert not few.within(SETTINGS)
    assert many.within(SETTINGS)
    for name in ("mean", "errors", "path"):
        assert getattr(many, name) < getattr(few, name)
    assert many.site == pytest.approx(0.2, rel=0.01)


def test_calls_that_fail_inside_of_requests_may_do_so_more_often() -> None:
    """No root fails in 60 requests; a call does in 24, which 60 more know by 18 points."""
    sides = [replace(side, failing=0.4 * side.requests) for side in pair(60)]
    assert sizes(*sides).largest().errors > 0.15


@pytest.mark.parametrize(
    "floors",
    [{"new_floor": 0.5}, {"pattern_floor": 0.6}, {"min_z": 30.0}, {"least_affected": 1_000}, {"q": 1e-300}],
)
def test_what_the_tests_would_not_find_is_not_excluded(floors: dict[str, float]) -> None:
    """The settings' floors are the visible sizes, so no report promises what no test looks for."""
    deaf = RobustSettings(**floors)  # type: ignore[arg-type]
    before, after = pair(2_000)
    assert not sizes(before, after, deaf).largest().within(deaf)
    (row,) = visible_rows(before, after, ["a/x"], 0.0, deaf, before.requests.sum(axis=0))
    assert row.share is None or row.share >= deaf.new_floor


def test_a_floor_of_times_is_what_is_visible() -> None:
    before, after = pair(2_000)
    for floor in (0.1, 5.0):
        settings = RobustSettings(time_floor=floor)
        (row,) = visible_rows(before, after, ["a/x"], 0.0, settings, before.requests.sum(axis=0))
        assert row.ratio is not None
        assert row.ratio >= 1 + floor


def test_rows_show_what_would_have_been_seen() -> None:
    rng = np.random.default_rng(12)
    sides = blocks_of(drawn(rng, 400, roots=2), drawn(rng, 100, roots=2), 3)
    names = ["a/x", "b/y", "c/z"]
    rows = visible_rows(*sides, names, 0.0, SETTINGS, sides[0].requests.sum(axis=0))
    assert [row.root for row in rows][2] == "c/z"
    assert (rows[2].ratio, rows[2].share) == (None, None)
    assert sum(row.requests1 for row in rows) == 100
    assert rows[0].ratio is not None
    assert 1.1 < rows[0].ratio < 1.8


@pytest.mark.parametrize(("n0", "n1"), [(14, 14), (57, 14), (1_000, 300)])
def test_a_share_that_is_visible_is_found_nine_times_of_ten(n0: int, n1: int) -> None:
    """By the test of shares itself: level, standard errors, floor and least number of requests."""
    paths = Paths(np.array([float(n0)]), np.array([float(n1)]), ONE, 0.0)
    size = paths.smallest(0, SETTINGS)
    k = np.random.default_rng(10).binomial(n1, size, 2_000).astype(np.float64)
    x = np.stack([np.zeros(len(k)), k], axis=1)
    found = share_change(x, np.broadcast_to([float(n0), float(n1)], x.shape))
    seen = (found.p <= SETTINGS.q) & found.clears(SETTINGS.min_z, SETTINGS.new_floor) & (k >= 3)
    assert 0.88 <= np.mean(seen) <= 0.99
    assert Paths(3 * ONE, 100 * ONE, ONE, 0.0).smallest(0, SETTINGS) == np.inf


@pytest.mark.parametrize("n", [40, 60])
def test_as_many_requests_as_lack_would_tell(n: int) -> None:
    """One number, and it is enough: at that size quiet periods are unchanged about every second time."""
    open_ = sizes(*pair(n, 2))
    missing = open_.missing(float(n))
    assert missing is not None
    assert missing > 0
    more = n + missing
    told = [sizes(*pair(more, seed)).largest().within(SETTINGS) for seed in range(20)]
    assert sum(told) >= 5


def test_where_noise_forbids_it_no_number_would_tell() -> None:
    before, after = pair(300)
    whole = whole_change(before, after, None, Noise(1.0), VerdictSettings())
    assert Sizes(whole, everywhere(0.2), paths_of(before, after, 0.0), SETTINGS).missing(300.0) is None


def test_what_changed_is_shown_by_more_requests() -> None:
    """A difference that is kept up will be significant, however wide the bounds are."""
    open_ = measure("mean", times(1.5, 0.3, n=20.0))
    assert not open_.changed
    whole = replace(sizes(*pair(60)).whole, measures=(open_,))
    missing = Sizes(whole, everywhere(0.2), paths_of(*pair(60), 0.0), SETTINGS).missing(20.0)
    assert missing is not None
    enough = (20 + missing) / 20
    assert open_.shown_by(open_.estimate.times(enough))
    assert not open_.shown_by(open_.estimate.times(enough * 0.8))


def test_lost_events_hide_paths() -> None:
    before, after = pair(2_000)
    hidden = Sizes(sizes(before, after).whole, everywhere(0.2), paths_of(before, after, 0.3), SETTINGS)
    assert hidden.largest().path == 0.3


def account(measure_: str, low: float, high: float, *, changed: bool) -> Account:
    empty: dict[str, object] = dict.fromkeys(
        ("before", "after", "mix", "calls", "structure", "slower", "gross_up", "gross_down"), 0.0
    )
    empty |= {"rows": (), "rows_total": 0, "mixes": (), "threshold_us": None, "unit": "share"}
    return Account.model_validate(empty | {"measure": measure_, "low": low, "high": high, "changed": changed})


def section(word: str, *reasons: Reason, missing: int | None = None) -> VerdictSection:
    rest = {"quality": (), "visible": (), "untested_requests": 0, "equivalent_share": None, "calibration": ""}
    return VerdictSection.model_validate(
        {"outcome": word, "external": False, "reasons": reasons, "missing_requests": missing} | rest
    )


def test_unchanged_never_stands_beside_a_significant_row() -> None:
    row = account("errors", 0.04, 0.07, changed=True)
    with pytest.warns(ContradictionWarning, match="requests with a failing call"):
        found = checked(section("unchanged", Reason(kind=ReasonKind.NOTHING, text="All is well.")), [row])
    assert found.outcome == "not-explained"
    assert "failing call" in found.reasons[0].text
    assert checked(section("changed"), [row]).outcome == "changed"


def test_what_the_verdict_says_of_an_interval_and_of_missing_requests_is_asserted() -> None:
    outside = account("tail", 0.01, 0.02, changed=False)
    said = Reason(kind=ReasonKind.INSIGNIFICANT, text="It is not significant.", measure="tail")
    five, six = (Reason(kind=ReasonKind.TOO_FEW, text="More would tell.", requests=n) for n in (5, 6))
    assert not list(contradictions(section("unchanged", said), [outside]))
    assert list(contradictions(section("unchanged"), [outside]))
    assert not list(contradictions(section("cannot-tell", five, missing=5), []))
    assert list(contradictions(section("cannot-tell", five, six, missing=5), []))
    assert list(contradictions(section("cannot-tell", missing=5), []))


def test_what_changed_at_one_limit_of_slow_requests_is_not_said_to_be_insignificant_at_another() -> None:
    slow, very_slow = measure("tail", share(20, 120, 1_000)), measure("tail", share(10, 40, 1_000))
    reasons = texts(decide(measures=(*QUIET, slow, very_slow)))
    assert slow.changed
    assert not very_slow.changed
    assert sum("share of slow requests" in reason for reason in reasons) == 1


def test_slow_requests_that_changed_at_the_second_limit_only_changed() -> None:
    slow, very_slow = measure("tail", share(20, 30, 1_000)), measure("tail", share(4, 60, 1_000))
    assert not slow.changed
    assert very_slow.changed
    before, after = pair(300)
    there = replace(sizes(before, after).whole, measures=(MEAN, slow, very_slow))
    mix = mix_change(before, after, SETTINGS.verdict)
    looked = Judgement(SETTINGS, there, mix, (), (), BASIS)
    assert looked.interval("tail")[2]
    assert [(said.measure, said.after) for said in looked.changed_shares()] == [("tail", very_slow.after)]
