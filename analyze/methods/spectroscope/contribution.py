"""Contributions by which mutations are ranked (ALGORITHMS B.1b, C.7; TR §5.3, NSDI §5.4)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from analyze.methods.spectroscope.paper_settings import Distance, PaperSettings

F8 = npt.NDArray[np.float64]


def similarity_weights(
    edits: npt.NDArray[np.int32], normalized: F8, distance: Distance, settings: PaperSettings
) -> F8:
    """Weights of a mutation's candidates, summing to 1.

    `text`: s = 1/(1+d) on the raw distance, 1 - d on the normalized one. `released`: 1/d, whichever d; a
    candidate at distance 0 then takes all (the limit), shared where there are several.
    """
    d = edits.astype(np.float64) if distance == "raw" else normalized
    if settings.variant == "released":
        s = np.where(d == 0, 1.0, 0.0) if (d == 0).any() else 1.0 / d
    else:
        s = 1.0 / (1.0 + d) if distance == "raw" else 1.0 - d
    total = s.sum()
    # No token in common with any candidate: similarity says nothing, so they count alike.
    return s / total if total > 0 else np.full(len(s), 1.0 / len(s))


def structural_contribution(gained: int, mean1_us: float, baseline_us: float) -> float:
    """Requests gained times the problem-period mean over the precursors' mean, requests·µs."""
    return gained * (mean1_us - baseline_us)


def response_time_contribution(count0: int, mean0_us: float, mean1_us: float) -> float:
    """Reference-period requests times the change of the mean, requests·µs."""
    return count0 * (mean1_us - mean0_us)
