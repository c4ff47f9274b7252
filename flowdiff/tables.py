"""Tables that convert to anything that reads Arrow: pandas, polars, DuckDB, a notebook."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from flowdiff.extras import needed

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

SHOWN: Final = 20
"""Rows shown in a notebook or a prompt."""


@dataclass(frozen=True, slots=True, repr=False)
class Table:
    """Rows and named columns. `polars.DataFrame(table)` and `duckdb.sql("from table")` accept it."""

    _arrow: pa.Table

    def arrow(self) -> pa.Table:
        """Arrow table, without a copy."""
        return self._arrow

    def df(self) -> pd.DataFrame:
        """Pandas DataFrame. Raises ConfigError without pandas."""
        with needed():
            import pandas as pd  # noqa: F401 - Arrow's own message has no name of the package
        return self._arrow.to_pandas()

    def pl(self) -> pl.DataFrame:
        """Polars DataFrame. Raises ConfigError without polars."""
        with needed():
            import polars as pl
        return pl.DataFrame(self._arrow)

    def rows(self) -> list[dict[str, Any]]:
        """Rows as dictionaries."""
        rows: list[dict[str, Any]] = self._arrow.to_pylist()
        return rows

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        names: list[str] = self._arrow.column_names
        return names

    def __len__(self) -> int:
        return int(self._arrow.num_rows)

    def __getitem__(self, column: str) -> list[Any]:
        """Values of a column. Raises KeyError."""
        values: list[Any] = self._arrow[column].to_pylist()
        return values

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Arrow's exchange interface."""
        return self._arrow.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        from rich.console import Console
        from rich.table import Table as Drawn

        drawn = Drawn(*self.columns, box=None, header_style="", pad_edge=False)
        for row in self._head():
            drawn.add_row(*row)
        console = Console(width=400, color_system=None, markup=False, emoji=False)
        with console.capture() as text:
            console.print(drawn)
        return f"{text.get()}{len(self):,} rows"

    def _repr_html_(self) -> str:
        from html import escape

        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        rows = "".join(
            f"<tr>{''.join(f'<td>{escape(value)}</td>' for value in row)}</tr>" for row in self._head()
        )
        return f"<table><tr>{head}</tr>{rows}</table><p>{len(self):,} rows</p>"

    def _head(self) -> list[list[str]]:
        from analyze.sql.values import python_values

        shown = [python_values(column.combine_chunks()) for column in self._arrow.slice(0, SHOWN).columns]
        return [["" if value is None else str(value) for value in row] for row in zip(*shown, strict=True)]
