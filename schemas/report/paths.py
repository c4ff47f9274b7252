"""Section `paths`: paths that requests took before and after. No verdict depends on it."""

from __future__ import annotations

from typing import Literal

from schemas.report.parts import Frozen, NodeName, Section

StepFate = Literal["kept", "replaced", "lost", "gained", "run"]
MoveKind = Literal["replaced", "inserted", "removed", "other-steps", "repeats", "order", "no-comparison"]


class PathAccountRow(Frozen):
    """Exact decomposition of the change of the mean response time over whole paths, µs per request: four
    parts that add up to after - before."""

    before_us: float
    after_us: float
    mix_us: float
    """Contribution of a changed mix of root types."""
    structure_us: float
    """Contribution of requests that took another path."""
    timing_us: float
    """Contribution of changed times on the same paths, as far as they are significant."""
    rest_us: float
    """Part that no test attributes: noise, and changes too small to detect."""


class PathEnd(Frozen):
    """A category that requests left, or to which they moved."""

    category: str
    requests0: int
    requests1: int
    share0: float
    """Weighted share of the root type's requests that took the path in the reference, 0 to 1."""
    share1: float
    mean0_us: float | None
    mean1_us: float | None
    p: float
    """p-value of the change of the share, against the history."""
    q: float | None
    """q-value of the change of the share; None if the path was not tested individually."""


class PathMoveRow(Frozen):
    """Requests that moved from one path (precursor) to another (mutation)."""

    root: str
    source: PathEnd | None
    """Path that lost the requests that moved; None: no path lost as many requests."""
    target: PathEnd | None
    """Path that gained the requests that moved; None: they spread over paths without a significant change."""
    share: float
    """Share of all requests that moved, 0 to 1."""
    contribution_us: float
    confidence: float | None
    """Share of resamples in which at least half of the move occurs, 0 to 1; None: not resampled."""


class DifferenceRow(Frozen):
    """Step in the difference of two paths, or several successive steps that are not shown."""

    fate: StepFate
    before: NodeName | None
    after: NodeName | None
    steps: int
    differing: int
    """Number of differing steps in a run of steps that are not shown."""


class PathGroupRow(Frozen):
    """Moves with the same difference between source and target, in any number of categories."""

    rank: int
    kind: MoveKind
    title: str
    """Sentence that names the new steps and the steps they replace."""
    new: bool
    """True if the moves have no precursor: they are compared with the usual path of their root type."""
    lost: bool
    roots: tuple[str, ...]
    roots_total: int
    share: float
    """Share of all requests that the moves of the group cover, 0 to 1."""
    contribution_us: float
    anchor: NodeName | None
    """Last step that both paths share before their first difference; None if there is none."""
    inserted: tuple[NodeName, ...]
    removed: tuple[NodeName, ...]
    replaced: tuple[tuple[NodeName, NodeName], ...]
    moves: tuple[PathMoveRow, ...]
    moves_total: int
    difference: tuple[DifferenceRow, ...]
    """Steps in which the paths of the first move differ, with the steps around them."""


class PathTimeRow(Frozen):
    """A path whose response times changed significantly."""

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
    """Outermost operation among the operations that repeat together."""
    operations: int
    """Number of operations that repeat together, in the largest family of categories."""
    categories: int
    before: float
    """Mean number of repetitions per request, in the reference."""
    after: float
    requests0: int
    requests1: int
    p: float
    q: float
    """q-value of the most significant family of categories; every family in the row changed significantly."""
    contribution_us: float
    """Estimated contribution to the change of the mean, µs per request: share of requests x change of the
    number x time of an iteration (slope). Not part of the account, where the same requests count in
    `structure` or `rest`."""


class RarePathsRow(Frozen):
    """All rare paths of one root type together, if their joint share of the requests changed
    significantly."""

    root: str
    expected: float
    seen: float
    new_kinds: int
    """Number of distinct rare paths that occur in the problem only."""
    p: float
    q: float


class PathsSection(Section):
    """Section on whole paths: describes, from end to end, the changes that the tests of call sites detect."""

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
    """Number of small moves without a step-by-step comparison."""
    not_compared_us: float
    paths_tested: int
    paths_total: int
    windows: int
    """Number of blocks of ordinary times from which the noise of shares and times was estimated."""
    no_baseline: bool
    """True if there were too few windows to estimate the noise, so that an assumed value is used; confidence
    is then low."""
