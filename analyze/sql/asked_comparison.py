"""Say what a query asks to compare: what crosses from its process to the one that compares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class AskedComparison:
    """The arguments of `compare` and `breakdown`."""

    reference: str
    problem: str
    history: str | None
    where: str | None
    reference_where: str | None
    problem_where: str | None
    method: str


Comparing = Callable[[AskedComparison], "Mapping[str, pa.Table]"]
"""Makes a comparison: its tables by name, `findings` and `account` among them. Raises FlowdiffError."""
