"""One change on several hosts is one finding; what spared a host says so (ALGORITHMS L.4, J.6).

Records may carry their host in the component of a site. Host and operation are told apart by what the graphs
say of their nodes, not by the looks of a name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from analyze.methods.robust.causes.groups import Group
from analyze.methods.robust.changes import CALL_KINDS, ERROR_KINDS, NO_SHAPE, PATH_KINDS, Change
from analyze.population import Graph
from analyze.profile.names import Names, OperationName
from schemas.report.findings import ChangeKind

HostOf = Mapping[str, tuple[str, str]]
"""Component of a site -> (host, component); what is not in it has no host."""
_Place = tuple[OperationName | None, OperationName, int]


def hosts_in(graphs: Iterable[Graph]) -> dict[str, tuple[str, str]]:
    """Which components of sites are those of a host. O(nodes)."""
    named = {(node.host, node.component) for graph in graphs for node in graph.nodes if node.host}
    return {f"{host}/{component}": (host, component) for host, component in sorted(named)}


def alike_operations(names: Names, host_of: HostOf) -> dict[int, int]:
    """Operation -> the first that is the same on some host; those of no host are not in it."""
    first: dict[OperationName, int] = {}
    return {
        number: first.setdefault(_hostless(name, host_of), number)
        for number, name in enumerate(names.operations)
        if name.component in host_of
    }


def joined_over_hosts(
    groups: Sequence[Group], names: Names, host_of: HostOf, tested: Collection[int]
) -> list[Group]:
    """Groups led by the same kind of change of one operation on several hosts become one.

    tested: sites that some test reached; hosts among them where nothing was found are `spared`.
    """
    if not host_of:
        return list(groups)
    kept: dict[object, Group] = {}
    for group in sorted(groups, key=lambda group: (-group.score, group.operation)):
        key = (_place(group.lead.site, names, host_of), _how(group.lead), _shape(group.lead, names, host_of))
        host = host_of.get(names.operation(group.lead.site).component, ("", ""))[0]
        first = kept.get(key)
        if first is None or not host or host in first.hosts:
            kept[key if first is None else (key, group.operation)] = group
            group.hosts = _hosts_of(group, host, names, host_of)
            continue
        first.leads += [group.lead, *group.leads]
        first.changes += group.changes
        first.follows += group.follows
        first.hosts += tuple(h for h in _hosts_of(group, host, names, host_of) if h not in first.hosts)
    for group in kept.values():
        if group.hosts:
            place = _place(group.lead.site, names, host_of)
            alike = {
                site: host_of[component][0]
                for site in sorted(tested)
                if (component := names.operation(site).component) in host_of
                and _place(site, names, host_of) == place
            }
            group.spared_sites = tuple(site for site, host in alike.items() if host not in group.hosts)
            group.spared = tuple(sorted({alike[site] for site in group.spared_sites}))
    return [group for group in groups if any(group is other for other in kept.values())]


def _hosts_of(group: Group, host: str, names: Names, host_of: HostOf) -> tuple[str, ...]:
    """The lead's host, then others on which the same happened at the same place."""
    place = _place(group.lead.site, names, host_of)
    same = [change.site for change in group.leads if _place(change.site, names, host_of) == place]
    hosts = [host, *(host_of.get(names.operation(site).component, ("", ""))[0] for site in same)]
    return tuple(dict.fromkeys(h for h in hosts if h))


def _place(site: int, names: Names, host_of: HostOf) -> _Place:
    """A site without hosts."""
    caller = names.caller(site)
    return (
        None if caller is None else _hostless(caller, host_of),
        _hostless(names.operation(site), host_of),
        int(names.sites[site].kind),
    )


def _hostless(name: OperationName, host_of: HostOf) -> OperationName:
    return name._replace(component=host_of.get(name.component, ("", name.component))[1])


def _how(change: Change) -> object:
    """The kind of change, as far as it matters here: a tail is slower, too."""
    if change.kind in PATH_KINDS:
        return "path", change.ups
    if change.kind in CALL_KINDS or change.kind in ERROR_KINDS:
        return change.kind
    return ChangeKind.SLOWER if change.kind is ChangeKind.TAIL else change.kind


def _shape(change: Change, names: Names, host_of: HostOf) -> object:
    if change.shape == NO_SHAPE:
        return None
    return tuple(
        sorted(
            (_hostless(names.operations[child.operation], host_of), child.calls, child.awaited)
            for child in names.shapes[change.shape]
        )
    )
