"""Test if the rate of failing, or slow, requests of an attribute segment rose by more than in all other
requests.

Requests and hits (requests with the outcome) are counted by attribute value, time block and stratum (root
type or call graph). A segment is compared with the other requests of the same strata, and its change with
their change, so that neither a changed mix of requests nor a general change is significant. Blocks of the
baseline show the normal variation of a segment's share of the hits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from analyze.cache_blocks import FEW_CELLS, uneven_blocks
from analyze.methods.robust.settings import SegmentSettings
from analyze.stats.noncentral import at_least_given_odds, at_least_of
from schemas.arrays import B1, F8, I8

_LEAST_P = 1e-300
SLOW = -1
"""Value of `Outcome.component` for the outcome "slow", which no component has."""


@dataclass(frozen=True, eq=False, slots=True)
class Outcome:
    """Outcome of requests to test: failing at one component, or being slow. Requests that have it are
    hits."""

    component: int
    """Index of the component at which requests fail, or SLOW."""
    of_root: bool
    """True if the outcome covers only the requests of one root type."""
    inside: B1
    """bool[requests]: True for requests to count: they pass the component, and no earlier segment has removed
    them."""
    hit: B1
    """bool[requests]: True for hits: requests that fail at the component, or that are slow."""
    stratum: I8
    """int64[requests]: stratum (root type, or call graph) of each request, from 0; a segment is compared with
    other requests of the same stratum."""
    n_strata: int
    strata: I8 | None = None
    """int64[n_strata]: the strata of this outcome of one root type, among those of the outcome of all root
    types; None for an outcome of all."""


class Counts(NamedTuple):
    """Numbers of requests and of hits (requests with the outcome) by time block and stratum."""

    n: F8
    """Number of requests in each attribute segment, float64[values, blocks, strata]."""
    x: F8
    """Number of hits (failing or slow requests, see `Outcome`) in each attribute segment, float64[values,
    blocks, strata]."""
    n_all: F8
    """Number of all requests, in the segment or not, float64[blocks, strata]."""
    x_all: F8
    """Number of hits (failing or slow requests, see `Outcome`) among all requests, in the segment or not,
    float64[blocks, strata]."""

    def of_strata(self, strata: I8) -> Counts:
        """Counts of some strata only."""
        return Counts(*(np.take(part, strata, axis=-1) for part in self))


class Cells:
    """Cells (time block, stratum) of the requests of one outcome, to count any number of attribute
    segments."""

    def __init__(self, outcome: Outcome, block: I8, n_blocks: int) -> None:
        """Count all requests. block: int64[requests], from 0 to n_blocks - 1, -1 for requests left out.
        O(requests)."""
        self.shape, self.hit = (n_blocks, outcome.n_strata), outcome.hit
        counts = outcome.inside & (block >= 0)
        self.cell = np.where(counts, block * outcome.n_strata + outcome.stratum, n_blocks * outcome.n_strata)
        self.n_all, self.x_all = (self._sums(of, 1)[0] for of in (self.cell, self.cell[self.hit]))

    def counts(self, rows: Sequence[I8]) -> Counts:
        """Number of requests and hits of attribute segments. rows: indices of each value's requests."""
        request = np.concatenate([np.zeros(0, np.int64), *rows])
        cell = self.cell[request]
        n_cells = self.shape[0] * self.shape[1] + 1
        cell += np.repeat(np.arange(len(rows)) * n_cells, [len(mine) for mine in rows])
        n, x = (self._sums(of, len(rows)) for of in (cell, cell[self.hit[request]]))
        return Counts(n, x, self.n_all, self.x_all)

    def _sums(self, cell: I8, n: int) -> F8:
        n_cells = self.shape[0] * self.shape[1] + 1  # the last one of requests left out
        found = np.bincount(cell, minlength=n * n_cells).reshape(n, n_cells)[:, :-1]
        return found.astype(np.float64).reshape(n, *self.shape)


@dataclass(frozen=True, slots=True)
class Compared:
    """Counts of attribute segments and of the other requests, summed over strata; arrays are float64[values,
    2] unless noted, column 0 the baseline (before), column 1 the problem (after)."""

    n: F8
    """Number of requests in the attribute segment, over strata that also have requests outside it."""
    x: F8
    """Number of hits (failing or slow requests, see `Outcome`) in the attribute segment."""
    y: F8
    """Number of hits (failing or slow requests, see `Outcome`) outside the attribute segment, in the same
    strata."""
    e: F8
    """Number of hits (failing or slow requests) expected in the attribute segment at the hit rate of all
    requests."""
    f: F8
    """Number of hits (failing or slow requests) expected outside the attribute segment at the hit rate of all
    requests."""
    alike: F8
    """Weight, in hits (failing or slow requests), of the prior that the attribute segment's hit rate in the
    baseline equals the rate of the other requests, float64[values]."""

    @property
    def ordinary(self) -> F8:
        """Hit rate of the attribute segment divided by the hit rate of the other requests, in the baseline,
        shrunk by the prior `alike`; float64[values]."""
        with np.errstate(divide="ignore", invalid="ignore"):
            of_others = self.f[:, 0] / self.e[:, 0]
            ratio = (self.x[:, 0] + self.alike) / (self.y[:, 0] + self.alike * of_others) * of_others
        return np.where(self.e[:, 0] > 0, ratio, 1.0)

    @property
    def expected(self) -> F8:
        """Number of hits expected in the attribute segment in the problem, if its hit rate had changed by the
        same factor as the rate of the other requests; float64[values]."""
        with np.errstate(divide="ignore", invalid="ignore"):
            found = self.e[:, 1] / self.f[:, 1] * self.y[:, 1] * self.ordinary
        return np.where(self.f[:, 1] > 0, found, np.inf)

    def one(self, at: int) -> Compared:
        """Copy with only the row `at`, the attribute segment at that index."""
        return Compared(*(getattr(self, name)[at : at + 1] for name in self.__slots__))

    @property
    def share(self) -> F8:
        """Hit rate in [0, 1] of the attribute segment in baseline and problem, float64[values, 2]; 0 without
        requests."""
        return self.x / np.maximum(self.n, 1e-300)


def compared(rows: Sequence[I8], outcome: Outcome, block: I8, alike: F8) -> Compared:
    """Count the attribute segments of one outcome; see `compared_each`. alike: see `Compared`."""
    (found,) = compared_each(rows, [outcome], block)
    return replace(found, alike=alike)


def compared_each(rows: Sequence[I8], outcomes: Sequence[Outcome], block: I8) -> list[Compared]:
    """Count the attribute segments of an outcome, the first one, and of its restrictions to single root
    types, which have some of its strata: in the baseline (block 0) and the problem (block 1), without a prior
    (`Compared.alike`). O(all rows).

    rows: indices of each value's requests; block: int64[requests], -1 for requests left out.
    """
    outcome, *of_roots = outcomes
    # Values of one block are gathered at once: as many rows as four attributes of all requests have.
    most = max(FEW_CELLS, 4 * len(block))
    width = np.array([len(mine) for mine in rows], np.int64) + 2 * outcome.n_strata * most // FEW_CELLS
    parts: list[list[tuple[F8, ...]]] = [[(np.zeros((0, 2)),) * 5] for _ in outcomes]
    cells = Cells(outcome, block, 2)
    for some in uneven_blocks(width, most):
        counts = cells.counts(rows[some])
        parts[0].append(_exposed(counts))
        for part, of_root in zip(parts[1:], of_roots, strict=True):
            assert of_root.strata is not None
            part.append(_exposed(counts.of_strata(of_root.strata)))
    found = []
    for part in parts:
        n, x, y, e, f = (np.concatenate(column) for column in zip(*part, strict=True))
        found.append(Compared(n, x, y, e, f, np.zeros(len(rows))))
    return found


def compared_counts(counts: Counts, alike: F8) -> Compared:
    """Compare attribute segments from counts with two blocks, the baseline and the problem. alike: see
    `Compared`."""
    n, x, y, e, f = _exposed(counts)
    return Compared(n, x, y, e, f, alike)


def _exposed(counts: Counts) -> tuple[F8, ...]:
    """Columns n, x, y, e, f of `Compared`, each float64[values, 2], from counts with two blocks. Strata are
    left out that lack the segment's requests in the problem, or other requests in either block."""
    n, x, n_all, x_all = counts
    m, y = n_all - n, x_all - x
    fits = (n[:, 1] > 0) & (m[:, 1] > 0) & (m[:, 0] > 0)
    usual = x_all.sum(axis=0) / np.maximum(n_all.sum(axis=0), 1e-300)
    return tuple((part * fits[:, None]).sum(axis=2) for part in (n, x, y, n * usual, m * usual))


def alike_weight(c: Compared, key: I8, settings: SegmentSettings) -> F8:
    """Weight, in hits, of the prior that a value's hit rate in the baseline equals the rate of the other
    requests, float64[values].

    The weight is the inverse of a variance: of the ratio (hit rate of a value / rate of all requests) between
    the values of an attribute. The variance is estimated from the excess of (x - e)² over the binomial
    variance, and shrunk towards the variance over all attributes, which is shrunk towards the setting
    `spread`. key: int64[values] number of each value's attribute.
    """
    x, part = c.x[:, 0], c.e[:, 0] / np.maximum(c.e[:, 0] + c.f[:, 0], 1e-300)
    e = part * (x + c.y[:, 0])
    variance = e * (1 - part)
    beyond, known = np.bincount(key, (x - e) ** 2 - variance), np.bincount(key, variance**2)
    weight = settings.spread_hits
    every = (max(beyond.sum(), 0.0) + weight * settings.spread) / (known.sum() + weight)
    spread = (np.maximum(beyond, 0.0) + weight * every) / (known + weight)
    return np.asarray(1 / np.maximum(spread, settings.least_spread)[key])


def chance_p(c: Compared, settings: SegmentSettings) -> tuple[F8, F8]:
    """Test if the hits of attribute segments rose by more than chance explains: (float64[values] p,
    float64[values] smallest possible p, if the baseline's hit rate were known exactly); NaN for segments too
    small to test.

    p is the larger p of two tests: whether the segment's share of all hits rose, and whether its hit rate
    rose.
    """
    p = np.full(len(c.x), np.nan)
    tested = (c.n[:, 1] > 0) & (c.e[:, 1] > 0) & (c.f[:, 1] > 0)
    tested &= c.e[:, 1] + c.x[:, 1] >= settings.least_hits
    p[tested] = 1.0
    best = p.copy()
    with np.errstate(invalid="ignore"):
        more = tested & (c.x[:, 1] - c.expected >= settings.least_hits / 2)
    for at in np.flatnonzero(more).tolist():
        x0, x1, y0, y1 = (round(float(v)) for v in (*c.x[at], *c.y[at]))
        (e0, e1), (f0, f1), (n0, n1), prior = c.e[at], c.f[at], c.n[at], c.alike[at]
        if n0 > 0 and e0 > 0:
            # As many requests as the others need for so many hits.
            extra = prior * n0 / e0 * (e0 + f0) / max(x0 + y0, 1.0)
            own = at_least_of(x1, x0 + x1 + prior, n1 / (n0 + extra + n1))
            rest, odds = prior * f0 / e0, (e1 / e0) / (f1 / f0)
            p[at] = max(own, at_least_given_odds(x1, x0 + prior, y1, y0 + rest, odds))
            usual = min((x0 + prior) / (e0 + prior) * f0 / max(y0, 1.0), 1.0) * e1
            best[at] = at_least_of(x1, x1 + y1, usual / (usual + f1))
        else:  # of a value that was never there only the others say what to expect
            p[at] = best[at] = at_least_of(x1, x1 + y1, e1 / (e1 + f1))
    return p, best


def dispersion(periods: Iterable[Counts], settings: SegmentSettings) -> float:
    """Over-dispersion of one attribute segment's share of the hits between blocks, at least 1 (1: binomial).
    Pooled over `periods` (counts of one segment by block) and shrunk towards the setting `phi`."""
    squares, freedom = settings.phi * settings.phi_blocks, settings.phi_blocks
    for n, x, n_all, x_all in periods:
        y, m = x_all - x, n_all - n
        usual = x_all.sum(axis=0) / np.maximum(n_all.sum(axis=0), 1e-300)
        fits = (n.sum(axis=1) > 0) & (m.sum(axis=1) > 0)
        x, y, e, f = ((part * fits[:, None]).sum(axis=2)[0] for part in (x, y, n * usual, m * usual))
        there = (e > 0) & (f > 0)
        x, y, e, f = (part[there] for part in (x, y, e, f))
        # Of the hits of a block those of the segment, binomial given its exposure.
        ratio = (x.sum() + 0.5) / (y.sum() + 0.5)
        exposed = e / f * (f.sum() / max(e.sum(), 1e-300))
        part = ratio * exposed / (1 + ratio * exposed)
        spread = (x + y) * part * (1 - part)
        known = spread > 0
        # A square of a few hits varies by 2 + 1 / spread: it counts for less than one of many.
        told = 2 * spread / (2 * spread + 1)
        squares += float((2 * (x - (x + y) * part) ** 2 / (2 * spread + 1))[known].sum())
        freedom += float(told[known].sum()) * max(1 - 1 / max(int(known.sum()), 1), 0)
    return max(squares / max(freedom, 1e-300), 1.0)


def widened(p: F8, phi: F8) -> tuple[F8, F8]:
    """Divide z of one-sided p-values by √phi, phi the over-dispersion: (p, z) afterwards, same shape as
    `p`."""
    z = -ndtri(np.clip(p, _LEAST_P, 1.0)) / np.sqrt(phi)
    return np.asarray(ndtr(-z)), np.asarray(z)
