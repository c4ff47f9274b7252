"""Rank attributes by the distance between affected and other requests in each attribute alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import chdtrc, xlogy

from analyze.explain.coded_columns import CodedColumns
from analyze.explain.columns import MISSING, AttributeColumn
from analyze.stats.ks import p_two_sided
from analyze.stats.multiple import q_values
from schemas.arrays import B1, F4, F8
from schemas.report.explanations import AttributeRow, LevelShare

_LEVELS_SHOWN = 3
"""Maximum number of levels (distinct texts) listed for a text attribute."""


class _Distance(NamedTuple):
    distance: float
    p: float
    levels: tuple[LevelShare, ...]
    medians: tuple[float | None, float | None]


def attribute_rows(coded: CodedColumns, affected: B1) -> tuple[AttributeRow, ...]:
    """Compare affected with other requests in each column: one row per column, largest distance first.

    affected: bool[requests]. Distance of a text column: Jensen-Shannon distance (base 2, at most 1) between
    the shares of the levels; p of the G-test. Distance of a column of numbers: Kolmogorov-Smirnov statistic,
    asymptotic p; or the difference of the shares of missing values, if that is larger. q: p adjusted over all
    columns (Benjamini-Hochberg).
    """
    if not coded.columns:
        return ()
    sides = np.stack([affected, ~affected], axis=1).astype(np.float32)
    (counts,) = coded.counts(np.arange(coded.n_requests), sides)
    found = [
        _numbers(column, affected) if column.numeric else _words(coded, number, counts[number])
        for number, column in enumerate(coded.columns)
    ]
    q = q_values(np.clip([one.p for one in found], 0.0, 1.0))
    rows = [
        AttributeRow(
            where=column.where,
            key=column.name,
            numeric=column.numeric,
            distance=one.distance,
            p=one.p,
            q=float(q[number]),
            levels=one.levels,
            median_affected=one.medians[0],
            median_others=one.medians[1],
        )
        for number, (column, one) in enumerate(zip(coded.columns, found, strict=True))
    ]
    return tuple(sorted(rows, key=lambda row: (-row.distance, row.p, row.where, row.key)))


def _words(coded: CodedColumns, number: int, of_codes: F4) -> _Distance:
    """Distance between affected and other requests in text column number `number`.

    of_codes: float32[codes, 2], numbers of affected and other requests with each code.
    """
    counts = np.ascontiguousarray(of_codes.T, np.float64)
    distance, p = _js_distance(counts), _g_test(counts)
    return _Distance(distance, p, _levels(coded, number, counts), (None, None))


def _levels(coded: CodedColumns, number: int, counts: F8) -> tuple[LevelShare, ...]:
    """Levels of text column number `number` whose shares differ most between affected and other requests,
    with both shares. counts: float64[2, codes], numbers of affected and other requests.
    """
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    there = np.flatnonzero(counts.sum(axis=0))
    order = there[np.argsort(-np.abs(share[0] - share[1])[there], kind="stable")]
    return tuple(
        LevelShare(
            value=coded.word(number, int(code)),
            share_affected=float(share[0, code]),
            share_others=float(share[1, code]),
        )
        for code in order[:_LEVELS_SHOWN]
    )


def _numbers(column: AttributeColumn, affected: B1) -> _Distance:
    known = ~np.isnan(column.values)
    sides = [column.values[known & side] for side in (affected, ~affected)]
    medians = [_median(side) for side in sides]
    d, p = _ks(sides[0], sides[1])
    missing = np.array([[(~known & side).sum(), (known & side).sum()] for side in (affected, ~affected)])
    levels: tuple[LevelShare, ...] = ()
    if missing[:, 0].any():
        share = missing[:, 0] / np.maximum(missing.sum(axis=1), 1)
        gap = float(abs(share[0] - share[1]))
        if gap > d:
            d, p = gap, _g_test(missing.astype(np.float64))
            levels = (
                LevelShare(value=MISSING, share_affected=float(share[0]), share_others=float(share[1])),
            )
    return _Distance(d, p, levels, (medians[0], medians[1]))


def _median(values: F8) -> float | None:
    """Lower median, always one of the values; None for an empty array."""
    middle = (len(values) - 1) // 2
    return float(np.partition(values, middle)[middle]) if len(values) else None


def _js_distance(counts: F8) -> float:
    """Jensen-Shannon distance (square root of the divergence, base 2) between two rows of counts, in [0, 1];
    0 if a row is empty. counts: float64[2, codes].
    """
    total = counts.sum(axis=1, keepdims=True)
    if (total == 0).any():
        return 0.0
    share = counts / total
    mean = share.mean(axis=0)
    divergence = (xlogy(share, share).sum(axis=1) - xlogy(share, mean).sum(axis=1)).mean() / np.log(2)
    return float(np.sqrt(np.clip(divergence, 0.0, 1.0)))


def _g_test(counts: F8) -> float:
    """P-value of the G-test that two rows of counts have the same shares; 1 if a row is empty."""
    counts = counts[:, counts.sum(axis=0) > 0]
    rows = counts.sum(axis=1, keepdims=True)
    if counts.shape[1] < 2 or (rows == 0).any():
        return 1.0
    expected = rows * counts.sum(axis=0) / counts.sum()
    g = 2 * (xlogy(counts, counts) - xlogy(counts, expected)).sum()
    return float(chdtrc(counts.shape[1] - 1, max(g, 0.0)))


def _ks(one: F8, other: F8) -> tuple[float, float]:
    """Kolmogorov-Smirnov test of two samples: (statistic, asymptotic p); (0, 1) if either is empty."""
    if len(one) == 0 or len(other) == 0:
        return 0.0, 1.0
    both = np.sort(np.concatenate([one, other]))
    gaps = [np.searchsorted(np.sort(side), both, side="right") / len(side) for side in (one, other)]
    d = float(np.abs(gaps[0] - gaps[1]).max())
    return d, float(p_two_sided(np.array(d), np.array(len(one)), np.array(len(other))))
