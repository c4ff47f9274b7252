"""An entropy tree in which every split must beat shuffled labels (ALGORITHMS D.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from analyze.explain.column_codes import CodedColumns
from analyze.explain.explain_settings import ExplainSettings
from analyze.explain.split_gain import ClassWeights, best_splits, class_weights, shuffled
from schemas.arrays import B1, F8, I4, I8

_TIE = 0.01
"""Excess gains that differ by this share are equal."""


class Split(NamedTuple):
    """A question about one column."""

    column: int
    cut: int
    """Code: numbers go left up to it, words where they equal it."""
    missing_left: bool
    """Numbers: which side missing values take."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the tree; a leaf has no split."""

    n_affected: int
    n_others: int
    score: float
    """Share of the affected with both classes weighted alike, pulled to one half by one request of each."""
    split: Split | None = None
    left: Node | None = None
    right: Node | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """The best split of some requests, and how it stands against shuffled labels."""

    split: Split
    p: float
    expected: F8
    """[columns] mean best gain under shuffled labels."""


def grow(
    coded: CodedColumns, affected: B1, block: I4, rows: I8, settings: ExplainSettings, perms: int
) -> Node:
    """A tree over `rows`. Deterministic; a node costs what `best_splits` with `perms` labellings does."""
    weights = class_weights(affected[rows])
    least = least_leaf(len(rows), settings)
    rng = np.random.default_rng(settings.seed)
    return _grown(coded, affected, block, rows, weights, least, settings, perms, rng, settings.depth)


def least_leaf(n: int, settings: ExplainSettings) -> int:
    """Requests that each side of a split must keep."""
    return max(settings.least_leaf, int(np.ceil(settings.least_leaf_share * n)))


def _grown(
    coded: CodedColumns,
    affected: B1,
    block: I4,
    rows: I8,
    weights: ClassWeights,
    least: int,
    settings: ExplainSettings,
    perms: int,
    rng: np.random.Generator,
    depth: int,
) -> Node:
    label = affected[rows]
    node = _leaf(label, weights)
    if depth == 0 or len(rows) < 2 * least or label.all() or not label.any():
        return node
    question = ask(coded, label, block[rows], rows, weights, least, perms, rng)
    if question is None or question.p > settings.gate:
        return node
    to_left = goes_left(coded, question.split, rows)
    sides = [
        _grown(coded, affected, block, part, weights, least, settings, perms, rng, depth - 1)
        for part in (rows[to_left], rows[~to_left])
    ]
    return Node(node.n_affected, node.n_others, node.score, question.split, *sides)


def ask(
    coded: CodedColumns,
    label: B1,
    block: I4,
    rows: I8,
    weights: ClassWeights,
    least: int,
    perms: int,
    rng: np.random.Generator,
) -> Question | None:
    """The split whose gain exceeds what shuffled labels give its column by most, and its p.

    Shuffling takes from a column what it gains by having many cuts; the maximum over columns is compared with
    the same maximum of every shuffling, so that many columns do not make one of them significant. None where
    nothing can be split.
    """
    if len(coded.columns) == 0:
        return None
    labels = shuffled(label, block, perms, rng)
    found = best_splits(coded, coded.incidence(rows), labels, 1 - labels, weights, least)
    expected: F8 = found.gain[:, 1:].mean(axis=1, dtype=np.float64)
    excess = found.gain - expected[:, None]
    # Of columns that say the same the first: which one it is must not hang on the shuffling.
    most = float(excess[:, 0].max())
    column = int(np.flatnonzero(excess[:, 0] >= most - _TIE * abs(most))[0])
    if found.gain[column, 0] <= 0:
        return None
    best = np.r_[excess[column, 0], excess[:, 1:].max(axis=0)]
    p = (1 + int((best[1:] >= best[0] - 1e-6).sum())) / (perms + 1)
    split = Split(column, int(found.cut[column, 0]), bool(found.missing_left[column, 0]))
    return Question(split, p, expected)


def goes_left(coded: CodedColumns, split: Split, rows: I8) -> B1:
    """[rows] which requests answer a split's question with yes."""
    code = coded.codes[split.column, rows]
    if not coded.numeric[split.column]:
        equal: B1 = code == split.cut
        return equal
    missing = code == coded.width - 1
    left: B1 = np.where(missing, split.missing_left, code <= split.cut)
    return left


def scores(coded: CodedColumns, node: Node, rows: I8) -> F8:
    """[rows] the score of the leaf that each request comes to."""
    out = np.full(len(rows), node.score)
    if node.split is not None and node.left is not None and node.right is not None:
        to_left = goes_left(coded, node.split, rows)
        out[to_left] = scores(coded, node.left, rows[to_left])
        out[~to_left] = scores(coded, node.right, rows[~to_left])
    return out


def _leaf(label: B1, weights: ClassWeights) -> Node:
    n1 = int(label.sum())
    n0 = len(label) - n1
    a = (n1 + 1) * weights.affected
    b = (n0 + 1) * weights.others
    return Node(n1, n0, a / (a + b))
