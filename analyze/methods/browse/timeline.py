"""Section `browse-timeline`: load of each entry component over time, with strips of single requests.

It shows requests in flight, idle gaps, and arrivals (TR §6.2). A request is in flight from its start until
before its end, [start, start + T). Computed by sorting and running sums, without loops over requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from analyze.methods.browse.settings import BrowseSettings
from analyze.population import Population, Sample
from analyze.stats.ks import block_ks
from analyze.stats.sums import totals
from analyze.stats.time_blocks import block_of, equal_time_bounds
from schemas.arrays import B1, F8, I8
from schemas.report.browse import (
    BrowseTimelineSection,
    EntryBefore,
    EntryTimeline,
    TimelineRequest,
    TimelineStrip,
)
from schemas.windows import NS_PER_US

_Kind = Literal["usual", "busiest", "longest-gap"]
_STRIP_REQUESTS: Final = 120
"""Approximate number of requests in a strip."""
_MOST_DRAWN: Final = 1_000
_MOST_LANES: Final = 40
_NS_PER_S: Final = 1e9


@dataclass(frozen=True, slots=True)
class Entry:
    """Requests that arrived at one component (the entry component), by start; arrays are [requests], times in
    ns.
    """

    component: str
    start: I8
    end: I8
    reached: I8
    """Running maximum of the ends, ns since the epoch: latest end among the requests up to and including each
    one."""
    failed: B1
    """True for requests whose root did not end `ok`."""
    weight: F8

    @classmethod
    def of(cls, component: str, start: I8, response: I8, failed: B1, weight: F8) -> Entry:
        """Make an entry from requests in any order. O(n log n)."""
        order = np.argsort(start, kind="stable")
        first = start[order]
        end = first + response[order]
        reached = np.maximum.accumulate(end) if len(end) else end
        return cls(component, first, end, reached, failed[order], weight[order])

    @property
    def response(self) -> I8:
        """Response times of the requests, ns."""
        times: I8 = self.end - self.start
        return times

    @property
    def gaps(self) -> I8:
        """Time from the latest end of all earlier requests to the start of each next request, ns,
        int64[requests - 1]; negative if they overlap."""
        between: I8 = self.start[1:] - self.reached[:-1]
        return between

    @property
    def runs(self) -> tuple[I8, I8]:
        """(Starts, ends), ns since the epoch, of the busy stretches: time with at least one request in
        flight."""
        if not len(self.start):
            return self.start, self.end
        first = np.flatnonzero(np.concatenate(([True], self.gaps > 0)))
        return self.start[first], self.reached[np.append(first[1:] - 1, len(self.start) - 1)]


def entries_of(population: Population, sample: int) -> list[Entry]:
    """Requests of a sample by entry component, the component with most requests first.

    sample: index of the sample. O(requests log requests).
    """
    parts: dict[str, list[tuple[I8, I8, B1, F8]]] = {}
    for category in population.categories:
        rows = category.rows(sample)
        if rows.start < rows.stop:
            failed = population.failed(category, rows)
            columns = category.start_ns[rows], category.response_ns[rows], failed, category.weight[rows]
            parts.setdefault(category.graph.nodes[0].component, []).append(columns)
    found = [
        Entry.of(component, *(np.concatenate(column) for column in zip(*part, strict=True)))
        for component, part in parts.items()
    ]
    return sorted(found, key=lambda entry: (-len(entry.failed), entry.component))


def timeline_section(population: Population, sample: int, settings: BrowseSettings) -> BrowseTimelineSection:
    """Fill the section: load of the entry components of a sample over time. sample: index of the sample."""
    entries = entries_of(population, sample)
    named = population.samples[sample]
    edges = time_edges(entries, named, settings.times)
    before = {one.component: one for one in entries_of(population, 0)} if sample else {}
    return BrowseTimelineSection(
        sample=named.name,
        sampled=any(bool((entry.weight != 1.0).any()) for entry in entries),
        entries=tuple(
            _timeline(
                entry, edges, named, _before(population, before.get(entry.component), entry, settings.seed)
            )
            for entry in entries[: settings.entries]
        ),
        entries_total=len(entries),
    )


def time_edges(entries: Sequence[Entry], sample: Sample, times: int) -> I8:
    """Bounds of the intervals of time from the first start to the last: int64[times + 1], ns since the epoch.

    The recording may be shorter than the period. Without requests a single interval: the sample's bounds.
    """
    if not entries:
        return np.array([sample.start_ns, max(sample.end_ns, sample.start_ns + 1)], dtype=np.int64)
    first = min(int(entry.start[0]) for entry in entries)
    last = max(int(entry.start[-1]) for entry in entries) + 1
    return equal_time_bounds(first, last, max(min(times, last - first), 1))


def _watched_within(sample: Sample, edges: I8) -> F8:
    """Observed time of the sample within each interval, ns, float64[intervals]."""
    if not sample.ranges:
        return np.diff(edges).astype(np.float64)
    found = np.zeros(len(edges) - 1)
    for start, end in sample.ranges:
        found += np.maximum(np.minimum(edges[1:], end) - np.maximum(edges[:-1], start), 0)
    return found


def _idle_gaps(entry: Entry, sample: Sample) -> tuple[I8, I8]:
    """Find the idle gaps, without a request in flight: (lengths in ns, index of the request that ends each
    gap).

    Time between two ranges of the sample, which was not observed, is not a gap.
    """
    gaps = entry.gaps
    ends = np.flatnonzero(gaps > 0) + 1
    if sample.ranges:
        begins = np.array([start for start, _ in sample.ranges], dtype=np.int64)
        of = np.searchsorted(begins, entry.start, side="right")
        ends = ends[of[ends] == of[ends - 1]]
    return gaps[ends - 1], ends


def _before(population: Population, earlier: Entry | None, entry: Entry, seed: int) -> EntryBefore | None:
    """Compare an entry component with the same component in the first sample (`earlier`); None if it does not
    occur there."""
    if earlier is None:
        return None
    named = population.samples[0]
    edges = time_edges([earlier], named, 1)
    gaps, _ = _idle_gaps(earlier, named)
    times = block_ks(earlier.response.astype(np.float64), entry.response.astype(np.float64), seed)
    apart = block_ks(_apart(earlier), _apart(entry), seed)
    return EntryBefore(
        **_traffic(earlier, *_at_work(earlier, edges), _watched_within(named, edges), gaps),
        sample=named.name,
        gaps_p=None if apart is None else apart.p,
        times_p=None if times is None else times.p,
    )


def _apart(entry: Entry) -> F8:
    """Time from the latest end of all earlier requests to the start of each next request, ns,
    float64[requests - 1]; 0 where they overlap."""
    return np.maximum(entry.gaps, 0).astype(np.float64)


def _timeline(entry: Entry, edges: I8, sample: Sample, before: EntryBefore | None) -> EntryTimeline:
    count = len(edges) - 1
    watched = _watched_within(sample, edges)
    seen = np.maximum(watched, 1.0)
    place = block_of(entry.start, edges)
    at_work, busy = _at_work(entry, edges)
    most = most_in_flight(entry, edges)
    gaps, ends = _idle_gaps(entry, sample)
    longest = np.zeros(count, dtype=np.int64)
    np.maximum.at(longest, place[ends], gaps)
    order = np.lexsort((entry.response, place))
    median, p99 = _quantiles(entry.response[order], np.bincount(place, minlength=count))
    return EntryTimeline(
        **_traffic(entry, at_work, busy, watched, gaps),
        component=entry.component,
        most_in_flight=int(most.max()),
        gaps=len(gaps),
        edges_ns=tuple(edges.tolist()),
        watched=tuple((watched > 0).tolist()),
        arrivals=tuple(np.bincount(place, minlength=count).tolist()),
        failed=tuple(np.bincount(place[entry.failed], minlength=count).tolist()),
        mean_in_flight=tuple(_short(at_work / seen)),
        max_in_flight=tuple(most.tolist()),
        busy_share=tuple(_short(np.minimum(busy / seen, 1.0))),
        longest_gap_us=tuple(_short(longest / NS_PER_US)),
        median_us=median,
        p99_us=p99,
        strips=tuple(_strips(entry, gaps, ends, most, edges)),
        before=before,
    )


def _at_work(entry: Entry, edges: I8) -> tuple[F8, F8]:
    """Time in flight in each interval, ns: (summed over requests, with at least one request in flight),
    float64[intervals] each."""
    return time_within(entry.start, entry.end, edges), time_within(*entry.runs, edges)


def _traffic(entry: Entry, at_work: F8, busy: F8, watched: F8, gaps: I8) -> dict[str, Any]:
    """Values of the fields of EntryTraffic, by name.

    at_work, busy, watched: float64[intervals], ns, as returned by `_at_work` and `_watched_within`; gaps:
    idle gaps, ns.
    """
    seconds = max(float(watched.sum()), 1.0)
    return {
        "requests": len(entry.start),
        "rate_per_s": len(entry.start) / seconds * _NS_PER_S,
        "in_flight": float(at_work.sum()) / seconds,
        "busy": min(float(busy.sum()) / seconds, 1.0),
        "gap_us": tuple(np.quantile(gaps / NS_PER_US, [0.5, 0.99, 1.0]).tolist()) if len(gaps) else None,
    }


def _short(values: F8) -> list[float]:
    return [float(f"{value:.6g}") for value in values.tolist()]


def _quantiles(ordered: I8, counts: I8) -> tuple[tuple[float | None, ...], tuple[float | None, ...]]:
    """Median and 99th percentile (lower) of each run of values, as µs; None for an empty run.

    ordered: values, ns, run after run, ascending within each run; counts: length of each run.
    """
    past = np.cumsum(counts)
    found = []
    for q in (0.5, 0.99):
        at = past - counts + np.maximum(np.ceil(q * counts).astype(np.int64) - 1, 0)
        found.append(
            tuple(
                None if n == 0 else float(ordered[i]) / NS_PER_US
                for i, n in zip(at.tolist(), counts.tolist(), strict=True)
            )
        )
    return found[0], found[1]


def _strips(entry: Entry, gaps: I8, ends: I8, most: I8, edges: I8) -> list[TimelineStrip]:
    """Strips of requests of three ranges of time: a usual one, the busiest one, and the longest gap; a strip
    that overlaps an earlier one is dropped."""
    n = len(entry.start)
    if n < 2:
        return []
    # Median time in which this many requests arrive: pauses do not affect it.
    ahead = min(_STRIP_REQUESTS, n - 1)
    length = max(int(np.median(entry.start[ahead:] - entry.start[:-ahead])), 1)
    busiest = int(np.argmax(most))
    chosen: list[tuple[_Kind, int, int]] = [
        ("usual", _usual(entry, length), length),
        ("busiest", int(edges[busiest] + edges[busiest + 1]) // 2, length),
    ]
    if len(gaps):
        at = int(np.argmax(gaps))
        # The strip shows some time before and after the gap.
        long = int(gaps[at]) + max(length, int(gaps[at]) // 10)
        chosen.append(("longest-gap", int(entry.start[ends[at]] - gaps[at] // 2), long))
    found: list[TimelineStrip] = []
    taken: list[tuple[int, int]] = []
    for kind, middle, long in chosen:
        begins = max(min(middle - long // 2, int(entry.start[-1]) - long), int(entry.start[0]))
        if any(begins < past and begins + long > first for first, past in taken if kind != "longest-gap"):
            continue
        taken.append((begins, begins + long))
        found.append(_strip(entry, kind, begins, long))
    return found


def _usual(entry: Entry, length: int) -> int:
    """Time, ns since the epoch, in the middle of `length` ns with about the median number of arrivals."""
    first = int(entry.start[0])
    stretch = (entry.start - first) // length
    _, counts = np.unique(stretch, return_counts=True)
    numbers = np.unique(stretch)
    typical = int(np.argmin(np.abs(counts - np.median(counts))))
    return int(first + int(numbers[typical]) * length + length // 2)


def _strip(entry: Entry, kind: _Kind, begins: int, length: int) -> TimelineStrip:
    past = begins + length
    # Requests that began before the strip and are still in flight are included.
    seen = np.flatnonzero((entry.start < past) & (entry.end > begins))
    inside = seen[:_MOST_DRAWN]
    lanes = pack_lanes(entry.start[inside], entry.end[inside], _MOST_LANES)
    drawn = inside[lanes < _MOST_LANES]
    return TimelineStrip(
        kind=kind,
        start_ns=begins,
        length_us=length / NS_PER_US,
        requests=tuple(
            TimelineRequest(
                start_us=(start - begins) / NS_PER_US,
                us=(end - start) / NS_PER_US,
                lane=lane,
                failed=failed,
            )
            for start, end, lane, failed in zip(
                entry.start[drawn].tolist(),
                entry.end[drawn].tolist(),
                lanes[lanes < _MOST_LANES].tolist(),
                entry.failed[drawn].tolist(),
                strict=True,
            )
        ),
        lanes=int(lanes[lanes < _MOST_LANES].max(initial=-1)) + 1,
        left_out=len(seen) - len(drawn),
    )


def time_within(begin: I8, end: I8, edges: I8) -> F8:
    """Total overlap of the intervals [begin, end) with each bin of time, ns, float64[bins].

    edges: [bins + 1] ascending bounds of the bins; time outside of the bins is not counted. O(n log bins).
    """
    count = len(edges) - 1
    first, last = np.clip(begin, edges[0], edges[-1]), np.clip(end, edges[0], edges[-1])
    at, to = block_of(first, edges), block_of(last, edges)
    # From the begin to the end of its bin, from the begin of its last bin to the end, and whole bins between.
    whole = np.cumsum(np.bincount(at, minlength=count + 1) - np.bincount(to, minlength=count + 1))[:-1]
    parts = totals(to, last - edges[to], count) - totals(at, first - edges[at], count)
    found: F8 = parts + whole * np.diff(edges)
    return found


def most_in_flight(entry: Entry, edges: I8) -> I8:
    """Maximum number of requests in flight at any instant of each bin [edges[i], edges[i + 1]), int64[bins].

    O(n log n).
    """
    n, m = len(entry.start), len(edges)
    when = np.concatenate([entry.end, edges, entry.start])
    step = np.repeat(np.array([-1, 0, 1], dtype=np.int64), [n, m, n])
    # At one instant: ends are counted first, then the edge, then starts.
    order = np.lexsort((np.repeat([0, 1, 2], [n, m, n]), when))
    level = np.cumsum(step[order])
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    found: I8 = np.maximum.reduceat(level, place[n : n + m])[:-1]
    return found


def pack_lanes(start: I8, end: I8, most: int) -> I8:
    """Assign requests to lanes so that requests in one lane do not overlap: lane of each request,
    int64[requests]; `most` if none is free.

    Each request gets the first lane that is free at its start; start must be ascending. O(requests · lanes):
    for a strip with some hundred requests.
    """
    free = [np.iinfo(np.int64).min] * most
    lanes = []
    for begins, ends in zip(start.tolist(), end.tolist(), strict=True):
        lane = next((i for i, since in enumerate(free) if since <= begins), most)
        if lane < most:
            free[lane] = max(ends, begins + 1)
        lanes.append(lane)
    return np.array(lanes, dtype=np.int64)
