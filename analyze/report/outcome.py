"""What a run gives: the report, its complete tables, and how to show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from analyze.report.section_view import Views
from schemas.report.report import Report


@dataclass(frozen=True, slots=True)
class Weighed:
    """One thing found, as a gate weighs it."""

    kind: str
    """`structural`, `response-time`, or another kind that the method distinguishes."""
    us: float | None
    """Change of summed response time that it stands for, µs; None: it is no matter of time (errors)."""
    sure: bool = True
    """False: something of this kind may be there and was not found, or there is a change without a cause."""
    better: bool = False
    """It is known to be for the better: faster, or failing less."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A report and what belongs to it."""

    report: Report
    tables: Mapping[str, pa.Table]
    """Complete, by name."""
    views: Views
    """Of every section of the report."""
    weighed: Sequence[Weighed]
    """Everything that the first method found, uncut."""
