"""Find silences: intervals without requests in which the arrival rate of both periods predicts many.

An arrival rate over a whole period cannot show an outage: empty blocks make the spread between blocks as
large as the loss. So gaps between requests are tested individually. The only assumption is that the lengths
of long gaps have an exponential tail, of any scale: the longest of n gaps is then about ln(n) scales long,
and a gap four times as long occurs with probability n · n⁻⁴. Measured: no false silence in 300 quiet pairs
each of 1, 5 and 50 requests per second whose rates drift by e^±2 (with a factor of three instead of four: 4).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import numpy as np

from analyze.population import Population, Sample
from schemas.arrays import I8
from schemas.recorded import Recorded
from schemas.windows import NS_PER_SECOND

LEAST_EXPECTED: Final = 20.0
"""Minimum number of requests expected in the time of a silence: a gap with that many has probability e⁻²⁰, so
one of 10⁵ gaps has it with probability 2 in 10,000."""
LEAST_SHARE: Final = 0.01
"""Minimum length of a silence as a share of the observed time: 1 % of the requests are lost, the same
threshold as for failures."""
LONGER: Final = 4.0
"""Minimum ratio of the length of a silence to the longest gap of the other period."""
LEAST_INSIDE: Final = 0.5
"""Minimum share, in [0, 1], of a silence at the start or end of a period that must lie within the period."""
MOST_ALIKE: Final = 3
"""Maximum number of gaps of similar length, including the silence; if there are more, requests come in bursts
and no silence is reported."""

_Place = Literal["start", "inside", "end"]


class Silence(NamedTuple):
    """Interval [start_ns, end_ns) of a period without requests, in which many were expected."""

    start_ns: int
    """Start of the interval, ns since the epoch."""
    end_ns: int
    """End of the interval, exclusive, ns since the epoch."""
    expected: float
    """Number of requests expected in the interval, as a sum of weights."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Times at which the requests of one sample arrived.

    An *arrival* is a single request, or all requests of a window if only statistics are known."""

    first_ns: I8
    """int64[arrivals]: start of each arrival's first request, ns since the epoch, ascending."""
    last_ns: I8
    """int64[arrivals]: start of each arrival's last request, ns since the epoch; equal to `first_ns` if the
    arrival is a single request."""
    requests: float
    """Number of requests in the sample."""
    weight: float
    """Sum of the weights of the sample's requests."""
    ranges: tuple[tuple[int, int], ...]
    """Half-open intervals [start, end) that make up the sample, ns since the epoch."""
    recorded: tuple[tuple[Recorded, ...], ...]
    """Recordings that overlap each range in `ranges`, as in `Sample.recorded`; empty: each range was recorded
    from its first to its last request."""
    left_out: float = 0.0
    """Number of requests that are excluded from the sample as damaged, and so are not in `requests`; the
    times of these are unknown."""


class _Gap(NamedTuple):
    start_ns: int
    end_ns: int
    place: _Place
    watched: bool
    """True if recording is known to have been on during the whole gap."""


@dataclass(frozen=True, slots=True)
class ComparedTraffic:
    """Requests, observed time and silences of the two samples of a comparison."""

    sides: tuple[Traffic, ...]
    watched_ns: tuple[float, ...]
    """Observed time of each sample, ns: from the first to the last request of each recording, plus the time
    before and after in which recording is known to have been on."""
    silences: tuple[tuple[Silence, ...], ...]
    """Silences of each sample, longest first."""

    def seconds(self, sample: int) -> float:
        """Observed time of sample number `sample`, s; if it is 0, the total length of the sample's ranges."""
        ranges = sum(end - start for start, end in self.sides[sample].ranges)
        return (self.watched_ns[sample] or ranges) / NS_PER_SECOND

    @property
    def load_ratio(self) -> float | None:
        """Weighted requests per second of observed time in the second sample, divided by those in the first;
        None if either sample has no observed time, or the first has no requests."""
        if not all(self.watched_ns) or not self.sides[0].weight:
            return None
        before, after = (side.weight / ns for side, ns in zip(self.sides, self.watched_ns, strict=True))
        return after / before


def compared_traffic(sides: Sequence[Traffic]) -> ComparedTraffic:
    """Compute observed time and silences of two samples. O(requests).

    If either sample has no requests, no silences are reported for any."""
    gaps = [list(_gaps(side)) for side in sides]
    watched = tuple(_watched_ns(side, own) for side, own in zip(sides, gaps, strict=True))
    if not all(side.requests and side.weight for side in sides):
        return ComparedTraffic(tuple(sides), watched, tuple(() for _ in sides))
    # A period may be far longer than its recording: the difference is no gap.
    usual = [
        [gap for gap in own if gap.watched or gap.end_ns - gap.start_ns <= time]
        for own, time in zip(gaps, watched, strict=True)
    ]
    silent = tuple(
        _gaps_of(
            sides[at], gaps[at], watched[at], usual[1 - at], sides[1 - at].weight / max(watched[1 - at], 1)
        )
        for at in (0, 1)
    )
    return ComparedTraffic(tuple(sides), watched, silent)


def _gaps_of(
    side: Traffic, gaps: Sequence[_Gap], watched: float, others: Sequence[_Gap], other_rate: float
) -> tuple[Silence, ...]:
    """Find the silences of one sample, longest first.

    watched: observed time of the sample, ns; others: gaps of the other sample; other_rate: weighted requests
    per ns of the other sample.
    """
    weight = side.weight / side.requests
    usual: dict[_Place, float] = {"start": 0.0, "inside": 0.0, "end": 0.0}
    for gap in others:
        usual[gap.place] = max(usual[gap.place], gap.end_ns - gap.start_ns)
    found = []
    for gap in gaps:
        length = gap.end_ns - gap.start_ns
        if not gap.watched or length < LEAST_SHARE * watched:
            continue
        if length < LONGER * max(usual["inside"], usual[gap.place]):
            continue
        expected = length * min(side.weight / max(watched - length, 1), other_rate)
        if expected / weight >= LEAST_EXPECTED + side.left_out:
            found.append(Silence(gap.start_ns, gap.end_ns, expected))
    longest = max((one.end_ns - one.start_ns for one in found), default=0)
    alike = sum(gap.watched and LONGER * (gap.end_ns - gap.start_ns) >= longest for gap in gaps)
    if alike > MOST_ALIKE:
        return ()
    return tuple(sorted(found, key=lambda one: (one.start_ns - one.end_ns, one.start_ns)))


def _watched_ns(side: Traffic, gaps: Sequence[_Gap]) -> float:
    """Observed time of a sample, ns: from the first to the last request of each recording, plus gaps at the
    start and end of a recording during which recording is known to have been on."""
    spans = sum(float(last[-1] - first[0]) for first, last, _ in _recordings(side) if len(first))
    return spans + sum(gap.end_ns - gap.start_ns for gap in gaps if gap.watched and gap.place != "inside")


def _recordings(side: Traffic) -> Iterator[tuple[I8, I8, Recorded]]:
    """Yield (`first_ns` and `last_ns` of the arrivals, recording) for each recording of each range, cut to
    the range."""
    for at, (start, end) in enumerate(side.ranges):
        known = side.recorded[at] if side.recorded else (Recorded(start, end, None, None),)
        for one in known:
            low, high = max(start, one.start_ns), min(end, one.end_ns)
            a, b = np.searchsorted(side.first_ns, [low, high])
            yield side.first_ns[a:b], side.last_ns[a:b], one._replace(start_ns=low, end_ns=high)


def _gaps(side: Traffic) -> Iterator[_Gap]:
    """Yield the MOST_ALIKE + 1 longest gaps between requests, and the gaps at both ends, of each
    recording."""
    for first, last, one in _recordings(side):
        if not len(first):
            continue
        # A slot of time may hold several starts: gaps run from the latest end so far to the next begin.
        ends, begins = np.maximum.accumulate(last)[:-1], first[1:]
        for at in np.argsort(ends - begins, kind="stable")[: MOST_ALIKE + 1].tolist():
            yield _Gap(int(ends[at]), int(begins[at]), "inside", True)
        begun, ended = int(first[0]), int(last[-1])
        if one.start_ns < begun:
            whole = None if one.before_ns is None else begun - one.before_ns
            yield _Gap(one.start_ns, begun, "start", _is_inside(begun - one.start_ns, whole))
        if ended < one.end_ns:
            whole = None if one.after_ns is None else one.after_ns - ended
            yield _Gap(ended, one.end_ns, "end", _is_inside(one.end_ns - ended, whole))


def _is_inside(length: int, whole: int | None) -> bool:
    """True if a silence at the start or end of a period lies mostly within the period (LEAST_INSIDE);
    otherwise recording may have stopped near the period's bound.

    length: length of the silence within the period, ns. whole: greatest possible length of the silence, also
    outside of the period, ns; None: unknown.
    """
    return whole is not None and length >= LEAST_INSIDE * whole


def population_traffic(population: Population, sample: int) -> Traffic:
    """Arrivals of the requests of sample number `sample`. O(requests log requests)."""
    named = population.samples[sample]
    starts, weight = population.columns(sample, "start_ns", "weight")
    starts.sort()
    return Traffic(
        starts,
        starts,
        float(len(starts)),
        float(weight.sum()),
        sample_ranges(named, starts, starts),
        named.recorded,
        float(sum(counts[sample] for counts in population.excluded.values())),
    )


def sample_ranges(sample: Sample, first_ns: I8, last_ns: I8) -> tuple[tuple[int, int], ...]:
    """Ranges [start, end) that make up a sample, ns since the epoch; for a sample without time bounds the
    range from the first to the last request. first_ns, last_ns: as in `Traffic`."""
    if sample.ranges:
        return sample.ranges
    if sample.end_ns > sample.start_ns:
        return ((sample.start_ns, sample.end_ns),)
    return ((int(first_ns[0]), int(last_ns[-1]) + 1),) if len(first_ns) else ()
