"""Stretches in which nothing began: what is told, and the many gaps that are none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from analyze.methods.robust.verdict.data_quality import silence_reason, silence_rows
from analyze.population import Sample
from analyze.stats.silences import Silence, Traffic, compared_traffic
from schemas.recorded import Recorded
from schemas.windows import NS_PER_SECOND

S = NS_PER_SECOND
LENGTH = 300 * S
WENT_ON = Recorded(-LENGTH, 2 * LENGTH, 0, LENGTH)
REACHED = Recorded(0, LENGTH, None, None)


def traffic(starts: np.ndarray, recorded: Recorded = WENT_ON, **other: float) -> Traffic:
    at = np.sort(starts).astype(np.int64)
    n = float(len(at))
    return replace(Traffic(at, at, n, n, ((0, LENGTH),), ((recorded,),)), **other)


def silences_of(sides: list[Traffic]) -> tuple[tuple[Silence, ...], ...]:
    return compared_traffic(sides).silences


def poisson(rng: np.random.Generator, rate: float = 20.0) -> np.ndarray:
    return np.sort(rng.integers(0, LENGTH, rng.poisson(rate * LENGTH / S)))


def without(starts: np.ndarray, start_s: float, end_s: float) -> np.ndarray:
    return starts[(starts < start_s * S) | (starts >= end_s * S)]


@pytest.mark.parametrize(("start", "end"), [(0, 60), (100, 160), (120, 300), (290, 300)])
def test_an_outage_is_told_wherever_it_lies(start: int, end: int) -> None:
    rng = np.random.default_rng(1)
    reference, problem = traffic(poisson(rng)), traffic(without(poisson(rng), start, end))
    none, (told,) = silences_of([reference, problem])
    assert none == ()
    assert told.start_ns / S == pytest.approx(start, abs=1)
    assert told.end_ns / S == pytest.approx(end, abs=1)
    assert told.expected == pytest.approx(20 * (end - start), rel=0.15)
    assert silences_of([problem, reference]) == ((told,), ())


def test_a_recording_that_ends_is_no_outage() -> None:
    rng = np.random.default_rng(2)
    reference = traffic(poisson(rng))
    for start, end in ((0, 60), (120, 300)):
        assert silences_of([reference, traffic(without(poisson(rng), start, end), REACHED)]) == ((), ())


def test_a_silence_that_lies_outside_for_the_most_is_no_outage() -> None:
    """A recording made in pieces: the next one is there soon after the period's end."""
    rng = np.random.default_rng(8)
    cut = without(poisson(rng), 280, 300)
    for after, told in ((20, 1), (39, 1), (42, 0)):
        piece = Recorded(-LENGTH, 2 * LENGTH, None, 280 * S + after * S)
        assert len(silences_of([traffic(poisson(rng)), traffic(cut, piece)])[1]) == told


def test_a_gap_between_requests_needs_no_other_windows() -> None:
    rng = np.random.default_rng(3)
    cut = without(poisson(rng), 100, 160)
    assert len(silences_of([traffic(poisson(rng), REACHED), traffic(cut, REACHED)])[1]) == 1


def test_too_few_expected_or_left_out_is_not_told() -> None:
    rng = np.random.default_rng(4)
    sparse = [poisson(rng, 0.2), without(poisson(rng, 0.2), 120, 200)]  # 16 expected
    assert silences_of([traffic(one) for one in sparse]) == ((), ())
    reference, cut = poisson(rng), without(poisson(rng), 120, 140)  # 400 expected
    assert silences_of([traffic(reference), traffic(cut)])[1]
    assert silences_of([traffic(reference), traffic(cut, left_out=500.0)]) == ((), ())


def test_what_the_other_period_does_as_well_is_ordinary() -> None:
    rng = np.random.default_rng(5)
    sides = [traffic(without(poisson(rng), at, at + 30)) for at in (50, 150)]
    assert silences_of(sides) == ((), ())


def test_bursts_are_no_outages() -> None:
    rng = np.random.default_rng(6)
    every = poisson(rng)
    bursts = every[(every // S) % 60 < 20]
    assert silences_of([traffic(poisson(rng)), traffic(bursts)]) == ((), ())


@pytest.mark.parametrize("spread", [0.0, 1.0])
@pytest.mark.parametrize("rate", [0.2, 5.0])
def test_quiet_periods_have_none(rate: float, spread: float) -> None:
    """Also where the rate wanders by a factor of e each way from ten seconds to ten seconds."""
    rng = np.random.default_rng(7)
    told = 0
    for _ in range(100):
        sides = []
        for _ in range(2):
            at = poisson(rng, rate * np.exp(2 * spread))
            keep = np.exp(spread * np.clip(rng.normal(0, 1, 30), -2, 2) - 2 * spread)
            sides.append(traffic(at[rng.random(len(at)) < keep[at // (10 * S)]]))
        told += any(silences_of(sides))
    assert told == 0


def test_slots_tell_the_same_to_their_width() -> None:
    minutes = np.arange(5, dtype=np.int64) * 60 * S

    def slots(there: list[int]) -> Traffic:
        n = 1_200.0 * len(there)
        return Traffic(minutes[there], minutes[there] + 60 * S, n, n, ((0, LENGTH),), ((WENT_ON,),))

    none, told = silences_of([slots([0, 1, 2, 3, 4]), slots([0, 1])])
    assert none == ()
    assert told == (Silence(120 * S, 300 * S, 3_600.0),)


def test_a_period_without_a_request_says_nothing() -> None:
    assert silences_of([traffic(np.zeros(0)), traffic(np.arange(100) * S)]) == ((), ())


def test_rows_say_from_when_to_when() -> None:
    sample = Sample("problem", start_ns=0, end_ns=LENGTH)
    long, short = Silence(120 * S + 3, 300 * S, 1_123.4), Silence(0, 5 * S // 2, 50.0)
    problem, reference = silence_rows(((short,), (long, short)), (sample, replace(sample, where="a = 1")))
    assert problem.text == (
        "No request that the filter keeps was recorded from 1970-01-01T00:02Z to 1970-01-01T00:05Z of the "
        "problem period; about 1,100 requests were expected (and 1 shorter stretch like it)."
    )
    assert reference.text.startswith(
        "The reference is not normal: no request was recorded from 1970-01-01 to"
    )
    assert "00:00:02.5Z; about 50 requests" in reference.text
    assert all(row.severe and row.kind == "load" for row in (problem, reference))
    reason = silence_reason((long,), sample, LENGTH)
    assert reason.startswith("In 60\xa0% of the time recorded in the problem period")
    assert silence_reason((), sample, LENGTH) == ""
