"""Estimate one over-dispersion of path shares between two periods from all call patterns (genomic control).

Requests of one user resemble each other, so the share of a call pattern varies more than that of independent
requests; and a period with other inputs takes other paths at a few sites, in all its blocks. Without a
history, the noise is estimated from all call sites: a fault affects few of them, so the median of their z²,
divided by the median of z² under chance, is the over-dispersion φ between the periods (Devlin and Roeder,
1999).
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
"""Name of the rule by which all path shares have one over-dispersion without a history; listing it in the
setting `without` disables the rule."""


def noisier(
    seen: Sequence[tuple[Measure, Observed]], settings: RobustSettings
) -> list[tuple[Measure, Observed]]:
    """Raise the variance of path shares to the common over-dispersion, in rows where it is smaller."""
    z2 = next((_z2(found) for row, found in seen if row.name == "call-pattern"), np.zeros(0))
    phi = least_median(z2, settings.dispersion_patterns, settings.dispersion_sure)
    phi = min(phi, settings.dispersion_most)
    return [(row, _with(found, phi) if row.kinds[0] in PATH_KINDS else found) for row, found in seen]


def least_median(z2: F8, least: int, sure: float) -> float:
    """Lower confidence bound, at level `sure`, of the median of z² divided by its median under chance; 1 if
    there are fewer than `least` values."""
    if len(z2) < least:
        return 1.0
    rank = np.searchsorted(bdtr(np.arange(len(z2)), len(z2), 0.5), 1 - sure)
    return float(np.sort(z2)[rank] / chdtri(1, 0.5))


def _z2(found: Observed) -> F8:
    """z² of the changes, with sampling error only, of tested rows with at least one request expected on
    either side."""
    e = found.estimate
    with np.errstate(divide="ignore", invalid="ignore"):
        pooled = (e.before * e.n0 + e.after * e.n1) / (e.n0 + e.n1)
        usable = found.tested & (np.minimum(pooled, 1 - pooled) * np.minimum(e.n0, e.n1) >= 1)
        z2: F8 = (e.change**2 / e.sampling)[usable]
    return z2


def _with(found: Observed, phi: float) -> Observed:
    e = found.estimate
    with np.errstate(invalid="ignore"):  # a period may have no requests
        between = e.sampling * (phi - 1)
        more = between > e.between
    between, freedom = np.where(more, between, e.between), np.where(more, np.inf, e.freedom)
    return replace(found, estimate=replace(e, between=between, freedom=freedom))
