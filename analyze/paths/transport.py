"""Who gave requests to whom: optimal transport from paths that lost to paths that gained (ALGORITHMS C.6).

A linear program (HiGHS); its answer is exact to about 1e-7 only, so margins are repaired afterwards: every
source gives exactly what it lost, every target takes exactly what it gained. What fits nobody goes through
OTHER, the unchanged paths together, which is dearer than any pair.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analyze.paths.path_distance import CandidatePairs
from schemas.arrays import F8, I8

OTHER = -1
OTHER_COST = 1.2
"""More than the dearest pair, so that OTHER takes what is left only."""
_NOTHING = 1e-12
"""Relative amount that is rounding."""


@dataclass(frozen=True, slots=True)
class Flows:
    """[flows], amounts > 0, sorted by (source, target)."""

    source: I8
    target: I8
    """Category, or OTHER."""
    amount: F8


class TransportError(RuntimeError):
    """The linear program has no answer: a bug, as OTHER always is one."""


def transport(supply: F8, demand: F8, pairs: CandidatePairs) -> Flows:
    """Cheapest assignment. supply, demand: [categories] >= 0, what each lost or gained.

    Amounts from a source add up to its supply, amounts to a target to its demand (exactly, but for rounding
    of the last digit). Deterministic. Raises TransportError.
    """
    usable = (supply[pairs.source] > 0) & (demand[pairs.target] > 0)
    source, target, cost = pairs.source[usable], pairs.target[usable], pairs.cost[usable]
    amount = _solved(supply, demand, source, target, cost) if len(source) else np.zeros(0)
    amount = _repaired(supply, demand, source, target, amount)
    left = np.maximum(0.0, supply - np.bincount(source, amount, len(supply)))
    open_ = np.maximum(0.0, demand - np.bincount(target, amount, len(demand)))
    gone = np.flatnonzero(left > _NOTHING * supply)
    come = np.flatnonzero(open_ > _NOTHING * demand)
    kept = amount > 0
    sources = np.concatenate([source[kept], gone, np.full(len(come), OTHER)])
    targets = np.concatenate([target[kept], np.full(len(gone), OTHER), come])
    amounts = np.concatenate([amount[kept], left[gone], open_[come]])
    order = np.lexsort((targets, sources))
    return Flows(sources[order].astype(np.int64), targets[order].astype(np.int64), amounts[order])


def _solved(supply: F8, demand: F8, source: I8, target: I8, cost: F8) -> F8:
    """[pairs] amounts of the linear program, scaled to the largest margin while it is solved."""
    from scipy.optimize import linprog  # a quarter of a second, and only where paths exchanged requests
    from scipy.sparse import coo_array

    givers, row = np.unique(source, return_inverse=True)
    takers, column = np.unique(target, return_inverse=True)
    n, p, m = len(source), len(givers), len(takers)
    scale = max(float(supply[givers].max()), float(demand[takers].max()))
    rows = np.concatenate([row, p + column, np.arange(p), p + np.arange(m)])
    columns = np.concatenate([np.arange(n), np.arange(n), n + np.arange(p), n + p + np.arange(m)])
    equal = coo_array((np.ones(len(rows)), (rows, columns)), shape=(p + m, n + p + m)).tocsr()
    solved = linprog(
        np.concatenate([cost, np.zeros(p), np.full(m, OTHER_COST)]),
        A_eq=equal,
        b_eq=np.concatenate([supply[givers], demand[takers]]) / scale,
        bounds=(0, None),
        method="highs-ds",
    )
    if solved.x is None:
        raise TransportError(f"transport of {n} pairs: {solved.message}")
    amount: F8 = np.asarray(solved.x[:n], np.float64) * scale
    return amount


def _repaired(supply: F8, demand: F8, source: I8, target: I8, amount: F8) -> F8:
    """Amounts >= 0 whose sums nowhere pass supply or demand; OTHER has the rest. Dust is dropped."""
    clipped = np.where(amount > 1e-7 * np.minimum(supply[source], demand[target]), amount, 0.0)
    for place, margin in ((source, supply), (target, demand)):
        total = np.bincount(place, clipped, len(margin))
        over = total > margin
        clipped *= np.where(over, margin / np.where(over, total, 1.0), 1.0)[place]
    # A source and a target that both have a hair left belong together, not to OTHER.
    for k in np.lexsort((target, source, -clipped)).tolist():
        if clipped[k] <= 0:
            break
        left = supply[source[k]] - clipped[source == source[k]].sum()
        open_ = demand[target[k]] - clipped[target == target[k]].sum()
        hair = min(left, open_)
        if 0 < hair <= 1e-5 * clipped[k]:
            clipped[k] += hair
    return clipped
