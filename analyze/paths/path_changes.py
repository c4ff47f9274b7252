"""What changed about whole paths: the second resolution, beside sites (ALGORITHMS B, C, J.6).

Shares and times of categories are tested, requests that moved are assigned to where they came from, like
moves are one group, and all of it adds up to the change of the mean exactly. Nothing here decides what a
comparison finds: categories are too fine for that (L), they name whole paths.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analyze.paths.alignment import Pair
from analyze.paths.decomposition import PathAccount, PathShares, decompose, path_shares
from analyze.paths.path_distance import CandidatePairs, candidate_pairs
from analyze.paths.path_settings import PathSettings
from analyze.paths.path_table import PathTable, path_table
from analyze.paths.path_times import TimeTests, time_tests
from analyze.paths.repeats import RepeatChange, repeat_changes
from analyze.paths.share_tests import ShareTests, share_tests
from analyze.paths.signatures import Signature, aligned_steps, signature
from analyze.paths.transport import OTHER, Flows, transport
from analyze.population import Population

F8 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int64]

_DRAWN_ROOTS = 5
"""Roots whose assignment is repeated: those with most of the change."""
_SHARE_WEIGHT = 0.3
"""What a share of requests counts in the rank, beside its part of the mean (L.9 item 9)."""


@dataclass(frozen=True, slots=True)
class PathMove:
    """Requests that took another path."""

    source: int
    """Category they came from, or OTHER: no precursor."""
    target: int
    """Category they went to, or OTHER: they are spread over paths that did not change by test."""
    share: float
    """Of all requests (midpoint share of the root x share of the root's)."""
    contribution_us: float
    confidence: float | None
    """Share of draws of uncertain shares in which at least half of it is there; None: not drawn."""


@dataclass(frozen=True, slots=True)
class PathGroup:
    """Moves that are one change."""

    signature: Signature | None
    """None: there is no path to hold it against."""
    new: bool
    """No precursor; held against the usual path of its root."""
    lost: bool
    """No successor."""
    moves: tuple[PathMove, ...]
    """Largest share first."""
    partners: tuple[int, int]
    """Categories of the first move that were aligned, before and after; equal: there was no other."""
    pairs: tuple[Pair, ...]
    """Their steps."""
    share: float
    contribution_us: float
    score: float


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
    tokens = [graph.tokens for graph in table.graphs]
    pairs = candidate_pairs(tokens, table.root, lost, gained, settings.candidates)
    supply = np.where(tests.lost, -shares.change, 0.0)
    demand = np.where(tests.gained, shares.change, 0.0)
    flows = transport(supply, demand, pairs)
    account = decompose(shares, flows, times.changed)
    groups, rest = _grouped(
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


def _flow_root(table: PathTable, flows: Flows) -> I8:
    root: I8 = table.root[np.where(flows.source == OTHER, flows.target, flows.source)]
    return root


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
    root = _flow_root(table, flows)
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


def _grouped(
    table: PathTable,
    shares: PathShares,
    flows: Flows,
    account: PathAccount,
    confidence: F8,
    settings: PathSettings,
) -> tuple[tuple[PathGroup, ...], list[PathMove]]:
    """Groups by score, and the moves that were not looked at."""
    of_all = shares.of_all.mean(axis=0)[_flow_root(table, flows)] * flows.amount
    scale = max(float(shares.total_us.max()), 1e-300)
    score = np.maximum(np.abs(account.flow_us) / scale, _SHARE_WEIGHT * of_all)
    moves = [
        PathMove(
            int(flows.source[k]),
            int(flows.target[k]),
            float(of_all[k]),
            float(account.flow_us[k]),
            None if np.isnan(confidence[k]) else float(confidence[k]),
        )
        for k in np.lexsort((flows.target, flows.source, -score)).tolist()
    ]
    usual = _usual(table)
    found: dict[tuple[object, ...], list[tuple[PathMove, Signature | None, tuple[int, int], list[Pair]]]]
    found = defaultdict(list)
    looked = cells = 0
    for move in moves[: settings.aligned]:
        before, after = _partners(table, move, usual)
        graphs = table.graphs[before], table.graphs[after]
        cells += graphs[0].n_nodes * graphs[1].n_nodes
        if looked and cells > settings.aligned_cells:
            break
        looked += 1
        pairs = aligned_steps(*graphs)
        mark = signature(*graphs, pairs) if before != after else None
        kind = (move.source == OTHER, move.target == OTHER)
        key = (*kind, *(mark.key if mark is not None else (before,)))
        found[key].append((move, mark, (before, after), pairs))
    groups = []
    for members in found.values():
        members.sort(key=lambda m: -m[0].share)  # stable: ties in order of score
        first, mark, partners, pairs = members[0]
        share = sum(m[0].share for m in members)
        us = sum(m[0].contribution_us for m in members)
        groups.append(
            PathGroup(
                signature=mark,
                new=first.source == OTHER,
                lost=first.target == OTHER,
                moves=tuple(m[0] for m in members),
                partners=partners,
                pairs=tuple(pairs),
                share=share,
                contribution_us=us,
                score=max(abs(us) / scale, _SHARE_WEIGHT * share),
            )
        )
    groups.sort(key=lambda g: (-g.score, g.partners))
    return tuple(groups), moves[looked:]


def _usual(table: PathTable) -> I8:
    """[2, roots] the category with most requests of each root, in the reference and in the problem."""
    usual = np.zeros((2, len(table.roots)), np.int64)
    for t in (0, 1):
        order = np.lexsort((np.arange(len(table.root)), -table.weight[t], table.root))
        usual[t] = order[np.searchsorted(table.root[order], np.arange(len(table.roots)))]
    return usual


def _partners(table: PathTable, move: PathMove, usual: I8) -> tuple[int, int]:
    """Which paths are held against each other: one from or to nowhere against the usual one of its root."""
    if move.source == OTHER:
        return int(usual[0, table.root[move.target]]), move.target
    if move.target == OTHER:
        return move.source, int(usual[1, table.root[move.source]])
    return move.source, move.target
