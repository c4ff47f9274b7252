"""Which categories gained or lost requests of their root: mutations and precursors (ALGORITHMS C.2-C.4)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analyze.paths.path_settings import PathSettings
from analyze.paths.path_table import PathTable
from analyze.stats.counts import CountTests, count_tests
from analyze.stats.multiple import q_values
from schemas.arrays import B1, F8, I8

_LEAST_EXPECTED = 5.0
_LEAST_SEEN = 10.0
"""A category is tested from 5 expected or 10 seen requests on; rarer ones are tested together."""


@dataclass(frozen=True, slots=True)
class ShareTests:
    """[categories] each, and the rare ones of each root together, [roots]."""

    tests: CountTests
    tested: B1
    q: F8
    gained: B1
    """Mutations (C.4): by their own test, or new kinds of a root whose rare paths gained together."""
    lost: B1
    """Precursors; likewise kinds that are gone."""
    rare: CountTests
    rare_q: F8
    rare_changed: B1
    new_kinds: I8
    """Distinct rare categories of each root that only the problem has."""
    cold: bool
    """One window of history: the noise of shares is a guess (C.3)."""


def share_tests(table: PathTable, change: F8, settings: PathSettings) -> ShareTests:
    """Test every category's share of its root's requests in the problem against history.

    change: [categories] share in the problem less share in the reference; only a change that both see counts.
    """
    tests = count_tests(table.history, table.problem, table.root, parts=table.parts)
    here = table.moments.count.sum(axis=0) > 0
    tested = here & ((tests.expected >= _LEAST_EXPECTED) | (tests.seen >= _LEAST_SEEN))
    rare = _together(table, ~tested)
    n = len(tested)
    n_roots = len(table.roots)
    has_rare = np.bincount(table.root[~tested], minlength=n_roots) > 0
    large = has_rare & ((rare.expected >= _LEAST_EXPECTED) | (rare.seen >= _LEAST_SEEN))
    q = q_values(np.concatenate([np.where(tested, tests.p, np.nan), np.where(large, rare.p, np.nan)]))
    changed = (q <= settings.q) & np.concatenate([_clear(tests, settings), _clear(rare, settings)])
    more = tests.seen > tests.expected
    rare_more = (rare.seen > rare.expected)[table.root]
    rare_moved = changed[n:][table.root] & ~tested
    new = ~tested & (table.moments.count[0] == 0) & (table.moments.count[1] > 0)
    gone = ~tested & (table.moments.count[0] > 0) & (table.moments.count[1] == 0)
    return ShareTests(
        tests=tests,
        tested=tested,
        q=q[:n],
        gained=(changed[:n] & more & (change > 0)) | (new & rare_moved & rare_more),
        lost=(changed[:n] & ~more & (change < 0)) | (gone & rare_moved & ~rare_more),
        rare=rare,
        rare_q=q[n:],
        rare_changed=changed[n:],
        new_kinds=np.bincount(table.root[new], minlength=n_roots),
        cold=len(table.history) < 2,
    )


def _clear(tests: CountTests, settings: PathSettings) -> B1:
    """Large enough to be worth a word."""
    off = np.abs(tests.seen - tests.expected)
    return off >= np.maximum(
        settings.min_count, settings.min_relative * np.maximum(tests.seen, tests.expected)
    )


def _together(table: PathTable, rare: B1) -> CountTests:
    """Test of all rare categories of a root as one, [roots]."""
    n_roots = len(table.roots)

    def split(counts: F8) -> F8:
        """[rows, 2·roots]: rare ones of each root, then its others."""
        side = np.where(rare, table.root, table.root + n_roots)
        summed = np.zeros((len(counts), 2 * n_roots))
        for row, mine in enumerate(counts):
            summed[row] = np.bincount(side, mine, 2 * n_roots)
        return summed

    both = count_tests(
        split(table.history),
        split(table.problem),
        np.tile(np.arange(n_roots), 2),
        parts=(split(table.parts[0]), split(table.parts[1])),
    )
    first = slice(0, n_roots)
    return CountTests(
        share0=both.share0[first],
        expected=both.expected[first],
        seen=both.seen[first],
        dispersion=both.dispersion[first],
        spread=both.spread[first],
        p_more=both.p_more[first],
        p_fewer=both.p_fewer[first],
    )
