"""Resolve symptoms to causes: each follows by its strongest edge, never in a circle; the rest are causes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

from analyze.methods.robust.causes.cause import Cause, Edge
from analyze.methods.robust.causes.context import Context
from analyze.methods.robust.causes.ranking import rank_value
from analyze.methods.robust.causes.relations import RELATIONS, Link, Relation
from analyze.methods.robust.causes.symptoms import Symptom, part_ns, sure_part


def causes_of(context: Context, tested: Collection[int], without: Collection[str] = ()) -> tuple[Cause, ...]:
    """Find the causes, the most important first. tested: sites that some test reached; without: relations
    and factors that are left out, by name."""
    chosen = _chosen(context, [relation for relation in RELATIONS if relation.name not in without])
    below: dict[Symptom, list[Symptom]] = defaultdict(list)
    for u, (v, _) in chosen.items():
        below[v].append(u)
    causes = [
        _cause(root, below, chosen, context, tested)
        for root in context.symptoms
        if root not in chosen and not root.by_load
    ]
    return tuple(sorted(causes, key=lambda c: (-rank_value(c, context.settings, without), c.operation)))


def _chosen(context: Context, relations: Sequence[Relation]) -> dict[Symptom, tuple[Symptom, Relation]]:
    """Choose for a symptom what it follows from, and how: by the first relation that fits, its best fits
    first, and by no edge that closes a circle. O(relations · symptoms²)."""
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
    for v in members:  # grows
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
        leads=tuple(s.lead for s in elsewhere[1:]),
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
    """Give (hosts that have it, those that were tested and have not); elsewhere: the leading symptom
    first."""
    hosts = context.hosts
    place = hosts.place(elsewhere[0].lead.site)
    same = [s.lead.site for s in elsewhere if hosts.place(s.lead.site) == place]
    found = tuple(dict.fromkeys(host for site in same if (host := hosts.host(site))))
    if not found:
        return (), ()
    spared = {hosts.host(site) for site in tested if hosts.place(site) == place}
    return found, tuple(sorted(spared - {"", *found}))
