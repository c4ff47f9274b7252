"""Profiles of sites on random populations: against the plain oracle, and what must hold whatever comes in."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.examples import examples
from oracles.site_populations import all_slots, record_populations, span_populations
from oracles.sites import SiteText, differences, expected_rows, profile_rows, requests, words_of

from analyze.cache_blocks import FEW_CELLS
from analyze.population import Category, Population
from analyze.profile.batches import batches, requests_of
from analyze.profile.build import profile_of, slotted
from analyze.profile.names import NameBook
from analyze.profile.profile import joined
from analyze.profile.times import call_times, critical_times, own_time_ns

POPULATIONS = st.one_of(span_populations(), record_populations())


CELLS = st.sampled_from([1, 60, FEW_CELLS])
"""Of a batch: a request each, a few graphs, all."""


@examples(50)
@given(POPULATIONS, st.integers(1, 3), st.sampled_from([None, 0.0, 60_000.0]), CELLS)
def test_a_profile_is_the_sum_of_its_requests(
    found: Population, pieces: int, threshold_ns: float | None, cells: int
) -> None:
    slots = all_slots(found, pieces)
    profile = profile_of(found, slots, threshold_ns, cells=cells).profile
    expected = expected_rows(found, slots, math.inf if threshold_ns is None else threshold_ns)
    assert not differences(profile_rows(profile), expected)


@examples(30)
@given(POPULATIONS, CELLS)
def test_own_times_of_units_are_the_sums_of_their_requests(found: Population, cells: int) -> None:
    made = profile_of(found, all_slots(found, 2), cells=cells)
    expected: Counter[tuple[SiteText, int]] = Counter()
    for request in requests(found):
        for unit in request.units:
            expected[unit.site, request.sample] += unit.own_ns
    sums: Counter[tuple[SiteText, int]] = Counter()
    first, site_texts = 0, words_of(made.profile.names)["site"]
    for group in made.groups:
        category, units = found.categories[group.category], np.arange(group.sites.n_units)
        own_ns = own_time_ns(category.node_ns[:, group.rows], group.sites, units)
        for sample in range(len(found.samples)):
            mine = made.own_ns[first + units, sample]
            assert (mine == own_ns[:, category.sample[group.rows] == sample].sum(axis=1)).all()
            for site, ns in zip(group.sites.site.tolist(), mine.tolist(), strict=True):
                sums[site_texts[site], sample] += ns
        first += len(units)
    assert len(made.own_ns) == first
    assert +sums == +expected


@examples(30)
@given(POPULATIONS, CELLS)
def test_critical_time_of_the_units_is_the_response_time(found: Population, cells: int) -> None:
    groups = slotted(found, all_slots(found, 1), NameBook())
    for batch in batches(found, groups, requests_of(found, groups), cells):
        times, critical = call_times(batch), critical_times(batch)
        request = batch.unit.at(batch.first_request[batch.unit_group])
        of_request = np.bincount(request, critical.ns, minlength=len(batch.place))
        assert (of_request == batch.requests.response_ns).all()
        assert not critical.ns[~critical.is_critical].any()
        assert (times.own >= 0).all()
        assert (times.own <= times.duration).all()
    for request in requests(found):
        assert sum(unit.critical_ns for unit in request.units) == request.response_ns


@examples(20)
@given(POPULATIONS, st.integers(1, 4))
def test_profiles_of_windows_joined_are_the_profile_of_all(found: Population, pieces: int) -> None:
    slots = all_slots(found, pieces)
    whole = profile_of(found, slots).profile
    again = joined([profile_of(found, [slot]).profile for slot in slots])
    assert again.slots == whole.slots
    assert not differences(profile_rows(again), profile_rows(whole))
    for name, table in again.tables().items():
        keys = table.column_names[: table.column_names.index("slot") + 1]
        assert table.equals(table.sort_by([(key, "ascending") for key in keys])), name


@examples(20)
@given(POPULATIONS)
def test_two_of_weight_one_are_one_of_weight_two(found: Population) -> None:
    slots = all_slots(found, 2)
    once = replace(
        found, categories=tuple(replace(c, weight=np.full(c.n_requests, 2.0)) for c in found.categories)
    )
    twice = replace(found, categories=tuple(doubled(c) for c in found.categories))
    one, other = (profile_rows(profile_of(each, slots).profile) for each in (once, twice))
    counted = {  # columns that count requests and squared weights are what tells the two apart
        "votes": [1],
        "visits": [1, 3, 4, 5, 6],
        "patterns": [1, 2, 3],
        "account": [0, 1],
        "responses": [1, 3, 4, 5],
        "origins": [1],
    }
    for name, columns in counted.items():
        assert one[name].keys() == other[name].keys()
        for key, values in one[name].items():
            assert [values[c] for c in columns] == pytest.approx([other[name][key][c] for c in columns])


def doubled(category: Category) -> Category:
    """Every request twice, at weight 1."""
    rows = np.repeat(np.arange(category.n_requests), 2)
    fails = category.failures
    at = np.concatenate([2 * fails.row, 2 * fails.row + 1])
    order = np.lexsort((np.tile(fails.position, 2), at))
    return replace(
        category,
        node_ns=category.node_ns[:, rows],
        response_ns=category.response_ns[rows],
        start_ns=category.start_ns[rows],
        weight=np.ones(len(rows)),
        sample=category.sample[rows],
        status=category.status[rows],
        request_id=category.request_id.take(rows),
        host=None if category.host is None else category.host[:, rows],
        failures=replace(
            fails,
            row=at[order].astype(np.int32),
            position=np.tile(fails.position, 2)[order],
            error=np.tile(fails.error, 2)[order],
        ),
        origin=None if category.origin is None else category.origin[rows],
    )


@examples(30)
@given(POPULATIONS)
def test_one_request_has_one_vote(found: Population) -> None:
    """However often it calls, a request counts once at each site and measure, and once as a visit."""
    slots = all_slots(found, 1)
    profile = profile_of(found, slots).profile
    visits = {(row["site"], row["slot"]): row["n"] for row in profile.visits.to_pylist()}
    votes: dict[tuple[int, int, int], float] = {}
    for row in profile.votes.to_pylist():
        key = (row["measure"], row["site"], row["slot"])
        votes[key] = votes.get(key, 0) + row["n"]
    assert all(n <= visits[site, slot] for (_, site, slot), n in votes.items())
