"""Estimate over-dispersion between two periods from all call patterns together (genomic control).

Requests of one user are alike, so a share of call patterns scatters more than that of independent requests,
and a period with other inputs takes other paths at a few sites, in all of its blocks. Without a history, the
other call sites show the noise: most have nothing to do with a fault, so the median of their z² over that of
chance is the over-dispersion φ between the periods (Devlin and Roeder, 1999).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from scipy.special import bdtr, chdtri

from analyze.methods.robust.measures.observed import Observed
from analyze.methods.robust.measures.registry import Measure
from analyze.methods.robust.settings import RobustSettings
from schemas.arrays import F8
from schemas.report.findings import PATH_KINDS

PATTERN_DISPERSION: Final = "pattern-dispersion"
"""Name of the rule (for `without`) by which all call patterns have one over-dispersion."""


def noisier(
    seen: Sequence[tuple[Measure, Observed]], settings: RobustSettings
) -> list[tuple[Measure, Observed]]:
    """Raise the noise of path shares to the over-dispersion over all sites, at sites where that is larger."""
    z2 = next((_z2(found) for row, found in seen if row.name == "call-pattern"), np.zeros(0))
    phi = least_median(z2, settings.dispersion_patterns, settings.dispersion_sure)
    phi = min(phi, settings.dispersion_most)
    return [(row, _with(found, phi) if row.kinds[0] in PATH_KINDS else found) for row, found in seen]


def least_median(z2: F8, least: int, sure: float) -> float:
    """Lower confidence bound, at level `sure`, of the ratio of the median of z² to its median under chance; 1
    for fewer than `least` values."""
    if len(z2) < least:
        return 1.0
    rank = np.searchsorted(bdtr(np.arange(len(z2)), len(z2), 0.5), 1 - sure)
    return float(np.sort(z2)[rank] / chdtri(1, 0.5))


def _z2(found: Observed) -> F8:
    """z² of rows without the noise between blocks; only tested rows with at least one expected request on
    each side."""
    e = found.estimate
    with np.errstate(divide="ignore", invalid="ignore"):
        pooled = (e.before * e.n0 + e.after * e.n1) / (e.n0 + e.n1)
        usable = found.tested & (np.minimum(pooled, 1 - pooled) * np.minimum(e.n0, e.n1) >= 1)
        z2: F8 = (e.change**2 / e.sampling)[usable]
    return z2


def _with(found: Observed, phi: float) -> Observed:
    e = found.estimate
    with np.errstate(invalid="ignore"):  # a side with nothing
        between = e.sampling * (phi - 1)
        more = between > e.between
    between, freedom = np.where(more, between, e.between), np.where(more, np.inf, e.freedom)
    return replace(found, estimate=replace(e, between=between, freedom=freedom))
