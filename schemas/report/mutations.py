"""Sections of paper mode: root types, categories, ranked mutations, sums of their contributions."""

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
    """One root type, all its categories together."""

    root: str
    before: Moments
    after: Moments


class RootsSection(Section):
    """Mean and number of requests of each root type, in both periods; the busiest root type first."""

    section: Literal["roots"] = "roots"
    roots: tuple[RootRow, ...]
    roots_total: int


class SumsSection(Section):
    """Sums of the paper's contributions, together with the exact changes that they estimate.

    structural_exact_us + response_time_exact_us = total_change_us to rounding.
    """

    section: Literal["sums"] = "sums"
    total_change_us: float
    structural_estimate_us: float
    """Sum of the contributions of structural mutations, µs over all requests."""
    structural_exact_us: float
    """Sum over all categories of mean1·(n1 - n0), µs, with mean0 where a category has no requests in the
    problem (0: reference, 1: problem).
    """
    structural_error: float | None
    """Relative error of the estimate: (structural_estimate_us - structural_exact_us) / |structural_exact_us|;
    None if the denominator is 0."""
    response_time_estimate_us: float
    response_time_exact_us: float
    """Sum over all categories of n0·(mean1 - mean0), requests times µs (0: reference, 1: problem)."""
    response_time_error: float | None


class Role(StrEnum):
    """Role of a category in a comparison; a category may have several roles."""

    RESPONSE_TIME = "response-time"
    STRUCTURAL = "structural"
    PRECURSOR = "precursor"


Key = Annotated[str, column("key", "category key, after the refinement of this comparison")]
RootType = Annotated[str, column("text", "root type")]


class CategoryPeriods(Frozen):
    """A category with its statistics in both periods."""

    category: Key
    root: RootType
    canonical: Annotated[str, column("text", "canonical text")]
    n_nodes: Annotated[int, column("place", "number of nodes", label="Nodes", far=1)]
    before: Moments
    after: Moments


class CategoryRow(CategoryPeriods):
    """Row of the category table: statistics in both periods, KS test, roles."""

    ks: Annotated[KsResult, Inside("ks_")]
    roles: Annotated[tuple[Role, ...], column("keys", "structural, precursor, response-time")]
    change_us: Annotated[
        float, column("change", "change of the summed response time, µs", label="Change of the sum")
    ]
    """Change of the category's summed response time, n1·mean1 - n0·mean0, µs (0: reference, 1: problem)."""


class CategoriesSection(Section):
    """Table of the categories (requests with equal structure) and their changes between the periods."""

    section: Literal["categories"] = "categories"
    categories: tuple[CategoryRow, ...]
    """Categories, largest |change_us| first."""
    categories_total: int


class MutationKind(StrEnum):
    """Change of a category: of its response time, or of its number of requests."""

    RESPONSE_TIME = "response-time"
    STRUCTURAL = "structural"


class Direction(StrEnum):
    """Sign of a mutation's effect on the summed response time; if the effect is 0, sign of the change of the
    mean.
    """

    INCREASE = "increase"
    DECREASE = "decrease"


class EdgeRow(Frozen):
    """One edge of a category whose response time changed, with its statistics in both periods."""

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
    """Weighted share of reference requests with the edge on the critical path, 0 to 1."""
    criticality1: Annotated[float, column("share", "share of requests with the edge critical, problem")]
    ks: Annotated[KsResult, Inside("ks_")]
    """KS test of the latencies of requests in which the edge was critical, as published."""
    changed: Annotated[bool, column("flag", "the test rejected")]
    """True if the KS test rejected equality: the edge that the papers paint red."""
    attribution_us: Annotated[
        float,
        column("change", "A_e: exact part of the change of the mean, µs", label="Contribution"),
    ]
    """Contribution of the edge to the change of the category's mean response time, µs; the sum over all edges
    is that change.
    """
    latency_us: Annotated[float, column("change", "part of A_e from latency, µs")]
    """Part of `attribution_us` from a changed latency of the edge, µs."""
    criticality_us: Annotated[float, column("change", "part of A_e from criticality, µs")]
    """Part of `attribution_us` from the edge being on the critical path more, or less, often, µs."""
    skewed: Annotated[bool, column("flag", "a clock correction touched the edge")]


class ListedCategory(CategoryPeriods):
    """A category with the stored categories that were merged into it."""

    stored: tuple[str, ...]
    """Keys, ascending, of the lake's categories that were merged into this one; only the first ones if there
    are many."""
    stored_total: int


class PrecursorRow(ListedCategory):
    """One candidate precursor of a structural mutation."""

    edits: int
    """Levenshtein distance (number of edits) between the token sequences of the candidate and of the
    mutation."""
    distance: float
    """Distance to the mutation by which precursors are ranked: edits, or (by the settings) edits / longer
    length.
    """
    share: float
    """Weight of this candidate in the mutation's baseline mean; the weights of all candidates sum to 1."""


class Mutation(ListedCategory):
    """One mutation: a category that changed, with its rank and its evidence."""

    rank: Annotated[
        int,
        column("place", "from 1: the direction of the change first, then |contribution|", label="#"),
    ]
    """Rank from 1; mutations in the direction of the mean's change come first."""
    kind: Annotated[MutationKind, column("text", "response-time or structural")]
    direction: Annotated[Direction, column("text", "increase or decrease of response time in sum")]
    ks: KsResult
    """KS test of the category's response times."""
    contribution_us: Annotated[float, column("change", "rank key, requests times µs", label="Contribution")]
    """Contribution by the formula chosen in the settings; mutations are ranked by it."""
    contribution_nsdi_us: Annotated[float, column("change", "by the NSDI'11 formula")]
    contribution_tr_us: Annotated[float, column("change", "by the technical report's formula")]
    share_of_listed: float
    """|contribution| as a share of the sum of |contribution| over all mutations, 0 to 1."""
    virtual: Annotated[str, column("text", "why the category has several rows; empty otherwise")]
    """Reason why the category has several rows (a structural and a response-time mutation); empty if it has
    one row."""
    no_precursor: bool
    """True for a structural mutation without candidates; its baseline is the problem-period mean of its root
    type."""
    one_to_n_relaxed: bool
    """True for a structural mutation for which no single category lost enough requests (1:N): its precursors
    are several categories that may together have lost the requests."""
    baseline_mean_us: Annotated[
        float | None,
        column("us", "mean that the mutation is compared with, µs: its precursors', or its own before"),
    ]
    """Mean response time that the mutation is compared with, µs: mean of its precursors, weighted by
    similarity; for a response-time mutation its own mean in the reference.
    """
    edges: tuple[EdgeRow, ...]
    """Edges of a response-time mutation: changed ones first, then by |`attribution_us`|, largest first."""
    edges_total: int
    edges_changed: Annotated[int, column("place", "edges whose test rejected; 0 for structural mutations")]
    displaced_us: float | None
    """Response-time mutations: sum of `attribution_us` over the edges that did not change by test."""
    recoverable_us: float | None
    """Detailed response-time mutations: mean response time that the problem period would save if the changed
    edges had their reference latencies (counterfactual)."""
    precursors: tuple[PrecursorRow, ...]
    """Candidate precursors of a structural mutation, most likely first; empty for a response-time
    mutation."""
    precursors_total: int
    histograms: tuple[Histogram, ...]
    """Histograms of a detailed response-time mutation: the response time first, then the most changed
    edges.
    """
    difference: GraphDifference | None
    """Detailed structural mutations: difference to the most likely precursor."""
    account: StepAccount | None
    """Step account of a detailed mutation; a structural mutation is compared with its most likely precursor,
    or with itself if it has none."""


class RankedList(Frozen):
    """Mutations listed together, best first."""

    direction: Direction | None
    """Direction of the listed mutations; None: both, by signed contribution."""
    ranks: tuple[int, ...]
    """Ranks of the listed mutations; if the list is cut, the table `mutations` has all."""
    total: int


class MutationsSection(Section):
    """Mutations, the ranked lists that show them, and the graphs of the detailed mutations."""

    section: Literal["mutations"] = "mutations"
    lists: tuple[RankedList, ...]
    """Lists in reading order; none is empty."""
    mutations: tuple[Mutation, ...]
    """Mutations in ascending order of `rank`, up to the report's limit; `mutations_total` counts all."""
    mutations_total: int
    structural_total: int
    response_time_total: int
    precursors_total: int
    """Number of categories that lost enough requests to be precursors, whether or not a mutation names
    them."""
    graphs: dict[str, GraphView]
    """Category key -> graph, for detailed mutations and their first precursors."""


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
"""Columns of the table `painted`, one row per edge of every category; in reports of `variant=released`
only."""
