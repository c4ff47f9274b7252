"""Section `findings`: the changes of a comparison, one finding for each cause (robust mode).

Effects carry intervals; shares of the change add up by construction.
"""

from __future__ import annotations

from enum import StrEnum
from operator import attrgetter
from typing import Annotated, Any, Final, Literal, NamedTuple, Self

from schemas.report.columns import Inside, column, columns_of, stored
from schemas.report.explanations import Explanation
from schemas.report.parts import Frozen, Histogram, NodeName, Section, StepAccount, TrainSchedule


class ChangeKind(StrEnum):
    """Kind of change at a site: what the test that detected it measures, and the direction."""

    SLOWER = "slower"
    FASTER = "faster"
    TAIL = "tail"
    """The share of very slow calls rose."""
    MORE_CALLS = "more-calls"
    FEWER_CALLS = "fewer-calls"
    PATH = "path"
    """The shares of the site's call patterns changed, i.e. its calls take other paths below the site."""
    NEW_PATH = "new-path"
    LOST_PATH = "lost-path"
    ERRORS = "errors"
    FEWER_ERRORS = "fewer-errors"
    SERIAL = "serial"
    """Child calls that ran in parallel now run one after the other."""
    PARALLEL = "parallel"


TIME_KINDS: Final = frozenset({ChangeKind.SLOWER, ChangeKind.FASTER, ChangeKind.TAIL})
PATH_KINDS: Final = frozenset({ChangeKind.PATH, ChangeKind.NEW_PATH, ChangeKind.LOST_PATH})
CALL_KINDS: Final = frozenset({ChangeKind.MORE_CALLS, ChangeKind.FEWER_CALLS})
ERROR_KINDS: Final = frozenset({ChangeKind.ERRORS, ChangeKind.FEWER_ERRORS})
ORDER_KINDS: Final = frozenset({ChangeKind.SERIAL, ChangeKind.PARALLEL})


Unit = Literal["us", "share", "calls", "ratio"]


class Site(Frozen):
    """Call site: an operation together with its caller."""

    component: Annotated[str, column("name", "component of the call site that changed")]
    operation: Annotated[str, column("name", "operation or trace point of the call site")]
    """Operation (span name, trace point) of the call; for activity records the point at which a step ends."""
    caller: Annotated[
        NodeName | None,
        column("name", "who calls; null for the root, or several", attrgetter("called_by")),
    ] = None
    """Calling node; for activity records the point at which the step begins. None: the root, or several
    callers.
    """
    callers: int = 1
    """Number of callers pooled into the site."""
    depth: int = 0
    """Number of calls between the root and the site; 0 for the root."""

    @property
    def text(self) -> str:
        """`component/operation`."""
        return f"{self.component}/{self.operation}"

    @property
    def called_by(self) -> str | None:
        """Caller of the site, `component/point`; None for the root, or for several callers."""
        return None if self.caller is None else self.caller.text


class Interval(Frozen):
    """95 % confidence interval that accounts for the system's ordinary variation."""

    low: Annotated[float, column("number", "end of its 95 % interval")]
    high: Annotated[float, column("number", "other end")]


OfUnit = Annotated[Unit, column("text", "of before, after, low and high: us, share, calls, ratio")]
Before = Annotated[float, column("number", "reference: median over requests (times), share or mean")]
"""Type of a field with the value in the reference; each request contributes one value."""
After = Annotated[float, column("number", "the same in the problem period")]
Change = Annotated[
    Interval,
    Inside(
        about={
            "low": "lower end of the 95 % interval of after - before, noise included",
            "high": "its upper end",
        }
    ),
]


class Evidence(Frozen):
    """One significant change at one call site, with its test."""

    kind: Annotated[ChangeKind, column("text", "what happened, as in findings")]
    site: Annotated[Site, Inside()]
    what: Annotated[str, column("text", "what a path calls; empty where the kind says all")]
    """Change in a few words, e.g. the callees of a path; empty if the kind says all."""
    unit: OfUnit
    before: Before
    after: After
    change: Change
    requests0: Annotated[
        int,
        column(
            "count",
            "requests with the call site in them, reference; one value each",
            label="Requests",
            far=1,
        ),
    ]
    requests1: Annotated[int, column("count", "requests with the call site in them, problem; one value each")]
    p: Annotated[float, column("p", "p-value of its test")]
    q: Annotated[float, column("p", "p corrected for the number of tests", label="q")]
    z: Annotated[float, column("number", "effect over its standard error, noise included")]
    """Effect divided by its standard error, which includes noise between blocks of time."""
    noise_p: float | None = None
    """p-value of the change under noise between blocks (Student's t); None in reports of older versions."""
    contribution_us: Annotated[
        float,
        column(
            "change",
            "part of the change of the mean response time, µs a request",
            label="Of the mean",
        ),
    ]
    """Contribution to the change of the mean response time, from the exact account."""
    consequence_of: Annotated[
        int | None,
        column(
            "place",
            "`place` of what it follows from; null: a cause",
            lambda row: None if row.consequence_of is None else row.consequence_of + 1,
        ),
    ] = None
    """Index, from 0, in the finding's `evidence`, of the evidence from which this one follows; None for a
    cause."""
    relation: Annotated[
        str,
        column(
            "text",
            "by which relation it belongs to the finding (docs/internals/concepts.md); empty for what leads",
        ),
    ] = ""
    """Relation (key of RELATIONS) by which this evidence follows from the evidence `consequence_of`; empty
    for the leading evidence."""


class Factor(Frozen):
    """Value of an attribute (host, version), with the effect at requests with the value and at all other
    requests."""

    attribute: str
    value: str
    requests1: int
    effect_here: float
    effect_elsewhere: float
    unit: Unit
    p: float


class Example(Frozen):
    """An example request of a finding."""

    sample: str
    request_id: str
    what: Literal["typical", "slow", "failing", "new"]
    start_ns: int
    response_us: float
    schedule: TrainSchedule | None = None
    """Drawing of the request as a train schedule; None except for the first findings."""


class Member(Frozen):
    """A category (whole path) that contains the changed site."""

    category: str
    root: str
    requests0: int
    requests1: int


class Instant(Frozen):
    """Point in time estimated from requests: best estimate and 95 % interval, ns since the epoch."""

    at_ns: int
    low_ns: int
    high_ns: int


class When(Frozen):
    """Start and end of a finding within the problem period; None for a start or an end that lies outside the
    period."""

    began: Instant | None
    """Start of the change; None: the change was there at the start of the period, or began too near to it to
    decide."""
    ended: Instant | None
    """End of the change; None: present at the end of the period."""


class FurtherView(Frozen):
    """Suggestion to analyze a finding's requests by another method."""

    method: str
    about: str
    """Topic of the suggested analysis, in a few words."""
    arguments: tuple[str, ...]
    """Arguments of the command `flowdiff`, one per element."""
    command: str
    """The command `flowdiff` with `arguments`, quoted for a shell."""
    page: str | None = None
    """Address of the suggested analysis' page, relative to this report's page; None if it is not stored in
    the same lake.
    """


class Finding(Frozen):
    """Cause of the change, with its evidence, effects and example requests."""

    rank: Annotated[int, column("place", "from 1, most important first")]
    kind: Annotated[
        ChangeKind,
        column("text", "what happened: slower, faster, tail, errors, new-path, more-calls, …"),
    ]
    site: Annotated[Site, Inside()]
    title: Annotated[str, column("text", "what happened, in a sentence")]
    """Sentence: operation and component, kind of change, size."""
    suspect: Annotated[
        str, column("name", "component to look at first where it is another one; else empty")
    ] = ""
    """Component to suspect instead of `site.component`, e.g. if calls are cut short after the site; empty:
    none.
    """
    unit: OfUnit
    before: Before
    after: After
    change: Change
    share_of_change: Interval | None
    """Share, 0 to 1, of all slowdowns (if the mean fell: of all speedups) that the finding explains; over all
    findings at most 1. None if the mean did not change significantly, or changed in the other direction."""
    share_estimate: float | None = None
    """Point estimate of `share_of_change`. Not the middle of its interval, which is clipped to 0 and 1; None
    also in reports of older versions."""
    contribution_us: Annotated[
        float, column("change", "part of the change of the mean response time, µs a request")
    ]
    """Contribution to the change of the mean response time, µs per request; the sum over findings and the
    account's rows without a finding is that change.
    """
    is_better: bool = False
    """True if the finding is known to be an improvement: the same work in less time, or fewer failures."""
    affected0: int
    """Number of reference requests that reach the changed site."""
    affected1: int
    """Number of problem requests that reach the changed site."""
    share0: Annotated[float, column("share", "the same as a share of all requests of the reference")]
    """Weighted share of `affected0` among all reference requests, in [0, 1]."""
    share1: Annotated[float, column("share", "the same as a share of all requests of the problem")]
    """Weighted share of `affected1` among all problem requests, in [0, 1]."""
    p: Annotated[float, column("p", "p-value of the leading evidence")]
    q: Annotated[float, column("p", "p corrected for the number of tests")]
    evidence: tuple[Evidence, ...]
    """Significant changes attributed to the cause, leading evidence first."""
    evidence_total: int
    chain: tuple[str, ...]
    """Consequences of the change in order, one sentence each, e.g. errors, the retries they cause, the calls
    below."""
    factors: tuple[Factor, ...]
    examples: tuple[Example, ...]
    members: tuple[Member, ...]
    members_total: int
    histogram: Histogram | None
    """Distribution, over requests, of the value at the site, before and after; None if there is none."""
    account: StepAccount | None
    """Steps of a typical path through the site, with the changed step among them."""
    explanation: Explanation | None
    first_window_ns: int | None
    """Start of the first window of the problem period in which the change is visible."""
    when: When | None = None
    """Start and end of the change within the problem period; if `began` and `ended` are both None, the change
    lasts the whole period. None: unknown, as no request was loaded (in reports of older versions, also: the
    whole period).
    """
    views: tuple[FurtherView, ...] = ()
    """Suggested analyses, most informative first. Excluded from the report's id, as their commands name the
    lake.
    """


class FindingsSection(Section):
    """Findings, most important first; if the list is cut, it has the first ones and the one with the largest
    part of the change."""

    section: Literal["findings"] = "findings"
    findings: tuple[Finding, ...]
    findings_total: int
    better_total: int = 0
    """Number of improvements among all findings."""
    insignificant_mean: Interval | None = None
    """Interval of the change of the mean response time, µs, if it is not significant: findings are then not
    given as shares of the change. None: the change is significant, zero, or unknown."""
    only: Literal["", "worse"] = ""
    """Filter for display: `worse` hides improvements. Excluded from the report's id; the section has all
    findings regardless.
    """

    def content(self) -> Self:
        """Copy of the section for the report's id (a hash): without the suggested analyses (`views`), whose
        commands name the lake, and without the display filter (`only`)."""
        plain = tuple(finding.model_copy(update={"views": ()}) for finding in self.findings)
        return self.model_copy(update={"findings": plain, "only": ""})


class EvidenceRow(NamedTuple):
    """Row of the table `evidence`: a significant test, with the rank of its finding."""

    rank: Annotated[int, column("place", "finding that it belongs to")]
    place: Annotated[int, column("place", "from 1 in its finding, the leading one first")]
    evidence: Annotated[Evidence, Inside()]


def _share(end: str) -> Any:
    return lambda f: None if f.share_of_change is None else getattr(f.share_of_change, end)


FINDINGS: Final = (
    *columns_of(Finding, "rank", "kind", "component", "operation", "caller", "title", "suspect"),
    *columns_of(Finding, "unit", "before", "after", "low", "high", "contribution_us"),
    stored(
        "share",
        "share",
        "the same as a share of all that got slower (faster); null: no change, or the other way",
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
    *columns_of(Finding, "share0", "share1", "p", "q"),
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
"""Columns of the table `findings`, one row per finding."""
EVIDENCE: Final = columns_of(EvidenceRow)
"""Columns of the table `evidence`, one row per significant test, uncut."""
