"""Response-time mutations: KS on response time, then on critical-path edges (ALGORITHMS B.1, B.1b)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analyze.methods.spectroscope.paper_settings import PaperSettings
from analyze.population import Category
from analyze.stats.ks import KsColumns, effective_size, ks_columns, p_one_sided, p_two_sided

I8 = npt.NDArray[np.int64]
F8 = npt.NDArray[np.float64]
B1 = npt.NDArray[np.bool_]

NS_PER_MS = 1_000_000
RELEASED_LEAST_SIZE = 4.0
"""`released` skips a test with n0·n1/(n0+n1) below this (B.1b)."""


@dataclass(frozen=True, slots=True)
class KsTests:
    """KS tests, one an entry; `d` and `p` are NaN where the test was not run."""

    n0: I8
    n1: I8
    d: F8
    p: F8
    changed: B1
    """Rejected at p < alpha."""


def response_time_tests(categories: Sequence[Category], settings: PaperSettings) -> KsTests:
    """KS of every category's response times."""
    parts = [
        run_tests(category.response_ns[:, None], category.sample == 1, None, settings)
        for category in categories
    ]
    if not parts:
        none = np.zeros(0)
        return KsTests(none.astype(np.int64), none.astype(np.int64), none, none, none.astype(np.bool_))
    return KsTests(
        n0=np.concatenate([part.n0 for part in parts]),
        n1=np.concatenate([part.n1 for part in parts]),
        d=np.concatenate([part.d for part in parts]),
        p=np.concatenate([part.p for part in parts]),
        changed=np.concatenate([part.changed for part in parts]),
    )


def run_tests(values_ns: I8, problem: B1, critical: B1 | None, settings: PaperSettings) -> KsTests:
    """KS of each column of [rows, columns] latencies, on the values with `critical` set (None: all).

    `text`: two-sided on ns, run where both periods have more than `min_requests` values. `released`: zero
    latencies are dropped, the rest rounded half up to whole ms, the test is one-sided (slower) and runs where
    n0·n1/(n0+n1) >= 4, so an edge in one period only is never significant. Zeros are dropped before rounding:
    the other order would drop every latency under 0.5 ms, and the published 500 µs case could not have been
    found on its 100 µs edge.
    """
    if settings.variant == "released":
        include = values_ns > 0 if critical is None else critical & (values_ns > 0)
        tested = ks_columns((values_ns + NS_PER_MS // 2) // NS_PER_MS, problem, include)
        run = effective_size(tested.n0, tested.n1) >= RELEASED_LEAST_SIZE
        return _decide(
            tested, tested.d_slower, p_one_sided(tested.d_slower, tested.n0, tested.n1), run, settings
        )
    tested = ks_columns(values_ns, problem, critical)
    run = np.minimum(tested.n0, tested.n1) > settings.min_requests
    return _decide(tested, tested.d, p_two_sided(tested.d, tested.n0, tested.n1), run, settings)


def _decide(tested: KsColumns, d: F8, p: F8, run: B1, settings: PaperSettings) -> KsTests:
    p = np.where(run, p, np.nan)
    return KsTests(tested.n0, tested.n1, np.where(run, d, np.nan), p, run & (p < settings.alpha))
