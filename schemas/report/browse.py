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
    """A category, drawn twice: by its medoid (the request nearest to its medians), and by its mean."""

    category: str
    root: str
    requests: int
    leads: tuple[str, ...]
    """Names of the ranges (`mode 2`, `the slowest`) that the category represents: it is the most frequent
    category of the range's most frequent root type."""
    share_of_time: float
    """Category's share of the sample's summed response time, 0 to 1."""
    mean_us: float
    medoid: TrainSchedule
    mean: TrainSchedule


class BrowseSchedulesSection(Section):
    """Typical requests of a sample, as train schedules."""

    section: Literal["browse-schedules"] = "browse-schedules"
    sample: str
    requests: tuple[TypicalRequest, ...]


class DensityCurve(Frozen):
    """Kernel density estimate of the response times of one sample."""

    sample: str
    requests: int
    bandwidth: float
    """Bandwidth of the kernel density estimate, octaves."""
    rule: Literal["isj", "silverman", "resolution"]
    points: tuple[tuple[float, float], ...]
    """Points of the curve: (µs, density per octave), ascending."""


class BinnedRoot(Frozen):
    """A root type, with the sums of its requests by bin of response time."""

    root: str
    requests: int
    mean_us: float
    c2: float | None
    """Squared coefficient of variation of the root type's response times; None for at most 10 requests."""
    bins: tuple[int, ...]
    """Indices, ascending, of the bins in which the root type has requests; `n`, `weight`, `failed` are
    parallel lists.
    """
    n: tuple[int, ...]
    weight: tuple[float, ...]
    failed: tuple[float, ...]
    """Weight of the failed requests, for each bin in `bins`."""


class BinnedCategory(BinnedRoot):
    """A category, with the sums of its requests by bin of response time."""

    category: str
    canonical: str


class BinnedSite(Frozen):
    """A call site with the time for which requests waited for it, summed by bin of the requests' response
    time."""

    label: str
    caller: str | None
    requests: int
    """Number of requests that waited for the call site."""
    c2: float | None
    """Squared coefficient of variation of the waiting times for the site; None for at most 10 requests."""
    bins: tuple[int, ...]
    weight: tuple[float, ...]
    """Weight of the requests that waited for the site, for each bin in `bins`."""
    us: tuple[float, ...]
    """Weighted sum of the waiting times for the site, µs, for each bin in `bins`."""
    failed: tuple[float, ...]
    """Weight of the requests in which the site failed, for each bin in `bins`."""


class KindInRange(Frozen):
    """A root type or a category, with its shares inside and outside a range of response times."""

    place: int
    """Index into `BrowseRangesSection.roots` (root types) or `.categories`."""
    n: int
    share_in: float
    """Weighted share of requests of this root type or category among the requests in the range, 0 to 1."""
    share_out: float
    """Weighted share of requests of this root type or category among the requests outside the range, 0 to 1;
    0 if there are none."""
    lift: float | None
    """`share_in` / `share_out`; None if no request of this root type or category is outside the range."""
    failed: float
    """Share of failed requests among the requests of this root type or category in the range, 0 to 1."""


class SiteInRange(Frozen):
    """A call site, with its shares and times inside and outside a range of response times.

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
    """A range of response times, with its content: a mode of the density, or the slow end."""

    kind: Literal["mode", "tail"]
    peak_us: float | None
    """Response time at which the density of a mode has its maximum, µs; None for the slow end."""
    prominence: float | None
    first: int
    """Index of the range's first bin."""
    past: int
    """Index of the bin after the range's last bin."""
    low_us: float
    """Lower end of the range, inclusive, µs."""
    high_us: float
    """Upper end of the range, exclusive, µs."""
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
    """Call sites in the range, by difference of the mean waiting time between requests in and outside the
    range, largest first."""


class BrowseRangesSection(Section):
    """Density, modes, and the content of ranges of response times."""

    section: Literal["browse-ranges"] = "browse-ranges"
    sample: str
    curves: tuple[DensityCurve, ...]
    """Density curves, one per sample with at least two distinct response times."""
    edges_us: tuple[float, ...]
    """[bins + 1] bin edges, µs, ascending, each a whole number of ns; bins are half open."""
    n: tuple[int, ...]
    weight: tuple[float, ...]
    us: tuple[float, ...]
    """[bins] weighted sum of the response times."""
    failed: tuple[float, ...]
    """[bins] weight of the failed requests."""
    roots: tuple[BinnedRoot, ...]
    roots_total: int
    categories: tuple[BinnedCategory, ...]
    categories_total: int
    sites: tuple[BinnedSite, ...]
    sites_total: int
    ranges: tuple[ResponseRange, ...]
    """Modes in ascending order of response time, then the slowest hundredth."""


class RootVariance(Frozen):
    """Squared coefficients of variation (C²) of the large categories of one root type."""

    root: str
    requests: int
    categories: int
    below_one: float
    """Share of the large categories with C² below 1."""
    largest: float


class BrowseVarianceSection(Section):
    """Cumulative distributions of C² over large categories."""

    section: Literal["browse-variance"] = "browse-variance"
    curves: tuple[C2Curve, ...]
    """Distributions of C² over large categories, one per sample."""
    roots: tuple[RootVariance, ...]
    """Root types of the last sample, most requests first."""
    roots_total: int


class TimelineRequest(Frozen):
    """A request of a timeline, drawn as a rectangle."""

    start_us: float
    """Start of the request, µs since the start of the strip."""
    us: float
    lane: int
    failed: bool


class TimelineStrip(Frozen):
    """Requests of a few seconds at an entry component, drawn as rectangles (technical report, Figure 8)."""

    kind: Literal["usual", "busiest", "longest-gap"]
    start_ns: int
    length_us: float
    requests: tuple[TimelineRequest, ...]
    lanes: int
    left_out: int
    """Number of requests left out for lack of space."""


class EntryTraffic(Frozen):
    """Load of one entry component in a sample."""

    requests: int
    rate_per_s: float
    in_flight: float
    """Mean number of requests in flight."""
    busy: float
    """Share of the time with at least one request in flight."""
    gap_us: tuple[float, float, float] | None
    """Median, 99th percentile and maximum of the idle times, µs; None if a request was in flight at all
    times.
    """


class EntryBefore(EntryTraffic):
    """Load of an entry component in the first of two samples, with tests for differences from the second
    sample."""

    sample: str
    gaps_p: float | None
    """p-value of a KS test, with permuted blocks, on the idle time before each request's start (0 where
    requests overlap); None: too few requests.
    """
    times_p: float | None
    """p-value of a KS test, with permuted blocks, on the response times; None: too few requests."""


class EntryTimeline(EntryTraffic):
    """Load of one entry component over time. Lists have one value per interval; `edges_ns` one more."""

    component: str
    most_in_flight: int
    gaps: int
    edges_ns: tuple[int, ...]
    watched: tuple[bool, ...]
    """True for each interval that the sample covers."""
    arrivals: tuple[int, ...]
    failed: tuple[int, ...]
    mean_in_flight: tuple[float, ...]
    max_in_flight: tuple[int, ...]
    busy_share: tuple[float, ...]
    longest_gap_us: tuple[float, ...]
    """Longest idle time that ended in the interval, µs; 0 if none did."""
    median_us: tuple[float | None, ...]
    """[intervals] median of the response times of requests that arrived in the interval, µs; None without
    requests."""
    p99_us: tuple[float | None, ...]
    """[intervals] 99th percentile of the response times of requests that arrived in the interval, µs; None
    without requests."""
    strips: tuple[TimelineStrip, ...]
    before: EntryBefore | None
    """Load of the same entry component in the first of two samples; None for one sample, or if the component
    does not occur there.
    """


class BrowseTimelineSection(Section):
    """Requests at entry components by time."""

    section: Literal["browse-timeline"] = "browse-timeline"
    sample: str
    sampled: bool
    """True if requests were sampled: idle times and requests in flight then concern the recorded requests
    only.
    """
    entries: tuple[EntryTimeline, ...]
    entries_total: int


class ErrorRow(Frozen):
    """An error class at a call site, with the requests in which the error occurred."""

    error: Annotated[str, column("text", "class")]
    site: Annotated[str, column("name", "where", label="Call site")]
    requests: Annotated[int, column("count", "in which it did", label="requests")]
    share: Annotated[float, column("share", "of all, weighted", label="of all")]
    answered_ok: Annotated[
        float, column("share", "share of those whose root answered `ok`", label="answered ok", far=1)
    ]
    hosts: tuple[str, ...]
    """Hosts where the error occurred, most requests first, at most three."""
    first_ns: Annotated[int, column("count", "start of the first of them")]
    last_ns: Annotated[int, column("count", "start of the last of them")]
    by_time: tuple[int, ...]


class HostRow(Frozen):
    """A host's share of the requests, and of the time on critical paths; the hosts' shares of the time and
    `no_host` add up to 1."""

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
    """Call sites, hosts and error classes at which time is spent and requests fail."""

    section: Literal["browse-places"] = "browse-places"
    sample: str
    sites: tuple[SiteRow, ...]
    sites_total: int
    hosts: tuple[HostRow, ...]
    hosts_total: int
    no_host: float
    """Share of the time on critical paths for which the host is unknown."""
    errors: tuple[ErrorRow, ...]
    errors_total: int
    failed_inside: float
    """Share of the requests in which at least one call failed."""
