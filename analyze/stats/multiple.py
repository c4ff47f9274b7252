"""Many tests at once: false discovery rate, flat and in a tree, and Simes' p of a group (ALGORITHMS B.6).

NaN is a test that was not run: it is not counted and never rejected.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

F8 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int64]
B1 = npt.NDArray[np.bool_]


def q_values(p: F8) -> F8:
    """Benjamini-Hochberg adjusted p, [tests]: a test is rejected at level q iff its value is <= q."""
    q = np.full(len(p), np.nan)
    run = np.flatnonzero(~np.isnan(p))
    if len(run) == 0:
        return q
    order = run[np.argsort(p[run], kind="stable")]
    scaled = p[order] * len(run) / np.arange(1, len(run) + 1)
    q[order] = np.minimum(1.0, np.minimum.accumulate(scaled[::-1])[::-1])
    return q


def rejected(p: F8, level: float) -> B1:
    """Benjamini-Hochberg at `level`, [tests]."""
    q = q_values(p)
    return ~np.isnan(q) & (q <= level)


def simes(p: F8, group: npt.NDArray[np.integer], n_groups: int) -> F8:
    """Simes' p of each group, min_k m·p_(k)/k; NaN for a group without a test. p, group: [tests]."""
    run = np.flatnonzero(~np.isnan(p))
    order = run[np.lexsort((p[run], group[run]))]
    g = group[order]
    size = np.bincount(g, minlength=n_groups)
    rank = np.arange(1, len(g) + 1) - np.searchsorted(g, g, side="left")
    result = np.full(n_groups, np.inf)
    np.minimum.at(result, g, p[order] * size[g] / rank)
    return np.where(size > 0, np.minimum(result, 1.0), np.nan)


def tree_rejected(p: F8, parents: Sequence[I8], level: float) -> tuple[B1, ...]:
    """Selective Benjamini-Hochberg down a tree: what is rejected on each level, leaves first.

    p: [leaves]. parents[0]: [leaves] node of the level above (site of a shape); parents[1]: [nodes of that
    level] node above it (root of a site); and so on. A node's p is Simes' of its children. The top level is
    tested by BH at `level`; the children of a selected node at its own level times the selected share of
    its siblings (Benjamini and Bogomolov 2014), so the expected share of false children, averaged over the
    selected families, stays below `level` on each level. Without parents it is plain BH.
    """
    ps = [p]
    for up in parents:
        n_above = int(up.max()) + 1 if len(up) else 0
        ps.append(simes(ps[-1], up, n_above))
    chosen = [rejected(ps[-1], level)]
    levels = np.full(len(ps[-1]), _selected_level(ps[-1], chosen[-1], level))
    for depth in range(len(parents) - 1, -1, -1):
        up, here = parents[depth], ps[depth]
        mine = np.zeros(len(here), np.bool_)
        below = np.zeros(len(here))
        order = np.argsort(up, kind="stable")
        bounds = np.searchsorted(up[order], np.arange(len(ps[depth + 1]) + 1))
        for node in np.flatnonzero(chosen[-1]).tolist():
            family = order[bounds[node] : bounds[node + 1]]
            mine[family] = rejected(here[family], levels[node])
            below[family] = _selected_level(here[family], mine[family], levels[node])
        chosen.append(mine)
        levels = below
    return tuple(reversed(chosen))


def _selected_level(p: F8, selected: B1, level: float) -> float:
    """The level at which the children of the selected of this family are tested."""
    return level * float(selected.sum()) / max(1, int((~np.isnan(p)).sum()))
