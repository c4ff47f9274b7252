"""A fleet by numbers, as statistics of windows: services of a hundred operations each, some busy, most not.

Nothing is a request: counts are drawn, so that a window of a million requests at a hundred thousand call
sites takes seconds. A request of a root type goes down its tree: an operation calls all of its children or
none, so that counts, call patterns, times and the breakdown of one window agree. What is busy has many bins,
what is not a few: that decides what reading and testing cost.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from oracles.lake_script import flows_table, structures_table
from oracles.made_profiles import held
from oracles.stored_lake import write_lake

from analyze.profile.encoding import encode
from analyze.profile.names import NO_CALLER, NameBook, Names, OperationName, SiteKind
from analyze.profile.profile import CALLS, OWN_TIME, RATIO_SCALE, SCHEMAS, Profile, Slot, summed
from analyze.profile.stored import key_of, whole_windows
from analyze.refine.settings import RefineSettings
from analyze.scope import LakePeriod, Lakes
from analyze.stats.histograms import BIN_LOG, bin_of, value_of
from schemas.ranges import parse_ranges
from schemas.windows import NS_PER_MINUTE
from stitch.lake.stats_files import put_stats
from stitch.lake.store import LocalStore

Array = npt.NDArray[Any]
_CHILDREN = 4
"""Children of an operation, numbered in order of depth: those of `n` are 4n+1 to 4n+4."""
_OWN_NS = 4e5
"""Median own time of a call."""


START_NS = 1_793_491_200 * 10**9
"""2026-11-01, when lakes of fleets begin."""
_NS_PER_HOUR = 60 * NS_PER_MINUTE


@dataclass(frozen=True)
class Fleet:
    """Root types of a hundred call sites each; the last has what is left."""

    n_sites: int
    requests: float = 1e6
    """Requests of a window, on average."""
    spread: float = 2.0
    """Standard deviation of the logarithm of how busy a root type is."""
    sigma: float = 0.5
    """Of the logarithm of an own time."""
    noise: float = 0.02
    """The same, of a site's median between windows."""
    failing: float = 0.01
    """Share of requests that fail where they begin."""
    sites_a_root: int = 100

    @property
    def n_roots(self) -> int:
        """Root types, a service each."""
        return -(-self.n_sites // self.sites_a_root)

    @cached_property
    def root(self) -> Array:
        """[sites] root type."""
        return np.arange(self.n_sites) // self.sites_a_root

    @cached_property
    def above(self) -> Array:
        """[sites] the site that calls it; NO_CALLER where requests begin."""
        number = np.arange(self.n_sites) % self.sites_a_root
        return np.where(number == 0, NO_CALLER, self.root * self.sites_a_root + (number - 1) // _CHILDREN)

    @cached_property
    def popularity(self) -> Array:
        """[roots] share of the requests."""
        busy = np.exp(np.random.default_rng(0).normal(0, self.spread, self.n_roots))
        return busy / busy.sum()

    @cached_property
    def descends(self) -> Array:
        """[sites] share of its calls that call its children, in the mean 0.65: about 30 calls a request."""
        share = np.random.default_rng(1).uniform(0.3, 1, self.n_sites)
        share[np.bincount(self.above[self.above >= 0], minlength=self.n_sites) == 0] = 0
        return share

    def loaded_sites(self, n: int) -> list[int]:
        """First calls of the `n` busiest root types: a change there is no small part of a response."""
        busiest = np.argsort(-self.popularity, kind="stable")[:n]
        return sorted((busiest * self.sites_a_root + 1).tolist())

    def operation(self, site: int) -> OperationName:
        """What is called at a site."""
        number, root = site % self.sites_a_root, site // self.sites_a_root
        return OperationName(f"service-{root}", f"operation-{number}" if number else f"GET /{root}")

    @cached_property
    def _names(self) -> tuple[Names, Array]:
        """Names, callers before those they call, and [sites] the call pattern with all children."""
        book = NameBook()
        leaf = book.pattern([])
        children: list[list[tuple[int, bool]]] = [[] for _ in range(self.n_sites)]
        operations: list[int] = []
        paths: list[int] = []
        for site, above in enumerate(self.above.tolist()):
            if above == NO_CALLER:
                book.roots[self.operation(site).text]
            operations.append(book.operations[self.operation(site)])
            caller = NO_CALLER if above == NO_CALLER else operations[above]
            place = book.sites[caller, operations[-1], SiteKind.CALL]
            paths.append(book.paths[NO_CALLER if above == NO_CALLER else paths[above], place])
            if above != NO_CALLER:
                children[above].append((operations[-1], True))
        calling = [book.pattern(called) if called else leaf for called in children]
        book.errors["timeout"]
        return book.names(), np.array(calling)

    def profile(self, seed: int, slot: Slot, slower: Collection[int] = (), times: float = 1.0) -> Profile:
        """Draw one window; calls at sites that are `slower` take so many `times` as long."""
        rng = np.random.default_rng(seed)
        names, calling = self._names
        factor = np.exp(rng.normal(0, self.noise, self.n_sites))
        factor[list(slower)] *= times
        n, descending = self._counts(rng)
        # Calls by pattern: [0:sites] those that call nothing, then those that call all children.
        site = np.tile(np.arange(self.n_sites), 2)
        pattern = np.concatenate((np.zeros(self.n_sites, dtype=np.int64), calling))
        calls = np.concatenate((n - descending, descending))
        shift = np.rint(np.log(factor) / BIN_LOG).astype(np.int64)[site]
        row, place, votes = self._binned(rng, calls, shift)
        took = np.bincount(row, votes * value_of(place + 0.5), 2 * self.n_sites)  # ns, all on the path
        there = np.flatnonzero(calls)
        seen = np.flatnonzero(n)
        begun = np.flatnonzero((self.above == NO_CALLER) & (n > 0))
        spent = np.bincount(self.root[site], took, self.n_roots)
        response_ns = spent / np.maximum(n[:: self.sites_a_root], 1)
        own_ns = took[: self.n_sites] + took[self.n_sites :]
        failed = rng.binomial(n[begun], self.failing)
        some = begun[failed > 0]
        one_call = bin_of(np.array([RATIO_SCALE]))
        place_of = {"site": site[there], "pattern": pattern[there]}
        # What is below a call on the critical path: everything is sequential.
        inclusive = self._inclusive(took, n, descending)
        rows = {
            "votes": [
                _rows("votes", votes, measure=OWN_TIME, site=site[row], pattern=pattern[row], bin=place),
                _rows("votes", calls[there], measure=CALLS, **place_of, bin=one_call),
            ],
            "visits": [
                _rows(
                    "visits",
                    n[seen],
                    site=seen,
                    calls=n[seen],
                    critical_ns=own_ns[seen],
                    response_ns=n[seen] * response_ns[self.root[seen]],
                )
            ],
            "patterns": [
                _rows(
                    "patterns",
                    calls[there],
                    **place_of,
                    votes=calls[there],
                    calls=calls[there],
                    inclusive_ns=inclusive[there],
                )
            ],
            "account": [
                _rows(
                    "account",
                    calls[there],
                    root=self.root[site[there]],
                    path=site[there],
                    pattern=pattern[there],
                    calls=calls[there],
                    critical_ns=took[there],
                )
            ],
            "responses": [self._responses(rng, n[begun], response_ns[self.root[begun]], begun)],
            "origins": [_rows("origins", failed[failed > 0], root=self.root[some], site=some, error=0)],
        }
        tables = {name: summed(name, several) for name, several in rows.items()}
        return Profile(names, held((slot,), tables["responses"]), **tables)

    def _counts(self, rng: np.random.Generator) -> tuple[Array, Array]:
        """[sites] calls, one a request at most, and how many of them call all children."""
        n = np.zeros(self.n_sites, dtype=np.int64)
        descending = np.zeros(self.n_sites, dtype=np.int64)
        level = np.flatnonzero(self.above == NO_CALLER)
        n[level] = rng.poisson(self.requests * self.popularity)
        while len(level):
            descending[level] = rng.binomial(n[level], self.descends[level])
            level = np.flatnonzero(np.isin(self.above, level))
            n[level] = descending[self.above[level]]
        return n, descending

    def _inclusive(self, took: Array, n: Array, descending: Array) -> Array:
        """[patterns of sites] time with everything below, ns."""
        total = took.copy()
        for site in range(self.n_sites - 1, -1, -1):  # callees before callers
            if (above := self.above[site]) != NO_CALLER and descending[above]:
                total[self.n_sites + above] += total[site] + total[self.n_sites + site]
        return total

    def _binned(self, rng: np.random.Generator, n: Array, shift: Array) -> tuple[Array, Array, Array]:
        """Rows (index into `n`, bin, calls) of so many times each, log-normal; bins that have a call."""
        share, places = self._bins()
        many = np.flatnonzero(n >= len(share))
        few = np.flatnonzero((n > 0) & (n < len(share)))
        # A count a bin where there are more calls than bins, else a bin a call.
        counts = rng.multinomial(n[many], share)
        at, place = np.nonzero(counts)
        row, found = np.repeat(few, n[few]), rng.choice(len(share), n[few].sum(), p=share)
        keys, calls = np.unique(row * len(share) + found, return_counts=True)
        rows = np.concatenate((many[at], keys // len(share)))
        bins = places[np.concatenate((place, keys % len(share)))] + shift[rows]
        return rows, bins, np.concatenate((counts[at, place], calls))

    def _responses(self, rng: np.random.Generator, n: Array, mean_ns: Array, begun: Array) -> pa.Table:
        """Requests by response time; in sum what the calls on their critical paths took."""
        centre = np.rint(np.log(mean_ns / _OWN_NS) / BIN_LOG).astype(np.int64)
        at, place, votes = self._binned(rng, n, centre)
        ns = value_of(place + 0.5)
        ns *= (mean_ns * n / np.bincount(at, votes * ns, len(n)))[at]
        return _rows(
            "responses", votes, root=self.root[begun[at]], bin=place, ns=votes * ns, ns2=votes * ns**2
        )

    def _bins(self) -> tuple[Array, Array]:
        """(probability, bin) of an own time."""
        middle = np.log(_OWN_NS) / BIN_LOG
        places = np.arange(int(middle - 4 * self.sigma / BIN_LOG), int(middle + 4 * self.sigma / BIN_LOG))
        share = np.exp(-0.5 * ((places - middle) * BIN_LOG / self.sigma) ** 2)
        return share / share.sum(), places


def _rows(name: str, n: Array, **columns: Any) -> pa.Table:
    """Rows of one table in slot 0; weights are those of unweighted requests, what is not given is 0."""
    given = {"n": n, "w": n, "w2": n, **columns}
    return pa.table(
        [
            pa.array(np.broadcast_to(given.get(field.name, 0), len(n)).astype(field.type.to_pandas_dtype()))
            for field in SCHEMAS[name]
        ],
        schema=SCHEMAS[name],
    )


def write_fleet(
    folder: Path,
    fleet: Fleet,
    n_compared: int,
    n_history: int,
    slower: Collection[int],
    times: float,
    *,
    most_drawn: int = 1 << 30,
) -> float:
    """Write a lake of history, reference and problem, a window an hour; bytes a site and window.

    In the problem calls at sites that are `slower` take so many `times` as long. Of more than `most_drawn`
    windows that many are drawn, and come again in turn: that costs a comparison as much, and is made sooner.
    """
    n_windows = 2 * n_compared + n_history
    starts = [START_NS + n * _NS_PER_HOUR + 10**9 for n in range(n_windows)]
    flows = flows_table([f"r{n}" for n in range(n_windows)], starts)
    write_lake(folder, flows, structures_table(), _NS_PER_HOUR)
    (whole,) = Lakes(str(folder)).ranges(parse_ranges(["all"], now_ns=0))
    size = 0
    drawn: dict[tuple[int, bool], list[LakePeriod]] = {}
    for number, here in enumerate(whole_windows(whole)):
        of = number % most_drawn, number >= n_windows - n_compared
        drawn.setdefault(of, []).append(here)
    for (seed, is_problem), windows in drawn.items():
        profile = fleet.profile(seed, Slot(0, 0, 1), slower if is_problem else (), times)
        for here in windows:
            slots = held((Slot(0, here.period.start_ns, here.period.end_ns),), profile.responses)
            data = encode(replace(profile, slots=slots))
            put_stats(LocalStore.at(folder), key_of(here, RefineSettings()), data)
            size += len(data)
    return size / n_windows / fleet.n_sites


def periods(n_compared: int, n_history: int) -> list[str]:
    """Options of the comparison of a lake of `write_fleet`."""

    def span(first: int, n: int) -> str:
        start = time.gmtime(START_NS // 10**9 + first * 3600)
        return f"{time.strftime('%Y-%m-%dT%H:%M', start)}/{n}h"

    found = [
        "--reference",
        span(n_history, n_compared),
        "--problem",
        span(n_history + n_compared, n_compared),
    ]
    return [*found, "--history", span(0, n_history)] if n_history else found
