"""Sections of paper mode: root types, categories, ranked mutations, what their contributions add up to."""

from __future__ import annotations

from enum import StrEnum
from operator import attrgetter
from typing import Annotated, Final, Literal

from schemas.report.columns import Inside, column, columns_of, stored
from schemas.report.parts import (
    Frozen,
    GraphDifference,
    GraphView,
    Histogram,
    KsResult,
    Moments,
    Section,
    StepAccount,
)


class RootRow(Frozen):
    """All categories of one root type."""

    root: str
    before: Moments
    after: Moments


class RootsSection(Section):
    """Root types, busiest first."""

    section: Literal["roots"] = "roots"
    roots: tuple[RootRow, ...]
    roots_total: int


class SumsSection(Section):
    """What the paper's contributions add up to, beside what they should.

    structural_exact_us + response_time_exact_us = total_change_us to rounding.
    """

    section: Literal["sums"] = "sums"
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


class Role(StrEnum):
    """What a category is in a comparison; it may be several."""

    RESPONSE_TIME = "response-time"
    STRUCTURAL = "structural"
    PRECURSOR = "precursor"


Key = Annotated[str, column("key", "category key, after the refinement of this comparison")]
RootType = Annotated[str, column("text", "root type")]


class CategoryPeriods(Frozen):
    """A category in both periods."""

    category: Key
    root: RootType
    canonical: Annotated[str, column("text", "canonical text")]
    n_nodes: Annotated[int, column("place", "number of nodes", label="Nodes", far=1)]
    before: Moments
    after: Moments


class CategoryRow(CategoryPeriods):
    """One line of the category table."""

    ks: Annotated[KsResult, Inside("ks_")]
    roles: Annotated[tuple[Role, ...], column("keys", "structural, precursor, response-time")]
    change_us: Annotated[
        float, column("change", "change of the summed response time, µs", label="Change of the sum")
    ]
    """n1·mean1 - n0·mean0."""


class CategoriesSection(Section):
    """The category table."""

    section: Literal["categories"] = "categories"
    categories: tuple[CategoryRow, ...]
    """By |change_us|."""
    categories_total: int


class MutationKind(StrEnum):
    """What changed about a category."""

    RESPONSE_TIME = "response-time"
    STRUCTURAL = "structural"


class Direction(StrEnum):
    """Whether a mutation made requests take longer in sum or shorter; one that did neither goes with the
    change of the mean."""

    INCREASE = "increase"
    DECREASE = "decrease"


class EdgeRow(Frozen):
    """One edge of a response-time mutation."""

    src: Annotated[int, column("place", "canonical position of the earlier node")]
    dst: Annotated[int, column("place", "canonical position of the later node")]
    src_label: Annotated[str, column("text", "label of the earlier node")]
    dst_label: Annotated[str, column("text", "label of the later node")]
    mean0_us: Annotated[
        float | None,
        column("us", "mean latency where critical, reference, µs", label="Latency where critical"),
    ]
    mean1_us: Annotated[float | None, column("us", "mean latency where critical, problem, µs")]
    criticality0: Annotated[
        float,
        column(
            "share",
            "share of requests with the edge critical, reference",
            label="On the critical path",
            far=1,
        ),
    ]
    """Weighted (π)."""
    criticality1: Annotated[float, column("share", "share of requests with the edge critical, problem")]
    ks: Annotated[KsResult, Inside("ks_")]
    """On the latencies of requests in which the edge was critical, as published."""
    changed: Annotated[bool, column("flag", "the test rejected")]
    """The papers' red edge."""
    attribution_us: Annotated[
        float,
        column("change", "A_e: exact part of the change of the mean, µs", label="Contribution"),
    ]
    """Of the category; over all its edges they sum to it."""
    latency_us: Annotated[float, column("change", "part of A_e from latency, µs")]
    """From the edge getting slower."""
    criticality_us: Annotated[float, column("change", "part of A_e from criticality, µs")]
    """From the edge being critical more often."""
    skewed: Annotated[bool, column("flag", "a clock correction touched the edge")]


class ListedCategory(CategoryPeriods):
    """A category with what it was made of."""

    stored: tuple[str, ...]
    """Keys of the lake's categories whose requests these are, ascending, the first of `stored_total`."""
    stored_total: int


class PrecursorRow(ListedCategory):
    """One candidate precursor of a structural mutation."""

    edits: int
    """Levenshtein distance of the token sequences."""
    distance: float
    """The distance of the settings (raw, or divided by the longer sequence): rank key."""
    share: float
    """Weight in the mean the mutation is compared with; the candidates of one mutation sum to 1."""


class Mutation(ListedCategory):
    """One ranked result."""

    rank: Annotated[
        int,
        column("place", "from 1: the direction of the change first, then |contribution|", label="#"),
    ]
    """The direction in which the mean went."""
    kind: Annotated[MutationKind, column("text", "response-time or structural")]
    direction: Annotated[Direction, column("text", "increase or decrease of response time in sum")]
    ks: KsResult
    """On response time."""
    contribution_us: Annotated[float, column("change", "rank key, requests times µs", label="Contribution")]
    """By the ranking of the settings."""
    contribution_nsdi_us: Annotated[float, column("change", "by the NSDI'11 formula")]
    contribution_tr_us: Annotated[float, column("change", "by the technical report's formula")]
    share_of_listed: float
    """|contribution| / sum of |contribution| over all mutations."""
    virtual: Annotated[str, column("text", "why the category has several rows; empty otherwise")]
    """Virtual categories."""
    no_precursor: bool
    """Structural: no candidate; compared with the problem-period mean of its root type."""
    one_to_n_relaxed: bool
    """Structural: no single category lost enough requests (1:N), so the precursors are those without that
    heuristic: several categories that may have given requests together."""
    baseline_mean_us: Annotated[
        float | None,
        column("us", "mean that the mutation is compared with, µs: its precursors', or its own before"),
    ]
    """Of the precursors weighted by similarity."""
    edges: tuple[EdgeRow, ...]
    """Response time: changed edges first, then by |A_e|; so the first is the reddest."""
    edges_total: int
    edges_changed: Annotated[int, column("place", "edges whose test rejected; 0 for structural mutations")]
    displaced_us: float | None
    """Response time: sum of A_e over edges that did not change by test ("displaced on the critical path")."""
    recoverable_us: float | None
    """Response time, detailed mutations: mean response time the problem period would save if the changed
    edges had their reference latencies (counterfactual)."""
    precursors: tuple[PrecursorRow, ...]
    """Structural: most likely first."""
    precursors_total: int
    histograms: tuple[Histogram, ...]
    """Response time T first, then the reddest edges; detailed mutations only."""
    difference: GraphDifference | None
    """Structural and detailed: against the most likely precursor."""
    account: StepAccount | None
    """Detailed mutations; structural ones against the most likely precursor, by itself if there is none."""


class RankedList(Frozen):
    """Mutations that are read as one list, best first."""

    direction: Direction | None
    """Whose list it is; None: both ways in one list by signed contribution."""
    ranks: tuple[int, ...]
    """Of the mutations listed; the list goes on in the table `mutations` where it is cut."""
    total: int


class MutationsSection(Section):
    """All mutations, the graphs of the detailed ones, and the lists they are read in."""

    section: Literal["mutations"] = "mutations"
    lists: tuple[RankedList, ...]
    """In the order in which they are read; none is empty."""
    mutations: tuple[Mutation, ...]
    """By rank."""
    mutations_total: int
    structural_total: int
    response_time_total: int
    precursors_total: int
    """Categories over the threshold as precursors, whether or not a mutation points to them."""
    graphs: dict[str, GraphView]
    """By category key; of detailed mutations and their first precursor."""


_STORED = stored("stored", "keys", "keys of the lake's categories whose requests these are")

_MOMENTS = (
    stored("count{}", "count", "recorded requests, {}", attrgetter("before.count", "after.count")),
    stored(
        "mean{}_us",
        "us",
        "weighted mean response time, µs, {}",
        attrgetter("before.mean_us", "after.mean_us"),
        null=True,
    ),
    stored(
        "variance{}_us2",
        "number",
        "weighted variance of response time, µs², {}",
        attrgetter("before.variance_us2", "after.variance_us2"),
        null=True,
    ),
    stored(
        "c2{}",
        "number",
        "squared coefficient of variation; count > 10 only, {}",
        attrgetter("before.c2", "after.c2"),
        null=True,
    ),
)


MUTATIONS: Final = (
    *columns_of(Mutation, "rank", "kind", "direction", "category"),
    _STORED,
    *columns_of(Mutation, "root", "contribution_us", "contribution_nsdi_us", "contribution_tr_us"),
    *columns_of(Mutation, "baseline_mean_us"),
    stored("precursors", "place", "candidate precursors; 0 for response-time mutations"),
    *columns_of(Mutation, "edges_changed", "virtual"),
)

EDGES: Final = (
    stored("rank", "place", "rank of the response-time mutation"),
    stored("category", "key", "category key"),
    *columns_of(EdgeRow),
)

PRECURSORS: Final = (
    stored("rank", "place", "rank of the structural mutation"),
    stored("mutation", "key", "category key of the mutation"),
    stored("place", "place", "from 1, most likely first"),
    stored("category", "key", "category key of the precursor"),
    _STORED,
    stored("edits", "place", "Levenshtein distance of the token sequences"),
    stored("distance", "number", "distance of the settings"),
    stored("share", "share", "weight in the mutation's baseline mean"),
)

CATEGORIES: Final = (
    *columns_of(CategoryRow, "category"),
    _STORED,
    *columns_of(CategoryRow, "root", "canonical", "n_nodes"),
    *_MOMENTS,
    *columns_of(CategoryRow, "ks_n0", "ks_n1", "ks_d", "ks_p", "roles", "change_us"),
)

PAINTED: Final = (
    *columns_of(CategoryRow, "category"),
    *columns_of(EdgeRow, "src", "dst", "src_label", "dst_label"),
    stored("ks_n{}", "count", "latencies tested, {}: of all places of this name in the category"),
    stored("ks_d", "number", "one-sided KS statistic; null where the test was not run", null=True),
    stored("ks_p", "p", "its p-value", null=True),
    stored("changed", "flag", "the test rejected: the edge is painted"),
)
"""One row an edge of every category; in reports of `variant=released` only."""
