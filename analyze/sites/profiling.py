"""Profiles of the requests at hand: one pass over the categories, no loop over requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from analyze.population import Category, Population
from analyze.sites.call_times import CallTimes, call_times
from analyze.sites.graph_sites import GraphSites, graph_sites, most_common
from analyze.sites.log_bins import bin_of
from analyze.sites.names import NameBook
from analyze.sites.profile import CALLS, OVERLAP, OWN_TIME, RATIO_SCALE, SCHEMAS, Profile, Slot, summed

I8 = npt.NDArray[np.int64]
F8 = npt.NDArray[np.float64]

OK: Final = "ok"


def profile_of(population: Population, slots: Sequence[Slot]) -> Profile:
    """The profile of a population's requests that lie in a slot of their sample.

    Slots of one sample must not overlap. O(requests · nodes).
    """
    book = NameBook()
    maker = _Maker(population, tuple(slots), book)
    for category in population.categories:
        for origin, rows in _by_origin(category):
            maker.add(category, rows, origin)
    tables = {name: summed(name, parts) for name, parts in maker.parts.items()}
    return Profile(book.names(), tuple(slots), **tables)


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

    def __init__(self, population: Population, slots: tuple[Slot, ...], book: NameBook) -> None:
        self.population = population
        self.slots = slots
        self.book = book
        self.parts: dict[str, list[pa.Table]] = {name: [] for name in SCHEMAS}

    def add(self, category: Category, rows: I8 | None, origin: int) -> None:
        """Count the requests of a category (of the given rows)."""
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
        root = self.book.root(category.graph.root)
        failing = self._failing(category, sites, runs, root)
        self._responses(category, runs, root)
        self._votes(sites, times, runs)
        self._sums(sites, times, runs, root, failing)

    def _write(self, name: str, **columns: object) -> None:
        schema = SCHEMAS[name]
        size = max(len(value) for value in columns.values() if isinstance(value, np.ndarray))
        arrays = [
            pa.array(
                np.broadcast_to(np.asarray(columns[field.name]), size).astype(field.type.to_pandas_dtype())
            )
            for field in schema
        ]
        self.parts[name].append(pa.table(arrays, schema=schema))

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
            return np.bincount(inverse, values, n)

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
        for site, units in _groups(sites.site).items():
            shape = most_common(sites.shape[units].tolist())
            own = times.own[units][:, runs.order]
            value = own[0] if len(units) == 1 else own.mean(axis=0)
            self._vote(OWN_TIME, site, shape, value, runs)
            wide = [unit for unit in units if unit in times.overlap]
            if wide:
                overlap = np.mean([times.overlap[unit][runs.order] for unit in wide], axis=0)
                self._vote(OVERLAP, site, shape, overlap * RATIO_SCALE, runs)

    def _vote(self, measure: int, site: int, shape: int, value: npt.NDArray[np.generic], runs: _Runs) -> None:
        key = runs.slot * (1 << 16) + bin_of(value)
        if runs.uniform:
            found, n = np.unique(key, return_counts=True)
            first = runs.weight[0]
            w, w2 = n * first, n * first * first
        else:
            found, inverse, n = np.unique(key, return_inverse=True, return_counts=True)
            w, w2 = (np.bincount(inverse, x, len(found)) for x in (runs.weight, runs.weight**2))
        self._write(
            "votes",
            measure=measure,
            site=site,
            shape=shape,
            slot=found >> 16,
            bin=found & 0xFFFF,
            n=n,
            w=w,
            w2=w2,
        )

    def _sums(
        self, sites: GraphSites, times: CallTimes, runs: _Runs, root: int, failing: dict[int, tuple[F8, F8]]
    ) -> None:
        weighted = runs.weight
        critical = np.stack([runs.sums(row[runs.order] * weighted) for row in times.critical])
        on_path = np.stack([runs.sums(row[runs.order] * weighted) for row in times.on_path])
        n, w, w2 = runs.sums(np.ones(len(weighted))), runs.sums(weighted), runs.sums(weighted * weighted)
        inclusive = critical.copy()
        for unit in range(sites.n_units - 1, 0, -1):  # callers come before those they call
            if sites.above[unit] >= 0:
                inclusive[sites.above[unit]] += inclusive[unit]
        zero = np.zeros(len(n))
        for site, units in _groups(sites.site).items():
            shares, counts = failing.get(site, (zero, zero))
            self._write(
                "visits",
                site=site,
                slot=runs.slots,
                n=n,
                w=w,
                w2=w2,
                calls=w * len(units),
                critical_ns=critical[units].sum(axis=0),
                failing=shares,
                failing_n=counts,
            )
            self._counts(site, len(units), sites, units, runs, n, w, w2)
        for site, places in _groups(sites.shape_site).items():
            for shape, members in _groups(sites.shape_of[places]).items():
                took = places[members]
                below = inclusive[took].sum(axis=0) if sites.unit_at.max(initial=-1) >= 0 else zero
                self._write(
                    "shapes",
                    site=site,
                    shape=shape,
                    slot=runs.slots,
                    n=n,
                    votes=w * (len(took) / len(places)),
                    calls=w * len(took),
                    inclusive_ns=below,
                )
        pair = sites.path * (1 << 32) + sites.shape
        for key, units in _groups(pair).items():
            self._write(
                "account",
                root=root,
                path=key >> 32,
                shape=key & 0xFFFFFFFF,
                slot=runs.slots,
                calls=on_path[units].sum(axis=0),
                critical_ns=critical[units].sum(axis=0),
            )

    def _counts(
        self, site: int, calls: int, sites: GraphSites, units: I8, runs: _Runs, n: F8, w: F8, w2: F8
    ) -> None:
        self._write(
            "votes",
            measure=CALLS,
            site=site,
            shape=most_common(sites.shape[units].tolist()),
            slot=runs.slots,
            bin=bin_of(np.array([calls * RATIO_SCALE])),
            n=n,
            w=w,
            w2=w2,
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
        unit = sites.unit_at[failures.position]
        at_site = sites.site[unit] if len(sites.site) else unit
        if not (unit >= 0).all():  # records: the point itself is the place
            at_site = np.where(unit >= 0, at_site, sites.shape_site[failures.position])
        row = place[failures.row]
        seen = row >= 0
        at_site, row, error = at_site[seen], row[seen], failures.error[seen]
        found: dict[int, tuple[F8, F8]] = {}
        calls = {site: len(units) for site, units in _groups(sites.site).items()}
        for site in np.unique(at_site).tolist():
            per_request = np.bincount(row[at_site == site], minlength=len(runs.order))
            share = per_request / max(calls.get(site, 1), 1)
            found[site] = (runs.sums(share * runs.weight), runs.sums(per_request > 0))
        # The deepest failing node is where the failure began; the ones above it pass it on.
        depth_order = np.lexsort((-failures.position[seen], row))
        first = depth_order[np.unique(row[depth_order], return_index=True)[1]]
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

    def sums(self, values: npt.NDArray[np.generic]) -> F8:
        """[slots of `slots`] sums over the requests of each."""
        sums: F8 = np.add.reduceat(values.astype(np.float64), self.starts)
        return sums


def _groups(codes: I8) -> dict[int, I8]:
    """Code -> places where it stands, ascending."""
    order = np.argsort(codes, kind="stable")
    found, starts = np.unique(codes[order], return_index=True)
    return dict(zip(found.tolist(), np.split(order, starts[1:]), strict=True))
