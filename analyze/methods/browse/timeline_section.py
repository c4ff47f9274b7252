"""The section `browse-timeline`: each entry component by time, and some seconds of it request by request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from analyze.methods.browse.entry_flow import (
    EntryFlow,
    most_in_flight,
    pack_lanes,
    time_within,
)
from analyze.methods.browse.response_bins import failed_requests
from analyze.methods.browse.settings import BrowseSettings
from analyze.population import Population, Sample
from analyze.stats.ks import block_ks
from schemas.arrays import B1, F8, I8
from schemas.report.browse import (
    BrowseTimelineSection,
    EntryBefore,
    EntryTimeline,
    TimelineRequest,
    TimelineStrip,
)
from schemas.windows import NS_PER_US

Kind = Literal["usual", "busiest", "longest-gap"]

STRIP_REQUESTS: Final = 120
"""Requests of a strip, about."""
MOST_DRAWN: Final = 1_000
MOST_LANES: Final = 40
NS_PER_S: Final = 1e9


@dataclass(frozen=True, slots=True)
class Entry:
    """All requests that came in at a component, by start; arrays are [requests]."""

    component: str
    flow: EntryFlow
    failed: B1
    weight: F8

    @property
    def response(self) -> I8:
        """Response times, ns."""
        times: I8 = self.flow.end - self.flow.start
        return times


def entries_of(population: Population, sample: int) -> list[Entry]:
    """Entry components, those of most requests first. O(requests log requests)."""
    parts: dict[str, list[int]] = {}
    for number, category in enumerate(population.categories):
        rows = category.rows(sample)
        if rows.start < rows.stop:
            parts.setdefault(category.graph.nodes[0].component, []).append(number)
    found = [_entry(population, sample, component, numbers) for component, numbers in parts.items()]
    return sorted(found, key=lambda entry: (-len(entry.failed), entry.component))


def _entry(population: Population, sample: int, component: str, numbers: Sequence[int]) -> Entry:
    chosen = [(c, c.rows(sample)) for c in (population.categories[number] for number in numbers)]
    start = np.concatenate([c.start_ns[rows] for c, rows in chosen])
    response = np.concatenate([c.response_ns[rows] for c, rows in chosen])
    failed = np.concatenate([failed_requests(population, c, rows) for c, rows in chosen])
    weight = np.concatenate([c.weight[rows] for c, rows in chosen])
    order = np.argsort(start, kind="stable")
    return Entry(component, EntryFlow.of(start[order], response[order]), failed[order], weight[order])


def timeline_section(population: Population, sample: int, settings: BrowseSettings) -> BrowseTimelineSection:
    """The section."""
    entries = entries_of(population, sample)
    named = population.samples[sample]
    edges = time_edges(entries, named, settings.times)
    return BrowseTimelineSection(
        sample=named.name,
        sampled=any(bool((entry.weight != 1.0).any()) for entry in entries),
        entries=tuple(
            _timeline(entry, edges, named, _before(population, entry, sample, settings.seed))
            for entry in entries[: settings.entries]
        ),
        entries_total=len(entries),
    )


def time_edges(entries: Sequence[Entry], sample: Sample, times: int) -> I8:
    """[times + 1] ns: from the first start to the last, which is less than the period where the recording is.

    Of no request one bin of no length's worth: the sample's.
    """
    if not entries:
        return np.array([sample.start_ns, max(sample.end_ns, sample.start_ns + 1)], dtype=np.int64)
    first = min(int(entry.flow.start[0]) for entry in entries)
    last = max(int(entry.flow.start[-1]) for entry in entries) + 1
    count = max(min(times, last - first), 1)
    return np.array([first + (last - first) * i // count for i in range(count + 1)], dtype=np.int64)


def watched_within(sample: Sample, edges: I8) -> F8:
    """[bins] how much of each the sample has, ns."""
    if not sample.ranges:
        return np.diff(edges).astype(np.float64)
    found = np.zeros(len(edges) - 1)
    for start, end in sample.ranges:
        found += np.maximum(np.minimum(edges[1:], end) - np.maximum(edges[:-1], start), 0)
    return found


def idle_gaps(flow: EntryFlow, sample: Sample) -> tuple[I8, I8]:
    """(gaps > 0, the request that ends each): time in which none was at work, ns.

    Time between two ranges of the sample, which nobody watched, is no gap.
    """
    gaps = flow.gaps
    ends = np.flatnonzero(gaps > 0) + 1
    if sample.ranges:
        begins = np.array([start for start, _ in sample.ranges], dtype=np.int64)
        of = np.searchsorted(begins, flow.start, side="right")
        ends = ends[of[ends] == of[ends - 1]]
    return gaps[ends - 1], ends


def _before(population: Population, entry: Entry, sample: int, seed: int) -> EntryBefore | None:
    """The entry in the first sample; None where that is this one, or has no such entry."""
    earlier = next((one for one in entries_of(population, 0) if one.component == entry.component), None)
    if sample == 0 or earlier is None:
        return None
    named, flow = population.samples[0], earlier.flow
    edges = time_edges([earlier], named, 1)
    seconds = max(float(watched_within(named, edges).sum()), 1.0)
    gaps, _ = idle_gaps(flow, named)
    times = block_ks(earlier.response.astype(np.float64), entry.response.astype(np.float64), seed)
    apart = block_ks(_apart(flow), _apart(entry.flow), seed)
    return EntryBefore(
        sample=named.name,
        requests=len(flow.start),
        rate_per_s=len(flow.start) / seconds * NS_PER_S,
        in_flight=float(time_within(flow.start, flow.end, edges).sum()) / seconds,
        busy=min(float(time_within(*flow.runs, edges).sum()) / seconds, 1.0),
        gap_us=None if not len(gaps) else _gap_row(gaps),
        gaps_p=None if apart is None else apart.p,
        times_p=None if times is None else times.p,
    )


def _apart(flow: EntryFlow) -> F8:
    """From the end of everything before to each start; 0 where requests overlap."""
    return np.maximum(flow.gaps, 0).astype(np.float64)


def _timeline(entry: Entry, edges: I8, sample: Sample, before: EntryBefore | None) -> EntryTimeline:
    flow, count = entry.flow, len(edges) - 1
    watched = watched_within(sample, edges)
    seen = np.maximum(watched, 1.0)
    place = np.clip(np.searchsorted(edges, flow.start, side="right") - 1, 0, count - 1)
    at_work, busy = time_within(flow.start, flow.end, edges), time_within(*flow.runs, edges)
    most = most_in_flight(flow, edges)
    gaps, ends = idle_gaps(flow, sample)
    longest = np.zeros(count, dtype=np.int64)
    np.maximum.at(longest, place[ends], gaps)
    order = np.lexsort((entry.response, place))
    median, p99 = _quantiles(entry.response[order], np.bincount(place, minlength=count))
    total = max(float(watched.sum()), 1.0)
    return EntryTimeline(
        component=entry.component,
        requests=len(flow.start),
        rate_per_s=len(flow.start) / total * NS_PER_S,
        in_flight=float(at_work.sum()) / total,
        most_in_flight=int(most.max()),
        busy=min(float(busy.sum()) / total, 1.0),
        gap_us=None if not len(gaps) else _gap_row(gaps),
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


def _gap_row(gaps: I8) -> tuple[float, float, float]:
    at = np.quantile(gaps / NS_PER_US, [0.5, 0.99, 1.0])
    return float(at[0]), float(at[1]), float(at[2])


def _short(values: F8) -> list[float]:
    return [float(f"{value:.6g}") for value in values.tolist()]


def _quantiles(ordered: I8, counts: I8) -> tuple[tuple[float | None, ...], tuple[float | None, ...]]:
    """Lower quantiles of each run of `counts` ascending values, µs; None of an empty one."""
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
    """A usual stretch, the busiest, and that of the longest gap; one that lies over another is left out."""
    flow = entry.flow
    n = len(flow.start)
    if n < 2:
        return []
    # As long as so many requests mostly take to arrive, which pauses do not change.
    ahead = min(STRIP_REQUESTS, n - 1)
    length = max(int(np.median(flow.start[ahead:] - flow.start[:-ahead])), 1)
    busiest = int(np.argmax(most))
    chosen: list[tuple[Kind, int, int]] = [
        ("usual", _usual(flow, length), length),
        ("busiest", int(edges[busiest] + edges[busiest + 1]) // 2, length),
    ]
    if len(gaps):
        at = int(np.argmax(gaps))
        # With what was before and after it.
        long = int(gaps[at]) + max(length, int(gaps[at]) // 10)
        chosen.append(("longest-gap", int(flow.start[ends[at]] - gaps[at] // 2), long))
    found: list[TimelineStrip] = []
    taken: list[tuple[int, int]] = []
    for kind, middle, long in chosen:
        begins = max(min(middle - long // 2, int(flow.start[-1]) - long), int(flow.start[0]))
        if any(begins < past and begins + long > first for first, past in taken if kind != "longest-gap"):
            continue
        taken.append((begins, begins + long))
        found.append(_strip(entry, kind, begins, long))
    return found


def _usual(flow: EntryFlow, length: int) -> int:
    """The middle of a stretch with as many arrivals as most stretches of that length have."""
    first = int(flow.start[0])
    stretch = (flow.start - first) // length
    _, counts = np.unique(stretch, return_counts=True)
    numbers = np.unique(stretch)
    typical = int(np.argmin(np.abs(counts - np.median(counts))))
    return int(first + int(numbers[typical]) * length + length // 2)


def _strip(entry: Entry, kind: Kind, begins: int, length: int) -> TimelineStrip:
    flow, past = entry.flow, begins + length
    # Who began long before and is still at work is in sight, too.
    seen = np.flatnonzero((flow.start < past) & (flow.end > begins))
    inside = seen[:MOST_DRAWN]
    lanes = pack_lanes(flow.start[inside], flow.end[inside], MOST_LANES)
    drawn = inside[lanes < MOST_LANES]
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
                flow.start[drawn].tolist(),
                flow.end[drawn].tolist(),
                lanes[lanes < MOST_LANES].tolist(),
                entry.failed[drawn].tolist(),
                strict=True,
            )
        ),
        lanes=int(lanes[lanes < MOST_LANES].max(initial=-1)) + 1,
        left_out=len(seen) - len(drawn),
    )
