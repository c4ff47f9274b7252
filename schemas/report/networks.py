"""Section `distalyze`: variables that diverge between two classes, and their dependency on response time.

Values of a variable are in its quantity: `us` microseconds, `share` 0 to 1, `count`, `value` as logged.
"""

from __future__ import annotations

from typing import Literal

from schemas.report.parts import Frozen, Section

LogType = Literal["event", "state"]
"""The two kinds of log messages (DIST §2)."""
Quantity = Literal["us", "share", "count", "value"]


class Distribution(Frozen):
    """Values of one feature in both classes, counted in the same bins."""

    edges: tuple[float, ...]
    """[bins + 1] ascending bin edges."""
    counts0: tuple[int, ...]
    counts1: tuple[int, ...]
    absent0: int
    """Instances of class 0 without the variable (`absent1`: of class 1)."""
    absent1: int
    log: bool
    """True if bins have equal ratios, False if equal widths."""


class NetworkVariable(Frozen):
    """A node of a dependency network."""

    component: str
    what: str
    measure: str
    quantity: Quantity
    t: float | None
    """Welch's t of the variable's feature; None: not tested."""
    p: float | None
    significant: bool
    """True if significant after Bonferroni over all features of the run."""
    q_significant: bool
    """True if significant after Benjamini-Hochberg."""
    divergence: float
    """|t| divided by the largest in the log, 0 to 1; 0 if not significant."""
    before: float | None
    after: float | None
    """Mean in class 1 (`before`: in class 0)."""
    distribution: Distribution | None

    @property
    def text(self) -> str:
        """Component, name and measure on one line."""
        where = f"{self.component}/{self.what}" if self.component else self.what
        return f"{where} {self.measure}".rstrip()


class NetworkEdge(Frozen):
    """A dependency between two variables."""

    src: int
    """Index in `variables`; for a directed edge of the earlier variable."""
    dst: int
    weight: float
    """Instances at the largest node that one variable splits in the tree of the other, as a share of all, 0
    to 1."""
    weight_other: float
    """Weight of the edge in C0's network; 0 without it."""
    directed: bool
    """True if one variable precedes the other in all instances."""
    in_tree: bool
    """True if the edge is in the maximum spanning tree that is scored."""


class NetworkComponent(Frozen):
    """Variables connected with P in the network of one feature type of one log.

    The network is C1's or that of both classes together, whichever scores more.
    """

    rank: int
    root: str
    """Root type; empty: all root types."""
    log_type: LogType
    feature_types: tuple[str, ...]
    """Feature types of the component; several if their values are equal."""
    also: tuple[str, ...] = ()
    """Feature types whose components begin with the same variable but score lower."""
    score: float
    """Algorithm 1's score times the root type's share of the difference, by which components are ranked."""
    own_score: float
    """Algorithm 1's score of the chosen network."""
    pooled: bool
    """True if the network was learned from both classes together, False if from C1."""
    scores: tuple[float, float, float]
    """Algorithm 1's scores of the networks of C0, of C1, and of both."""
    variables: tuple[NetworkVariable, ...]
    """P first, then the variables of the chain and the most important others."""
    variables_total: int
    edges: tuple[NetworkEdge, ...]
    chain: tuple[int, ...]
    """Indices in `variables` from P to the start of the divergence; empty if no variable stands out."""
    after: str
    """Last event before the chain's start that diverges less; empty if unknown."""
    trivial: tuple[str, ...]
    """Variables equivalent to P, which are left out of the network."""
    trivial_total: int


class DivergentVariable(Frozen):
    """A variable that distinguishes the classes."""

    rank: int
    root: str
    log_type: LogType
    component: str
    name: str
    strength: float
    """Sum of |t| (or |sum of t|) over the variable's significant features."""
    features: int
    """Number of the variable's significant features."""
    feature_type: str
    """Feature type with the largest |t|."""
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
    """Mean of P in class 1 (`mean0_us`: in class 0)."""
    share: float
    """Share of the root type in the summed difference of all root types studied."""
    events: int
    states: int
    """Number of state variables (`events`: of event variables)."""
    tail_share: float
    """Share of instances outside of mean ± 3 sigma of P."""
    heavy: bool
    half_us: float
    weighted: bool
    """True if instances were weighted by 2^(P/h)."""


class DistalyzeSection(Section):
    """Divergent variables, and the networks of their dependencies."""

    section: Literal["distalyze"] = "distalyze"
    instances: Literal["request", "host", "window"]
    class0: str
    class1: str
    alpha: float
    features: int
    """Number of features tested."""
    significant: int
    """Number of features significant after Bonferroni."""
    significant_bh: int
    """Number of features significant after Benjamini-Hochberg."""
    studies: tuple[StudyRow, ...]
    components: tuple[NetworkComponent, ...]
    components_total: int
    variables: tuple[DivergentVariable, ...]
    variables_total: int
