"""How means and shares of the whole period differ between ordinary windows (ALGORITHMS L.5, B.4)."""

from __future__ import annotations

import math

import numpy as np

from analyze.assurance.period_blocks import PeriodBlocks
from analyze.assurance.period_tests import PeriodNoise
from analyze.stats.proportions import share_dispersion

COLD_TAU = PeriodNoise().tau
"""Least τ where no window tells, and what is taken then."""
LEAST_TAU = 0.02
LEAST_WINDOWS = 5
_MAD = 1.4826
_PRIOR = 6.0
"""Windows that the cold value is worth."""


def ordinary_noise(windows: PeriodBlocks, windows0: int = 1, windows1: int = 1) -> PeriodNoise:
    """Noise from ordinary windows, a block each; cold values where fewer than five hold requests.

    τ²: the squared MAD of the windows' log-means, as history holds faults, shrunk towards the cold value with
    six windows' weight. Sampling is not taken off: windows are about as long as the periods, so what chance
    does in them it does in a period, and a mean of few requests is no surer for it. φ of failures as in L.9.
    windows0, windows1: how many such windows the periods are long.
    """
    weight = windows.weight.sum(axis=1)
    there = weight > 0
    n = int(there.sum())
    if n < LEAST_WINDOWS:
        return PeriodNoise(windows0=windows0, windows1=windows1)
    logs = np.log(np.maximum(windows.time_us.sum(axis=1)[there] / weight[there], 1e-3))
    raw = (_MAD * float(np.median(np.abs(logs - np.median(logs))))) ** 2
    tau2 = (_PRIOR * COLD_TAU**2 + (n - 1) * raw) / (_PRIOR + n - 1)
    scale = weight[there] / windows.weight2.sum(axis=1)[there]
    phi = share_dispersion(
        (windows.failed.sum(axis=1)[there] * scale)[None, :], (weight[there] * scale)[None, :], unbiased=True
    )
    return PeriodNoise(max(math.sqrt(tau2), LEAST_TAU), float(phi[0]), windows0, windows1)
