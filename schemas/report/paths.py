"""Section `paths`: paths that requests took before and after. No verdict depends on it."""

from __future__ import annotations

from typing import Literal

from schemas.report.parts import Frozen, NodeName, Section

StepFate = Literal["kept", "replaced", "lost", "gained", "run"]
MoveKind = Literal["replaced", "inserted", "removed", "other-steps", "repeats", "order", "no-comparison"]


class PathAccountRow(Frozen):
    """Exact account over whole paths, µs a request: the four parts add up to after - before."""

    before_us: float
    after_us: float
    mix_us: float
    """Part from the mix of root types."""
    structure_us: float
    """Part from requests that took another path."""
    timing_us: float
    """Part from changed times of the same paths, where significant."""
    rest_us: float
    """Part that no test attributes: noise, and changes too small to see."""


class PathEnd(Frozen):
    """A category as source or target of a move."""

    category: str
    requests0: int
    requests1: int
    share0: float
    """Weighted share of its root type's requests in the reference."""
    share1: float
    mean0_us: float | None
    mean1_us: float | None
    p: float
    """p-value of the change of the share, against the history."""
    q: float | None
    """q-value of the change of the share; None if not tested individually."""


class PathMoveRow(Frozen):
    """Requests that took another path: precursor → mutation."""

    root: str
    source: PathEnd | None
    """Precursor; None: no path lost as many requests."""
    target: PathEnd | None
    """Mutation; None: the requests are spread over paths that did not change by test."""
    share: float
    """Share of all requests that moved."""
    contribution_us: float
    confidence: float | None
    """Share of resamples in which at least half of this move occurs; None: not resampled."""


class DifferenceRow(Frozen):
    """One step of the difference of two paths, or a run of steps left out."""

    fate: StepFate
    before: NodeName | None
    after: NodeName | None
    steps: int
    differing: int
    """Number of differing steps in a run (if the view is cut)."""


class PathGroupRow(Frozen):
    """Moves that make the same change, in any number of categories."""

    rank: int
    kind: MoveKind
    title: str
    """Sentence: the steps done now, and the steps they replace."""
    new: bool
    """True if there is no precursor: compared with the usual path of its root type."""
    lost: bool
    roots: tuple[str, ...]
    roots_total: int
    share: float
    """Share of all requests that moved in the group."""
    contribution_us: float
    anchor: NodeName | None
    """Last common step before the first difference."""
    inserted: tuple[NodeName, ...]
    removed: tuple[NodeName, ...]
    replaced: tuple[tuple[NodeName, NodeName], ...]
    moves: tuple[PathMoveRow, ...]
    moves_total: int
    difference: tuple[DifferenceRow, ...]
    """Differences between the first move's paths, with the steps around them."""


class PathTimeRow(Frozen):
    """A path whose response times changed by test."""

    category: str
    root: str
    n_nodes: int
    requests0: int
    requests1: int
    mean0_us: float
    mean1_us: float
    contribution_us: float
    p: float
    q: float
    z: float


class RepeatsRow(Frozen):
    """An operation repeated more or less often on otherwise equal paths."""

    roots: tuple[str, ...]
    roots_total: int
    operation: NodeName
    """Outermost of the operations that repeat together."""
    operations: int
    """Number of operations that repeat together; in the family of categories with most."""
    categories: int
    before: float
    """Mean number of repetitions per request, in the reference."""
    after: float
    requests0: int
    requests1: int
    p: float
    q: float
    """q-value of the most significant family; each family of the row changed significantly."""
    contribution_us: float
    """Estimate beside the account, in which the same requests are in `structure` or `rest`: share of requests
    x change of the number x time of an iteration (slope)."""


class RarePathsRow(Frozen):
    """Rare paths of a root type together, whose joint share changed by test."""

    root: str
    expected: float
    seen: float
    new_kinds: int
    """Number of distinct paths that occur in the problem only."""
    p: float
    q: float


class PathsSection(Section):
    """Whole paths, the second resolution: sites detect changes, paths describe them."""

    section: Literal["paths"] = "paths"
    account: PathAccountRow
    groups: tuple[PathGroupRow, ...]
    groups_total: int
    times: tuple[PathTimeRow, ...]
    """Paths whose times changed, largest |contribution| first."""
    times_total: int
    repeats: tuple[RepeatsRow, ...]
    repeats_total: int
    rare: tuple[RarePathsRow, ...]
    moves_not_compared: int
    """Small moves for which no step-by-step comparison was made."""
    not_compared_us: float
    paths_tested: int
    paths_total: int
    windows: int
    """Number of blocks of ordinary times from which the noise of shares and times was estimated."""
    no_baseline: bool
    """True if there were too few windows to estimate the noise: it is assumed, so confidence is low."""
