"""Picture of the calls around the first findings; both periods in one graph.

For spans it shows the calling context: the path from the root to each finding, and the other calls of the
operations on that path. For activity records, which do not nest, it shows the sequence of trace points along
the most frequent steps. Numbers come from the profile, by call site, so that no requests are needed. O(paths
of the profile).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from analyze.methods.robust.causes.symptoms import Cause
from analyze.methods.robust.changes import Change
from analyze.methods.robust.robust_run import RobustRun
from analyze.profile.names import NO_CALLER, SiteKind
from analyze.report.limits import ReportLimits
from analyze.stats.histograms import binned_histogram
from analyze.stats.sums import totals, totals_by_side
from schemas.arrays import F8, I8
from schemas.report.findings import Finding
from schemas.report.parts import Histogram
from schemas.report.picture import FlowPicture, FlowStep
from schemas.windows import NS_PER_US
from stitch.graph.placed import NO_COMPONENT


def flow_picture(
    run: RobustRun, findings: Sequence[Finding], foremost: int, limits: ReportLimits
) -> FlowPicture | None:
    """Draw the finding with rank `foremost`, and as many others of the first findings as fit; None if there
    is no cause.

    findings: one per cause of the run, in the same order.
    """
    if not run.causes:
        return None
    numbers = _Numbers(run)
    ranks = [foremost, *(one for one in range(1, len(findings) + 1) if one != foremost)][: limits.pictured]
    ways = {rank: numbers.way(run.causes[rank - 1]) for rank in ranks}
    tree = _Tree(numbers)
    for rank, way in ways.items():
        shown = _shortened(way, limits.picture_path)
        if rank == foremost or len(tree.places) + len({*shown} - {*tree.places}) <= limits.picture_steps:
            tree.add(way, shown)
    marks = _marks(run.causes, numbers)
    main = ways[foremost]
    # For a finding that takes other paths the callees show which call is new or gone.
    ends = [way[-1] for rank, way in ways.items() if rank != foremost and way[-1] not in main]
    for parent in dict.fromkeys((*reversed(main), *ends)):
        if parent in tree.places:
            tree.add_siblings(parent, marks, limits)
    roots = numbers.roots_of(run.causes[foremost - 1])
    return FlowPicture(
        roots=tuple(run.profile.names.roots[root] for root in roots[: limits.members]),
        roots_total=len(roots),
        nested=not numbers.is_step[main[-1][1]],
        steps=tuple(tree.steps(main, marks, {one.rank: one for one in findings})),
        responses=_responses(run, roots, limits.bins),
    )


_Place = tuple[int, int]
"""Node of the picture: (index of a calling path, index of a call site). Of spans it is a call in its calling
context, of activity records a step between two trace points of a root type. The path is NO_CALLER if the
step breakdown has no path to the site.
"""
_Marks = Mapping[int, tuple[int, Change, bool]]
"""Index of a call site -> (rank of the first finding there, change to show, True if the change has the kind
of the finding's leading change)."""


class _Numbers:
    """Numbers of calls, requests and times by call site in both periods, and the calling paths of each
    site."""

    def __init__(self, run: RobustRun) -> None:
        self.run = run
        self.names = names = run.profile.names
        self.operation = np.array([site.operation for site in names.sites], dtype=np.int64)
        self.is_step = np.array([site.kind is SiteKind.STEP for site in names.sites], dtype=np.bool_)
        sides = (run.roles.reference, run.roles.problem)
        self.calls, self.weight, self.n, self.critical_ns = (
            np.stack([run.profile.at_sites("visits", column, slots) for slots in sides], axis=1)
            for column in ("calls", "w", "n", "critical_ns")
        )
        self.critical_sum_ns = max(float(self.critical_ns.sum()), 1e-300)
        self.requests = np.array([max(run.profile.responded("w", slots), 1e-300) for slots in sides])
        # A trace point is passed once, however many steps lead to it.
        passed = np.where(self.is_step[:, None], 0.0, self.calls)
        self.passes = np.stack(
            [totals(self.operation, side, len(names.operations)) for side in passed.T], axis=1
        )
        self._points = {
            site.operation: at for at, site in enumerate(names.sites) if site.kind is SiteKind.POINT
        }

    @cached_property
    def _account(self) -> tuple[I8, I8, F8]:
        """Rows of the breakdown: (int64[rows] root type, int64[rows] calling path, float64[rows, 4] time on
        critical paths in ns before and after, number of calls on critical paths before and after)."""
        table, roles = self.run.profile.account, self.run.roles
        root, path, slot = (table[name].to_numpy().astype(np.int64) for name in ("root", "path", "slot"))
        key = root * max(len(self.names.paths), 1) + path
        found, code = np.unique(key, return_inverse=True)
        sides = (roles.reference, roles.problem)
        sums = [
            totals_by_side(code, table[name].to_numpy(), slot, sides, len(found))
            for name in ("critical_ns", "calls")
        ]
        count = max(len(self.names.paths), 1)
        return found // count, found % count, np.concatenate(sums, axis=1)

    @cached_property
    def _paths_of(self) -> Mapping[int, Sequence[int]]:
        """Index of a call site -> calling paths that end there."""
        found: dict[int, list[int]] = defaultdict(list)
        for path, name in enumerate(self.names.paths):
            found[name.site].append(path)
        return found

    @cached_property
    def _below(self) -> Mapping[int, Sequence[int]]:
        """Calling path -> the calling paths one call deeper."""
        found: dict[int, list[int]] = defaultdict(list)
        for path, name in enumerate(self.names.paths):
            found[name.above].append(path)
        return found

    @cached_property
    def _steps(self) -> Mapping[int, list[int]]:
        """Operation of a trace point -> indices of the steps that end there."""
        into: dict[int, list[int]] = defaultdict(list)
        for at in np.flatnonzero(self.is_step).tolist():
            into[self.names.sites[at].operation].append(at)
        return into

    @cached_property
    def _by_path(self) -> F8:
        """float64[paths, 4]: time on critical paths in ns before and after, number of calls on critical paths
        before and after."""
        _root, path, sums = self._account
        return np.stack([totals(path, column, len(self.names.paths)) for column in sums.T], axis=1)

    def roots_of(self, cause: Cause) -> list[int]:
        """Indices of the root types in which a cause occurs, most requests in the problem first."""
        root, path, _ = self._account
        places = [
            one
            for change in cause.alike
            for site in self.call_sites(change.site)
            for one in self._paths_of.get(site, ())
        ]
        inside = np.unique(root[np.isin(path, places)])
        table = self.run.profile.responses
        of, slot, weight = (table[name].to_numpy() for name in ("root", "slot", "w"))
        here = self.run.roles.problem[slot]
        requests = totals(of[here].astype(np.int64), weight[here], len(self.names.roots))
        return sorted(inside.tolist(), key=lambda one: (-requests[one], self.names.roots[one]))

    def call_sites(self, site: int) -> Sequence[int]:
        """Call sites to draw for a site: the site itself or, for a trace point, the steps that end there."""
        if self.names.sites[site].kind is not SiteKind.POINT:
            return (site,)
        return self._steps.get(self.names.sites[site].operation) or (site,)

    def way(self, cause: Cause) -> list[_Place]:
        """Nodes from the start of the request to the site of a cause's leading change, along the calling path
        whose time changed most."""
        sites = self.call_sites(cause.lead.site)
        places = [one for site in sites for one in self._paths_of.get(site, ())]
        if not places:
            return [(NO_CALLER, sites[0])]

        def moved(place: int) -> tuple[float, float]:
            of = self._by_path[place]
            time, calls = of[:2] / self.requests, of[2:] / self.requests
            return float(abs(time[1] - time[0])), float(calls.sum())

        at = max(places, key=lambda place: (*moved(place), -place))
        if self.is_step[self.names.paths[at].site]:
            return self._way_of_steps(at)
        way = []
        while at != NO_CALLER:
            way.append((at, self.names.paths[at].site))
            at = self.names.paths[at].above
        return way[::-1]

    def _way_of_steps(self, path: int) -> list[_Place]:
        """Nodes from the start of the request to the step `path`, going back each time to the step that most
        often precedes it on critical paths."""
        above, site = self.names.paths[path]
        into: dict[int, list[int]] = defaultdict(list)
        for one in self._below[above]:
            into[self.names.sites[self.names.paths[one].site].operation].append(one)
        critical = self._by_path[:, 2:].sum(axis=1)
        way, seen = [path], {self.names.sites[site].operation}
        while (begin := self._begin(way[-1])) not in seen:
            seen.add(begin)
            before = [one for one in into[begin] if self._begin(one) not in seen]
            if not before:
                break
            way.append(max(before, key=lambda one: (critical[one], -one)))
        return [
            (above, self.names.paths[above].site),
            *((one, self.names.paths[one].site) for one in reversed(way)),
        ]

    def _begin(self, path: int) -> int:
        """Operation of the trace point at which the step `path` begins."""
        return self.names.sites[self.names.paths[path].site].caller

    def follow(self, place: _Place) -> list[_Place]:
        """Nodes that may follow a node: its child calls or, for activity records, the steps that begin where
        it ends."""
        path, site = place
        if path == NO_CALLER:
            return []
        if self.names.sites[site].kind is SiteKind.CALL:
            return [(one, self.names.paths[one].site) for one in self._below.get(path, ())]
        group = path if self.names.sites[site].kind is SiteKind.POINT else self.names.paths[path].above
        point = self.names.sites[site].operation
        return [
            (one, self.names.paths[one].site)
            for one in self._below.get(group, ())
            if self._begin(one) == point
        ]

    def is_drawn(self, site: int) -> bool:
        """True if requests reach the site and it is not a placeholder for lost spans."""
        return bool(self.n[site].any()) and self.names.operation(site).component != NO_COMPONENT

    def each(self, site: int) -> tuple[float | None, float | None]:
        """Mean number of calls of a site per call of its caller: (before, after); (None, None) for a site
        without a caller."""
        caller = self.names.sites[site].caller
        if caller == NO_CALLER:
            return None, None
        passes = self.passes[caller]
        before, after = (float(self.calls[site, t] / passes[t]) if passes[t] else 0.0 for t in (0, 1))
        return before, after

    def time_us(self, site: int) -> tuple[float | None, float | None]:
        """Median own time per request at a site, µs: (before, after); None where unknown."""
        if self.run.timeless:
            return None, None
        typical = self.run.tested.seen.site_times.typical
        values = (np.exp(side[site]) / NS_PER_US for side in (typical.before, typical.after))
        before, after = (
            float(value) if np.isfinite(value) and self.n[site, t] else None for t, value in enumerate(values)
        )
        return before, after


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Position of a drawn node in the picture."""

    above: _Place | None
    """Parent of the node in the picture; None for the first node."""
    skipped: int
    """Number of nodes left out between this node and its parent `above`."""


class _Tree:
    """Nodes to draw, each with its parent."""

    def __init__(self, numbers: _Numbers) -> None:
        self._numbers = numbers
        self.places: dict[_Place, _Chosen] = {}
        self._hidden: dict[_Place, int] = {}

    def add(self, way: Sequence[_Place], shown: Sequence[_Place]) -> None:
        """Add the nodes of the path `way` that are in `shown`."""
        last: _Place | None = None
        skipped = 0
        for place in way:
            if place in self.places or place in shown:
                self.places.setdefault(place, _Chosen(last, skipped if last is not None else 0))
                last, skipped = place, 0
            else:
                skipped += 1

    def add_siblings(self, parent: _Place, marks: _Marks, limits: ReportLimits) -> None:
        """Add other nodes that follow `parent` until the limits are reached: nodes with a change first, then
        by time."""
        numbers = self._numbers
        left = [place for place in numbers.follow(parent) if place not in self.places and place != parent]
        left = [place for place in left if numbers.is_drawn(place[1])]
        left.sort(key=lambda place: (-_interest(place[1], marks, numbers), place))
        room = min(limits.picture_siblings, limits.picture_steps - len(self.places))
        for place in left[: max(room, 0)]:
            self.places[place] = _Chosen(parent, 0)
        self._hidden[parent] = len(left[max(room, 0) :])

    def steps(self, main: Sequence[_Place], marks: _Marks, findings: Mapping[int, Finding]) -> list[FlowStep]:
        """Nodes as steps of the picture, parents before children; among children, nodes on the path `main`
        come last."""
        below: dict[_Place | None, list[_Place]] = defaultdict(list)
        for place, chosen in self.places.items():
            below[chosen.above].append(place)
        found: list[FlowStep] = []
        on_main = {*main}
        pending: list[tuple[_Place, int | None]] = [(one, None) for one in reversed(below[None])]
        while pending:
            place, above = pending.pop()
            found.append(self._step(place, above, marks, findings))
            at = len(found) - 1
            # Calls without callees first, then ways to other findings, then the main way.
            mine = sorted(below[place], key=lambda one: (one in on_main, bool(below[one])))
            pending += [(one, at) for one in reversed(mine)]
        return found

    def _step(
        self, place: _Place, above: int | None, marks: _Marks, findings: Mapping[int, Finding]
    ) -> FlowStep:
        numbers, site = self._numbers, place[1]
        name = numbers.names.operation(site)
        rank, change, leads = marks.get(site, (None, None, False))
        finding = findings.get(rank or 0)
        where = (
            ""
            if finding is None or not leads
            else " and ".join(f"{one.attribute} = {one.value}" for one in finding.factors)
        )
        calls, time = numbers.each(site), numbers.time_us(site)
        n = numbers.n[site]
        sure = rank is not None or n.max() >= numbers.run.settings.least_affected
        return FlowStep(
            component=name.component,
            operation=name.what,
            above=above,
            skipped=self.places[place].skipped,
            hidden=self._hidden.get(place, 0),
            only="" if not sure or n.all() or not n.any() else "after" if n[1] else "before",
            change=None if change is None else change.kind,
            unit=None if change is None else change.unit,
            before=None if change is None else change.before,
            after=None if change is None else change.after,
            finding=rank,
            leads=leads,
            where=where,
            calls0=None if above is None else calls[0],
            calls1=None if above is None else calls[1],
            time0_us=time[0],
            time1_us=time[1],
        )


def _interest(site: int, marks: _Marks, numbers: _Numbers) -> float:
    """Sort key of a node among its siblings, larger is drawn first: nodes with a change, then nodes that
    occur in one period only, then by time and number of requests."""
    n = numbers.n[site]
    alone = not n.all() and n.max() >= numbers.run.settings.least_affected
    share = float(numbers.critical_ns[site].max()) / numbers.critical_sum_ns
    weight = float((numbers.weight[site] / numbers.requests).max())
    return 4.0 * (site in marks) + 2.0 * alone + share + 1e-6 * min(weight, 1.0)


def _shortened(way: Sequence[_Place], most: int) -> list[_Place]:
    """First node and last `most` - 1 nodes of a path."""
    return [*way] if len(way) <= most else [way[0], *way[len(way) - most + 1 :]]


def _marks(causes: Iterable[Cause], numbers: _Numbers) -> dict[int, tuple[int, Change, bool]]:
    """Change to show at each call site: index of the site -> (rank of the first finding with a change there,
    its most important change there, True if that has the kind of the finding's leading change)."""
    found: dict[int, tuple[int, Change, bool]] = {}
    for rank, cause in enumerate(causes, 1):
        alike = {id(change) for change in cause.alike}
        ordered = [cause.lead, *(change for change in cause.changes if change is not cause.lead)]
        for change in ordered:
            for site in change.sites if change.segment is not None else (change.site,):
                for place in numbers.call_sites(site):
                    found.setdefault(place, (rank, change, id(change) in alike))
    return found


def _responses(run: RobustRun, roots: Sequence[int], bins: int) -> Histogram:
    """Histogram of the response times of requests whose root type is in `roots`, in reference and problem."""
    table = run.profile.responses
    root, slot, place, n = (table[name].to_numpy() for name in ("root", "slot", "bin", "n"))
    mine = np.isin(root, roots)
    sides = [mine & slots[slot] for slots in (run.roles.reference, run.roles.problem)]
    return binned_histogram("Response time", [(place[side], n[side]) for side in sides], bins)
