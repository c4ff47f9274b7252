"""Separate hosts from operations where call sites carry their host: records put it into the component.

The graphs say what is host and what is component; statistics have no graphs, so there the form of the name
decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from analyze.methods.robust.changes import FAMILIES, Change
from analyze.population import Graph
from analyze.profile.names import Names, OperationName, SiteKind

HostOf = Mapping[str, tuple[str, str]]
"""Component of a site -> (host, component); what is not in it has no host."""


def hosts_in(graphs: Iterable[Graph]) -> dict[str, tuple[str, str]]:
    """Tell which components of sites are those of a host. O(nodes)."""
    named = {(node.host, node.component) for graph in graphs for node in graph.nodes if node.host}
    return {f"{host}/{component}": (host, component) for host, component in sorted(named)}


def hosts_named(names: Names) -> dict[str, tuple[str, str]]:
    """Tell which components of records name a host first, `host/component`, where no graph says it.
    O(sites)."""
    records = {
        names.operation(at).component for at, s in enumerate(names.sites) if s.kind is not SiteKind.CALL
    }
    parts = {component: component.partition("/") for component in sorted(records)}
    return {component: (host, rest) for component, (host, _, rest) in parts.items() if rest}


@dataclass(frozen=True, slots=True)
class Hosts:
    """What sites, operations and changes are without their host."""

    names: Names
    host_of: HostOf

    def host(self, site: int) -> str:
        """Give the host of a site; empty for none."""
        return self.host_of.get(self.names.operation(site).component, ("", ""))[0]

    def place(self, site: int) -> tuple[object, ...]:
        """Give a site, equal on all hosts."""
        caller = self.names.caller(site)
        return (
            None if caller is None else self._hostless(caller),
            self._hostless(self.names.operation(site)),
            self.names.sites[site].kind,
        )

    def what(self, change: Change) -> tuple[object, ...]:
        """Tell what happened where, equal on all hosts: of what family, in which direction."""
        family = next((family for family in FAMILIES if change.kind in family), change.kind)
        return (*self.place(change.site), family, change.ups)

    def _hostless(self, name: OperationName) -> OperationName:
        return name._replace(component=self.host_of.get(name.component, ("", name.component))[1])
