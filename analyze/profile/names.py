"""Names in a profile: operations, sites (calls of one operation by another), calling paths, call patterns.

A `NameBook` numbers names while graphs are read. The result is a `Names`: plain tuples that can be stored,
compared and joined with the names of another profile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final, NamedTuple

from analyze.numbering import Numbering
from analyze.population import Graph

NO_CALLER: Final = -1
"""Number in place of the caller's operation or path if there is no caller."""
MOST_DEPTH: Final = 32
"""Maximum depth at which calls are distinguished by their calling path; deeper calls only by their site."""


class OperationName(NamedTuple):
    """Name of a span's or activity record's operation, with the callee for the client side of a call."""

    component: str
    point: str
    callee: str = ""
    """Component called, if the span is the client side of a remote call (several are joined by `+`); else
    empty."""

    @property
    def what(self) -> str:
        """`point[ -> callee]`, for display."""
        return f"{self.point} -> {self.callee}" if self.callee else self.point

    @property
    def text(self) -> str:
        """`component/point[ -> callee]`, for display."""
        return f"{self.component}/{self.what}"


class SiteKind(IntEnum):
    """Kind of a site: call between spans, or step or point of activity records."""

    CALL = 0
    """Spans: calls of an operation by a calling operation."""
    STEP = 1
    """Activity records: step from one trace point to the next."""
    POINT = 2
    """Activity records: a trace point, whose call pattern is the points that follow it."""


class SiteName(NamedTuple):
    """Call site: calls of one operation by another; for activity records a step or a point."""

    caller: int
    """Number of the calling operation (for a step: of the point where it begins); NO_CALLER for a root or a
    point."""
    operation: int
    """Number of the called operation; for a step of the point where it ends, for a point of the point."""
    kind: SiteKind


class PathName(NamedTuple):
    """Calling path: the sites from the root to a call; direct recursion counts as one call."""

    above: int
    """Number of the caller's path; NO_CALLER for the root."""
    site: int
    """Number of the site of the path's last call."""


class Child(NamedTuple):
    """Entry of a call pattern: a called operation with the number of its calls."""

    operation: int
    """Number of the called operation."""
    calls: int
    """Number of calls, rounded up to a power of two, so that 3 and 4 calls give the same pattern."""
    awaited: bool
    """True if the caller waits for the calls."""

    @property
    def least(self) -> int:
        """Smallest number of calls that is rounded up to `calls`, e.g. 5 if `calls` is 8."""
        return self.calls // 2 + 1 if self.calls > 1 else self.calls


CallPattern = tuple[Child, ...]
"""Call pattern of a call: the operations that it calls, sorted, with the number of calls of each."""
PatternRank = tuple[int, tuple[tuple[OperationName, int, bool], ...]]
"""Sort key of call patterns: (-number of calls, sorted (operation, calls, awaited) of the children)."""


@dataclass(frozen=True, slots=True)
class Names:
    """Names of a profile; the number of a name in the profile's tables is its index here."""

    operations: tuple[OperationName, ...] = ()
    sites: tuple[SiteName, ...] = ()
    paths: tuple[PathName, ...] = ()
    patterns: tuple[CallPattern, ...] = ()
    roots: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    unrecorded: Mapping[int, str] = field(default_factory=dict, compare=False)
    """Number of an operation -> component that it calls but that recorded no span there."""

    def callee(self, operation: int) -> str:
        """Component that the operation with this number calls, recorded or not; empty for none."""
        return self.operations[operation].callee or self.unrecorded.get(operation, "")

    def operation(self, site: int) -> OperationName:
        """Called operation of site number `site`."""
        return self.operations[self.sites[site].operation]

    def caller(self, site: int) -> OperationName | None:
        """Calling operation of site number `site`; None without a caller."""
        caller = self.sites[site].caller
        return None if caller == NO_CALLER else self.operations[caller]

    def called(self, name: Callable[[OperationName], OperationName], root: Callable[[str], str]) -> Names:
        """Rename operations and root types by the functions `name` and `root`; numbers do not change.

        Operations that become equal keep separate numbers (a later numbering, as in `joined`, merges them),
        except in call patterns, where they become one child."""
        operations = tuple(map(name, self.operations))
        first = {one: at for at, one in reversed([*enumerate(operations)])}
        patterns = tuple(
            counted((first[operations[child.operation]], child.awaited, child.calls) for child in pattern)
            for pattern in self.patterns
        )
        return replace(self, operations=operations, patterns=patterns, roots=tuple(map(root, self.roots)))


@dataclass(slots=True)
class NameBook:
    """Assigns numbers to names, in the order of first use."""

    operations: Numbering[OperationName] = field(default_factory=Numbering)
    sites: Numbering[tuple[int, int, int]] = field(default_factory=Numbering)
    """(caller, operation, kind) of a site -> number; integer tuples are faster than SiteName."""
    paths: Numbering[tuple[int, int]] = field(default_factory=Numbering)
    patterns: Numbering[CallPattern] = field(default_factory=Numbering)
    _seen: dict[tuple[tuple[int, bool], ...], int] = field(default_factory=dict)
    """Cache: (operation, awaited) of all children in the order of the calls -> number of the pattern."""
    roots: Numbering[str] = field(default_factory=Numbering)
    errors: Numbering[str] = field(default_factory=Numbering)
    _ranks: dict[int, PatternRank] = field(default_factory=dict)
    """Cache: number of a pattern -> sort key, see `most_common`."""

    def pattern(self, children: Sequence[tuple[int, bool]]) -> int:
        """Number of a call's pattern. children: (operation, awaited) of each call, in any order."""
        came = tuple(children)
        number = self._seen.get(came)
        if number is None:
            number = self._seen[came] = self.patterns[counted((*child, 1) for child in came)]
        return number

    def most_common(self, patterns: Sequence[int]) -> int:
        """Most frequent of the pattern numbers; ties: the most children, then the first by names.

        Not by number: two profiles must agree, and each numbers patterns in the order of first use.
        """
        if patterns.count(patterns[0]) == len(patterns):
            return patterns[0]
        counts = Counter(patterns)
        most = max(counts.values())
        tied = [pattern for pattern, count in counts.items() if count == most]
        return tied[0] if len(tied) == 1 else min(tied, key=self._rank)

    def _rank(self, pattern: int) -> PatternRank:
        if pattern not in self._ranks:
            names, children = tuple(self.operations), tuple(self.patterns)[pattern]
            words = sorted((names[child.operation], child.calls, child.awaited) for child in children)
            self._ranks[pattern] = (-sum(child.calls for child in children), tuple(words))
        return self._ranks[pattern]

    def names(self) -> Names:
        """All names numbered so far, as a `Names`."""
        return Names(
            tuple(self.operations),
            tuple(SiteName(caller, operation, SiteKind(kind)) for caller, operation, kind in self.sites),
            tuple(PathName(above, site) for above, site in self.paths),
            tuple(self.patterns),
            tuple(self.roots),
            tuple(self.errors),
        )


def counted(children: Iterable[tuple[int, bool, int]]) -> CallPattern:
    """Call pattern of children given as (operation, awaited, calls).

    Calls of equal (operation, awaited) are added up; sums are rounded up to powers of two."""
    counts: dict[tuple[int, bool], int] = {}
    for operation, awaited, n in children:
        counts[operation, awaited] = counts.get((operation, awaited), 0) + n
    return tuple(
        sorted(
            Child(operation, 1 << (n - 1).bit_length(), awaited) for (operation, awaited), n in counts.items()
        )
    )


def reached(nexts: Mapping[int, Collection[int]], begin: Iterable[int]) -> set[int]:
    """Nodes of a graph reachable from `begin` by one or more edges. nexts: node -> successors."""
    seen, left = set[int](), list(begin)
    while left:
        new = set(nexts.get(left.pop(), ())) - seen
        seen |= new
        left += new
    return seen


ARROW = " -> "


class PartName(NamedTuple):
    """Display name of an edge of a graph, or of a site."""

    source: str
    """Name of the node or point at which the edge or step begins; for a call its operation."""
    target: str
    """Name of the node or point at which the edge or step ends; empty for a call."""
    src: int
    """Position in the graph of the edge's first node; -1 for a site."""
    dst: int
    """Position in the graph of the edge's second node; -1 for a site."""
    site: int
    """Number of the site; -1 for an edge that has several sites."""

    @property
    def text(self) -> str:
        """`a/x -> b/y` for an edge or step, `a/x` for a call; marker patterns are matched against it."""
        return f"{self.source}{ARROW}{self.target}" if self.target else self.source


def edge_name(graph: Graph, edge: int, site: int) -> PartName:
    """Name of edge number `edge` of a graph, from its nodes without hosts, so that it is the same on every
    host. site: number of the edge's site."""
    src, dst = (int(position) for position in graph.edges[edge])
    before, after = (graph.nodes[position]._replace(host="").text for position in (src, dst))
    return PartName(before, after, src, dst, site)


def site_name(site: int, names: Names) -> PartName:
    """Name of site number `site`: for a step its two points; for a call the called operation, without the
    caller."""
    name = names.sites[site]
    operation = names.operation(site).text
    caller = names.caller(site)
    if name.kind == SiteKind.STEP and caller is not None:
        return PartName(caller.text, operation, -1, -1, site)
    return PartName(operation, "", -1, -1, site)


def caller_name(site: int, names: Names) -> str | None:
    """Name of the operation that calls at site number `site`; None for a root, step or point."""
    caller = names.caller(site) if names.sites[site].kind == SiteKind.CALL else None
    return None if caller is None else caller.text
