"""A history is for noise and for what is usual: never for the value before, nor for one incident in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from evaluation.made_cases import minute as pages
from evaluation.made_cases import ordinary, with_history
from oracles.refined import Call, call

from analyze.methods.robust.robust_run import RobustRun, robust_run
from analyze.methods.robust.settings import RobustSettings
from schemas.report.findings import ChangeKind

REQUESTS = 120
WITHOUT = ("abnormal-reference",)


def run(
    reference: Sequence[Call],
    problem: Sequence[Call],
    without: tuple[str, ...] = (),
    history: Sequence[Sequence[Call]] | None = None,
) -> RobustRun:
    """With a history of eight ordinary minutes, or another."""
    compared, before = with_history(reference, problem, ordinary(8) if history is None else history)
    settings = RobustSettings(paths=False, without=without)
    return robust_run(compared, before, settings)


@pytest.mark.parametrize(
    ("reference", "problem"),
    [
        (pages(9_000), pages(9_900)),
        (pages(9_900), pages(9_000)),  # inside of what the reference makes ordinary
        (pages(1_000, 60), pages(1_000, 78)),
    ],
)
def test_the_same_incident_on_both_sides_is_no_finding(reference: list[Call], problem: list[Call]) -> None:
    found = run(reference, problem)
    assert not found.confounded.kept
    assert "there before" in found.confounded.text("abnormal-reference")
    assert run(reference, problem, without=WITHOUT).confounded.kept, "the rule pays its rent"


def test_faster_than_an_abnormal_reference_is_not_slower() -> None:
    found = run(pages(18_000), pages(12_000))
    assert ChangeKind.SLOWER not in {change.kind for change in found.confounded.kept}


def test_what_got_worse_than_an_abnormal_reference_is_found_with_its_value() -> None:
    found = run(pages(9_000), pages(40_000))
    (slower,) = [c for c in found.confounded.kept if c.kind is ChangeKind.SLOWER]
    assert slower.before == pytest.approx(9_000, rel=0.1)
    assert slower.after == pytest.approx(40_000, rel=0.1)


def test_the_value_before_is_that_of_an_ordinary_reference_too() -> None:
    """Ordinary times say how sure the change is, not what it was before."""
    (slower,) = [c for c in run(pages(1_020), pages(3_000)).confounded.kept if c.kind is ChangeKind.SLOWER]
    assert slower.n0 == REQUESTS
    assert slower.before == pytest.approx(1_020, rel=0.05)
    assert slower.low < slower.after - slower.before < slower.high


def test_three_requests_of_the_reference_are_the_value_before() -> None:
    """They take 402 ms where all ordinary ones take 2; the problem's 498 are no change of 250 times."""
    history = [few_reads(*np.linspace(1_900, 2_100, 20)) for _ in range(8)]
    problem = few_reads(*np.linspace(480_000, 515_000, 12))
    found = run(few_reads(399_000, 402_000, 405_000), problem, history=history)
    for cause in found.causes:
        assert cause.lead.before > 300_000
    ordinary = run(few_reads(1_980, 2_000, 2_020), problem, history=history)
    assert [cause.lead.kind for cause in ordinary.causes] == [ChangeKind.SLOWER]


def test_where_most_of_the_reference_is_slow_slow_calls_are_no_tail() -> None:
    """Of the reads of an incident that begins four fifths are slow, then all."""
    began = [*pages(900_000)[: REQUESTS * 4 // 5], *pages(1_000)[REQUESTS * 4 // 5 :]]
    found = run(began, pages(890_000), (), ordinary(8) * 6)
    assert not found.causes
    assert "there before" in found.confounded.text("abnormal-reference")


def few_reads(*took_us: float) -> list[Call]:
    """A minute in which so many requests read, and the others do not."""
    plain = [call("web/get", 0, 500 + n % 9) for n in range(REQUESTS - len(took_us))]
    return [*plain, *(call("web/get", 0, 500 + us, call("db/read", 10, us)) for us in took_us)]


def test_three_requests_far_from_all_ordinary_ones_were_there_before() -> None:
    """The reference has three reads, each as long as those of the problem: 555 times what is ordinary."""
    long = np.linspace(540_000, 570_000, 16)
    found = run(few_reads(*long[:3]), few_reads(*long))
    assert not found.causes
    assert "there before" in found.confounded.text("abnormal-reference")
    (slower,) = run(few_reads(*[1_000.0] * 3), few_reads(*long)).causes
    assert slower.lead.kind is ChangeKind.SLOWER, "of an ordinary reference of three it is found"


def test_what_the_history_never_had_says_nothing_of_a_tail_of_a_slow_reference() -> None:
    """Reads of an incident take 20 to 60 ms; of 19 none takes 130 ms, of 42 five do."""
    rng = np.random.default_rng(4)
    before, after = rng.uniform(20_000, 60_000, 19), rng.uniform(20_000, 60_000, 37)
    found = run(few_reads(*before), few_reads(*after, *[250_000.0] * 5))
    assert not found.causes
    assert "there before" in found.confounded.text("abnormal-reference")


def test_one_slow_request_of_a_reference_makes_slow_calls_no_ordinary_ones() -> None:
    """One read in fifty is slow, as the only one of the reference is; then one in four is."""
    minute = few_reads(*np.linspace(900, 1_100, 58), 30_000, 50_000)
    slow = few_reads(*np.linspace(900, 1_100, 30), *[60_000.0] * 10)
    (tail,) = run(few_reads(40_000), slow, history=[minute] * 8).causes
    assert tail.lead.kind is ChangeKind.TAIL


def failing_reads(failing: Callable[[int, int], bool]) -> list[Call]:
    """Requests of ten reads each; which of them fail by the numbers of request and read."""
    return [
        call(
            "web/get",
            0,
            1_000 + n % 7,
            *(
                call("db/read", 90 * k, 90 * k + 50 + n % 5, status="x" if failing(n, k) else "ok")
                for k in range(10)
            ),
        )
        for n in range(REQUESTS)
    ]


def test_what_was_there_before_hides_nothing_that_began() -> None:
    """Half of the reads fail in reference and problem: of half the requests all, then half of each."""
    history = [failing_reads(lambda *_: False)] * 16
    found = run(
        failing_reads(lambda n, _: n % 2 == 0), failing_reads(lambda n, k: (n + k) % 2 == 0), (), history
    )
    assert "there before" in found.confounded.text("abnormal-reference")
    began = [c for c in found.confounded.kept if c.kind is ChangeKind.ERRORS]
    assert [(c.before, c.after) for c in began] == [(pytest.approx(0.5), pytest.approx(1.0))]


CONTAMINATED = ("outlying-windows",)


@pytest.mark.parametrize(
    ("problem", "history", "windows"),
    [
        pytest.param(pages(1_000, 36), [*ordinary(7), pages(1_000, 40)], 1, id="failures"),
        pytest.param(pages(3_000), [*ordinary(7), pages(20_000)], 1, id="slower-yet"),
        pytest.param(pages(3_000), [*ordinary(7), pages(3_500)], 1, id="as-slow"),
        pytest.param(pages(3_000), [*ordinary(8), pages(3_400), pages(3_410)], 2, id="two-of-ten"),
    ],
)
def test_an_incident_in_the_history_hides_nothing_and_is_listed(
    problem: list[Call], history: list[list[Call]], windows: int
) -> None:
    found = run(pages(1_000), problem, history=history)
    assert found.causes
    text = found.confounded.text("outlying-windows")
    assert text.startswith(f"{windows} of {len(history)} windows of the history")
    assert text.count("others ") == windows
    assert not run(pages(1_000), problem, CONTAMINATED, history).causes, "the rule pays its rent"


@pytest.mark.parametrize(("requests", "listed"), [(12, False), (40, True)])
def test_a_window_of_few_requests_is_no_incident(requests: int, listed: bool) -> None:
    """Twelve requests that take long may be twelve of a kind."""
    history = [*ordinary(7), pages(20_000)[:requests]]
    assert (
        bool(run(pages(1_000), pages(1_010), history=history).confounded.text("outlying-windows")) is listed
    )


def test_what_happens_again_and_again_is_ordinary() -> None:
    bursts = [pages(1_000 + 10 * n, 40 * (n % 2)) for n in range(8)]
    found = run(pages(1_000), pages(1_000, 36), history=bursts)
    assert not found.causes
    assert not found.confounded.text("outlying-windows")
    assert not run(pages(1_000), pages(1_010)).confounded.text("outlying-windows")
    slow = [pages((1_000 if n % 3 else 20_000) + 10 * n) for n in range(9)]
    found = run(pages(1_000), pages(20_000), history=slow)
    assert not found.confounded.text("outlying-windows"), "three of nine are no exception"


def long_pages(seed: int, read_us: float) -> list[Call]:
    """A minute of pages of 20 ms, of which a read takes half a percent."""
    rng = np.random.default_rng(seed)
    own, rest = read_us * rng.lognormal(0, 0.2, REQUESTS), 20_000 * rng.lognormal(0, 0.2, REQUESTS)
    return [call("web/get", 0, r + o, call("db/read", 100, 100 + o)) for o, r in zip(own, rest, strict=True)]


@pytest.mark.parametrize(("read_us", "findings"), [(148, 0), (175, 1)])
def test_plain_is_what_is_half_as_long_again_by_more_than_its_error(read_us: float, findings: int) -> None:
    """A read that takes 48 % longer is seen as more than half: what small part of a page it is decides."""
    found = run(
        long_pages(1, 100), long_pages(15, read_us), history=[long_pages(50 + at, 100) for at in range(6)]
    )
    change = found.tested.seen.observed["own-time"].estimate.change
    assert change.max() > np.log(1.5)
    assert len(found.causes) == findings
