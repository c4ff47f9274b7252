"""A fleet by numbers, as statistics of windows: services of a hundred operations each, some busy, most not.

Nothing is a request: counts are drawn bin by bin, so that a window of a million requests at a hundred
thousand call sites takes seconds. What is busy has many bins, what is not a few: that decides what reading
and testing cost.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from analyze.profile.names import NO_CALLER, NameBook, Names, OperationName, SiteKind
from analyze.profile.profile import CALLS, OWN_TIME, RATIO_SCALE, SCHEMAS, Profile, Slot, summed
from analyze.stats.histograms import BIN_LOG, bin_of

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Fleet:
    """Root types of a hundred call sites each, in a tree of four calls a call."""

    n_sites: int
    visits: float = 300.0
    """Requests of a window that touch a site, on average: a million requests of thirty calls at 10⁵ sites."""
    spread: float = 2.0
    """Standard deviation of the logarithm of how busy a site is."""
    sigma: float = 0.5
    """Of the logarithm of an own time."""
    noise: float = 0.02
    """The same, of a site's median between windows."""
    sites_a_root: int = 100

    @property
    def n_roots(self) -> int:
        """Root types, a service each."""
        return self.n_sites // self.sites_a_root

    def names(self) -> Names:
        """Numbered root by root, callers before those they call."""
        book = NameBook()
        for root in range(self.n_roots):
            book.root(f"service-{root}/GET /{root}")
            operations: list[int] = []
            paths: list[int] = []
            for number in range(self.sites_a_root):
                point = f"operation-{number}" if number else f"GET /{root}"
                above = (number - 1) // 4
                operations.append(book.operation(OperationName(f"service-{root}", point)))
                caller = operations[above] if number else NO_CALLER
                site = book.site(caller, operations[-1], SiteKind.CALL)
                paths.append(book.path(paths[above] if number else NO_CALLER, site))
        for number in range(2):
            book.shape([(0, True)] * number)
        book.error("timeout")
        return book.names()

    def profile(self, seed: int, slot: Slot, slower: Collection[int] = ()) -> Profile:
        """One window; sites that are `slower` take half as long again."""
        rng = np.random.default_rng(seed)
        sites = np.arange(self.n_sites)
        roots = sites // self.sites_a_root
        busy = np.random.default_rng(0).normal(0, self.spread, self.n_sites)
        expected = self.visits * np.exp(busy - self.spread**2 / 2)
        # A call is made in as many requests as its root has, at most.
        expected = np.minimum(expected, 1e6)
        factor = np.exp(rng.normal(0, self.noise, self.n_sites))
        factor[list(slower)] *= 1.5
        share, places = self._bins()
        counts = rng.poisson(expected[:, None] * share)
        n = counts.sum(axis=1)
        site, at = np.nonzero(counts)
        votes = counts[site, at]
        shift = np.rint(np.log(factor) / BIN_LOG).astype(int)
        mean_ns = 4e5 * factor * np.exp(self.sigma**2 / 2)
        there = np.flatnonzero(n)
        one = bin_of(np.array([RATIO_SCALE]))
        response_ns = np.bincount(roots, mean_ns)[roots]
        split = np.rint(0.3 * n).astype(np.int64)  # paths are as before: windows come again and again
        parts = {name: [] for name in SCHEMAS}
        parts["votes"] = [
            _rows("votes", votes, measure=OWN_TIME, site=site, bin=places[at] + shift[site]),
            _rows("votes", n[there], measure=CALLS, site=there, bin=one),
        ]
        parts["visits"] = [
            _rows(
                "visits",
                n[there],
                site=there,
                calls=n[there],
                critical_ns=np.rint(n * mean_ns)[there],
                response_ns=np.rint(n * response_ns)[there],
            )
        ]
        for shape, part in ((0, n - split), (1, split)):
            mine = np.flatnonzero(part)
            took = np.rint(part * mean_ns)[mine]
            parts["shapes"].append(
                _rows(
                    "shapes",
                    part[mine],
                    site=mine,
                    shape=shape,
                    votes=part[mine],
                    calls=part[mine],
                    inclusive_ns=took,
                )
            )
            parts["account"].append(
                _rows(
                    "account",
                    part[mine],
                    root=roots[mine],
                    path=mine,
                    shape=shape,
                    calls=part[mine],
                    critical_ns=took,
                )
            )
        first = site % self.sites_a_root == 0
        ns = votes[first] * np.rint(response_ns[site[first]])
        slower_root = np.rint(np.log(response_ns / 4e5) / BIN_LOG).astype(int)
        parts["responses"] = [
            _rows(
                "responses",
                votes[first],
                root=roots[site[first]],
                bin=places[at[first]] + slower_root[site[first]],
                ns=ns,
                ns2=ns * response_ns[site[first]],
            )
        ]
        begun = np.flatnonzero((n > 0) & (sites % self.sites_a_root == 0))
        failed = rng.binomial(n[begun], 0.01)
        parts["origins"] = [
            _rows(
                "origins", failed[failed > 0], root=roots[begun[failed > 0]], site=begun[failed > 0], error=0
            )
        ]
        return Profile(
            self.names(), (slot,), **{name: summed(name, tables) for name, tables in parts.items()}
        )

    def _bins(self) -> tuple[Array, Array]:
        """(probability, bin) of an own time."""
        middle = np.log(4e5) / BIN_LOG
        places = np.arange(int(middle - 4 * self.sigma / BIN_LOG), int(middle + 4 * self.sigma / BIN_LOG))
        share = np.exp(-0.5 * ((places - middle) * BIN_LOG / self.sigma) ** 2)
        return share / share.sum(), places


def _rows(name: str, n: Array, **columns: Any) -> pa.Table:
    """Rows of one table in slot 0; weights are those of unweighted requests, what is not given is 0."""
    told = {"n": n, "w": n, "w2": n, **columns}
    return pa.table(
        [
            pa.array(np.broadcast_to(told.get(field.name, 0), len(n)).astype(field.type.to_pandas_dtype()))
            for field in SCHEMAS[name]
        ],
        schema=SCHEMAS[name],
    )
