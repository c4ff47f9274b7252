"""A threshold as a person would write it (ALGORITHMS D.4): `count <= 4096`, not `count <= 5120.5`."""

from __future__ import annotations

import math
from typing import Final

FEW_VALUES: Final = 32
"""A number with no more values than this is a choice among them: a rule names one of them instead."""


def round_threshold(low: float, high: float) -> float:
    """The roundest t with low <= t < high.

    Roundest: the fewest decimal digits, of these the nearest to the middle. A power of two that has no more
    digits to say than a decimal of three (512, 4096, 65536) counts as round, too. `low < high`, both finite.
    """
    if not math.isfinite(high - low):
        return low
    middle = low + (high - low) / 2
    largest = max(abs(low), abs(high))
    power = math.floor(math.log10(largest)) if largest > 0 else 0
    if low < 0 <= high or low == 0.0:
        return 0.0
    for exponent in range(power, power - 17, -1):
        step = 10.0**exponent
        if step == 0.0:
            break
        found = _multiple(low, high, middle, step)
        if found is not None:
            binary = _power_of_two(low, high)
            return binary if binary is not None and power - exponent >= 2 else found
    return low


def _multiple(low: float, high: float, middle: float, step: float) -> float | None:
    """The multiple of `step` in [low, high) that is nearest to the middle."""
    best: float | None = None
    nearest = math.floor(middle / step)
    for number in (nearest, nearest + 1):
        # A step below one divides by its inverse, so that 0.3 is 0.3 and not 0.30000000000000004.
        value = number * step if step >= 1 else number / round(1 / step)
        inside = low <= value < high
        if inside and (best is None or abs(value - middle) < abs(best - middle)):
            best = value
    return best


def _power_of_two(low: float, high: float) -> float | None:
    """A power of two from 256 on in [low, high), the largest."""
    if high <= 256:
        return None
    value = 2.0 ** (math.ceil(math.log2(high)) - 1)
    return value if value >= max(low, 256) else None


def said(value: float) -> str:
    """A number without needless digits: `4096`, `0.25`, `1.5e+12`."""
    if value == int(value) and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.6g}"
