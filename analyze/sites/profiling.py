"""Profiles of the requests at hand: one pass over the categories, no loop over requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from analyze.population import Category, Population
from analyze.sites.call_times import CallTimes, call_times
from analyze.sites.graph_sites import GraphSites, graph_sites
from analyze.sites.log_bins import bin_of
from analyze.sites.names import NameBook
from analyze.sites.profile import CALLS, OVERLAP, OWN_TIME, RATIO_SCALE, SCHEMAS, Profile, Slot, summed
from analyze.sites.totals import totals

I8 = npt.NDArray[np.int64]
F8 = npt.NDArray[np.float64]

OK: Final = "ok"


class Pattern(NamedTuple):
    """Requests of one category with equal sites and shapes, and where they are."""

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
    patterns: tuple[Pattern, ...]


def profile_of(population: Population, slots: Sequence[Slot], threshold_ns: float | None = None) -> Profiled:
    """The profile of a population's requests that lie in a slot of their sample.

    Slots of one sample must not overlap. threshold_ns: requests of a longer response time are counted in
    the column `over` of the account table; none without. O(requests · nodes).
    """
    book = NameBook()
    maker = _Maker(population, tuple(slots), book, np.inf if threshold_ns is None else threshold_ns)
    for number, category in enumerate(population.categories):
        for origin, rows in _by_origin(category):
            maker.add(number, rows, origin)
    return Profiled(Profile(book.names(), tuple(slots), **maker.tables()), tuple(maker.patterns))


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


def slot_of(category: Category, slots: Sequence[Slot]) -> I8:
    """[requests] slot of each request, -1 for none. O(requests log slots)."""
    found = np.full(category.n_requests, -1, dtype=np.int64)
    for sample in {slot.sample for slot in slots}:
        rows = category.rows(sample)
        mine = sorted(
            (slot.start_ns, slot.end_ns, n) for n, slot in enumerate(slots) if slot.sample == sample
        )
        starts = np.array([start for start, _, _ in mine])
        ends = np.array([end for _, end, _ in mine])
        numbers = np.array([number for _, _, number in mine])
        start_ns = category.start_ns[rows]
        place = np.searchsorted(starts, start_ns, side="right") - 1
        inside = (place >= 0) & (start_ns < ends[place])
        found[rows] = np.where(inside, numbers[place], -1)
    return found


class _Maker:
    """Collects rows of the tables, category by category."""

    def __init__(
        self, population: Population, slots: tuple[Slot, ...], book: NameBook, threshold_ns: float
    ) -> None:
        self.population = population
        self.slots = slots
        self.book = book
        self.threshold_ns = threshold_ns
        self.columns: dict[str, dict[str, list[npt.NDArray[np.generic]]]] = {
            name: {column: [] for column in schema.names} for name, schema in SCHEMAS.items()
        }
        self.patterns: list[Pattern] = []

    def add(self, number: int, rows: I8 | None, origin: int) -> None:
        """Count the requests of a category (of the given rows)."""
        category = self.population.categories[number]
        left = category.left_behind[origin] if category.left_behind else ()
        sites = graph_sites(category.graph, left, self.book)
        slot = slot_of(category, self.slots)
        if rows is not None:
            chosen = np.full(len(slot), -1, dtype=np.int64)
            chosen[rows] = slot[rows]
            slot = chosen
        inside = np.flatnonzero(slot >= 0)
        if not len(inside):
            return
        times = call_times(category, sites)
        # Requests in the order of their slots, so that sums over a slot are sums over a run.
        order = inside[np.argsort(slot[inside], kind="stable")]
        runs = _Runs(order, slot[order], category.weight[order])
        self.patterns.append(Pattern(number, order, slot[order], sites))
        root = self.book.root(category.graph.root)
        failing = self._failing(category, sites, runs, root)
        self._responses(category, runs, root)
        self._votes(sites, times, runs)
        response = runs.sums(category.response_ns[runs.order] * runs.weight)
        over = runs.parts_over(times.critical, category.response_ns, self.threshold_ns)
        self._sums(sites, times, runs, root, response, failing, over)

    def _write(self, name: str, **columns: object) -> None:
        size = max(len(value) for value in columns.values() if isinstance(value, np.ndarray))
        rows = self.columns[name]
        for field in SCHEMAS[name]:
            value = columns[field.name]
            rows[field.name].append(value if isinstance(value, np.ndarray) else np.full(size, value))

    def tables(self) -> dict[str, pa.Table]:
        """What was collected, equal keys added up."""
        made = {}
        for name, schema in SCHEMAS.items():
            columns = self.columns[name]
            if not columns[schema.names[0]]:
                made[name] = schema.empty_table()
                continue
            arrays = [
                pa.array(np.concatenate(columns[field.name]).astype(field.type.to_pandas_dtype()))
                for field in schema
            ]
            made[name] = summed(name, [pa.table(arrays, schema=schema)])
        return made

    def _responses(self, category: Category, runs: _Runs, root: int) -> None:
        response = category.response_ns[runs.order].astype(np.float64)
        failed = np.zeros(len(runs.order))
        if OK in self.population.statuses:
            failed = (category.status[runs.order] != self.population.statuses.index(OK)).astype(np.float64)
        key = runs.slot * (1 << 16) + bin_of(response)
        found, inverse = np.unique(key, return_inverse=True)
        n = len(found)
        w = runs.weight

        def total(values: F8) -> F8:
            sums: F8 = totals(inverse, values, n)
            return sums

        self._write(
            "responses",
            root=root,
            slot=found >> 16,
            bin=found & 0xFFFF,
            n=total(np.ones(len(w))),
            w=total(w),
            w2=total(w * w),
            ns=total(w * response),
            ns2=total(w * response * response),
            failed=total(w * failed),
            failed_n=total(failed),
        )

    def _votes(self, sites: GraphSites, times: CallTimes, runs: _Runs) -> None:
        at = _Grouped(sites.site)
        shape = np.array(
            [self.book.most_common(sites.shape[units].tolist()) for units in at.members], dtype=np.int64
        )
        own = at.sums(times.own[:, runs.order]) / at.sizes[:, None]
        self._vote(OWN_TIME, at.codes, shape, own, runs)
        wide = [
            (place, [times.overlap[unit][runs.order] for unit in units.tolist() if unit in times.overlap])
            for place, units in enumerate(at.members)
        ]
        wide = [(place, overlaps) for place, overlaps in wide if overlaps]
        if wide:
            places = np.array([place for place, _ in wide])
            mean = np.stack([np.mean(overlaps, axis=0) for _, overlaps in wide])
            self._vote(OVERLAP, at.codes[places], shape[places], mean * RATIO_SCALE, runs)
        n_slots = len(runs.slots)
        self._write(
            "votes",
            measure=CALLS,
            site=np.repeat(at.codes, n_slots),
            shape=np.repeat(shape, n_slots),
            slot=np.tile(runs.slots, len(at.codes)),
            bin=np.repeat(bin_of(at.sizes * RATIO_SCALE), n_slots),
            n=np.tile(runs.n, len(at.codes)),
            w=np.tile(runs.w, len(at.codes)),
            w2=np.tile(runs.w2, len(at.codes)),
        )

    def _vote(self, measure: int, site: I8, shape: I8, value: F8, runs: _Runs) -> None:
        """Count values [sites, requests] by (site, slot, bin)."""
        row = np.arange(len(site), dtype=np.int64)[:, None] << 48
        key = (row + (runs.slot << 16) + bin_of(value)).reshape(-1)
        if runs.uniform:
            found, n = np.unique(key, return_counts=True)
            w, w2 = n * runs.weight[0], n * runs.weight[0] ** 2
        else:
            found, inverse, n = np.unique(key, return_inverse=True, return_counts=True)
            w, w2 = (
                totals(inverse, np.tile(x, len(site)), len(found)) for x in (runs.weight, runs.weight**2)
            )
        self._write(
            "votes",
            measure=measure,
            site=site[found >> 48],
            shape=shape[found >> 48],
            slot=found >> 16 & 0xFFFFFFFF,
            bin=found & 0xFFFF,
            n=n,
            w=w,
            w2=w2,
        )

    def _sums(
        self,
        sites: GraphSites,
        times: CallTimes,
        runs: _Runs,
        root: int,
        response: F8,
        failing: dict[int, tuple[F8, F8]],
        over: F8,
    ) -> None:
        critical = runs.weighted_sums(times.critical)
        on_path = runs.weighted_sums(times.on_path)
        inclusive = critical.copy()
        for unit in range(sites.n_units - 1, 0, -1):  # callers come before those they call
            if sites.above[unit] >= 0:
                inclusive[sites.above[unit]] += inclusive[unit]
        n_slots = len(runs.slots)
        at = _Grouped(sites.site)
        self._visits(at, at.sums(critical), runs, response, failing)
        if not sites.are_calls:
            points = _Grouped(sites.shape_site)
            self._visits(points, np.zeros((len(points.codes), n_slots)), runs, response, failing)
        shaped = _Grouped((sites.shape_site << 32) + sites.shape_of)
        places = _Grouped(sites.shape_site)
        n_places = places.sizes[np.searchsorted(places.codes, shaped.codes >> 32)]
        part = (shaped.sizes / n_places)[:, None]
        # Records do not nest: what a path takes is what its requests take.
        below = shaped.sums(inclusive) if sites.are_calls else part * response
        self._write(
            "shapes",
            site=np.repeat(shaped.codes >> 32, n_slots),
            shape=np.repeat(shaped.codes & 0xFFFFFFFF, n_slots),
            slot=np.tile(runs.slots, len(shaped.codes)),
            n=np.tile(runs.n, len(shaped.codes)),
            votes=(part * runs.w).reshape(-1),
            calls=(shaped.sizes[:, None] * runs.w).reshape(-1),
            inclusive_ns=below.reshape(-1),
        )
        pair = _Grouped((sites.path << 32) + sites.shape)
        self._write(
            "account",
            root=root,
            path=np.repeat(pair.codes >> 32, n_slots),
            shape=np.repeat(pair.codes & 0xFFFFFFFF, n_slots),
            slot=np.tile(runs.slots, len(pair.codes)),
            calls=pair.sums(on_path).reshape(-1),
            critical_ns=pair.sums(critical).reshape(-1),
            over=pair.sums(over).reshape(-1),
        )

    def _visits(
        self, at: _Grouped, critical: F8, runs: _Runs, response: F8, failing: dict[int, tuple[F8, F8]]
    ) -> None:
        n_sites, n_slots = len(at.codes), len(runs.slots)
        none = (np.zeros(n_slots), np.zeros(n_slots))
        failed = [failing.get(site, none) for site in at.codes.tolist()]
        self._write(
            "visits",
            site=np.repeat(at.codes, n_slots),
            slot=np.tile(runs.slots, n_sites),
            n=np.tile(runs.n, n_sites),
            w=np.tile(runs.w, n_sites),
            w2=np.tile(runs.w2, n_sites),
            calls=(at.sizes[:, None] * runs.w).reshape(-1),
            critical_ns=critical.reshape(-1),
            response_ns=np.tile(response, n_sites),
            failing=np.concatenate([share for share, _ in failed]),
            failing_n=np.concatenate([count for _, count in failed]),
        )

    def _failing(
        self, category: Category, sites: GraphSites, runs: _Runs, root: int
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
        calls = Counter(sites.shape_site.tolist())
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
            self._write(
                "origins",
                root=root,
                site=value >> 40,
                error=self.book.error(self.population.errors[(value >> 20) & 0xFFFFF]),
                slot=np.array([value & 0xFFFFF]),
                n=float(len(members)),
                w=float(members.sum()),
            )
        return found


class _Runs:
    """Requests in the order of their slots."""

    def __init__(self, order: I8, slot: I8, weight: F8) -> None:
        self.order = order
        self.slot = slot
        self.weight = weight
        self.slots, self.starts = np.unique(slot, return_index=True)
        self.uniform = bool((weight == weight[0]).all())
        self.n = self.sums(np.ones(len(weight)))
        self.w = self.sums(weight)
        self.w2 = self.sums(weight * weight)

    def sums(self, values: npt.NDArray[np.generic]) -> F8:
        """[slots of `slots`] sums over the requests of each."""
        sums: F8 = np.add.reduceat(values.astype(np.float64), self.starts)
        return sums

    def weighted_sums(self, values: npt.NDArray[np.generic]) -> F8:
        """[rows, slots] weighted sums of [rows, requests of the category], row by row: bounded memory."""
        return np.stack([self.sums(row[self.order] * self.weight) for row in values])

    def parts_over(self, values: I8, response_ns: I8, threshold_ns: float) -> F8:
        """[rows, slots] weighted sums of the parts that values [rows, requests of the category] have of the
        response time, over the requests that took longer than the threshold."""
        late = np.flatnonzero(response_ns[self.order] > max(threshold_ns, 0))
        n_slots = len(self.slots)
        if not len(late):
            return np.zeros((len(values), n_slots))
        requests = self.order[late]
        slot = np.searchsorted(self.slots, self.slot[late])
        scale = self.weight[late] / response_ns[requests]
        return np.stack([totals(slot, row[requests] * scale, n_slots) for row in values])


class _Grouped:
    """Rows of equal code."""

    def __init__(self, code: I8) -> None:
        self.order = np.argsort(code, kind="stable")
        self.codes, self.starts = np.unique(code[self.order], return_index=True)
        self.sizes = np.diff(np.append(self.starts, len(code)))
        self.members = np.split(self.order, self.starts[1:])

    def sums(self, values: npt.NDArray[np.generic]) -> F8:
        """[codes, columns] sums of [rows, columns]."""
        sums: F8 = np.add.reduceat(values[self.order].astype(np.float64), self.starts, axis=0)
        return sums
