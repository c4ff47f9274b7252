"""Sentences of findings: operation and component, what happened, by how much."""

from __future__ import annotations

from collections.abc import Sequence

from analyze.methods.robust.causes.cause import Cause
from analyze.methods.robust.causes.hosts import HostOf
from analyze.methods.robust.causes.patterns import counterpart, difference
from analyze.methods.robust.changes import ALIKE_KINDS, NO_SHAPE, PATH_KINDS, Change
from analyze.profile.names import Names, OperationName, Shape, SiteKind
from analyze.report import wording
from schemas.report.findings import ChangeKind

_MOST_NAMED = 2


def title(change: Change, changes: Sequence[Change], names: Names) -> str:
    """What a finding led by `change` says in one sentence."""
    what = _place(change.site, names)
    shares = f"{wording.percent(change.after)} of requests, was {wording.percent(change.before)}"
    kind = change.kind
    if kind in (ChangeKind.SLOWER, ChangeKind.FASTER):
        before, after = wording.durations(change.before, change.after)
        if names.callee(names.sites[change.site].operation):
            return f"{what}: the call takes {after}, was {before}"
        own = "the step" if names.sites[change.site].kind is SiteKind.STEP else "its own time"
        return f"{what}: {own} is {after}, was {before}"
    if kind is ChangeKind.TAIL:
        return f"{what} takes very long in {shares}"
    if kind in (ChangeKind.ERRORS, ChangeKind.FEWER_ERRORS):
        return f"{what} fails in {shares}"
    if kind in (ChangeKind.SERIAL, ChangeKind.PARALLEL):
        how = "one after the other" if kind is ChangeKind.SERIAL else "side by side"
        return (
            f"{what}: its calls run {how}; on average {change.after:.1f} at a time, was {change.before:.1f}"
        )
    if kind in (ChangeKind.MORE_CALLS, ChangeKind.FEWER_CALLS):
        return f"{what} is called {change.after:.1f} times a request, was {change.before:.1f}"
    return f"{what} {path_words(change, changes, names)} in {shares}"


def where(cause: Cause) -> str:
    """On which hosts, where that tells something: on several, or on these and not on others."""
    if len(cause.hosts) > 1 and not cause.spared:
        return f" (on all hosts: {', '.join(cause.hosts)})"
    if len(cause.hosts) > 1:
        return f" (on {', '.join(cause.hosts)}, not on {', '.join(cause.spared)})"
    if cause.hosts and cause.spared:
        return f" (on {cause.hosts[0]} only)"
    return ""


def elsewhere(cause: Cause, names: Names, host_of: HostOf) -> str:
    """How many other operations of the component, or callers of who is to look at, it happened to as well."""
    lead = names.sites[cause.lead.site].operation
    own = names.operations[lead]
    kinds = ALIKE_KINDS | PATH_KINDS
    alike = {names.sites[change.site].operation for change in cause.leads if change.kind in kinds}
    others = sum(names.operations[operation].component == own.component for operation in alike - {lead})
    told = [f"{others} other operation{'s' * (others > 1)}"] if others else []
    if names.callee(lead) == cause.component:
        asking = {names.sites[change.site].operation for change in cause.leads}
        callers = {
            host_of.get(component, ("", component))[1]
            for operation in asking | {lead}
            if names.callee(operation) == cause.component
            for component in [names.operations[operation].component]
        }
        told += [f"{len(callers) - 1} other caller{'s' * (len(callers) > 2)}"] if len(callers) > 1 else []
    return f"; {' and '.join(told)} alike" if told else ""


def path_words(change: Change, changes: Sequence[Change], names: Names) -> str:
    """What is different about a local shape, against the one that most requests came from (or went to)."""
    if change.child >= 0:
        called = _short(names.operations[change.child])
        return f"no longer calls {called}" if change.kind is ChangeKind.LOST_PATH else f"calls {called}"
    if change.shapes:
        return "takes paths that were never seen"
    other = counterpart(change, changes)
    shape = names.shapes[change.shape] if change.shape != NO_SHAPE else ()
    if other is None:
        gone = " no longer" if change.kind is ChangeKind.LOST_PATH else ""
        return f"{gone.strip() + ' ' if gone else ''}{_calls(shape, names)}"
    more, fewer = difference(shape, names.shapes[other.shape])
    parts = []
    if more:
        parts.append(f"also calls {_list(more, names)}")
    if fewer:
        parts.append(f"does not call {_list(fewer, names)}")
    return " and ".join(parts) or _waiting(shape, names.shapes[other.shape], names) or _calls(shape, names)


def shape_words(shape: Shape, names: Names) -> str:
    """A local shape, for a row of evidence."""
    return _calls(shape, names)


def _waiting(shape: Shape, other: Shape, names: Names) -> str:
    """What the response waits for now and did not, or no longer does; empty for nothing."""
    mine, theirs = ({c.operation: c.calls for c in children if c.awaited} for children in (shape, other))
    more = {o: n for o, n in mine.items() if n > theirs.get(o, 0)}
    fewer = {o: n for o, n in theirs.items() if n > mine.get(o, 0)}
    parts = [
        f"{verb} {_list(calls, names)}"
        for verb, calls in (("waits for", more), ("does not wait for", fewer))
        if calls
    ]
    return " and ".join(parts)


def _calls(shape: Shape, names: Names) -> str:
    if not shape:
        return "calls nothing"
    return f"calls {_list({child.operation: child.calls for child in shape}, names)}"


def _list(calls: dict[int, int], names: Names) -> str:
    words = [
        (f"{count} x " if count > 1 else "") + _short(names.operations[operation])
        for operation, count in list(calls.items())[:_MOST_NAMED]
    ]
    rest = len(calls) - len(words)
    return ", ".join(words) + (f" and {rest} more" if rest > 0 else "")


def _short(name: OperationName) -> str:
    return name.callee if name.callee else f"{name.component}/{name.point}"


def _place(site: int, names: Names) -> str:
    name, caller = names.operation(site), names.caller(site)
    if names.sites[site].kind is SiteKind.STEP and caller is not None:
        return f"{caller.component}/{caller.point} to {name.component}/{name.point}"
    where = f"{name.component}/{name.point}"
    callee = names.callee(names.sites[site].operation)
    return f"{where} calling {callee}" if callee else where
