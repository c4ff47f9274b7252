"""Compute profiles from loaded requests, with array operations over many graphs and no loop over requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from analyze.cache_blocks import FEW_CELLS
from analyze.population import Population
from analyze.profile.batches import Batch, SlottedRequests, batches, requests_of
from analyze.profile.call_sites import RequestGroup, sites_of_graphs
from analyze.profile.names import NameBook
from analyze.profile.profile import (
    CALLS,
    OVERLAP,
    OWN_TIME,
    RATIO_SCALE,
    STRETCH,
    TABLES,
    TOTAL_TIME,
    Profile,
    Slot,
    Watched,
)
from analyze.profile.sums import RowSums
from analyze.profile.times import CallTimes, call_times, critical_times
from analyze.ragged import Ragged
from analyze.stats.histograms import bin_of
from analyze.stats.sums import numbered, totals
from schemas.arrays import F8, I8
from stitch.columnar.runs import group_stably, tree_levels

_NO_SLOT: Final = -1
_MEASURES: Final = {
    "own time": OWN_TIME,
    "overlap": OVERLAP,
    "calls": CALLS,
    "stretch": STRETCH,
    "total time": TOTAL_TIME,
}
"""Name of a measure -> its number, ascending."""


class Profiled(NamedTuple):
    """Profile, with the groups of requests that it was computed from."""

    profile: Profile
    groups: tuple[RequestGroup, ...] = ()
    own_ns: I8 = np.zeros((0, 0), dtype=np.int64)
    """int64[units of all groups, samples]: self time of each unit, ns, summed over its group's requests."""


def profile_of(
    population: Population,
    slots: Sequence[Slot],
    threshold_ns: float | None = None,
    *,
    with_totals: bool = False,
    cells: int = FEW_CELLS,
) -> Profiled:
    """Profile of the population's requests that lie in a slot of their sample.

    Slots of one sample must not overlap; the slots of the result have `watched` set. threshold_ns: response
    time above which requests count in the column `over` of the table `account`; None: none do. with_totals:
    include votes of TOTAL_TIME, which stored statistics need. cells: nodes · requests processed at a time.
    O(requests · nodes).
    """
    book = NameBook()
    groups = slotted(population, slots, book)
    requests = requests_of(population, groups)
    roots = np.array([book.roots[population.categories[one.category].graph.root] for one in groups], np.int64)
    rows = _all_rows(groups, roots, book, len(slots), with_totals=with_totals)
    _add_responses(rows["responses"], requests, roots)
    origins = _add_failures(rows["visits"], population, groups, requests, roots, book)
    limit_ns = np.inf if threshold_ns is None else max(threshold_ns, 0)
    weights = np.unique(requests.weight)
    sample = np.array([slot.sample for slot in slots], dtype=np.int64)
    own_ns = np.zeros((sum(one.sites.n_units for one in groups), len(population.samples)), np.int64)
    for batch in batches(population, groups, requests, cells):
        runs, sites = _Runs.of(batch), _SitePlaces.of(batch, book)
        times, units = call_times(batch), _UnitSums.of(batch, runs, limit_ns)
        unit = units.rows.layout.spread(np.arange(batch.units.start, batch.units.stop))
        of_rows = np.add.reduceat(times.own, units.first)
        np.add.at(own_ns, (unit, sample[runs.slot[units.rows.run]]), of_rows)
        _add_votes(rows, batch, times, sites, runs, weights)
        _add_visits(rows["visits"], batch, sites, runs, units)
        _add_patterns(rows["patterns"], batch, runs, units)
        _add_account(rows["account"], batch, runs, units)
    tables = {name: rows[name].table() for name in ("visits", "patterns", "account", "responses")}
    votes = pa.concat_tables([rows[name].table() for name in _MEASURES if name in rows])
    tables |= {"votes": votes.combine_chunks(), "origins": origins}
    profile = Profile(book.names(), _watched(slots, requests), **tables, folded=population.folded)
    return Profiled(profile, groups, own_ns)


def _all_rows(
    groups: Sequence[RequestGroup], roots: I8, book: NameBook, n_slots: int, *, with_totals: bool
) -> dict[str, RowSums]:
    """Accumulators of all tables but `origins`, with the places that the graphs of `groups` have; votes by
    name of the measure. roots: int64[groups], number of each group's root type."""
    none = np.zeros(0, dtype=np.int64)

    def column(name: str) -> I8:
        return np.concatenate([none, *(getattr(one.sites, name) for one in groups)])

    site, path, pattern, at, after = map(column, ("site", "path", "pattern", "pattern_site", "pattern_of"))
    root = np.repeat(roots, [one.sites.n_units for one in groups])
    found = {
        "visits": RowSums("visits", n_slots, [np.arange(len(book.sites))]),
        "patterns": RowSums("patterns", n_slots, [at, after]),
        "account": RowSums("account", n_slots, [root, path, pattern]),
        "responses": RowSums("responses", n_slots, [np.arange(len(book.roots))]),
    }
    for name, measure in _MEASURES.items():
        if with_totals or measure != TOTAL_TIME:
            found[name] = RowSums("votes", n_slots, [np.full(len(site), measure), site, pattern])
    return found


def slotted(population: Population, slots: Sequence[Slot], book: NameBook) -> tuple[RequestGroup, ...]:
    """Group the requests that lie in a slot by category and by the deferred calls that were left out of their
    graph. O(n log n).

    Numbers the names of the graphs in `book`."""
    categories = population.categories
    none = np.zeros(0, dtype=np.int64)
    sample, start_ns = (
        np.concatenate([none, *(getattr(one, name) for one in categories)]) for name in ("sample", "start_ns")
    )
    slot = np.full(len(sample), _NO_SLOT)
    for at in {one.sample for one in slots}:
        mine = sorted((one.start_ns, one.end_ns, n) for n, one in enumerate(slots) if one.sample == at)
        starts, ends, numbers = np.array(mine, dtype=np.int64).T
        rows = np.flatnonzero(sample == at)
        place = starts.searchsorted(start_ns[rows], side="right") - 1
        inside = (place >= 0) & (start_ns[rows] < ends[place])
        slot[rows[inside]] = numbers[place[inside]]
    sizes = [one.n_requests for one in categories]
    of, before = np.repeat(np.arange(len(sizes)), sizes), np.cumsum([0, *sizes])
    variants = (
        np.zeros(n, np.int64) if c.origin is None else c.origin
        for c, n in zip(categories, sizes, strict=True)
    )
    variant = np.concatenate([none, *variants])
    order = np.flatnonzero(slot >= 0)
    order = order[np.lexsort((slot[order], variant[order], of[order]))]
    _, first = numbered((of[order], variant[order]))
    numbers = of[order[first]].tolist()
    lefts = zip(numbers, variant[order[first]].tolist(), strict=True)
    sites = sites_of_graphs(
        [categories[at].graph for at in numbers],
        [categories[at].left_behind[which] for at, which in lefts],
        book,
    )
    bounds = pairwise([*first.tolist(), len(order)])
    return tuple(
        RequestGroup(at, order[a:b] - before[at], slot[order[a:b]], mine)
        for at, (a, b), mine in zip(numbers, bounds, sites, strict=True)
    )


def _watched(slots: Sequence[Slot], requests: SlottedRequests) -> tuple[Slot, ...]:
    """Copies of the slots with `watched` set to one interval, that of the slot, with the number of its
    requests, the sum of their weights, and the start of the first and of the last request."""
    n, w = (totals(requests.slot, of, len(slots)) for of in (np.ones(len(requests.slot)), requests.weight))
    first = np.full(len(slots), np.iinfo(np.int64).max)
    last = np.zeros(len(slots), dtype=np.int64)
    np.minimum.at(first, requests.slot, requests.start_ns)
    np.maximum.at(last, requests.slot, requests.start_ns)
    first[n == 0] = 0
    held = zip(slots, n.tolist(), w.tolist(), first.tolist(), last.tolist(), strict=True)
    return tuple(replace(s, watched=(Watched(s.start_ns, s.end_ns, *of),)) for s, *of in held)


def _add_responses(rows: RowSums, requests: SlottedRequests, roots: I8) -> None:
    response, w = requests.response_ns.astype(np.float64), requests.weight
    failed = requests.failed.astype(np.float64)
    columns = (np.ones(len(w)), w, w * w, w * response, w * response * response, w * failed, failed)
    rows.add(roots[requests.group], requests.slot, bin_of(response), columns)


def _add_failures(
    visits: RowSums,
    population: Population,
    groups: Sequence[RequestGroup],
    requests: SlottedRequests,
    roots: I8,
    book: NameBook,
) -> pa.Table:
    """Add failed calls to the table `visits`. Returns the table `origins`: the call sites where the requests'
    failures began.

    roots: int64[groups], number of each group's root type."""
    none = np.zeros(0, dtype=np.int64)
    parts: list[tuple[npt.NDArray[np.integer[Any]], ...]] = [(none,) * 5]
    before = 0
    for group in groups:
        failures = population.categories[group.category].failures
        if len(failures.row):
            place = np.full(population.categories[group.category].n_requests, -1, dtype=np.int64)
            place[group.rows] = before + np.arange(len(group.rows))
            seen = place[failures.row] >= 0
            position = failures.position[seen]
            site = group.sites.site_at(position)
            sites, calls = np.unique(group.sites.pattern_site, return_counts=True)
            # The innermost failing span is where the failure began, and those around it pass it on; of
            # records it is the first.
            rank = -position if group.sites.are_calls else position
            parts.append(
                (place[failures.row[seen]], site, rank, failures.error[seen], calls[sites.searchsorted(site)])
            )
        before += len(group.rows)
    request, site, rank, error, calls = (np.concatenate(column) for column in zip(*parts, strict=True))
    number, one = numbered((request, site))
    share = np.bincount(number, minlength=len(one)) / calls[one]
    values = np.zeros((len(TABLES["visits"][1]), len(one)))
    values[-2], values[-1] = share * requests.weight[request[one]], 1
    visits.add(site[one], requests.slot[request[one]], 0, [*values])
    order = np.lexsort((rank, request))
    begin = order[np.flatnonzero(np.diff(request[order], prepend=-1))]
    known = np.array([book.errors[word] for word in population.errors], dtype=np.int64)
    key = roots[requests.group[request[begin]]], site[begin], known[error[begin]] if len(begin) else none
    origins = RowSums("origins", visits.n_slots, key)
    values = np.stack((np.ones(len(begin)), requests.weight[request[begin]]))
    origins.add(origins.places, requests.slot[request[begin]], 0, [*values])
    return origins.table()


class _Runs(NamedTuple):
    """Runs of a batch's requests: a run is all requests of one group in one slot."""

    of_group: Ragged
    """Range of each group's runs."""
    slot: I8
    """int64[runs]: index of the slot of time of the run's requests."""
    n: F8
    """float64[runs]: number of requests in the run."""
    w: F8
    """float64[runs]: sum of the requests' weights."""
    w2: F8
    """float64[runs]: sum of the requests' squared weights."""
    response: F8
    """float64[runs]: sum of weight * response time over the requests, ns."""
    first: I8
    """int64[runs]: index of the run's first request within its group."""

    @staticmethod
    def of(batch: Batch) -> _Runs:
        """Find the runs of a batch, whose requests are sorted by group and slot."""
        requests = batch.requests
        _, first = numbered((requests.group, requests.slot))
        of_group = Ragged.of(np.bincount(requests.group[first], minlength=batch.n_groups))
        w = requests.weight
        columns = (np.ones(len(w)), w, w * w, w * requests.response_ns)
        sums = [np.add.reduceat(column, first) for column in columns]
        return _Runs._make((of_group, requests.slot[first], *sums, batch.place[first]))


class _Rows:
    """Rows for a profile's table, one per (place, run of the place's group), to be added to RowSums.

    A place is a key without slot and bin, for example a (group, site)."""

    def __init__(self, group: I8, runs: _Runs) -> None:
        """group: int64[places], group of each place."""
        self.runs = runs
        self.layout = Ragged.of(runs.of_group.size[group])
        self.run = self.layout.at(runs.of_group.first[group])
        """int64[rows]: index of the run."""

    def add(self, to: RowSums, place: I8, bins: I8 | int, *values: F8) -> None:
        """Add the rows to `to`. place: int64[places], number of the place in `to`; bins: int64[places], or
        one for all; values: float64[rows] for each summed column of the table."""
        spread = self.layout.spread
        to.add(
            spread(place),
            self.runs.slot[self.run],
            bins if isinstance(bins, int) else spread(bins),
            values,
        )


class _UnitSums(NamedTuple):
    """Sums over the requests of each run, by (unit, run) of a batch."""

    rows: _Rows
    """Rows of the units."""
    first: I8
    """int64[rows]: cell of the unit in the run's first request."""
    critical_ns: F8
    """float64[rows]: time of the unit on the critical path, ns * weight of the request."""
    critical: F8
    """float64[rows]: sum of the weights of requests with the unit on the critical path."""
    over: F8
    """float64[rows]: of the requests above the threshold of the response time, weight times the share of it
    that the unit has on the critical path."""

    @staticmethod
    def of(batch: Batch, runs: _Runs, limit_ns: float) -> _UnitSums:
        """Sum the times on the critical paths. limit_ns: the threshold of the response time."""
        rows, times = _Rows(batch.unit_group, runs), critical_times(batch)
        begin = rows.layout.spread(batch.unit.first) + runs.first[rows.run]
        of_cell = batch.unit.at(batch.first_request[batch.unit_group])
        response_ns, weight = batch.requests.response_ns, batch.requests.weight[of_cell]
        weighted_ns = times.ns * weight
        late, over = np.flatnonzero((response_ns > limit_ns)[of_cell]), np.zeros(len(of_cell))
        over[late] = weighted_ns[late] / response_ns[of_cell[late]]
        sums = (np.add.reduceat(of, begin) for of in (weighted_ns, times.is_critical * weight, over))
        return _UnitSums(rows, begin, *sums)

    def summed(self, values: F8, into: _Rows, place: I8) -> F8:
        """float64[rows of `into`]: sums of `values`, float64[rows], by place. place: int64[units]."""
        return self.rows.layout.sums(values, into.layout, place)


class _SitePlaces(NamedTuple):
    """Distinct pairs (group, site) of the units of a batch."""

    group: I8
    """int64[pairs]: group of requests."""
    site: I8
    """int64[pairs]: number of the site."""
    n: I8
    """int64[pairs]: number of units (calls or steps) of the group at the site."""
    typical: I8
    """int64[pairs]: unit (call or step) of the group at the site with the most common call pattern."""
    of_unit: I8
    """int64[units]: index of the (group, site) pair of each unit (call or step)."""

    @staticmethod
    def of(batch: Batch, book: NameBook) -> _SitePlaces:
        """Find the distinct pairs (group, site) of a batch."""
        of_unit, typical = numbered((batch.unit_group, batch.site))
        n = np.bincount(of_unit, minlength=len(typical))
        places = _SitePlaces(batch.unit_group[typical], batch.site[typical], n, typical, of_unit)
        mixed = np.unique(of_unit[batch.pattern != batch.pattern[typical[of_unit]]]).tolist()
        units, begin = group_stably(of_unit, len(typical)) if mixed else (of_unit, n)
        for place in mixed:
            mine = units[begin[place] : begin[place + 1]]
            patterns = batch.pattern[mine].tolist()
            typical[place] = mine[patterns.index(book.most_common(patterns))]
        return places


def _add_votes(
    rows: dict[str, RowSums], batch: Batch, times: CallTimes, sites: _SitePlaces, runs: _Runs, weights: F8
) -> None:
    """Add rows to the table `votes`. weights: the distinct weights of all requests."""
    requests = batch.requests
    typical = batch.units.start + sites.typical

    def vote(
        measure: str, layout: Ragged, place: I8, values: npt.NDArray[np.number], scale: float = 1
    ) -> None:
        """Count one vote per request and (group, site): the mean of `values` over the site's units, * scale.

        layout: one row per unit, one cell per request. place: int64[rows], index of the unit's pair in
        `sites`. values: [cells of `layout`]."""
        if measure not in rows:
            return
        mean, here = values, np.bincount(place, minlength=len(sites.n))
        if len(place) and here.max() > 1:
            here, first = numbered([place])
            place = place[first]
            voting = Ragged.of(batch.n_of[sites.group[place]])
            mean = layout.sums(values, voting, here) / voting.spread(np.bincount(here))
        mine = _Rows(sites.group[place], runs)
        weight = None
        if len(weights) > 1:
            request = Ragged.of(batch.n_of[sites.group[place]]).at(batch.first_request[sites.group[place]])
            weight = requests.weight[request]
        to = rows[measure]
        key, size = mine.layout.spread(to.places[typical[place]]), runs.n[mine.run].astype(np.int64)
        to.count(key, runs.slot[mine.run], size, bin_of(mean * scale), weight, weights)

    vote("own time", batch.unit, sites.of_unit, times.own)
    vote("total time", batch.unit, sites.of_unit, times.duration)
    wide = Ragged.of(batch.unit.size[times.wide])
    vote("overlap", wide, sites.of_unit[times.wide], times.overlap, RATIO_SCALE)
    vote("stretch", wide, sites.of_unit[times.wide], times.stretch, RATIO_SCALE)
    calls = _Rows(sites.group, runs)
    sums = (of[calls.run] for of in (runs.n, runs.w, runs.w2))
    calls.add(rows["calls"], rows["calls"].places[typical], bin_of(sites.n * RATIO_SCALE), *sums)


def _add_visits(rows: RowSums, batch: Batch, sites: _SitePlaces, runs: _Runs, units: _UnitSums) -> None:
    """Add rows to the table `visits`: requests that touch a site, or a point of activity records."""
    points, first = numbered((batch.patterned.group, batch.patterned.site))
    is_point = ~batch.are_calls[batch.patterned.group[first]]
    at_points = _Rows(batch.patterned.group[first][is_point], runs)
    at_sites = _Rows(sites.group, runs)
    ns = units.summed(units.critical_ns, at_sites, sites.of_unit)
    for here, site, n, critical_ns in (
        (at_sites, sites.site, sites.n, ns),
        (at_points, batch.patterned.site[first][is_point], np.bincount(points)[is_point], 0.0),
    ):
        run = here.run
        none = np.zeros(len(run))
        here.add(
            rows,
            site,
            0,
            *(runs.n[run], runs.w[run], runs.w2[run]),
            here.layout.spread(n) * runs.w[run],
            none + critical_ns,
            runs.response[run],
            *(none, none),
        )


def _add_patterns(rows: RowSums, batch: Batch, runs: _Runs, units: _UnitSums) -> None:
    """Add rows to the table `patterns`: call patterns of calls; for activity records the points that follow
    each point."""
    places = batch.patterned
    number, first = numbered((places.group, places.site, places.pattern))
    group, n = places.group[first], np.bincount(number)
    of_site, _ = numbered((places.group, places.site))
    here = _Rows(group, runs)
    run, spread = here.run, here.layout.spread
    share = spread(n / np.bincount(of_site)[of_site[first]])
    # Records do not nest: what a path takes is what its requests take.
    inclusive = np.where(spread(batch.are_calls[group]), 0.0, share * runs.response[run])
    calls = np.flatnonzero(places.unit >= 0)
    mine, cells = units.rows.layout.chosen(places.unit[calls])
    below = _inclusive(batch, units)
    inclusive += mine.sums(below[cells], here.layout, number[calls])
    here.add(
        rows,
        rows.places[batch.patterned_places][first],
        0,
        runs.n[run],
        share * runs.w[run],
        spread(n) * runs.w[run],
        inclusive,
        spread(totals(number, places.enters, len(first)) > 0) * runs.n[run],
    )


def _inclusive(batch: Batch, units: _UnitSums) -> F8:
    """float64[rows of the units]: time on the critical path of a unit and of everything below it, ns *
    weight, by (unit, run)."""
    inclusive, rows_of = units.critical_ns.copy(), units.rows.layout
    for mine in [*tree_levels(batch.above)][:0:-1]:
        layout, cells = rows_of.chosen(mine)
        np.add.at(inclusive, layout.at(rows_of.first[batch.above[mine]]), inclusive[cells])
    return inclusive


def _add_account(rows: RowSums, batch: Batch, runs: _Runs, units: _UnitSums) -> None:
    """Add rows to the table `account`: calls and time on the critical path by root type, path and call
    pattern."""
    number, first = numbered((batch.unit_group, batch.path, batch.pattern))
    here = _Rows(batch.unit_group[first], runs)
    here.add(
        rows,
        rows.places[batch.units][first],
        0,
        units.summed(units.critical, here, number),
        units.summed(units.critical_ns, here, number),
        units.summed(units.over, here, number),
    )
