"""The report model: one comparison, frozen, versioned, bounded in size, free of clocks and NaN.

Written as JSON, as tables, as text and as HTML; whatever a renderer shows comes from here. Times are float
microseconds unless a name says ns; period 0 is the reference, period 1 the problem. Lists that are cut say
`shown of total` in a `*_total` field. The same input gives the same bytes.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict

REPORT_VERSION: Final = 1
"""Version of the model; a change of it needs a new one."""


class Frozen(BaseModel):
    """Base of the report's parts: frozen, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class MutationKind(StrEnum):
    """What changed about a category."""

    RESPONSE_TIME = "response-time"
    STRUCTURAL = "structural"


class Direction(StrEnum):
    """Whether a mutation made requests take longer in sum or shorter; one that did neither goes with the
    change of the mean."""

    INCREASE = "increase"
    DECREASE = "decrease"


class Role(StrEnum):
    """What a category is in a comparison; it may be several."""

    RESPONSE_TIME = "response-time"
    STRUCTURAL = "structural"
    PRECURSOR = "precursor"


class Verdict(StrEnum):
    """The comparison in one word."""

    NO_MUTATION = "no-mutation"
    MUTATIONS = "mutations"


class PeriodSummary(Frozen):
    """One side of the comparison, over the flows that were tested."""

    text: str
    """The period as a person would write it (UTC)."""
    start_ns: int
    end_ns: int
    """Half open, ns since the epoch."""
    where: str
    """Filter expression; empty for none."""
    requests: int
    """Flows, as recorded (n)."""
    weighted_requests: float
    """Sum of weights (Y)."""
    mean_us: float | None
    """Weighted mean response time; None without requests."""
    median_us: float | None
    p99_us: float | None
    """Quantiles of the response times as recorded (unweighted)."""
    total_us: float
    """n times mean: the summed response time of the recorded flows."""
    categories: int
    excluded: dict[str, int]
    """Quality flag -> flows kept out of every test."""


class Headline(Frozen):
    """What happened to the mean response time, and to the load."""

    mean0_us: float | None
    mean1_us: float | None
    delta_us: float | None
    delta_share: float | None
    """delta / mean0."""
    requests0: int
    requests1: int
    load_ratio: float | None
    """Requests per second, problem / reference, each from its first to its last request (a period may hold
    windows without traffic); None where a period has fewer than two."""
    total_change_us: float
    """Change of the summed response time, n1·mean1 - n0·mean0."""
    sentence: str
    """One sentence for the top of the page."""


class Moments(Frozen):
    """Response times of one category in one period."""

    count: int
    mean_us: float | None
    """Weighted mean; None for an empty category."""
    variance_us2: float | None
    """Weighted population variance; None below two requests."""
    c2: float | None
    """Squared coefficient of variation, variance / mean²; shown for count > 10 only (E tier 1)."""


class KsResult(Frozen):
    """Two-sample Kolmogorov-Smirnov test; None fields where it was not run (too few values)."""

    n0: int
    n1: int
    d: float | None
    p: float | None


class EdgeRow(Frozen):
    """One edge of a response-time mutation."""

    src: int
    dst: int
    """Canonical positions in the category's graph."""
    src_label: str
    dst_label: str
    mean0_us: float | None
    mean1_us: float | None
    """Mean latency over the requests in which the edge was on the critical path."""
    criticality0: float
    criticality1: float
    """Weighted share of requests with the edge on the critical path (π)."""
    ks: KsResult
    """On the latencies of requests in which the edge was critical, as published."""
    changed: bool
    """The test rejected: the papers' red edge."""
    attribution_us: float
    """A_e (B.10): the edge's part of the category's change of mean; over all edges they sum to it exactly."""
    latency_us: float
    """Part of A_e from the edge getting slower."""
    criticality_us: float
    """Part of A_e from the edge being critical more often."""
    skewed: bool
    """A clock correction touched this edge."""


class PrecursorRow(Frozen):
    """One candidate precursor of a structural mutation."""

    category: str
    root: str
    stored: tuple[str, ...]
    """Keys of the lake's categories whose requests these are, ascending, the first of `stored_total`."""
    stored_total: int
    canonical: str
    n_nodes: int
    before: Moments
    after: Moments
    edits: int
    """Levenshtein distance of the token sequences."""
    distance: float
    """The distance of the settings (raw, or divided by the longer sequence): rank key."""
    share: float
    """Weight in the mean the mutation is held against; the candidates of one mutation sum to 1."""


class Histogram(Frozen):
    """Counts of both periods over the same log-spaced bins."""

    title: str
    edges_us: tuple[float, ...]
    """[bins + 1] ascending, > 0 but for the first, which may be 0."""
    counts0: tuple[int, ...]
    counts1: tuple[int, ...]


class GraphNode(Frozen):
    """One node of a graph that is drawn."""

    label: str
    component: str


class GraphEdge(Frozen):
    """One edge of a graph that is drawn, with its weighted mean latency over all requests of a period."""

    src: int
    dst: int
    mean0_us: float | None
    mean1_us: float | None


class GraphView(Frozen):
    """A category's graph, to be drawn; nodes in canonical order, the first `len(nodes)` of `nodes_total`."""

    category: str
    root: str
    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    nodes_total: int


class GraphDifference(Frozen):
    """Nodes of a mutation and of its precursor that have no partner in the other (by label alignment)."""

    precursor: str
    only_mutation: tuple[int, ...]
    only_precursor: tuple[int, ...]


class Mutation(Frozen):
    """One ranked result."""

    rank: int
    """From 1: first those of the direction in which the mean went, by |contribution|; then the others."""
    rank_in_direction: int
    """From 1, among the mutations of the same direction (the papers' separate lists)."""
    kind: MutationKind
    direction: Direction
    category: str
    root: str
    stored: tuple[str, ...]
    """Keys of the lake's categories whose requests these are, ascending, the first of `stored_total`."""
    stored_total: int
    canonical: str
    n_nodes: int
    before: Moments
    after: Moments
    ks: KsResult
    """On response time."""
    contribution_us: float
    """The rank key, by the ranking of the settings: requests times µs."""
    contribution_nsdi_us: float
    contribution_tr_us: float
    share_of_change: float | None
    """contribution / total change of summed response time; does not add up to 1 over mutations (C.7)."""
    share_of_listed: float
    """|contribution| / sum of |contribution| over all mutations."""
    virtual: str
    """Why the category appears more than once (virtual categories); empty otherwise."""
    no_precursor: bool
    """Structural: no candidate; held against the problem-period mean of its root type (C.7)."""
    one_to_n_relaxed: bool
    """Structural: no single category lost enough requests (1:N), so the precursors are those without that
    heuristic: several categories that may have given requests together."""
    baseline_mean_us: float | None
    """Structural: mean of the precursors, weighted by similarity; response time: mean before."""
    edges: tuple[EdgeRow, ...]
    """Response time: changed edges first, then by |A_e|; so the first is the reddest."""
    edges_total: int
    edges_changed: int
    displaced_us: float | None
    """Response time: sum of A_e over edges that did not change by test ("displaced on the critical path")."""
    recoverable_us: float | None
    """Response time, detailed mutations: mean response time the problem period would save if the changed
    edges had their reference latencies (counterfactual, B.10)."""
    precursors: tuple[PrecursorRow, ...]
    """Structural: most likely first."""
    precursors_total: int
    histograms: tuple[Histogram, ...]
    """Response time T first, then the reddest edges; detailed mutations only."""
    difference: GraphDifference | None
    """Structural and detailed: against the most likely precursor."""


class CategoryRow(Frozen):
    """One line of the category table."""

    category: str
    root: str
    canonical: str
    n_nodes: int
    before: Moments
    after: Moments
    ks: KsResult
    roles: tuple[Role, ...]
    change_us: float
    """n1·mean1 - n0·mean0."""


class RootRow(Frozen):
    """All categories of one root type."""

    root: str
    before: Moments
    after: Moments


class Sums(Frozen):
    """What the paper's contributions add up to, beside what they should (B.1b, C.7).

    structural_exact_us + response_time_exact_us = total_change_us to rounding.
    """

    total_change_us: float
    structural_estimate_us: float
    """Sum of the structural mutations' contributions."""
    structural_exact_us: float
    """Sum over all categories of mean1·(n1 - n0), mean0 where the category is empty in period 1."""
    structural_error: float | None
    """(estimate - exact) / |exact|."""
    response_time_estimate_us: float
    response_time_exact_us: float
    """Sum over all categories of n0·(mean1 - mean0)."""
    response_time_error: float | None


class ComparisonSettings(Frozen):
    """How the comparison was made, in full: with it and the lake the result can be made again."""

    variant: Literal["text", "released"]
    level: Literal["L0", "L3"]
    sm_threshold: int
    alpha: float
    min_requests: int
    one_to_n: bool
    distance: Literal["raw", "normalized"]
    ranking: Literal["nsdi", "tr"]
    refine: dict[str, str]
    """Settings of the refinement, as text."""


class Comparison(Frozen):
    """One comparison of a reference and a problem period."""

    schema_version: Literal[1] = REPORT_VERSION
    id: str
    """First 16 hex digits of the SHA-256 of everything but `id`, `created_at` and `source`."""
    mode: Literal["paper"] = "paper"
    created_at: str | None
    """ISO time, UTC, where the caller gave one."""
    source: str
    """Name of the lake(s), for people."""
    settings: ComparisonSettings
    reference: PeriodSummary
    problem: PeriodSummary
    notes: tuple[str, ...]
    """Data quality, one sentence each."""
    headline: Headline
    mutations: tuple[Mutation, ...]
    """By rank."""
    mutations_total: int
    structural_total: int
    response_time_total: int
    precursors_total: int
    """Categories over the threshold as precursors, whether or not a mutation points to them."""
    graphs: dict[str, GraphView]
    """By category key; of detailed mutations and their first precursor."""
    roots: tuple[RootRow, ...]
    roots_total: int
    categories: tuple[CategoryRow, ...]
    """By |change_us|."""
    categories_total: int
    sums: Sums
    verdict: Verdict
    verdict_text: str


_NOT_IN_ID = {"id", "created_at", "source"}


def content_id(comparison: Comparison) -> str:
    """The id that belongs to a comparison's content."""
    content = comparison.model_dump_json(exclude=_NOT_IN_ID)
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def with_id(comparison: Comparison) -> Comparison:
    """The same comparison with its `id` filled in."""
    return comparison.model_copy(update={"id": content_id(comparison)})


def to_json(comparison: Comparison) -> str:
    """Versioned JSON, one line a level, ending in a newline; byte-identical for equal comparisons."""
    return comparison.model_dump_json(indent=1) + "\n"
