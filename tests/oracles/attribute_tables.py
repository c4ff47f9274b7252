"""Tables of attributes made by hand or by lot, without a population behind them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from analyze.explain.columns import REQUEST, AttributeColumn, text_column
from analyze.explain.settings import SETTINGS
from analyze.explain.table import FeatureTable, time_blocks
from schemas.report.explanations import Contrast


def numbers(key: str, values: Sequence[float] | np.ndarray, where: str = REQUEST) -> AttributeColumn:
    return AttributeColumn(where, key, np.asarray(values, dtype=np.float64))


def words(key: str, values: Sequence[str | None], where: str = REQUEST) -> AttributeColumn:
    """None is missing."""
    known = sorted({value for value in values if value is not None})
    codes = np.array([-1 if value is None else known.index(value) for value in values], np.int32)
    return text_column(where, key, codes, tuple(known))


def table(
    affected: np.ndarray, columns: Sequence[AttributeColumn], start_ns: np.ndarray | None = None
) -> FeatureTable:
    """Classes of two periods; time is the order of the rows unless given."""
    label = np.asarray(affected, dtype=np.bool_)
    time = np.arange(len(label), dtype=np.int64) if start_ns is None else start_ns
    return FeatureTable(
        contrast=Contrast(
            affected="affected requests",
            others="other requests",
            n_affected=int(label.sum()),
            n_others=int((~label).sum()),
        ),
        affected=label,
        block=time_blocks(time, label, SETTINGS.blocks, apart=True),
        fold=time_blocks(time, label, SETTINGS.folds, apart=True),
        columns=tuple(columns),
        identifiers=(),
        had_columns=bool(columns),
    )


def noise(rng: np.random.Generator, n: int, n_numbers: int, n_words: int) -> list[AttributeColumn]:
    """Columns that have nothing to do with anything: numbers of three laws, words of 2 to 60 levels."""
    laws: tuple[Callable[[int], np.ndarray], ...] = (
        rng.standard_normal,
        rng.standard_exponential,
        lambda n: rng.integers(0, 6, n).astype(np.float64),
    )
    columns = [numbers(f"number{i}", laws[i % 3](n)) for i in range(n_numbers)]
    for i in range(n_words):
        levels = int(rng.integers(2, 61))
        codes = rng.choice(levels, size=n, p=rng.dirichlet(np.ones(levels))).astype(np.int32)
        columns.append(text_column(REQUEST, f"word{i}", codes, tuple(f"w{j}" for j in range(levels))))
    return columns
