"""Bins of equal ratio: what a value becomes in a profile.

A bin is 1/32 of an octave, 2.2 % wide; so a quantile read from bins is off by 1 % at most, well under what
the tests call a change.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from schemas.arrays import F8, I8

BINS_PER_OCTAVE: Final = 32
N_BINS: Final = 64 * BINS_PER_OCTAVE
"""Values of 64-bit integers fit."""
BIN_LOG: Final = np.log(2) / BINS_PER_OCTAVE
"""Width of a bin in natural logarithm."""


def bin_of(value: npt.NDArray[np.generic]) -> I8:
    """Bin of each value; values under 1 are in bin 0."""
    bins: I8 = (np.log2(np.maximum(value, 1)) * BINS_PER_OCTAVE).astype(np.int64)
    return bins


def value_of(bin_place: npt.NDArray[np.generic] | float) -> F8:
    """Value at a place on the axis of bins (bin number plus the part of the bin)."""
    value: F8 = np.exp2(np.asarray(bin_place, dtype=np.float64) / BINS_PER_OCTAVE)
    return value
