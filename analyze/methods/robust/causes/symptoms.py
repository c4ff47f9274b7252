"""Group changes into symptoms (changes of one kind at one operation), and find the component that each
symptom points to."""

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
"""Key of a symptom: (index of the operation, True for a change of time, True for a fall of time, instance or
None, attribute segment or None)."""


@dataclass(frozen=True, eq=False)
class Symptom:
    """Changes at one operation that are reported together: its changes of time in one direction, or its
    changes of structure (paths, calls, errors)."""

    operation: int
    timed: bool
    """True if the symptom consists of changes of time, False if of changes of structure (paths, calls,
    errors)."""
    changes: tuple[Change, ...]
    lead: Change
    """Change that represents the symptom in reports and comparisons: the largest, errors first."""
    requests: B1
    """bool[requests of all groups, concatenated]: True for requests that show the symptom; empty if only
    statistics are known."""
    score: float
    """Importance, by which causes are sorted: 95 % lower bound of the symptom's part of the mean response
    time, as a share of that mean, or its weighted share of requests."""
    size: float
    """Importance like `score`, but from the point estimate of a time instead of the lower bound; if either of
    two symptoms could lead, the larger size does."""
    component: str
    """Component that the symptom points to: the first one to examine."""
    suspect: str = ""
    """Callee's component whose calls fail, or after whose call requests are cut short; empty for none."""
    by_load: bool = False
    """True if a change of load explains the symptom, which then never becomes a cause."""
    counted: int = 0
    """Number of requests that show the symptom according to statistics; used where `requests` is empty."""

    def has(self, kinds: Collection[ChangeKind]) -> bool:
        """True if one of the symptom's changes has a kind in `kinds`."""
        return any(change.kind in kinds for change in self.changes)

    @cached_property
    def n_requests(self) -> int:
        """Number of requests that show the symptom."""
        return int(self.requests.sum()) if len(self.requests) else self.counted

    def common(self, other: Symptom, *, related: bool) -> int:
        """Number of requests that show both this symptom and `other`. From statistics, which do not record
        it, the largest possible number if `related`, otherwise 0."""
        if len(self.requests):
            return int((self.requests & other.requests).sum())
        return min(self.n_requests, other.n_requests) if related else 0

    @cached_property
    def fails(self) -> bool:
        """True if the share of failing calls or requests rose."""
        return self.has({ChangeKind.ERRORS})

    @property
    def instance(self) -> Instance | None:
        """Instance, version or zone to which the symptom is limited; None if it is not limited to one."""
        return self.lead.instance

    @property
    def segment(self) -> Segment | None:
        """Attribute segment to which the symptom is limited; None if it is not limited to one."""
        return self.lead.segment

    @cached_property
    def is_new(self) -> bool:
        """True if the symptom includes a call pattern that did not occur before."""
        return self.has({ChangeKind.NEW_PATH})

    @cached_property
    def of_known_paths(self) -> bool:
        """True if the symptom only consists of changed frequencies of call patterns that occur before and
        after."""
        return all(change.kind is ChangeKind.PATH for change in self.changes)

    def outranks(self, other: Symptom) -> bool:
        """True if this symptom, and not `other`, leads where either could: it has the larger `size`, or the
        smaller operation index if equal."""
        return (self.size, -self.operation) > (other.size, -other.operation)


def one_a_site(changes: Iterable[Change]) -> list[Change]:
    """Keep one change of time per site: the change of the median if there is one, otherwise the change of the
    tail."""
    ordered = sorted(changes, key=lambda change: change.kind is not ChangeKind.TAIL)
    return list({change.site: change for change in ordered}.values())


def _alike(change: Change, lead: Change) -> bool:
    """True if the change and the lead have the same kind; all kinds of time count as the same."""
    if lead.kind in TIME_KINDS:
        return change.kind in TIME_KINDS
    return change.kind is lead.kind


def part_ns(changes: Iterable[Change]) -> float:
    """Sum of the contributions of the changes to the change of the mean response time, ns per request; one
    change per site."""
    return sum(change.contribution_ns for change in one_a_site(changes))


def sure_part(change: Change) -> float:
    """Lower bound of a change (one-sided, 95 %) divided by the change, in [0, 1]; 0 if the bound is not
    positive."""
    return max(1 - _ONE_SIDED_95 / max(abs(change.z), 1e-9), 0.0)


def bundles(changes: Sequence[Change], names: Names) -> dict[BundleKey, list[Change]]:
    """Group changes into symptoms, by operation, time or structure, direction of a change of time, instance
    and attribute segment."""
    bundles: dict[BundleKey, list[Change]] = defaultdict(list)
    for change in changes:
        timed = change.kind in TIME_KINDS
        faster = timed and change.kind is ChangeKind.FASTER
        operation = names.sites[change.site].operation
        bundles[operation, timed, faster, change.instance, change.segment].append(change)
    return dict(bundles)


def largest(changes: Sequence[Change]) -> Change:
    """Lead of a symptom of time: its change with the largest contribution to the mean response time."""
    return max(one_a_site(changes), key=lambda change: abs(change.contribution_ns))


def leading(changes: Sequence[Change]) -> Change:
    """Lead of a symptom of structure: errors before other kinds, rises before falls, then the largest
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
    """Component that each symptom of time points to, from a greedy set cover with few components: key of the
    symptom -> component.

    A component covers the times of its own operations, and its callers' waits for it; a caller that waits for
    a callee covers its wait only with weight `caller_weight`.
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
    """Link from a symptom to the symptom that it follows from, and the relation between them."""

    changes: tuple[Change, ...]
    """Changes of the symptom that follows from another."""
    of: Change
    """Leading change of the symptom that this symptom follows from."""
    relation: str
    """Name of the relation that applies, from RELATIONS."""
    follows: bool
    """True if the symptom is a direct or indirect consequence; False if it is the same change elsewhere, or
    another part of that change."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Changes that become one finding: those of a leading symptom and of all symptoms that follow from it."""

    lead: Change
    """Leading change of the leading symptom; the finding's headline."""
    operation: int
    """Index of the leading symptom's operation."""
    component: str
    """Component that the finding points to: the first one to examine."""
    changes: tuple[Change, ...]
    score: float
    """Importance, by which causes are sorted: the largest `Symptom.score` of the cause's symptoms, with times
    at other call sites of the same change summed."""
    suspect: str = ""
    """Callee's component whose calls fail, or after whose call requests are cut short; empty for none."""
    elsewhere: tuple[Change, ...] = ()
    """Leading changes of symptoms with the same change on other hosts, in other operations or at other
    callers; `lead` is not included."""
    hosts: tuple[str, ...] = ()
    """Hosts that show the leading change, the leading site's host first; empty if components do not name
    hosts."""
    spared: tuple[str, ...] = ()
    """Hosts on which the leading site was tested without finding a change; empty if components do not name
    hosts."""
    edges: tuple[Edge, ...] = ()
    """Links from each symptom of the cause, but the leading one, to the symptom that it follows from."""

    @property
    def alike(self) -> tuple[Change, ...]:
        """Changes of the same kind as `lead`, at most one per site: `lead`, changes at other callers of its
        operation, then `elsewhere`."""
        related = {id(change) for edge in self.edges for change in edge.changes}
        own = [change for change in self.changes if id(change) not in related and _alike(change, self.lead)]
        sites = {change.site for change in (self.lead, *self.elsewhere)}
        others = [change for change in one_a_site(own) if change.site not in sites]
        return (self.lead, *others, *self.elsewhere)

    @property
    def follows(self) -> tuple[Change, ...]:
        """Changes in `changes` that are direct or indirect consequences of `lead`."""
        return tuple(change for edge in self.edges if edge.follows for change in edge.changes)
