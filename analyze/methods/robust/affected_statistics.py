"""How many requests a change is about, from statistics: the counts that `site_requests` makes of requests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from analyze.methods.robust.changes import ERROR_KINDS, PATH_KINDS, TIME_KINDS, Change
from analyze.methods.robust.roles import Roles
from analyze.profile.profile import OWN_TIME, Profile
from analyze.stats.histograms import bin_of, value_of
from schemas.arrays import B1


def affected_by_statistics(profile: Profile, roles: Roles, changes: Sequence[Change]) -> tuple[int, int]:
    """Requests of reference and problem with the shape, a failing call, or a mean own time beyond the middle
    of before and after (of a tail: over its threshold). Times are those of bins, 2.2 % wide.

    Of several changes (one on several hosts) that of most requests: which have two of them is not kept. Of
    none none.
    """
    return max((_affected(profile, roles, change) for change in changes), key=sum, default=(0, 0))


def _affected(profile: Profile, roles: Roles, change: Change) -> tuple[int, int]:
    if change.kind in PATH_KINDS:
        table, column = profile.shapes, "n"
        mine = _equal(table["site"], change.site) & _equal(table["shape"], change.shape)
    elif change.kind in TIME_KINDS:
        table, column = profile.votes_at(change.site), "n"
        mine = _equal(table["measure"], OWN_TIME) & _beyond(table, change)
    else:
        table, column = profile.visits, "failing_n" if change.kind in ERROR_KINDS else "n"
        mine = _equal(table["site"], change.site)
    slot, n = table["slot"].to_numpy()[mine], table[column].to_numpy()[mine]
    return round(float(n[roles.reference[slot]].sum())), round(float(n[roles.problem[slot]].sum()))


def _beyond(table: pa.Table, change: Change) -> B1:
    bins = table["bin"].to_numpy()
    if change.unit != "us":
        # A bin's lower end against the same: equal but for rounding.
        return np.asarray(value_of(bins) > change.threshold_us * 1e3 * (1 - 1e-9))
    middle = bin_of(np.array([np.sqrt(max(change.before, 1e-3) * max(change.after, 1e-3)) * 1e3]))[0]
    return np.asarray(bins > middle if change.ups else bins < middle)


def _equal(column: pa.ChunkedArray, value: int) -> B1:
    return np.asarray(column.to_numpy() == value)
