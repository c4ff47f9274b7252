"""Profiles made by numbers, not of requests: a tree of calls with log-normal own times, any number of them.

What a hundred million requests would have left is drawn bin by bin, so that the cost is that of the profile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy.stats import norm

from analyze.profile.names import NO_CALLER, NameBook, Names, OperationName, SiteKind
from analyze.profile.profile import CALLS, OWN_TIME, RATIO_SCALE, SCHEMAS, Profile, Slot, Watched, summed
from analyze.stats.histograms import BIN_LOG, bin_of

Array = npt.NDArray[Any]


def held(slots: Sequence[Slot], responses: pa.Table) -> tuple[Slot, ...]:
    """Slots with what they hold; their requests began from the start of each to its end."""
    n, w = (np.bincount(responses["slot"], responses[of], len(slots)) for of in ("n", "w"))
    return tuple(
        replace(s, watched=(Watched(s.start_ns, s.end_ns, float(n[at]), float(w[at]), s.start_ns, s.end_ns),))
        for at, s in enumerate(slots)
    )


@dataclass(frozen=True)
class Service:
    """Root types whose requests call `n_sites` operations each, every one with two call patterns."""

    n_roots: int = 4
    n_sites: int = 50
    """Sites a root, the root itself among them."""
    mean_us: float = 400.0
    """Median own time."""
    sigma: float = 0.6
    """Of the logarithm of an own time."""
    noise: float = 0.02
    """The same, of a site's median between slots."""

    def names(self) -> Names:
        """Operations, sites, paths and patterns, numbered root by root."""
        book = NameBook()
        for root in range(self.n_roots):
            book.roots[f"shop/GET /{root}"]
            above = book.operations[OperationName("shop", f"GET /{root}")]
            first = book.paths[NO_CALLER, book.sites[NO_CALLER, above, SiteKind.CALL]]
            for number in range(1, self.n_sites):
                called = book.operations[OperationName(f"service-{number % 9}", f"step {root}-{number}")]
                book.paths[first, book.sites[above, called, SiteKind.CALL]]
        for number in range(2):
            book.pattern([(0, True)] * number)
        book.errors["timeout"]
        return book.names()

    def profile(
        self,
        seed: int,
        slots: tuple[Slot, ...],
        requests: float,
        *,
        slower: Mapping[int, Mapping[int, float]] | None = None,
    ) -> Profile:
        """The profile of some slots with about `requests` requests each.

        slower: sample -> site -> factor of its own time.
        """
        rng = np.random.default_rng(seed)
        parts: dict[str, list[pa.Table]] = {name: [] for name in SCHEMAS}
        for number, slot in enumerate(slots):
            factors = np.ones(self.n_roots * self.n_sites)
            for site, factor in ((slower or {}).get(slot.sample, {})).items():
                factors[site] = factor
            self._fill(parts, rng, number, requests, factors)
        tables = {name: summed(name, several) for name, several in parts.items()}
        return Profile(self.names(), held(slots, tables["responses"]), **tables)

    def _fill(
        self,
        parts: dict[str, list[pa.Table]],
        rng: np.random.Generator,
        slot: int,
        requests: float,
        factors: Array,
    ) -> None:
        share, places = self._bins()
        sites = np.arange(len(factors))
        roots = sites // self.n_sites
        n = rng.poisson(requests / self.n_roots, self.n_roots)[roots]
        factors = factors * np.exp(rng.normal(0, self.noise, len(factors)))
        shift = np.rint(np.log(factors) / BIN_LOG).astype(int)
        mean_ns = self.mean_us * 1e3 * factors * np.exp(self.sigma**2 / 2)
        counts = rng.multinomial(n, share)
        site, at = np.nonzero(counts)
        votes = counts[site, at].astype(np.float64)
        one = bin_of(np.array([RATIO_SCALE]))
        parts["votes"] += [
            _rows(
                "votes",
                votes,
                measure=OWN_TIME,
                site=site,
                pattern=0,
                slot=slot,
                bin=places[at] + shift[site],
            ),
            _rows("votes", n, measure=CALLS, site=sites, pattern=0, slot=slot, bin=one),
        ]
        response_ns = np.bincount(roots, mean_ns)[roots]
        parts["visits"].append(
            _rows(
                "visits",
                n,
                site=sites,
                slot=slot,
                calls=n,
                critical_ns=n * mean_ns,
                response_ns=n * response_ns,
            )
        )
        split = rng.binomial(n, 0.3)
        for pattern, part in ((0, n - split), (1, split)):
            below = part * np.where(sites % self.n_sites == 0, response_ns, mean_ns)
            parts["patterns"].append(
                _rows(
                    "patterns",
                    part,
                    site=sites,
                    pattern=pattern,
                    slot=slot,
                    votes=part,
                    calls=part,
                    inclusive_ns=below,
                )
            )
            parts["account"].append(
                _rows(
                    "account",
                    part,
                    root=roots,
                    path=sites,
                    pattern=pattern,
                    slot=slot,
                    calls=part,
                    critical_ns=part * mean_ns,
                )
            )
        first = site % self.n_sites == 0
        ns = votes[first] * response_ns[site[first]]
        slower_root = np.rint(np.log(response_ns / (self.mean_us * 1e3)) / BIN_LOG).astype(int)
        parts["responses"].append(
            _rows(
                "responses",
                votes[first],
                root=roots[site[first]],
                slot=slot,
                bin=places[at[first]] + slower_root[site[first]],
                ns=ns,
                ns2=ns * response_ns[site[first]],
            )
        )
        root_sites = sites[:: self.n_sites]
        failed = rng.binomial(n[root_sites], 0.01)
        parts["origins"].append(
            _rows("origins", failed, root=roots[root_sites], site=root_sites, error=0, slot=slot)
        )

    def _bins(self) -> tuple[Array, Array]:
        """(probability, bin) of an own time."""
        middle = np.log(self.mean_us * 1e3)
        edges = np.arange(
            int((middle - 5 * self.sigma) / BIN_LOG), int((middle + 5 * self.sigma) / BIN_LOG) + 2
        )
        share = np.diff(norm.cdf(edges * BIN_LOG, middle, self.sigma))
        return share / share.sum(), edges[:-1]


def _rows(name: str, n: Array, **columns: Any) -> pa.Table:
    """Rows of one table; weights are those of unweighted requests, what is not given is 0."""
    told = {"n": n, "w": n, "w2": n, **columns}
    return pa.table(
        [
            pa.array(np.broadcast_to(told.get(field.name, 0), len(n)).astype(field.type.to_pandas_dtype()))
            for field in SCHEMAS[name]
        ],
        schema=SCHEMAS[name],
    )
