"""Blocks of a period out of a profile, whose slots are windows or pieces of them (L.5)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from analyze.assurance.period_blocks import LEAST_TAIL, TAIL_LEVELS, PeriodBlocks
from analyze.assurance.visible_change import log_spread
from analyze.profile.profile import Profile
from analyze.stats.log_bins import value_of

F8 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int64]
_US = 1e-3


def profile_thresholds(
    profile: Profile, reference: npt.NDArray[np.bool_], levels: Sequence[float] = TAIL_LEVELS
) -> tuple[float, ...]:
    """Response times over which a request is slow, µs: upper ends of the bins that hold the weighted
    quantiles.

    Of levels that enough recorded requests of the reference lie above. reference: [slots] which are its.
    """
    table = profile.responses
    inside = reference[table["slot"].to_numpy()]
    weights = np.bincount(table["bin"].to_numpy()[inside], table["w"].to_numpy()[inside])
    total = table["n"].to_numpy()[inside].sum()
    usable = [level for level in levels if total * (1 - level) >= LEAST_TAIL * (1 - 1e-9)]
    return tuple(float(value_of(quantile_bin(weights, level) + 1.0)) * _US for level in usable)


def quantile_bin(weights: npt.NDArray[np.number], level: float) -> int:
    """The bin that holds a quantile, in whatever order weights were added up. weights: [bins], not all 0."""
    upto = np.cumsum(weights)
    return int(np.searchsorted(upto, level * upto[-1] * (1 - 1e-9)))


def profile_blocks(profile: Profile, block: I8, thresholds_us: Sequence[float] = ()) -> PeriodBlocks:
    """Sums over blocks of slots. block: [slots] number of each slot's block, -1 for none; ascending from 0.

    Requests count as slow from the bin on that begins at a threshold (of `profile_thresholds`) or after it.
    Root types are the profile's, in its order. O(rows).
    """
    n_blocks, n_roots = int(block.max(initial=-1)) + 1, len(profile.names.roots)
    seconds = np.zeros(n_blocks)
    for slot, number in zip(profile.slots, block.tolist(), strict=True):
        if number >= 0:
            seconds[number] += slot.seconds
    table = profile.responses
    mine = block[table["slot"].to_numpy()]
    used = mine >= 0
    at = mine[used]
    cell = at * n_roots + table["root"].to_numpy()[used]

    def sums(name: str) -> F8:
        values = table[name].to_numpy()[used]
        found: F8 = (
            np.bincount(cell, values, n_blocks * n_roots).reshape(n_blocks, n_roots).astype(np.float64)
        )
        return found

    first_us = value_of(table["bin"].to_numpy()[used]) * _US
    weight = table["w"].to_numpy()[used]
    # A bin's lower end against the upper end of another: equal but for rounding.
    slow = [
        np.bincount(at, weight * (first_us > limit * (1 - 1e-9)), n_blocks).astype(np.float64)
        for limit in thresholds_us
    ]
    logs = np.log(value_of(table["bin"].to_numpy()[used] + 0.5) * _US)

    def placed(values: F8) -> F8:
        return np.bincount(cell, values, n_blocks * n_roots).reshape(n_blocks, n_roots).astype(np.float64)

    return PeriodBlocks(
        seconds=seconds,
        requests=sums("n"),
        weight=sums("w"),
        weight2=sums("w2"),
        time_us=sums("ns") * _US,
        square_us2=sums("ns2") * _US**2,
        log_us=placed(weight * logs),
        log_square=placed(weight * logs**2),
        failed=sums("failed"),
        slow=np.stack(slow, axis=1) if slow else np.zeros((n_blocks, 0)),
        thresholds_us=tuple(thresholds_us),
    )


def profile_log_spread(profile: Profile, used: npt.NDArray[np.bool_]) -> F8:
    """[roots] `log_spread` of the response times of some slots, [slots], to the width of a bin."""
    table = profile.responses
    inside = used[table["slot"].to_numpy()]
    middle = value_of(table["bin"].to_numpy()[inside] + 0.5) * _US
    return log_spread(
        middle, table["w"].to_numpy()[inside], table["root"].to_numpy()[inside], len(profile.names.roots)
    )
