"""Counts of segments, request by request."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analyze.methods.robust.segments.segment_tests import Outcome
from schemas.arrays import F8, I8


def plain_counts(rows: Sequence[I8], outcome: Outcome, block: I8, n_blocks: int) -> tuple[F8, F8, F8, F8]:
    """Requests and hits of each segment, [values, blocks, strata], and of all, [blocks, strata]."""
    shape = (n_blocks, outcome.n_strata)
    n, x = (np.zeros((len(rows), *shape)) for _ in range(2))
    n_all, x_all = np.zeros(shape), np.zeros(shape)
    for at in range(len(block)):
        if not outcome.inside[at] or block[at] < 0:
            continue
        cell = int(block[at]), int(outcome.stratum[at])
        n_all[cell] += 1
        x_all[cell] += outcome.hit[at]
        for value, mine in enumerate(rows):
            if at in mine:
                n[(value, *cell)] += 1
                x[(value, *cell)] += outcome.hit[at]
    return n, x, n_all, x_all
