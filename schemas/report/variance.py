"""Sections of `flowdiff variance`: where response times vary, and why.

Shares are of the variance of response times in the sample unless said otherwise. C² = (standard deviation /
mean)².
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from schemas.report.columns import Inside, column
from schemas.report.explanations import Explanation
from schemas.report.findings import Interval
from schemas.report.parts import Frozen, Histogram, Section


class MarkerKind(StrEnum):
    """Kind of variance, by its cause: intentional, intrinsic or inadvertent (VarianceFinder, §3)."""

    INTENTIONAL = "intentional"
    """Variance from a deliberate trade: a cache, a scheduler, a back-off."""
    INTRINSIC = "intrinsic"
    """Variance of the hardware or the architecture."""
    INADVERTENT = "inadvertent"
    """Variance to be reduced: poor code, contention."""


OfMarker = Annotated[
    MarkerKind | None, column("text", "intentional, intrinsic, inadvertent; null without one")
]
C2_ABOUT = "squared coefficient of variation; more than 10 requests only"
Ends = Annotated[Interval | None, Inside("c2_")]
"""Type of a field with the interval of a C², None if unknown; columns `c2_low` and `c2_high`."""


class MarkerRow(Frozen):
    """A user's judgement on a source of variance, from the settings."""

    label: str
    kind: MarkerKind
    owner: str
    reason: str
    expires: str | None
    """ISO date of expiry; None: never."""
    state: Literal["holds", "expired", "unused"]
    """State of the marker: `holds` (in force), `expired`, or `unused` (no edge and no site has its label)."""


class VariancePart(Frozen):
    """One part of the sample's variance. Parts of the whole sample add up to 1."""

    kind: Literal["roots", "paths", "within"]
    """Variance between root types, between paths of a root type, or within paths."""
    root: str | None
    """Root type of the part; None: all root types."""
    share: float


class VariableSite(Frozen):
    """A call site, or an edge between two trace points, with its contribution to the variance."""

    label: Annotated[str, column("name", "edge between two trace points, or call")]
    """Label, as used by markers: `a/x -> b/y` for an edge, or the name of a call."""
    caller: Annotated[str | None, column("name", "who calls")]
    requests: Annotated[int, column("count", "recorded requests", label="Requests", far=2)]
    """Number of requests that waited for the site."""
    mean_us: Annotated[float, column("us", "weighted mean, µs")]
    sd_us: Annotated[float, column("us", "weighted standard deviation, µs")]
    """Standard deviation of the waiting times for the site, µs."""
    c2: Annotated[float | None, column("c2", C2_ABOUT, label="C²", far=1, interval="c2_interval")]
    c2_interval: Ends
    within: Annotated[
        float,
        column(
            "part", "part of the variance: within paths", label="Within paths", interval="within_interval"
        ),
    ]
    within_interval: Annotated[Interval | None, Inside("within_")]
    """95 % interval of `within`."""
    paths: Annotated[float, column("part", "between paths of a root type", label="Between paths", far=2)]
    roots: Annotated[float, column("part", "between root types", label="Between root types", far=3)]
    total: Annotated[float, column("share", "all three; 1 over all sites")]
    residual: Annotated[
        float | None,
        column("part", "part of what is left without marked sources", label="Of what is left"),
    ]
    """Share of the variance within paths that remains without marked sources; None unless a marker
    applies.
    """
    marker: OfMarker


class VariableCategory(Frozen):
    """A category, or all rare categories of a root type together."""

    category: Annotated[str | None, column("key", "key after refinement; null: rare ones of a root type")]
    """Category key; None for the row of a root type's rare categories (at most 10 requests each)."""
    members: Annotated[int, column("count", "categories in it")]
    root: Annotated[str, column("name", "root type", label="Root type")]
    canonical: str
    requests: Annotated[int, column("count", "recorded requests", label="Requests", far=1)]
    mean_us: Annotated[float, column("us", "weighted mean, µs", label="Mean", far=1)]
    sd_us: Annotated[float, column("us", "weighted standard deviation, µs", label="Deviation", far=2)]
    c2: Annotated[float | None, column("c2", C2_ABOUT, label="C²", interval="c2_interval")]
    c2_interval: Ends
    c2_residual: Annotated[float | None, column("c2", "without marked sources", label="Without markers")]
    """C² of the category without the variance of marked sources; None unless a marker applies."""
    impact: Annotated[
        float, column("part", "p·σ²/Var(T): part of the variance, within paths", label="Impact")
    ]


class C2Curve(Frozen):
    """Cumulative distribution, over large categories, of C²: the variance of a category's response times,
    divided by their squared mean (technical report, Figure 6)."""

    sample: str
    categories: int
    below_one: float | None
    """Share of large categories that have C² < 1; None without a large category."""
    requests_below_one: float | None
    """Share of the requests in large categories whose category has C² < 1; None without a large category."""
    largest: float | None
    points: tuple[tuple[float, float], ...]
    """Points of the curve: (C², share of the categories with at most this C²), ascending."""


class WatchedSource(Frozen):
    """Source of variance that the user marked as inadvertent; it is listed first until its C² has fallen
    below 1."""

    marker: MarkerRow
    site: str
    c2: float | None
    within: float
    resolved: bool
    """True if the source's C² is below 1: its marker may be removed."""


class VarianceSection(Section):
    """Exact decomposition of the variance: by part, site and category, with C² curves."""

    section: Literal["variance"] = "variance"
    sample: str
    mean_us: float
    sd_us: float
    c2: float
    residual_sd_us: float | None
    """Standard deviation of the response time that remains without marked sources, µs; None if no marker
    applies."""
    residual_within: float | None
    """Share of the variance within paths in the variance that remains without marked sources; None if no
    marker applies.
    """
    marked_share: float | None
    """Share of the variance removed by excluding marked sources, 1 - (remaining variance) / (variance)."""
    parts: tuple[VariancePart, ...]
    """Parts of the variance of the whole sample, then of each root type."""
    sites: tuple[VariableSite, ...]
    sites_total: int
    categories: tuple[VariableCategory, ...]
    categories_total: int
    curves: tuple[C2Curve, ...]
    """Distributions of C² over large categories, one per sample."""
    rare_requests: float
    """Share of the requests that are in categories of at most 10 requests."""
    markers: tuple[MarkerRow, ...]
    watched: tuple[WatchedSource, ...]


class VariableEdge(Frozen):
    """A call site or edge within one category; the shares of all edges of the category add up to 1."""

    number: Annotated[int, column("place", "from 1, by share")]
    label: Annotated[str, column("name", "edge or site")]
    site: Annotated[str, column("name", "site")]
    mean_us: Annotated[float, column("us", "mean time on the critical path, µs")]
    """Mean time on the critical path, µs; a request whose critical path does not contain the edge counts as
    0."""
    sd_us: Annotated[float, column("us", "its standard deviation, µs")]
    critical: Annotated[
        float, column("share", "share of requests with it on the critical path", label="Critical in", far=2)
    ]
    share: Annotated[float, column("part", "Cov(y, T)/Var(T) in the category; adds up to 1", label="Share")]
    share_winsorised: Annotated[
        float,
        column(
            "part",
            "the same with times cut at their 99.5 % quantile",
            label="Without the longest 0.5 %",
            far=2,
        ),
    ]
    highest: bool
    """True for the edges with the largest variance, which are highlighted."""
    inherits: int | None
    """`number` of the preceding edge that this edge waits for and whose variance it inherits; None if there
    is none.
    """
    marker: OfMarker


class EdgePair(Frozen):
    """Two edges or sites of a category whose times are correlated."""

    one: int
    """`VariableEdge.number` of the first edge or site."""
    other: int
    """`VariableEdge.number` of the second edge or site."""
    rho: float
    """Spearman's rank correlation of the times of the two edges."""
    q: float
    covariance_us2: float


class EdgeAdvice(Frozen):
    """Edge whose times mix two behaviours (are bimodal)."""

    category: str | None
    """Category in which the edge adds most to the variance; None: rare paths of a root type."""
    categories: int
    """Number of categories in which the edge's times are bimodal."""
    label: str
    worth: float
    """Share of the total variance due to the edge, 0 to 1."""
    delta_bic: float
    low_us: float
    """Median time of the faster behaviour, µs."""
    high_us: float
    """Median time of the slower behaviour, µs."""
    high_share: float
    cut_us: float
    explanation: Explanation | None
    """Explanation of the slower behaviour by a parameter; None: not searched for."""


class VarianceDetail(Frozen):
    """Variance of one category, by edge or site."""

    category: str | None
    root: str
    requests: int
    impact: float
    c2: float | None
    by: Literal["edges", "sites"]
    sd_us: float
    kept: float
    """Share of the variance that remains if the longest 0.5 % of the times of each part are clipped; a low
    share means heavy tails."""
    edges: tuple[VariableEdge, ...]
    edges_total: int
    edges_share: float
    """Sum of `share` over the edges in `edges`."""
    pairs: tuple[EdgePair, ...]
    pairs_total: int
    histogram: Histogram | None
    """Histogram of the times of the edge or site with the largest share."""


class MarkerSuggestion(Frozen):
    """Marker suggested by the name of a source, for the user to copy; never applied."""

    label: str
    kind: MarkerKind
    why: str
    within: float


class VarianceDetailsSection(Section):
    """Edges or sites of single categories, advice, suggested markers."""

    section: Literal["variance-details"] = "variance-details"
    details: tuple[VarianceDetail, ...]
    advice: tuple[EdgeAdvice, ...]
    suggestions: tuple[MarkerSuggestion, ...]


class SiteChange(Frozen):
    """Variance of a site before and after; contributions are shares of the variance before."""

    label: str
    caller: str | None
    within0: float
    within1: float
    change: float
    """Change of the site's contribution within and between paths, as a share of the variance before; over all
    sites these changes sum to the change of the variance. Sites are ordered by this field."""
    ratio: float
    """Variance of the waiting times for the site, after / before: the tested quantity."""
    interval: Interval
    """95 % interval of `ratio`."""
    q: float
    c20: float | None
    c21: float | None
    sd0_us: float
    sd1_us: float


class CategoryChange(Frozen):
    """C² of a category before and after, and the test of their ratio."""

    category: str
    root: str
    requests0: int
    requests1: int
    c20: float
    c21: float
    ratio: float
    interval: Interval
    q: float


class VarianceChangeSection(Section):
    """Variance of two samples compared: sites and categories that became more variable."""

    section: Literal["variance-change"] = "variance-change"
    before: str
    after: str
    sd0_us: float
    sd1_us: float
    ratio: float
    """Variance of all response times, after / before."""
    interval: Interval | None
    between: float | None = None
    """Share of the change that is between paths and root types; above 1 if the variance within paths changed
    in the other direction. None if the variance did not change significantly (see `interval`).
    """
    sites: tuple[SiteChange, ...]
    """Sites whose variance changed significantly and by more than the floor; sites that became more variable
    first."""
    sites_total: int
    sites_tested: int
    categories: tuple[CategoryChange, ...]
    categories_total: int
    categories_tested: int
    ks_p: float | None
    """p-value of a KS test between the variances of large categories before and after (NSDI'11, §8.7)."""
