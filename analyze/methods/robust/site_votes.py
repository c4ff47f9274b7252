"""Votes of a profile as arrays, and what they say a site and block of time: medians, spread, counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from analyze.methods.robust.vote_sums import summed_votes
from analyze.stats.log_bins import BIN_LOG
from analyze.stats.sums import totals
from analyze.stats.weights import in_requests

I8 = npt.NDArray[np.int64]
F8 = npt.NDArray[np.float64]
B1 = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Votes:
    """Histogram rows sorted by (site, slot, bin); arrays are [rows]."""

    site: I8
    slot: I8
    bin: I8
    n: F8

    def where(self, keep: B1) -> Votes:
        """Some of the rows."""
        if keep.all():
            return self
        return Votes(self.site[keep], self.slot[keep], self.bin[keep], self.n[keep])


def votes_of(table: pa.Table, measure: int) -> tuple[Votes, I8]:
    """Rows of one measure, and the shape of each row; weighted requests count as effective ones (A.7).

    table: `votes` of a profile, sorted by its keys, the measure first.
    """
    of = table["measure"].to_numpy()
    first, past = np.searchsorted(of, np.array([measure, measure + 1], dtype=of.dtype)).tolist()
    rows = table.slice(first, past - first)
    site, slot, place, shape = (rows[key].to_numpy().astype(np.int64) for key in _KEYS)
    w = rows["w"].to_numpy()
    group = site * (int(slot.max(initial=0)) + 1)
    group += slot
    n_groups = int(group.max(initial=-1)) + 1
    total, squares = totals(group, w, n_groups), totals(group, rows["w2"].to_numpy(), n_groups)
    return Votes(site, slot, place, w * in_requests(total, squares)[group]), shape


_KEYS = ("site", "slot", "bin", "shape")


def merged(site: I8, slot: I8, place: I8, n: F8) -> Votes:
    """Rows of equal (site, slot, bin) added up, sorted."""
    return Votes(*summed_votes(site, slot, place, n))


def pooled(votes: Votes, group: I8) -> Votes:
    """Votes of groups of slots (`group` [slots], -1: in none), which stand where the slots stood."""
    here = votes.where(group[votes.slot] >= 0)
    return merged(here.site, group[here.slot], here.bin, here.n)


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
    return spread_of(pooled(votes, group), n_sites, n_groups)


def spread_of(rows: Votes, n_sites: int, n_groups: int) -> Spread:
    """The same of votes that are pooled."""
    cell = rows.site * n_groups + rows.slot
    n = totals(cell, rows.n, n_sites * n_groups)
    q25, q50, q75 = _quantiles(cell, rows, n, (0.25, 0.5, 0.75))
    with np.errstate(divide="ignore", invalid="ignore"):
        sd = np.maximum((q75 - q25) * BIN_LOG / 1.349, 0.02)
        se = 1.2533 * sd / np.sqrt(n)
    shape = (n_sites, n_groups)
    return Spread(n.reshape(shape), (q50 * BIN_LOG).reshape(shape), se.reshape(shape))


def holding_rows(cell: I8, rows: Votes, n: F8, quantiles: Sequence[float]) -> list[I8]:
    """A row of each filled cell a quantile: the one that holds it. cell: [rows] ascending; n: [cells] votes.

    A quantile is in the first bin up to which so many of the cell's votes lie.
    """
    cumulative = np.cumsum(rows.n)
    filled = np.flatnonzero(n > 0)
    before = np.concatenate(([0.0], np.cumsum(n)))[filled]
    first, past = np.searchsorted(cell, filled), np.searchsorted(cell, filled, side="right") - 1
    found = []
    for q in quantiles:
        target = before + q * n[filled]
        at = np.searchsorted(cumulative, target - 1e-9 * np.maximum(target, 1))
        # Rounding must not carry a quantile into the next cell.
        found.append(np.clip(np.minimum(at, len(cumulative) - 1), first, past))
    return found


def _quantiles(cell: I8, rows: Votes, n: F8, quantiles: Sequence[float]) -> list[F8]:
    """[cells] quantiles of each cell's votes on the axis of bins, by linear interpolation inside a bin."""
    cumulative = np.cumsum(rows.n)
    filled = np.flatnonzero(n > 0)
    before = np.concatenate(([0.0], np.cumsum(n)))[filled]
    found = []
    for q, at in zip(quantiles, holding_rows(cell, rows, n, quantiles), strict=True):
        below = cumulative[at] - rows.n[at]
        place = np.full(len(n), np.nan)
        place[filled] = rows.bin[at] + np.clip((before + q * n[filled] - below) / rows.n[at], 0, 1)
        found.append(place)
    return found
