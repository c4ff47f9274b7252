"""Section `sums`: what contributions add up to."""

from __future__ import annotations

from typing import Literal

from schemas.report.section import Section


class SumsSection(Section):
    """What the paper's contributions add up to, beside what they should (B.1b, C.7).

    structural_exact_us + response_time_exact_us = total_change_us to rounding.
    """

    section: Literal["sums"] = "sums"
    total_change_us: float
    structural_estimate_us: float
    """Sum of the structural mutations' contributions."""
    structural_exact_us: float
    """Sum over all categories of mean1·(n1 - n0), mean0 where the category is empty in period 1."""
    structural_error: float | None
    """(estimate - exact) / |exact|."""
    response_time_estimate_us: float
    response_time_exact_us: float
    """Sum over all categories of n0·(mean1 - mean0)."""
    response_time_error: float | None
