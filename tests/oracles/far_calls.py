"""Far slower calls, slow and obvious: plain lists of calls, sums of the Poisson law term by term."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class SiteCalls:
    """One site: bins of ordinary calls, (slot, bin) of the problem's, and what its visits take."""

    ordinary: list[int]
    problem: list[tuple[int, int]]
    response_ns: float
    """Mean of a request of the problem that touches the site."""


def value(place: float) -> float:
    """Of a place on the axis of bins."""
    return float(2.0 ** (place / 32))


def far_of(site: SiteCalls) -> list[tuple[int, int]]:
    """Calls of the problem over ten times the largest ordinary one, or of what is noticed at all."""
    if len(site.ordinary) < 4:
        return []
    least = max(value(max(site.ordinary) + 1), 0.01 * site.response_ns)
    bin_of_limit = int(math.log2(max(10 * least, 1)) * 32)
    return [(slot, place) for slot, place in site.problem if place > bin_of_limit]


def together(sites: list[SiteCalls]) -> tuple[float, bool]:
    """(p, whether it counts) of sites that are alike."""
    known = [site for site in sites if len(site.ordinary) >= 4]
    far = [call for site in known for call in far_of(site)]
    n0 = sum(len(site.ordinary) for site in known)
    n1 = sum(len(site.problem) for site in known)
    expected = 0.0
    for site in known:
        mine = far_of(site)
        least = max(value(max(site.ordinary) + 1), 0.01 * site.response_ns)
        # Of the nearest one the lower end of its bin; where there is none, what is ten times as long.
        beyond = min(least / value(min(place for _, place in mine)), 0.1) if mine else _none(least)
        expected += len(site.problem) * beyond / (len(site.ordinary) + 1)
    fewer = sum(math.exp(-expected) * expected**k / math.factorial(k) for k in range(len(far)))
    p = 1 - fewer if far else 1.0
    by_rank = math.comb(n1, len(far)) / math.comb(n0 + n1, len(far)) if far else 1.0
    time, whole = 0.0, 0.0
    for site in known:
        if mine := far_of(site):
            least = max(value(max(site.ordinary) + 1), 0.01 * site.response_ns)
            limit = int(math.log2(max(10 * least, 1)) * 32)
            time += sum(value(place + 0.5) - value(limit + 1) for _, place in mine)
            whole += len(site.problem) * site.response_ns
    passes = n0 >= 100 and len({slot for slot, _ in far}) >= 3 and by_rank <= 0.2 and time > 0.2 * whole
    return p, passes


def _none(least: float) -> float:
    return min(least / value(64 * 32), 0.1)
