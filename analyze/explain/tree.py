"""Grow a decision tree by information gain, and validate it.

The gain of every split must be significant: larger than gains under shuffled labels. Codes of all columns are
counted for the true labels and all shuffled labels at once. A tree is validated by cross-validation over
time, and by the share of bootstrap samples with the same root.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from analyze.cache_blocks import blocks
from analyze.explain.coded_columns import CodedColumns
from analyze.explain.settings import SETTINGS
from analyze.stats.rank import midranks
from schemas.arrays import B1, F4, F8, I4, I8

_LEAST = np.float32(1e-30)
"""Lower bound of the argument of a logarithm, so that 0 · log 0 is 0."""


class ClassWeights(NamedTuple):
    """Weights of a request by class, such that both classes have equal total weight in the whole table."""

    affected: float
    """Weight of a request of the affected class."""
    others: float
    """Weight of a request of the other class."""


class Split(NamedTuple):
    """Split of requests by one column: numbers up to a cut against larger numbers, or one word against all
    other words."""

    column: int
    """Index of the column in `CodedColumns`."""
    cut: int
    """Code at which the column is split: numbers with at most this code, or words with exactly this code, go
    left."""
    missing_left: bool
    """True if requests whose number is missing go left."""


class Gains(NamedTuple):
    """Best split of each column under each labelling (assignment of requests to classes).

    Labelling 0 has the true classes, the others have shuffled classes or are bootstrap samples."""

    gain: F4
    """float32[columns, labellings]: information gain of the best split, bits per request; 0 if no split
    leaves enough requests on both sides."""
    cut: I4
    """int32[columns, labellings]: code at which the column is split, as `Split.cut`."""
    missing_left: B1
    """bool[columns, labellings]: True if requests whose number is missing go left."""

    @property
    def by_chance(self) -> F8:
        """float64[columns]: mean of the best gain over the shuffled labellings."""
        found: F8 = self.gain[:, 1:].mean(axis=1, dtype=np.float64)
        return found

    def split(self, column: int, labelling: int = 0) -> Split:
        """Best split of a column under a labelling (0: the true labels)."""
        at = column, labelling
        return Split(column, int(self.cut[at]), bool(self.missing_left[at]))


def class_weights(affected: B1) -> ClassWeights:
    """Weights of a request by class such that each class has half of the total weight. affected:
    bool[requests]."""
    n1 = int(affected.sum())
    n0 = len(affected) - n1
    return ClassWeights(0.5 / max(n1, 1), 0.5 / max(n0, 1))


def best_splits(coded: CodedColumns, counts: Sequence[F4], weights: ClassWeights, least_leaf: int) -> Gains:
    """Find the best split of every column, and the gain of this split.

    counts: for the affected and for the other class float32[columns, width, labellings], requests of the
    class with each code (`CodedColumns.counts`). least_leaf: minimum number of requests on each side of a
    split. Gains are exact to 1e-6. O(columns · width · labellings).
    """
    best = counts[0].shape[0], counts[0].shape[2]
    found = Gains(np.zeros(best, np.float32), np.zeros(best, np.int32), np.zeros(best, np.bool_))
    for numeric in (True, False):
        columns = np.flatnonzero(coded.numeric == numeric)
        if not len(columns):
            continue
        used = max(1, int(coded.n_codes[columns].max()))
        mine = [side[columns] for side in counts]
        found.gain[columns], found.cut[columns], found.missing_left[columns] = (
            _cuts_of_numbers(mine, used, weights, least_leaf)
            if numeric
            else _cuts_of_words(mine, used, coded.askable[columns], weights, least_leaf)
        )
    return found


def _cuts_of_numbers(
    counts: Sequence[F4], used: int, weights: ClassWeights, least_leaf: int
) -> tuple[F4, I8, B1]:
    """Find the best cut of each column of numbers: (gain, cut, missing_left) as in `Gains`.

    counts: for each class float32[columns, codes, labellings]. used: number of codes in use, without the code
    for missing values, which go to the side where the gain is larger.
    """
    whole = [side.sum(axis=1, keepdims=True) for side in counts]
    left = [np.cumsum(side[:, :used], axis=1) for side in counts]
    gone = [side[:, -1:] for side in counts]
    gain, cut = _best(_gains(left, whole, weights, least_leaf))
    if not any(side.any() for side in gone):
        return gain, cut, np.zeros(gain.shape, np.bool_)
    with_gone = [side + more for side, more in zip(left, gone, strict=True)]
    gain_with, cut_with = _best(_gains(with_gone, whole, weights, least_leaf))
    better = gain_with > gain
    return np.where(better, gain_with, gain), np.where(better, cut_with, cut), better


def _cuts_of_words(
    counts: Sequence[F4], used: int, askable: B1, weights: ClassWeights, least_leaf: int
) -> tuple[F4, I8, B1]:
    """Find the best word to split each column of words by: (gain, code of the word, False) as in `Gains`.

    counts: for each class float32[columns, codes, labellings]; askable: as in `CodedColumns`.
    """
    # The last code is the level "missing": kept where it is, whatever the columns' widths.
    take = np.r_[np.arange(used), askable.shape[1] - 1]
    whole = [side.sum(axis=1, keepdims=True) for side in counts]
    gains = _gains([side[:, take] for side in counts], whole, weights, least_leaf)
    gains[~askable[:, take]] = 0.0
    gain, at = _best(gains)
    return gain, take[at], np.zeros(gain.shape, np.bool_)


def shuffled(affected: B1, block: I4, n: int, rng: np.random.Generator) -> F4:
    """float32[requests, n + 1]: labels, 1 for affected requests, else 0. Column 0 has the true labels, all
    others a permutation of the labels within each block."""
    rows = np.argsort(block, kind="stable")
    first, label = block[rows].astype(np.float32), affected[rows].astype(np.uint32)
    labels = np.empty((len(rows), n + 1), np.float32)
    labels[:, 0] = affected
    for some in blocks(n, len(rows)):
        keys = rng.random((some.stop - some.start, len(rows)), dtype=np.float32)
        keys += first
        # Bits of positive floats are in the order of the numbers, and leave one free: the label goes along,
        # as sorting is three times as fast as finding the order.
        tagged = keys.view(np.uint32)
        tagged <<= np.uint32(1)
        tagged |= label
        tagged.sort(axis=1)
        tagged &= np.uint32(1)
        labels[rows, some.start + 1 : some.stop + 1] = tagged.T
    return labels


def _best(gains: F4) -> tuple[F4, I8]:
    """(largest gain over all cuts, first cut with this gain), each [columns, labellings]. gains:
    float32[columns, cuts, labellings]."""
    at = gains.argmax(axis=1)
    return np.take_along_axis(gains, at[:, None], axis=1)[:, 0], at


def _gains(left: Sequence[F4], whole: Sequence[F4], weights: ClassWeights, least_leaf: int) -> F4:
    """Information gain of each split, bits per request of the node; 0 if a side has fewer than `least_leaf`
    requests.

    left, whole: counts of the two classes on the left side and in the whole node.
    """
    n_left = left[0] + left[1]
    n_right = whole[0] + whole[1] - n_left
    one, other = np.float32(weights.affected), np.float32(weights.others)
    a, b = left[0] * one, left[1] * other
    p, q = whole[0] * one, whole[1] * other
    c, d = (whole[0] - left[0]) * one, (whole[1] - left[1]) * other
    gain: F4 = _bits(p, q) - _bits(a, b) - _bits(c, d)
    gain /= np.maximum(p + q, _LEAST)
    gain[(n_left < least_leaf) | (n_right < least_leaf)] = 0.0
    np.maximum(gain, 0.0, out=gain)
    return gain


def _bits(p: F4, q: F4) -> F4:
    """Entropy (bits) of the two classes' masses p and q, times p + q."""
    return _xlog2(p + q) - _xlog2(p) - _xlog2(q)


def _xlog2(x: F4) -> F4:
    out: F4 = np.maximum(x, _LEAST)
    np.log2(out, out=out)
    out *= x
    return out


class Question(NamedTuple):
    """Best split of a tree node's requests, with its significance."""

    split: Split
    p: float
    """p of the split's gain, by shuffled labels, corrected for the choice of the best column."""
    gains: Gains
    """Best splits of all columns under the true labels (labelling 0) and shuffled labels."""


@dataclass(frozen=True, slots=True)
class TreeNode:
    """Node of a decision tree; `question`, `left` and `right` are None for a leaf."""

    n_affected: int
    """Number of affected requests that reach the node."""
    n_others: int
    """Number of other requests that reach the node."""
    score: float
    """Share of affected requests in the node, in (0, 1), with both classes weighted equally; one request of
    each class is added to shrink it towards 0.5."""
    question: Question | None = None
    left: TreeNode | None = None
    right: TreeNode | None = None

    @property
    def split(self) -> Split | None:
        """Split of the node; None for a leaf."""
        return None if self.question is None else self.question.split


def grow(coded: CodedColumns, affected: B1, block: I4, rows: I8, perms: int) -> TreeNode:
    """Grow a tree over the requests `rows`. Deterministic.

    affected: bool[requests]; block: int32[requests], labels are shuffled within blocks; perms: number of
    shuffled labellings per node. Each node counts codes under `perms` + 1 labellings."""
    least = least_leaf(len(rows))
    rng = np.random.default_rng(SETTINGS.seed)
    return _Growth(coded, affected, block, class_weights(affected[rows]), least, perms, rng).node(
        rows, SETTINGS.depth
    )


def least_leaf(n: int) -> int:
    """Minimum number of requests on each side of a split of a table of n requests."""
    return max(SETTINGS.least_leaf, int(np.ceil(SETTINGS.least_leaf_share * n)))


@dataclass(frozen=True, slots=True)
class _Growth:
    """Data common to all nodes of a tree while it is grown; fields: see `grow`."""

    coded: CodedColumns
    affected: B1
    block: I4
    weights: ClassWeights
    least: int
    perms: int
    rng: np.random.Generator

    def node(self, rows: I8, depth: int) -> TreeNode:
        """Grow the subtree over `rows` with at most `depth` levels of splits."""
        label = self.affected[rows]
        n1 = int(label.sum())
        n0 = len(label) - n1
        a, b = (n1 + 1) * self.weights.affected, (n0 + 1) * self.weights.others
        leaf = TreeNode(n1, n0, a / (a + b))
        if depth == 0 or len(rows) < 2 * self.least or not (n0 and n1):
            return leaf
        question = self._ask(rows)
        if question is None or question.p > SETTINGS.gate:
            return leaf
        to_left = goes_left(self.coded, question.split, rows)
        sides = [self.node(part, depth - 1) for part in (rows[to_left], rows[~to_left])]
        return replace(leaf, question=question, left=sides[0], right=sides[1])

    def _ask(self, rows: I8) -> Question | None:
        """Find the split whose gain exceeds the mean gain of the same column under shuffled labels the most;
        None if no column can be split.

        Subtracting the gain under shuffled labels removes the advantage of columns with many cuts. The p
        compares the maximum over columns with the maxima under shuffled labels, so that it is corrected for
        the number of columns.
        """
        if not self.coded.columns:
            return None
        labels = shuffled(self.affected[rows], self.block[rows], self.perms, self.rng)
        # Under each labelling a request is in one of the classes: the second class is the rest.
        every, affected = self.coded.counts(rows, np.ones((len(rows), 1), np.float32), labels)
        found = best_splits(self.coded, (affected, every - affected), self.weights, self.least)
        excess = found.gain - found.by_chance[:, None]
        # Of equivalent columns the first is taken: the choice must not depend on the shuffling.
        most = float(excess[:, 0].max())
        column = int(np.flatnonzero(excess[:, 0] >= most - SETTINGS.tie * abs(most))[0])
        if found.gain[column, 0] <= 0:
            return None
        as_good = excess[:, 1:].max(axis=0) >= excess[column, 0] - 1e-6
        p = (1 + int(as_good.sum())) / (self.perms + 1)
        return Question(found.split(column), p, found)


def goes_left(coded: CodedColumns, split: Split, rows: I8) -> B1:
    """bool[rows]: True for requests of `rows` that go left at the split."""
    code = coded.codes[split.column, rows]
    if not coded.numeric[split.column]:
        equal: B1 = code == split.cut
        return equal
    missing = code == coded.width - 1
    left: B1 = np.where(missing, split.missing_left, code <= split.cut)
    return left


def _scores(coded: CodedColumns, node: TreeNode, rows: I8) -> F8:
    """float64[rows]: score of the leaf that each request reaches."""
    out = np.full(len(rows), node.score)
    if node.split is not None and node.left is not None and node.right is not None:
        to_left = goes_left(coded, node.split, rows)
        out[to_left] = _scores(coded, node.left, rows[to_left])
        out[~to_left] = _scores(coded, node.right, rows[~to_left])
    return out


class RootStability(NamedTuple):
    """Stability of a tree's root split in bootstrap samples."""

    share: float
    """Share of bootstrap samples whose root split is equivalent, in [0, 1]."""
    competing: tuple[int, ...]
    """Column indices of the root splits of all other bootstrap samples, most frequent first."""


def cross_validated_auc(coded: CodedColumns, affected: B1, block: I4, fold: I4) -> float | None:
    """Mean, over folds of time, of the area under the ROC curve (AUC) of a tree grown on all other folds.

    affected: bool[requests]; block: as in `grow`; fold: int32[requests], number of the fold. Folds without
    requests of both classes inside and outside are skipped; None if no fold remains.
    """
    areas: list[float] = []
    for number in range(int(fold.max(initial=-1)) + 1):
        inside = fold == number
        train, test = np.flatnonzero(~inside), np.flatnonzero(inside)
        if any(len(np.unique(affected[rows])) < 2 for rows in (train, test)):
            continue
        tree = grow(coded, affected, block, train, SETTINGS.fold_perms)
        areas.append(auc(_scores(coded, tree, test), affected[test]))
    return float(np.mean(areas)) if areas else None


def auc(score: F8, affected: B1) -> float:
    """Area under the ROC curve: probability that an affected request has a higher score than an unaffected
    request; ties count half. Both classes must have requests."""
    n1, n0 = int(affected.sum()), int((~affected).sum())
    return float((midranks(score)[affected].sum() - n1 * (n1 + 1) / 2) / (n1 * n0))


def root_stability(coded: CodedColumns, affected: B1, question: Question) -> RootStability:
    """Compare the root split of a tree, `question`, with the root splits of bootstrap samples.

    Splits by different columns are equivalent if they separate the requests in about the same way (a size and
    its encoding). The gains expected by chance are taken from `question`.
    """
    n, rows = len(affected), np.arange(len(affected))
    rng = np.random.default_rng(SETTINGS.seed + 1)
    drawn = np.zeros((n, SETTINGS.bootstraps), np.float32)
    for side in (np.flatnonzero(affected), np.flatnonzero(~affected)):
        picks = side[rng.integers(len(side), size=(SETTINGS.bootstraps, len(side)))]
        for number in range(SETTINGS.bootstraps):
            drawn[:, number] += np.bincount(picks[number], minlength=n).astype(np.float32)
    label = affected[:, None].astype(np.float32)
    weights, least = class_weights(affected), least_leaf(n)
    found = best_splits(coded, coded.counts(rows, drawn * label, drawn * (1 - label)), weights, least)
    roots = (found.gain - question.gains.by_chance[:, None]).argmax(axis=0)
    base = goes_left(coded, question.split, rows)
    others: Counter[int] = Counter()
    for number, column in enumerate(roots.tolist()):
        answer = goes_left(coded, found.split(column, number), rows)
        if column != question.split.column and agreement(base, answer) < SETTINGS.same_split:
            others[column] += 1
    ordered = sorted(others, key=lambda column: (-others[column], column))
    return RootStability(1 - others.total() / SETTINGS.bootstraps, tuple(ordered))


def agreement(one: B1, other: B1) -> float:
    """Absolute correlation, in [0, 1], between the answers of two splits, given as bool[rows] (True: goes
    left); 0 if either is constant."""
    if one.all() or other.all() or not one.any() or not other.any():
        return 0.0
    return abs(float(np.corrcoef(one, other)[0, 1]))
