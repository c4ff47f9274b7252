"""Test whether failing, or slow, requests of a segment increased by more than those of all others.

Counts are relations over (value, stratum, block): requests and hits (requests with the outcome). A segment is
compared with the other requests of the same strata, and its change with theirs, so that neither another mix
nor a general change counts. Blocks of the baseline show how much a segment's part of the hits varies by
itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from analyze.cache_blocks import FEW_CELLS, uneven_blocks
from analyze.methods.robust.settings import SegmentSettings
from analyze.stats.noncentral import at_least_given_odds, at_least_of
from schemas.arrays import B1, F8, I8

_LEAST_P = 1e-300
SLOW = -1
"""Component of an outcome that has none: slow requests."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """An outcome to count, and the requests that could have it."""

    component: int
    """Component at which requests fail, or SLOW."""
    of_root: bool
    """True if restricted to one root type."""
    inside: B1
    """[requests] True if the request could have the outcome."""
    hit: B1
    """[requests] True if the request has the outcome (a hit)."""
    stratum: I8
    """[requests] stratum: group of requests that are compared with each other."""
    n_strata: int


class Counts(NamedTuple):
    """Requests and hits by block of time and stratum."""

    n: F8
    """[values, blocks, strata] requests of each segment; `x`: its hits."""
    x: F8
    n_all: F8
    """[blocks, strata] requests of all; `x_all`: their hits."""
    x_all: F8


@dataclass(frozen=True, slots=True)
class Compared:
    """Counts of segments and of the other requests; arrays are [values, 2], before and after."""

    n: F8
    """Requests of the segment, in strata that have others."""
    x: F8
    """Hits among the segment's requests."""
    y: F8
    """Hits among the other requests."""
    e: F8
    """Hits expected in the segment at the rate of all requests."""
    f: F8
    """Hits expected in the other requests at the rate of all requests."""
    alike: F8
    """[values] weight, in hits, of the prior that a segment's rate before equals the others'."""

    @property
    def ordinary(self) -> F8:
        """[values] hit rate of the segment over that of the others, before."""
        with np.errstate(divide="ignore", invalid="ignore"):
            of_others = self.f[:, 0] / self.e[:, 0]
            ratio = (self.x[:, 0] + self.alike) / (self.y[:, 0] + self.alike * of_others) * of_others
        return np.where(self.e[:, 0] > 0, ratio, 1.0)

    @property
    def expected(self) -> F8:
        """[values] hits expected in the segment after, had it changed as the others."""
        with np.errstate(divide="ignore", invalid="ignore"):
            found = self.e[:, 1] / self.f[:, 1] * self.y[:, 1] * self.ordinary
        return np.where(self.f[:, 1] > 0, found, np.inf)

    def one(self, at: int) -> Compared:
        """Counts of the segment at index `at`."""
        return Compared(*(getattr(self, name)[at : at + 1] for name in self.__slots__))

    @property
    def share(self) -> F8:
        """Hit rate of the segment; 0 without requests."""
        return self.x / np.maximum(self.n, 1e-300)


def compared(rows: Sequence[I8], outcome: Outcome, block: I8, alike: F8) -> Compared:
    """Count segments before (block 0) and after (1); rows: [values] indices of requests. O(all rows)."""
    # Values of one block are gathered at once: as many rows as four attributes of all requests have.
    most = max(FEW_CELLS, 4 * len(block))
    width = np.array([len(mine) for mine in rows], np.int64) + 2 * outcome.n_strata * most // FEW_CELLS
    parts = [_exposed(counted(rows[some], outcome, block, 2)) for some in uneven_blocks(width, most)]
    n, x, y, e, f = (np.concatenate([np.zeros((0, 2)), *part]) for part in zip(*parts, strict=True))
    return Compared(n, x, y, e, f, alike)


def compared_counts(counts: Counts, alike: F8) -> Compared:
    """Compare segments from counts with two blocks, before and after."""
    n, x, y, e, f = _exposed(counts)
    return Compared(n, x, y, e, f, alike)


def _exposed(counts: Counts) -> tuple[F8, ...]:
    """Columns n, x, y, e, f of `Compared`."""
    n, x, n_all, x_all = counts
    m, y = n_all - n, x_all - x
    fits = (n[:, 1] > 0) & (m[:, 1] > 0) & (m[:, 0] > 0)
    usual = x_all.sum(axis=0) / np.maximum(n_all.sum(axis=0), 1e-300)
    return tuple((part * fits[:, None]).sum(axis=2) for part in (n, x, y, n * usual, m * usual))


def alike_weight(c: Compared, key: I8, settings: SegmentSettings) -> F8:
    """[values] weight, in hits, of the prior that a value's hit rate equals the others' before.

    Inverse of the variance, between the values of an attribute (key: [values]), of the ratio of hit rates:
    the excess of (x - e)² over the binomial variance, shrunk to that of all attributes, and that to the
    assumed variance.
    """
    x, part = c.x[:, 0], c.e[:, 0] / np.maximum(c.e[:, 0] + c.f[:, 0], 1e-300)
    e = part * (x + c.y[:, 0])
    variance = e * (1 - part)
    beyond, known = np.bincount(key, (x - e) ** 2 - variance), np.bincount(key, variance**2)
    weight = settings.spread_hits
    every = (max(beyond.sum(), 0.0) + weight * settings.spread) / (known.sum() + weight)
    spread = (np.maximum(beyond, 0.0) + weight * every) / (known + weight)
    return np.asarray(1 / np.maximum(spread, settings.least_spread)[key])


def counted(rows: Sequence[I8], outcome: Outcome, block: I8, n_blocks: int) -> Counts:
    """Count segments; rows: [values] indices of requests. block: [requests], -1 for those left out."""
    cells = n_blocks * outcome.n_strata
    code = np.where(outcome.inside & (block >= 0), block * outcome.n_strata + outcome.stratum, cells)
    request = np.concatenate([np.zeros(0, np.int64), *rows])
    cell = code[request]
    cell += np.repeat(np.arange(len(rows)) * (cells + 1), [len(mine) for mine in rows])

    def sums(of: I8, n: int) -> F8:
        found = np.bincount(of, minlength=n * (cells + 1)).reshape(n, cells + 1)[:, :cells]
        return found.astype(np.float64).reshape(n, n_blocks, outcome.n_strata)

    n, x = sums(cell, len(rows)), sums(cell[outcome.hit[request]], len(rows))
    return Counts(n, x, sums(code, 1)[0], sums(code[outcome.hit], 1)[0])


def chance_p(c: Compared, settings: SegmentSettings) -> tuple[F8, F8]:
    """([values] p of as many hits by chance, [values] smallest p possible if the baseline rate were known);
    NaN where the segment is too small to be tested.

    p is the larger of two: that the segment's part of the hits, and that its own hit rate, rose so far by
    chance.
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
    """Over-dispersion of one segment's part of the hits between blocks, at least 1; pooled over periods and
    shrunk to the assumed value."""
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
    """(p, z) after division of z by the root of the over-dispersion phi."""
    z = -ndtri(np.clip(p, _LEAST_P, 1.0)) / np.sqrt(phi)
    return np.asarray(ndtr(-z)), np.asarray(z)
