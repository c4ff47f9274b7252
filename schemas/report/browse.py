"""Sections of `flowdiff browse`: one period to look around in.

Times are µs; shares are of requests, weighted by their sampling. A *range* is a part of the axis of response
times, cut at the bins of `BrowseRangesSection.edges_us`: what is said of it is exact, and every range of bins
can be worked out from the sums by bin in the section, as the page's script does.
"""

from __future__ import annotations

from typing import Annotated, Literal

from schemas.report.columns import column
from schemas.report.parts import Frozen, Section, TrainSchedule
from schemas.report.variance import C2_ABOUT, C2Curve


class TypicalRequest(Frozen):
    """A category by its medoid and by its mean."""

    category: str
    root: str
    requests: int
    leads: tuple[str, ...]
    """Ranges that it stands for (`mode 2`, `the slowest`): the most frequent category of their most frequent
    root type."""
    share_of_time: float
    """Of the summed response time of the sample."""
    mean_us: float
    medoid: TrainSchedule
    mean: TrainSchedule


class BrowseSchedulesSection(Section):
    """Typical requests."""

    section: Literal["browse-schedules"] = "browse-schedules"
    sample: str
    requests: tuple[TypicalRequest, ...]


class DensityCurve(Frozen):
    """Density of response times of one sample."""

    sample: str
    requests: int
    bandwidth: float
    """Octaves."""
    rule: Literal["isj", "silverman", "resolution"]
    points: tuple[tuple[float, float], ...]
    """(µs, density an octave), ascending."""


class BinnedRoot(Frozen):
    """A root type, and all its requests by bin of response time."""

    root: str
    requests: int
    mean_us: float
    c2: float | None
    """Of all its requests; for more than 10."""
    bins: tuple[int, ...]
    """Bins that it has requests in, ascending; the other lists go with it."""
    n: tuple[int, ...]
    weight: tuple[float, ...]
    failed: tuple[float, ...]
    """Weight of its requests that failed."""


class BinnedCategory(BinnedRoot):
    """The same of a category."""

    category: str
    canonical: str


class BinnedSite(Frozen):
    """A place, and what requests waited there by bin of *their* response time."""

    label: str
    caller: str | None
    requests: int
    """That waited for it."""
    c2: float | None
    """Of the time that those waited there; for more than 10."""
    bins: tuple[int, ...]
    weight: tuple[float, ...]
    """Weight of the requests that waited for it."""
    us: tuple[float, ...]
    """Weighted sum of the time that they did."""
    failed: tuple[float, ...]
    """Weight of the requests in which it failed."""


class KindInRange(Frozen):
    """A root type or a category, in a range and outside of it."""

    place: int
    """Index into `BrowseRangesSection.roots` or `.categories`."""
    n: int
    share_in: float
    """Of the requests of the range, weighted."""
    share_out: float
    """Of all others; 0 where there are none."""
    lift: float | None
    """share_in / share_out; None: it is in the range only."""
    failed: float
    """Share of its requests in the range that failed."""


class SiteInRange(Frozen):
    """A call site, in a range and outside of it.

    Over all call sites the differences add up to that of the mean response.
    """

    place: int
    """Index into `BrowseRangesSection.sites`."""
    share_in: float
    """Of the requests of the range: those that waited for it."""
    share_out: float
    lift: float | None
    mean_in_us: float
    """Waited there, a request of the range."""
    mean_out_us: float
    """The same of all others."""
    failed: float
    """Share of the range's requests in which it failed."""


class ResponseRange(Frozen):
    """A range of response times: a mode, or the slow end."""

    kind: Literal["mode", "tail"]
    peak_us: float | None
    """Of a mode: its highest point."""
    prominence: float | None
    first: int
    past: int
    """Bins, half open."""
    low_us: float
    high_us: float
    """Half open."""
    where: str
    """The range as a filter, for `--where`."""
    n: int
    share: float
    mean_us: float
    mean_out_us: float | None
    failed: float
    failed_out: float | None
    roots: tuple[KindInRange, ...]
    categories: tuple[KindInRange, ...]
    """Most requests first."""
    sites: tuple[SiteInRange, ...]
    """Largest difference of the mean first."""


class BrowseRangesSection(Section):
    """Density, modes, and what lies in ranges of response times."""

    section: Literal["browse-ranges"] = "browse-ranges"
    sample: str
    curves: tuple[DensityCurve, ...]
    """One a sample that has two distinct times."""
    edges_us: tuple[float, ...]
    """[bins + 1] whole nanoseconds, ascending; a bin is half open."""
    n: tuple[int, ...]
    weight: tuple[float, ...]
    us: tuple[float, ...]
    """[bins] weighted sums of response times."""
    failed: tuple[float, ...]
    """[bins] weights of requests that failed."""
    roots: tuple[BinnedRoot, ...]
    roots_total: int
    categories: tuple[BinnedCategory, ...]
    categories_total: int
    sites: tuple[BinnedSite, ...]
    sites_total: int
    ranges: tuple[ResponseRange, ...]
    """Modes by place, then the slowest hundredth."""


class RootVariance(Frozen):
    """The large categories of a root type."""

    root: str
    requests: int
    categories: int
    below_one: float
    """Share of them with C² below 1."""
    largest: float


class BrowseVarianceSection(Section):
    """C² curves of large categories."""

    section: Literal["browse-variance"] = "browse-variance"
    curves: tuple[C2Curve, ...]
    """One a sample."""
    roots: tuple[RootVariance, ...]
    """Of the last sample, most requests first."""
    roots_total: int


class TimelineRequest(Frozen):
    """A request as a rectangle."""

    start_us: float
    """Since the strip begins."""
    us: float
    lane: int
    failed: bool


class TimelineStrip(Frozen):
    """Some seconds at an entry, request by request (TR Figure 8)."""

    kind: Literal["usual", "busiest", "longest-gap"]
    start_ns: int
    length_us: float
    requests: tuple[TimelineRequest, ...]
    lanes: int
    left_out: int
    """Requests that are not drawn: more than there is room for."""


class EntryTraffic(Frozen):
    """Requests that came in at one component in a sample."""

    requests: int
    rate_per_s: float
    in_flight: float
    """Mean number at work."""
    busy: float
    """Share of the time in which any was at work."""
    gap_us: tuple[float, float, float] | None
    """Median, 99th percentile and longest of the times in which none was at work; None: there was none."""


class EntryBefore(EntryTraffic):
    """The same entry in the first of two samples, and whether it differs by test."""

    sample: str
    gaps_p: float | None
    """KS with blocks permuted, of the time from the end of everything before to each start, 0 where requests
    overlap; None: too few requests."""
    times_p: float | None
    """The same of response times."""


class EntryTimeline(EntryTraffic):
    """Requests that came in at one component, by time. Lists are [times] but for the edges."""

    component: str
    most_in_flight: int
    gaps: int
    edges_ns: tuple[int, ...]
    watched: tuple[bool, ...]
    """Whether the sample has this time at all."""
    arrivals: tuple[int, ...]
    failed: tuple[int, ...]
    mean_in_flight: tuple[float, ...]
    max_in_flight: tuple[int, ...]
    busy_share: tuple[float, ...]
    longest_gap_us: tuple[float, ...]
    """That ended in it; 0 without one."""
    median_us: tuple[float | None, ...]
    p99_us: tuple[float | None, ...]
    """Response times of what arrived in it."""
    strips: tuple[TimelineStrip, ...]
    before: EntryBefore | None
    """Of two samples, where the first has this entry."""


class BrowseTimelineSection(Section):
    """Requests at entry components by time."""

    section: Literal["browse-timeline"] = "browse-timeline"
    sample: str
    sampled: bool
    """Whether requests were sampled: gaps and requests in flight are then of those kept."""
    entries: tuple[EntryTimeline, ...]
    entries_total: int


class ErrorRow(Frozen):
    """An error class at a place."""

    error: Annotated[str, column("text", "class")]
    site: Annotated[str, column("name", "where", label="Call site")]
    requests: Annotated[int, column("count", "in which it did", label="requests")]
    share: Annotated[float, column("share", "of all, weighted", label="of all")]
    answered_ok: Annotated[
        float, column("share", "share of those whose root answered `ok`", label="answered ok", far=1)
    ]
    hosts: tuple[str, ...]
    """At most three, most requests first."""
    first_ns: Annotated[int, column("count", "start of the first of them")]
    last_ns: Annotated[int, column("count", "start of the last of them")]
    by_time: tuple[int, ...]


class HostRow(Frozen):
    """A host. Shares of time are of critical time; with what has no host they add up to 1."""

    host: Annotated[str, column("name", "host", label="Host")]
    components: tuple[str, ...]
    requests: Annotated[int, column("count", "with a node there", label="requests", far=1)]
    share_of_requests: Annotated[float, column("share", "weighted")]
    share_of_time: Annotated[float, column("share", "of all critical time", label="of all time")]
    per_request_us: Annotated[
        float, column("us", "waited for it, a request that touched it", label="a request")
    ]
    failed: Annotated[int, column("count", "requests in which a node failed there", label="failed")]


class SiteRow(Frozen):
    """A place by time."""

    label: Annotated[str, column("name", "edge between two trace points, or call")]
    caller: Annotated[str | None, column("name", "who calls")]
    requests: Annotated[int, column("count", "that waited for it", label="requests", far=1)]
    mean_us: Annotated[float, column("us", "that those waited", label="mean")]
    c2: Annotated[float | None, column("c2", C2_ABOUT, label="C²", far=2)]
    share_of_time: Annotated[
        float, column("share", "of all critical time; 1 over all sites", label="of all time")
    ]
    failed: Annotated[int, column("count", "requests in which it failed", label="failed", far=1)]


class BrowsePlacesSection(Section):
    """Where time is spent and what fails: sites, hosts, errors."""

    section: Literal["browse-places"] = "browse-places"
    sample: str
    sites: tuple[SiteRow, ...]
    sites_total: int
    hosts: tuple[HostRow, ...]
    hosts_total: int
    no_host: float
    """Share of the time whose host is not known."""
    errors: tuple[ErrorRow, ...]
    errors_total: int
    failed_inside: float
    """Share of the requests in which anything failed."""
