"""A read-only DuckDB session on a period of a lake: the views of `analyze.sql.catalog` over its files.

Locked down before any user text runs: no other files, no network, no extensions, no change of settings,
and only statements that read. The files are listed, never globbed, so that a concurrent import is not
seen half.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa

from analyze.load import LakePeriod
from analyze.report.tables import MUTATIONS_SCHEMA
from analyze.sql.catalog import VIEWS, relation
from analyze.sql.connection import locked_connection
from schemas.errors import QueryError
from schemas.lake import FLOWS_SCHEMA, PARAMS_SCHEMA, STRUCTURES_SCHEMA
from schemas.quality import Quality

# A view reads its files through a variable: the statement is constant, the list is a bound value. A table
# without files is an empty one of its schema. `filename` and `window` are DuckDB's virtual columns.
_LISTED: Final = {
    "flows": (
        "SET VARIABLE flows_files = ?",
        "CREATE VIEW _flows AS FROM read_parquet(getvariable('flows_files'), hive_partitioning = true)"
        " WHERE start_ns >= getvariable('from_ns') AND start_ns < getvariable('to_ns')",
        "CREATE VIEW _flows AS SELECT *, '' AS \"window\" FROM _empty_flows",
    ),
    "structures": (
        "SET VARIABLE structures_files = ?",
        "CREATE VIEW _structures AS"
        " FROM read_parquet(getvariable('structures_files'), hive_partitioning = true)",
        "CREATE VIEW _structures AS SELECT *, '' AS \"window\" FROM _empty_structures",
    ),
    "params": (
        "SET VARIABLE params_files = ?",
        "CREATE VIEW _params AS FROM read_parquet(getvariable('params_files'), hive_partitioning = true)",
        "CREATE VIEW _params AS SELECT *, '' AS \"window\" FROM _empty_params",
    ),
    "mutations": (
        "SET VARIABLE mutations_files = ?",
        "CREATE VIEW _mutations AS FROM read_parquet(getvariable('mutations_files'), filename = true)",
        "CREATE VIEW _mutations AS SELECT *, '' AS filename FROM _empty_mutations",
    ),
}
_SCHEMAS: Final = {
    "flows": FLOWS_SCHEMA,
    "structures": STRUCTURES_SCHEMA,
    "params": PARAMS_SCHEMA,
    "mutations": MUTATIONS_SCHEMA,
}

_SET_BOUNDS: Final = ("SET VARIABLE from_ns = ?::BIGINT", "SET VARIABLE to_ns = ?::BIGINT")

# Every window folder stands alone, so a structure is stored once a window: one of the copies is enough.
_ONE_STRUCTURE: Final = (
    'CREATE VIEW _structure AS SELECT DISTINCT ON (category) * EXCLUDE ("window") FROM _structures'
)
_QUALITY_NAMES: Final = (
    "CREATE MACRO quality_names(mask) AS"
    " (SELECT list(name ORDER BY bit) FROM _quality_flags WHERE (mask & bit) <> 0)"
)

BATCH_ROWS: Final = 65_536
"""Rows of one batch of a streamed result."""

# COPY, ATTACH, SET and the like are refused by type: an allowed path may otherwise be written too.
_READING: Final = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN)


class Session:
    """Queries on one snapshot of a lake. Get one from `open_session`."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection

    def query(self, text: str, values: Sequence[object] = ()) -> pa.Table:
        """Run one reading statement, with `?` bound to `values`; the result as an Arrow table.

        Raises QueryError for a syntax error, an unknown name, several statements, or one that writes.
        """
        return self.stream(text, values).read_all()

    def stream(self, text: str, values: Sequence[object] = ()) -> pa.RecordBatchReader:
        """Like `query`, but batch by batch: memory stays bounded for large results."""
        try:
            statements = duckdb.extract_statements(text)
            if len(statements) != 1:
                raise QueryError(f"That is {len(statements)} statements.", remedy="Give one SELECT.")
            if statements[0].type not in _READING:
                raise QueryError(
                    "Only statements that read are allowed on a lake.",
                    remedy="Write a SELECT; for files use --format csv, json or parquet with --output.",
                )
            return self._connection.sql(text, params=list(values)).to_arrow_reader(BATCH_ROWS)
        except duckdb.Error as error:
            raise QueryError(f"The query failed: {_first_lines(error)}") from error


def _first_lines(error: duckdb.Error) -> str:
    """DuckDB's message in one line, without its stack of hints."""
    return " ".join(line.strip() for line in str(error).splitlines()[:2] if line.strip())


@contextmanager
def open_session(found: LakePeriod, *, memory: str = "2GB", threads: int = 2) -> Iterator[Session]:
    """A locked session on one period of a lake (its filter aside), and on the lake's reports.

    `memory` bounds DuckDB, `threads` its workers.
    """
    listed: dict[str, Sequence[Path]] = {
        "flows": found.flows,
        "structures": found.structures,
        "params": found.params,
        "mutations": sorted((found.root / "reports").glob("*/mutations.parquet")),
    }
    readable = [path for paths in listed.values() for path in paths]
    with locked_connection(readable, memory_limit=memory, threads=threads) as connection:
        connection.execute(_SET_BOUNDS[0], [found.period.start_ns])
        connection.execute(_SET_BOUNDS[1], [found.period.end_ns])
        _create_views(connection, listed)
        yield Session(connection)


def _create_views(connection: duckdb.DuckDBPyConnection, listed: Mapping[str, Sequence[Path]]) -> None:
    for table, (set_files, read_files, read_nothing) in _LISTED.items():
        if listed[table]:
            connection.execute(set_files, [[str(path) for path in listed[table]]])
            connection.execute(read_files)
        else:
            connection.register(f"_empty_{table}", _SCHEMAS[table].empty_table())
            connection.execute(read_nothing)
    connection.execute(_ONE_STRUCTURE)
    flags = {"bit": [flag.value for flag in Quality], "name": [flag.name for flag in Quality]}
    connection.register("_quality_flags", pa.table(flags))
    connection.execute(_QUALITY_NAMES)
    for name in VIEWS:
        connection.execute(relation(name).sql)
