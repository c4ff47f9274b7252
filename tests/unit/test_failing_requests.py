"""One call of many that fails: a share of calls dilutes it, a share of requests does not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from evaluation.made_cases import twelve_reads as requests
from oracles.refined import population
from oracles.span_events import T0

from analyze.methods.robust import testing
from analyze.methods.robust.measures.registry import MEASURES, Look
from analyze.methods.robust.pattern_dispersion import PATTERN_DISPERSION
from analyze.methods.robust.robust_run import RobustRun, robust_run
from analyze.methods.robust.settings import RobustSettings
from analyze.methods.robust.titles import title
from analyze.population import Sample
from analyze.report.wording import NBSP
from schemas.report.findings import ChangeKind

HOUR_NS = 3_600 * 10**9


def run(failing: int, without: tuple[str, ...] = (), reads: int = 1, others: int = 0) -> RobustRun:
    before, after = requests(67, 0, others=others), requests(67, failing, reads, others)
    samples = tuple(
        Sample(name, "", T0 + at * HOUR_NS, T0 + at * HOUR_NS + 67 * 10**9)
        for at, name in enumerate(("reference", "problem"))
    )
    settings = RobustSettings(paths=False, without=without)
    return robust_run(replace(population(before, after), samples=samples), None, settings)


def failures(found: RobustRun) -> list[tuple[str, float]]:
    names = found.profile.names
    return [
        (names.operation(c.site).component, c.after)
        for c in found.tested.changes
        if c.kind is ChangeKind.ERRORS
    ]


def test_one_failing_call_of_twelve_in_a_third_of_the_requests_is_found() -> None:
    assert failures(run(22)) == [("db", pytest.approx(22 / 67))]
    assert failures(run(22, without=("failing-requests",))) == [], "the rule pays its rent"


def test_a_second_look_is_corrected_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests of first looks at a hundred other calls are no reason to ask more of it."""
    assert failures(run(13, others=100)) == [("db", pytest.approx(13 / 67))]
    together = [replace(m, look=Look.FIRST) if m.name == "failing-requests" else m for m in MEASURES]
    monkeypatch.setattr(testing, "MEASURES", together)
    assert failures(run(13, others=100)) == []


def test_without_every_measure_nothing_is_found() -> None:
    measures = (*(measure.name for measure in MEASURES), PATTERN_DISPERSION)
    assert run(22, without=measures).tested.changes == ()


def test_one_failing_request_is_chance() -> None:
    assert failures(run(1)) == []


@pytest.mark.parametrize(
    ("failing", "reads", "said"),
    [
        (67, 6, "db/read fails in 50 % of its calls, was 0 %"),
        (22, 1, "db/read fails in 33 % of its requests, was 0 %"),
        (22, 12, "db/read fails in 33 % of its calls, was 0 %"),
    ],
)
def test_a_title_says_of_what_its_share_is(failing: int, reads: int, said: str) -> None:
    """Half of the calls of all requests, one call of twelve in a third of them, and all calls of those."""
    found = run(failing, reads=reads)
    (cause,) = found.causes
    assert title(cause.lead, cause.changes, found.profile.names).replace(NBSP, " ") == said
