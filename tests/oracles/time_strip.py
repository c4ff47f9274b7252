"""Courses of samples over time, request by request."""

from __future__ import annotations

import math
from collections.abc import Sequence


def course(
    requests: Sequence[tuple[int, float, float, bool]], tick_ns: int
) -> list[tuple[int, float | None, float | None, float | None]]:
    """[ticks] (requests, weighted mean, 95th percentile by nearest rank, weighted share that failed).

    requests: (start ns, response µs, weight, failed).
    """
    first = min(start for start, *_ in requests) // tick_ns
    last = max(start for start, *_ in requests) // tick_ns
    ticks: list[tuple[int, float | None, float | None, float | None]] = []
    for tick in range(first, last + 1):
        inside = [one for one in requests if one[0] // tick_ns == tick]
        if not inside:
            ticks.append((0, None, None, None))
            continue
        weight = sum(w for _, _, w, _ in inside)
        ordered = sorted(us for _, us, _, _ in inside)
        ticks.append(
            (
                len(inside),
                sum(us * w for _, us, w, _ in inside) / weight,
                ordered[math.ceil(0.95 * len(ordered)) - 1],
                sum(w for _, _, w, failed in inside if failed) / weight,
            )
        )
    return ticks
