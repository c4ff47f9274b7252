"""Section `account`: decomposition of the change of a measure by root type and call site; the parts add up to
the change exactly."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final, Literal, NamedTuple

from schemas.report.columns import Inside, column, columns_of
from schemas.report.findings import ChangeKind, Site, Unit
from schemas.report.parts import Frozen, Section

AccountedMeasure = Literal["mean", "tail", "errors"]


class AccountRow(Frozen):
    """Contributions of one call site of a root type to the change of a measure: `calls` + `structure` +
    `slower` = `total`."""

    site: Site
    root: str
    calls: float
    """Contribution of a changed number of calls of the site on the critical path."""
    structure: float
    """Contribution of calls that take other paths below the site."""
    slower: float
    """Contribution of a changed time of calls on unchanged paths."""
    total: float
    finding: int | None
    """Rank of the finding to which the site belongs; None if the site belongs to no finding."""


class MixRow(Frozen):
    """A root type's shares of the requests, and its contribution to the change through the workload mix."""

    root: str
    share0: float
    share1: float
    part: float


class Account(Frozen):
    """Decomposition of the change of one measure (mean, tail or errors): mix + calls + structure + slower =
    after - before, to rounding."""

    measure: AccountedMeasure
    unit: Literal["us", "share"]
    threshold_us: float | None
    """Response time above which a request counts as slow, µs; None unless `measure` is `tail`."""
    before: float
    after: float
    low: float | None
    high: float | None
    """Upper end of the 95 % interval of after - before (lower end: `low`), noise between blocks included;
    None: too few requests for a test.
    """
    changed: bool
    """True if the 95 % interval of after - before excludes 0 and the change passes the floor."""
    mix: float
    calls: float
    structure: float
    slower: float
    gross_up: float
    """Sum of all positive contributions to the change."""
    gross_down: float
    """Sum of all negative contributions to the change."""
    rows: tuple[AccountRow, ...]
    """Call sites, largest |total| first."""
    rows_total: int
    mixes: tuple[MixRow, ...]


class RootChange(Frozen):
    """Load, mean response time and error rate of one root type, before and after."""

    root: str
    requests0: int
    requests1: int
    rate0: float
    """Requests per second in the reference."""
    rate1: float
    """Requests per second in the problem."""
    mean0_us: float | None
    mean1_us: float | None
    errors0: float | None
    """Share of failed requests in the reference, in [0, 1]."""
    errors1: float | None
    """Share of failed requests in the problem, in [0, 1]."""


class AccountSection(Section):
    """Decompositions of the changes of mean, tail and errors; also the load of both periods, which is not a
    part of them."""

    section: Literal["account"] = "account"
    accounts: tuple[Account, ...]
    rate0: float
    """Weighted requests per second in the reference."""
    rate1: float
    """Weighted requests per second in the problem."""
    roots: tuple[RootChange, ...]
    roots_total: int


class VisibleRow(Frozen):
    """Smallest change that the tests would have detected at a root type."""

    root: str
    requests0: int
    requests1: int
    ratio: float | None
    """Smallest detectable factor of the time at a typical site, e.g. 1.12; None: not tested."""
    share: float | None
    """Smallest detectable change of the share of a path or of errors, 0 to 1."""


class QualityRow(Frozen):
    """Fact about the data that a reader needs before the results, in one sentence."""

    kind: Literal["load", "mix", "quality", "labels", "history", "sampling", "skew", "asynchrony"]
    severe: bool
    text: str
    there_before: bool = False
    """True if the fact holds for reference and problem alike, while both differ from the history."""


class LikeWindow(Frozen):
    """Window of ordinary times (history or reference) in which the changed value is closer to the problem's
    value than to the reference's."""

    start_ns: int
    end_ns: int
    value: float
    """Changed value as measured in this window, in the unit of the change."""
    in_history: bool
    """True for a window of the history, False for a window of the reference."""


class HiddenChange(Frozen):
    """A change that is significant against the reference alone, but not against the ordinary variation, so no
    finding."""

    title: str
    """Sentence on the change, with the value in the reference."""
    kind: ChangeKind
    site: Site
    unit: Unit
    before: float
    after: float
    requests0: int
    requests1: int
    p: float
    """Two-sided p-value of the change against the reference alone, from the variation inside both periods."""
    p_usual: float
    """Two-sided p-value of the change against the ordinary variation between windows."""
    assumed: bool
    """True if the ordinary variation is assumed, because no data shows how far ordinary periods differ."""
    windows: tuple[LikeWindow, ...]
    """Windows whose value is closer to the problem's than to the reference's, in order of time."""
    windows_of: int
    """Number of windows in which the value could be measured: the denominator of `windows`."""


class ReasonKind(StrEnum):
    """Kind of ground for a verdict."""

    CHANGED = "changed"
    """A measure of the whole period changed significantly."""
    MIX = "mix"
    """The mix of root types changed."""
    EXPLAINED = "explained"
    """The findings explain a share of the change of the mean."""
    NO_FINDING = "no-finding"
    """No finding explains the change."""
    LIKELY_PLACE = "likely-place"
    """Component with most of the change of the mean, named if no finding explains the change."""
    REST = "rest"
    """Largest parts of the change of the mean that belong to no finding."""
    INSIGNIFICANT = "insignificant"
    """Change whose interval excludes 0, but which is below a floor, or within chance or ordinary
    variation.
    """
    HIDDEN = "hidden"
    """Change that is significant against the reference alone, but within ordinary variation."""
    BOUND = "bound"
    """Largest change that the tests may have missed."""
    TOO_FEW = "too-few"
    """Too few requests to exclude a change that matters; `requests`: further problem requests that would
    decide."""
    NO_REQUESTS = "no-requests"
    """A period has no request usable for tests."""
    NOTHING = "nothing"
    """No change that matters is possible: the tests would have detected it."""
    THERE_BEFORE = "there-before"
    """Reference and problem agree, but both differ from the history."""
    ASK_AGAIN = "ask-again"
    """Advice: nothing changed against this reference; compare with an earlier reference."""
    LOAD = "load"
    """The load explains the change."""
    INCOMPLETE = "incomplete"
    """Events of a period are missing."""
    SILENCE = "silence"
    """Nothing was recorded where requests were expected."""
    EXTERNAL = "external"
    """Clients sent fewer requests, for another reason than slower answers."""
    HELP = "help"
    """Advice: longer periods, or a history, would decide."""
    CONTRADICTION = "contradiction"
    """Two parts of the report contradict each other: a defect of flowdiff."""


class Reason(Frozen):
    """Ground of a verdict: kind and values for programs, `text` for people."""

    kind: ReasonKind
    text: str
    measure: Literal["mean", "tail", "errors", "failing"] | None = None
    """Measure of the whole period that the reason is about: mean response time, share of slow requests, share
    of requests that fail at the root, or with a failing call."""
    before: float | None = None
    """Value in the reference: µs if `measure` is `mean`, else a share in [0, 1]."""
    after: float | None = None
    requests: int | None = None
    """Number of problem requests that the sentence names; None if the sentence names no number."""


class VerdictSection(Section):
    """Verdict and its grounds: data quality, sites tested and not tested, smallest visible change, A/A
    record."""

    section: Literal["verdict"] = "verdict"
    outcome: Literal["unchanged", "changed", "partly-explained", "not-explained", "cannot-tell"]
    external: bool
    """True if clients sent fewer requests, and not because answers took longer."""
    by_load: bool = False
    """True if the change is explained by a higher, or lower, load."""
    reasons: tuple[Reason, ...]
    """Grounds of the outcome, the weightiest first."""
    quality: tuple[QualityRow, ...]
    visible: tuple[VisibleRow, ...]
    untested_requests: int
    """Number of problem requests without any test: neither their root type nor their call sites were
    tested."""
    missing_requests: int | None
    """Number of further requests with which the outcome would not be `cannot-tell`; None for other
    outcomes."""
    hidden: tuple[HiddenChange, ...] = ()
    """Changes hidden by ordinary variation, largest first; only the first ones if there are many."""
    equivalent_share: float | None
    """Share of the time, in [0, 1], in root types whose mean is equivalent by test."""
    calibration: str
    """Sentence on the calibration of this lake (comparisons of ordinary periods, A/A); empty if it was not
    calibrated."""


class AccountedRow(NamedTuple):
    """Row of the table `account`: a call site of a root type, or (without a site) the root type's
    contribution through the workload mix.
    """

    measure: Annotated[str, column("text", "mean (µs a request), tail or errors (shares of requests)")]
    part: Annotated[
        Literal["site", "mix"],
        column("text", "site; or mix: what a root type's share of the requests did"),
    ]
    root: Annotated[str, column("name", "root type")]
    site: Annotated[
        Site | None,
        Inside(
            about={
                "component": "component of the call site; null for mix",
                "operation": "operation of the call site; null for mix",
                "caller": "who calls; null for mix, the root, or several",
            }
        ),
    ]
    calls: Annotated[float, column("number", "part from more or fewer calls on the critical path")]
    structure: Annotated[float, column("number", "part from calls that take other paths below")]
    slower: Annotated[float, column("number", "part from calls that take another time")]
    mix: Annotated[float, column("number", "part from the workload mix")]
    total: Annotated[float, column("number", "the four together; over all rows of a measure: after - before")]
    rank: Annotated[int | None, column("place", "finding that it belongs to; null: to none")]

    @staticmethod
    def of_site(measure: str, row: AccountRow) -> AccountedRow:
        """Row of the table for a call site of a root type."""
        parts = (row.calls, row.structure, row.slower, 0.0, row.total)
        return AccountedRow(measure, "site", row.root, row.site, *parts, row.finding)

    @staticmethod
    def of_mix(measure: str, row: MixRow) -> AccountedRow:
        """Row of the table for a root type's contribution through the workload mix."""
        return AccountedRow(measure, "mix", row.root, None, 0.0, 0.0, 0.0, row.part, row.part, None)


ACCOUNT: Final = columns_of(AccountedRow)
"""Columns of the table `account`: per measure one row for each site and root type, and one for each root
type's contribution through the mix; uncut.
"""
