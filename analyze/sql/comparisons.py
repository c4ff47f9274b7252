"""Compare two periods within a query: `select * from compare('2026-11-18', '2026-11-19')`.

`compare` and `breakdown` are macros over a Python function that requests a comparison and returns its rows,
so that DuckDB evaluates the arguments: constants, parameters, columns of a table of deployments. The
comparison itself is made by the process that opened the session, outside of the one that runs untrusted SQL:
that process stays locked, and gets rows instead of paths.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from threading import Lock
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa
from duckdb.func import FunctionNullHandling, PythonUDFType

from analyze.sql.asked_comparison import AskedComparison, Comparing
from analyze.sql.catalog import named_type, report_tables
from analyze.sql.connection import statement
from schemas.errors import QueryError

COMPARING: Final = {"compare": "findings", "breakdown": "account"}
"""SQL function -> table that it returns; the columns are those of the view of the same name, without
`report`."""
MOST_COMPARISONS: Final = 100
"""Maximum number of comparisons in one session, because a join with a column of periods makes one per row."""

_NAMED_WHERE: Final = re.compile(
    r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$|--[^\n]*|/\*.*?\*/"
    r"|\b(?P<where>where)(?=\s*(?::=|=>))",
    re.DOTALL | re.IGNORECASE,
)


class Comparisons:
    """DuckDB functions behind `compare` and `breakdown`; a comparison that is requested twice is made
    once.
    """

    def __init__(self, comparing: Comparing) -> None:
        self._comparing = comparing
        self._made: dict[AskedComparison, Mapping[str, pa.Table]] = {}
        self._lock = Lock()

    def add_to(self, connection: duckdb.DuckDBPyConnection, noted: Callable[[Any], Any]) -> None:
        """Register both table functions. noted: wraps a function so that its FlowdiffErrors reach the caller
        unchanged.
        """
        for name, table in COMPARING.items():
            schema = report_tables()[table]
            connection.create_function(
                f"_{table}",
                noted(self._function(table, schema)),
                ["VARCHAR" for argument in fields(AskedComparison) if argument.compare],
                f"STRUCT({', '.join(map(named_type, schema))})[]",
                type=PythonUDFType.ARROW,
                null_handling=FunctionNullHandling.SPECIAL,
            )
            connection.execute(statement(name))

    def _function(self, table: str, schema: pa.Schema) -> Callable[..., pa.Array]:
        """Make the DuckDB function that returns one table.

        The parameters of the function are spelled out, as DuckDB inspects them.
        """

        def rows(
            reference: pa.ChunkedArray,
            problem: pa.ChunkedArray,
            history: pa.ChunkedArray,
            where: pa.ChunkedArray,
            reference_where: pa.ChunkedArray,
            problem_where: pa.ChunkedArray,
            method: pa.ChunkedArray,
        ) -> pa.Array:
            """List of result rows, as structs, for each call; arguments are columns with one value per
            call."""
            columns = (reference, problem, history, where, reference_where, problem_where, method)
            parts = [self._tables(asked)[table] for asked in _calls(columns)]
            ends = np.cumsum([0, *(part.num_rows for part in parts)])
            joined = pa.concat_tables([schema.empty_table(), *(part.cast(schema) for part in parts)])
            values = joined.to_struct_array().combine_chunks()
            return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), values)

        return rows

    def _tables(self, asked: AskedComparison) -> Mapping[str, pa.Table]:
        with self._lock:
            if asked not in self._made:
                if len(self._made) == MOST_COMPARISONS:
                    raise QueryError(
                        f"The query asks for more than {MOST_COMPARISONS} comparisons.",
                        remedy="Filter the rows that give the periods, or ask in several sessions.",
                    )
                self._made[asked] = self._comparing(asked)
            return self._made[asked]


def _calls(columns: Sequence[pa.ChunkedArray]) -> Iterator[AskedComparison]:
    """Yield the comparison requested by each call. Raises QueryError if a required argument is null."""
    for call in zip(*(column.to_pylist() for column in columns), strict=True):
        asked = AskedComparison(*call)
        for name in ("reference", "problem", "method"):
            if getattr(asked, name) is None:
                raise QueryError(
                    f"A comparison has no {name}: it is null.",
                    remedy="Write compare('2026-11-18', '2026-11-19').",
                )
        yield asked


def with_named_where(text: str) -> str:
    """Quote the argument name `where :=` in a statement, as WHERE is a keyword of SQL."""
    return _NAMED_WHERE.sub(lambda found: f'"{found["where"]}"' if found["where"] else found[0], text)
