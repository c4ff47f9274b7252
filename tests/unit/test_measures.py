"""Changes that one measure alone sees: each is found, and is not without the rule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from evaluation.made_cases import pages
from oracles.refined import Call, call, population
from oracles.span_events import T0

from analyze.methods.robust.robust_run import robust_run
from analyze.methods.robust.settings import RobustSettings
from analyze.methods.robust.titles import title
from analyze.population import Sample
from analyze.report.wording import NBSP

HOUR_NS = 3_600 * 10**9
N = 300


def said(before: list[Call], after: list[Call], *without: str) -> list[str]:
    samples = tuple(
        Sample(name, "", T0 + at * HOUR_NS, T0 + at * HOUR_NS + N * 10**9)
        for at, name in enumerate(("reference", "problem"))
    )
    settings = RobustSettings(paths=False, without=without)
    found = robust_run(replace(population(before, after), samples=samples), None, settings)
    return [title(cause.lead, cause.changes, found.profile.names) for cause in found.causes]


@pytest.mark.parametrize(
    ("rule", "before", "after"),
    [
        ("far-slower-calls", pages(1, 1_000), pages(2, 1_000, far=4)),
        ("own-time", pages(1, 100), pages(2, 200)),
        ("change-noise", pages(1, 20_000, every=12), pages(2, 40_000, every=12)),
    ],
    ids=[
        "one read in 75 takes a thousand times as long",
        "half a percent of the page, twice as long",
        "a call of every twelfth page, twice as long: no piece of the reference has enough of them",
    ],
)
def test_a_change_that_one_measure_alone_sees(rule: str, before: list[Call], after: list[Call]) -> None:
    (text,) = said(before, after)
    assert text.startswith("db/read")
    assert said(before, after, rule) == [], "the rule pays its rent"


def test_two_far_slower_calls_are_an_accident() -> None:
    assert said(pages(1, 1_000), pages(2, 1_000, far=2)) == []


def test_what_is_plain_is_more_than_half_as_long_again() -> None:
    assert said(pages(1, 100), pages(2, 140)) == []


def beside(seed: int, hidden_us: float) -> list[Call]:
    """Pages that ask a store and, beside it, a log that answers sooner."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(N):
        stored, logged = 5_000 * rng.lognormal(0, 0.05), hidden_us * rng.lognormal(0, 0.05)
        asked = (call("store/get", 100, 100 + stored), call("log/put", 110, 110 + logged))
        found.append(call("web/get", 0, 300 + max(stored, logged), *asked))
    return found


def test_a_call_that_no_response_waits_for_may_take_as_long_as_it_likes() -> None:
    assert said(beside(1, 1_000), beside(2, 3_000)) == []
    (text,) = said(beside(1, 1_000), beside(2, 9_000))
    assert text.startswith("log/put"), "now it is the longest"


def slow_reads(seed: int, late: range) -> list[Call]:
    """Pages that read for 10 ms; those of some numbers ten times as long."""
    rng = np.random.default_rng(seed)
    found = []
    for at in range(N):
        own = 10_000 * rng.lognormal(0, 0.2) * (10 if at in late else 1)
        found.append(call("web/get", 0, 5_000 + own, call("db/read", 100, 100 + own)))
    return found


def test_a_burst_is_one_event() -> None:
    """Thirty slow reads one after the other lie in one block of the period, evenly spread ones in all."""
    before = slow_reads(1, range(0))
    assert said(before, slow_reads(2, range(120, 149))) == []
    (text,) = said(before, slow_reads(2, range(0, N, 10)))
    assert text.startswith(f"db/read: slow (over 30.1{NBSP}ms) in 10{NBSP}% of its")


def test_where_ordinary_times_went_is_no_change() -> None:
    """An eighth of the reference took longer than the whole problem period does."""

    def reads(seed: int, long: range, us: float = 30_000) -> list[Call]:
        rng = np.random.default_rng(seed)
        own = [(us if at in long else 10_000) * rng.lognormal(0, 0.1) for at in range(N)]
        return [call("web/get", 0, 5_000 + one, call("db/read", 100, 100 + one)) for one in own]

    slow = reads(2, range(N), 27_000)
    assert said(reads(1, range(112, 151)), slow) == []
    (text,) = said(reads(1, range(0)), slow)
    assert text.startswith("db/read: its own time is")
