"""Relate symptoms: which follows from which.

A relation is a function (u, v, context) -> how well "u follows from v" fits, as a tuple of which the larger is
the better, or None. To add one: a function and a row in RELATIONS, with the case that fails without it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from analyze.methods.robust.causes.context import Context
from analyze.methods.robust.causes.patterns import what_moved
from analyze.methods.robust.causes.symptoms import Symptom
from analyze.methods.robust.changes import (
    ALIKE_KINDS,
    CALL_KINDS,
    ERROR_KINDS,
    NO_SHAPE,
    PATH_KINDS,
)
from schemas.report.findings import ChangeKind

Fit = tuple[float, ...] | None


class Link(Enum):
    """What u is to v."""

    FOLLOWS = "a consequence"
    ELSEWHERE = "the same at another host, operation or caller"
    PART = "another side of it"


@dataclass(frozen=True, slots=True)
class Relation:
    """One way in which a symptom follows from another."""

    name: str
    link: Link
    fit: Callable[[Symptom, Symptom, Context], Fit]
    doc: str
    case: str


# ---------------------------------------------------------------- what an operation does: paths, calls, errors


def same_requests(u: Symptom, v: Symptom, context: Context) -> Fit:
    if u.timed or v.timed or context.same(u.operation) == context.same(v.operation):
        return None
    whole = _may_lead(v, u, context)
    if whole is None:
        return None
    mine, theirs = u.requests, context.everywhere[context.same(v.operation)]
    common, n = int((mine & theirs).sum()), int(mine.sum())
    if not common or common < context.settings.same_requests * (
        n if whole else min(n, 2 * int(theirs.sum()))
    ):
        return None
    records = context.order.records
    related = context.below(v, u) or v.operation in records
    fresh = (
        u.operation not in records or v.is_new or not u.is_new
    )  # of records nearly all fits that comes before
    own = int((mine & v.requests).sum())  # of the same on several hosts the one that shares most itself
    return related, fresh, common, own, context.order.depth[v.operation]


def _may_lead(v: Symptom, u: Symptom, context: Context) -> bool | None:
    """Whether u may follow from v; None: it may not, True: all of its requests must show v.

    What is nearer to the cause comes first. Of records the failing point goes before the path that leads to
    it: the path only says where the failure was. A loop that turns more often does not follow from a path
    that was taken before; nor does a path that was never there, where the requests that come besides are not
    those that take it.
    """
    if u.operation in context.order.records and v.operation in context.order.records:
        if v.fails and not u.fails and _leads_to(u, v, context):
            return True
        if u.fails and not v.fails and _leads_to(v, u, context):
            return None
    own = u.has(CALL_KINDS) or (u.is_new and leaves_a_path(u, context))
    caused = v.has(CALL_KINDS) or v.is_new
    return False if context.order.is_nearer(v.operation, u.operation) and (caused or not own) else None


def _leads_to(path: Symptom, to: Symptom, context: Context) -> bool:
    """Whether a path that became more frequent goes to an operation, on some host."""
    wanted, shapes = context.same(to.operation), context.names.shapes
    return any(
        change.ups
        and change.shape != NO_SHAPE
        and any(context.same(c.operation) == wanted for c in shapes[change.shape])
        for change in path.changes
    )


def leaves_a_path(symptom: Symptom, context: Context) -> bool:
    """Whether hardly any take a path that many took, although more come there."""
    settings = context.settings
    return any(
        change.kind in PATH_KINDS
        and (came := context.came(change)) > settings.calls_moved
        and change.after * came * settings.path_left < change.before
        for change in symptom.changes
    )


def failing_calls(u: Symptom, v: Symptom, context: Context) -> Fit:
    if (
        u.timed
        or not u.fails
        or not v.fails
        or u.operation in context.order.records
        or not context.below(v, u)
    ):
        return None
    mine = int(u.requests.sum())
    together = int((u.requests & context.failing_below(u)).sum())
    if not mine or together < context.settings.same_requests * mine:
        return None
    return (int((u.requests & v.requests).sum()),)


def other_requests(u: Symptom, v: Symptom, context: Context) -> Fit:
    if v.timed or not context.below(u, v) or u.has(ERROR_KINDS) or leaves_a_path(u, context):
        return None
    settings = context.settings
    factor = settings.flooded if u.is_new else settings.calls_moved
    return (v.score,) if context.sees_other_requests(u.changes, factor) else None


def load_of_paths(u: Symptom, v: Symptom, context: Context) -> Fit:
    if v.timed or v.lead.kind not in PATH_KINDS or (v.score < u.score and not u.by_load):
        return None
    moved = context.moved[v.operation]
    changes = [c for c in u.changes if u.timed or c.kind in CALL_KINDS]
    if not moved or not changes or not (u.timed or u.lead.kind in CALL_KINDS):
        return None
    return (v.score,) if all(moved.get(context.own(u), 0) == (1 if c.ups else -1) for c in changes) else None


def same_failing_callee(u: Symptom, v: Symptom, context: Context) -> Fit:
    if u.timed or v.timed or not u.suspect or u.suspect != v.suspect:
        return None
    fail = u.lead.kind is v.lead.kind is ChangeKind.ERRORS
    if not fail and context.own(u) == context.own(v):
        return None
    calls, other = (context.callee(one) == one.suspect for one in (v, u))
    return (v.score,) if (calls, v.before(u)) > (other, False) and (not other or calls) else None


def alike_at_component(u: Symptom, v: Symptom, context: Context) -> Fit:
    if u.timed or v.timed or u.component != v.component or not v.before(u):
        return None
    what = _in_common(u, context)
    return (v.score,) if what is not None and what == _in_common(v, context) else None


def _in_common(symptom: Symptom, context: Context) -> object:
    """What operations of a component must have in common to be alike; None: they are not."""
    kind = symptom.lead.kind
    if kind in PATH_KINDS:
        return what_moved(symptom.lead, symptom.changes, context.names)
    if kind in ERROR_KINDS:
        return kind, context.callee(symptom)
    return kind if kind in CALL_KINDS | ALIKE_KINDS else None


# ---------------------------------------------------------------- how long it takes


def slow_after_failure(u: Symptom, v: Symptom, context: Context) -> Fit:
    if (
        not u.timed
        or not u.lead.ups
        or not v.fails
        or v.operation in context.order.records
        or not context.below(v, u)
    ):
        return None
    needed = u.lead.after if u.lead.unit == "share" else context.settings.slow_with_failing
    failing = int((u.requests & context.failing_below(u)).sum())
    return (v.score,) if failing and failing >= needed * int(u.requests.sum()) else None


def same_callee(u: Symptom, v: Symptom, context: Context) -> Fit:
    waits = context.callee(u) == context.callee(v) == u.component
    return same_component(u, v, context) if waits else None


def same_component(u: Symptom, v: Symptom, context: Context) -> Fit:
    if not u.timed or not v.timed or u.by_load or v.by_load or u.lead.ups != v.lead.ups:
        return None
    return (v.score,) if u.component == v.component and v.before(u) else None


def times_and_paths(u: Symptom, v: Symptom, context: Context) -> Fit:
    if u.timed == v.timed or u.by_load or v.by_load:
        return None
    time, path = (u, v) if u.timed else (v, u)
    if time.component not in {path.component, *context.callee(path).split("+")}:
        return None
    calls_lead = path.lead.kind in CALL_KINDS and path.score > time.score
    return (v.score,) if (v is path) == calls_lead else None


# ---------------------------------------------------------------- where it happens


def other_hosts(u: Symptom, v: Symptom, context: Context) -> Fit:
    hosts = context.hosts
    here, there = hosts.host(u.lead.site), hosts.host(v.lead.site)
    if not here or not there or here == there or not v.before(u):
        return None
    return (v.score,) if hosts.what(u.lead) == hosts.what(v.lead) else None


RELATIONS: tuple[Relation, ...] = (
    Relation("same-requests", Link.FOLLOWS, same_requests,
        "The requests that show u are those that show v, and v is nearer to where it began.", ""),
    Relation("failing-calls", Link.FOLLOWS, failing_calls,
        "u fails where any of its calls does, of which v fails in most of its requests.", ""),
    Relation("other-requests", Link.FOLLOWS, other_requests,
        "Other requests reach u since v, above it, takes other paths.", ""),
    Relation("load-of-paths", Link.FOLLOWS, load_of_paths,
        "v sends more or fewer calls to the component of u, which is slower or faster, or called more or less, for it.", ""),
    Relation("slow-after-failure", Link.FOLLOWS, slow_after_failure,
        "u takes longer above v, which fails in most of its requests: error pages, back-offs.", ""),
    Relation("same-failing-callee", Link.ELSEWHERE, same_failing_callee,
        "Callers of one component fail by it, or stop after its call.", ""),
    Relation("alike-at-component", Link.ELSEWHERE, alike_at_component,
        "Operations of one component fail, loop, or call the same more or less often, at once: they share code.", ""),
    Relation("same-callee", Link.ELSEWHERE, same_callee,
        "Callers of one component wait longer for it.", ""),
    Relation("same-component", Link.PART, same_component,
        "One component explains both times: it is slow itself, all wait for it, or it waits for all.", ""),
    Relation("times-and-paths", Link.PART, times_and_paths,
        "A component takes longer, and its paths changed, or those of who calls it.", ""),
    Relation("other-hosts", Link.ELSEWHERE, other_hosts,
        "The same operation changed in the same way on another host.", ""),
)  # fmt: skip
"""The most telling first: a symptom follows by the first that fits."""
