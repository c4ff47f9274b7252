"""Moves that are one change: like signatures merged, largest first (ALGORITHMS J.6 step 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from analyze.paths.alignment import Pair
from analyze.paths.decomposition import PathAccount, PathShares
from analyze.paths.path_settings import PathSettings
from analyze.paths.path_table import PathTable
from analyze.paths.signatures import Signature, aligned_steps, signature
from analyze.paths.transport import OTHER, Flows
from schemas.arrays import F8, I8

_SHARE_WEIGHT = 0.3
"""What a share of requests counts in the rank, beside its part of the mean (L.9 item 9)."""
_ALIKE = 0.6
"""Jaccard index of two signatures from which on they are the same change."""


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
    """The leading move has no precursor; it is held against the usual path of its root."""
    lost: bool
    """It has no successor."""
    moves: tuple[PathMove, ...]
    """The leading one first, by score."""
    partners: tuple[int, int]
    """Categories of the first move that were aligned, before and after; equal: there was no other."""
    pairs: tuple[Pair, ...]
    """Their steps."""
    share: float
    contribution_us: float
    score: float


@dataclass(slots=True)
class _Looked:
    """A move and what its paths differ in."""

    move: PathMove
    signature: Signature | None
    partners: tuple[int, int]
    pairs: list[Pair]

    @property
    def key(self) -> tuple[object, ...]:
        return self.signature.key if self.signature is not None else self.partners


@dataclass(slots=True)
class _Cluster:
    """Moves like the first of them."""

    members: list[_Looked] = field(default_factory=list)

    def takes(self, other: _Looked) -> bool:
        mine = self.members[0].signature
        return mine is not None and other.signature is not None and mine.alike(other.signature) >= _ALIKE


def flow_roots(table: PathTable, flows: Flows) -> I8:
    """[flows] root of each."""
    root: I8 = table.root[np.where(flows.source == OTHER, flows.target, flows.source)]
    return root


def grouped_moves(
    table: PathTable,
    shares: PathShares,
    flows: Flows,
    account: PathAccount,
    confidence: F8,
    settings: PathSettings,
) -> tuple[tuple[PathGroup, ...], list[PathMove]]:
    """Groups by score, and the moves that were not looked at.

    Moves come largest first; each joins the first group whose leading move has the same signature, or one
    with a Jaccard index of 0.6. O(moves · (groups + steps²/64)).
    """
    of_all = shares.of_all.mean(axis=0)[flow_roots(table, flows)] * flows.amount
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
    looked = _looked(table, moves, settings)
    clusters: list[_Cluster] = []
    exact: dict[tuple[object, ...], _Cluster] = {}
    for one in looked:
        mine = exact.get(one.key) or next((c for c in clusters if c.takes(one)), None)
        if mine is None:
            mine = _Cluster()
            clusters.append(mine)
        mine.members.append(one)
        exact.setdefault(one.key, mine)
    groups = [_group(cluster.members, scale) for cluster in clusters]
    groups.sort(key=lambda g: (-g.score, g.partners))
    return tuple(groups), moves[len(looked) :]


def _looked(table: PathTable, moves: Sequence[PathMove], settings: PathSettings) -> list[_Looked]:
    """The first moves, compared step by step, as many as the settings allow."""
    usual = _usual(table)
    looked: list[_Looked] = []
    cells = 0
    for move in moves[: settings.aligned]:
        before, after = _partners(table, move, usual)
        graphs = table.graphs[before], table.graphs[after]
        cells += graphs[0].n_nodes * graphs[1].n_nodes
        if looked and cells > settings.aligned_cells:
            break
        pairs = aligned_steps(*graphs)
        mark = signature(*graphs, pairs) if before != after else None
        looked.append(_Looked(move, mark, (before, after), pairs))
    return looked


def _group(members: Sequence[_Looked], scale_us: float) -> PathGroup:
    """What a cluster's leading move says, for all of them."""
    first = members[0]
    share = sum(m.move.share for m in members)
    us = sum(m.move.contribution_us for m in members)
    return PathGroup(
        signature=first.signature,
        new=first.move.source == OTHER,
        lost=first.move.target == OTHER,
        moves=tuple(m.move for m in members),
        partners=first.partners,
        pairs=tuple(first.pairs),
        share=share,
        contribution_us=us,
        score=max(abs(us) / scale_us, _SHARE_WEIGHT * share),
    )


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
