"""Resolve symptoms to causes. Each symptom follows from at most one other symptom, by the strongest relation
that fits, without cycles; symptoms that follow from none are causes.

Causes are sorted by score, with improvements last, since nothing needs to be fixed there. If the mean
response time fell significantly, improvements are sorted together with the other causes (`by_size`), since
they changed the mean.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Final

from analyze.methods.robust.causes.context import Context
from analyze.methods.robust.causes.patterns import calls_added
from analyze.methods.robust.causes.relations import RELATIONS, Link, Relation
from analyze.methods.robust.causes.symptoms import Cause, Edge, Symptom, part_ns, sure_part
from analyze.methods.robust.changes import Change
from analyze.profile.names import Names
from schemas.report.findings import PATH_KINDS, ChangeKind

BETTER_LAST: Final = "better-last"
"""Name of the rule that sorts improvements last; listing it in the setting `without` disables the rule."""


def causes_of(context: Context, tested: Collection[int], without: Collection[str] = ()) -> tuple[Cause, ...]:
    """Find the causes among the symptoms of `context`, most important first.

    tested: indices of the call sites at which at least one test was made; without: names of relations to
    ignore, or BETTER_LAST.
    """
    chosen = _chosen(context, [relation for relation in RELATIONS if relation.name not in without])
    below: dict[Symptom, list[Symptom]] = defaultdict(list)
    for u, (v, _) in chosen.items():
        below[v].append(u)
    causes = [
        _cause(root, below, chosen, context, tested)
        for root in context.symptoms
        if root not in chosen and not root.by_load
    ]

    def order(cause: Cause) -> tuple[bool, float, int]:
        # Causes claim their parts of the change in this order. Only the paths of the leading site are known
        # yet.
        own = [c for c in cause.changes if c.site == cause.lead.site and c.kind in PATH_KINDS]
        part_ns = sum(change.contribution_ns for change in own)
        last = BETTER_LAST not in without and is_better(cause, part_ns, context.names)
        return last, -cause.score, cause.operation

    return tuple(sorted(causes, key=order))


def by_size(causes: Sequence[Cause]) -> tuple[Cause, ...]:
    """Sort causes by score, largest first, improvements among the others."""
    return tuple(sorted(causes, key=lambda cause: (-cause.score, cause.operation)))


def _chosen(context: Context, relations: Sequence[Relation]) -> dict[Symptom, tuple[Symptom, Relation]]:
    """Map each symptom that follows from another one to (the symptom it follows from, the relation).
    O(relations · symptoms²).

    Relations are tried in order, and the best fits of a relation first; a link that would close a cycle is
    skipped.
    """
    chosen: dict[Symptom, tuple[Symptom, Relation]] = {}
    leading = [symptom for symptom in context.symptoms if not symptom.by_load]
    for relation in relations:
        edges = [
            ((fit, -v.operation), u, v)
            for u in context.symptoms
            if u not in chosen and (relation.of_load or not u.by_load)
            for v in leading
            if u is not v and (fit := relation.fit(u, v, context)) is not None
        ]
        for _, u, v in sorted(edges, key=lambda edge: edge[0], reverse=True):
            top = v
            while top in chosen:
                top = chosen[top][0]
            if u not in chosen and top is not u:
                chosen[u] = v, relation
    return chosen


def _cause(
    root: Symptom,
    below: dict[Symptom, list[Symptom]],
    chosen: dict[Symptom, tuple[Symptom, Relation]],
    context: Context,
    tested: Collection[int],
) -> Cause:
    members, follows, elsewhere = [root], set[Symptom](), [root]
    for v in members:  # grows in the loop
        for u in below[v]:
            members.append(u)
            link = chosen[u][1].link
            if link is Link.FOLLOWS or v in follows:
                follows.add(u)
            elif link is Link.ELSEWHERE and v in elsewhere:
                elsewhere.append(u)
    alike = [s for s in members if s.timed and s not in follows and s.lead.ups == root.lead.ups]
    times = part_ns(change for s in alike for change in s.changes)
    own = sure_part(root.lead) * abs(times) / context.mean_ns if root.timed else root.score
    callers = {context.own(s) for s in elsewhere if s.suspect and s.suspect == root.suspect}
    hosts, spared = _hosts(elsewhere, context, tested)
    return Cause(
        lead=root.lead,
        operation=root.operation,
        component=root.suspect if len(callers) > 1 else root.component,
        changes=tuple(change for s in members for change in s.changes),
        score=max(own, *(s.score for s in members)),
        suspect=root.suspect,
        elsewhere=tuple(s.lead for s in elsewhere[1:]),
        hosts=hosts,
        spared=spared,
        edges=tuple(
            Edge(u.changes, v.lead, relation.name, u in follows)
            for u in members[1:]
            for v, relation in [chosen[u]]
        ),
    )


def _hosts(
    elsewhere: Sequence[Symptom], context: Context, tested: Collection[int]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Hosts of a cause: (hosts that show the leading change, hosts on which its site was tested and did not
    change).

    elsewhere: the leading symptom, then symptoms with the same change elsewhere.
    """
    hosts = context.hosts
    place = hosts.place(elsewhere[0].lead.site)
    same = [s.lead.site for s in elsewhere if hosts.place(s.lead.site) == place]
    found = tuple(dict.fromkeys(host for site in same if (host := hosts.host(site))))
    if not found:
        return (), ()
    spared = {hosts.host(site) for site in tested if hosts.place(site) == place}
    return found, tuple(sorted(spared - {"", *found}))


_LONGER = frozenset({ChangeKind.SLOWER, ChangeKind.TAIL, ChangeKind.SERIAL, ChangeKind.MORE_CALLS})


def is_better(cause: Cause, part_ns: float, names: Names) -> bool:
    """True if a cause is an improvement: the same work in less time, or fewer failures.

    part_ns: part of the change of the mean response time that the cause accounts for, slow-downs not
    included, ns per request. Failures, calls cut short and requests with fewer calls are no improvement
    however much time they save, since an empty answer is fast, too. A saving that is smaller than the cause's
    slow-downs is no improvement either.
    """
    lead, follows = cause.lead.kind, {id(change) for change in cause.follows}
    own = [change for change in cause.changes if id(change) not in follows]
    if cause.suspect or any(change.kind is ChangeKind.ERRORS for change in cause.changes):
        return False
    if lead is ChangeKind.FEWER_ERRORS:
        return True
    if lead in _LONGER or any(_may_do_less(change, own, names) for change in own):
        return False
    if lead in {ChangeKind.FASTER, ChangeKind.PARALLEL}:
        return True
    return part_ns < -longer_ns(cause)


def longer_ns(cause: Cause) -> float:
    """Time that the slow-downs among the cause's changes add to the mean response time, ns per request."""
    return sum(max(change.contribution_ns, 0.0) for change in cause.changes if change.kind in _LONGER)


def _may_do_less(change: Change, own: Sequence[Change], names: Names) -> bool:
    if change.kind not in PATH_KINDS:
        return change.kind is ChangeKind.FEWER_CALLS
    added = calls_added(change, own, names)
    return added is None or added < 0


def has_effect(cause: Cause, part_ns: float, context: Context) -> bool:
    """True if a cause adds or saves time, causes failures, or adds or removes calls.

    part_ns: the cause's part of the change of the mean response time, ns per request. Only a cause of known
    paths, whose patterns make as many calls as before, can be without effect; all other tests require a
    change of time, failures or calls.
    """
    if abs(part_ns) >= context.settings.least_effect * context.mean_ns:
        return True
    return any(
        change.kind is not ChangeKind.PATH or calls_added(change, cause.changes, context.names) != 0
        for change in cause.changes
    )
