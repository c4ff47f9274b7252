"""Bundle changes to symptoms: all that changed in one way at one operation, and for whom it speaks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from analyze.methods.robust.changes import Change, Instance
from analyze.methods.robust.segments.segment import Segment
from analyze.profile.names import Names
from schemas.arrays import B1
from schemas.report.findings import ERROR_KINDS, TIME_KINDS, ChangeKind

_ONE_SIDED_95 = 1.645
BundleKey = tuple[int, bool, bool, Instance | None, Segment | None]
"""(operation, of time, faster, on which instance alone, in which segment alone)."""


@dataclass(frozen=True, eq=False)
class Symptom:
    """All that changed at one operation: in its time, in one direction, or in what it does."""

    operation: int
    timed: bool
    changes: tuple[Change, ...]
    lead: Change
    requests: B1
    """[requests] that show it; none where no request is at hand."""
    score: float
    """Part of the mean response time, or of the requests, as far as it is sure."""
    size: float
    """The same with what is unsure of times: by it one symptom leads another where either could."""
    component: str
    """Component to look at first."""
    suspect: str = ""
    """Component after whose call calls are cut short, or by whom they fail."""
    by_load: bool = False
    """The load explains it: it is no finding by itself."""
    counted: int = 0
    """Requests that show it by statistics."""

    def has(self, kinds: Collection[ChangeKind]) -> bool:
        """Tell whether one of its changes is of these kinds."""
        return any(change.kind in kinds for change in self.changes)

    @cached_property
    def n_requests(self) -> int:
        """Number of requests that show it."""
        return int(self.requests.sum()) if len(self.requests) else self.counted

    def common(self, other: Symptom, *, related: bool) -> int:
        """Number of requests that show both; of statistics as many as can, where one leads to the other."""
        if len(self.requests):
            return int((self.requests & other.requests).sum())
        return min(self.n_requests, other.n_requests) if related else 0

    @cached_property
    def fails(self) -> bool:
        """Tell whether more calls fail."""
        return self.has({ChangeKind.ERRORS})

    @property
    def instance(self) -> Instance | None:
        """Only instance that shows it; None: all do."""
        return self.lead.instance

    @property
    def segment(self) -> Segment | None:
        """Only segment of requests that shows it; None: all do."""
        return self.lead.segment

    @cached_property
    def is_new(self) -> bool:
        """Tell whether a path is taken that was never there."""
        return self.has({ChangeKind.NEW_PATH})

    @cached_property
    def of_known_paths(self) -> bool:
        """Tell whether known paths are taken more or less often, and nothing else changed."""
        return all(change.kind is ChangeKind.PATH for change in self.changes)

    def outranks(self, other: Symptom) -> bool:
        """Tell whether it leads where either could."""
        return (self.size, -self.operation) > (other.size, -other.operation)


def one_a_site(changes: Iterable[Change]) -> list[Change]:
    """Keep one change of time a site; where it is slower and has a tail the former: both are one thing."""
    ordered = sorted(changes, key=lambda change: change.kind is not ChangeKind.TAIL)
    return list({change.site: change for change in ordered}.values())


def _alike(change: Change, lead: Change) -> bool:
    """True if a change of the same operation is of the kind of the lead."""
    if lead.kind in TIME_KINDS:
        return change.kind in TIME_KINDS
    return change.kind is lead.kind


def part_ns(changes: Iterable[Change]) -> float:
    """Sum the part of changes of time in the change of the mean, ns a request."""
    return sum(change.contribution_ns for change in one_a_site(changes))


def sure_part(change: Change) -> float:
    """Give the lower 95 % bound of an effect over the effect."""
    return max(1 - _ONE_SIDED_95 / max(abs(change.z), 1e-9), 0.0)


def bundles(changes: Sequence[Change], names: Names) -> dict[BundleKey, list[Change]]:
    """Put together what changed in one way at one operation."""
    bundles: dict[BundleKey, list[Change]] = defaultdict(list)
    for change in changes:
        timed = change.kind in TIME_KINDS
        faster = timed and change.kind is ChangeKind.FASTER
        operation = names.sites[change.site].operation
        bundles[operation, timed, faster, change.instance, change.segment].append(change)
    return dict(bundles)


def largest(changes: Sequence[Change]) -> Change:
    """Find what a change of time is headed by."""
    return max(one_a_site(changes), key=lambda change: abs(change.contribution_ns))


def leading(changes: Sequence[Change]) -> Change:
    """Find what a symptom is headed by: an error, then calls, then the path that became more frequent by
    most."""
    return max(
        changes,
        key=lambda c: (
            c.kind in ERROR_KINDS,
            c.ups,
            abs(c.after - c.before),
        ),
    )


def covering(
    found: Mapping[BundleKey, Sequence[Change]], names: Names, caller_weight: float
) -> dict[BundleKey, str]:
    """Find the component for which each change of time speaks: few components cover them all.

    A component that is slow covers its own times and the waits for it; one that waits for all, its waits.
    """
    left = {place: abs(part_ns(mine)) + 1e-6 for place, mine in found.items() if place[1]}
    speaks = {place: _speaks_for(place[0], names, caller_weight) for place in left}
    speaker: dict[BundleKey, str] = {}
    while left:
        covered: dict[tuple[str, bool], float] = defaultdict(float)
        for place, part in left.items():
            for component, share in speaks[place].items():
                covered[component, place[2]] += part * share
        best, faster = max(covered, key=lambda key: (covered[key], key))
        for place in [place for place in left if place[2] == faster and best in speaks[place]]:
            speaker[place] = best
            del left[place]
    return speaker


def _speaks_for(operation: int, names: Names, caller_weight: float) -> dict[str, float]:
    component, callee = names.operations[operation].component, names.callee(operation)
    if not callee:
        return {component: 1.0}
    called = [callee] if operation in names.unrecorded else callee.split("+")
    return {component: caller_weight} | dict.fromkeys(called, 1.0)


@dataclass(frozen=True, slots=True)
class Edge:
    """Why a symptom is no cause of its own."""

    changes: tuple[Change, ...]
    """Changes of the symptom that follows."""
    of: Change
    """Leading change of the symptom that it follows from."""
    relation: str
    """Name of a row of RELATIONS."""
    follows: bool
    """It, or what it belongs to, is a consequence; else the same elsewhere, or another side."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Group of changes that becomes a finding: one symptom and those that follow from it."""

    lead: Change
    operation: int
    component: str
    """To look at first."""
    changes: tuple[Change, ...]
    score: float
    suspect: str = ""
    """Component after whose call requests were cut short, or whose calls fail."""
    elsewhere: tuple[Change, ...] = ()
    """The same change elsewhere: on other hosts, in other operations, at other callers; without the lead."""
    hosts: tuple[str, ...] = ()
    """Hosts on which the lead is, where sites tell hosts apart; the leading site's first."""
    spared: tuple[str, ...] = ()
    """Hosts on which the same site was tested and is as before."""
    edges: tuple[Edge, ...] = ()
    """Relations by which all changes but those of the leading symptom follow."""

    @property
    def alike(self) -> tuple[Change, ...]:
        """The lead, the same change at other callers of its operation, and elsewhere: one change a site."""
        related = {id(change) for edge in self.edges for change in edge.changes}
        own = [change for change in self.changes if id(change) not in related and _alike(change, self.lead)]
        sites = {change.site for change in (self.lead, *self.elsewhere)}
        others = [change for change in one_a_site(own) if change.site not in sites]
        return (self.lead, *others, *self.elsewhere)

    @property
    def follows(self) -> tuple[Change, ...]:
        """Changes among `changes` that are consequences of the lead."""
        return tuple(change for edge in self.edges if edge.follows for change in edge.changes)
