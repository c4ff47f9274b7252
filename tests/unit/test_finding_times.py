"""A finding says when within the period it began, and whether it is still so at the end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from oracles.refined import Call, call, population
from oracles.span_events import T0

from analyze.compare import compare
from analyze.methods.port import Chosen
from analyze.methods.robust.affected_requests import AtSite
from analyze.methods.robust.method import METHOD
from analyze.methods.robust.roles import PROBLEM
from analyze.methods.robust.sections.finding_rows import when_of
from analyze.methods.robust.sections.findings import when_words
from analyze.methods.robust.settings import RobustSettings
from analyze.population import Sample
from schemas.arrays import I8
from schemas.report.findings import Finding, FindingsSection, Instant, When

N, SECOND_NS, HOUR_NS = 300, 10**9, 3_600 * 10**9


def requests(first: int, past: int, *, slow_us: float = 0.0) -> list[Call]:
    """One a second; between two of them half of the reads fail, or all take longer."""
    rng = np.random.default_rng(5)
    found = []
    for at in range(N):
        inside = first <= at < past
        end = 100 + 400 * rng.lognormal(0, 0.2) + slow_us * inside
        status = "x" if inside and not slow_us and rng.random() < 0.5 else "ok"
        found.append(call("web/get", 0, end + 50, call("db/read", 20, end, status=status)))
    return found


def finding(problem: list[Call]) -> Finding:
    samples = tuple(
        Sample(name, "", T0 + at * HOUR_NS, T0 + at * HOUR_NS + N * SECOND_NS)
        for at, name in enumerate(("reference", "problem"))
    )
    compared = replace(population(requests(0, 0), problem), samples=samples)
    section = compare(compared, [Chosen(METHOD, RobustSettings(paths=False))]).report.section(FindingsSection)
    assert section is not None
    return section.findings[0]


@pytest.mark.parametrize("slow_us", [0.0, 1_500.0], ids=["fails", "slow"])
@pytest.mark.parametrize(("first", "past"), [(100, N), (0, 200), (60, 240)])
def test_begin_and_end_are_told_where_they_lie_within(first: int, past: int, slow_us: float) -> None:
    when = finding(requests(first, past, slow_us=slow_us)).when
    assert when is not None
    for told, true in ((when.began, first), (when.ended, past)):
        if true in (0, N):
            assert told is None
        else:
            assert told is not None
            assert told.low_ns <= T0 + HOUR_NS + true * SECOND_NS <= told.high_ns
            assert told.high_ns - told.low_ns < 30 * SECOND_NS


def test_what_is_so_throughout_has_neither_begin_nor_end() -> None:
    when = finding(requests(0, N)).when
    assert when is not None
    assert (when.began, when.ended) == (None, None)


def test_times_in_words() -> None:
    when = finding(requests(100, N, slow_us=800.0)).when
    assert when is not None
    assert when_words(when).endswith("still so at the end")
    assert when_words(when.model_copy(update={"ended": when.began, "began": None})).startswith(
        "from the start, until 20"
    )


def test_a_bound_on_another_day_is_written_with_it() -> None:
    day, midnight = 86_400 * SECOND_NS, 1_763_596_800 * SECOND_NS
    began = Instant(at_ns=midnight, low_ns=midnight - day, high_ns=midnight + day)
    assert when_words(When(began=began, ended=None)) == (
        "from 2025-11-20 00:00:00Z (2025-11-19 00:00:00 to 2025-11-21 00:00:00), still so at the end"
    )
    near = began.model_copy(update={"low_ns": midnight + SECOND_NS, "high_ns": midnight + 60 * SECOND_NS})
    assert "(00:00:01 to 00:01:00)" in when_words(When(began=near, ended=None))


def test_requests_at_a_site_count_once_whatever_their_patterns() -> None:
    """From the middle on all of the problem's requests come to a site that was never there."""
    compared = population(requests(0, 0), requests(0, 0))
    (category,) = compared.categories
    rows = np.arange(category.n_requests)[category.rows(PROBLEM)][N // 2 :]

    def at(mine: I8) -> AtSite:
        n, hit = len(mine), np.ones(len(mine), dtype=np.bool_)
        return AtSite(0, mine, np.full(n, PROBLEM, np.uint8), np.zeros(n), hit, hit)

    of_one = when_of(compared, [at(rows)])
    assert of_one is not None
    assert when_of(compared, [at(rows[::2]), at(rows[1::2])]) == of_one


def test_a_new_version_begins_with_its_first_request_and_not_with_the_period() -> None:
    """From a third of the problem on half of the calls run on a version that the reference does not have."""
    compared = population(requests(0, 0), requests(0, 0))
    (category,) = compared.categories
    rows = np.arange(category.n_requests)
    place = np.cumsum(category.sample == PROBLEM) - 1
    inside = (category.sample == PROBLEM) & (place >= N // 3) & (place % 2 == 0)
    n = len(rows)
    when = when_of(compared, [AtSite(0, rows, category.sample, np.zeros(n), inside, inside)])
    assert when is not None
    assert when.began is not None
    assert when.ended is None
    true_ns = int(category.start_ns[category.rows(PROBLEM)][N // 3])
    assert when.began.low_ns <= true_ns <= when.began.high_ns
    assert when.began.high_ns - when.began.low_ns < 30 * SECOND_NS


def test_an_instant_is_as_fine_as_it_is_known() -> None:
    """Within a second by milliseconds, else seconds, its interval rounded outwards; a date is said once."""
    at = 1_763_596_800 * SECOND_NS + 511_000_000
    began = Instant(at_ns=at, low_ns=at - 700_000_000, high_ns=at + 700_000_000)
    ended = Instant(at_ns=at + SECOND_NS, low_ns=at + SECOND_NS, high_ns=at + SECOND_NS + 8_000_001)
    assert when_words(When(began=began, ended=ended)) == (
        "from 2025-11-20 00:00:00Z (2025-11-19 23:59:59 to 00:00:02), "
        "until 00:00:01.511Z (00:00:01.511 to 00:00:01.520)"
    )
    assert when_words(When(began=None, ended=ended)).startswith(
        "from the start, until 2025-11-20 00:00:01.511Z"
    )
