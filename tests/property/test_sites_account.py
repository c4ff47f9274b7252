"""The exact account on random populations: against plain sums, and what must hold whatever comes in."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from oracles.examples import examples
from oracles.site_populations import all_slots, record_populations, span_populations
from oracles.sites import PlainAccount, plain_account, requests, words_of

from analyze.methods.robust.sections.breakdown import error_rows
from analyze.population import Population
from analyze.profile.breakdown import ExactAccount, account_rows, exact_account, root_requests
from analyze.profile.build import profile_of
from analyze.profile.names import NameBook
from analyze.profile.profile import SCHEMAS, Profile, Slot

THRESHOLD_NS = 60_000.0
POPULATIONS = st.one_of(span_populations(), record_populations())
MEASURES = st.sampled_from(["mean", "tail", "errors"])


def profiled(found: Population) -> tuple[Profile, tuple[np.ndarray, np.ndarray]]:
    """Profile, and which slots are of the reference and of the problem."""
    slots = all_slots(found, 2)
    periods = tuple(np.array([slot.sample == number for slot in slots]) for number in (0, 1))
    assume(all(inside.any() for inside in periods))
    return profile_of(found, slots, THRESHOLD_NS).profile, periods  # type: ignore[return-value]


def account(profile: Profile, periods: tuple[np.ndarray, np.ndarray], measure: str) -> ExactAccount:
    """The account of a measure."""
    if measure == "errors":
        return exact_account(error_rows(profile, *periods), root_requests(profile, *periods))
    rows = account_rows(profile, *periods, "critical_ns" if measure == "mean" else "over")
    return exact_account(rows, root_requests(profile, *periods))


@examples(60)
@given(POPULATIONS, MEASURES)
def test_an_account_is_that_of_plain_sums(found: Population, measure: str) -> None:
    profile, periods = profiled(found)
    exact = account(profile, periods, measure)
    every = list(requests(found))
    sides = [[request for request in every if request.sample == number] for number in (0, 1)]
    plain = plain_account(*sides, measure, THRESHOLD_NS)
    assert [exact.before, exact.after] == pytest.approx([plain.before, plain.after], abs=1e-12)
    assert plain.total == pytest.approx(plain.after - plain.before, rel=1e-9, abs=1e-9 * plain.before)
    # What is accounted for is what was measured, request by request.
    direct = [
        sum(request.weight * _value(request, measure) for request in side)
        / sum(request.weight for request in side)
        for side in sides
    ]
    assert [exact.before, exact.after] == pytest.approx(direct, abs=1e-12)
    assert exact.residual == pytest.approx(0, abs=1e-9 * max(direct))
    _same_parts(exact, plain, profile, "site" if measure == "errors" else "path")


def _value(request: object, measure: str) -> float:
    if measure == "mean":
        return float(request.response_ns)  # type: ignore[attr-defined]
    if measure == "tail":
        return float(request.response_ns > THRESHOLD_NS)  # type: ignore[attr-defined]
    return float(bool(request.failing))  # type: ignore[attr-defined]


def _same_parts(exact: ExactAccount, plain: PlainAccount, profile: Profile, place: str) -> None:
    words = words_of(profile.names)
    for root, part in zip(profile.names.roots, exact.mix.tolist(), strict=True):
        assert part == pytest.approx(plain.mix.get(root, 0.0), rel=1e-9, abs=1e-6)
    found = {
        (profile.names.roots[root], words[place][at]): parts
        for root, at, *parts in zip(
            exact.parts.root.tolist(),
            exact.parts.place.tolist(),
            exact.parts.calls.tolist(),
            exact.parts.structure.tolist(),
            exact.parts.slower.tolist(),
            strict=True,
        )
    }
    for key in {**plain.parts, **found}:
        nothing = (0.0, 0.0, 0.0)
        assert found.get(key, nothing) == pytest.approx(plain.parts.get(key, nothing), rel=1e-9, abs=1e-6)


@examples(30)
@given(POPULATIONS, MEASURES)
def test_the_other_way_round_all_signs_change(found: Population, measure: str) -> None:
    profile, (reference, problem) = profiled(found)
    there = account(profile, (reference, problem), measure)
    back = account(profile, (problem, reference), measure)
    assert there.mix == pytest.approx(-back.mix, abs=1e-6)
    for one, other in (
        (there.parts.calls, back.parts.calls),
        (there.parts.structure, back.parts.structure),
        (there.parts.slower, back.parts.slower),
    ):
        assert one == pytest.approx(-other, rel=1e-9, abs=1e-6)


@examples(30)
@given(POPULATIONS, MEASURES, st.floats(0.1, 10))
def test_an_account_does_not_see_load(found: Population, measure: str, load: float) -> None:
    """More of the same requests in one period: nothing changed."""
    profile, periods = profiled(found)
    heavier = replace(
        found,
        categories=tuple(
            replace(c, weight=np.where(c.sample == 1, c.weight * load, c.weight)) for c in found.categories
        ),
    )
    one, other = account(profile, periods, measure), account(profiled(heavier)[0], periods, measure)
    assert other.mix == pytest.approx(one.mix, rel=1e-9, abs=1e-6)
    assert other.parts.total == pytest.approx(one.parts.total, rel=1e-9, abs=1e-6)


def test_there_may_be_more_root_types_than_sixteen_bits_number() -> None:
    root = np.array([0, 32_767, 32_768, 40_000, 1 << 20])
    keys = {"root": root, "path": 7 * root, "pattern": 3 * root, "slot": np.array([0, 1, 0, 1, 0])}
    columns = {**keys, "calls": np.ones(5), "critical_ns": np.arange(5.0), "over": np.zeros(5)}
    tables = {name: schema.empty_table() for name, schema in SCHEMAS.items()}
    tables["account"] = pa.table(
        {name: pa.array(values).cast(SCHEMAS["account"].field(name).type) for name, values in columns.items()}
    )
    profile = Profile(NameBook().names(), (Slot(0, 0, 1), Slot(1, 1, 2)), **tables)
    rows = account_rows(profile, np.array([True, False]), np.array([False, True]))
    assert rows.root.tolist() == root.tolist()
    assert rows.place.tolist() == (7 * root).tolist()
    assert rows.pattern.tolist() == (3 * root).tolist()
    assert rows.value.tolist() == [[0, 0], [0, 1], [2, 0], [0, 3], [4, 0]]
