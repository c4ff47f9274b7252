"""Groups of changes as findings of a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from analyze.methods.robust.affected_requests import AffectedRequests, affected_rows
from analyze.methods.robust.affected_statistics import affected_by_statistics
from analyze.methods.robust.causes.cause import Cause
from analyze.methods.robust.changes import ERROR_KINDS, NO_SHAPE, TIME_KINDS, Change
from analyze.methods.robust.finding_causes import explanation_of, factors_of
from analyze.methods.robust.finding_drawings import histogram_of, step_account
from analyze.methods.robust.finding_times import when_of
from analyze.methods.robust.robust_run import RobustRun
from analyze.methods.robust.roles import PROBLEM, REFERENCE
from analyze.methods.robust.settings import RobustSettings
from analyze.methods.robust.site_requests import AtSite, affected_counts, requests_at, selected
from analyze.methods.robust.titles import elsewhere, shape_words, title, where
from analyze.profile.names import Names
from analyze.report.drawing.train_schedule import hosts_of, train_schedule
from analyze.report.limits import ReportLimits
from schemas.report.findings import ChangeKind, Evidence, Example, Finding, Interval, Member, Site
from schemas.report.parts import NodeName, TrainSchedule

_MOST_EXAMPLES = 3
_CHAIN = 5


def findings_of(
    run: RobustRun,
    settings: RobustSettings,
    limits: ReportLimits,
    claims_ns: Sequence[float],
    shares: Sequence[float | None],
) -> tuple[list[Finding], list[AffectedRequests]]:
    """Findings, the most important first, and whom they affect; claims_ns: part of the change of the mean of
    each cause; shares: of all that added time (or took it away), where the mean changed by test."""
    found, affected = [], []
    n0, n1 = (_requests(run, sample) for sample in (REFERENCE, PROBLEM))
    for rank, (cause, claim_ns, share) in enumerate(zip(run.causes, claims_ns, shares, strict=True), 1):
        at = requests_at(run.population, run.patterns.patterns, [cause.lead, *cause.leads])
        found.append(_finding(run, cause, at, rank, share, (n0, n1), settings, limits, claim_ns))
        affected.append(affected_rows(at))
    return found, affected


def evidence_of(
    change: Change, names: Names, relation: str = "", consequence_of: int | None = None
) -> Evidence:
    """A change as a row of evidence."""
    what = shape_words(names.shapes[change.shape], names) if change.shape != NO_SHAPE else ""
    return Evidence(
        kind=change.kind,
        site=site_of(change, names),
        what=what,
        unit=change.unit,
        before=change.before,
        after=change.after,
        change=_interval(change),
        requests0=change.n0,
        requests1=change.n1,
        p=change.p,
        q=change.q,
        z=float(np.clip(change.z, -1e6, 1e6)),
        contribution_us=change.contribution_ns / 1e3,
        relation=relation,
        consequence_of=consequence_of,
    )


def site_of(change: Change, names: Names) -> Site:
    """The site of a change, named."""
    name, caller = names.operation(change.site), names.caller(change.site)
    operation = f"{name.point} -> {name.callee}" if name.callee else name.point
    return Site(
        component=name.component,
        operation=operation,
        caller=None if caller is None else NodeName(component=caller.component, point=caller.point),
    )


def _finding(
    run: RobustRun,
    cause: Cause,
    at: Sequence[AtSite],
    rank: int,
    share: float | None,
    requests: tuple[int, int],
    settings: RobustSettings,
    limits: ReportLimits,
    claim_ns: float,
) -> Finding:
    lead, names = cause.lead, run.profile.names
    explained = rank <= settings.explained
    affected = (
        affected_counts(at)
        if run.patterns.patterns
        else affected_by_statistics(run.profile, run.roles, [lead, *cause.leads])
    )
    ordered = [lead, *(change for change in cause.changes if change is not lead)]
    place = {id(change): number for number, change in enumerate(ordered)}
    why = {id(change): edge for edge in cause.edges for change in edge.changes}
    evidence = [
        evidence_of(change, names)
        if (edge := why.get(id(change))) is None
        else evidence_of(change, names, edge.relation, place[id(edge.of)] if edge.follows else None)
        for change in ordered
    ]
    callers = {
        names.sites[change.site].caller
        for change in cause.changes
        if names.sites[change.site].operation == cause.operation
    }
    site = site_of(lead, names).model_copy(
        update={"callers": max(len(callers), 1), "depth": run.context.order.depth[cause.operation]}
    )
    suspect = cause.suspect or (cause.component if cause.component != site.component else "")
    return Finding(
        rank=rank,
        kind=lead.kind,
        site=site,
        title=title(lead, cause.changes, names)
        + elsewhere(cause, names, run.context.hosts.host_of)
        + where(cause),
        suspect=suspect,
        unit=lead.unit,
        before=lead.before,
        after=lead.after,
        change=_interval(lead),
        share_of_change=None if share is None else _share_interval(share, lead),
        share_estimate=share,
        contribution_us=claim_ns / 1e3,
        affected0=affected[0],
        affected1=affected[1],
        share0=affected[0] / max(requests[0], 1),
        share1=affected[1] / max(requests[1], 1),
        p=lead.p,
        q=min(change.q for change in cause.changes),
        evidence=tuple(evidence),
        evidence_total=len(evidence),
        chain=tuple(_chain(ordered, cause, names)),
        factors=factors_of(run, _with_spared(run, cause, at), lead) if explained else (),
        examples=tuple(_examples(run, at, drawn=rank <= limits.drawn)),
        members=tuple(_members(run, at)[: limits.members]),
        members_total=len({found.category for found in at}),
        histogram=histogram_of(at, lead, names, limits),
        account=step_account(run, at, cause),
        explanation=explanation_of(run, at, lead, settings) if explained else None,
        saves_us=None,
        first_window_ns=_first_window(run, at, lead),
        when=when_of(run.population, at),
    )


def _interval(change: Change) -> Interval:
    """Of after - before; shares differ by 100 points at most."""
    most = 1.0 if change.unit == "share" else np.inf
    return Interval(low=max(change.low, -most), high=min(change.high, most))


def _with_spared(run: RobustRun, cause: Cause, at: Sequence[AtSite]) -> Sequence[AtSite]:
    """With the requests at the same site of hosts that are as before: a host is told against them."""
    if not cause.spared_sites:
        return at
    elsewhere = [replace(cause.lead, site=site) for site in cause.spared_sites]
    return requests_at(run.population, run.patterns.patterns, [cause.lead, *cause.leads, *elsewhere])


def _share_interval(share: float, lead: Change) -> Interval:
    """The share is as uncertain as the leading effect."""
    effect = abs(lead.after - lead.before)
    spread = abs(lead.high - lead.low) / 2 / effect if effect else 1.0
    return Interval(low=max(share * (1 - min(spread, 1.0)), 0.0), high=min(share * (1 + spread), 1.0))


def _requests(run: RobustRun, sample: int) -> int:
    inside = run.roles.reference if sample == REFERENCE else run.roles.problem
    rows = run.profile.responses
    return round(float(rows["n"].to_numpy()[inside[rows["slot"].to_numpy()]].sum()))


def _chain(changes: Sequence[Change], cause: Cause, names: Names) -> list[str]:
    """Consequences, one a site, those of most requests first."""
    seen = {cause.lead.site}
    chain = []
    for change in sorted(cause.follows, key=lambda c: (c.kind not in ERROR_KINDS, -abs(c.after - c.before))):
        if change.site in seen or (change.kind is ChangeKind.LOST_PATH):
            continue
        seen.add(change.site)
        chain.append(title(change, changes, names))
    return chain[:_CHAIN]


def _examples(run: RobustRun, at: Sequence[AtSite], *, drawn: bool) -> list[Example]:
    """Requests of both periods: the reference's at the median, the problem's affected at median and tail."""
    examples: list[Example] = []
    for sample, hit, places in ((REFERENCE, False, (0.5,)), (PROBLEM, True, (0.5, 0.95))):
        rows = selected(at, sample, hit=hit) or selected(at, sample, hit=None)
        flat = [
            (int(run.population.categories[category].response_ns[row]), category, int(row))
            for category, mine in rows.items()
            for row in _thinned(mine)
        ]
        flat.sort()
        for place in places:
            if not flat:
                continue
            response, category, row = flat[min(int(place * len(flat)), len(flat) - 1)]
            source = run.population.categories[category]
            example = Example(
                sample=run.population.samples[sample].name,
                request_id=source.request_id[row].as_py(),
                what="typical" if place == 0.5 else "slow",
                start_ns=int(source.start_ns[row]),
                response_us=response / 1e3,
                schedule=_schedule(run, category, row) if drawn else None,
            )
            if all(example.request_id != other.request_id for other in examples):
                examples.append(example)
    return examples[:_MOST_EXAMPLES]


def _schedule(run: RobustRun, category: int, row: int) -> TrainSchedule:
    """One request, drawn."""
    source = run.population.categories[category]
    sites = next(pattern.sites for pattern in run.patterns.patterns if pattern.category == category)
    return train_schedule(
        source.graph,
        sites,
        run.profile.names,
        source.node_ns[:, row].astype(np.float64),
        request_id=source.request_id[row].as_py(),
        hosts=hosts_of(run.population, source, row),
    )


def _thinned(rows: np.ndarray[tuple[int], np.dtype[np.int64]], most: int = 500) -> Sequence[int]:
    """At most so many rows, evenly spaced: an example need not be the very median."""
    if len(rows) <= most:
        return list(map(int, rows))
    thinned: list[int] = rows[np.linspace(0, len(rows) - 1, most).astype(np.int64)].tolist()
    return thinned


def _members(run: RobustRun, at: Sequence[AtSite]) -> list[Member]:
    counts: dict[int, list[int]] = {}
    for found in at:
        both = counts.setdefault(found.category, [0, 0])
        for sample in (REFERENCE, PROBLEM):
            both[sample] += int((found.hit & (found.sample == sample)).sum())
    rows = [
        Member(
            category=run.population.categories[category].graph.key,
            root=run.population.categories[category].graph.root,
            requests0=both[0],
            requests1=both[1],
        )
        for category, both in counts.items()
    ]
    return sorted(rows, key=lambda row: (-row.requests1, -row.requests0, row.category))


def _first_window(run: RobustRun, at: Sequence[AtSite], lead: Change) -> int | None:
    if lead.kind in TIME_KINDS:
        return None
    starts = [
        int(run.population.categories[found.category].start_ns[found.rows[keep]].min())
        for found in at
        if (keep := found.hit & (found.sample == PROBLEM)).any()
    ]
    window = run.population.window_ns
    return min(starts) // window * window if starts else None
