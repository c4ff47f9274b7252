"""Request for a comparison, sent by the process that runs a query to the process that compares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def _always() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class AskedComparison:
    """Arguments of one call of the SQL functions `compare` or `breakdown`."""

    reference: str
    problem: str
    history: str | None
    where: str | None
    reference_where: str | None
    problem_where: str | None
    method: str
    is_wanted: Callable[[], bool] = field(default=_always, compare=False, repr=False)
    """Function that returns False once the query has ended; set by the process that compares."""


Comparing = Callable[[AskedComparison], "Mapping[str, pa.Table]"]
"""Function that makes a comparison, and returns table name -> table (at least `findings` and `account`).
Raises FlowdiffError.
"""
