"""Findings in words: one place for terminal and page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from analyze.report import measures
from analyze.report.wording import count, counted, duration, p_value, percent, significant
from schemas.report.explanations import Explanation
from schemas.report.findings import (
    ChangeKind,
    Evidence,
    Factor,
    Finding,
    FurtherView,
    Interval,
    Site,
    Unexplained,
)

KIND: Final = {
    ChangeKind.SLOWER: "slower",
    ChangeKind.FASTER: "faster",
    ChangeKind.TAIL: "longer tail",
    ChangeKind.MORE_CALLS: "more calls",
    ChangeKind.FEWER_CALLS: "fewer calls",
    ChangeKind.PATH: "other path",
    ChangeKind.NEW_PATH: "new path",
    ChangeKind.LOST_PATH: "path gone",
    ChangeKind.ERRORS: "fails",
    ChangeKind.FEWER_ERRORS: "fails less",
    ChangeKind.SERIAL: "one after the other",
    ChangeKind.PARALLEL: "side by side",
    ChangeKind.WORKLOAD: "workload",
}
"""What happened, as a tag."""

TONE: Final = {
    ChangeKind.SLOWER: "worse",
    ChangeKind.TAIL: "worse",
    ChangeKind.ERRORS: "failing",
    ChangeKind.FASTER: "better",
    ChangeKind.FEWER_ERRORS: "better",
}
"""Colour of a tag; what is not here is neither good nor bad by itself."""

_IS: Final = {
    ChangeKind.SLOWER: "median a request",
    ChangeKind.FASTER: "median a request",
    ChangeKind.TAIL: "requests over the limit",
    ChangeKind.MORE_CALLS: "calls a request",
    ChangeKind.FEWER_CALLS: "calls a request",
    ChangeKind.PATH: "requests on this path",
    ChangeKind.NEW_PATH: "requests on this path",
    ChangeKind.LOST_PATH: "requests on this path",
    ChangeKind.ERRORS: "requests in which it fails",
    ChangeKind.FEWER_ERRORS: "requests in which it fails",
    ChangeKind.SERIAL: "time side by side",
    ChangeKind.PARALLEL: "time side by side",
    ChangeKind.WORKLOAD: "share of the requests",
}
_MOST_Q: Final = 1e-12
"""A q-value below this is not told apart from others."""


def measured(kind: ChangeKind) -> str:
    """What the numbers before and after are: `median a request`."""
    return _IS[kind]


def place(site: Site) -> str:
    """`recommendationservice/ListRecommendations, from frontend/GET /product`."""
    return f"{site.text}{whence(site)}"


def whence(site: Site) -> str:
    """`, from …`: who calls, or where a step begins; empty for a root."""
    if site.caller is not None:
        return f", from {site.caller.text}"
    return f", from {count(site.callers)} places" if site.callers > 1 else ""


def moved(thing: Finding | Evidence) -> str:
    """`12.1 ms → 264 ms`."""
    return measures.moved(thing.unit, thing.before, thing.after)


def interval(thing: Finding | Evidence) -> str:
    """`+238 to +266 ms`."""
    return measures.span(thing.unit, thing.change)


def amount(finding: Finding) -> str:
    """What it adds to the mean, or takes away: `+99.2 ms a request`."""
    return f"{measures.shift('us', finding.contribution_us)} a request"


def share_sentence(finding: Finding) -> str:
    """`78 to 86 % of all added time`; empty where the mean did not change, or the other way."""
    if finding.share_of_change is None or not finding.contribution_us:
        return ""
    whole = "all added time" if finding.contribution_us > 0 else "all saved time"
    return f"{measures.share_span(finding.share_of_change)} of {whole}"


def part_sentence(finding: Finding) -> str:
    """The share where there is one, else the amount."""
    return share_sentence(finding) or amount(finding)


def how_sure(q: float, z: float | None) -> str:
    """`q < 1e-12, 41 × its noise`."""
    told = "< 1e-12" if q < _MOST_Q else f"= {p_value(q)}"
    return f"q {told}" + ("" if z is None else f", {significant(abs(z), 2)} × its noise")


def sureness(finding: Finding) -> str:
    """How sure a finding is, by its leading evidence."""
    return how_sure(finding.q, finding.evidence[0].z if finding.evidence else None)


def affected(finding: Finding) -> str:
    """`29 → 3 174 requests (11 % of all)`."""
    after = counted(finding.affected1, "request")
    return f"{count(finding.affected0)} → {after} ({percent(finding.share1)} of all)"


def factor_sentence(factor: Factor) -> str:
    """`Where service.version = v2: +252 ms; elsewhere: +0.3 ms.`"""
    here = measures.shift(factor.unit, factor.effect_here)
    elsewhere = measures.shift(factor.unit, factor.effect_elsewhere)
    return f"Where {factor.attribute} = {factor.value}: {here}; elsewhere: {elsewhere}."


def told_apart(explanation: Explanation) -> str:
    """The explanation's sentence, ending in a full stop."""
    sentence = explanation.sentence.strip()
    return sentence if not sentence or sentence[-1] in ".!?" else f"{sentence}."


def differs(explanation: Explanation) -> str:
    """The same for a line: only what can be relied on is told at length."""
    if explanation.reliable:
        return told_apart(explanation)
    return {
        "no-parameters": "no parameters were recorded.",
        "too-few": "too few requests to tell.",
        "unstable": f"nothing stable ({', '.join(explanation.competing[:2])} compete)."
        if explanation.competing
        else "nothing stable.",
    }.get(explanation.reason, "no parameter that was recorded.")


def further(views: Sequence[FurtherView]) -> str:
    """The command of the most telling view; what others there are."""
    others = ", ".join(view.method for view in views[1:])
    return f"{views[0].command}" + (f"  # also on the page: {others}" if others else "")


def conditions(parts: tuple[str, ...]) -> str:
    """Conditions of a rule as one: `a = b and c > 4`."""
    return " and ".join(parts) if parts else "everything else"


def share_range(share: Interval) -> tuple[float, float]:
    """Ends of a share's bar, percent within 0 and 100: left, and width of at least 1."""
    low, high = (100 * min(max(end, 0.0), 1.0) for end in (share.low, share.high))
    return min(low, 99.0), max(high - low, 1.0)


def rest_sentence(rest: Unexplained) -> str:
    """What changed by test and made no finding; empty where nothing did.

    Without an amount: their parts lie within each other, and are part of what findings account for.
    """
    if not rest.evidence:
        return rest.text
    return f"{counted(rest.evidence, 'other change')} by test. {rest.text}".strip()


def saves(finding: Finding) -> str | None:
    """`98.7 ms a request`, where it saves something."""
    if finding.saves_us is None or finding.saves_us <= 0:
        return None
    return f"{duration(finding.saves_us)} a request"
