"""Finer times from coarse ones: X-Trace's millisecond stamps and the nanosecond counter of each process."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

I8 = npt.NDArray[np.int64]

TICK_NS = 1_000_000
"""A stamp t means "in [t, t + 1 ms)"."""


def refine_times(ts_ns: I8, counter_ns: Sequence[int | None], process: Sequence[Hashable]) -> I8:
    """`ts_ns` moved inside its millisecond to where the counter of its process puts it.

    Within one process counter and clock differ by a constant c, and every report says
    `ts ≤ counter + c < ts + 1 ms`. If one c satisfies all reports of the process, the smallest such is used;
    if none does (the clock was set, or drifted by more than a millisecond), its times stay as they are. So
    the stamp can always be had back by rounding down to the millisecond, and order across processes is as
    sound as it was. O(n).
    """
    groups: dict[Hashable, list[int]] = {}
    for i, (key, counter) in enumerate(zip(process, counter_ns, strict=True)):
        if counter is not None:
            groups.setdefault(key, []).append(i)
    out = ts_ns.copy()
    for rows in groups.values():
        at = np.array(rows)
        counted = np.array([counter_ns[i] for i in rows], np.int64)
        lower = ts_ns[at] - counted
        offset = lower.max()
        if offset < lower.min() + TICK_NS and not (ts_ns[at] % TICK_NS).any():
            out[at] = counted + offset
    return out
