"""Find the requests that show a change, count them from stored statistics, and list them in a report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from analyze.methods.robust.changes import NO_PATTERN, Change
from analyze.methods.robust.roles import Roles
from analyze.population import Population
from analyze.profile.call_sites import GraphSites, RequestGroup
from analyze.profile.profile import OWN_TIME, Profile
from analyze.profile.times import own_time_ns
from analyze.report.when import when_slots
from analyze.stats.histograms import bin_of, value_of
from analyze.stats.sums import totals
from schemas.arrays import B1, F8, I4, I8
from schemas.report.columns import arrow_columns, arrow_table
from schemas.report.findings import ERROR_KINDS, PATH_KINDS, TIME_KINDS, When
from schemas.report.report_tables import REQUESTS
from schemas.windows import NS_PER_US

MOST_LISTED: Final = 50_000
"""Maximum number of requests listed for a finding; if more are affected, an evenly spaced selection is
listed."""
_ROLE: Final = "affected"


def showing(
    population: Population, groups: Sequence[RequestGroup], roles: Roles, changes: Iterable[Change]
) -> B1:
    """bool[requests of all groups, concatenated]: True for requests that show one of the changes, in the
    problem if the change's value rose, in the reference if it fell.

    A request shows a change of paths if it has the call pattern, a change of errors if a call fails at the
    site, a change of an attribute segment if it has the segment's outcome, and any other change if it touches
    the site.
    """
    found = [np.zeros(len(group.rows), dtype=np.bool_) for group in groups]
    for change in changes:
        period = roles.problem if change.ups else roles.reference
        by_rows = change.segment is not None or change.kind in ERROR_KINDS
        at = range(len(groups)) if by_rows else touching(groups, [change.site], change.pattern)
        for number in at:
            group, marked, shows = groups[number], found[number], None
            if change.segment is not None:
                shows = change.segment.hits_of(group.category)
            elif change.kind in ERROR_KINDS:
                shows = failing_rows(population, group, change.site)
            if shows is not None and not len(shows):
                continue
            there = period[group.slot] & on_instance(population, group, change, group.rows)
            marked |= there if shows is None else there & np.isin(group.rows, shows)
    return np.concatenate([np.zeros(0, dtype=np.bool_), *found])


def on_instance(population: Population, group: RequestGroup, change: Change, rows: I8) -> B1:
    """bool[rows]: True for requests in the change's attribute segment or, for a change without segment, with
    a call at its site on its instance; all True if the change is limited to neither."""
    if change.segment is not None:
        return np.isin(rows, change.segment.rows_of(group.category))
    host = population.categories[group.category].host
    if change.instance is None or host is None:
        return np.ones(len(rows), dtype=np.bool_)
    start = group.sites.start[group.sites.site == change.site]
    return np.asarray(np.isin(host[np.ix_(start, rows)], change.instance.hosts).any(axis=0))


def touching(groups: Sequence[RequestGroup], sites: Sequence[int], pattern: int = NO_PATTERN) -> list[int]:
    """Ascending indices of the groups whose graph contains one of the call sites; if `pattern` is given, only
    of those in which a call there has that pattern."""

    def column(name: str) -> tuple[I8, I8]:
        """(a column of `GraphSites` of all groups; index of the group of each element)."""
        parts = [getattr(group.sites, name) for group in groups]
        group = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        return np.concatenate([np.zeros(0, np.int64), *parts]), group

    site, patterned = column("pattern_site")
    there = np.isin(site, sites)
    if pattern != NO_PATTERN:
        found = np.unique(patterned[there & (column("pattern_of")[0] == pattern)])
    else:
        site, group = column("site")
        found = np.union1d(patterned[there], group[np.isin(site, sites)])
    return [int(number) for number in found]


def failing_rows(population: Population, group: RequestGroup, site: int) -> I8:
    """Ascending row indices, in the group's category, of requests with a failing call at the site."""
    failures = population.categories[group.category].failures
    if not len(failures.row):
        return np.zeros(0, dtype=np.int64)
    found: I8 = np.unique(failures.row[group.sites.site_at(failures.position) == site]).astype(np.int64)
    return found


@dataclass(frozen=True, slots=True)
class AtSite:
    """Requests of one category that touch the call site of a change; arrays are [rows]."""

    category: int
    """Index of the category (call graph) in the population."""
    rows: I8
    """int64[rows]: ascending indices of the requests in the category, both samples together."""
    sample: npt.NDArray[np.uint8]
    """uint8[rows]: sample of each request, REFERENCE or PROBLEM."""
    value_us: F8
    """float64[rows]: mean own time of the request's calls at the change's site, µs; 0 without calls. For the
    same change on several hosts, the mean over its sites."""
    hit: B1
    """bool[rows]: True if the request shows the change: its call pattern, a failing call, or an own time
    beyond the middle of before and after (very slow calls: beyond their threshold)."""
    inside: B1
    """bool[rows]: True if the request used the change's instance or belongs to its attribute segment; all
    True if the change is limited to neither."""


def requests_at(
    population: Population, groups: Sequence[RequestGroup], changes: Sequence[Change]
) -> list[AtSite]:
    """Requests that touch the site of at least one of the `changes`, one `AtSite` per group. O(requests found
    · changes).

    changes: one change, or the same change on several hosts.
    """
    here_of: dict[int, list[Change]] = {}
    for change in changes:
        for number in touching(groups, change.sites):
            here_of.setdefault(number, []).append(change)
    found = []
    for number, here in sorted(here_of.items()):
        group, sites = groups[number], groups[number].sites
        category = population.categories[group.category]
        rows = np.sort(group.rows)
        values = [_own_us(category.node_ns[:, rows], sites, change.sites) for change in here]
        hit, inside = np.zeros((2, len(rows)), dtype=np.bool_)
        for change, value in zip(here, values, strict=True):
            mine = on_instance(population, group, change, rows)
            hit |= _hits(population, group, change, rows, value) & mine
            inside |= mine
        mean = np.mean(values, axis=0)
        found.append(AtSite(group.category, rows, category.sample[rows], mean, hit, inside))
    return found


def _own_us(times: I8, sites: GraphSites, of: Sequence[int]) -> F8:
    """float64[requests]: mean own time of a request's calls at the sites `of`, µs; 0 without calls. times:
    int64[nodes, requests], ns."""
    units = np.flatnonzero(np.isin(sites.site, of))
    if not len(units):
        return np.zeros(times.shape[1])
    mean: F8 = own_time_ns(times, sites, units).mean(axis=0) / 1e3
    return mean


def _hits(population: Population, group: RequestGroup, change: Change, rows: I8, value: F8) -> B1:
    if change.segment is not None:
        return np.isin(rows, change.segment.hits_of(group.category))
    if change.kind in PATH_KINDS:
        return np.full(len(rows), bool(touching([group], [change.site], change.pattern)))
    if change.kind in ERROR_KINDS:
        return np.isin(rows, failing_rows(population, group, change.site))
    if change.kind in TIME_KINDS and change.unit == "us":
        return np.asarray(value > change.middle if change.ups else value < change.middle)
    if change.kind in TIME_KINDS:
        return np.asarray(value >= change.threshold_us)
    return np.ones(len(rows), dtype=np.bool_)


def own_times_of(found: Sequence[AtSite], sample: int) -> F8:
    """float64[requests]: own time at the change's site, µs, of each request of a sample (REFERENCE or
    PROBLEM) that is `AtSite.inside`."""
    parts = [at.value_us[(at.sample == sample) & at.inside] for at in found]
    return np.concatenate(parts) if parts else np.zeros(0)


def selected(found: Sequence[AtSite], sample: int, *, hit: bool | None) -> dict[int, I8]:
    """Index of a category -> ascending row indices of the sample's requests whose `AtSite.hit` equals `hit`;
    None selects all requests."""
    chosen: dict[int, list[I8]] = {}
    for at in found:
        keep = at.sample == sample
        if hit is not None:
            keep = keep & (at.hit == hit)
        if keep.any():
            chosen.setdefault(at.category, []).append(at.rows[keep])
    return {
        category: rows[0] if len(rows) == 1 else np.sort(np.concatenate(rows))
        for category, rows in chosen.items()
    }


def affected_by_statistics(profile: Profile, roles: Roles, changes: Sequence[Change]) -> tuple[int, int]:
    """Number of requests that show a change, from a profile: (reference, problem); (0, 0) if `changes` is
    empty.

    A request shows the change if it has the call pattern, a failing call, or an own time beyond the geometric
    mean of before and after (very slow calls: beyond their threshold); times are rounded to bins of 2.2 %.
    For several changes (one change on several hosts) the largest number is returned, since the profile does
    not record which requests show more than one.
    """
    return max((_affected(profile, roles, change) for change in changes), key=sum, default=(0, 0))


def when_by_statistics(profile: Profile, roles: Roles, change: Change) -> When | None:
    """Interval of the problem in which a change shows, from the share of requests per time slot that show it;
    None if no interval stands out.

    The denominator is the number of requests that touch the change's site or, if none touch it in the
    reference, of all requests.
    """
    hits = _hits_by_slot(profile, change)
    requests = _by_slot(profile, profile.visits.filter(pc.equal(profile.visits["site"], change.site)), "n")
    usual = hits[roles.reference].sum() / max(requests[roles.reference].sum(), 1.0)
    if not requests[roles.reference].any():
        requests = _by_slot(profile, profile.responses, "n")
    starts, ends = np.array([(slot.start_ns, slot.end_ns) for slot in profile.slots], dtype=np.int64).T
    slots = np.flatnonzero(roles.problem & (requests > 0))
    slots = slots[np.argsort(starts[slots], kind="stable")]
    hit = np.minimum(hits, requests)[slots]
    return when_slots(starts[slots], ends[slots], hit, requests[slots], float(usual))


def _affected(profile: Profile, roles: Roles, change: Change) -> tuple[int, int]:
    hits = _hits_by_slot(profile, change)
    return round(float(hits[roles.reference].sum())), round(float(hits[roles.problem].sum()))


def _hits_by_slot(profile: Profile, change: Change) -> F8:
    if change.kind in PATH_KINDS:
        table, column = profile.patterns, "n"
        mine = _equal(table["site"], change.site) & _equal(table["pattern"], change.pattern)
    elif change.kind in TIME_KINDS:
        table, column = profile.votes_at(change.site), "n"
        mine = _equal(table["measure"], OWN_TIME) & _bins_beyond(table, change)
    else:
        table, column = profile.visits, "failing_n" if change.kind in ERROR_KINDS else "n"
        mine = _equal(table["site"], change.site)
    return _by_slot(profile, table.filter(pa.array(mine)), column)


def _by_slot(profile: Profile, table: pa.Table, column: str) -> F8:
    return totals(table["slot"].to_numpy(), table[column].to_numpy(), len(profile.slots))


def _bins_beyond(table: pa.Table, change: Change) -> B1:
    bins = table["bin"].to_numpy()
    if change.unit != "us":
        # The threshold is the lower end of a bin, too: equal except for rounding.
        return np.asarray(value_of(bins) > change.threshold_us * 1e3 * (1 - 1e-9))
    middle = bin_of(np.array([change.middle * 1e3]))[0]
    return np.asarray(bins > middle if change.ups else bins < middle)


def _equal(column: pa.ChunkedArray, value: int) -> B1:
    return np.asarray(column.to_numpy() == value)


@dataclass(frozen=True, slots=True)
class AffectedRequests:
    """Affected requests to list for one finding, sorted by (category, row); arrays are [listed]."""

    category: I4
    """int32[listed]: index of the request's category in the population."""
    row: I8
    """int64[listed]: index of the request in its category."""
    total: int
    """Number of affected requests, also those that are not listed."""

    def by_category(self) -> Iterator[tuple[int, I8]]:
        """Yield (index of a category, indices of its listed requests) for each category."""
        numbers, first = np.unique(self.category, return_index=True)
        yield from zip(numbers.tolist(), np.split(self.row, first[1:]), strict=False)


def affected_rows(at: Sequence[AtSite], most: int = MOST_LISTED) -> AffectedRequests:
    """Requests of both periods that show the change (`AtSite.hit`); if there are more than `most`, an evenly
    spaced selection."""
    category = np.concatenate(
        [np.zeros(0, np.int32), *(np.full(int(f.hit.sum()), f.category, np.int32) for f in at)]
    )
    row = np.concatenate([np.zeros(0, np.int64), *(found.rows[found.hit] for found in at)])
    order = np.lexsort((row, category))
    total = len(order)
    if total > most:
        order = order[np.linspace(0, total - 1, most).astype(np.int64)]
    return AffectedRequests(category[order], row[order], total)


def requests_table(population: Population, findings: Sequence[AffectedRequests]) -> pa.Table:
    """Build the table REQUESTS of the affected requests of all findings, numbered by rank from 1; no rows if
    none are listed."""
    parts = [
        _rows(population, rank, number, rows)
        for rank, found in enumerate(findings, 1)
        for number, rows in found.by_category()
    ]
    return pa.concat_tables(parts) if parts else arrow_table(REQUESTS, ())


def cut_notes(findings: Sequence[AffectedRequests]) -> tuple[str, ...]:
    """Note that only a part of the affected requests is listed; an empty tuple if all are listed."""
    cut = [str(rank) for rank, found in enumerate(findings, 1) if len(found.row) < found.total]
    if not cut:
        return ()
    noun = "finding" if len(cut) == 1 else "findings"
    return (f"Of {noun} {', '.join(cut)} {MOST_LISTED:,} affected requests are listed, evenly spaced.",)


def _rows(population: Population, rank: int, number: int, rows: I8) -> pa.Table:
    category, n = population.categories[number], len(rows)
    names = pa.array([sample.name for sample in population.samples], pa.string())
    return arrow_columns(
        REQUESTS,
        rank=np.full(n, rank),
        role=pa.repeat(_ROLE, n),
        category=pa.repeat(category.graph.key, n),
        sample=names.take(pa.array(category.sample[rows])),
        request_id=category.request_id.take(pa.array(rows)),
        kind=pa.repeat(category.graph.kind, n),
        response_us=category.response_ns[rows] / NS_PER_US,
    )
