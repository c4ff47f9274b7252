"""Columns that several of the method's tables have."""

from __future__ import annotations

from typing import Final

import pyarrow as pa


def field(name: str, type_: pa.DataType, doc: str, *, nullable: bool = False) -> pa.Field:
    """A column and what it holds."""
    return pa.field(name, type_, nullable=nullable, metadata={"doc": doc})


SPREAD: Final = (
    field("requests", pa.int64(), "recorded requests"),
    field("mean_us", pa.float64(), "weighted mean, µs"),
    field("sd_us", pa.float64(), "weighted standard deviation, µs"),
    field("c2", pa.float64(), "squared coefficient of variation; more than 10 requests only", nullable=True),
    field("c2_low", pa.float64(), "end of its 95 % interval", nullable=True),
    field("c2_high", pa.float64(), "other end", nullable=True),
)
MARKER: Final = field(
    "marker", pa.string(), "intentional, intrinsic, inadvertent; null without one", nullable=True
)
