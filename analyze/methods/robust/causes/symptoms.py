"""Bundle changes to symptoms: the changes of one kind at one operation, and the component they point to."""

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
"""(operation, is of time, is faster, only instance, only segment)"""


@dataclass(frozen=True, eq=False)
class Symptom:
    """Changes at one operation: of its time, in one direction, or of its structure (paths, calls, errors)."""

    operation: int
    timed: bool
    changes: tuple[Change, ...]
    lead: Change
    requests: B1
    """[requests] True if the request shows it; empty without requests."""
    score: float
    """Rank: lower bound of the part of the mean response time, or of the share of requests."""
    size: float
    """Score with point estimates for times; decides which of two symptoms leads if either could."""
    component: str
    """Component to look at first."""
    suspect: str = ""
    """Component after which calls are cut short, or which makes calls fail."""
    by_load: bool = False
    """True if the load explains it, so that it is no finding by itself."""
    counted: int = 0
    """Requests that show it, from statistics."""

    def has(self, kinds: Collection[ChangeKind]) -> bool:
        """True if a change is of one of `kinds`."""
        return any(change.kind in kinds for change in self.changes)

    @cached_property
    def n_requests(self) -> int:
        """Number of requests that show it."""
        return int(self.requests.sum()) if len(self.requests) else self.counted

    def common(self, other: Symptom, *, related: bool) -> int:
        """Number of requests that show both symptoms. From statistics: the largest possible if `related`,
        else 0."""
        if len(self.requests):
            return int((self.requests & other.requests).sum())
        return min(self.n_requests, other.n_requests) if related else 0

    @cached_property
    def fails(self) -> bool:
        """True if more calls fail."""
        return self.has({ChangeKind.ERRORS})

    @property
    def instance(self) -> Instance | None:
        """The one instance that shows it; None: not limited to one."""
        return self.lead.instance

    @property
    def segment(self) -> Segment | None:
        """The one segment that shows it; None: not limited to one."""
        return self.lead.segment

    @cached_property
    def is_new(self) -> bool:
        """True if it has a path that was never taken before."""
        return self.has({ChangeKind.NEW_PATH})

    @cached_property
    def of_known_paths(self) -> bool:
        """True if only the frequencies of known paths changed."""
        return all(change.kind is ChangeKind.PATH for change in self.changes)

    def outranks(self, other: Symptom) -> bool:
        """True if self leads where either symptom could."""
        return (self.size, -self.operation) > (other.size, -other.operation)


def one_a_site(changes: Iterable[Change]) -> list[Change]:
    """Keep one change of time per site; the median's before the tail's, as both are one thing."""
    ordered = sorted(changes, key=lambda change: change.kind is not ChangeKind.TAIL)
    return list({change.site: change for change in ordered}.values())


def _alike(change: Change, lead: Change) -> bool:
    """True if a change is of the same kind as the lead."""
    if lead.kind in TIME_KINDS:
        return change.kind in TIME_KINDS
    return change.kind is lead.kind


def part_ns(changes: Iterable[Change]) -> float:
    """Sum of the changes' parts in the change of the mean, ns a request; one per site."""
    return sum(change.contribution_ns for change in one_a_site(changes))


def sure_part(change: Change) -> float:
    """Lower 95 % bound of an effect, as a fraction of the effect; at least 0."""
    return max(1 - _ONE_SIDED_95 / max(abs(change.z), 1e-9), 0.0)


def bundles(changes: Sequence[Change], names: Names) -> dict[BundleKey, list[Change]]:
    """Group changes by operation, time or structure, direction, instance and segment."""
    bundles: dict[BundleKey, list[Change]] = defaultdict(list)
    for change in changes:
        timed = change.kind in TIME_KINDS
        faster = timed and change.kind is ChangeKind.FASTER
        operation = names.sites[change.site].operation
        bundles[operation, timed, faster, change.instance, change.segment].append(change)
    return dict(bundles)


def largest(changes: Sequence[Change]) -> Change:
    """Leading change of a symptom of time: the largest contribution."""
    return max(one_a_site(changes), key=lambda change: abs(change.contribution_ns))


def leading(changes: Sequence[Change]) -> Change:
    """Leading change of a symptom of structure: errors first, then what rose, then the largest change."""
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
    """Map each symptom of time to the component it points to: a greedy cover by few components.

    A slow component covers its own times and the waits for it; one that waits for all its callees covers
    those waits.
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
    """The reason why a symptom is not a cause: the relation by which it follows from another."""

    changes: tuple[Change, ...]
    """Changes of the following symptom."""
    of: Change
    """Leading change of the symptom it follows from."""
    relation: str
    """Name of the relation, a row of RELATIONS."""
    follows: bool
    """True for a consequence, direct or not; False for the same change elsewhere, or another side of it."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Changes that become one finding: a symptom and those that follow from it."""

    lead: Change
    operation: int
    component: str
    """Component to look at first."""
    changes: tuple[Change, ...]
    score: float
    suspect: str = ""
    """Component after which requests were cut short, or whose calls fail."""
    elsewhere: tuple[Change, ...] = ()
    """The same change elsewhere: on other hosts, in other operations, at other callers; without the lead."""
    hosts: tuple[str, ...] = ()
    """Hosts with the leading change, if sites tell hosts apart; the leading site's first."""
    spared: tuple[str, ...] = ()
    """Hosts on which the leading site was tested and did not change."""
    edges: tuple[Edge, ...] = ()
    """Edges to the symptoms that follow from the leading one, one each."""

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
