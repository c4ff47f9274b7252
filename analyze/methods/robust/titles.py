"""Titles of findings (what happened, where, by how much), and the headline of a report.

A title states only what a test confirms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from analyze.methods.robust.calls_by_instance import HOST
from analyze.methods.robust.causes.context import HostOf
from analyze.methods.robust.causes.patterns import counterpart, times_called
from analyze.methods.robust.causes.symptoms import Cause
from analyze.methods.robust.changes import ALIKE_KINDS, NO_PATTERN, Change
from analyze.methods.robust.kind_words import GONE, KIND_WORDS, Said
from analyze.methods.robust.segments.segment import Segment
from analyze.profile.names import CallPattern, Names, OperationName, SiteKind
from analyze.report import wording
from analyze.report.gate import ChangedMeasure
from schemas.report.accounts import Account, ReasonKind, VerdictSection
from schemas.report.findings import PATH_KINDS, TIME_KINDS, ChangeKind, Finding

_MOST_NAMED = 2


def finding_title(cause: Cause, names: Names, host_of: HostOf) -> str:
    """Title of a finding, one sentence: what happened, where else, on which instance or hosts, for which
    attribute segment."""
    said = title(cause.lead, cause.changes, names) + elsewhere(cause, names, host_of) + where(cause)
    said += whose(cause)
    waiting = _waiting_calls(cause, names)
    own = names.operation(cause.lead.site).component
    asked = {at for at, name in enumerate(names.operations) if name.component == own and name.callee}
    if len(waiting) > 1 and waiting == asked:
        return f"{own} waits {'longer' if cause.lead.ups else 'less'} for all that it calls: {said}"
    return said


def _waiting_calls(cause: Cause, names: Names) -> set[int]:
    """Indices of the operations by which the cause's component waits for other components, if these waits
    changed in the same direction as the lead. Several such operations do not point to one callee."""
    own = names.operation(cause.lead.site).component
    return {
        names.sites[change.site].operation
        for change in cause.changes
        if cause.component == own
        and cause.lead.kind in TIME_KINDS
        and change.kind in TIME_KINDS
        and change.ups == cause.lead.ups
        and names.operation(change.site).component == own
        and names.callee(names.sites[change.site].operation)
    }


def title(change: Change, changes: Sequence[Change], names: Names) -> str:
    """Sentence that describes `change`, the leading change of a finding. changes: all changes of the finding,
    among which the sentence finds the call patterns that replaced each other."""
    if change.segment is not None:
        return _segment_title(change, change.segment, names)
    site = names.sites[change.site]
    said = Said(
        _place(change.site, names),
        change,
        is_between=_is_between(change.site, names),
        is_step=site.kind is SiteKind.STEP,
        waits=bool(names.callee(site.operation)),
        path=lambda: path_words(change, changes, names),
    )
    return KIND_WORDS[change.kind].sentence(said)


def _segment_title(change: Change, segment: Segment, names: Names) -> str:
    """Sentence for a change limited to an attribute segment: attribute values, shares or times, call site."""
    place, n = _place(change.site, names), segment.operations
    where = f"in {n} operations of {names.operation(change.site).component}" if n > 1 else f"at {place}"
    if change.kind is ChangeKind.ERRORS:
        before, now = wording.percent(change.before), wording.percent(change.after)
        said = f"failing for {segment.text}: {now}, was {before}, {where}"
    else:
        before, now = wording.durations(change.before, change.after)
        said = f"slower for {segment.text}: own time {now}, was {before}, {where}"
    same = " or ".join(f"{key} = {value}" for key, value in segment.alike[:_MOST_NAMED])
    return f"{said} (or {same}: the same requests)" if same else said


def whose(cause: Cause) -> str:
    """Phrase for the attribute segment that has most of a finding's change, e.g. `; mostly for region = eu`;
    empty if there is none, or if the title names an instance or a segment already."""
    if cause.lead.segment is not None or cause.lead.instance is not None:  # which say it
        return ""
    found = dict.fromkeys(c.segment.text for c in cause.changes if c.segment is not None)
    return f"; mostly for {next(iter(found))}" if found else ""


def where(cause: Cause) -> str:
    """Phrase for the instance or the hosts that show a finding, e.g. ` (on a1 only)`; empty if it is not
    limited to an instance and at most one host is known."""
    if (only := cause.lead.instance) is not None:
        if only.attribute == HOST:
            return f" (on 1 of {only.of} instances: {only.value})"
        return f" (where {only.attribute} is {only.value}, 1 of {only.of} values)"
    if len(cause.hosts) > 1 and not cause.spared:
        return f" (on all hosts: {', '.join(cause.hosts)})"
    if len(cause.hosts) > 1:
        return f" (on {', '.join(cause.hosts)}, not on {', '.join(cause.spared)})"
    if cause.hosts and cause.spared:
        return f" (on {cause.hosts[0]} only)"
    return ""


def elsewhere(cause: Cause, names: Names, host_of: HostOf) -> str:
    """Phrase for the number of other operations, callers or calls with the same change, e.g. `; the same at 2
    other callers`; empty if there are none."""
    lead = names.sites[cause.lead.site].operation
    own = names.operations[lead]
    kinds = ALIKE_KINDS | PATH_KINDS
    alike = {names.sites[change.site].operation for change in cause.elsewhere if change.kind in kinds}
    others = sum(names.operations[operation].component == own.component for operation in alike - {lead})
    places = [f"{others} other operation{'s' * (others > 1)}"] if others else []
    if names.callee(lead) == cause.component:
        asking = {names.sites[change.site].operation for change in cause.elsewhere}
        callers = {
            host_of.get(component, ("", component))[1]
            for operation in asking | {lead}
            if names.callee(operation) == cause.component
            for component in [names.operations[operation].component]
        }
        places += [f"{len(callers) - 1} other caller{'s' * (len(callers) > 2)}"] if len(callers) > 1 else []
    calls = len(_waiting_calls(cause, names) - {lead})
    places += [f"{calls} other call{'s' * (calls > 1)} of {own.component}"] if calls else []
    return f"; the same at {' and '.join(places)}" if places else ""


def path_words(change: Change, changes: Sequence[Change], names: Names) -> tuple[str, str]:
    """Two phrases for a changed call pattern, relative to the pattern whose share changed most in the
    opposite direction, e.g. (`also calls X`, `also calling X`)."""
    said = names.operation(change.site).text
    other = counterpart(change, changes)
    pattern = names.patterns[change.pattern] if change.pattern != NO_PATTERN else ()
    if other is None:
        return _calls(pattern, names, said, "only " if pattern else "")
    usual = names.patterns[other.pattern]
    more, fewer = times_called(pattern, usual), times_called(usual, pattern)
    added, left_out = _list(more, names, said), _list(fewer, names, said)
    if more and fewer:
        return f"calls {added} instead of {left_out}", f"calling {added} instead of {left_out}"
    if more:
        return f"also calls {added}", f"also calling {added}"
    if fewer:
        does_not = "stopped calling" if change.before < GONE else "leaves out"
        return f"{does_not} {left_out}", f"leaving out {left_out}"
    return _waiting(pattern, usual, names, said) or _calls(pattern, names, said)


def pattern_words(pattern: CallPattern, names: Names) -> str:
    """Phrase for a call pattern in a row of evidence, e.g. `calls X, 2 x Y`."""
    return _calls(pattern, names)[0]


def _waiting(pattern: CallPattern, other: CallPattern, names: Names, said: str) -> tuple[str, str] | None:
    """Two phrases for callees that the response waits for in only one of two patterns, e.g. (`waits for X`,
    `waiting for X`); None if there are none."""
    mine, theirs = (
        {c.operation: (c.least, c.calls) for c in children if c.awaited} for children in (pattern, other)
    )
    more = {o: n for o, n in mine.items() if n > theirs.get(o, (0, 0))}
    fewer = {o: n for o, n in theirs.items() if n > mine.get(o, (0, 0))}
    parts = [
        (f"{does} {_list(calls, names, said)}", f"{doing} {_list(calls, names, said)}")
        for does, doing, calls in (
            ("waits for", "waiting for", more),
            ("does not wait for", "going on without", fewer),
        )
        if calls
    ]
    return (" and ".join(does for does, _ in parts), " and ".join(g for _, g in parts)) if parts else None


def _calls(pattern: CallPattern, names: Names, said: str = "", only: str = "") -> tuple[str, str]:
    called = _list(times_called(pattern), names, said) if pattern else "nothing"
    return f"calls {only}{called}", f"calling {only}{called}"


def _list(calls: dict[int, tuple[int, int]], names: Names, said: str = "") -> str:
    """List of operations with their numbers of calls, e.g. `X, 2 x Y and 1 more`; a component named in `said`
    is not repeated."""
    words = []
    for operation, (least, most) in list(calls.items())[:_MOST_NAMED]:
        name = _called(names.operations[operation])
        times = f"{most} x " if least == most else f"{least}–{most} x "
        words.append(("" if most == 1 else times) + wording.after(said, name))
        said = said if wording.common_prefix([said, name]) else name
    rest = len(calls) - len(words)
    return ", ".join(words) + (f" and {rest} more" if rest > 0 else "")


def _called(name: OperationName) -> str:
    """Name of an operation as `component/point`; its callee instead of the component if it calls one."""
    return f"{name.callee or name.component}/{name.point}"


def _place(site: int, names: Names) -> str:
    name, caller = names.operation(site), names.caller(site)
    if names.sites[site].kind is SiteKind.STEP and caller is not None:
        return f"{caller.component}/{caller.point} to {name.component}/{name.point}"
    where = f"{name.component}/{name.point}"
    callee = names.callee(names.sites[site].operation)
    return f"{where} calling {callee}" if callee else where


def _is_between(site: int, names: Names) -> bool:
    """True if the site is the caller's side of a call whose callee is recorded: its own time is then network
    or queueing time."""
    return bool(names.operation(site).callee)


_SHARES: Final = {"tail": "Slow requests", "errors": "Requests with a failing call"}


def headline_of(
    verdict: VerdictSection, mean: Account, changed: Sequence[ChangedMeasure], findings: Sequence[Finding]
) -> str:
    """Headline of a report: about failures if they rose significantly, otherwise about the mean response time
    if it changed, otherwise about the first finding, otherwise that nothing changed. changed: shares that
    changed significantly.

    If the mean fell because requests do less, the title of the first finding that saves time without being an
    improvement comes first.
    """
    shares = [
        wording.moved_sentence(
            _SHARES[measure], wording.percent(before), wording.percent(after), up=after > before
        )
        for measure, before, after in changed
    ]
    if mean.changed:
        said = [wording.mean_sentence(mean.before, mean.after), *shares[-1:]]
        less = [f.title for f in findings if f.contribution_us < 0 and not f.is_better]
        if any(measure == "errors" and after > before for measure, before, after in changed):
            said.reverse()
        elif mean.after < mean.before:
            said[:0] = less[:1]
        return f"{'; '.join([said[0], *(one[:1].lower() + one[1:] for one in said[1:])])}."
    if findings:
        more = f"; and {wording.counted(len(findings) - 1, 'more finding')}" if len(findings) > 1 else ""
        times = wording.moved_duration(mean.before, mean.after)
        whole = [f"{share[:1].lower()}{share[1:]}" for share in shares[-1:]]
        whole = whole or [f"the mean response time did not change significantly ({times})"]
        return f"{findings[0].title}{more}; {whole[0]}."
    if shares:
        return f"{shares[-1]}."
    if verdict.outcome == "not-explained" or not mean.before or not mean.after:
        return ""
    if any(reason.kind is ReasonKind.THERE_BEFORE for reason in verdict.reasons):
        times = wording.moved_duration(mean.before, mean.after)
        return (
            f"What is wrong was there before: reference and problem differ from the history, and not "
            f"significantly from each other ({times} on average)."
        )
    nothing = (
        "Nothing changed significantly"
        if verdict.outcome == "unchanged"
        else "No significant change was found"
    )
    return f"{nothing}: mean response time {wording.moved_duration(mean.before, mean.after)}."
