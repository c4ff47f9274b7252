"""Tell when within the problem period a finding began, and whether it is still so at the end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analyze.methods.robust.roles import PROBLEM, REFERENCE
from analyze.methods.robust.site_requests import AtSite
from analyze.population import Population
from analyze.stats.onset import segment_of
from schemas.arrays import I8
from schemas.report.findings import Instant, When


def when_of(population: Population, at: Sequence[AtSite]) -> When | None:
    """Find begin and end from the times of the requests that show it; None: throughout, or not known."""
    hits = [found.hit[(found.sample == REFERENCE) & found.inside] for found in at]
    parts = [
        (population.categories[found.category].start_ns[found.rows[mine]], found.hit[mine])
        for found in at
        for mine in [(found.sample == PROBLEM) & found.inside]
    ]
    if not parts or not sum(len(mine) for mine in hits):
        return None
    start_ns, hit = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(start_ns, kind="stable")
    start_ns, hit = start_ns[order], hit[order]
    found = segment_of(hit, float(np.concatenate(hits).mean()))
    if found is None:
        return None
    goes_on = found.past_high == len(hit)
    if found.from_start and goes_on:
        return None
    began = _instant(start_ns, found.first, found.first_low, found.first_high)
    ended = _instant(start_ns, *(min(k, len(hit) - 1) for k in (found.past, found.past_low, found.past_high)))
    return When(began=None if found.from_start else began, ended=None if goes_on else ended)


def _instant(start_ns: I8, at: int, low: int, high: int) -> Instant:
    """Between two requests the change lies anywhere: the interval begins at the earlier one."""
    first, best, last = (int(start_ns[place]) for place in (max(low - 1, 0), at, high))
    return Instant(at_ns=best, low_ns=first, high_ns=last)
