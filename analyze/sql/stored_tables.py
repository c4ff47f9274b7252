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
from analyze.sql.catalog import VIEWS, named_type, relation, report_tables, watch_tables
from schemas.lake import READINGS_SCHEMA, STRUCTURES_SCHEMA, TABLES
from schemas.rejects import REJECT_SCHEMA


def _read_structures_once(found: LakePeriod, paths: Sequence[Path]) -> pa.Table:
    """STRUCTURES_SCHEMA, each category of some files once. Memory: those, and one file. Raises LakeError."""
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
    """READINGS_SCHEMA of each category of some files; 10 µs a node. Raises LakeError."""
    from stitch.readings import readings_of

    return readings_of(_read_structures_once(found, paths))


def _read_watch(table: str) -> Callable[[LakePeriod, Sequence[Path]], pa.Table]:
    """Reads a table of the watch, which is small, and verifies it. The reader raises LakeError."""

    def read(found: LakePeriod, _: Sequence[Path]) -> pa.Table:
        from stitch.lake.watch_files import read_rows_of

        return read_rows_of(found.store, table)

    return read


@dataclass(frozen=True, slots=True)
class StoredTable:
    """A table's schema and its statements: constant but for `@`, which stands for the name of the table."""

    name: str
    schema: Callable[[], pa.Schema]
    """Its columns. Those of reports come of models that take longer to make than a session to open."""
    source: str
    """Relation that its view reads, from the first query on that uses it."""
    with_filename: bool = False
    """True if its view has the file of each row behind the columns of the schema."""
    rows: Callable[[LakePeriod, Sequence[Path]], pa.Table] | None = None
    """Reads the files where DuckDB does not: all rows, of `schema`."""
    is_made: bool = False
    """True if the caller makes its rows, as of statistics."""

    @property
    def is_arrow(self) -> bool:
        """True if DuckDB is given its rows, not its files."""
        return self.is_made or self.rows is not None

    def _named(self, statement: str) -> str:
        return statement.replace("@", self.name)

    @property
    def columns(self) -> str:
        """Makes the empty table `_schema_<table>`."""
        columns = [named_type(field) for field in self.schema()] + ["filename VARCHAR"] * self.with_filename
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
            "CREATE TABLE _rows_of_@ AS FROM _rows" if self.is_arrow else "SET VARIABLE @_files = ?"
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
    return StoredTable(name, lambda: report_tables()[table], source, with_filename=True)


WATCHED: Final = ("incident_events", "change_points", "watch_runs")
"""Tables of the watch, which are read and verified by their names within the lake."""


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
"""Table -> relation of the windows' statistics (`schemas.statistics`), which rooms above read or make."""


def _of_statistics(table: str, relation: str) -> StoredTable:
    def columns() -> pa.Schema:
        from schemas.statistics import NAMES, columns_of_relation

        start = [] if relation in NAMES else [pa.field("start_ns", pa.int64())]
        return pa.schema([*start, *columns_of_relation(relation)])

    return StoredTable(table, columns, _ROWS, is_made=True)


LISTED: Final = {
    table.name: table
    for table in (
        StoredTable(
            "flows",
            lambda: TABLES["flows"],
            f"{_FILES} WHERE start_ns >= getvariable('from_ns') AND start_ns < getvariable('to_ns')",
        ),
        # Files have structures in a denser form than views want them, so these two are read by Arrow.
        StoredTable("structures", lambda: STRUCTURES_SCHEMA, _ROWS, rows=_read_structures_once),
        StoredTable("readings", lambda: READINGS_SCHEMA, _ROWS, rows=_read_readings),
        StoredTable("params", lambda: TABLES["params"], _FILES),
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
