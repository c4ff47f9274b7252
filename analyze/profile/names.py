"""Names of sites: operations, calls of one operation by another, calling paths and call patterns.

A `NameBook` numbers them while graphs are read; what is kept is a `Names`, plain tuples that can be stored,
compared and joined with those of another profile.
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
"""Deeper calls are distinguished by their operation only."""


class OperationName(NamedTuple):
    """Name of the work of a span or activity record; with the callee where a span waits for one remote
    call."""

    component: str
    point: str
    callee: str = ""
    """Component of the one remote call that the span is the caller's side of; empty for any other span."""

    @property
    def what(self) -> str:
        """`point[ -> callee]`."""
        return f"{self.point} -> {self.callee}" if self.callee else self.point

    @property
    def text(self) -> str:
        """`component/point[ -> callee]`, for display."""
        return f"{self.component}/{self.what}"


class SiteKind(IntEnum):
    """Kind of place that a site is."""

    CALL = 0
    """Spans: calls of an operation by another."""
    STEP = 1
    """Activity records: the way from one trace point to the next."""
    POINT = 2
    """Activity records: a trace point, with what comes after it as its call pattern."""


class SiteName(NamedTuple):
    """A site: operations by number."""

    caller: int
    """Operation of the caller (of a step: where it begins); NO_CALLER for a root or a point."""
    operation: int
    kind: SiteKind


class PathName(NamedTuple):
    """A place in the calling context of a root type, direct recursion collapsed."""

    above: int
    """Path of the caller; NO_CALLER for the root."""
    site: int


class Child(NamedTuple):
    """One entry of a call pattern."""

    operation: int
    calls: int
    """Rounded up to a power of two, so that 3 and 4 children are one pattern."""
    awaited: bool

    @property
    def least(self) -> int:
        """The smallest number that is rounded to its own."""
        return self.calls // 2 + 1 if self.calls > 1 else self.calls


CallPattern = tuple[Child, ...]
"""The children of a call, sorted."""
PatternRank = tuple[int, tuple[tuple[OperationName, int, bool], ...]]
"""Less the number of children, then their names."""


@dataclass(frozen=True, slots=True)
class Names:
    """The words of a profile; everything else in it is numbers into these."""

    operations: tuple[OperationName, ...] = ()
    sites: tuple[SiteName, ...] = ()
    paths: tuple[PathName, ...] = ()
    patterns: tuple[CallPattern, ...] = ()
    roots: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    unrecorded: Mapping[int, str] = field(default_factory=dict, compare=False)
    """Operation -> whom it calls, of whom nothing was recorded there; no part of a name."""

    def callee(self, operation: int) -> str:
        """Whom an operation calls, recorded or not; empty for nobody."""
        return self.operations[operation].callee or self.unrecorded.get(operation, "")

    def operation(self, site: int) -> OperationName:
        """Operation of a site."""
        return self.operations[self.sites[site].operation]

    def caller(self, site: int) -> OperationName | None:
        """Operation that calls at a site."""
        caller = self.sites[site].caller
        return None if caller == NO_CALLER else self.operations[caller]

    def called(self, name: Callable[[OperationName], OperationName], root: Callable[[str], str]) -> Names:
        """Give operations and root types other names, in their order; what has one name now is one to who
        numbers it, and in a call pattern one child."""
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
    """(caller, operation, kind) -> number; plain tuples of integers, which are made and found faster."""
    paths: Numbering[tuple[int, int]] = field(default_factory=Numbering)
    patterns: Numbering[CallPattern] = field(default_factory=Numbering)
    _seen: dict[tuple[tuple[int, bool], ...], int] = field(default_factory=dict)
    """Children as they came -> number of their pattern."""
    roots: Numbering[str] = field(default_factory=Numbering)
    errors: Numbering[str] = field(default_factory=Numbering)
    _ranks: dict[int, PatternRank] = field(default_factory=dict)
    """Ranks of the patterns that were asked for."""

    def pattern(self, children: Sequence[tuple[int, bool]]) -> int:
        """Number of the pattern of (operation, awaited) children, in any order."""
        came = tuple(children)
        number = self._seen.get(came)
        if number is None:
            number = self._seen[came] = self.patterns[counted((*child, 1) for child in came)]
        return number

    def most_common(self, patterns: Sequence[int]) -> int:
        """The pattern that most calls have; of equals that of most children, then the first by its names.

        By names, not by number: two profiles must choose alike, and number their patterns as they come.
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
        """Names that were numbered so far."""
        return Names(
            tuple(self.operations),
            tuple(SiteName(caller, operation, SiteKind(kind)) for caller, operation, kind in self.sites),
            tuple(PathName(above, site) for above, site in self.paths),
            tuple(self.patterns),
            tuple(self.roots),
            tuple(self.errors),
        )


def counted(children: Iterable[tuple[int, bool, int]]) -> CallPattern:
    """Make the pattern of (operation, awaited, calls), equal ones added up."""
    counts: dict[tuple[int, bool], int] = {}
    for operation, awaited, n in children:
        counts[operation, awaited] = counts.get((operation, awaited), 0) + n
    return tuple(
        sorted(
            Child(operation, 1 << (n - 1).bit_length(), awaited) for (operation, awaited), n in counts.items()
        )
    )


def reached(nexts: Mapping[int, Collection[int]], begin: Iterable[int]) -> set[int]:
    """Find what one comes to from some numbers in one step or more."""
    seen, left = set[int](), list(begin)
    while left:
        new = set(nexts.get(left.pop(), ())) - seen
        seen |= new
        left += new
    return seen


class Recoding(NamedTuple):
    """Old number -> new number, one array a kind of name."""

    site: I8
    path: I8
    pattern: I8
    root: I8
    error: I8


ARROW = " -> "


class PartName(NamedTuple):
    """An edge of a graph, or a site."""

    source: str
    """Node at which the edge begins; of a call the call itself."""
    target: str
    """Node at which it ends; empty for a call."""
    src: int
    dst: int
    """Positions in the graph; -1 for a site."""
    site: int
    """Number of the site; -1 for several."""

    @property
    def text(self) -> str:
        """`a/x -> b/y`, or `a/x`: what a marker's pattern is matched with."""
        return f"{self.source}{ARROW}{self.target}" if self.target else self.source


def edge_name(graph: Graph, edge: int, site: int) -> PartName:
    """An edge by its nodes, without hosts: the same on every machine."""
    src, dst = (int(position) for position in graph.edges[edge])
    before, after = (graph.nodes[position]._replace(host="").text for position in (src, dst))
    return PartName(before, after, src, dst, site)


def site_name(site: int, names: Names) -> PartName:
    """A site: of records the step between two points; of spans the call, whoever makes it."""
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
