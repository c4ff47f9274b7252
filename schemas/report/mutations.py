"""Sections of paper mode: root types, categories, ranked mutations, what their contributions add up to."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

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
    """A_e: the edge's part of the category's change of mean; over all edges they sum to it exactly."""
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
    """Weight in the mean the mutation is compared with; the candidates of one mutation sum to 1."""


class Mutation(Frozen):
    """One ranked result."""

    rank: int
    """From 1: first those of the direction in which the mean went, by |contribution|; then the others."""
    rank_in_direction: int
    """From 1, by |contribution| among the mutations of the same direction (the papers' separate lists)."""
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
    """contribution / total change of summed response time; does not add up to 1 over mutations."""
    share_of_listed: float
    """|contribution| / sum of |contribution| over all mutations."""
    virtual: str
    """Why the category appears more than once (virtual categories); empty otherwise."""
    no_precursor: bool
    """Structural: no candidate; compared with the problem-period mean of its root type."""
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
