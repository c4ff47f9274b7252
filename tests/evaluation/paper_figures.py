"""Compare a run with the papers' traces: NSDI Table 1 and Figure 6."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from evaluation.truth import signature

from simulator.trace import Trace, decode

LARGE = 10
"""A category with more requests than this is large (NSDI 7)."""


@dataclass(frozen=True, slots=True)
class PaperFigures:
    """The figures of Table 1 and Figure 6, and graph sizes (NSDI 6.2)."""

    requests: int
    categories: int
    large_pct: float
    """Large categories, per cent of all."""
    in_large_pct: float
    """Requests in large categories, per cent."""
    low_variance_pct: float | None
    """Large categories with C² of the response time below 1, per cent; None where none is large."""
    max_c2: float | None
    """None where no category is large."""
    nodes_mean: float
    nodes_sd: float


PAPER = {
    "linux-build": PaperFigures(145_167, 351, 25.3, 99.7, 96.0, 394.0, 12, 40),
    "postmark-large": PaperFigures(131_113, 716, 29.9, 99.2, 99.0, 6.88, 66, 65),
    "sfs97": PaperFigures(210_669, 1602, 14.7, 98.9, 88.0, 50.3, 30, 51),
}


def categorise(traces: Sequence[Trace], with_host: bool = True) -> tuple[list[str], np.ndarray]:
    """Signatures, and [requests] the index into them, over all traces in order."""
    known: dict[str, int] = {}
    parts = []
    for trace in traces:
        local = np.array(
            [known.setdefault(signature(decode(raw), with_host), len(known)) for raw in trace.structures],
            dtype=np.int64,
        )
        parts.append(local[trace.structure])
    return list(known), np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def fit(traces: Sequence[Trace]) -> PaperFigures:
    """Measure a run. Categories with hosts in the labels, as in the papers."""
    names, category = categorise(traces)
    response = np.concatenate([t.response_ns for t in traces]).astype(np.float64) / 1e3
    nodes = np.concatenate([np.diff(t.first_step) for t in traces])
    n = np.bincount(category, minlength=len(names))
    total = np.bincount(category, response, len(names))
    squares = np.bincount(category, response * response, len(names))
    large = n > LARGE
    mean = total[large] / n[large]
    variance = (squares[large] - n[large] * mean * mean) / (n[large] - 1)
    c2 = variance / (mean * mean)
    return PaperFigures(
        requests=len(category),
        categories=len(names),
        large_pct=100.0 * float(large.mean()),
        in_large_pct=100.0 * float(n[large].sum() / n.sum()),
        low_variance_pct=100.0 * float((c2 < 1.0).mean()) if large.any() else None,
        max_c2=float(c2.max()) if large.any() else None,
        nodes_mean=float(nodes.mean()),
        nodes_sd=float(nodes.std()),
    )
