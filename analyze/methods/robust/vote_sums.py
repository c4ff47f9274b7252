"""Votes of equal (site, slot, bin) added up: most of what the tests of millions of rows take.

Rows mostly come in the order of their sites, and the bins of a site are few. So they are added up in an array
over all bins between a site's least and largest; where that would be large, or sites are mixed, by sorting.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from analyze.stats.sums import totals

I8 = npt.NDArray[np.int64]
F8 = npt.NDArray[np.float64]

_MOST_BINS = 1 << 13
_CELLS_A_ROW = 2
"""Cells that the array may have, a row: no more memory than a sort takes."""


def summed_votes(site: I8, slot: I8, place: I8, n: F8) -> tuple[I8, I8, I8, F8]:
    """(site, slot, bin, n), sorted by the first three, each once; n of equal ones is added in their order.

    All [rows]; bins outside of 0 to 8191 become the nearest. O(rows) where sites ascend and their bins lie
    close, else O(rows log rows).
    """
    place = np.clip(place, 0, _MOST_BINS - 1)
    n_slots = int(slot.max(initial=0)) + 1
    key = site * n_slots
    key += slot
    key *= _MOST_BINS
    key += place
    if (key[1:] > key[:-1]).all():
        return site, slot, place, n
    starts = np.flatnonzero(np.concatenate(([True], site[1:] != site[:-1])))
    if (site[starts[1:]] > site[starts[:-1]]).all():
        low = np.minimum.reduceat(place, starts)
        width = np.maximum.reduceat(place, starts) - low + 1
        if int(width.sum()) * n_slots <= _CELLS_A_ROW * len(site):
            return _summed_in_cells((site, slot, place, n), starts, low, width, n_slots)
    found, code = np.unique(key, return_inverse=True)
    of = found // _MOST_BINS
    return of // n_slots, of % n_slots, found % _MOST_BINS, totals(code, n, len(found))


def _summed_in_cells(
    rows: tuple[I8, I8, I8, F8], starts: I8, low: I8, width: I8, n_slots: int
) -> tuple[I8, I8, I8, F8]:
    """Rows whose sites begin at `starts`, the bins of each from `low` on, `width` of them."""
    site, slot, place, n = rows
    # Cells by (site, slot, bin): where each slot of each site begins.
    begin = np.concatenate(([0], np.cumsum(np.repeat(width, n_slots))))
    n_cells = int(begin[-1])
    run = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(site)))
    cell = (begin[:-1:n_slots] - low)[run]
    cell += slot * width[run]
    cell += place
    filled = np.flatnonzero(np.bincount(cell, minlength=n_cells))
    total = totals(cell, n, n_cells)[filled]
    of = np.repeat(np.arange(len(begin) - 1), np.diff(np.searchsorted(filled, begin)))
    run = of // n_slots
    return site[starts][run], of % n_slots, filled - begin[of] + low[run], total
