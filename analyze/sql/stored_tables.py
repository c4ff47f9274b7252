"""Give DuckDB the tables behind the views, each opened by the first query that uses it.

A broken file costs only the queries that need it. Until then the view `_<table>` has the table's columns, and
fails where a query would read a row of it; without files it is empty. Every window folder has its own
structures, so each category is taken once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from analyze.scope import LakePeriod
from analyze.sql.catalog import VIEWS, named_type, relation
from schemas.lake import READINGS_SCHEMA, STRUCTURES_SCHEMA, TABLES
from schemas.rejects import REJECT_SCHEMA
from schemas.report.report_tables import REPORT_TABLES
from schemas.watch_tables import WATCH_TABLES
from stitch.lake.encoding import read_structures
from stitch.lake.watch_files import read_rows_of
from stitch.readings import readings_of


def _read_structures_once(found: LakePeriod, paths: Sequence[Path]) -> pa.Table:
    """STRUCTURES_SCHEMA, each category of some files once. Memory: those, and one file. Raises LakeError."""
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
    """READINGS_SCHEMA of each category of some files; 10 µs a node. Raises LakeError."""
    return readings_of(_read_structures_once(found, paths))


def _read_watch(table: str) -> Callable[[LakePeriod, Sequence[Path]], pa.Table]:
    """Reads a table of the watch, which is small, and verifies it. The reader raises LakeError."""

    def read(found: LakePeriod, paths: Sequence[Path]) -> pa.Table:
        return read_rows_of(found.store, table, [path.as_posix() for path in paths])

    return read


@dataclass(frozen=True, slots=True)
class StoredTable:
    """A table's schema and its statements: constant but for `@`, which stands for the name of the table."""

    name: str
    schema: pa.Schema
    source: str
    """What its view reads from a query on that uses it."""
    with_filename: bool = False
    """Whether its view has, behind the columns of the schema, the file of each row."""
    rows: Callable[[LakePeriod, Sequence[Path]], pa.Table] | None = None
    """Reads the files where DuckDB does not: all rows, of `schema`."""

    def _named(self, statement: str) -> str:
        return statement.replace("@", self.name)

    @property
    def columns(self) -> str:
        """Makes the empty table `_schema_<table>`."""
        columns = [named_type(field) for field in self.schema] + ["filename VARCHAR"] * self.with_filename
        return self._named(f"CREATE OR REPLACE TABLE _schema_@ ({', '.join(columns)})")

    @property
    def empty(self) -> str:
        """Makes its view without files."""
        return self._named("CREATE OR REPLACE VIEW _@ AS FROM _schema_@")

    @property
    def unread(self) -> str:
        """Makes its view until a query uses it."""
        return self._named(
            "CREATE OR REPLACE VIEW _@ AS"
            " SELECT s.* FROM (SELECT 1 WHERE error('the table @ is not read yet') IS NULL)"
            " LEFT JOIN _schema_@ AS s ON true"
        )

    @property
    def set_files(self) -> str:
        """Binds the list of files; or takes over what `rows` gave, under the name `_rows`."""
        return self._named(
            "SET VARIABLE @_files = ?" if self.rows is None else "CREATE TABLE _rows_of_@ AS FROM _rows"
        )

    @property
    def read(self) -> str:
        """Makes its view from then on."""
        return self._named(f"CREATE OR REPLACE VIEW _@ AS {self.source}")


# Partitions are never taken from paths: the lake itself may lie under `root=x/`. A statement is constant, the
# list of files a bound value.
_FILES: Final = "FROM read_parquet(getvariable('@_files'), hive_partitioning = false)"
_ROWS: Final = "FROM _rows_of_@"


def _of_reports(name: str, table: str) -> StoredTable:
    """A table of all reports, with the file of each row; reports of an earlier flowdiff may lack a column."""
    source = (
        "FROM read_parquet(getvariable('@_files'),"
        " filename = true, union_by_name = true, hive_partitioning = false)"
        " UNION ALL BY NAME FROM _schema_@"
    )
    return StoredTable(name, REPORT_TABLES[table], source, with_filename=True)


LISTED: Final = {
    table.name: table
    for table in (
        StoredTable(
            "flows",
            TABLES["flows"],
            f"{_FILES} WHERE start_ns >= getvariable('from_ns') AND start_ns < getvariable('to_ns')",
        ),
        # Files have structures in a denser form than views want them, so these two are read by Arrow.
        StoredTable("structures", STRUCTURES_SCHEMA, _ROWS, rows=_read_structures_once),
        StoredTable("readings", READINGS_SCHEMA, _ROWS, rows=_read_readings),
        StoredTable("params", TABLES["params"], _FILES),
        *(
            _of_reports(name, name)
            for name in ("findings", "evidence", "account", "suspects", "kinds", "mutations")
        ),
        _of_reports("report_requests", "requests"),
        StoredTable(
            "dead_letters",
            REJECT_SCHEMA,
            "FROM read_parquet(getvariable('@_files'), filename = true, hive_partitioning = false)",
            with_filename=True,
        ),
        *(
            StoredTable(name, WATCH_TABLES[name], _ROWS, rows=_read_watch(name))
            for name in ("incident_events", "change_points", "watch_runs")
        ),
    )
}
"""Tables that views read, each by the name of its files."""


@cache
def behind(name: str) -> frozenset[str]:
    """A view and all that it reads: views, and `_<table>` of tables; empty for any other name."""
    if name.startswith("_"):
        return frozenset({name} if name[1:] in LISTED else ())
    if name not in VIEWS:
        return frozenset()
    lines = (line for line in relation(name).sql.splitlines() if not line.startswith("--"))
    used = {*re.findall(r"\b(?:FROM|JOIN)\s+(\w+)", "\n".join(lines))} - {name}
    return frozenset({name}).union(*map(behind, used))


def tables_behind(name: str) -> frozenset[str]:
    """Tables that a view (or a view below the views, `_flows`) reads; empty for any other name."""
    return frozenset(each[1:] for each in behind(name) if each.startswith("_"))
