"""Rows of trials put together: means over seeds, chosen by case, telling, size and mode."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Row = dict[str, Any]

METRICS = (
    "results",
    "relevant",
    "top10_pct",
    "false_positive_pct",
    "coverage_pct",
    "first_rank",
    "false_members_pct",
    "causes_named",
    "explained_error_points",
    "seconds",
)


@dataclass(frozen=True, slots=True)
class Mean:
    """One figure over the seeds; None where no seed has it."""

    value: float | None
    low: float | None
    high: float | None
    missing: int
    """Seeds without it (no rank: nothing relevant was shown)."""

    def text(self, digits: int = 0) -> str:
        """For a table: mean, with the range over seeds where there is one; `–` for none."""
        if self.value is None or self.low is None or self.high is None:
            return "–"
        if self.high - self.low < 0.5 * 10**-digits:
            return f"{self.value:,.{digits}f}"
        return f"{self.value:,.{digits}f} ({self.low:,.{digits}f}…{self.high:,.{digits}f})"


def mean(values: Iterable[float | None]) -> Mean:
    """Mean and range of the values that are there."""
    every = list(values)
    there = [v for v in every if v is not None]
    missing = len(every) - len(there)
    if not there:
        return Mean(None, None, None, missing)
    return Mean(float(np.mean(there)), min(there), max(there), missing)


@dataclass(frozen=True, slots=True)
class Table:
    """Finished trials of one evaluation."""

    trials: Sequence[Row]
    main_size: dict[str, int]
    """Case -> traced requests of the rows that are not part of the sweep over sizes."""

    @staticmethod
    def of(content: Row, sizes: dict[str, int]) -> Table:
        """`content` as in docs/internals/evaluation.json."""
        return Table(content["trials"], sizes)

    def select(
        self, case: str, told_as: str = "native", *, traced: int | None = None, windows: int = 1
    ) -> list[Row]:
        """Trials of a case; `traced` None is its main size."""
        size = self.main_size.get(case) if traced is None else traced
        return [
            t
            for t in self.trials
            if (t["case"], t["told_as"], t["windows"]) == (case, told_as, windows)
            and (size is None or t["traced"] == size)
        ]

    def with_threshold(self) -> list[str]:
        """Names of modes that use the structural threshold."""
        used = {r["mode"] for t in self.trials for r in t["rows"] if r["threshold"]}
        return [mode for mode in self.modes() if mode in used]

    def with_findings(self) -> list[str]:
        """Names of modes whose results are findings."""
        there = {r["mode"] for t in self.trials for r in t["rows"] if "titles" in r and not r["threshold"]}
        return [mode for mode in self.modes() if mode in there]

    def modes(self) -> list[str]:
        """Names of modes, in the order of the rows, without the ceiling."""
        return list(
            dict.fromkeys(r["mode"] for t in self.trials for r in t["rows"] if r["mode"] != "ceiling")
        )


def rows_of(trials: Sequence[Row], mode: str, sm: str = "scaled") -> list[Row]:
    """One row a trial."""
    return [r for t in trials for r in t["rows"] if r["mode"] == mode and r["sm"] == sm]


def means(rows: Sequence[Row]) -> dict[str, Mean]:
    """Every metric over the rows."""
    return {name: mean(r.get(name) for r in rows) for name in METRICS}
