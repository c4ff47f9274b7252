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
"""Maximum number of rows shown in a notebook or at a prompt."""
WIDTH: Final = 400
"""Maximum width of a line at a prompt, characters."""


@dataclass(frozen=True, slots=True, repr=False)
class Table:
    """Rows and named columns. `polars.DataFrame(table)` and `duckdb.sql("from table")` accept it."""

    _arrow: pa.Table

    def arrow(self) -> pa.Table:
        """The rows as an Arrow table, without a copy."""
        return self._arrow

    def df(self) -> pd.DataFrame:
        """The rows as a pandas DataFrame. Raises ConfigError if pandas is not installed."""
        with needed():
            import pandas as pd  # noqa: F401 - Arrow's own message has no name of the package
        return self._arrow.to_pandas()

    def pl(self) -> pl.DataFrame:
        """The rows as a polars DataFrame. Raises ConfigError if polars is not installed."""
        with needed():
            import polars as pl
        return pl.DataFrame(self._arrow)

    def rows(self) -> list[dict[str, Any]]:
        """The rows as dictionaries, column name -> value."""
        rows: list[dict[str, Any]] = self._arrow.to_pylist()
        return rows

    @property
    def columns(self) -> list[str]:
        """Names of the columns, in order."""
        names: list[str] = self._arrow.column_names
        return names

    def __len__(self) -> int:
        return int(self._arrow.num_rows)

    def __getitem__(self, column: str) -> list[Any]:
        """Values of one column, one per row. Raises KeyError for an unknown name."""
        values: list[Any] = self._arrow[column].to_pylist()
        return values

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the rows through Arrow's C stream interface, by which other libraries read them."""
        return self._arrow.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        from rich.table import Table as Drawn
        from rich.text import Text

        from flowdiff.cli.terminal import drawn

        columns, rows = self._head()
        table = Drawn(box=None, header_style="", pad_edge=False)
        for name in columns:
            table.add_column(Text(name))
        for row in rows:
            table.add_row(*map(Text, row))
        return f"{drawn(lambda console: console.print(table), WIDTH)}{len(self):,} rows"

    def _repr_html_(self) -> str:
        from html import escape

        names, rows = self._head()
        head = "".join(f"<th>{escape(name)}</th>" for name in names)
        body = "".join(f"<tr>{''.join(f'<td>{escape(value)}</td>' for value in row)}</tr>" for row in rows)
        return f"<table><tr>{head}</tr>{body}</table><p>{len(self):,} rows</p>"

    def _head(self) -> tuple[list[str], list[list[str]]]:
        """Column names and first rows as texts for display, control characters made visible."""
        from analyze.sql.values import python_values
        from schemas.visible import visible

        shown = [python_values(column.combine_chunks()) for column in self._arrow.slice(0, SHOWN).columns]
        rows = [["" if one is None else visible(str(one)) for one in row] for row in zip(*shown, strict=True)]
        return [visible(name) for name in self.columns], rows
