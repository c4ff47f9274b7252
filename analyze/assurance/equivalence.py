"""No change needs evidence, too: two one-sided tests of each root type's mean (TOST; ALGORITHMS H.6).

A difference that is not significant says nothing where there are few requests. Here the 90 % interval of the
ratio of means must lie inside a band, for root types that hold nearly all of the time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from analyze.assurance.period_blocks import BlockMeans, PeriodBlocks, block_means
from analyze.assurance.period_tests import PeriodNoise, mean_band

NEEDED_SHARE = 0.9
"""Of the time."""
_LEVEL = 0.90


@dataclass(frozen=True, slots=True)
class RootEquivalence:
    """One root type."""

    root: str
    ratio: float | None
    """Mean after over mean before; None where a period has too few requests to say."""
    low: float | None
    high: float | None
    """90 % interval of the ratio."""
    equivalent: bool
    time_share: float
    """Of the time of both periods, each period counting the same."""
    missing_factor: float | None
    """How many times as many requests would show it, if means and spread stay; None: shown, or never."""


@dataclass(frozen=True, slots=True)
class Equivalence:
    """All root types, those with the most time first."""

    roots: tuple[RootEquivalence, ...]
    band: float
    """Half width of the band, relative: 0.05 is ±5 %."""

    @property
    def share(self) -> float:
        """Share of the time in root types whose mean is equivalent; 0 where nothing took time."""
        return sum(root.time_share for root in self.roots if root.equivalent)

    @property
    def holds(self) -> bool:
        """Whether nearly all of the time is in such root types."""
        return self.share >= NEEDED_SHARE


def equivalence(
    reference: PeriodBlocks,
    problem: PeriodBlocks,
    roots: Sequence[str],
    noise: PeriodNoise,
    *,
    tails_settled: bool = False,
) -> Equivalence:
    """TOST of the ratio of means by root type, on logs, sampling from blocks. O(blocks · roots).

    tails_settled: very slow requests were shown not to be more. Then a root type also counts where the mean
    of the logarithms is the same: means of heavy tails would need more requests than anybody has.
    """
    band = mean_band(noise)
    sides = [block_means(side, by_root=True) for side in (reference, problem)]
    typical = [block_means(side, by_root=True, logs=True) for side in (reference, problem)]
    shares = sum(
        side.time_us.sum(axis=0) / max(side.time_us.sum(), 1e-300) for side in (reference, problem)
    ) / np.float64(2)
    found = []
    for at, root in enumerate(roots):
        means = [float(side.mean[at]) for side in sides]
        if not all(mean > 0 for mean in means) or any(np.isnan(side.variance[at]) for side in sides):
            found.append(RootEquivalence(root, None, None, None, False, float(shares[at]), None))
            continue
        parts = np.array(
            [float(side.variance[at]) / mean**2 for side, mean in zip(sides, means, strict=True)]
        )
        freedom = np.array([float(side.freedom[at]) for side in sides])
        weak = float((parts**2 / freedom).sum())
        df = float(parts.sum()) ** 2 / weak if weak > 0 else 1e6
        change = math.log(means[1] / means[0])
        reach = math.sqrt(float(parts.sum())) * float(stdtrit(df, (1 + _LEVEL) / 2))
        inside = abs(change) + reach <= math.log1p(band)
        if tails_settled and not inside:
            inside = _same_logs(typical, at, math.log1p(band))
        room = math.log1p(band) - abs(change)
        found.append(
            RootEquivalence(
                root,
                math.exp(change),
                math.exp(change - reach),
                math.exp(change + reach),
                inside,
                float(shares[at]),
                None if inside or room <= 0 else (reach / room) ** 2,
            )
        )
    return Equivalence(tuple(sorted(found, key=lambda row: (-row.time_share, row.root))), band)


def _same_logs(sides: Sequence[BlockMeans], at: int, room: float) -> bool:
    """TOST of the difference of the means of logarithms of one root type."""
    variance = np.array([float(side.variance[at]) for side in sides])
    freedom = np.array([float(side.freedom[at]) for side in sides])
    if np.isnan(variance).any():
        return False
    weak = float((variance**2 / freedom).sum())
    df = float(variance.sum()) ** 2 / weak if weak > 0 else 1e6
    reach = math.sqrt(float(variance.sum())) * float(stdtrit(df, (1 + _LEVEL) / 2))
    return abs(float(sides[1].mean[at] - sides[0].mean[at])) + reach <= room
