"""Bundle changes into symptoms: changes of one kind at one operation, and the component they point to."""

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
"""Key of a symptom: (operation, True for a change of time, True if faster, instance or None, segment or
None)."""


@dataclass(frozen=True, eq=False)
class Symptom:
    """Changes at one operation: of its time, in one direction, or of its structure (paths, calls, errors).

    timed: True for changes of time; lead: the change that stands for the symptom.
    """

    operation: int
    timed: bool
    changes: tuple[Change, ...]
    lead: Change
    requests: B1
    """bool[requests of all groups]: True for requests that show the symptom; empty if there are only
    statistics."""
    score: float
    """Rank of the symptom: lower bound of its part of the mean response time, or share of requests, in [0,
    1]."""
    size: float
    """Like `score`, but with point estimates of times; decides which of two symptoms leads if either
    could."""
    component: str
    """Component that the symptom points to, i.e. the first to look at."""
    suspect: str = ""
    """Component after whose call requests are cut short, or whose calls fail; empty for none."""
    by_load: bool = False
    """True if the symptom is explained by load, so that it is not a finding by itself."""
    counted: int = 0
    """Number of requests that show the symptom, from statistics; used if `requests` is empty."""

    def has(self, kinds: Collection[ChangeKind]) -> bool:
        """True if one of the symptom's changes has a kind in `kinds`."""
        return any(change.kind in kinds for change in self.changes)

    @cached_property
    def n_requests(self) -> int:
        """Number of requests that show the symptom."""
        return int(self.requests.sum()) if len(self.requests) else self.counted

    def common(self, other: Symptom, *, related: bool) -> int:
        """Number of requests that show both this symptom and `other`. Statistics do not record it: then the
        largest possible number if `related`, else 0."""
        if len(self.requests):
            return int((self.requests & other.requests).sum())
        return min(self.n_requests, other.n_requests) if related else 0

    @cached_property
    def fails(self) -> bool:
        """True if the share of failing calls rose."""
        return self.has({ChangeKind.ERRORS})

    @property
    def instance(self) -> Instance | None:
        """Instance to which the symptom is limited; None: it is not limited to one."""
        return self.lead.instance

    @property
    def segment(self) -> Segment | None:
        """Segment of requests to which the symptom is limited; None: it is not limited to one."""
        return self.lead.segment

    @cached_property
    def is_new(self) -> bool:
        """True if the symptom has a new path, one that was never taken before."""
        return self.has({ChangeKind.NEW_PATH})

    @cached_property
    def of_known_paths(self) -> bool:
        """True if the symptom consists of changed frequencies of known paths only."""
        return all(change.kind is ChangeKind.PATH for change in self.changes)

    def outranks(self, other: Symptom) -> bool:
        """True if this symptom leads where either of the two could: it has the larger `size`."""
        return (self.size, -self.operation) > (other.size, -other.operation)


def one_a_site(changes: Iterable[Change]) -> list[Change]:
    """Keep one change of time per site: that of the median if it has both, otherwise that of the tail."""
    ordered = sorted(changes, key=lambda change: change.kind is not ChangeKind.TAIL)
    return list({change.site: change for change in ordered}.values())


def _alike(change: Change, lead: Change) -> bool:
    """True if a change has the same kind as the lead; all kinds of time count as one."""
    if lead.kind in TIME_KINDS:
        return change.kind in TIME_KINDS
    return change.kind is lead.kind


def part_ns(changes: Iterable[Change]) -> float:
    """Sum of the changes' parts in the change of the mean response time, ns per request, one change per
    site."""
    return sum(change.contribution_ns for change in one_a_site(changes))


def sure_part(change: Change) -> float:
    """Lower 95 % bound of the effect of a change, as a share of the effect, in [0, 1]."""
    return max(1 - _ONE_SIDED_95 / max(abs(change.z), 1e-9), 0.0)


def bundles(changes: Sequence[Change], names: Names) -> dict[BundleKey, list[Change]]:
    """Group changes into symptoms: by operation, time or structure, direction of time, instance and
    segment."""
    bundles: dict[BundleKey, list[Change]] = defaultdict(list)
    for change in changes:
        timed = change.kind in TIME_KINDS
        faster = timed and change.kind is ChangeKind.FASTER
        operation = names.sites[change.site].operation
        bundles[operation, timed, faster, change.instance, change.segment].append(change)
    return dict(bundles)


def largest(changes: Sequence[Change]) -> Change:
    """Leading change of a symptom of time: the one with the largest contribution."""
    return max(one_a_site(changes), key=lambda change: abs(change.contribution_ns))


def leading(changes: Sequence[Change]) -> Change:
    """Leading change of a symptom of structure: errors before others, rises before falls, then the largest
    difference."""
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
    """Find the component that each symptom of time points to, by a greedy cover with few components: key of
    the symptom -> component.

    A component covers the times of its operations, and its callers' waits for it; its own waits for callees
    count by `caller_weight` only.
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
    """Edge from a symptom to the one it follows from, with the relation that applies."""

    changes: tuple[Change, ...]
    """Changes of the symptom that follows."""
    of: Change
    """Leading change of the symptom it follows from."""
    relation: str
    """Name of the relation, a row of RELATIONS."""
    follows: bool
    """True if the symptom is a consequence, direct or indirect; False if it is the same change elsewhere, or
    another part of it."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Changes that become one finding: a leading symptom and the symptoms that follow from it.

    lead: leading change; operation: of the leading symptom; score: rank as in `Symptom`.
    """

    lead: Change
    operation: int
    component: str
    """Component that the finding points to, i.e. the first to look at."""
    changes: tuple[Change, ...]
    score: float
    suspect: str = ""
    """Component after whose call requests are cut short, or whose calls fail; empty for none."""
    elsewhere: tuple[Change, ...] = ()
    """Leading changes of symptoms with the same change elsewhere: on other hosts, in other operations, at
    other callers; without `lead`."""
    hosts: tuple[str, ...] = ()
    """Hosts that show the leading change, that of the leading site first; empty if sites do not name
    hosts."""
    spared: tuple[str, ...] = ()
    """Hosts on which the leading site was tested and did not change."""
    edges: tuple[Edge, ...] = ()
    """Edges from the symptoms that follow to the ones they follow from, one per symptom."""

    @property
    def alike(self) -> tuple[Change, ...]:
        """Changes of the same kind, one per site: the lead, those at other callers of its operation, and
        `elsewhere`."""
        related = {id(change) for edge in self.edges for change in edge.changes}
        own = [change for change in self.changes if id(change) not in related and _alike(change, self.lead)]
        sites = {change.site for change in (self.lead, *self.elsewhere)}
        others = [change for change in one_a_site(own) if change.site not in sites]
        return (self.lead, *others, *self.elsewhere)

    @property
    def follows(self) -> tuple[Change, ...]:
        """Changes among `changes` that are consequences of the lead, direct or indirect."""
        return tuple(change for edge in self.edges if edge.follows for change in edge.changes)
