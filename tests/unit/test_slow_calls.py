"""Shares of very slow calls: over the bin that holds the quantile, and over the very edge that is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from oracles import tails as oracle
from oracles.refined import call, population
from oracles.span_events import T0

from analyze.compare import compare
from analyze.methods.port import Chosen
from analyze.methods.robust.affected_requests import affected_by_statistics
from analyze.methods.robust.measures.observed import Observed
from analyze.methods.robust.measures.registry import MEASURES, slow_calls
from analyze.methods.robust.method import METHOD
from analyze.methods.robust.roles import Roles
from analyze.methods.robust.settings import RobustSettings
from analyze.methods.robust.testing import _change, _Row
from analyze.methods.robust.view import View
from analyze.population import Sample
from analyze.profile.names import NO_CALLER, NameBook, Names, OperationName, SiteKind
from analyze.profile.profile import OWN_TIME, SCHEMAS, Profile, Slot
from analyze.stats.histograms import Histograms
from schemas.arrays import F8
from schemas.report.findings import ChangeKind, FindingsSection

ROLES = Roles(
    np.array([True, False]),
    np.array([True, False]),
    np.array([False, True]),
    np.array([0, -1], dtype=np.int64),
    noise_assumed=True,
)
BINS = st.lists(st.integers(400, 440) | st.integers(400, 700), min_size=4, max_size=120)


def names_of(n_sites: int) -> Names:
    book = NameBook()
    for number in range(n_sites):
        book.sites[NO_CALLER, book.operations[OperationName("shop", f"step {number}")], SiteKind.CALL]
    return book.names()


def rows_of(sites: Sequence[tuple[list[int], ...]]) -> Histograms:
    """One request a call of each site's bins by slot, (ordinary, problem) for example."""
    rows = [
        (site, slot, place)
        for site, sides in enumerate(sites)
        for slot, bins in enumerate(sides)
        for place in sorted(bins)
    ]
    site, slot, place = np.array(rows, dtype=np.int64).T
    return Histograms.of(site, slot, place, np.ones(len(rows)))


def profile_of(rows: Histograms, w: F8, ns: F8) -> Profile:
    """Own times of calls; w, ns: [slots, sites] requests that touch a site, and their time."""
    n_slots, n_sites = w.shape
    slot, site = (part.ravel() for part in np.indices(w.shape))
    none = np.zeros(len(slot))
    tables = {name: SCHEMAS[name].empty_table() for name in SCHEMAS}
    given = {
        "votes": {"measure": np.full(len(rows.n), OWN_TIME), "site": rows.place, "slot": rows.column}
        | {"bin": rows.bin, "pattern": np.zeros(len(rows.n)), "n": rows.n, "w": rows.n, "w2": rows.n},
        "visits": {"site": site, "slot": slot, "n": w.ravel(), "w": w.ravel(), "w2": w.ravel()}
        | {"calls": w.ravel(), "critical_ns": ns.ravel(), "response_ns": ns.ravel()}
        | {"failing": none, "failing_n": none},
        "responses": {"root": np.zeros(n_slots), "slot": np.arange(n_slots), "bin": np.full(n_slots, 500)}
        | {name: w.max(axis=1) for name in ("n", "w", "w2", "ns", "ns2")}
        | {"failed": np.zeros(n_slots), "failed_n": np.zeros(n_slots)},
    }
    for name, columns in given.items():
        schema = SCHEMAS[name]
        tables[name] = pa.table(
            [pa.array(np.asarray(columns[f.name], f.type.to_pandas_dtype())) for f in schema], schema=schema
        )
    slots = tuple(Slot(0, at, at + 1) for at in range(n_slots))
    return Profile(names_of(n_sites), slots, **tables)


def tails_of(sites: list[tuple[list[int], list[int]]]) -> Observed:
    w = np.array([[len(bins) for bins in sides] for sides in sites], dtype=np.float64).T
    return slow_calls(View(profile_of(rows_of(sites), w, 1e9 * w), ROLES, RobustSettings()))


@given(st.lists(st.tuples(BINS, BINS), min_size=1, max_size=4))
@example([([500] * 40, [500] * 40)])
@example([([400, 400, 400, 534], [400] * 4)])
@example([([*range(400, 490), *[600] * 10], [*range(400, 490), *[540] * 10])])
def test_a_call_is_very_slow_over_the_bin_that_holds_the_quantile(
    sites: list[tuple[list[int], list[int]]],
) -> None:
    found = tails_of(sites)
    assert found.threshold_us is not None
    for site, (ordinary, problem) in enumerate(sites):
        first = oracle.slow_from(ordinary)
        assert found.threshold_us[site] == pytest.approx(oracle.begins_us(first), rel=1e-12)
        for share, bins in ((found.estimate.before, ordinary), (found.estimate.after, problem)):
            assert share[site] == pytest.approx(sum(place >= first for place in bins) / len(bins))


BLOCKS, EACH = 8, 150
ASSUMED = Roles(
    np.repeat([True, False], BLOCKS),
    np.repeat([True, False], BLOCKS),
    np.repeat([False, True], BLOCKS),
    np.concatenate([np.arange(BLOCKS), np.full(BLOCKS, -1)]).astype(np.int64),
    noise_assumed=True,
)


def share_told(
    shares: np.ndarray[tuple[int, int], np.dtype[np.float64]],
    rng: np.random.Generator,
    roles: Roles = ASSUMED,
    each: Sequence[int] = (EACH,) * (2 * BLOCKS),
    response_ns: float = 1e6,
) -> float:
    """How often a tail is told, of sites whose blocks [sites, 2 · BLOCKS] have such shares of slow calls."""
    slow = rng.binomial(each, shares)
    site, slot = np.indices(shares.shape)
    rows = [(400, each - slow), (600, slow)]
    order = np.argsort(np.concatenate([site.ravel() * 2, site.ravel() * 2 + 1]), kind="stable")
    values = Histograms(
        np.tile(site.ravel(), 2)[order],
        np.tile(slot.ravel(), 2)[order],
        np.repeat([place for place, _ in rows], site.size)[order],
        np.concatenate([n.ravel() for _, n in rows]).astype(np.float64)[order],
    )
    values = values.where(values.n > 0)
    w = np.broadcast_to(np.array(each, dtype=np.float64)[:, None], shares.T.shape)
    # The time of slow calls, so that a share of 7 % is worth a word.
    settings = RobustSettings(time_share=0.0)
    found = slow_calls(View(profile_of(values, w, response_ns * w * (1 + 10 * shares.T)), roles, settings))
    e = found.estimate
    counts = found.matters & e.clears(settings.min_z, found.floor) & (e.change > 0) & e.outside()
    return float(np.mean(counts))


def test_a_burst_is_one_event_and_a_rise_in_all_blocks_is_told() -> None:
    """Size and power without a history. A burst comes in one of eight blocks, of either period or of both."""
    rng = np.random.default_rng(6)
    bursts = np.full((600, 2 * BLOCKS), 0.01)
    place = rng.integers(0, BLOCKS, (600, 2))
    for period in (0, 1):
        has = rng.random(600) < 0.5
        bursts[has, period * BLOCKS + place[has, period]] = 0.6
    assert share_told(bursts, rng) == 0.0
    # With a history its windows say how far bursts go.
    assert share_told(bursts, rng, replace(ASSUMED, noise_assumed=False)) > 0.1
    assert share_told(np.full((600, 2 * BLOCKS), 0.02), rng) == 0.0
    rise = np.repeat([[0.005] * BLOCKS + [0.1] * BLOCKS], 600, axis=0)
    assert share_told(rise, rng) >= 0.95
    late = np.repeat([[0.005] * (BLOCKS + 5) + [0.3] * 3], 600, axis=0)
    assert share_told(late, rng) >= 0.95


def test_few_requests_beside_a_burst_do_not_show_a_rise() -> None:
    """One block of the problem has nearly all of its requests: what is left says little of a rise."""
    rng = np.random.default_rng(7)
    burst = np.full((600, 2 * BLOCKS), 0.02)
    burst[:, BLOCKS] = 0.2
    each = [EACH] * BLOCKS + [1_000] + [5] * (BLOCKS - 1)
    assert share_told(burst, rng, each=each) < 0.01


def test_very_slow_calls_that_take_much_count_by_a_small_rise() -> None:
    """Calls that take 76 times as long, 0.4 ms: from 0.5 % to 3 %, where few ordinary blocks have 2 %."""
    rng = np.random.default_rng(8)
    rise = np.repeat([[0.005] * BLOCKS + [0.03] * BLOCKS], 600, axis=0)
    known = replace(ASSUMED, noise_assumed=False)
    assert share_told(rise, rng, known, response_ns=1e4) > 0.6
    assert share_told(rise, rng, known) == 0.0, "a hundredth of the response"


@given(BINS, BINS)
def test_requests_over_what_is_told_are_those_that_were_counted(
    ordinary: list[int], problem: list[int]
) -> None:
    sites = [(ordinary, problem)]
    w = np.array([[len(ordinary)], [len(problem)]], dtype=np.float64)
    profile = profile_of(rows_of(sites), w, 1e9 * w)
    seen = slow_calls(View(profile, ROLES, RobustSettings()))
    tail = next(m for m in MEASURES if m.name == "slow-calls")
    change = _change(_Row(tail, seen, seen.estimate.p, seen.tested, *[~seen.tested] * 5), 0)
    counted = (round(change.before * change.n0), round(change.after * change.n1))
    assert affected_by_statistics(profile, ROLES, [change]) == counted


def test_requests_of_a_tail_are_those_of_its_share() -> None:
    """Three times the median is amidst the slow ones, of which the bin of the limit holds several."""
    usual = [300 + at % 40 for at in range(200)]
    slow = [*usual[:100], *(900 + 2 * at for at in range(100))]
    periods = [[call("web/get", 0, us) for us in times] for times in (usual, slow)]
    hour = 3_600 * 10**9
    samples = tuple(
        Sample(name, "", T0 + at * hour, T0 + at * hour + 200 * 10**9)
        for at, name in enumerate(("reference", "problem"))
    )
    chosen = [Chosen(METHOD, RobustSettings(paths=False))]
    report = compare(replace(population(*periods), samples=samples), chosen).report
    section = report.section(FindingsSection)
    assert section is not None
    (tail,) = [f for f in section.findings if f.kind is ChangeKind.TAIL]
    assert 0.1 < tail.after < 0.49
    assert (tail.affected0, tail.affected1) == (0, round(200 * tail.after))


@pytest.mark.parametrize(("own", "history", "told"), [(12, 2, False), (2, 11, False), (2, 12, True)])
def test_pieces_of_the_reference_are_no_blocks_of_a_history(own: int, history: int, told: bool) -> None:
    """What is assumed of the noise gives way to the blocks of a history, not to a long reference's pieces."""
    number = np.arange(own + history + 1)
    problem = number == own + history
    roles = Roles(~problem, number < own, problem, np.where(problem, -1, number), noise_assumed=False)
    values = rows_of([tuple([500, 501, 502] for _ in number)])
    w = np.full((len(number), 1), 3.0)
    view = View(profile_of(values, w, 1e9 * w), roles, RobustSettings(enough_blocks=12))
    estimates = view.level(view.own_times)
    assert [
        one is not None and one.noise is not None and one.noise.tau_estimated.tolist() for one in estimates
    ] == [
        [told],
        [told],
    ]
