"""Shares of very slow calls: over the bin that holds the quantile, and over the very edge that is told."""

from __future__ import annotations

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
from analyze.findings.changes import Change
from analyze.methods.port import Chosen
from analyze.methods.robust.affected_statistics import affected_by_statistics
from analyze.methods.robust.method import METHOD
from analyze.methods.robust.robust_settings import RobustSettings
from analyze.methods.robust.roles import Roles
from analyze.methods.robust.site_votes import Votes
from analyze.methods.robust.tail_tests import tail_changes
from analyze.methods.robust.visit_sums import BothSums, VisitSums
from analyze.population import Sample
from analyze.sites.names import NO_CALLER, NameBook, Names, OperationName, SiteKind
from analyze.sites.profile import OWN_TIME, SCHEMAS, Profile, Slot
from schemas.report.findings import ChangeKind, FindingsSection

ROLES = Roles(
    np.array([True, False]),
    np.array([True, False]),
    np.array([False, True]),
    np.array([0, -1], dtype=np.int64),
    cold=True,
)
BINS = st.lists(st.integers(400, 440) | st.integers(400, 700), min_size=4, max_size=120)


def names_of(n_sites: int) -> Names:
    book = NameBook()
    for number in range(n_sites):
        book.site(NO_CALLER, book.operation(OperationName("shop", f"step {number}")), SiteKind.CALL)
    return book.names()


def votes_of(sites: list[tuple[list[int], list[int]]]) -> Votes:
    """One vote a call of (ordinary, problem) bins of each site."""
    rows = [
        (site, slot, place)
        for site, sides in enumerate(sites)
        for slot, bins in enumerate(sides)
        for place in sorted(bins)
    ]
    site, slot, place = np.array(rows, dtype=np.int64).T
    return Votes(site, slot, place, np.ones(len(rows)))


def tails_of(sites: list[tuple[list[int], list[int]]]) -> list[Change]:
    n = np.array([[len(bins) for bins in sides] for sides in sites], dtype=np.float64).T
    none = np.zeros(len(sites))
    before, after = (VisitSums(float(w.sum()), w, w, w, none, 1e9 * w, none) for w in n)
    found = tail_changes(
        votes_of(sites), names_of(len(sites)), ROLES, BothSums(before, after), RobustSettings()
    )
    return [found.change(row) for row in range(len(found.site))]


@given(st.lists(st.tuples(BINS, BINS), min_size=1, max_size=4))
@example([([500] * 40, [500] * 40)])
@example([([400, 400, 400, 534], [400] * 4)])
@example([([*range(400, 490), *[600] * 10], [*range(400, 490), *[540] * 10])])
def test_a_call_is_very_slow_over_the_bin_that_holds_the_quantile(
    sites: list[tuple[list[int], list[int]]],
) -> None:
    found = tails_of(sites)
    for change, (ordinary, problem) in zip(found, sites, strict=True):
        first = oracle.slow_from(ordinary)
        assert change.threshold_us == pytest.approx(oracle.begins_us(first), rel=1e-12)
        for share, bins in ((change.before, ordinary), (change.after, problem)):
            assert share == sum(place >= first for place in bins) / len(bins)


@given(BINS, BINS)
def test_requests_over_what_is_told_are_those_that_were_counted(
    ordinary: list[int], problem: list[int]
) -> None:
    (change,) = tails_of([(ordinary, problem)])
    votes = votes_of([(ordinary, problem)])
    told = {
        "measure": np.full(len(votes.n), OWN_TIME),
        "site": votes.site,
        "slot": votes.slot,
        "bin": votes.bin,
        "n": votes.n,
    }
    schema = SCHEMAS["votes"]
    table = pa.table(
        [
            pa.array(np.asarray(told.get(f.name, np.zeros(len(votes.n))), f.type.to_pandas_dtype()))
            for f in schema
        ],
        schema=schema,
    )
    tables = {name: SCHEMAS[name].empty_table() for name in SCHEMAS} | {"votes": table}
    profile = Profile(names_of(1), (Slot(0, 0, 1), Slot(1, 1, 2)), **tables)
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
