"""Section `findings`: what changed, each cause once (robust mode).

Effects carry intervals; shares of the change add up by construction.
"""

from __future__ import annotations

from enum import StrEnum
from operator import attrgetter
from typing import Annotated, Any, Final, Literal, NamedTuple, Self

from schemas.report.columns import Column, column, stored
from schemas.report.explanations import Explanation
from schemas.report.parts import Frozen, Histogram, NodeName, Section, StepAccount, TrainSchedule


class ChangeKind(StrEnum):
    """What happened at a site: the family of the test that saw it, and the way it went."""

    SLOWER = "slower"
    FASTER = "faster"
    TAIL = "tail"
    """More calls than before take very long."""
    MORE_CALLS = "more-calls"
    FEWER_CALLS = "fewer-calls"
    PATH = "path"
    """Calls take another path below: the shares of a site's local shapes moved."""
    NEW_PATH = "new-path"
    LOST_PATH = "lost-path"
    ERRORS = "errors"
    FEWER_ERRORS = "fewer-errors"
    SERIAL = "serial"
    """Children that ran side by side run one after the other."""
    PARALLEL = "parallel"
    WORKLOAD = "workload"
    """Another mix of request types arrives."""


Unit = Literal["us", "share", "calls", "ratio"]


class Site(Frozen):
    """A place in the calling context."""

    component: str
    operation: str
    """Operation (span name, trace point) of the call; of records the point at which a step ends."""
    caller: NodeName | None = None
    """Who calls (records: where the step begins); None for the root, or many."""
    callers: int = 1
    """Number of callers pooled."""
    depth: int = 0
    """0 for the root."""

    @property
    def text(self) -> str:
        """`component/operation`."""
        return f"{self.component}/{self.operation}"

    @property
    def called_by(self) -> str | None:
        """The caller, `component/point`; None for the root, or many."""
        return None if self.caller is None else self.caller.text


class Interval(Frozen):
    """A 95 % interval that contains what the system does on its own."""

    low: Annotated[float, column("number", "end of its 95 % interval")]
    high: Annotated[float, column("number", "other end")]


class Evidence(Frozen):
    """One thing that changed at one site, as it was tested."""

    kind: ChangeKind
    site: Site
    what: str
    """In a few words: which children, which error class; empty where the kind says all."""
    unit: Unit
    before: float
    after: float
    """Median over requests (times), share or mean; one value a request."""
    change: Interval
    """Of after - before."""
    requests0: int
    requests1: int
    """Requests with the site, one vote each."""
    p: float
    q: float
    z: float
    """Effect over its standard error, noise between blocks included."""
    contribution_us: float
    """Part of the change of the mean response time, µs a request of the period (exact account)."""
    consequence_of: int | None = None
    """Index of the evidence in the same finding that it follows from."""
    relation: str = ""
    """How it belongs to the finding: a row of RELATIONS (docs/concepts.md); empty for what leads."""


class Factor(Frozen):
    """A value of an attribute at which the change is, or is not (host, version)."""

    attribute: str
    value: str
    requests1: int
    effect_here: float
    effect_elsewhere: float
    unit: Unit
    p: float


class Example(Frozen):
    """A request to look at."""

    sample: str
    request_id: str
    what: Literal["typical", "slow", "failing", "new"]
    start_ns: int
    response_us: float
    schedule: TrainSchedule | None = None
    """Drawn, of the first findings."""


class Member(Frozen):
    """A category (whole path) in which the changed site occurs."""

    category: str
    root: str
    requests0: int
    requests1: int


class Instant(Frozen):
    """A time that requests tell, with its 95 % interval; ns since the epoch."""

    at_ns: int
    low_ns: int
    high_ns: int


class When(Frozen):
    """When within the problem period a finding is so; None where it goes beyond that side."""

    began: Instant | None
    """None: from the start, or too near to it to tell."""
    ended: Instant | None
    """None: still so at the end."""


class FurtherView(Frozen):
    """Another analysis of the requests of a finding, where it says more."""

    method: str
    about: str
    """What it shows, in a few words."""
    arguments: tuple[str, ...]
    """Of `flowdiff`, one by one."""
    command: str
    """The same as a line for a shell."""
    page: str | None = None
    """Its page, relative to that of this report, where it was kept beside it."""


class Finding(Frozen):
    """One cause, with everything that belongs to it."""

    rank: int
    kind: ChangeKind
    site: Site
    title: str
    """One sentence: operation and component, what happened, by how much."""
    suspect: str = ""
    """Component to look at first where it is another than the site's (calls are cut short after it, …)."""
    unit: Unit
    before: float
    after: float
    change: Interval
    share_of_change: Interval | None
    """Part of all that added time (of a mean that fell: that took it away) that it explains, 0 to 1; of all
    findings 1 at most. None where the mean did not change by test, or the finding went the other way."""
    share_estimate: float | None = None
    """That share itself. It is not the middle of its interval, which ends at 0 and 1; None also in reports
    that were made before it was kept."""
    contribution_us: float
    """µs a request of the period; over findings and the rest of the account they add up to the change."""
    is_better: bool = False
    """It is known to be for the better: the same work in less time, or fewer failures."""
    affected0: int
    affected1: int
    """Requests with the changed thing in them."""
    share0: float
    share1: float
    """The same as shares of all requests of the period."""
    p: float
    q: float
    evidence: tuple[Evidence, ...]
    """The leading one first."""
    evidence_total: int
    chain: tuple[str, ...]
    """What follows from it, in order, one sentence each: errors, the retries they cause, the calls below."""
    factors: tuple[Factor, ...]
    examples: tuple[Example, ...]
    members: tuple[Member, ...]
    members_total: int
    histogram: Histogram | None
    """Of the site's value a request, before and after."""
    account: StepAccount | None
    """The changed step in its context: a typical path through it, step by step."""
    explanation: Explanation | None
    saves_us: float | None
    """Mean response time saved if the site were as before."""
    first_window_ns: int | None
    """Start of the first window of the problem in which it shows."""
    when: When | None = None
    """None: throughout the problem period, or not known (no request at hand, a report made before this was
    kept)."""
    views: tuple[FurtherView, ...] = ()
    """The most telling first. Not part of the report's content: it names the lake."""


class FindingsSection(Section):
    """Findings, most important first."""

    section: Literal["findings"] = "findings"
    findings: tuple[Finding, ...]
    findings_total: int
    only: Literal["", "worse"] = ""
    """What is shown of them. Not part of the report's content: all of them are here."""

    def content(self) -> Self:
        """Without the lake that is named in views, and what is shown."""
        plain = tuple(finding.model_copy(update={"views": ()}) for finding in self.findings)
        return self.model_copy(update={"findings": plain, "only": ""})


class EvidenceRow(NamedTuple):
    """A significant test, and where it stands."""

    rank: int
    """Finding that it belongs to."""
    place: int
    """From 1 in its finding."""
    evidence: Evidence


def _call_site(of: str = "") -> tuple[Column, ...]:
    """Columns that name the call site of a finding, or of the `evidence.` of a row."""
    component, operation, caller = (
        attrgetter(f"{of}site.{name}") for name in ("component", "operation", "called_by")
    )
    return (
        stored("component", "name", "component of the call site that changed", component),
        stored("operation", "name", "operation or trace point of the call site", operation),
        stored("caller", "name", "who calls; null for the root, or several", caller, null=True),
    )


def _moved(of: str = "") -> tuple[Column, ...]:
    """Columns of what changed there, and by how much."""
    before = "reference: median over requests (times), share or mean"
    low = "lower end of the 95 % interval of after - before, noise included"
    return (
        stored(
            "unit", "text", "of before, after, low and high: us, share, calls, ratio", attrgetter(f"{of}unit")
        ),
        stored("before", "number", before, attrgetter(f"{of}before")),
        stored("after", "number", "the same in the problem period", attrgetter(f"{of}after")),
        stored("low", "number", low, attrgetter(f"{of}change.low")),
        stored("high", "number", "its upper end", attrgetter(f"{of}change.high")),
    )


def _share(end: str) -> Any:
    return lambda f: None if f.share_of_change is None else getattr(f.share_of_change, end)


FINDINGS: Final = (
    stored("rank", "place", "from 1, most important first"),
    stored(
        "kind",
        "text",
        "what happened: slower, faster, tail, errors, new-path, more-calls, …",
        attrgetter("kind.value"),
    ),
    *_call_site(),
    stored("title", "text", "what happened, in a sentence"),
    stored("suspect", "name", "component to look at first where it is another one; else empty"),
    *_moved(),
    stored("contribution_us", "change", "part of the change of the mean response time, µs a request"),
    stored(
        "share",
        "share",
        "the same as a share of all added (saved) time; null: no change, or the other way",
        attrgetter("share_estimate"),
        null=True,
    ),
    stored("share_low", "share", "lower end of its 95 % interval", _share("low"), null=True),
    stored("share_high", "share", "upper end of its 95 % interval", _share("high"), null=True),
    stored(
        "requests{}",
        "count",
        "requests with the changed thing in them, {}",
        attrgetter("affected0", "affected1"),
    ),
    stored("share{}", "share", "the same as a share of all requests of the {}"),
    stored("p", "p", "p-value of the leading evidence"),
    stored("q", "p", "p corrected for the number of tests"),
    stored("saves_us", "us", "mean saved if the call site were as before", null=True),
    stored(
        "explanation",
        "text",
        "what distinguishes affected requests, in a sentence; or empty",
        lambda f: "" if f.explanation is None else f.explanation.sentence,
    ),
    stored(
        "examples",
        "keys",
        "requests of the problem period to look at",
        lambda f: [example.request_id for example in f.examples if example.sample == "problem"],
    ),
)
"""One row a finding."""


EVIDENCE: Final = (
    stored("rank", "place", "finding that it belongs to"),
    stored("place", "place", "from 1 in its finding, the leading one first"),
    stored("kind", "text", "what happened, as in findings", attrgetter("evidence.kind.value")),
    *_call_site("evidence."),
    stored(
        "what",
        "text",
        "which children, which error class; empty where the kind says all",
        attrgetter("evidence.what"),
    ),
    *_moved("evidence."),
    stored(
        "requests{}",
        "count",
        "requests with the call site in them, {}; one value each",
        attrgetter("evidence.requests0", "evidence.requests1"),
        label="Requests",
        far=1,
    ),
    stored("p", "p", "p-value of its test", attrgetter("evidence.p")),
    stored("q", "p", "p corrected for the number of tests", attrgetter("evidence.q"), label="q"),
    stored("z", "number", "effect over its standard error, noise included", attrgetter("evidence.z")),
    stored(
        "contribution_us",
        "change",
        "part of the change of the mean response time, µs a request",
        attrgetter("evidence.contribution_us"),
        label="Of the mean",
    ),
    stored(
        "consequence_of",
        "place",
        "`place` of what it follows from; null: a cause",
        lambda row: None if row.evidence.consequence_of is None else row.evidence.consequence_of + 1,
        null=True,
    ),
    stored(
        "relation",
        "text",
        "by which relation it belongs to the finding (docs/concepts.md); empty for what leads",
        attrgetter("evidence.relation"),
    ),
)
"""One row a significant test, uncut."""
