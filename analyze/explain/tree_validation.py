"""Whether a tree can be relied on: cross-validation over time, stability of its root (ALGORITHMS D.5)."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np

from analyze.explain.column_codes import CodedColumns
from analyze.explain.explain_settings import ExplainSettings
from analyze.explain.gated_tree import Question, Split, goes_left, grow, least_leaf, scores
from analyze.explain.split_gain import best_splits, class_weights
from analyze.stats.rank import midranks
from schemas.arrays import B1, F8, I4

_SAME_SPLIT = 0.8
"""Correlation of two splits' answers from which they count as the same explanation."""


class Stability(NamedTuple):
    """How often resampled requests have the same root."""

    share: float
    competing: tuple[int, ...]
    """Columns of other roots, most frequent first."""


def cross_validated_auc(
    coded: CodedColumns, affected: B1, block: I4, fold: I4, settings: ExplainSettings
) -> float | None:
    """Mean area under the ROC curve over folds of time, each scored by a tree of the others.

    None where no fold has both classes inside and outside.
    """
    areas: list[float] = []
    for number in range(int(fold.max(initial=-1)) + 1):
        inside = fold == number
        train, test = np.flatnonzero(~inside), np.flatnonzero(inside)
        if any(len(np.unique(affected[rows])) < 2 for rows in (train, test)):
            continue
        tree = grow(coded, affected, block, train, settings, settings.fold_perms)
        areas.append(auc(scores(coded, tree, test), affected[test]))
    return float(np.mean(areas)) if areas else None


def auc(score: F8, affected: B1) -> float:
    """Probability that an affected request scores higher than another one, ties half. Both must be there."""
    n1 = int(affected.sum())
    n0 = len(affected) - n1
    ranks = midranks(score)
    return float((ranks[affected].sum() - n1 * (n1 + 1) / 2) / (n1 * n0))


def root_stability(
    coded: CodedColumns, affected: B1, question: Question, settings: ExplainSettings
) -> Stability:
    """Share of bootstraps whose root parts the requests as the tree's root does.

    Two columns that say the same (a size and its encoding) part them alike and do not compete. The expected
    gains are those of the tree's root.
    """
    n = len(affected)
    rng = np.random.default_rng(settings.seed + 1)
    drawn = np.zeros((n, settings.bootstraps), np.float32)
    for side in (np.flatnonzero(affected), np.flatnonzero(~affected)):
        picks = side[rng.integers(len(side), size=(settings.bootstraps, len(side)))]
        for number in range(settings.bootstraps):
            drawn[:, number] += np.bincount(picks[number], minlength=n).astype(np.float32)
    label = affected[:, None].astype(np.float32)
    rows = np.arange(n)
    found = best_splits(
        coded,
        coded.incidence(rows),
        drawn * label,
        drawn * (1 - label),
        class_weights(affected),
        least_leaf(n, settings),
    )
    roots = (found.gain - question.expected[:, None]).argmax(axis=0)
    base = goes_left(coded, question.split, rows)
    same = 0
    others: Counter[int] = Counter()
    for number, column in enumerate(roots):
        split = Split(int(column), int(found.cut[column, number]), bool(found.missing_left[column, number]))
        if column == question.split.column or agreement(base, goes_left(coded, split, rows)) >= _SAME_SPLIT:
            same += 1
        else:
            others[int(column)] += 1
    ordered = sorted(others, key=lambda column: (-others[column], column))
    return Stability(same / settings.bootstraps, tuple(ordered))


def agreement(one: B1, other: B1) -> float:
    """Absolute correlation of two answers; 0 where one of them is always the same."""
    if one.all() or other.all() or not one.any() or not other.any():
        return 0.0
    return abs(float(np.corrcoef(one, other)[0, 1]))
