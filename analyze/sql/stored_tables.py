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
from analyze.sql.catalog import VIEWS, relation
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
    """A table's schema and its statements."""

    schema: pa.Schema
    columns: str
    """Makes the empty table `_schema_<table>` from `_schema`, the empty table of its schema."""
    empty: str
    """Its view without files."""
    unread: str
    """Its view until a query uses it."""
    set_files: str
    """Binds the list of files; or takes over what `rows` gave, under the name `_rows`."""
    read: str
    """Its view from then on."""
    rows: Callable[[LakePeriod, Sequence[Path]], pa.Table] | None = None
    """Reads the files where DuckDB does not: all rows, of `schema`."""


# Partitions are never taken from paths: the lake itself may lie under `root=x/`. A statement is constant, the
# list of files a bound value.
LISTED: Final = {
    "flows": StoredTable(
        TABLES["flows"],
        "CREATE TABLE _schema_flows AS FROM _schema",
        "CREATE VIEW _flows AS FROM _schema_flows",
        "CREATE VIEW _flows AS SELECT s.* FROM"
        " (SELECT 1 WHERE error('the table flows is not read yet') IS NULL)"
        " LEFT JOIN _schema_flows AS s ON true",
        "SET VARIABLE flows_files = ?",
        "CREATE OR REPLACE VIEW _flows AS"
        " FROM read_parquet(getvariable('flows_files'), hive_partitioning = false)"
        " WHERE start_ns >= getvariable('from_ns') AND start_ns < getvariable('to_ns')",
    ),
    # Files have structures in a denser form than views want them, so these two are read by Arrow.
    "structures": StoredTable(
        STRUCTURES_SCHEMA,
        "CREATE TABLE _schema_structures AS FROM _schema",
        "CREATE VIEW _structures AS FROM _schema_structures",
        "CREATE VIEW _structures AS SELECT s.* FROM"
        " (SELECT 1 WHERE error('the table structures is not read yet') IS NULL)"
        " LEFT JOIN _schema_structures AS s ON true",
        "CREATE TABLE _rows_of_structures AS FROM _rows",
        "CREATE OR REPLACE VIEW _structures AS FROM _rows_of_structures",
        _read_structures_once,
    ),
    "readings": StoredTable(
        READINGS_SCHEMA,
        "CREATE TABLE _schema_readings AS FROM _schema",
        "CREATE VIEW _readings AS FROM _schema_readings",
        "CREATE VIEW _readings AS SELECT s.* FROM"
        " (SELECT 1 WHERE error('the table readings is not read yet') IS NULL)"
        " LEFT JOIN _schema_readings AS s ON true",
        "CREATE TABLE _rows_of_readings AS FROM _rows",
        "CREATE OR REPLACE VIEW _readings AS FROM _rows_of_readings",
        _read_readings,
    ),
    "params": StoredTable(
        TABLES["params"],
        "CREATE TABLE _schema_params AS FROM _schema",
        "CREATE VIEW _params AS FROM _schema_params",
        "CREATE VIEW _params AS SELECT s.* FROM"
        " (SELECT 1 WHERE error('the table params is not read yet') IS NULL)"
        " LEFT JOIN _schema_params AS s ON true",
        "SET VARIABLE params_files = ?",
        "CREATE OR REPLACE VIEW _params AS"
        " FROM read_parquet(getvariable('params_files'), hive_partitioning = false)",
    ),
    "findings": StoredTable(
        REPORT_TABLES["findings"],
        "CREATE TABLE _schema_findings AS SELECT *, '' AS filename FROM _schema",
        "CREATE VIEW _findings AS FROM _schema_findings",
        "CREATE VIEW _findings AS SELECT s.* FROM"
        " (SELECT 1 WHERE error('the table findings is not read yet') IS NULL)"
        " LEFT JOIN _schema_findings AS s ON true",
        "SET VARIABLE findings_files = ?",
        "CREATE OR REPLACE VIEW _findings AS"
        " FROM read_parquet(getvariable('findings_files'),"
        " filename = true, union_by_name = true, hive_partitioning = false)"
        " UNION ALL BY NAME FROM _schema_findings",
    ),
    "evidence": StoredTable(
        REPORT_TABLES["evidence"],
        "CREATE TABLE _schema_evidence AS SELECT *, '' AS filename FROM _schema",
        "CREATE VIEW _evidence AS FROM _schema_evidence",
        "CREATE VIEW _evidence AS SELECT s.* FROM"
        " (SELECT 1 WHERE error('the table evidence is not read yet') IS NULL)"
        " LEFT JOIN _schema_evidence AS s ON true",
        "SET VARIABLE evidence_files = ?",
        "CREATE OR REPLACE VIEW _evidence AS"
        " FROM read_parquet(getvariable('evidence_files'),"
        " filename = true, union_by_name = true, hive_partitioning = false)"
        " UNION ALL BY NAME FROM _schema_evidence",
    ),
    "account": StoredTable(
        REPORT_TABLES["account"],
        "CREATE TABLE _schema_account AS SELECT *, '' AS filename FROM _schema",
        "CREATE VIEW _account AS FROM _schema_account",
        "CREATE VIEW _account AS SELECT s.* FROM"
        " (SELECT 1 WHERE error('the table account is not read yet') IS NULL)"
        " LEFT JOIN _schema_account AS s ON true",
        "SET VARIABLE account_files = ?",
        "CREATE OR REPLACE VIEW _account AS"
        " FROM read_parquet(getvariable('account_files'),"
        " filename = true, union_by_name = true, hive_partitioning = false)"
        " UNION ALL BY NAME FROM _schema_account",
    ),
    "mutations": StoredTable(
        REPORT_TABLES["mutations"],
        "CREATE TABLE _schema_mutations AS SELECT *, '' AS filename FROM _schema",
        "CREATE VIEW _mutations AS FROM _schema_mutations",
        "CREATE VIEW _mutations AS SELECT s.* FROM"
        " (SELECT 1 WHERE error('the table mutations is not read yet') IS NULL)"
        " LEFT JOIN _schema_mutations AS s ON true",
        "SET VARIABLE mutations_files = ?",
        # Reports of an earlier flowdiff may lack a column.
        "CREATE OR REPLACE VIEW _mutations AS"
        " FROM read_parquet(getvariable('mutations_files'),"
        " filename = true, union_by_name = true, hive_partitioning = false)"
        " UNION ALL BY NAME FROM _schema_mutations",
    ),
    "report_requests": StoredTable(
        REPORT_TABLES["requests"],
        "CREATE TABLE _schema_report_requests AS SELECT *, '' AS filename FROM _schema",
        "CREATE VIEW _report_requests AS FROM _schema_report_requests",
        "CREATE VIEW _report_requests AS SELECT s.* FROM"
        " (SELECT 1 WHERE error('the table report_requests is not read yet') IS NULL)"
        " LEFT JOIN _schema_report_requests AS s ON true",
        "SET VARIABLE report_requests_files = ?",
        "CREATE OR REPLACE VIEW _report_requests AS"
        " FROM read_parquet(getvariable('report_requests_files'),"
        " filename = true, union_by_name = true, hive_partitioning = false)"
        " UNION ALL BY NAME FROM _schema_report_requests",
    ),
    "dead_letters": StoredTable(
        REJECT_SCHEMA,
        "CREATE TABLE _schema_dead_letters AS SELECT *, '0-0-0' AS filename FROM _schema",
        "CREATE VIEW _dead_letters AS FROM _schema_dead_letters",
        "CREATE VIEW _dead_letters AS SELECT s.* FROM"
        " (SELECT 1 WHERE error('the table dead_letters is not read yet') IS NULL)"
        " LEFT JOIN _schema_dead_letters AS s ON true",
        "SET VARIABLE dead_letters_files = ?",
        "CREATE OR REPLACE VIEW _dead_letters AS"
        " FROM read_parquet(getvariable('dead_letters_files'), filename = true, hive_partitioning = false)",
    ),
    "incident_events": StoredTable(
        WATCH_TABLES["incident_events"],
        "CREATE TABLE _schema_incident_events AS FROM _schema",
        "CREATE VIEW _incident_events AS FROM _schema_incident_events",
        "CREATE VIEW _incident_events AS SELECT s.* FROM"
        " (SELECT 1 WHERE error('the table incident_events is not read yet') IS NULL)"
        " LEFT JOIN _schema_incident_events AS s ON true",
        "CREATE TABLE _rows_of_incident_events AS FROM _rows",
        "CREATE OR REPLACE VIEW _incident_events AS FROM _rows_of_incident_events",
        _read_watch("incident_events"),
    ),
    "change_points": StoredTable(
        WATCH_TABLES["change_points"],
        "CREATE TABLE _schema_change_points AS FROM _schema",
        "CREATE VIEW _change_points AS FROM _schema_change_points",
        "CREATE VIEW _change_points AS SELECT s.* FROM"
        " (SELECT 1 WHERE error('the table change_points is not read yet') IS NULL)"
        " LEFT JOIN _schema_change_points AS s ON true",
        "CREATE TABLE _rows_of_change_points AS FROM _rows",
        "CREATE OR REPLACE VIEW _change_points AS FROM _rows_of_change_points",
        _read_watch("change_points"),
    ),
    "watch_runs": StoredTable(
        WATCH_TABLES["watch_runs"],
        "CREATE TABLE _schema_watch_runs AS FROM _schema",
        "CREATE VIEW _watch_runs AS FROM _schema_watch_runs",
        "CREATE VIEW _watch_runs AS SELECT s.* FROM"
        " (SELECT 1 WHERE error('the table watch_runs is not read yet') IS NULL)"
        " LEFT JOIN _schema_watch_runs AS s ON true",
        "CREATE TABLE _rows_of_watch_runs AS FROM _rows",
        "CREATE OR REPLACE VIEW _watch_runs AS FROM _rows_of_watch_runs",
        _read_watch("watch_runs"),
    ),
}
"""Tables that views read, each by the name of its files."""


@cache
def tables_behind(name: str) -> frozenset[str]:
    """Tables that a view (or a view below the views, `_flows`) reads; empty for any other name."""
    if name.startswith("_"):
        return frozenset({name[1:]} & {*LISTED})
    if name not in VIEWS:
        return frozenset()
    lines = (line for line in relation(name).sql.splitlines() if not line.startswith("--"))
    used = {*re.findall(r"\b(?:FROM|JOIN)\s+(\w+)", "\n".join(lines))} - {name}
    return frozenset(table for other in used for table in tables_behind(other))
