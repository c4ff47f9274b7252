"""How many requests a change is about, from statistics: the counts that `site_requests` makes of requests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analyze.methods.robust.changes import ERROR_KINDS, PATH_KINDS, TIME_KINDS, Change
from analyze.methods.robust.roles import Roles
from analyze.profile.profile import OWN_TIME, Profile
from analyze.report.when import when_slots
from analyze.stats.histograms import bin_of, value_of
from analyze.stats.sums import totals
from schemas.arrays import B1, F8
from schemas.report.findings import ChangeKind, When


def affected_by_statistics(profile: Profile, roles: Roles, changes: Sequence[Change]) -> tuple[int, int]:
    """Requests of reference and problem with the shape, a failing call, or a mean own time beyond the middle
    of before and after (of a tail: over its threshold). Bins are 2.2 % wide.

    Of several changes (one on several hosts) that of most requests: which have two of them is not kept. Of
    none none.
    """
    return max((_affected(profile, roles, change) for change in changes), key=sum, default=(0, 0))


def when_by_statistics(profile: Profile, roles: Roles, change: Change) -> When | None:
    """Find when within the problem a change is so, slot by slot; of a site that no request of the reference
    touches among all requests."""
    hits = _hits(profile, change)
    mine = profile.visits.filter(pc.equal(profile.visits["site"], change.site))
    requests = _by_slot(profile, mine, "n")
    usual = hits[roles.reference].sum() / max(requests[roles.reference].sum(), 1.0)
    if not requests[roles.reference].any():
        requests = _by_slot(profile, profile.responses, "n")
    starts, ends = np.array([(slot.start_ns, slot.end_ns) for slot in profile.slots], dtype=np.int64).T
    slots = np.flatnonzero(roles.problem & (requests > 0))
    slots = slots[np.argsort(starts[slots], kind="stable")]
    hit = np.minimum(hits, requests)[slots]
    return when_slots(starts[slots], ends[slots], hit, requests[slots], float(usual))


def _affected(profile: Profile, roles: Roles, change: Change) -> tuple[int, int]:
    hits = _hits(profile, change)
    return round(float(hits[roles.reference].sum())), round(float(hits[roles.problem].sum()))


def _hits(profile: Profile, change: Change) -> F8:
    """[slots] requests with what a change is about."""
    if change.kind in PATH_KINDS:
        table, column = profile.shapes, "n"
        mine = _equal(table["site"], change.site) & _equal(table["shape"], change.shape)
    elif change.kind in TIME_KINDS:
        table, column = profile.votes_at(change.site), "n"
        mine = _equal(table["measure"], OWN_TIME) & _beyond(table, change)
    else:
        table, column = profile.visits, "failing_n" if change.kind in ERROR_KINDS else "n"
        mine = _equal(table["site"], change.site)
    return _by_slot(profile, table.filter(pa.array(mine)), column)


def _by_slot(profile: Profile, table: pa.Table, column: str) -> F8:
    return totals(table["slot"].to_numpy(), table[column].to_numpy(), len(profile.slots))


def _beyond(table: pa.Table, change: Change) -> B1:
    bins = table["bin"].to_numpy()
    if change.kind is ChangeKind.TAIL:
        # A bin's lower end against the same: equal but for rounding.
        return np.asarray(value_of(bins) > change.threshold_us * 1e3 * (1 - 1e-9))
    middle = bin_of(np.array([change.middle * 1e3]))[0]
    return np.asarray(bins > middle if change.ups else bins < middle)


def _equal(column: pa.ChunkedArray, value: int) -> B1:
    return np.asarray(column.to_numpy() == value)
