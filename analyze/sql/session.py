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

from analyze.scope import LakePeriod
from analyze.sql.catalog import VIEWS, relation
from analyze.sql.connection import locked_connection, unreadable_file
from schemas.errors import ConfigError, LakeError, QueryError
from schemas.lake import FLOWS_SCHEMA, PARAMS_SCHEMA, STRUCTURES_SCHEMA
from schemas.quality import Quality
from schemas.rejects import REJECT_SCHEMA
from schemas.report.report_tables import MUTATIONS_SCHEMA, REQUESTS_SCHEMA

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
        # Reports of an earlier flowdiff may lack a column.
        "CREATE VIEW _mutations AS"
        " FROM read_parquet(getvariable('mutations_files'), filename = true, union_by_name = true)"
        " UNION ALL BY NAME FROM _empty_mutations",
        "CREATE VIEW _mutations AS SELECT *, '' AS filename FROM _empty_mutations",
    ),
    "report_requests": (
        "SET VARIABLE report_requests_files = ?",
        "CREATE VIEW _report_requests AS"
        " FROM read_parquet(getvariable('report_requests_files'), filename = true)",
        "CREATE VIEW _report_requests AS SELECT *, '' AS filename FROM _empty_report_requests",
    ),
    "dead_letters": (
        "SET VARIABLE dead_letters_files = ?",
        "CREATE VIEW _dead_letters AS FROM read_parquet(getvariable('dead_letters_files'), filename = true)",
        "CREATE VIEW _dead_letters AS SELECT *, '0-0-0' AS filename FROM _empty_dead_letters",
    ),
}
_SCHEMAS: Final = {
    "flows": FLOWS_SCHEMA,
    "structures": STRUCTURES_SCHEMA,
    "params": PARAMS_SCHEMA,
    "mutations": MUTATIONS_SCHEMA,
    "report_requests": REQUESTS_SCHEMA,
    "dead_letters": REJECT_SCHEMA,
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

    def __init__(self, connection: duckdb.DuckDBPyConnection, lake: Path, readable: Sequence[Path]) -> None:
        self._connection = connection
        self._lake = lake
        self._readable = readable

    def query(self, text: str, values: Sequence[object] = ()) -> pa.Table:
        """Run one reading statement, with `?` bound to `values`; the result as an Arrow table.

        Raises QueryError for a syntax error, an unknown name, several statements, or one that writes;
        LakeError where a file of the lake cannot be read.
        """
        return self.stream(text, values).read_all()

    def stream(self, text: str, values: Sequence[object] = ()) -> pa.RecordBatchReader:
        """Like `query`, but batch by batch: memory stays bounded for large results.

        What goes wrong late is raised by the reader, as the same errors.
        """
        try:
            statements = duckdb.extract_statements(text)
            if len(statements) != 1:
                raise QueryError(f"That is {len(statements)} statements.", remedy="Give one SELECT.")
            if statements[0].type not in _READING:
                raise QueryError(
                    "Only statements that read are allowed on a lake.",
                    remedy="Write a SELECT; for files use --format csv, json or parquet with --output.",
                )
            reader = self._connection.sql(text, params=list(values)).to_arrow_reader(BATCH_ROWS)
        except duckdb.Error as error:
            raise self._failure(error) from error
        return pa.RecordBatchReader.from_batches(reader.schema, self._batches(reader))

    def _batches(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        """Batches as they come. DuckDB's own errors arrive as OSError by way of Arrow's C interface."""
        try:
            yield from reader
        except OSError as error:
            raise self._failure(error) from error

    def _failure(self, error: Exception) -> LakeError | QueryError:
        """Whose fault it is: a file's, or the query's."""
        broken = unreadable_file(self._lake, self._readable, error)
        return QueryError(f"The query failed: {_first_lines(error)}") if broken is None else broken


def _first_lines(error: Exception) -> str:
    """DuckDB's message in one line, without its stack of hints."""
    return " ".join(line.strip() for line in str(error).splitlines()[:2] if line.strip())


@contextmanager
def open_session(found: LakePeriod, *, memory: str = "2GB", threads: int = 2) -> Iterator[Session]:
    """A locked session on one period of a lake (its filter aside), and on the lake's reports.

    `memory` bounds DuckDB, `threads` its workers. Raises ConfigError where `memory` is no size or too small,
    LakeError where a file cannot be read.
    """
    listed: dict[str, Sequence[Path]] = {
        "flows": found.flows,
        "structures": found.structures,
        "params": found.params,
        "mutations": sorted((found.root / "reports").glob("*/mutations.parquet")),
        "report_requests": sorted((found.root / "reports").glob("*/requests.parquet")),
        "dead_letters": found.dead_letters,
    }
    readable = [path for paths in listed.values() for path in paths]
    with locked_connection(readable, memory_limit=memory, threads=threads) as connection:
        connection.execute(_SET_BOUNDS[0], [found.period.start_ns])
        connection.execute(_SET_BOUNDS[1], [found.period.end_ns])
        try:
            _create_views(connection, listed)
        except duckdb.OutOfMemoryException as error:
            raise ConfigError(f"'{memory}' of memory is too little.", remedy="Raise --memory.") from error
        except duckdb.Error as error:
            broken = unreadable_file(found.root, readable, error)
            if broken is None:
                raise
            raise broken from error
        yield Session(connection, found.root, readable)


def _create_views(connection: duckdb.DuckDBPyConnection, listed: Mapping[str, Sequence[Path]]) -> None:
    for table, (set_files, read_files, read_nothing) in _LISTED.items():
        connection.register(f"_empty_{table}", _SCHEMAS[table].empty_table())
        if listed[table]:
            connection.execute(set_files, [[str(path) for path in listed[table]]])
            connection.execute(read_files)
        else:
            connection.execute(read_nothing)
    connection.execute(_ONE_STRUCTURE)
    flags = {"bit": [flag.value for flag in Quality], "name": [flag.name for flag in Quality]}
    connection.register("_quality_flags", pa.table(flags))
    connection.execute(_QUALITY_NAMES)
    for name in VIEWS:
        connection.execute(relation(name).sql)
