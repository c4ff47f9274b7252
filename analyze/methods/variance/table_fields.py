"""Columns that several of the method's tables have."""

from __future__ import annotations

from typing import Final

from schemas.report.columns import stored

SPREAD: Final = (
    stored("requests", "count", "recorded requests"),
    stored("mean_us", "us", "weighted mean, µs"),
    stored("sd_us", "us", "weighted standard deviation, µs"),
    stored("c2", "number", "squared coefficient of variation; more than 10 requests only", null=True),
    stored("c2_low", "number", "end of its 95 % interval", null=True),
    stored("c2_high", "number", "other end", null=True),
)
MARKER: Final = stored("marker", "text", "intentional, intrinsic, inadvertent; null without one", null=True)
