"""The tables behind the views, each bound by the first query that uses it.

A broken file affects only the queries that need it. Until its files are bound, the view `_<table>` has the
table's columns, and fails if a query reads a row; for a table without files the view is empty. Every window
folder repeats its structures, so duplicates of a category are dropped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from analyze.scope import LakePeriod
from analyze.sql.catalog import VIEWS, named_type, relation, report_tables, watch_tables
from schemas.lake import READINGS_SCHEMA, STRUCTURES_SCHEMA, TABLES
from schemas.rejects import REJECT_SCHEMA


def _read_structures_once(found: LakePeriod, paths: Sequence[Path]) -> pa.Table:
    """Read structures, one row per category, with STRUCTURES_SCHEMA. Memory: the result and one file. Raises
    LakeError."""
    from stitch.lake.encoding import read_structures

    known = pa.array([], pa.string())
    parts = [STRUCTURES_SCHEMA.empty_table()]
    for path in paths:
        rows = read_structures(path, lake=found.lake, name=found.name_of(path))
        new = rows.filter(pc.invert(pc.is_in(rows["category"], value_set=known)))
        if new.num_rows:
            parts.append(new)
            known = pa.concat_arrays([known, new["category"].combine_chunks()])
    return pa.concat_tables(parts)


def _read_readings(found: LakePeriod, paths: Sequence[Path]) -> pa.Table:
    """Read numeric parameters, one row per category, with READINGS_SCHEMA; takes 10 µs per node. Raises
    LakeError."""
    from stitch.readings import readings_of

    return readings_of(_read_structures_once(found, paths))


def _read_watch(table: str) -> Callable[[LakePeriod, Sequence[Path]], pa.Table]:
    """Make a function that reads and verifies a table of the watch; it raises LakeError."""

    def read(found: LakePeriod, _: Sequence[Path]) -> pa.Table:
        from stitch.lake.watch_files import read_rows_of

        return read_rows_of(found.store, table)

    return read


@dataclass(frozen=True, slots=True)
class StoredTable:
    """A table that views read: its schema, and its SQL statements, in which `@` stands for the name of the
    table."""

    name: str
    schema: Callable[[], pa.Schema]
    """Function that returns the schema of the table.

    Called on demand: building the models of reports takes longer than opening a session.
    """
    source: str
    """SQL of the relation that the table's view reads once its files are bound."""
    with_filename: bool = False
    """True if the view appends a column with the file name of each row."""
    rows: Callable[[LakePeriod, Sequence[Path]], pa.Table] | None = None
    """Function that reads all rows, for files that DuckDB does not read; None: DuckDB reads the files."""
    windows: Literal["dated", "joined"] | None = None
    """Windows whose files a statement reads. `dated`: the windows that its filters on the table's
    times (`start_ns`, `started_at`, `window_start`) leave; `joined`: views join the table to dated ones,
    so the windows of these; None: the table is of the whole lake."""
    is_made: bool = False
    """True if the caller computes the rows, as for statistics; False: they are read from files."""

    @property
    def is_arrow(self) -> bool:
        """True if DuckDB gets rows as an Arrow table instead of files."""
        return self.is_made or self.rows is not None

    def _named(self, statement: str) -> str:
        return statement.replace("@", self.name)

    @property
    def columns(self) -> str:
        """Statement that creates the empty table `_schema_<table>` with the table's columns."""
        columns = [named_type(field) for field in self.schema()] + ["filename VARCHAR"] * self.with_filename
        return self._named(f"CREATE OR REPLACE TABLE _schema_@ ({', '.join(columns)})")

    @property
    def empty(self) -> str:
        """Statement that creates the view of a table that has no files."""
        return self._named("CREATE OR REPLACE VIEW _@ AS FROM _schema_@")

    @property
    def unread(self) -> str:
        """Statement that creates the view of a table whose files are not bound yet; reading a row of the view
        fails."""
        return self._named(
            "CREATE OR REPLACE VIEW _@ AS"
            " SELECT s.* FROM (SELECT 1 WHERE error('the table @ is not read yet') IS NULL)"
            " LEFT JOIN _schema_@ AS s ON true"
        )

    def no_rows(self, mark: str) -> str:
        """Query for the table's columns, named `<mark><table>__<column>`, and no rows."""
        return self._named("SELECT COLUMNS('(.*)') AS '$@__\\1' FROM _schema_@").replace("$", mark)

    def planned(self, mark: str) -> str:
        """Statement that creates the view for planning, over the Arrow table `_planned_<table>` with the rows
        of `no_rows`: in a plan, the columns of its scan name the table. mark: word of letters and digits.

        DuckDB has no statistics of an Arrow table, so that no filter is dropped as certain or impossible.
        """
        view = "CREATE OR REPLACE VIEW _@ AS SELECT COLUMNS('$@__(.*)') AS '\\1' FROM _planned_@"
        return self._named(view).replace("$", mark)

    @property
    def set_files(self) -> str:
        """Statement that binds the list of files, or copies the Arrow rows that are registered as `_rows`."""
        return self._named(
            "CREATE TABLE _rows_of_@ AS FROM _rows" if self.is_arrow else "SET VARIABLE @_files = ?"
        )

    @property
    def forget_rows(self) -> str:
        """Statement that drops the Arrow rows, if any were copied."""
        return self._named("DROP TABLE IF EXISTS _rows_of_@")

    @property
    def read(self) -> str:
        """Statement that creates the view of a table whose files are bound."""
        return self._named(f"CREATE OR REPLACE VIEW _@ AS {self.source}")


# Partitions are never taken from paths: the lake itself may lie under `root=x/`. A statement is constant, the
# list of files a bound value.
_FILES: Final = "FROM read_parquet(getvariable('@_files'), hive_partitioning = false)"
_ROWS: Final = "FROM _rows_of_@"
_WINDOW_START: Final = "* REPLACE (make_timestamp(epoch_us(window_start)) AS window_start)"
"""All columns of a file, the start of the window without a time zone."""


def _with_times(schema: pa.Schema, *names: str) -> pa.Schema:
    """Columns of a table with those of `names` as its source makes them: times without a zone.

    A view that calculated them would keep DuckDB from moving filters on them to the scan, as that may fail.
    """
    stored = [field for field in schema if field.name not in names]
    return pa.schema([*stored, *(pa.field(name, pa.timestamp("us")) for name in names)])


def _of_reports(name: str, table: str) -> StoredTable:
    """Make the table `name` over all reports, with the file name of each row; older reports may lack a
    column.
    """
    source = (
        "FROM read_parquet(getvariable('@_files'),"
        " filename = true, union_by_name = true, hive_partitioning = false)"
        " UNION ALL BY NAME FROM _schema_@"
    )
    return StoredTable(name, lambda: report_tables()[table], source, with_filename=True)


WATCHED: Final = ("incident_events", "change_points", "watch_runs")
"""Tables of the watch; their files are found and verified by name, not by path."""


def _of_watch(name: str) -> StoredTable:
    return StoredTable(name, lambda: watch_tables()[name], _ROWS, rows=_read_watch(name))


STATISTICS: Final = {
    f"stats_{name}": name
    for name in (
        *("operations", "sites", "patterns", "roots"),
        *("visits", "pattern_visits", "votes", "totals", "responses"),
        *("attribute_values", "components", "segments"),
    )
}
"""Table -> relation of the statistics of windows (`schemas.statistics`), read or made by WindowStatistics."""

_DATED_STATISTICS: Final = ("visits", "pattern_visits", "responses", "segments")
"""Relations of statistics to which views join all others, by window or name."""


def _of_statistics(table: str, relation: str) -> StoredTable:
    def columns() -> pa.Schema:
        from schemas.statistics import NAMES, columns_of_relation

        start = [] if relation in NAMES else [pa.field("start_ns", pa.int64())]
        return pa.schema([*start, *columns_of_relation(relation)])

    if relation not in _DATED_STATISTICS:
        return StoredTable(table, columns, _ROWS, is_made=True, windows="joined")
    return StoredTable(
        table,
        lambda: _with_times(columns(), "window_start"),
        f"SELECT *, make_timestamp_ns(start_ns)::TIMESTAMP AS window_start {_ROWS}",
        is_made=True,
        windows="dated",
    )


LISTED: Final = {
    table.name: table
    for table in (
        StoredTable(
            "flows",
            lambda: _with_times(TABLES["flows"], "started_at", "window_start"),
            f"SELECT {_WINDOW_START}, make_timestamp_ns(start_ns)::TIMESTAMP AS started_at {_FILES}"
            " WHERE start_ns >= getvariable('from_ns') AND start_ns < getvariable('to_ns')",
            windows="dated",
        ),
        # Files have structures in a denser form than views want them, so these two are read by Arrow.
        StoredTable(
            "structures", lambda: STRUCTURES_SCHEMA, _ROWS, rows=_read_structures_once, windows="joined"
        ),
        StoredTable("readings", lambda: READINGS_SCHEMA, _ROWS, rows=_read_readings, windows="joined"),
        StoredTable(
            "params",
            lambda: _with_times(TABLES["params"], "window_start"),
            f"SELECT {_WINDOW_START} {_FILES}",
            windows="dated",
        ),
        *(
            _of_reports(name, name)
            for name in ("findings", "evidence", "account", "suspects", "kinds", "mutations")
        ),
        _of_reports("report_requests", "requests"),
        StoredTable(
            "dead_letters",
            lambda: REJECT_SCHEMA,
            "FROM read_parquet(getvariable('@_files'), filename = true, hive_partitioning = false)",
            with_filename=True,
        ),
        *(_of_watch(name) for name in WATCHED),
        *(_of_statistics(table, relation) for table, relation in STATISTICS.items()),
    )
}
"""Table name -> table, for all tables behind views."""
OF_WINDOWS: Final = frozenset(name for name, table in LISTED.items() if table.windows is not None)
"""Names of the tables whose files are of windows."""


@cache
def behind(name: str) -> frozenset[str]:
    """Names of a view and of all relations on which it depends (views, and tables as `_<table>`); empty if
    `name` is no view."""
    if name.startswith("_"):
        return frozenset({name} if name[1:] in LISTED else ())
    if name not in VIEWS:
        return frozenset()
    lines = (line for line in relation(name).sql.splitlines() if not line.startswith("--"))
    used = {*re.findall(r"\b(?:FROM|JOIN)\s+(\w+)", "\n".join(lines))} - {name}
    return frozenset({name}).union(*map(behind, used))


def tables_behind(name: str) -> frozenset[str]:
    """Names of the tables that a view (or `_<table>`) reads; empty if `name` is neither."""
    return frozenset(each[1:] for each in behind(name) if each.startswith("_"))
