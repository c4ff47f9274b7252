"""Votes of a profile as arrays, and what they say a site and block of time: medians, spread, counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from analyze.sites.log_bins import BIN_LOG
from analyze.sites.totals import totals

I8 = npt.NDArray[np.int64]
F8 = npt.NDArray[np.float64]
B1 = npt.NDArray[np.bool_]

_MOST_BINS = 1 << 13


@dataclass(frozen=True, slots=True)
class Votes:
    """Histogram rows sorted by (site, slot, bin); arrays are [rows]."""

    site: I8
    slot: I8
    bin: I8
    n: F8

    def where(self, keep: B1) -> Votes:
        """Some of the rows."""
        return Votes(self.site[keep], self.slot[keep], self.bin[keep], self.n[keep])


def votes_of(table: pa.Table, measure: int) -> tuple[Votes, I8]:
    """Rows of one measure, and the shape of each row; weighted requests count as effective ones (A.7)."""
    rows = table.filter(pc.equal(table["measure"], pa.scalar(measure, pa.int8())))
    w, w2 = rows["w"].to_numpy(), rows["w2"].to_numpy()
    site, slot = rows["site"].to_numpy().astype(np.int64), rows["slot"].to_numpy().astype(np.int64)
    # Kish: a site's weights of a slot stand for (sum w)^2 / sum w^2 equal ones.
    group = site * (int(slot.max(initial=0)) + 1) + slot
    _, inverse = np.unique(group, return_inverse=True)
    n_groups = int(inverse.max(initial=-1)) + 1
    total, squares = totals(inverse, w, n_groups), totals(inverse, w2, n_groups)
    effective = w * (total / np.maximum(squares, 1e-300))[inverse]
    votes = Votes(site, slot, rows["bin"].to_numpy().astype(np.int64), effective)
    return votes, rows["shape"].to_numpy().astype(np.int64)


def merged(site: I8, slot: I8, place: I8, n: F8) -> Votes:
    """Rows of equal (site, slot, bin) added up, sorted."""
    slots = int(slot.max(initial=0)) + 1
    key = (site * slots + slot) * _MOST_BINS + np.clip(place, 0, _MOST_BINS - 1)
    found, inverse = np.unique(key, return_inverse=True)
    total = totals(inverse, n, len(found))
    return Votes(found // _MOST_BINS // slots, found // _MOST_BINS % slots, found % _MOST_BINS, total)


@dataclass(frozen=True, slots=True)
class Spread:
    """Medians of groups of votes; arrays are [sites, groups], NaN where a group has no vote."""

    n: F8
    log_median: F8
    """Natural logarithm."""
    se: F8
    """Standard error of `log_median` by sampling alone, from the quartiles."""


def spread(votes: Votes, group: I8, n_sites: int, n_groups: int) -> Spread:
    """Median and its sampling error of each site and group of slots (`group` [slots], -1: in none)."""
    inside = group[votes.slot] >= 0
    here = votes.where(inside)
    rows = merged(here.site, group[here.slot], here.bin, here.n)
    cell = rows.site * n_groups + rows.slot
    n = totals(cell, rows.n, n_sites * n_groups)
    q25, q50, q75 = (_quantile(cell, rows, n, q) for q in (0.25, 0.5, 0.75))
    with np.errstate(divide="ignore", invalid="ignore"):
        sd = np.maximum((q75 - q25) * BIN_LOG / 1.349, 0.02)
        se = 1.2533 * sd / np.sqrt(n)
    shape = (n_sites, n_groups)
    return Spread(n.reshape(shape), (q50 * BIN_LOG).reshape(shape), se.reshape(shape))


def _quantile(cell: I8, rows: Votes, n: F8, q: float) -> F8:
    """[cells] quantile of each cell's votes on the axis of bins, by linear interpolation inside a bin."""
    cumulative = np.cumsum(rows.n)
    before = np.concatenate(([0.0], np.cumsum(n)))[:-1]
    place = np.full(len(n), np.nan)
    filled = np.flatnonzero(n > 0)
    target = before[filled] + q * n[filled]
    at = np.minimum(np.searchsorted(cumulative, target - 1e-9 * np.maximum(target, 1)), len(cumulative) - 1)
    # Rounding must not carry a quantile into the next cell.
    first = np.searchsorted(cell, filled)
    past = np.searchsorted(cell, filled, side="right") - 1
    at = np.clip(at, first, past)
    below = cumulative[at] - rows.n[at]
    place[filled] = rows.bin[at] + np.clip((target - below) / rows.n[at], 0, 1)
    return place
