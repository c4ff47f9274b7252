"""Names of sites: operations, calls of one operation by another, calling paths and call patterns.

A `NameBook` numbers them while graphs are read; the result is a `Names`: plain tuples that can be stored,
compared and joined with another profile's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final, NamedTuple

from analyze.numbering import Numbering
from analyze.population import Graph
from schemas.arrays import I8

NO_CALLER: Final = -1
MOST_DEPTH: Final = 32
"""Deepest call distinguished by its path; deeper ones only by their operation."""


class OperationName(NamedTuple):
    """Name of a span's or activity record's work, with the callee if the span waits for one remote call."""

    component: str
    point: str
    callee: str = ""
    """Component called, if the span is the caller's side of one remote call; else empty."""

    @property
    def what(self) -> str:
        """`point[ -> callee]`."""
        return f"{self.point} -> {self.callee}" if self.callee else self.point

    @property
    def text(self) -> str:
        """`component/point[ -> callee]`, for display."""
        return f"{self.component}/{self.what}"


class SiteKind(IntEnum):
    """Kind of a site."""

    CALL = 0
    """Spans: calls of an operation by a calling operation."""
    STEP = 1
    """Activity records: step from one trace point to the next."""
    POINT = 2
    """Activity records: a trace point, whose call pattern is the points that follow it."""


class SiteName(NamedTuple):
    """A site; operations by number."""

    caller: int
    """Operation of the caller (for a step: its start); NO_CALLER for a root or a point."""
    operation: int
    kind: SiteKind


class PathName(NamedTuple):
    """A place in the calling context of a root type, direct recursion collapsed."""

    above: int
    """Path of the caller; NO_CALLER for the root."""
    site: int


class Child(NamedTuple):
    """Entry of a call pattern: an operation, with how many calls of it."""

    operation: int
    calls: int
    """Number of calls, rounded up to a power of two, so that 3 and 4 children are one pattern."""
    awaited: bool

    @property
    def least(self) -> int:
        """Smallest number of calls that rounds up to `calls`."""
        return self.calls // 2 + 1 if self.calls > 1 else self.calls


CallPattern = tuple[Child, ...]
"""Children of a call, sorted."""
PatternRank = tuple[int, tuple[tuple[OperationName, int, bool], ...]]
"""Sort key of patterns: (-number of children, their names)."""


@dataclass(frozen=True, slots=True)
class Names:
    """Names of a profile; its tables hold indices into these."""

    operations: tuple[OperationName, ...] = ()
    sites: tuple[SiteName, ...] = ()
    paths: tuple[PathName, ...] = ()
    patterns: tuple[CallPattern, ...] = ()
    roots: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    unrecorded: Mapping[int, str] = field(default_factory=dict, compare=False)
    """Operation -> component it calls that recorded nothing there; not part of the name."""

    def callee(self, operation: int) -> str:
        """Component an operation calls, recorded or not; empty for none."""
        return self.operations[operation].callee or self.unrecorded.get(operation, "")

    def operation(self, site: int) -> OperationName:
        """Operation of a site (the callee)."""
        return self.operations[self.sites[site].operation]

    def caller(self, site: int) -> OperationName | None:
        """Operation that calls at a site; None without a caller."""
        caller = self.sites[site].caller
        return None if caller == NO_CALLER else self.operations[caller]

    def called(self, name: Callable[[OperationName], OperationName], root: Callable[[str], str]) -> Names:
        """Rename operations and root types, order kept. Names that become equal get one number from a later
        numbering; in a call pattern they become one child."""
        operations = tuple(map(name, self.operations))
        first = {one: at for at, one in reversed([*enumerate(operations)])}
        patterns = tuple(
            counted((first[operations[child.operation]], child.awaited, child.calls) for child in pattern)
            for pattern in self.patterns
        )
        return replace(self, operations=operations, patterns=patterns, roots=tuple(map(root, self.roots)))


@dataclass(slots=True)
class NameBook:
    """Numbers names in the order in which they are first asked for."""

    operations: Numbering[OperationName] = field(default_factory=Numbering)
    sites: Numbering[tuple[int, int, int]] = field(default_factory=Numbering)
    """(caller, operation, kind) -> number; integer tuples are faster than SiteName."""
    paths: Numbering[tuple[int, int]] = field(default_factory=Numbering)
    patterns: Numbering[CallPattern] = field(default_factory=Numbering)
    _seen: dict[tuple[tuple[int, bool], ...], int] = field(default_factory=dict)
    """Children in call order -> number of their pattern."""
    roots: Numbering[str] = field(default_factory=Numbering)
    errors: Numbering[str] = field(default_factory=Numbering)
    _ranks: dict[int, PatternRank] = field(default_factory=dict)
    """Pattern -> rank, cached."""

    def pattern(self, children: Sequence[tuple[int, bool]]) -> int:
        """Number of the pattern of (operation, awaited) children, in any order."""
        came = tuple(children)
        number = self._seen.get(came)
        if number is None:
            number = self._seen[came] = self.patterns[counted((*child, 1) for child in came)]
        return number

    def most_common(self, patterns: Sequence[int]) -> int:
        """Most frequent pattern; ties: most children, then first by names.

        By names, not by number: two profiles must agree, and each numbers patterns in its order of arrival.
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
        """Names numbered so far."""
        return Names(
            tuple(self.operations),
            tuple(SiteName(caller, operation, SiteKind(kind)) for caller, operation, kind in self.sites),
            tuple(PathName(above, site) for above, site in self.paths),
            tuple(self.patterns),
            tuple(self.roots),
            tuple(self.errors),
        )


def counted(children: Iterable[tuple[int, bool, int]]) -> CallPattern:
    """Make a pattern from (operation, awaited, calls); calls of equal (operation, awaited) are added up."""
    counts: dict[tuple[int, bool], int] = {}
    for operation, awaited, n in children:
        counts[operation, awaited] = counts.get((operation, awaited), 0) + n
    return tuple(
        sorted(
            Child(operation, 1 << (n - 1).bit_length(), awaited) for (operation, awaited), n in counts.items()
        )
    )


def reached(nexts: Mapping[int, Collection[int]], begin: Iterable[int]) -> set[int]:
    """Numbers reachable from `begin` by one or more steps in `nexts`."""
    seen, left = set[int](), list(begin)
    while left:
        new = set(nexts.get(left.pop(), ())) - seen
        seen |= new
        left += new
    return seen


class Recoding(NamedTuple):
    """Old number -> new number, one array per kind of name."""

    site: I8
    path: I8
    pattern: I8
    root: I8
    error: I8


ARROW = " -> "


class PartName(NamedTuple):
    """Name of a graph's edge, or of a site."""

    source: str
    """Node at which the edge begins; for a call the call itself."""
    target: str
    """Node at which the edge ends; empty for a call."""
    src: int
    dst: int
    """src, dst: positions in the graph; -1 for a site."""
    site: int
    """Number of the site; -1 if several."""

    @property
    def text(self) -> str:
        """`a/x -> b/y`, or `a/x`; marker patterns are matched against it."""
        return f"{self.source}{ARROW}{self.target}" if self.target else self.source


def edge_name(graph: Graph, edge: int, site: int) -> PartName:
    """Name an edge by its nodes, without hosts, so that it is the same on every machine."""
    src, dst = (int(position) for position in graph.edges[edge])
    before, after = (graph.nodes[position]._replace(host="").text for position in (src, dst))
    return PartName(before, after, src, dst, site)


def site_name(site: int, names: Names) -> PartName:
    """Name a site: for records the step between two points; for spans the callee, whoever calls it."""
    name = names.sites[site]
    operation = names.operation(site).text
    caller = names.caller(site)
    if name.kind == SiteKind.STEP and caller is not None:
        return PartName(caller.text, operation, -1, -1, site)
    return PartName(operation, "", -1, -1, site)


def caller_name(site: int, names: Names) -> str | None:
    """Name of the caller of a call; None for a step, or the root."""
    caller = names.caller(site) if names.sites[site].kind == SiteKind.CALL else None
    return None if caller is None else caller.text
