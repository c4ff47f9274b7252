"""Relations by which one symptom follows from another, one row of RELATIONS each.

A relation is a function (u, v, context) -> how well "u follows from v" fits: None for no fit, otherwise a
tuple that is larger for a better fit. It may fit only if v explains at least as much as u: v is nearer to the
origin of the change or, if either could be the origin, `v.outranks(u)`. To add a relation, write the function
and its row, with the test case that fails without it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from analyze.methods.robust.causes.context import Context
from analyze.methods.robust.causes.patterns import what_moved
from analyze.methods.robust.causes.symptoms import Symptom
from analyze.methods.robust.changes import NO_PATTERN
from schemas.report.findings import CALL_KINDS, ERROR_KINDS, PATH_KINDS, ChangeKind

Fit = tuple[float, ...] | None


class Link(Enum):
    """Way in which a symptom u relates to the symptom v that it follows from; the value is the text shown in
    reports."""

    FOLLOWS = "a consequence of it"
    ELSEWHERE = "the same on another host, at another caller or operation"
    PART = "another side of it"


@dataclass(frozen=True, slots=True)
class Relation:
    """Rule by which a symptom follows from another, a row of RELATIONS. The first paragraph of the docstring
    of `fit` states the purpose of the rule."""

    name: str
    link: Link
    fit: Callable[[Symptom, Symptom, Context], Fit]
    case: str
    """Name of the test case that fails without the relation."""
    of_load: bool = False
    """True if the relation also applies to symptoms that the load of the whole service would explain
    (`Symptom.by_load`)."""


# ------------------------------------------------ what an operation does: paths, calls, errors


def same_requests(u: Symptom, v: Symptom, context: Context) -> Fit:
    """Relate u to v if nearly the same requests show both, and v is nearer to the origin: the callee, or the
    earlier trace point."""
    if u.timed or v.timed or not _may_lead(v, u, context):
        return None
    related = context.below(u, v) or context.below(v, u)
    common = u.common(v, related=related and context.hosts.what(u.lead) != context.hosts.what(v.lead))
    if not common or common < context.settings.same_requests * u.n_requests:
        return None
    return context.below(v, u), common, context.order.depth[v.operation]


def _may_lead(v: Symptom, u: Symptom, context: Context) -> bool:
    """True if u may follow from v, given that the same requests show both.

    The symptom nearer to the origin leads. Among activity records, a failing trace point leads the path to
    it, as the path only shows where the failure was. Additional iterations of a loop do not follow from a
    change of a known path. Nor does a new path follow from a known path, unless the additional requests take
    the new path and requests are recorded (statistics do not record which requests take it).
    """
    if u.operation in context.order.records and v.operation in context.order.records:
        if v.fails and not u.fails and _leads_to(u, v, context):
            return True
        if u.fails and not v.fails and _leads_to(v, u, context):
            return False
    known = len(u.requests) > 0
    own = u.has(CALL_KINDS) or (u.is_new and (not known or _leaves_a_path(u, context)))
    caused = v.is_new or (v.has(CALL_KINDS) and (known or not u.is_new))
    return context.order.is_nearer(v.operation, u.operation) and (caused or not own)


def _leads_to(path: Symptom, to: Symptom, context: Context) -> bool:
    """True if a call pattern that became more frequent in the symptom `path` calls the operation of `to`."""
    taken = (c.pattern for c in path.changes if c.ups and c.pattern != NO_PATTERN)
    return any(
        child.operation == to.operation for pattern in taken for child in context.names.patterns[pattern]
    )


def _leaves_a_path(symptom: Symptom, context: Context) -> bool:
    """True if the symptom has a path that became rare although its site gets more requests; additional
    requests alone cannot make an existing path rare."""
    settings = context.settings
    return any(
        change.kind in PATH_KINDS
        and (came := context.came(change)) > settings.calls_moved
        and change.after * came * settings.path_left < change.before
        for change in symptom.changes
    )


def failing_below(u: Symptom, v: Symptom, context: Context) -> Fit:
    """Relate a failing caller to the failing symptom of the callee's component at which most of the caller's
    failures begin."""
    follows = u.fails and v.fails and context.below(v, u) and u.suspect == v.component
    return (u.common(v, related=True),) if follows else None


def other_requests(u: Symptom, v: Symptom, context: Context) -> Fit:
    """Relate a change at an operation that gets more or fewer calls to the path change above it that adds or
    removes these calls.

    A fall of time follows only as far as the lost calls explain it, since the remaining requests may have
    been the faster ones before.
    """
    if v.timed or not context.below(u, v) or u.has(ERROR_KINDS) or _leaves_a_path(u, context):
        return None
    if u.timed and not u.lead.ups and (moved := what_moved(v.lead, v.changes, context.names)):
        more, fewer = moved
        if more and u.operation in fewer and u.lead.after >= context.came(u.lead) * u.lead.before:
            return (v.score,)
    settings = context.settings
    factor = settings.flooded if u.is_new else settings.calls_moved
    return (v.score,) if all(not 1 / factor < context.came(change) < factor for change in u.changes) else None


def rerouted_calls(u: Symptom, v: Symptom, context: Context) -> Fit:
    """Relate changes of a component's times, numbers of calls, or shares of known paths to a larger path
    change that routes calls to that component or away from it."""
    if v.timed or (v.score < u.score and not u.by_load):
        return None
    way = context.moved[v.operation].get(context.own(u), 0)
    queue = u.timed or u.lead.kind in CALL_KINDS
    moved = [c for c in u.changes if u.timed or c.kind in CALL_KINDS]
    follows = all(way == (1 if c.ups else -1) for c in moved) if queue else u.of_known_paths
    return (v.score,) if way and follows else None


def same_failing_callee(u: Symptom, v: Symptom, context: Context) -> Fit:
    """Relate callers that fail because of one component, or stop after calling it; the symptom at the call of
    that component leads."""
    if u.timed or v.timed or not u.suspect or u.suspect != v.suspect:
        return None
    fail = u.lead.kind is v.lead.kind is ChangeKind.ERRORS
    if not fail and context.own(u) == context.own(v):
        return None
    calls, other = (context.callee(one) == one.suspect for one in (v, u))
    return (v.score,) if calls > other or (calls == other and v.outranks(u)) else None


def alike_at_component(u: Symptom, v: Symptom, context: Context) -> Fit:
    """Relate operations of one component that show the same new failure, loop or additional call, since they
    share code."""
    if u.timed or v.timed or u.component != v.component or not v.outranks(u) or _other_segments(u, v):
        return None
    what = _in_common(u, context)
    return (v.score,) if what is not None and what == _in_common(v, context) else None


def _in_common(symptom: Symptom, context: Context) -> object:
    """Key that two operations of a component must share for their symptoms to be alike; None if the symptom
    is alike to no other.

    Failures have different keys if they are failing calls of different callees.
    """
    if symptom.lead.kind in PATH_KINDS:
        return what_moved(symptom.lead, symptom.changes, context.names)
    return symptom.lead.kind, context.callee(symptom)


# ------------------------------------------------ how long it takes


def slow_after_failure(u: Symptom, v: Symptom, context: Context) -> Fit:
    """Relate a change of time to a failing call, at the same operation or below it, that most of the affected
    requests contain: error pages, retries, time-outs, refusals."""
    same = u.operation == v.operation and u.instance == v.instance
    if not (u.timed and v.fails) or not (same or context.below(v, u)):
        return None
    part = context.settings.slow_with_failing
    if u.lead.kind is ChangeKind.TAIL:  # a median moves with half of the requests, a tail with those in it
        part = context.settings.same_requests * (u.lead.after - u.lead.before)
    return (v.score,) if u.common(v, related=True) >= max(part * u.n_requests, 1) else None


def same_callee(u: Symptom, v: Symptom, context: Context) -> Fit:
    """Relate callers of one component whose waiting times for that component changed in the same direction;
    the finding counts the requests of all callers."""
    waits = context.callee(u) == context.callee(v) == u.component
    return same_component(u, v, context) if waits else None


def same_component(u: Symptom, v: Symptom, _: Context) -> Fit:
    """Relate changes of time in the same direction that one component explains: it is slow itself, all its
    callers wait for it, or it waits for all its callees."""
    if not (u.timed and v.timed) or u.lead.ups != v.lead.ups:
        return None
    same = u.component == v.component and not _other_segments(u, v)
    return (v.score,) if same and v.outranks(u) else None


def times_and_paths(u: Symptom, v: Symptom, context: Context) -> Fit:
    """Relate a change of a component's time and a change of its paths, or of its callers' paths. The change
    of time leads, except over a larger loop, and except over failures if the time fell."""
    if u.timed == v.timed:
        return None
    time, path = (u, v) if u.timed else (v, u)
    if time.component not in {path.component, *context.callee(path).split("+")}:
        return None
    path_leads = path.fails if not time.lead.ups else path.lead.kind in CALL_KINDS and path.score > time.score
    return (v.score,) if (v is path) == path_leads else None


# ------------------------------------------------ where it happens


def other_hosts(u: Symptom, v: Symptom, context: Context) -> Fit:
    """Relate the same change of one operation on different hosts."""
    hosts = context.hosts
    here, there = hosts.host(u.lead.site), hosts.host(v.lead.site)
    if not here or not there or here == there or not v.outranks(u):
        return None
    return (v.score,) if hosts.what(u.lead) == hosts.what(v.lead) else None


def one_instance(u: Symptom, v: Symptom, context: Context) -> Fit:
    """Relate a change of a component to the instance that has most of it, if the component's other instances
    hardly changed."""
    if v.instance is None or u.timed != v.timed or not _same_way(u, v) or context.own(u) != context.own(v):
        return None
    if u.instance is not None:
        within = set(u.instance.hosts) <= set(v.instance.hosts)
        return (v.size,) if within and v.outranks(u) else None
    change = v.lead.after - v.lead.before if v.fails else v.lead.log_ratio
    times = context.settings.one_instance
    spared = abs(v.instance.siblings) * times <= abs(change)
    # Failures are compared by number: their effect on the mean does not tell which instance they belong to.
    whole, part = (u.n_requests, v.n_requests) if v.fails else (u.size, v.size)
    return (v.size,) if spared and whole <= part * times else None


def _other_segments(u: Symptom, v: Symptom) -> bool:
    """True if u and v are limited to attribute segments: changes of two segments never have one cause."""
    return u.segment is not None and v.segment is not None


def part_of_segment(u: Symptom, v: Symptom, context: Context) -> Fit:
    """Relate failures at a call site to the attribute segment that has nearly all these failures, if the
    segment also fails at other operations."""
    if u.segment is not None or v.segment is None or not _same_way(u, v) or not v.fails:
        return None
    common = u.common(v, related=False)
    nearly_all = common >= context.settings.same_requests * u.n_requests
    return (common,) if nearly_all and v.segment.operations > 1 else None


def segment_of(u: Symptom, v: Symptom, context: Context) -> Fit:
    """Relate an attribute segment to the call site that locates its change: the site with most of its failing
    requests or, for times, a site of the same component."""
    if u.segment is None or v.segment is not None or not _same_way(u, v):
        return None
    if u.timed:
        return (v.score,) if context.own(u) == context.own(v) or u.component == v.component else None
    common = u.common(v, related=False)
    return (common,) if 2 * common >= max(u.n_requests, 1) else None


def _same_way(u: Symptom, v: Symptom) -> bool:
    """True if u and v are both slow-downs, or both increases of failures."""
    return u.lead.ups and v.lead.ups and u.fails == v.fails and (u.timed or u.fails)


RELATIONS: tuple[Relation, ...] = (
    Relation("part-of-segment", Link.PART, part_of_segment, "segments: 0.5 to 3 %"),
    Relation("segment-of", Link.PART, segment_of, "segments: a deployment fails"),
    Relation("one-instance", Link.PART, one_instance, "recordings: one pod of five"),
    Relation("same-requests", Link.FOLLOWS, same_requests, "shop 13:02; 8.4"),
    Relation("failing-below", Link.FOLLOWS, failing_below, "tests/unit/test_error_chain.py: several calls"),
    Relation("other-requests", Link.FOLLOWS, other_requests, "shop 12:10; 8.2, 8.3, 8.5"),
    Relation("rerouted-calls", Link.FOLLOWS, rerouted_calls, "8.2, F15", of_load=True),
    Relation(
        "slow-after-failure",
        Link.FOLLOWS,
        slow_after_failure,
        "tests/unit/test_error_chain.py: a call that times out",
    ),
    Relation("same-failing-callee", Link.ELSEWHERE, same_failing_callee, "shop 14:47, 15:04"),
    Relation("alike-at-component", Link.ELSEWHERE, alike_at_component, "F8"),
    Relation(
        "same-callee", Link.ELSEWHERE, same_callee, "tests/unit/test_causes.py: callers that wait; shop 12:35"
    ),
    Relation("same-component", Link.PART, same_component, "shop 12:01, 12:18"),
    Relation("times-and-paths", Link.PART, times_and_paths, "shop 16:31; Train-Ticket 15:42"),
    Relation("other-hosts", Link.ELSEWHERE, other_hosts, "8.6, F5, F13"),
)
"""All relations, in order of the evidence that their fit requires, strongest first; for each symptom the
first relation that fits applies."""
