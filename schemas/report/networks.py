"""Section `distalyze`: what diverges between two classes of instances, and how it hangs on response time.

Values of a variable are in its quantity: `us` microseconds, `share` 0 to 1, `count`, `value` as logged.
"""

from __future__ import annotations

from typing import Literal

from schemas.report.parts import Frozen, Section

LogType = Literal["event", "state"]
"""The two kinds of log messages (DIST §2)."""
Quantity = Literal["us", "share", "count", "value"]


class Distribution(Frozen):
    """One feature of both classes over the same bins."""

    edges: tuple[float, ...]
    """[bins + 1] ascending."""
    counts0: tuple[int, ...]
    counts1: tuple[int, ...]
    absent0: int
    """Instances of the class in which the variable does not occur."""
    absent1: int
    log: bool
    """Whether the bins are of equal ratio."""


class NetworkVariable(Frozen):
    """A node of a dependency network."""

    component: str
    what: str
    measure: str
    quantity: Quantity
    t: float | None
    """Welch's t of this feature; None: not tested."""
    p: float | None
    significant: bool
    """After Bonferroni over all features of the run."""
    q_significant: bool
    """After Benjamini-Hochberg."""
    divergence: float
    """|t| over the largest of the log, 0 to 1; 0 where it is not significant."""
    before: float | None
    after: float | None
    """Means of the classes."""
    distribution: Distribution | None

    @property
    def text(self) -> str:
        """One line."""
        where = f"{self.component}/{self.what}" if self.component else self.what
        return f"{where} {self.measure}".rstrip()


class NetworkEdge(Frozen):
    """A dependency between two variables."""

    src: int
    """Place in `variables`, of a directed edge what happens first."""
    dst: int
    weight: float
    """Largest node that one splits in the other's tree, over the instances, 0 to 1."""
    weight_other: float
    """The same in C0's network; 0: no such dependency there."""
    directed: bool
    """One comes before the other in all instances."""
    in_tree: bool
    """Of the maximum spanning tree that the score is of."""


class NetworkComponent(Frozen):
    """Variables connected with P in the network of one feature type of one log.

    Of C1's network or of that of both classes together, whichever scores more.
    """

    rank: int
    root: str
    """Root type; empty: all."""
    log_type: LogType
    feature_types: tuple[str, ...]
    """Several where their values are the same."""
    also: tuple[str, ...] = ()
    """Feature types whose components begin with the same variable and score less."""
    score: float
    """Algorithm 1's, times the root type's part of the difference: what ranks."""
    own_score: float
    """Algorithm 1's."""
    pooled: bool
    """Learned from both classes together; else from C1."""
    scores: tuple[float, float, float]
    """Algorithm 1's for the networks of C0, of C1, of both."""
    variables: tuple[NetworkVariable, ...]
    """P first, then those of the chain and what counts most."""
    variables_total: int
    edges: tuple[NetworkEdge, ...]
    chain: tuple[int, ...]
    """Places in `variables` from P to where it began; empty: nothing stands out."""
    after: str
    """The last event before the chain's beginning that does not diverge as much; empty: none is known."""
    trivial: tuple[str, ...]
    """Variables that say what P says: left out of the network."""
    trivial_total: int


class DivergentVariable(Frozen):
    """A variable that distinguishes the classes."""

    rank: int
    root: str
    log_type: LogType
    component: str
    name: str
    strength: float
    """Sum of |t| (or |sum of t|) over its significant features."""
    features: int
    """Significant ones."""
    feature_type: str
    """The one with the largest |t|."""
    quantity: Quantity
    t: float
    before: float | None
    after: float | None


class StudyRow(Frozen):
    """Two classes of instances that were compared with each other."""

    root: str
    instances0: int
    instances1: int
    mean0_us: float
    mean1_us: float
    """Of P."""
    share: float
    """Part of the difference of all root types looked at."""
    events: int
    states: int
    """Variables."""
    tail_share: float
    """Instances outside of mean ± 3 sigma of P."""
    heavy: bool
    half_us: float
    weighted: bool
    """Whether instances were weighed by 2^(P/h)."""


class DistalyzeSection(Section):
    """What diverges, and what hangs together."""

    section: Literal["distalyze"] = "distalyze"
    instances: Literal["request", "host", "window"]
    class0: str
    class1: str
    alpha: float
    features: int
    """Tested in all."""
    significant: int
    """After Bonferroni."""
    significant_bh: int
    """After Benjamini-Hochberg."""
    studies: tuple[StudyRow, ...]
    components: tuple[NetworkComponent, ...]
    components_total: int
    variables: tuple[DivergentVariable, ...]
    variables_total: int
