"""Parts that several sections of a report share, and the base of sections.

Times are float microseconds unless a name says ns; 0 in a name is the reference, 1 the problem. Lists that
are cut say `shown of total` in a `*_total` field.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import ConfigDict

from schemas.closed import Closed
from schemas.report.columns import column


class Frozen(Closed):
    """Base of all models in a report."""


class NodeName(Frozen):
    """Name of a node of a request-flow graph."""

    component: str
    point: str
    """Trace point (activity records) or operation (spans)."""
    label: str | None = None
    """Semantic label of the node, as recorded; None without one."""
    host: str = ""
    """Host, if the label policy includes it; else empty."""
    side: Literal["", "start", "end"] = ""
    """Side of a span, `start` or `end`; empty for an activity record or span event."""

    @property
    def where(self) -> str:
        """`[host/]component`, for display."""
        return f"{self.host}/{self.component}" if self.host else self.component

    @property
    def what(self) -> str:
        """`point[/label]`, for display; may be empty."""
        return self.point if self.label is None else f"{self.point}/{self.label}"

    @property
    def happens(self) -> str:
        """Verb for a side of a span: `starts`, `ends`; empty for a point in time."""
        return f"{self.side}s" if self.side else ""

    @property
    def text(self) -> str:
        """Full name on one line, without the side: `[host/]component/point[/label]`."""
        return f"{self.where}/{self.what}" if self.what else self.where


class Moments(Frozen):
    """Moments of the response times of a category in one period."""

    count: int
    mean_us: float | None
    """Weighted mean response time; None for an empty category."""
    variance_us2: float | None
    """Weighted population variance; None below two requests."""
    c2: float | None
    """Squared coefficient of variation, variance / mean²; None for at most 10 requests."""


class KsResult(Frozen):
    """Two-sample Kolmogorov-Smirnov test."""

    n0: Annotated[int, column("count", "values tested, reference")]
    n1: Annotated[int, column("count", "values tested, problem")]
    d: Annotated[float | None, column("number", "KS statistic; null where the test was not run")]
    """KS statistic, 0 to 1; None if the test was not run."""
    p: Annotated[float | None, column("p", "its p-value", label="KS p", far=1)]


class Histogram(Frozen):
    """Histogram of one quantity in both periods, over the same log-spaced bins."""

    title: str
    edges_us: tuple[float, ...]
    """[bins + 1] bin edges, ascending and positive, but the first may be 0."""
    counts0: tuple[int, ...]
    counts1: tuple[int, ...]


class GraphEdge(Frozen):
    """Edge of a drawn graph, with its weighted mean latency over all requests of a period."""

    src: int
    dst: int
    mean0_us: float | None
    mean1_us: float | None


class GraphView(Frozen):
    """Graph of a category for drawing; `nodes` are the first of `nodes_total`, in canonical order."""

    category: str
    root: str
    nodes: tuple[NodeName, ...]
    edges: tuple[GraphEdge, ...]
    nodes_total: int


class GraphDifference(Frozen):
    """Nodes that distinguish the graphs of a mutation and of its precursor: positions of nodes without a
    counterpart in the other graph."""

    precursor: str
    only_mutation: tuple[int, ...]
    only_precursor: tuple[int, ...]


class StepRow(Frozen):
    """Step in both periods: the step of the reference, and its counterpart in the problem; or several
    steps merged into one row.

    The time of a step is how long the response waited for it, measured from the previous step on the critical
    path: the mean over all requests, 0 for requests in which the step was not on that path.
    """

    before: NodeName | None
    """Step in the reference; None if the step occurs only in the problem, or the row merges several steps."""
    after: NodeName | None
    """Step in the problem; None if the step occurs only in the reference, or the row merges several steps."""
    before_us: float
    """Mean time of the step in the reference, µs."""
    after_us: float
    """Mean time of the step in the problem, µs."""
    tested: bool = False
    """True if the latency of an edge into the step changed significantly; always False for structural
    mutations."""
    steps: int = 1
    """Number of steps in the row; more than one only for merged steps."""

    @property
    def part_us(self) -> float:
        """Contribution of the step to the change of the mean, µs."""
        return self.after_us - self.before_us

    @staticmethod
    def together(rows: Sequence[StepRow]) -> StepRow:
        """Merge several rows into one row without names: times and numbers of steps are summed."""
        return StepRow(
            before=None,
            after=None,
            before_us=sum(row.before_us for row in rows),
            after_us=sum(row.after_us for row in rows),
            steps=sum(row.steps for row in rows),
        )


class StepAccount(Frozen):
    """Mean time of each step before and after.

    In each period the times of the steps add up to the mean response time.
    """

    category0: str
    """Category compared in the reference: the precursor of a structural mutation, if there is one; else
    `category1`."""
    category1: str
    """Category compared in the problem; for a structural mutation the mutation itself."""
    requests0: int
    """Number of requests of `category0` in the reference."""
    requests1: int
    """Number of requests of `category1` in the problem."""
    mean0_us: float
    """Mean response time of `category0` in the reference, µs: the sum of `before_us` over the rows."""
    mean1_us: float
    """Mean response time of `category1` in the problem, µs: the sum of `after_us` over the rows."""
    rows: tuple[StepRow, ...]
    """Steps in order of occurrence. In large graphs neighbouring steps with small contributions are merged
    into one row."""


class Section(Frozen):
    """Base of all sections; a section fixes `section` to a Literal with itself as the default."""

    section: str
    """Tag of the section's type: `findings`, `account`, …."""
    method: str = ""
    """Name of the method that made the section; filled in when the report is put together."""

    def content(self) -> Self:
        """Copy of the section without fields that depend on where the report was made. The report's id is a
        hash of such copies.
        """
        return self


class ForeignSection(Section):
    """Section of a method that is not installed, with its fields as parsed from JSON."""

    model_config = ConfigDict(extra="allow")


class ScheduleStep(Frozen):
    """A step inside a component."""

    name: str
    start_us: float
    end_us: float
    waited_us: float
    """Own time of the step on the critical path, µs."""


class ScheduleLane(Frozen):
    """One component of a train schedule, drawn as a horizontal lane."""

    component: str
    hosts: tuple[str, ...]
    """Hosts that did the work of a single request; empty for the mean of many."""
    work_us: float
    """Time covered by the lane's bars, overlaps counted once, µs."""
    waited_us: float
    """Time of the lane on the critical path, µs; sum over lanes plus `message_us` is the response time."""
    steps: tuple[ScheduleStep, ...]
    steps_total: int


class ScheduleBar(Frozen):
    """Time in which a lane works without pause, drawn as a bar."""

    lane: int
    start_us: float
    end_us: float
    waited: bool
    """True if the work is on the critical path."""


class ScheduleMessage(Frozen):
    """Call or reply between two lanes; drawn vertically if no time in transit was recorded."""

    source: int
    start_us: float
    target: int
    end_us: float
    waited: bool


class TrainSchedule(Frozen):
    """A request drawn as a train schedule: time runs to the right, each component is a lane."""

    request_id: str | None
    """Id of the request; None for the mean of many requests."""
    response_us: float
    message_us: float
    """Time of the critical path spent in transit between lanes, µs."""
    lanes: tuple[ScheduleLane, ...]
    """Lanes in the order in which the request reaches them."""
    bars: tuple[ScheduleBar, ...]
    messages: tuple[ScheduleMessage, ...]
    cut: int
    """Number of bars and messages not drawn for lack of space."""
