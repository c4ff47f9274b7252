"""Sums over blocks of a period from its requests, exactly: what `profile_blocks` makes of bins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analyze.methods.robust.period_blocks import PeriodBlocks
from analyze.population import Population
from schemas.arrays import B1, F8, I4, I8

TAIL_LEVELS = (0.95, 0.99)
LEAST_TAIL = 5.0

BLOCKS = 8
"""Few, and so long: a block must be longer than a burst. Two periods leave 14 degrees of freedom."""
_NS_PER_S = 1e9
_LEAST_US = 1e-3
"""Shorter times count as this where a logarithm is taken."""


@dataclass(frozen=True, slots=True)
class PeriodRequests:
    """The requests of one sample; arrays are [requests], in no particular order."""

    start_ns: I8
    response_us: F8
    weight: F8
    failed: B1
    """The root has a status other than `ok`."""
    root: I4
    """Index of the root type."""


def root_types(population: Population) -> tuple[str, ...]:
    """Root types, ascending."""
    return tuple(sorted({category.graph.root for category in population.categories}))


def period_requests(population: Population, sample: int) -> PeriodRequests:
    """The requests of a sample."""
    codes = {root: code for code, root in enumerate(root_types(population))}
    fine = population.statuses.index("ok") if "ok" in population.statuses else -1
    parts = [(category, category.rows(sample)) for category in population.categories]
    root = [np.full(rows.stop - rows.start, codes[c.graph.root], np.int32) for c, rows in parts]
    return PeriodRequests(
        start_ns=np.concatenate([np.zeros(0, np.int64), *(c.start_ns[rows] for c, rows in parts)]),
        response_us=np.concatenate([np.zeros(0), *(c.response_ns[rows] / 1e3 for c, rows in parts)]),
        weight=np.concatenate([np.zeros(0), *(c.weight[rows] for c, rows in parts)]),
        failed=np.concatenate([np.zeros(0, np.bool_), *(c.status[rows] != fine for c, rows in parts)]),
        root=np.concatenate([np.zeros(0, np.int32), *root]),
    )


def tail_thresholds(reference: PeriodRequests, levels: Sequence[float] = TAIL_LEVELS) -> tuple[float, ...]:
    """Response times over which a request is slow, µs: weighted quantiles that enough lie above."""
    n = len(reference.response_us)
    usable = [level for level in levels if n * (1 - level) >= LEAST_TAIL * (1 - 1e-9)]
    if not usable:
        return ()
    us, weight = reference.response_us, reference.weight
    found: list[float] = np.quantile(us, usable, method="inverted_cdf", weights=weight).tolist()
    return tuple(found)


def period_blocks(
    requests: PeriodRequests,
    n_roots: int,
    ranges: Sequence[tuple[int, int]],
    thresholds_us: Sequence[float] = (),
    *,
    blocks: int = BLOCKS,
) -> PeriodBlocks:
    """Sums over blocks of equal time.

    ranges: the period, half open ns, ascending; time between them is not there. A request outside of them
    counts to the nearest block. An empty list (a sample made by hand) stands for the requests' own span.
    """
    spans = list(ranges) or [_own_span(requests.start_ns)]
    starts = np.array([start for start, _ in spans], dtype=np.int64)
    lengths = np.array([max(end - start, 0) for start, end in spans], dtype=np.int64)
    before = np.concatenate(([0], np.cumsum(lengths)))
    span = np.clip(np.searchsorted(starts, requests.start_ns, side="right") - 1, 0, len(spans) - 1)
    inside = before[span] + np.clip(requests.start_ns - starts[span], 0, lengths[span])
    total = max(int(before[-1]), 1)
    block = np.minimum((inside.astype(np.float64) * (blocks / total)).astype(np.int64), blocks - 1)
    cell = block * n_roots + requests.root

    def sums(values: F8 | None) -> F8:
        found = np.bincount(cell, values, blocks * n_roots).reshape(blocks, n_roots)
        return found.astype(np.float64)

    weight = requests.weight
    logs = np.log(np.maximum(requests.response_us, _LEAST_US))
    slow = [
        np.bincount(block, weight * (requests.response_us > limit), blocks).astype(np.float64)
        for limit in thresholds_us
    ]
    return PeriodBlocks(
        seconds=np.full(blocks, total / _NS_PER_S / blocks),
        requests=sums(None),
        weight=sums(weight),
        weight2=sums(weight**2),
        time_us=sums(weight * requests.response_us),
        square_us2=sums(weight * requests.response_us**2),
        log_us=sums(weight * logs),
        log_square=sums(weight * logs**2),
        failed=sums(weight * requests.failed),
        failing=sums(weight * requests.failed),
        slow=np.stack(slow, axis=1) if slow else np.zeros((blocks, 0)),
        thresholds_us=tuple(thresholds_us),
    )


def _own_span(start_ns: I8) -> tuple[int, int]:
    return (int(start_ns.min()), int(start_ns.max()) + 1) if len(start_ns) else (0, 1)
