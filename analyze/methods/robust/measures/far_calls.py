"""Find the few calls that take far longer than any baseline call, e.g. a retry after 1 s in 1 % of reads.

A rank test is too weak for them: the five largest values lie in one of two periods by chance once in 32
times. Their distance from the baseline is stronger evidence. Beyond the largest baseline time the tail is
extrapolated by Pareto's law of index 1, heavier than any tail with a finite mean: a time ten times as long is
ten times as rare. A rare separate mode (e.g. a checkpoint that sometimes holds a lock) does not belong to
that tail. So several such calls are required, in different time blocks, also unlikely by rank, and with much
of the response time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import pdtrc

from analyze.methods.robust.settings import RobustSettings
from analyze.methods.robust.view import VisitSums
from analyze.stats.histograms import N_BINS, Histograms, bin_of, value_of
from analyze.stats.proportions import fisher
from analyze.stats.sums import totals
from schemas.arrays import B1, F8, I8


@dataclass(frozen=True, slots=True)
class FarCalls:
    """Calls of the problem that take far longer than all baseline calls; arrays are [sites]."""

    threshold: I8
    """int64: highest histogram bin (`bin_of`, ns) of own times that are not far slower; far slower calls lie
    above."""
    n: F8
    """float64: number of requests in the problem with an own time above the threshold."""
    p: F8
    """float64: probability of at least as many far slower calls, at the site or in a set of sites that
    contains it, if the baseline's tail continues; 1 without far slower calls."""
    passes: B1
    excess_ns: F8
    """float64: time above the threshold, ns, averaged over all calls of the site in the problem."""


def far_calls(
    values: Histograms,
    by_block: Callable[[B1], Histograms],
    alike: Sequence[I8],
    visited: VisitSums,
    settings: RobustSettings,
) -> FarCalls:
    """Find calls of the problem that are far slower than all baseline calls. O(rows).

    Each site has its own threshold. Sites are tested together in sets, since the cause is the same whoever
    makes the slow call, or whatever follows the slow step; numbers are summed over a set.

    values: own times scaled by call pattern, by site and period (column 1: problem, other columns: baseline).
    by_block: function from bool[sites] to these sites' times in the problem, by time block. alike: partitions
    of the sites into sets, each int64[sites] with the number of the site's set. visited: sums over the
    problem's requests.
    """
    n_sites = len(alike[0])
    ordinary = values.column != 1
    n0, n1 = (totals(values.place[period], values.n[period], n_sites) for period in (ordinary, ~ordinary))
    known = n0 >= settings.min_requests
    largest = np.zeros(n_sites, dtype=np.int64)
    np.maximum.at(largest, values.place[ordinary], values.bin[ordinary])
    # A duration that is negligible beside the response is no basis for "far".
    least_ns = np.maximum(value_of(largest + 1), settings.time_share * visited.mean_response_ns)
    threshold = bin_of(settings.far_times * least_ns)
    far = values.where(~ordinary & (values.bin > threshold[values.place]) & known[values.place])
    n = totals(far.place, far.n, n_sites)
    late_ns = value_of(far.bin + 0.5) - value_of(threshold[far.place] + 1)
    excess_ns = np.where(n > 0, totals(far.place, far.n * late_ns, n_sites) / np.maximum(n1, 1e-300), 0.0)
    nearest = np.full(n_sites, N_BINS)
    np.minimum.at(nearest, far.place, far.bin)
    # If k calls are far, `nearest` is the k-th largest.
    beyond = np.minimum(least_ns / value_of(nearest), 1 / settings.far_times)
    blocks = by_block(n > 0)
    blocks = blocks.where(blocks.bin > threshold[blocks.place])
    seen = _Seen(blocks, n, np.where(known, n0, 0.0), np.where(known, n1, 0.0), beyond, excess_ns)
    tested = [_tested(seen, sets, visited, settings) for sets in alike]
    return FarCalls(
        threshold,
        n,
        np.minimum(1.0, len(alike) * np.minimum.reduce([p for p, _ in tested])),
        np.logical_or.reduce([passes for _, passes in tested]) & (n > 0),
        excess_ns,
    )


@dataclass(frozen=True, slots=True)
class _Seen:
    """Far slower calls by site; arrays are float64[sites], 0 for sites with too few baseline requests."""

    blocks: Histograms
    """Own times of the far slower calls, by site and time block of the problem."""
    n: F8
    n0: F8
    n1: F8
    beyond: F8
    """Probability that a call slower than all baseline calls is as slow as the nearest far slower call."""
    excess_ns: F8


def _tested(seen: _Seen, sets: I8, visited: VisitSums, settings: RobustSettings) -> tuple[F8, B1]:
    """Test each set of sites for more far slower calls than expected: (float64[sites] p of the site's set,
    bool[sites] True if the set also meets the bounds in `settings`).

    sets: int64[sites] number of the set that each site belongs to.
    """
    found, sets = np.unique(sets, return_inverse=True)
    n_sets = len(found)
    expected = totals(sets, seen.n1 * seen.beyond / (seen.n0 + 1), n_sets)
    count, before, after = (
        np.rint(totals(sets, values, n_sets)).astype(np.int64) for values in (seen.n, seen.n0, seen.n1)
    )
    p = np.where(count > 0, pdtrc(np.maximum(count - 1, 0), expected), 1.0)
    times = np.unique(np.stack([sets[seen.blocks.place], seen.blocks.column]), axis=1)[0]
    passes = (before >= settings.far_known) & (np.bincount(times, minlength=n_sets) >= settings.far_blocks)
    passes &= fisher(np.zeros_like(count), before, count, after).p_more <= settings.far_rank_p
    excess_ns = totals(sets, visited.w * seen.excess_ns * visited.calls_a_visit, n_sets)
    whole_ns = totals(sets, visited.w * (seen.n > 0) * visited.mean_response_ns, n_sets)
    passes &= excess_ns > settings.far_time * whole_ns
    return p[sets], passes[sets]
