"""Requests drawn from distinct rows, by weight: what is too slow on all of them runs on these."""

from __future__ import annotations

import numpy as np

from schemas.arrays import F8, I8


def drawn_rows(weight: F8, most: int, seed: int) -> tuple[I8, F8]:
    """(rows, weights) of at most so many rows: all of them, or `most` requests drawn with replacement.

    A row that is drawn several times is there once, with that weight. Deterministic.
    """
    if len(weight) <= most:
        return np.arange(len(weight), dtype=np.int64), weight
    counts = np.random.default_rng(seed).multinomial(most, weight / weight.sum())
    rows = np.flatnonzero(counts)
    return rows.astype(np.int64), counts[rows].astype(np.float64)


def halves(weight: F8, seed: int) -> tuple[F8, F8]:
    """Weights of two halves: every request goes to one, by a fair coin. Fractions of a weight go along."""
    rng = np.random.default_rng(seed)
    whole = np.maximum(np.rint(weight), 1).astype(np.int64)
    part = rng.binomial(whole, 0.5) / whole
    return weight * part, weight * (1 - part)
