"""What changed about whole paths: the second resolution, beside sites (ALGORITHMS B, C, J.6).

Shares and times of categories are tested, requests that moved are assigned to where they came from, like
moves are one group, and all of it adds up to the change of the mean exactly. Nothing here decides what a
comparison finds: categories are too fine for that (L), they name whole paths.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analyze.paths.decomposition import PathAccount, PathShares, decompose, path_shares
from analyze.paths.path_distance import CandidatePairs, candidate_pairs
from analyze.paths.path_groups import PathGroup, flow_roots, grouped_moves
from analyze.paths.path_settings import PathSettings
from analyze.paths.path_table import PathTable, path_table
from analyze.paths.path_times import TimeTests, time_tests
from analyze.paths.repeats import RepeatChange, repeat_changes
from analyze.paths.share_tests import ShareTests, share_tests
from analyze.paths.transport import OTHER, Flows, transport
from analyze.population import Population
from schemas.arrays import F8

_DRAWN_ROOTS = 5
"""Roots whose assignment is repeated: those with most of the change."""


@dataclass(frozen=True, slots=True)
class PathChanges:
    """Everything found, in indices of the table's categories."""

    table: PathTable
    shares: PathShares
    tests: ShareTests
    times: TimeTests
    account: PathAccount
    groups: tuple[PathGroup, ...]
    """By score."""
    rest_moves: int
    """Moves that were too small to be compared step by step."""
    rest_us: float
    repeats: tuple[RepeatChange, ...]


def path_changes(population: Population, history: Population | None, settings: PathSettings) -> PathChanges:
    """Compare samples 0 and 1 of a population; `history` has samples of ordinary times, refined alike.

    Pure and deterministic. O(requests + moves · steps²/64).
    """
    table = path_table(population, history)
    shares = path_shares(table.weight, table.moments.mean_us, table.root, len(table.roots))
    tests = share_tests(table, shares.change, settings)
    times = time_tests(table, settings)
    lost, gained = np.flatnonzero(tests.lost), np.flatnonzero(tests.gained)
    tokens = {at: table.graphs[at].tokens for at in np.union1d(lost, gained).tolist()}
    pairs = candidate_pairs(tokens, table.root, lost, gained, settings.candidates)
    supply = np.where(tests.lost, -shares.change, 0.0)
    demand = np.where(tests.gained, shares.change, 0.0)
    flows = transport(supply, demand, pairs)
    account = decompose(shares, flows, times.changed)
    groups, rest = grouped_moves(
        table,
        shares,
        flows,
        account,
        _confidence(table, shares, tests, flows, account, pairs, settings),
        settings,
    )
    return PathChanges(
        table=table,
        shares=shares,
        tests=tests,
        times=times,
        account=account,
        groups=groups,
        rest_moves=len(rest),
        rest_us=sum(move.contribution_us for move in rest),
        repeats=tuple(repeat_changes(table, shares, settings)),
    )


def _confidence(
    table: PathTable,
    shares: PathShares,
    tests: ShareTests,
    flows: Flows,
    account: PathAccount,
    pairs: CandidatePairs,
    settings: PathSettings,
) -> F8:
    """[flows] share of draws in which at least half of a flow is there; NaN where nothing was drawn.

    Shares are drawn from the predictive law of their test; the assignment is solved anew for all draws at
    once.
    """
    confidence = np.full(len(flows.amount), np.nan)
    if not settings.draws or len(flows.amount) == 0:
        return confidence
    root = flow_roots(table, flows)
    weight = np.bincount(root, np.abs(account.flow_us), len(table.roots))
    served = np.bincount(table.root, tests.tests.seen, len(table.roots))
    for r in np.lexsort((np.arange(len(weight)), -weight))[:_DRAWN_ROOTS].tolist():
        mine = np.flatnonzero(root == r)
        near = np.flatnonzero(table.root[pairs.target] == r) if len(pairs.target) else np.zeros(0, np.int64)
        if len(mine) == 0 or len(near) > settings.drawn_pairs or served[r] <= 0:
            continue
        changed = np.flatnonzero((tests.lost | tests.gained) & (table.root == r))
        rng = np.random.default_rng((settings.seed, r))
        sd = tests.tests.sd[changed] / served[r]
        drawn = shares.change[changed] + sd * rng.standard_normal((settings.draws, len(changed)))
        local = np.full(len(table.root), OTHER, np.int64)
        local[changed] = np.arange(len(changed))
        offset = np.repeat(np.arange(settings.draws) * len(changed), len(near))
        again = transport(
            np.where(tests.lost[changed], np.maximum(-drawn, 0.0), 0.0).reshape(-1),
            np.where(tests.gained[changed], np.maximum(drawn, 0.0), 0.0).reshape(-1),
            CandidatePairs(
                np.tile(local[pairs.source[near]], settings.draws) + offset,
                np.tile(local[pairs.target[near]], settings.draws) + offset,
                np.tile(pairs.cost[near], settings.draws),
            ),
        )
        ends = [
            np.where(end == OTHER, OTHER, changed[end % len(changed)]) for end in (again.source, again.target)
        ]
        for k in mine.tolist():
            same = (ends[0] == flows.source[k]) & (ends[1] == flows.target[k])
            there = same & (again.amount >= flows.amount[k] / 2)
            confidence[k] = there.sum() / settings.draws
    return confidence
