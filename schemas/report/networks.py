"""Section `distalyze`: variables that differ between two classes of instances, and the networks of their
dependencies on response time.

An instance is a request, a host or a window; a feature is one number per instance and variable, such as the
time of the first occurrence. Class 1 is the instances of the problem (or the slow ones, or one host), class 0
the instances compared with them.

Values of a variable are in its quantity: `us` microseconds, `share` 0 to 1, `count`, `value` as logged.
"""

from __future__ import annotations

from typing import Literal

from schemas.report.parts import Frozen, Section

LogType = Literal["event", "state"]
"""Kinds of log messages in the Distalyze paper: an event has a time, a state a value (§2)."""
Quantity = Literal["us", "share", "count", "value"]


class Distribution(Frozen):
    """Histograms of one feature in class 0 and in class 1, over the same bins."""

    edges: tuple[float, ...]
    """[bins + 1] ascending bin edges."""
    counts0: tuple[int, ...]
    counts1: tuple[int, ...]
    absent0: int
    """Number of instances of class 0 in which the variable does not occur."""
    absent1: int
    """Number of instances of class 1 in which the variable does not occur."""
    log: bool
    """True if bins have equal ratios, False if equal widths."""


class NetworkVariable(Frozen):
    """A variable of a log: a node of a dependency network."""

    component: str
    what: str
    measure: str
    quantity: Quantity
    t: float | None
    """Welch's t of the variable's feature between class 0 and class 1; None: not tested."""
    p: float | None
    significant: bool
    """True if the variable's values differ significantly between class 0 and class 1 after Bonferroni
    correction for all features tested in the report.
    """
    q_significant: bool
    """True if the variable's values differ significantly between class 0 and class 1 after Benjamini-Hochberg
    correction."""
    divergence: float
    """|t| as a fraction of the largest |t| in the log, 0 to 1; 0 if not significant."""
    before: float | None
    """Mean of the variable in class 0, in the unit of `quantity`."""
    after: float | None
    """Mean of the variable in class 1, in the unit of `quantity`."""
    distribution: Distribution | None

    @property
    def text(self) -> str:
        """Component, name and measure on one line."""
        where = f"{self.component}/{self.what}" if self.component else self.what
        return f"{where} {self.measure}".rstrip()


class NetworkEdge(Frozen):
    """A dependency between two variables."""

    src: int
    """Index in `variables` of one end of the edge: of the variable that occurs first, if the edge is
    directed."""
    dst: int
    weight: float
    """Share of all instances, 0 to 1, in the largest node of one variable's regression tree that is split by
    the other variable.
    """
    weight_other: float
    """Weight of the edge in the network learned from class 0; 0 if that network lacks the edge."""
    directed: bool
    """True if one variable precedes the other in all instances; the edge then points from `src` to `dst`."""
    in_tree: bool
    """True if the edge is in the maximum spanning tree, from which the score is computed."""


class NetworkComponent(Frozen):
    """Variables connected with the performance metric in the network of one feature type of one log.

    The network is learned from class 1 or from both classes together, whichever network scores higher.
    """

    rank: int
    root: str
    """Root type studied; empty: all root types together."""
    log_type: LogType
    feature_types: tuple[str, ...]
    """Feature types from which this component was found; several if their values are equal."""
    also: tuple[str, ...] = ()
    """Feature types whose component starts with the same variable but has a lower score."""
    score: float
    """`own_score` times the root type's share of the difference in response time; components are ranked by
    it.
    """
    own_score: float
    """Score of the network by Algorithm 1 of the Distalyze paper."""
    pooled: bool
    """True if the network was learned from both classes together, False if from class 1 alone."""
    scores: tuple[float, float, float]
    """Algorithm 1's scores of the networks learned from class 0, from class 1, and from both."""
    variables: tuple[NetworkVariable, ...]
    """Performance metric first, then the variables of `chain`, then further variables by importance."""
    variables_total: int
    edges: tuple[NetworkEdge, ...]
    chain: tuple[int, ...]
    """Indices in `variables` from the performance metric to the earliest variable that diverges; empty if no
    variable stands out."""
    after: str
    """Name of the last event before the chain's start that diverges less; empty if unknown."""
    trivial: tuple[str, ...]
    """Variables equivalent to the performance metric, which are left out of the network."""
    trivial_total: int


class DivergentVariable(Frozen):
    """A variable whose values differ significantly between class 0 and class 1."""

    rank: int
    root: str
    log_type: LogType
    component: str
    name: str
    strength: float
    """Sum of |t| (or |sum of t|) over the significant features of the variable."""
    features: int
    """Number of the variable's significant features."""
    feature_type: str
    """Feature type with the largest |t|."""
    quantity: Quantity
    t: float
    before: float | None
    after: float | None


class StudyRow(Frozen):
    """Comparison of class 0 with class 1 for one root type."""

    root: str
    instances0: int
    instances1: int
    mean0_us: float
    """Mean of the performance metric in class 0, µs."""
    mean1_us: float
    """Mean of the performance metric in class 1, µs."""
    share: float
    """Root type's share of the difference in time, summed over all root types studied."""
    events: int
    """Number of event variables."""
    states: int
    """Number of state variables."""
    tail_share: float
    """Share of instances whose performance metric is more than 3 sigma from its mean."""
    heavy: bool
    half_us: float
    weighted: bool
    """True if instances were weighted by 2^(performance metric / `half_us`)."""


class DistalyzeSection(Section):
    """Divergent variables, and the networks of their dependencies on the performance metric."""

    section: Literal["distalyze"] = "distalyze"
    instances: Literal["request", "host", "window"]
    class0: str
    class1: str
    alpha: float
    features: int
    """Number of features tested, summed over root types and over event and state variables."""
    significant: int
    """Number of features that differ significantly between class 0 and class 1 after Bonferroni
    correction."""
    significant_bh: int
    """Number of features that differ significantly between class 0 and class 1 after Benjamini-Hochberg
    correction."""
    studies: tuple[StudyRow, ...]
    components: tuple[NetworkComponent, ...]
    components_total: int
    variables: tuple[DivergentVariable, ...]
    variables_total: int
