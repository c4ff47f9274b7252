"""Sections of `flowdiff browse`: exploration of one period.

Times are µs; shares are of requests, weighted by their sampling. A *range* is an interval of response times,
cut at the bins of `BrowseRangesSection.edges_us`: its sums are exact, and the page's script computes any
other range from the sums by bin.
"""

from __future__ import annotations

from typing import Annotated, Literal

from schemas.report.columns import column
from schemas.report.parts import Frozen, Section, TrainSchedule
from schemas.report.variance import C2_ABOUT, C2Curve


class TypicalRequest(Frozen):
    """A category, drawn by its medoid and by its mean."""

    category: str
    root: str
    requests: int
    leads: tuple[str, ...]
    """Ranges that the category represents (`mode 2`, `the slowest`): it is the most frequent category of the
    range's most frequent root type."""
    share_of_time: float
    """The category's share of the sample's summed response time."""
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
    """Bandwidth of the kernel density estimate, octaves."""
    rule: Literal["isj", "silverman", "resolution"]
    points: tuple[tuple[float, float], ...]
    """Points of the curve: (µs, density per octave), ascending."""


class BinnedRoot(Frozen):
    """A root type, with the numbers of all its requests by bin of response time."""

    root: str
    requests: int
    mean_us: float
    c2: float | None
    """Squared coefficient of variation of the root type's response times; None for at most 10 requests."""
    bins: tuple[int, ...]
    """Bins in which it has requests, ascending; `n`, `weight` and `failed` have one value for each of these
    bins."""
    n: tuple[int, ...]
    weight: tuple[float, ...]
    failed: tuple[float, ...]
    """[bins] weight of the failed requests."""


class BinnedCategory(BinnedRoot):
    """A category, with the numbers of all its requests by bin of response time."""

    category: str
    canonical: str


class BinnedSite(Frozen):
    """A call site, and the time spent waiting for it by bin of the *waiting requests'* response time."""

    label: str
    caller: str | None
    requests: int
    """Number of requests that waited for the site."""
    c2: float | None
    """Squared coefficient of variation of the waiting times for the site; None for at most 10 requests."""
    bins: tuple[int, ...]
    weight: tuple[float, ...]
    """[bins] weight of the requests that waited for the site."""
    us: tuple[float, ...]
    """[bins] weighted sum of the waiting times for the site."""
    failed: tuple[float, ...]
    """[bins] weight of the requests in which the site failed."""


class KindInRange(Frozen):
    """A root type or a category, inside and outside a range."""

    place: int
    """Index into `BrowseRangesSection.roots` or `.categories`."""
    n: int
    share_in: float
    """Weighted share among the requests in the range."""
    share_out: float
    """Weighted share among the requests outside the range; 0 if there are none."""
    lift: float | None
    """share_in / share_out; None if it occurs only in the range."""
    failed: float
    """Share of failed requests among its requests in the range."""


class SiteInRange(Frozen):
    """A call site, inside and outside a range.

    The differences mean_in_us - mean_out_us of all call sites add up to the difference of the mean response
    time.
    """

    place: int
    """Index into `BrowseRangesSection.sites`."""
    share_in: float
    """Share of the range's requests that waited for the site."""
    share_out: float
    lift: float | None
    mean_in_us: float
    """Mean waiting time for the site, per request in the range."""
    mean_out_us: float
    """Mean waiting time for the site, per request outside the range."""
    failed: float
    """Share of the range's requests in which the site failed."""


class ResponseRange(Frozen):
    """A range of response times: a mode, or the slow end."""

    kind: Literal["mode", "tail"]
    peak_us: float | None
    """Response time of the density's maximum in a mode; None for the slow end."""
    prominence: float | None
    first: int
    past: int
    """Bin after the last one (`first`: the first bin)."""
    low_us: float
    high_us: float
    """End of the range, exclusive, µs (`low_us`: its start, inclusive)."""
    where: str
    """Filter expression for the range, for `--where`."""
    n: int
    share: float
    mean_us: float
    mean_out_us: float | None
    failed: float
    failed_out: float | None
    roots: tuple[KindInRange, ...]
    categories: tuple[KindInRange, ...]
    """Categories in the range, most requests first."""
    sites: tuple[SiteInRange, ...]
    """Call sites, largest difference of the mean first."""


class BrowseRangesSection(Section):
    """Density, modes, and the content of ranges of response times."""

    section: Literal["browse-ranges"] = "browse-ranges"
    sample: str
    curves: tuple[DensityCurve, ...]
    """One curve for each sample that has two distinct times."""
    edges_us: tuple[float, ...]
    """[bins + 1] µs, whole ns each, ascending; half-open bins."""
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
    """Modes in ascending order, then the slowest hundredth."""


class RootVariance(Frozen):
    """C² of the large categories of a root type."""

    root: str
    requests: int
    categories: int
    below_one: float
    """Share of the large categories that have C² below 1."""
    largest: float


class BrowseVarianceSection(Section):
    """C² curves of large categories."""

    section: Literal["browse-variance"] = "browse-variance"
    curves: tuple[C2Curve, ...]
    """C² curves, one a sample."""
    roots: tuple[RootVariance, ...]
    """Root types of the last sample, most requests first."""
    roots_total: int


class TimelineRequest(Frozen):
    """A request as a rectangle."""

    start_us: float
    """Start of the request since the start of the strip."""
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
    """Requests left out for lack of space."""


class EntryTraffic(Frozen):
    """Requests that arrived at one entry component in a sample."""

    requests: int
    rate_per_s: float
    in_flight: float
    """Mean number of requests in flight."""
    busy: float
    """Share of the time with a request in flight."""
    gap_us: tuple[float, float, float] | None
    """Median, 99th percentile and longest time without a request in flight; None if there was no such
    time."""


class EntryBefore(EntryTraffic):
    """The same entry in the first of two samples, with tests for a difference."""

    sample: str
    gaps_p: float | None
    """p of a KS test with permuted blocks on the idle time before each request's start (0 where requests
    overlap); None: too few requests."""
    times_p: float | None
    """p of a KS test with permuted blocks on response times; None: too few requests."""


class EntryTimeline(EntryTraffic):
    """Requests that arrived at one entry component over time. Lists are [times], `edges_ns` is [times +
    1]."""

    component: str
    most_in_flight: int
    gaps: int
    edges_ns: tuple[int, ...]
    watched: tuple[bool, ...]
    """True if the sample covers the interval."""
    arrivals: tuple[int, ...]
    failed: tuple[int, ...]
    mean_in_flight: tuple[float, ...]
    max_in_flight: tuple[int, ...]
    busy_share: tuple[float, ...]
    longest_gap_us: tuple[float, ...]
    """Longest idle time that ended in the interval; 0 if none did."""
    median_us: tuple[float | None, ...]
    p99_us: tuple[float | None, ...]
    """99th percentile of the response times of requests that arrived in the interval (`median_us`: their
    median)."""
    strips: tuple[TimelineStrip, ...]
    before: EntryBefore | None
    """The same entry in the first sample; None for one sample, or if that has no such entry."""


class BrowseTimelineSection(Section):
    """Requests at entry components by time."""

    section: Literal["browse-timeline"] = "browse-timeline"
    sample: str
    sampled: bool
    """True if requests were sampled: idle times and requests in flight are then those of the recorded
    requests."""
    entries: tuple[EntryTimeline, ...]
    entries_total: int


class ErrorRow(Frozen):
    """An error class at a call site."""

    error: Annotated[str, column("text", "class")]
    site: Annotated[str, column("name", "where", label="Call site")]
    requests: Annotated[int, column("count", "in which it did", label="requests")]
    share: Annotated[float, column("share", "of all, weighted", label="of all")]
    answered_ok: Annotated[
        float, column("share", "share of those whose root answered `ok`", label="answered ok", far=1)
    ]
    hosts: tuple[str, ...]
    """Hosts with the error, most requests first, at most three."""
    first_ns: Annotated[int, column("count", "start of the first of them")]
    last_ns: Annotated[int, column("count", "start of the last of them")]
    by_time: tuple[int, ...]


class HostRow(Frozen):
    """A host. Shares of time are of critical time; together with `no_host` they add up to 1."""

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
    """Time and failures of a call site."""

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
    """Where time is spent and requests fail: call sites, hosts, error classes."""

    section: Literal["browse-places"] = "browse-places"
    sample: str
    sites: tuple[SiteRow, ...]
    sites_total: int
    hosts: tuple[HostRow, ...]
    hosts_total: int
    no_host: float
    """Share of the time whose host is unknown."""
    errors: tuple[ErrorRow, ...]
    errors_total: int
    failed_inside: float
    """Share of the requests with a failed call."""
