"""Structural mutations and precursors by threshold on raw counts (ALGORITHMS C.1; TR §5.2, NSDI §5.2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analyze.methods.spectroscope.paper_settings import PaperSettings

I8 = npt.NDArray[np.int64]
INDEX = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class StructuralSets:
    """Indices into the population's categories, ascending."""

    mutations: INDEX
    precursors: INDEX


def structural_sets(count: I8, settings: PaperSettings) -> StructuralSets:
    """Categories that gained, and that lost, the threshold in requests.

    count: [2, categories] raw counts. `text`: gained >= threshold; `released`: strictly more (B.1b).
    """
    gained = count[1] - count[0]
    least = settings.sm_threshold + (1 if settings.variant == "released" else 0)
    return StructuralSets(np.flatnonzero(gained >= least), np.flatnonzero(-gained >= least))


def candidates(
    mutation: int, precursors: INDEX, count: I8, root: npt.NDArray[np.int64], *, one_to_n: bool
) -> INDEX:
    """Precursors that may have given requests to `mutation` (NSDI §5.3), ascending.

    Same root type; and, with `one_to_n`, lost at least as many requests as the mutation gained. root:
    [categories] code of the root type.
    """
    keep = root[precursors] == root[mutation]
    if one_to_n:
        lost = count[0, precursors] - count[1, precursors]
        keep &= lost >= count[1, mutation] - count[0, mutation]
    chosen: INDEX = precursors[keep]
    return chosen
