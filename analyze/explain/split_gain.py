"""Entropy gain of every binary split of every column, for true and shuffled labels (ALGORITHMS D.4)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from analyze.explain.column_codes import CodedColumns
from schemas.arrays import B1, I4, I8

F4 = npt.NDArray[np.float32]


_LEAST = np.float32(1e-30)
"""Instead of 0 under a logarithm: 0 · log 0 is 0."""


class ClassWeights(NamedTuple):
    """What one request counts, so that both classes count alike in the whole table."""

    affected: float
    others: float


class Gains(NamedTuple):
    """Best split of every column under every labelling; arrays are [columns, labellings]."""

    gain: F4
    """Bits; 0 where no split leaves enough requests on both sides."""
    cut: I4
    """Code: numbers go left up to it, words go left where they equal it."""
    missing_left: B1
    """Numbers: which side missing values take."""


def class_weights(affected: B1) -> ClassWeights:
    """Weights that make both classes half of the whole."""
    n1 = int(affected.sum())
    n0 = len(affected) - n1
    return ClassWeights(0.5 / max(n1, 1), 0.5 / max(n0, 1))


def best_splits(
    coded: CodedColumns,
    incidence: sparse.csr_array,
    affected: F4,
    others: F4,
    weights: ClassWeights,
    least_leaf: int,
) -> Gains:
    """Gains of the requests of `incidence` [columns * width, requests].

    affected, others: [requests, labellings] how often each request counts in either class; every labelling
    has the same totals but for bootstraps. Counts are exact in float32 (below 2**24), gains good to 1e-6.
    O(columns · (requests + width) · labellings).
    """
    shape = (len(coded.columns), coded.width, affected.shape[1])
    pos = np.asarray(incidence @ affected).reshape(shape)
    neg = np.asarray(incidence @ others).reshape(shape)
    gain = np.zeros((shape[0], shape[2]), np.float32)
    cut = np.zeros((shape[0], shape[2]), np.int32)
    missing_left = np.zeros((shape[0], shape[2]), dtype=np.bool_)
    for numeric in (True, False):
        rows = np.flatnonzero(coded.numeric == numeric)
        if len(rows) == 0:
            continue
        used = 1 + int(coded.codes[rows][coded.codes[rows] < coded.width - 1].max(initial=0))
        mine_pos, mine_neg = pos[rows], neg[rows]
        whole = mine_pos.sum(axis=1, keepdims=True), mine_neg.sum(axis=1, keepdims=True)
        if numeric:
            left = np.cumsum(mine_pos[:, :used], axis=1), np.cumsum(mine_neg[:, :used], axis=1)
            gone = mine_pos[:, -1:], mine_neg[:, -1:]
            right_gain = _gains(left, whole, weights, least_leaf)
            best = _best(right_gain)
            if gone[0].any() or gone[1].any():
                with_gone = left[0] + gone[0], left[1] + gone[1]
                other = _best(_gains(with_gone, whole, weights, least_leaf))
                better = other[0] > best[0]
                missing_left[rows] = better
                best = np.where(better, other[0], best[0]), np.where(better, other[1], best[1])
            gain[rows], cut[rows] = best
        else:
            # The last code is the level "missing": kept where it is, whatever the columns' widths.
            take = np.r_[np.arange(used), coded.width - 1]
            gains = _gains((mine_pos[:, take], mine_neg[:, take]), whole, weights, least_leaf)
            gains[~coded.askable[rows][:, take]] = 0.0
            best = _best(gains)
            gain[rows], cut[rows] = best[0], take[best[1]]
    return Gains(gain, cut, missing_left)


def shuffled(affected: B1, block: I4, n: int, rng: np.random.Generator) -> F4:
    """[requests, n + 1] the labels (column 0) and `n` permutations of them inside each block, 0 or 1."""
    rows = np.argsort(block, kind="stable")
    keys = rng.random((n, len(rows)), dtype=np.float32) + block[rows].astype(np.float32)
    order = np.argsort(keys, axis=1)
    labels = np.empty((len(rows), n + 1), np.float32)
    labels[:, 0] = affected
    labels[rows, 1:] = affected[rows][order].T
    return labels


def _best(gains: F4) -> tuple[F4, I8]:
    """Largest gain over the cuts [columns, cuts, labellings], the first of equals, and which it is."""
    at = gains.argmax(axis=1)
    return np.take_along_axis(gains, at[:, None], axis=1)[:, 0], at


def _gains(left: tuple[F4, F4], whole: tuple[F4, F4], weights: ClassWeights, least_leaf: int) -> F4:
    """Bits that each split gives a request of the node; 0 where a side is too small."""
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
    """Entropy of two masses times their sum."""
    return _xlog2(p + q) - _xlog2(p) - _xlog2(q)


def _xlog2(x: F4) -> F4:
    out: F4 = np.maximum(x, _LEAST)
    np.log2(out, out=out)
    out *= x
    return out
