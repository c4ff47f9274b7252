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
    """The three I's of variance (VF §3)."""

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
"""Interval of a C²; None if unknown."""


class MarkerRow(Frozen):
    """User's judgement of a source of variance."""

    label: str
    kind: MarkerKind
    owner: str
    reason: str
    expires: str | None
    """ISO date of expiry; None: never."""
    state: Literal["holds", "expired", "unused"]
    """State of the marker; unused: no edge and no site has its label."""


class VariancePart(Frozen):
    """One part of the sample's variance; the parts add up to 1."""

    kind: Literal["roots", "paths", "within"]
    """Between root types; between paths of a root type; within paths."""
    root: str | None
    """Root type that the part belongs to; None: all."""
    share: float


class VariableSite(Frozen):
    """A call site or edge, and its contribution to the variance."""

    label: Annotated[str, column("name", "edge between two trace points, or call")]
    """`a/x -> b/y`, or a call: the label that a marker uses."""
    caller: Annotated[str | None, column("name", "who calls")]
    requests: Annotated[int, column("count", "recorded requests", label="Requests", far=2)]
    """Requests that waited for the site."""
    mean_us: Annotated[float, column("us", "weighted mean, µs")]
    sd_us: Annotated[float, column("us", "weighted standard deviation, µs")]
    """Standard deviation of the waiting times for the site."""
    c2: Annotated[float | None, column("c2", C2_ABOUT, label="C²", far=1, interval="c2_interval")]
    c2_interval: Ends
    within: Annotated[
        float,
        column(
            "part", "part of the variance: within paths", label="Within paths", interval="within_interval"
        ),
    ]
    within_interval: Annotated[Interval | None, Inside("within_")]
    """Interval of the site's share within paths, by which sites are ordered."""
    paths: Annotated[float, column("part", "between paths of a root type", label="Between paths", far=2)]
    roots: Annotated[float, column("part", "between root types", label="Between root types", far=3)]
    total: Annotated[float, column("share", "all three; 1 over all sites")]
    residual: Annotated[
        float | None,
        column("part", "part of what is left without marked sources", label="Of what is left"),
    ]
    """Share of the residual variance within paths; None unless a marker applies."""
    marker: OfMarker


class VariableCategory(Frozen):
    """A category, or all rare ones of a root type together."""

    category: Annotated[str | None, column("key", "key after refinement; null: rare ones of a root type")]
    """Category key; None for the rare categories, with at most 10 requests each."""
    members: Annotated[int, column("count", "categories in it")]
    root: Annotated[str, column("name", "root type", label="Root type")]
    canonical: str
    requests: Annotated[int, column("count", "recorded requests", label="Requests", far=1)]
    mean_us: Annotated[float, column("us", "weighted mean, µs", label="Mean", far=1)]
    sd_us: Annotated[float, column("us", "weighted standard deviation, µs", label="Deviation", far=2)]
    c2: Annotated[float | None, column("c2", C2_ABOUT, label="C²", interval="c2_interval")]
    c2_interval: Ends
    c2_residual: Annotated[float | None, column("c2", "without marked sources", label="Without markers")]
    """C² of the category without the marked sources; None unless a marker applies."""
    impact: Annotated[
        float, column("part", "p·σ²/Var(T): part of the variance, within paths", label="Impact")
    ]


class C2Curve(Frozen):
    """Distribution of C² over large categories (TR Figure 6)."""

    sample: str
    categories: int
    below_one: float | None
    """Share of large categories with C² < 1; None without a large category."""
    requests_below_one: float | None
    """Share of the requests of large categories that lie in categories with C² < 1."""
    largest: float | None
    points: tuple[tuple[float, float], ...]
    """Points of the curve: (C², share of the categories with at most this C²), ascending."""


class WatchedSource(Frozen):
    """A source marked inadvertent, listed first until its C² has fallen below 1."""

    marker: MarkerRow
    site: str
    c2: float | None
    within: float
    resolved: bool
    """True if C² is below 1: the marker may be removed."""


class VarianceSection(Section):
    """Tier 1: exact decomposition, sites, categories, C² curve."""

    section: Literal["variance"] = "variance"
    sample: str
    mean_us: float
    sd_us: float
    c2: float
    residual_sd_us: float | None
    residual_within: float | None
    """Share within paths of the variance without marked sources (`residual_sd_us`: its standard
    deviation)."""
    marked_share: float | None
    """Share of the variance removed by excluding marked sources: 1 - Var(T')/Var(T)."""
    parts: tuple[VariancePart, ...]
    """Parts of the whole sample's variance, then those of each root type."""
    sites: tuple[VariableSite, ...]
    sites_total: int
    categories: tuple[VariableCategory, ...]
    categories_total: int
    curves: tuple[C2Curve, ...]
    """C² curves, one a sample."""
    rare_requests: float
    """Share of the requests that are in categories of at most 10 requests."""
    markers: tuple[MarkerRow, ...]
    watched: tuple[WatchedSource, ...]


class VariableEdge(Frozen):
    """A part of a category's response time; shares of one category add up to 1."""

    number: Annotated[int, column("place", "from 1, by share")]
    label: Annotated[str, column("name", "edge or site")]
    site: Annotated[str, column("name", "site")]
    mean_us: Annotated[float, column("us", "mean time on the critical path, µs")]
    """Mean time on the critical path, with 0 for requests that do not have it there."""
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
    """True for the edges of the highest variance, which the paper highlights."""
    inherits: int | None
    """Number of the preceding edge that this one waits for, and whose variance it therefore has."""
    marker: OfMarker


class EdgePair(Frozen):
    """Two parts of a category's response time that vary together."""

    one: int
    other: int
    """Number of the second edge (`one`: of the first)."""
    rho: float
    """Spearman's rank correlation of the two times."""
    q: float
    covariance_us2: float


class EdgeAdvice(Frozen):
    """An edge whose times mix two behaviours."""

    category: str | None
    """Category in which the edge adds most to the variance; None: rare paths of a root type."""
    categories: int
    """Number of categories in which the edge's times are bimodal."""
    label: str
    worth: float
    """Share of the total variance due to the edge."""
    delta_bic: float
    low_us: float
    high_us: float
    """Median of the slower behaviour (`low_us`: of the faster)."""
    high_share: float
    cut_us: float
    explanation: Explanation | None
    """Explanation of the slower behaviour by a parameter; None: not searched for."""


class VarianceDetail(Frozen):
    """Tier 2: one category and its parts."""

    category: str | None
    root: str
    requests: int
    impact: float
    c2: float | None
    by: Literal["edges", "sites"]
    sd_us: float
    kept: float
    """Share of the variance left after clipping the longest 0.5 % of each part: low for heavy tails."""
    edges: tuple[VariableEdge, ...]
    edges_total: int
    edges_share: float
    """Sum of the shares of the edges shown."""
    pairs: tuple[EdgePair, ...]
    pairs_total: int
    histogram: Histogram | None
    """Histogram of the times of the part with the largest share."""


class MarkerSuggestion(Frozen):
    """Marker suggested by the name of a source. Never applied: for the user to copy."""

    label: str
    kind: MarkerKind
    why: str
    within: float


class VarianceDetailsSection(Section):
    """Tier 2: edges or sites of some categories, advice, suggested markers."""

    section: Literal["variance-details"] = "variance-details"
    details: tuple[VarianceDetail, ...]
    advice: tuple[EdgeAdvice, ...]
    suggestions: tuple[MarkerSuggestion, ...]


class SiteChange(Frozen):
    """A site before and after; parts are shares of the variance before."""

    label: str
    caller: str | None
    within0: float
    within1: float
    change: float
    """Change of the site's whole contribution, within and between paths; the changes of all sites, which are
    ordered by it, add up to the change of the variance."""
    ratio: float
    """Ratio after/before of the variance of the waiting times for the site: the quantity tested."""
    interval: Interval
    """95 % interval of `ratio`."""
    q: float
    c20: float | None
    c21: float | None
    sd0_us: float
    sd1_us: float


class CategoryChange(Frozen):
    """C² of a category before and after."""

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
    """Ratio of the variances, after over before."""
    interval: Interval | None
    between: float | None = None
    """Part of the change that is between paths and root types; above 1 if the part within paths changed in
    the other direction. None if the variance did not change significantly (see `interval`)."""
    sites: tuple[SiteChange, ...]
    """Sites that changed significantly and beyond the floor; more variable ones first."""
    sites_total: int
    sites_tested: int
    categories: tuple[CategoryChange, ...]
    categories_total: int
    categories_tested: int
    ks_p: float | None
    """p of a KS test between the variances of large categories before and after (NSDI §8.7)."""
