"""Fill the findings of the report: for each cause its numbers, evidence and example requests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from analyze.explain.chosen_requests import Selection
from analyze.explain.explanation import Difference, difference, explain_differences
from analyze.methods.robust.affected_requests import (
    AffectedRequests,
    AtSite,
    affected_by_statistics,
    affected_rows,
    own_times_of,
    requests_at,
    selected,
    when_by_statistics,
)
from analyze.methods.robust.causes.resolve import is_better, longer_ns
from analyze.methods.robust.causes.symptoms import Cause
from analyze.methods.robust.changes import NO_PATTERN, Change
from analyze.methods.robust.robust_run import RobustRun
from analyze.methods.robust.roles import PROBLEM, REFERENCE
from analyze.methods.robust.sections.findings import foremost
from analyze.methods.robust.titles import finding_title, pattern_words, title
from analyze.paths.critical_path import attribute
from analyze.population import Population
from analyze.profile.names import Names
from analyze.report.drawing.accounts import structural_account, timing_account
from analyze.report.drawing.train_schedule import hosts_of, train_schedule
from analyze.report.limits import ReportLimits
from analyze.report.when import when_requests
from analyze.stats.histograms import log_histogram
from schemas.arrays import B1, I8
from schemas.report.accounts import ACCOUNT, Account, AccountedRow
from schemas.report.columns import arrow_table
from schemas.report.findings import (
    ERROR_KINDS,
    EVIDENCE,
    FINDINGS,
    PATH_KINDS,
    TIME_KINDS,
    ChangeKind,
    Evidence,
    EvidenceRow,
    Example,
    Factor,
    Finding,
    Interval,
    Member,
    Site,
    When,
)
from schemas.report.parts import Histogram, NodeName, StepAccount, TrainSchedule

_MOST_EXAMPLES = 3
_MOST_LOOKED_AT = 500
"""Maximum number of requests per category, evenly spaced, among which an example is chosen; the example need
not be the exact median."""
_CHAIN = 5


def findings_of(
    run: RobustRun,
    limits: ReportLimits,
    claims_ns: Sequence[float],
    shares: Sequence[float | None],
) -> tuple[list[Finding], list[AffectedRequests]]:
    """Findings of a run, most important first, and for each the requests that show it.

    claims_ns: for each cause the part of the change of the mean response time that it accounts for, ns;
    shares: for each cause its share of all time added (or saved), in [0, 1]; None if the mean did not change
    significantly.
    """
    found, affected = [], []
    explained = foremost(claims_ns, run.settings.explained)
    differences: dict[int, Difference] = {}
    for number, (cause, claim_ns, share) in enumerate(zip(run.causes, claims_ns, shares, strict=True)):
        at = requests_at(run.population, run.profiled.groups, cause.alike)
        found.append(_finding(run, cause, at, number + 1, share, limits, claim_ns))
        affected.append(affected_rows(at))
        if number in explained and (asked := difference_of(run, at, cause.lead)) is not None:
            differences[number] = asked
    # All at once, so that their parameters are read in one pass.
    explanations = explain_differences(run.population, [*differences.values()])
    for number, explanation in zip(differences, explanations, strict=True):
        found[number] = found[number].model_copy(update={"explanation": explanation})
    return found, affected


def evidence_of(
    change: Change, names: Names, relation: str = "", consequence_of: int | None = None
) -> Evidence:
    """Convert a change to a row of evidence in the report.

    relation: name of the relation that connects the change to the finding's leading change; consequence_of:
    index of the row that the change follows from, None if it is no consequence.
    """
    what = pattern_words(names.patterns[change.pattern], names) if change.pattern != NO_PATTERN else ""
    what = change.segment.text if change.segment is not None else what
    return Evidence(
        kind=change.kind,
        site=site_of(change.site, names),
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
        noise_p=change.noise_p,
        contribution_us=change.contribution_ns / 1e3,
        relation=relation,
        consequence_of=consequence_of,
    )


def site_of(site: int, names: Names) -> Site:
    """Convert a call site to the model of the report. site: index of the call site."""
    name, caller = names.operation(site), names.caller(site)
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
    limits: ReportLimits,
    claim_ns: float,
) -> Finding:
    lead, names = cause.lead, run.profile.names
    requests = [round(run.profile.responded("n", of)) for of in (run.roles.reference, run.roles.problem)]
    counts = _counts(at)
    affected = (
        [sum(both[of] for (_, hit), both in counts.items() if hit) for of in (REFERENCE, PROBLEM)]
        if run.profiled.groups
        else affected_by_statistics(run.profile, run.roles, cause.alike)
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
    site = site_of(lead.site, names).model_copy(
        update={"callers": max(len(callers), 1), "depth": run.context.order.depth[cause.operation]}
    )
    members = _members(run, counts)
    suspect = cause.suspect or (cause.component if cause.component != site.component else "")
    return Finding(
        rank=rank,
        kind=lead.kind,
        site=site,
        title=finding_title(cause, names, run.context.hosts.host_of),
        suspect=suspect,
        unit=lead.unit,
        before=lead.before,
        after=lead.after,
        change=_interval(lead),
        share_of_change=None if share is None else _share_interval(share, lead),
        share_estimate=share,
        contribution_us=claim_ns / 1e3,
        is_better=is_better(cause, claim_ns - longer_ns(cause), names),
        affected0=affected[0],
        affected1=affected[1],
        share0=affected[0] / max(requests[0], 1),
        share1=affected[1] / max(requests[1], 1),
        p=lead.p,
        q=min(change.q for change in cause.changes),
        evidence=tuple(evidence),
        evidence_total=len(evidence),
        chain=tuple(_chain(ordered, cause, names)),
        factors=factors_of(run, lead),
        examples=tuple(_examples(run, at, drawn=rank <= limits.drawn)),
        members=tuple(members[: limits.members]),
        members_total=len(members),
        histogram=histogram_of(at, lead, names, limits),
        account=step_account(run, counts, cause),
        explanation=None,
        first_window_ns=_first_window(run, at, lead),
        when=when_of(run.population, at)
        if run.profiled.groups
        else when_by_statistics(run.profile, run.roles, lead),
    )


def _interval(change: Change) -> Interval:
    """Confidence interval of value after minus value before, for the report; limited to [-1, 1] for
    shares."""
    most = 1.0 if change.unit == "share" else np.inf
    return Interval(low=max(change.low, -most), high=min(change.high, most))


def _share_interval(share: float, lead: Change) -> Interval:
    """Confidence interval of a finding's share of the change of the mean, in [0, 1], with the relative width
    of the leading change's interval."""
    effect = abs(lead.after - lead.before)
    spread = abs(lead.high - lead.low) / 2 / effect if effect else 1.0
    return Interval(low=max(share * (1 - min(spread, 1.0)), 0.0), high=min(share * (1 + spread), 1.0))


def _chain(changes: Sequence[Change], cause: Cause, names: Names) -> list[str]:
    """Titles of a cause's consequences, at most one per call site: failures first, then the largest changes.
    changes: all changes of the cause."""
    seen = {cause.lead.site}
    chain = []
    for change in sorted(cause.follows, key=lambda c: (c.kind not in ERROR_KINDS, -abs(c.after - c.before))):
        if change.site in seen or (change.kind is ChangeKind.LOST_PATH):
            continue
        seen.add(change.site)
        chain.append(title(change, changes, names))
    return chain[:_CHAIN]


def _examples(run: RobustRun, at: Sequence[AtSite], *, drawn: bool) -> list[Example]:
    """Example requests: a reference request with the median response time, and affected requests of the
    problem with the median and with a high (95th percentile) response time.

    The reference request has the same root type as the median problem request if possible, since they are
    shown side by side.
    """
    categories = run.population.categories
    problem = _by_response(run, selected(at, PROBLEM, hit=True) or selected(at, PROBLEM, hit=None))
    reference = _by_response(run, selected(at, REFERENCE, hit=False) or selected(at, REFERENCE, hit=None))
    if len(problem):
        root = categories[_at_quantile(problem, 0.5)[1]].graph.root
        alike = np.array([category.graph.root == root for category in categories])[reference[:, 1]]
        reference = reference[alike] if alike.any() else reference
    examples: list[Example] = []
    for sample, flat, place in (
        (REFERENCE, reference, 0.5),
        (PROBLEM, problem, 0.5),
        (PROBLEM, problem, 0.95),
    ):
        if not len(flat):
            continue
        response, category, row = _at_quantile(flat, place)
        source = categories[category]
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


def _by_response(run: RobustRun, rows: Mapping[int, I8]) -> I8:
    """int64[requests, 3]: (response time in ns, index of the category, index of the row), ascending; at most
    `_MOST_LOOKED_AT` per category, evenly spaced. rows: index of a category -> row indices of its
    requests."""
    looked = {
        category: mine[np.linspace(0, len(mine) - 1, _MOST_LOOKED_AT).astype(np.int64)]
        if len(mine) > _MOST_LOOKED_AT
        else mine
        for category, mine in rows.items()
    }
    none = np.zeros(0, dtype=np.int64)
    columns = (
        np.concatenate([none, *(run.population.categories[n].response_ns[of] for n, of in looked.items())]),
        np.repeat(np.array([*looked], dtype=np.int64), [len(mine) for mine in looked.values()]),
        np.concatenate([none, *looked.values()]),
    )
    return np.stack(columns, axis=1)[np.lexsort(columns[::-1])]


def _at_quantile(flat: I8, place: float) -> tuple[int, int, int]:
    response, category, row = flat[min(int(place * len(flat)), len(flat) - 1)].tolist()
    return response, category, row


def _schedule(run: RobustRun, category: int, row: int) -> TrainSchedule:
    """Drawing of a request's schedule: its steps along a time axis."""
    source = run.population.categories[category]
    sites = next(group.sites for group in run.profiled.groups if group.category == category)
    return train_schedule(
        source.graph,
        sites,
        run.profile.names,
        source.node_ns[:, row].astype(np.float64),
        request_id=source.request_id[row].as_py(),
        hosts=hosts_of(run.population, source, row),
    )


def _members(run: RobustRun, counts: _Counts) -> list[Member]:
    rows = [
        Member(
            category=run.population.categories[category].graph.key,
            root=run.population.categories[category].graph.root,
            requests0=both[0],
            requests1=both[1],
        )
        for (category, hit), both in counts.items()
        if hit and any(both)
    ]
    return sorted(rows, key=lambda row: (-row.requests1, -row.requests0, row.category))


_Counts = Mapping[tuple[int, bool], list[int]]
"""Number of requests: (index of the category, True for requests that show the change) -> [in the reference,
in the problem]."""


def _counts(at: Sequence[AtSite]) -> _Counts:
    """Count requests by category and period, and by whether they show the change."""
    counts: dict[tuple[int, bool], list[int]] = {}
    for found in at:
        cells = np.bincount(found.hit * 2 + found.sample, minlength=4).reshape(2, 2).tolist()
        for hit, more in zip((False, True), cells, strict=True):
            both = counts.setdefault((found.category, hit), [0, 0])
            for sample in (REFERENCE, PROBLEM):
                both[sample] += more[sample]
    return counts


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


def difference_of(run: RobustRun, at: Sequence[AtSite], lead: Change) -> Difference | None:
    """Groups of requests to compare in order to explain a finding: affected requests, and others that touch
    the same site. None without requests, or for an attribute segment, which is an explanation itself."""
    settings, reached = run.settings, selected(at, PROBLEM, hit=None)
    before = selected(at, REFERENCE, hit=None)
    if not reached or not before or lead.segment is not None:  # a segment explains itself
        return None
    hit = selected(at, PROBLEM, hit=lead.ups) or reached
    spared = selected(at, PROBLEM, hit=not lead.ups)
    usual = selected(at, REFERENCE, hit=lead.ups)
    place = run.profile.names.operation(lead.site)
    where = f"{place.component}/{place.point}"
    return difference(
        run.population,
        Selection(hit),
        Selection(spared) if spared else None,
        Selection(before),
        usual=Selection(usual) if usual else None,
        words=(
            f"affected requests at {where}",
            f"other requests at {where} in the problem",
            f"requests at {where} in the reference",
        ),
        exclude=(*settings.exclude, *(settings.failure_attributes if lead.kind in ERROR_KINDS else ())),
    )


def factors_of(run: RobustRun, lead: Change) -> tuple[Factor, ...]:
    """Attribute values to which a change is limited, of its attribute segment or instance, each with the
    change elsewhere; empty if the change is not limited."""
    if (segment := lead.segment) is not None:
        return tuple(
            Factor(
                attribute=attribute,
                value=value,
                requests1=lead.n1,
                effect_here=lead.after - lead.before,
                effect_elsewhere=segment.elsewhere,
                unit=lead.unit,
                p=lead.q,
            )
            for attribute, value in segment.where
        )
    on = lead.instance
    if on is None:
        return ()
    elsewhere = on.siblings if lead.unit == "share" else lead.before * float(np.expm1(on.siblings))
    return (
        Factor(
            attribute=f"{on.attribute} of {run.profile.names.operation(lead.site).component}",
            value=on.value,
            requests1=lead.n1,
            effect_here=lead.after - lead.before,
            effect_elsewhere=elsewhere,
            unit=lead.unit,
            p=lead.q,
        ),
    )


_STEPS = 200
"""Maximum number of steps drawn for a request; the drawing states how many are left out."""


def histogram_of(at: Sequence[AtSite], lead: Change, names: Names, limits: ReportLimits) -> Histogram | None:
    """Histogram of requests by mean own time at the site, µs, before and after; None if all own times are
    0."""
    before, after = own_times_of(at, REFERENCE), own_times_of(at, PROBLEM)
    if not before.any() and not after.any():
        return None
    name = names.operation(lead.site)
    return log_histogram(f"{name.component}/{name.point}", before, after, limits.bins)


def step_account(run: RobustRun, counts: _Counts, cause: Cause) -> StepAccount | None:
    """Comparison of the steps of two paths: for a path change, the new path and the one that it replaced;
    otherwise the path with most affected requests, before and after. None without requests."""
    if not counts:
        return None
    categories = run.population.categories
    if cause.lead.kind in PATH_KINDS:
        after = max(counts, key=lambda key: (counts[key][PROBLEM] * (key[1] == cause.lead.ups), -key[0]))
        before = max(counts, key=lambda key: (counts[key][REFERENCE] * (key[1] != cause.lead.ups), -key[0]))
        if counts[after][PROBLEM] and counts[before][REFERENCE] and after[0] != before[0]:
            return structural_account(categories[after[0]], categories[before[0]], _STEPS)
    merged: dict[int, list[int]] = {}
    affected: dict[int, int] = {}
    hit_in = PROBLEM if cause.lead.ups or cause.lead.kind in TIME_KINDS else REFERENCE
    for (category, hit), both in counts.items():
        mine = merged.setdefault(category, [0, 0])
        mine[REFERENCE] += both[REFERENCE]
        mine[PROBLEM] += both[PROBLEM]
        affected[category] = affected.get(category, 0) + hit * both[hit_in]
    shared = [category for category, both in merged.items() if min(both)]
    if not shared:
        return None
    best = max(shared, key=lambda category: (affected[category], min(merged[category]), -category))
    busiest = categories[best]
    changed = np.zeros(len(busiest.graph.edges), dtype=np.bool_)
    sites = {change.site for change in cause.changes}
    for group in run.profiled.groups:
        if group.category == best:
            changed |= np.isin(group.sites.site[group.sites.owner], list(sites))
    return timing_account(busiest, attribute(busiest), changed, _STEPS)


def when_of(population: Population, at: Sequence[AtSite]) -> When | None:
    """Times at which a change began and ended within the problem, from the start times of the requests at the
    site and which of them show the change; None if unknown.

    If no request of the reference touches the site (or the instance), all requests of the same root types are
    counted.
    """
    hits = [found.hit[(found.sample == REFERENCE) & found.inside] for found in at]
    parts = [
        (population.categories[found.category].start_ns[found.rows[mine]], found.hit[mine])
        for found in at
        for mine in [(found.sample == PROBLEM) & found.inside]
    ]
    if not parts:
        return None
    usual = np.concatenate(hits)
    if not len(usual):
        parts += [*_others(population, at), *_elsewhere(population, at)]
    start_ns, hit = (np.concatenate(column) for column in zip(*parts, strict=True))
    return when_requests(start_ns, hit, float(usual.mean()) if len(usual) else 0.0)


def _elsewhere(population: Population, at: Sequence[AtSite]) -> Iterator[tuple[I8, B1]]:
    """Yield (int64[requests] start times, ns; bool[requests] all False) of the problem's requests that touch
    the site, but not on the change's instance."""
    for found in at:
        rows = found.rows[(found.sample == PROBLEM) & ~found.inside]
        yield population.categories[found.category].start_ns[rows], np.zeros(len(rows), dtype=np.bool_)


def _others(population: Population, at: Sequence[AtSite]) -> Iterator[tuple[I8, B1]]:
    """Yield (int64[requests] start times, ns; bool[requests] all False) of the problem's requests of the same
    root types that do not touch the site."""
    touching: dict[int, list[I8]] = {}
    for found in at:  # a category may have several groups
        touching.setdefault(found.category, []).append(found.rows)
    roots = {population.categories[number].graph.root for number in touching}
    for number, category in enumerate(population.categories):
        if category.graph.root in roots:
            own = np.arange(category.n_requests)[category.rows(PROBLEM)]
            rows = np.setdiff1d(own, np.concatenate(touching.get(number, [own[:0]])))
            yield category.start_ns[rows], np.zeros(len(rows), dtype=np.bool_)


def finding_tables(findings: Sequence[Finding], accounts: Iterable[Account]) -> dict[str, pa.Table]:
    """Tables `findings`, `evidence` and `account` with all rows; only their display on a page is limited.

    Findings are in order of rank, evidence in the order of each finding. In `account`, rows of call sites
    come before the root types' parts of the mix, for each measure.
    """
    tests = [
        EvidenceRow(finding.rank, place, evidence)
        for finding in findings
        for place, evidence in enumerate(finding.evidence, 1)
    ]
    parts: list[AccountedRow] = []
    for account in accounts:
        parts += [AccountedRow.of_site(account.measure, row) for row in account.rows]
        parts += [AccountedRow.of_mix(account.measure, row) for row in account.mixes]
    return {
        "findings": arrow_table(FINDINGS, findings),
        "evidence": arrow_table(EVIDENCE, tests),
        "account": arrow_table(ACCOUNT, parts),
    }
