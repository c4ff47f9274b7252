"""Profiles of the requests at hand: one pass over the categories, no loop over requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from analyze.population import Category, Population
from analyze.profile.call_sites import GraphSites, graph_sites
from analyze.profile.names import NameBook
from analyze.profile.profile import (
    CALLS,
    OVERLAP,
    OWN_TIME,
    RATIO_SCALE,
    SCHEMAS,
    STRETCH,
    TOTAL_TIME,
    Profile,
    Slot,
    Watched,
)
from analyze.profile.sums import MOST_SLOTS, Grouped, RowSums, SlotRuns
from analyze.profile.times import CallTimes, call_times
from analyze.stats.histograms import bin_of
from analyze.stats.sums import totals
from schemas.arrays import F8, I8
from schemas.errors import ConfigError


class RequestGroup(NamedTuple):
    """Requests of one category with equal sites and patterns, and where they are."""

    category: int
    """Index into the population's categories."""
    rows: I8
    """Requests that lie in a slot, in the order of their slots."""
    slot: I8
    """[rows] their slots, ascending."""
    sites: GraphSites


class Profiled(NamedTuple):
    """A profile, and the requests that it was made of."""

    profile: Profile
    groups: tuple[RequestGroup, ...]


def profile_of(
    population: Population,
    slots: Sequence[Slot],
    threshold_ns: float | None = None,
    *,
    with_totals: bool = False,
) -> Profiled:
    """The profile of a population's requests that lie in a slot of their sample.

    Slots of one sample must not overlap; those of the profile say what they hold. threshold_ns: requests of
    a longer response time are counted in the column `over` of the account table; none without. with_totals:
    votes of TOTAL_TIME, too, which statistics keep. Raises ConfigError for more than MOST_SLOTS slots.
    O(requests · nodes).
    """
    if len(slots) > MOST_SLOTS:
        raise ConfigError(
            f"Periods cut into {len(slots):,} pieces are too many; {MOST_SLOTS:,} are the most.",
            remedy="Take fewer blocks, or a shorter history.",
        )
    book = NameBook()
    limit_ns = np.inf if threshold_ns is None else threshold_ns
    maker = _Maker(population, tuple(slots), book, limit_ns, with_totals=with_totals)
    for number, category in enumerate(population.categories):
        for origin, rows in _by_origin(category):
            maker.add(number, rows, origin)
    profile = Profile(book.names(), maker.watched(slots), **maker.tables(), folded=population.folded)
    return Profiled(profile, tuple(maker.groups))


def _by_origin(category: Category) -> list[tuple[int, I8 | None]]:
    """(stored structure, its rows) where what was left out differs; (0, None) for all rows alike."""
    if category.origin is None or len(set(category.left_behind)) <= 1:
        return [(0, None)]
    variants: dict[object, list[int]] = {}
    for number, left in enumerate(category.left_behind):
        variants.setdefault(left, []).append(number)
    return [
        (members[0], np.flatnonzero(np.isin(category.origin, members)).astype(np.int64))
        for members in variants.values()
    ]


class _Slots(NamedTuple):
    """Slots of a sample in the order of time; arrays are [slots]."""

    starts: I8
    ends: I8
    numbers: I8


def _ordered(slots: Sequence[Slot]) -> dict[int, _Slots]:
    """By sample."""
    found: dict[int, list[tuple[int, int, int]]] = {}
    for number, slot in enumerate(slots):
        found.setdefault(slot.sample, []).append((slot.start_ns, slot.end_ns, number))
    return {
        sample: _Slots(*np.array(sorted(mine), dtype=np.int64).T.copy()) for sample, mine in found.items()
    }


def _slot_of(category: Category, slots: Mapping[int, _Slots]) -> I8:
    """[requests] slot of each request, -1 for none. O(requests log slots)."""
    found = np.full(category.n_requests, -1, dtype=np.int64)
    # Most graphs have requests in few samples.
    first = np.flatnonzero(np.diff(category.sample, prepend=-1))
    for start, end in pairwise([*first.tolist(), len(found)]):
        mine = slots.get(int(category.sample[start]))
        if mine is None:
            continue
        rows = slice(start, end)
        start_ns = category.start_ns[rows]
        place = mine.starts.searchsorted(start_ns, side="right") - 1
        inside = (place >= 0) & (start_ns < mine.ends[place])
        found[rows] = np.where(inside, mine.numbers[place], -1)
    return found


class _Maker:
    """Collects rows of the tables, category by category."""

    def __init__(
        self,
        population: Population,
        slots: tuple[Slot, ...],
        book: NameBook,
        threshold_ns: float,
        *,
        with_totals: bool,
    ) -> None:
        self.population = population
        self.slots = _ordered(slots)
        self.book = book
        self.threshold_ns = threshold_ns
        self.with_totals = with_totals
        self.rows = {name: RowSums(name) for name in SCHEMAS}
        self.groups: list[RequestGroup] = []
        self.held = np.zeros((2, len(slots)))
        """[(requests, weight), slots]"""
        self.began = np.zeros((2, len(slots)), dtype=np.int64)
        """[(first, last), slots]"""

    def add(self, number: int, rows: I8 | None, origin: int) -> None:
        """Count the requests of a category (of the given rows)."""
        category = self.population.categories[number]
        left = category.left_behind[origin] if category.left_behind else ()
        sites = graph_sites(category.graph, left, self.book)
        slot = _slot_of(category, self.slots)
        if rows is not None:
            chosen = np.full(len(slot), -1, dtype=np.int64)
            chosen[rows] = slot[rows]
            slot = chosen
        runs = SlotRuns.of(slot, category.weight)
        if runs is None:
            return
        times = call_times(category, sites)
        self.groups.append(RequestGroup(number, runs.order, runs.slot, sites))
        self._watch(category, runs)
        root = self.book.roots[category.graph.root]
        at = Grouped(sites.site)
        self._responses(category, runs, root)
        self._votes(sites, at, times, runs)
        response = runs.weighted_sums(category.response_ns)
        critical = sites.of_units(runs.weighted_sums(times.waited))
        failing = self._failing(category, sites, runs, root)
        self._visits(at, at.sums(critical), runs, response, failing)
        points = at if sites.are_calls else Grouped(sites.pattern_site)
        if not sites.are_calls:
            self._visits(points, np.zeros((len(points.codes), len(runs.slots))), runs, response, failing)
        self._patterns(sites, points, critical, runs, response)
        self._account(category, sites, times, critical, runs, root)

    def tables(self) -> dict[str, pa.Table]:
        """What was collected, equal keys added up."""
        return {name: rows.table() for name, rows in self.rows.items()}

    def watched(self, slots: Sequence[Slot]) -> tuple[Slot, ...]:
        """Give the slots with what each held."""
        columns = zip(slots, *self.held.tolist(), *self.began.tolist(), strict=True)
        return tuple(replace(s, watched=(Watched(s.start_ns, s.end_ns, *held),)) for s, *held in columns)

    def _watch(self, category: Category, runs: SlotRuns) -> None:
        start_ns = runs.ordered(category.start_ns)
        first, last = self.began[:, runs.slots]
        none = self.held[0, runs.slots] == 0
        earliest = np.minimum.reduceat(start_ns, runs.starts)
        self.began[0, runs.slots] = np.where(none, earliest, np.minimum(first, earliest))
        self.began[1, runs.slots] = np.maximum(last, np.maximum.reduceat(start_ns, runs.starts))
        self.held[:, runs.slots] += runs.n, runs.w

    def _responses(self, category: Category, runs: SlotRuns, root: int) -> None:
        response = runs.ordered(category.response_ns).astype(np.float64)
        failed = runs.ordered(self.population.failed(category, slice(None))).astype(np.float64)
        found, inverse = np.unique(runs.slot << 16 | bin_of(response), return_inverse=True)
        w = runs.weight
        columns = (np.ones(len(w)), w, w * w, w * response, w * response * response, w * failed, failed)
        sums = np.empty((len(columns), len(found)))
        for place, column in enumerate(columns):
            sums[place] = totals(inverse, column, len(found))
        rows = self.rows["responses"]
        rows.add(rows.places(np.array([root])), found >> 16, found & 0xFFFF, sums)

    def _votes(self, sites: GraphSites, at: Grouped, times: CallTimes, runs: SlotRuns) -> None:
        patterns = sites.pattern.tolist()
        pattern = [self.book.most_common([patterns[unit] for unit in units]) for units in at.members]
        self._vote(OWN_TIME, at.codes, pattern, runs.ordered(at.means(times.own)), runs)
        if self.with_totals:
            self._vote(TOTAL_TIME, at.codes, pattern, runs.ordered(at.means(times.duration)), runs)
        for measure, ratios in ((OVERLAP, times.overlap), (STRETCH, times.stretch)):
            wide = [
                (place, [ratios[unit] for unit in units if unit in ratios])
                for place, units in enumerate(at.members)
            ]
            wide = [(place, mine) for place, mine in wide if mine]
            if wide:
                mean = np.stack([mine[0] if len(mine) == 1 else np.mean(mine, axis=0) for _, mine in wide])
                self._vote(
                    measure,
                    at.codes[[place for place, _ in wide]],
                    [pattern[place] for place, _ in wide],
                    runs.ordered(mean) * RATIO_SCALE,
                    runs,
                )
        rows = self.rows["votes"]
        places = rows.places(CALLS, at.codes, np.array(pattern, dtype=np.int64))[:, None]
        counts = np.stack([runs.n, runs.w, runs.w2])[:, None, :]
        values = np.broadcast_to(counts, (3, len(places), len(runs.slots)))
        rows.add(places, runs.slots, bin_of(at.sizes * RATIO_SCALE)[:, None], values)

    def _vote(self, measure: int, site: I8, pattern: list[int], value: F8, runs: SlotRuns) -> None:
        """Count values [sites, requests] by (site, slot, bin)."""
        rows = self.rows["votes"]
        places = rows.places(measure, site, np.array(pattern, dtype=np.int64))[:, None]
        rows.count(places, runs.slot, bin_of(value), runs.by_weight)

    def _visits(
        self, at: Grouped, critical: F8, runs: SlotRuns, response: F8, failing: dict[int, tuple[F8, F8]]
    ) -> None:
        values = np.empty((8, len(at.codes), len(runs.slots)))
        values[0], values[1], values[2] = runs.n, runs.w, runs.w2
        np.multiply(at.sizes[:, None], runs.w, out=values[3])
        values[4] = critical
        values[5] = response
        values[6:] = 0
        for place, site in enumerate(at.codes.tolist() if failing else ()):
            if site in failing:
                values[6, place], values[7, place] = failing[site]
        rows = self.rows["visits"]
        rows.add(rows.places(at.codes)[:, None], runs.slots, 0, values)

    def _patterns(
        self, sites: GraphSites, places: Grouped, critical: F8, runs: SlotRuns, response: F8
    ) -> None:
        by_pattern = Grouped(sites.pattern_site << 32 | sites.pattern_of)
        part = (by_pattern.sizes / places.sizes[np.searchsorted(places.codes, by_pattern.codes >> 32)])[
            :, None
        ]
        values = np.empty((5, len(by_pattern.codes), len(runs.slots)))
        values[0] = runs.n
        values[1] = part * runs.w
        values[2] = by_pattern.sizes[:, None] * runs.w
        # Records do not nest: what a path takes is what its requests take.
        values[3] = by_pattern.sums(_inclusive(critical, sites)) if sites.are_calls else part * response
        values[4] = np.outer([sites.enters[members].any() for members in by_pattern.members], runs.n)
        rows = self.rows["patterns"]
        found = rows.places(by_pattern.codes >> 32, by_pattern.codes & 0xFFFFFFFF)
        rows.add(found[:, None], runs.slots, 0, values)

    def _account(
        self,
        category: Category,
        sites: GraphSites,
        times: CallTimes,
        critical: F8,
        runs: SlotRuns,
        root: int,
    ) -> None:
        pair = Grouped(sites.path << 32 | sites.pattern)
        late = np.flatnonzero(runs.ordered(category.response_ns) > max(self.threshold_ns, 0))
        values = np.stack(
            [
                pair.sums(runs.weighted_sums(times.on_path)),
                pair.sums(critical),
                pair.sums(sites.of_units(runs.parts_of(times.waited, category.response_ns, late))),
            ]
        )
        rows = self.rows["account"]
        found = rows.places(root, pair.codes >> 32, pair.codes & 0xFFFFFFFF)
        rows.add(found[:, None], runs.slots, 0, values)

    def _failing(
        self, category: Category, sites: GraphSites, runs: SlotRuns, root: int
    ) -> dict[int, tuple[F8, F8]]:
        """Site -> ([slots] weighted share of failing calls, [slots] requests with one); writes origins."""
        failures = category.failures
        if not len(failures.row):
            return {}
        place = np.full(category.n_requests, -1, dtype=np.int64)
        place[runs.order] = np.arange(len(runs.order))
        at_site = sites.site_at(failures.position)
        row = place[failures.row]
        seen = row >= 0
        at_site, row, error = at_site[seen], row[seen], failures.error[seen]
        found: dict[int, tuple[F8, F8]] = {}
        calls = Counter(sites.pattern_site.tolist())
        for site in np.unique(at_site).tolist():
            per_request = np.bincount(row[at_site == site], minlength=len(runs.order))
            share = per_request / calls[site]
            found[site] = (runs.sums(share * runs.weight), runs.sums(per_request > 0))
        # The innermost failing span is where the failure began, and those around it pass it on; of records
        # it is the first.
        position = failures.position[seen]
        order = np.lexsort((-position if sites.are_calls else position, row))
        first = order[np.unique(row[order], return_index=True)[1]]
        key = (at_site[first] * (1 << 20) + error[first]) * (1 << 20) + runs.slot[row[first]]
        for value in np.unique(key).tolist():
            members = runs.weight[row[first]][key == value]
            place = self.rows["origins"].places(
                root, np.array([value >> 40]), self._error(value >> 20 & 0xFFFFF)
            )
            sums = np.array([[len(members)], [members.sum()]])
            self.rows["origins"].add(place, np.array([value & 0xFFFFF]), 0, sums)
        return found

    def _error(self, error: int) -> int:
        return self.book.errors[self.population.errors[error]]


def _inclusive(critical: F8, sites: GraphSites) -> F8:
    """[units, slots] with everything below."""
    inclusive = critical.copy()
    for unit in range(sites.n_units - 1, 0, -1):  # callers come before those they call
        if sites.above[unit] >= 0:
            inclusive[sites.above[unit]] += inclusive[unit]
    return inclusive
