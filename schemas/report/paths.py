"""Section `paths`: which paths requests took before and after. No verdict hangs on it."""

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
    """Other root types arrive."""
    structure_us: float
    """Requests took another path."""
    timing_us: float
    """The same paths took another time, where that is so by test."""
    rest_us: float
    """What no test attributes: noise, and what is too small to see."""


class PathEnd(Frozen):
    """A category as one end of a move."""

    category: str
    requests0: int
    requests1: int
    share0: float
    """Of its root's requests, weighted."""
    share1: float
    mean0_us: float | None
    mean1_us: float | None
    p: float
    """Of its share, against history."""
    q: float | None
    """None: not tested by itself."""


class PathMoveRow(Frozen):
    """Requests that took another path: precursor → mutation."""

    root: str
    source: PathEnd | None
    """Precursor; None: no path lost as many."""
    target: PathEnd | None
    """Mutation; None: they are spread over paths that did not change by test."""
    share: float
    """Of all requests."""
    contribution_us: float
    confidence: float | None
    """Share of draws in which at least half of this move is there; None: not drawn."""


class DifferenceRow(Frozen):
    """One step of the difference of two paths, or a run of steps left out."""

    fate: StepFate
    before: NodeName | None
    after: NodeName | None
    steps: int
    differing: int
    """Of a run's steps: how many differ (where the view is cut)."""


class PathGroupRow(Frozen):
    """Moves that are one change, in however many categories."""

    rank: int
    kind: MoveKind
    title: str
    """One sentence: what is done now, instead of what."""
    new: bool
    """No precursor: compared with the usual path of its root."""
    lost: bool
    roots: tuple[str, ...]
    roots_total: int
    share: float
    """Of all requests."""
    contribution_us: float
    anchor: NodeName | None
    """Last common step before the first difference."""
    inserted: tuple[NodeName, ...]
    removed: tuple[NodeName, ...]
    replaced: tuple[tuple[NodeName, NodeName], ...]
    moves: tuple[PathMoveRow, ...]
    moves_total: int
    difference: tuple[DifferenceRow, ...]
    """Of the first move: where its paths differ, in their context."""


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
    """An operation that is done more or less often on otherwise equal paths."""

    roots: tuple[str, ...]
    roots_total: int
    operation: NodeName
    """The outermost of the operations that are repeated together."""
    operations: int
    """Number of them, the largest of the families of categories in which they are."""
    categories: int
    before: float
    """Mean number of times a request."""
    after: float
    requests0: int
    requests1: int
    p: float
    q: float
    """Of the family where it is surest; every one of them changed by test."""
    contribution_us: float
    """An estimate beside the account, where the same requests are in `structure` or `rest`: share of requests
    x change of the number x time of an iteration (slope)."""


class RarePathsRow(Frozen):
    """Rare paths of a root type together, where their share changed by test."""

    root: str
    expected: float
    seen: float
    new_kinds: int
    """Distinct paths that only the problem has."""
    p: float
    q: float


class PathsSection(Section):
    """Whole paths, the second resolution: sites find, paths name."""

    section: Literal["paths"] = "paths"
    account: PathAccountRow
    groups: tuple[PathGroupRow, ...]
    groups_total: int
    times: tuple[PathTimeRow, ...]
    """By |contribution|."""
    times_total: int
    repeats: tuple[RepeatsRow, ...]
    repeats_total: int
    rare: tuple[RarePathsRow, ...]
    moves_not_compared: int
    """Small moves that were not compared step by step."""
    not_compared_us: float
    paths_tested: int
    paths_total: int
    windows: int
    """Blocks of ordinary times that the noise of shares and times was seen in."""
    no_baseline: bool
    """Too few windows to see that noise: it is assumed, so confidence is low."""
