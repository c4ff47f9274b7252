"""The clock of one host against another's, as a function of time, from bounds on its correction (A.6 S3).

A remote call says `lower <= correction <= upper`: the serving span lies inside the calling one. Time spent on
the network only moves the two bounds apart, so whatever the network does, intervals of one clock keep a point
in common. Hence the rules:

* Bounds that allow 0 say nothing against the clocks. Otherwise the smallest correction that they allow is
  taken: what is left of the interval is the network's, and is not divided among the two legs by guessing.
* One correction serves all samples as long as one fits. That no single one does, but one before and another
  one after some moment, is what no network delay can bring about: the clock was set then (a step).
* Where that does not fit either (a drift), every minute is tried by itself, and what is left is *loose*: to
  be corrected request by request.

"Fits" means that at most one call in `_ONE_IN` contradicts, among all calls and in every sample that has
enough of them to speak for itself (else a short problem period would vanish in a long reference).

Example, in ms: the server's clock is 2 ahead, a call spends 0.5 on either leg, so the correction lies in
[-2.5, -1.5] and is -1.5. A release adds 500 to the first leg: [-502.5, -1.5], still -1.5, and the 500 stay
where they were spent.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from schemas.arrays import B1, I8, U1
from schemas.windows import NS_PER_MINUTE

_ONE_IN = 20
"""One call in so many may contradict: `lo` is the 95th, `hi` the 5th percentile of the bounds."""

_BLOCKS = 64
"""Blocks of calls among which steps are sought; a found step is then placed between two calls."""

MAX_STEPS = 3
"""A clock that would have to be set more often drifts."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds on the correction of host b against host a < b, one entry a remote call."""

    pair: I8
    """a * hosts + b."""
    sample: U1
    start_ns: I8
    """When the request began."""
    lower: I8
    upper: I8

    def __getitem__(self, chosen: slice | B1 | I8) -> Bounds:
        """Some of the calls."""
        return Bounds(
            self.pair[chosen],
            self.sample[chosen],
            self.start_ns[chosen],
            self.lower[chosen],
            self.upper[chosen],
        )

    def __len__(self) -> int:
        """Number of calls."""
        return len(self.pair)


@dataclass(frozen=True, slots=True)
class PairClock:
    """Correction of host b against host a, constant in pieces of time."""

    from_ns: tuple[int, ...]
    """[pieces - 1] where each piece but the first begins, ascending."""
    add_ns: tuple[int, ...]
    """[pieces] ns to add to b's times."""
    loose: tuple[bool, ...]
    """[pieces] whether calls are to be corrected request by request instead."""

    def piece_at(self, begin_ns: I8) -> I8:
        """The piece that holds each moment."""
        return np.searchsorted(np.array(self.from_ns, dtype=np.int64), begin_ns, side="right")


def contradicted(n_calls: I8, n_against: I8) -> B1:
    """Whether more of the calls are against a correction than may be."""
    against: B1 = n_against * _ONE_IN > n_calls
    return against


def smallest_shift(lower: I8, upper: I8) -> I8:
    """The correction nearest to 0 within [lower, upper], elementwise; lower <= upper."""
    shift: I8 = np.minimum(np.maximum(lower, 0), upper)
    return shift


def fit_clock(bounds: Bounds, min_calls: int) -> PairClock:
    """Fit the calls of one pair of hosts; see the module. O(calls log calls) if one correction fits."""
    one = _correction(bounds, min_calls)
    if one is not None:
        return PairClock((), (one,), (False,))
    if len(bounds) < min_calls:
        return PairClock((), (0,), (True,))
    bounds = bounds[np.lexsort((bounds.sample, bounds.start_ns))]
    return _steps(bounds, min_calls) or _minutes(bounds, min_calls)


def _correction(bounds: Bounds, min_calls: int) -> int | None:
    """The smallest correction that fits; None for none, and where the calls are too few."""
    if len(bounds) < min_calls:
        return None
    intervals = [_interval(bounds.lower, bounds.upper)]
    for sample in np.flatnonzero(np.bincount(bounds.sample) >= min_calls).tolist():
        mine = bounds.sample == sample
        intervals.append(_interval(bounds.lower[mine], bounds.upper[mine]))
    lo, hi = max(lo for lo, _ in intervals), min(hi for _, hi in intervals)
    return min(max(lo, 0), hi) if lo <= hi else None


def _interval(lower: I8, upper: I8) -> tuple[int, int]:
    """(lo, hi): below `lo`, and above `hi`, more calls would contradict than may."""
    spare = len(lower) // _ONE_IN
    last = len(lower) - 1 - spare
    return int(np.partition(lower, last)[last]), int(np.partition(upper, spare)[spare])


def _steps(bounds: Bounds, min_calls: int) -> PairClock | None:
    """As few pieces as can be, each with one correction; None if it takes more than `MAX_STEPS` steps.

    `bounds` ascend in time. Each piece is made as long as it fits, block by block; then the step goes between
    the two calls that leave the fewest contradictions on both sides.
    """
    n_blocks = min(_BLOCKS, len(bounds) // min_calls)
    _, first_of_sample = np.unique(bounds.sample, return_index=True)
    edges = np.unique(
        np.concatenate((np.linspace(0, len(bounds), n_blocks + 1).astype(int), first_of_sample))
    )
    begins, corrections = [0], [0]
    fits = False
    for begin, end in pairwise(edges.tolist()):
        longer = _correction(bounds[begins[-1] : end], min_calls)
        if longer is None and fits:
            if len(begins) > MAX_STEPS:
                return None
            begins.append(begin)
            corrections.append(0)
            longer = _correction(bounds[begin:end], min_calls)
        # A piece may begin with blocks that are too short to say anything.
        fits = longer is not None
        if longer is not None:
            corrections[-1] = longer
        elif end - begins[-1] >= min_calls:
            return None
    if not fits:
        return None
    cuts = [0]
    for at, (before, after) in enumerate(pairwise(corrections), start=1):
        end = begins[at + 1] if at + 1 < len(begins) else len(bounds)
        cuts.append(_cut(bounds, cuts[-1], end, before, after))
    return PairClock(
        tuple(bounds.start_ns[cuts[1:]].tolist()), tuple(corrections), (False,) * len(corrections)
    )


def _cut(bounds: Bounds, begin: int, end: int, before: int, after: int) -> int:
    """The call from which on `after` serves better than `before`, among the calls [begin, end)."""
    lower, upper = bounds.lower[begin:end], bounds.upper[begin:end]
    against_before = (lower > before) | (upper < before)
    against_after = (lower > after) | (upper < after)
    # The contradictions of a cut at call i, but for a constant: those of `before` up to i, less `after`'s.
    gain = np.cumsum(against_before.astype(np.int64) - against_after)
    return begin + 1 + int(np.argmin(gain[:-1]))


def _minutes(bounds: Bounds, min_calls: int) -> PairClock:
    """Every minute by itself; loose where its calls are too few or do not fit."""
    minutes, first = np.unique(bounds.start_ns // NS_PER_MINUTE, return_index=True)
    pieces = [
        _correction(bounds[begin:end], min_calls) for begin, end in pairwise([*first.tolist(), len(bounds)])
    ]
    return PairClock(
        tuple((minutes[1:] * NS_PER_MINUTE).tolist()),
        tuple(0 if found is None else found for found in pieces),
        tuple(found is None for found in pieces),
    )
