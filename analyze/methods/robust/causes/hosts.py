"""Tell hosts from operations where call sites carry their host: records put it into the component.

Host and component are told apart by what the graphs say of their nodes, not by the looks of a name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from analyze.methods.robust.changes import CALL_KINDS, ERROR_KINDS, NO_SHAPE, PATH_KINDS, Change
from analyze.population import Graph
from analyze.profile.names import Names, OperationName
from schemas.report.findings import ChangeKind

HostOf = Mapping[str, tuple[str, str]]
"""Component of a site -> (host, component); what is not in it has no host."""


def hosts_in(graphs: Iterable[Graph]) -> dict[str, tuple[str, str]]:
    """Which components of sites are those of a host. O(nodes)."""
    named = {(node.host, node.component) for graph in graphs for node in graph.nodes if node.host}
    return {f"{host}/{component}": (host, component) for host, component in sorted(named)}


@dataclass(frozen=True, slots=True)
class Hosts:
    """What sites, operations and changes are without their host."""

    names: Names
    host_of: HostOf

    def host(self, site: int) -> str:
        """Host of a site; empty for none."""
        return self.host_of.get(self.names.operation(site).component, ("", ""))[0]

    def alike(self) -> dict[int, int]:
        """Operation -> the first that is the same on some host; those of no host are not in it."""
        first: dict[OperationName, int] = {}
        return {
            number: first.setdefault(self._hostless(name), number)
            for number, name in enumerate(self.names.operations)
            if name.component in self.host_of
        }

    def place(self, site: int) -> tuple[object, ...]:
        """A site, equal on all hosts."""
        caller = self.names.caller(site)
        return (
            None if caller is None else self._hostless(caller),
            self._hostless(self.names.operation(site)),
            self.names.sites[site].kind,
        )

    def what(self, change: Change) -> tuple[object, ...]:
        """What happened where, equal on all hosts; a tail is slower, too."""
        return (*self.place(change.site), _how(change), self._pattern(change))

    def _hostless(self, name: OperationName) -> OperationName:
        return name._replace(component=self.host_of.get(name.component, ("", name.component))[1])

    def _pattern(self, change: Change) -> object:
        if change.shape == NO_SHAPE:
            return []
        children = self.names.shapes[change.shape]
        return sorted(
            (self._hostless(self.names.operations[c.operation]), c.calls, c.awaited) for c in children
        )


def _how(change: Change) -> object:
    if change.kind in PATH_KINDS:
        return "path", change.ups
    if change.kind in CALL_KINDS | ERROR_KINDS:
        return change.kind
    return ChangeKind.SLOWER if change.kind is ChangeKind.TAIL else change.kind
