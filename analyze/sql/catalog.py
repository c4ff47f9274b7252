"""Definitions of the views for users: one `.sql` file each, whose header types and describes the columns.

The header is the documentation: `docs/sql.md` is generated from it, and a test compares it with DuckDB's
description. A view over a table of all reports has no file: its columns are those of the table's rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

import pyarrow as pa

from schemas.events import TEXT_EVENT_SCHEMA
from schemas.lake import TABLES
from schemas.quality import MEANINGS, Quality
from schemas.rejects import REJECT_SCHEMA, Reason

# In order of creation: a view may use the ones before it.
VIEWS: Final = (
    *("requests", "categories", "spans", "nodes", "edges", "params", "windows"),
    *("call_sites", "call_patterns", "responses", "segments"),
    *("findings", "evidence", "account", "suspects", "kinds"),
    *("mutations", "mutation_requests", "dead_letters"),
    *("incident_events", "incidents", "change_points", "watch_runs"),
)

_OF_REPORTS: Final = {
    "findings": "One row a finding of a comparison that was written to this lake (flowdiff compare): a "
    "cause, reported once.",
    "evidence": "One row a significant test of a comparison that was written to this lake.",
    "account": "One row a part of the change of a comparison that was written to this lake; the parts of a "
    "measure add up.",
    "suspects": "One row a suspect of a comparison that was written to this lake: where to look, where "
    "nothing is significant.",
    "kinds": "One row a root type or operation that only one period of a comparison has.",
}
"""View name -> description, for the views over a table of all reports; each row has the report's id."""
_OF_ALL: Final = "CREATE OR REPLACE VIEW @ AS SELECT parse_path(filename)[-2] AS report, /*columns*/ FROM _@;"

_COLUMN = re.compile(r"^-- (?P<name>[a-z_0-9]+) +(?P<type>[A-Z]+(?:\[\])?) +(?P<doc>\S.*)$")


@dataclass(frozen=True, slots=True)
class ViewColumn:
    """Column of a view: name, DuckDB type, description."""

    name: str
    type: str
    doc: str


@dataclass(frozen=True, slots=True)
class SqlRelation:
    """A view: its name, its description, its columns, and its CREATE VIEW statement."""

    name: str
    doc: str
    columns: tuple[ViewColumn, ...]
    sql: str


@cache
def relation(name: str) -> SqlRelation:
    """Read the relation `name`, one of VIEWS, from its file. Raises ValueError if the header is malformed."""
    if name not in VIEWS:
        raise ValueError(f"no such relation: {name}")
    if name in _OF_REPORTS:
        return _of_reports(name)
    text = files("analyze.sql").joinpath("views", f"{name}.sql").read_text(encoding="utf-8")
    prose: list[str] = []
    columns: list[ViewColumn] = []
    for line in text.splitlines():
        if not line.startswith("--"):
            break
        if match := _COLUMN.match(line):
            columns.append(ViewColumn(match["name"], match["type"], match["doc"]))
        elif not columns and line != "--":
            prose.append(line.removeprefix("--").strip())
        elif line != "--":
            raise ValueError(f"{name}.sql: cannot read the header line: {line}")
    if not prose or not columns:
        raise ValueError(f"{name}.sql: the header needs a sentence and its columns")
    return SqlRelation(name, " ".join(prose), tuple(columns), text)


def report_tables() -> Mapping[str, pa.Schema]:
    """Table name -> schema, for the tables of a report.

    A function, to defer an import that takes longer than opening a session.
    """
    from schemas.report.report_tables import REPORT_TABLES

    return REPORT_TABLES


def statistics_schema() -> pa.Schema:
    """Schema of the statistics of windows. A function, to defer an import."""
    from schemas.statistics import STATISTICS_SCHEMA

    return STATISTICS_SCHEMA


def watch_tables() -> Mapping[str, pa.Schema]:
    """Table name -> schema, for the tables of the watch. A function, to defer an import."""
    from schemas.watch_tables import WATCH_TABLES

    return WATCH_TABLES


def _of_reports(name: str) -> SqlRelation:
    """Make the relation for a view over a table of all reports."""
    schema = report_tables()[name]
    listed = ", ".join(f'"{column}"' for column in schema.names)
    return SqlRelation(
        name,
        _OF_REPORTS[name],
        (
            ViewColumn("report", "VARCHAR", "id of the comparison: LAKE/reports/<report>/"),
            *(ViewColumn(f.name, sql_type(f.type), f.metadata[b"doc"].decode()) for f in schema),
        ),
        _OF_ALL.replace("@", name).replace("/*columns*/", listed),
    )


def reference() -> str:
    """The SQL reference as Markdown: every view, every table of the lake, every quality flag."""
    parts = [
        "# SQL reference",
        "",
        "Generated from `analyze/sql/views/*.sql` and `schemas/` by `python -m analyze.sql.catalog`.",
        "",
        "`flowdiff sql` opens DuckDB on a lake, read only, with these views. All times are UTC,",
        "also `now()`; the unit stands last in a column's name.",
        "Queries to copy: [recipes.md](internals/recipes.md).",
        "",
        "## Views",
    ]
    for name in VIEWS:
        view = relation(name)
        parts += ["", f"### {name}", "", view.doc, "", "| column | type | meaning |", "|---|---|---|"]
        parts += [f"| `{c.name}` | {c.type} | {_cell(c.doc)} |" for c in view.columns]
    parts += ["", "## Macros", "", "`steady_sum(x)` adds floating numbers to the same sum in every run.", ""]
    parts += ["`quality_names(mask)` lists the flags of a `quality` mask as text:", ""]
    parts += ["| bit | flag | meaning |", "|---|---|---|"]
    parts += [f"| {flag.value} | `{flag.name}` | {_cell(MEANINGS[flag])} |" for flag in Quality]
    parts += ["", *_COMPARING]
    for group in _TABLES:
        parts += ["", f"## {group.title}", "", *group.about]
        for name, schema in group.schemas().items():
            parts += ["", f"### {name}", "", *_table_lines(name, schema)]
    return "\n".join(parts) + "\n"


_COMPARING: Final = (
    "## Comparing",
    "",
    "`compare(reference, problem)` gives the findings of any two periods of this lake, and",
    "`breakdown(reference, problem)` the parts of the change, which add up to it for each measure: what",
    "`flowdiff compare` finds, without a report being kept. Periods are written as there. The columns are",
    "those of the views [findings](#findings) and [account](#account), without `report`.",
    "",
    "```sql",
    "SELECT rank, title, share, q, examples FROM compare('2026-11-18', '2026-11-19');",
    "```",
    "",
    "| argument | meaning |",
    "|---|---|",
    "| `reference`, `problem` | period before, period after: a text, or a date; several with commas |",
    "| `history :=` | ordinary times, as a baseline |",
    "| `where :=` | filter of all periods, as text: `'status = ok'`; a quote in it is written twice |",
    "| `reference_where :=`, `problem_where :=` | filter of one of them |",
    "| `method :=` | a method that gives findings; `'robust'` |",
    "",
    "An argument may be a parameter, or a column: `FROM deployments AS d, compare(d.before, d.after)`",
    "compares once for each row, at most 100 times in a session. A comparison that is asked for again, also",
    "by the other function, is not made again. It runs beside the query, is not counted in `--timeout` and",
    "`--memory`, and ends with Ctrl-C. What it refuses is the query's error.",
)


@dataclass(frozen=True, slots=True)
class _TableGroup:
    """Tables in one kind of folder of the lake, under one heading of the SQL reference."""

    title: str
    about: tuple[str, ...]
    """Markdown lines that say where the files are, and how to read them."""
    schemas: Callable[[], Mapping[str, pa.Schema]]


_TABLES: Final = (
    _TableGroup(
        "Tables of the lake",
        (
            "Plain Parquet under `LAKE/<table>/window=…/`, for any tool:",
            "`read_parquet('LAKE/flows/*/*.parquet', hive_partitioning = false)`.",
        ),
        lambda: TABLES,
    ),
    _TableGroup(
        "Side tables of the lake",
        (
            "What is kept and is in no window: input that was refused, events of requests which the lake has",
            "with other content, or that came after their window was sealed (`late`), and those of them that",
            "`flowdiff repair` has put into flows since (`repaired`, with the columns of `late`):",
            "`read_parquet('LAKE/dead_letters/*.parquet', hive_partitioning = false)`.",
            "",
            "Reasons: " + ", ".join(f"`{reason.value}`" for reason in Reason) + ".",
        ),
        lambda: {"dead_letters": REJECT_SCHEMA, "late": TEXT_EVENT_SCHEMA},
    ),
    _TableGroup(
        "Statistics",
        (
            "What `flowdiff summarize`, and comparisons by themselves, keep of each window: files of one row",
            "under `LAKE/stats/window=…/`. Sums of quarters of a day (`--sums`) are alike, under",
            "`LAKE/stats/quarter=…/`. Each column is a relation, a list of rows. Keys are 64-bit hashes of",
            "names, the same in every window, so that rows of any windows add up by them. The names are",
            "beside them: `operations`, `sites`, `patterns`, `paths`, `roots`, `errors`. Response times of",
            "all windows:",
            "",
            "```sql",
            "SELECT root, bin, sum(n) FROM (",
            "    SELECT unnest(responses, recursive := true)",
            "    FROM read_parquet('LAKE/stats/window=*/*.parquet', hive_partitioning = false)",
            ") GROUP BY ALL;",
            "```",
            "",
            "DuckDB (from 1.5 on), polars and pandas read them; the version of the form is in the footer",
            "(`flowdiff.profile_version`), and `flowdiff summarize` replaces those of another one. They are",
            "a cache: some may be missing, or be of requests that have changed since. A window that was",
            "refined with several settings has a file of each.",
        ),
        lambda: {"stats": statistics_schema()},
    ),
    _TableGroup(
        "Tables of a report",
        (
            "Under `LAKE/reports/<report>/`, complete where the page is cut:",
            "`read_parquet('LAKE/reports/*/mutations.parquet', hive_partitioning = false)`. Category",
            "keys are those of the comparison, which refines categories; `stored` has the lake's.",
        ),
        report_tables,
    ),
    _TableGroup(
        "Tables of the watch",
        (
            "What `flowdiff watch` decided, under `LAKE/watch/<table>/`:",
            "`read_parquet('LAKE/watch/incident_events/*.parquet', hive_partitioning = false)`.",
            "Decided windows come into `watch_runs` some hours later, or with the next incident.",
        ),
        watch_tables,
    ),
)


def sql_type(type_: pa.DataType) -> str:
    """DuckDB's name of an Arrow type. Looked up in a table: asking DuckDB takes longer than the rest of
    opening a session.
    """
    if pa.types.is_dictionary(type_):
        return sql_type(type_.value_type)
    if pa.types.is_list(type_):
        return f"{sql_type(type_.value_type)}[]"
    if pa.types.is_struct(type_):
        return f"STRUCT({', '.join(map(named_type, type_.fields))})"
    return _SQL_TYPES[type_]


_SQL_TYPES: Final = {
    pa.bool_(): "BOOLEAN",
    pa.uint8(): "UTINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
    pa.string(): "VARCHAR",
    pa.binary(): "BLOB",
    pa.timestamp("us"): "TIMESTAMP",
    pa.timestamp("us", "UTC"): "TIMESTAMP WITH TIME ZONE",
}


def named_type(field: pa.Field) -> str:
    """Column declaration in DuckDB's syntax: `"name" TYPE`."""
    return f'"{field.name}" {sql_type(field.type)}'


def _table_lines(name: str, schema: pa.Schema) -> list[str]:
    """Markdown lines on the columns of a table; for columns that the view of the same name has, a reference
    to the view."""
    types = {field.name: sql_type(field.type) for field in schema}
    columns = relation(name).columns if name in VIEWS else ()
    shown = [column.name for column in columns]
    of_view = [column.name for column in columns if types.get(column.name) == column.type]
    rows = [row for field in schema if field.name not in of_view for row in _table_rows(field)]
    head = ["| column | type | null | meaning |", "|---|---|---|---|"]
    if 2 * len(of_view) <= len(schema):  # another table under the view's name
        return [*head, *(row for field in schema for row in _table_rows(field))]
    without = ", ".join(f"`{column}`" for column in shown if column not in of_view)
    said = f"The columns of the view [{name}](#{name}){f' without {without}' if without else ''}"
    return [f"{said}, and:", "", *head, *rows] if rows else [f"{said}."]


def _struct_fields(type_: pa.DataType) -> list[pa.Field]:
    """Fields of the structs in a list type; empty for every other type."""
    if pa.types.is_list(type_) and pa.types.is_struct(type_.value_type):
        return list(type_.value_type.fields)
    return []


def _table_rows(field: pa.Field) -> list[str]:
    """Markdown table rows for a column and, recursively, for the described fields of its structs."""
    inner = [part for part in _struct_fields(field.type) if part.metadata]
    parts = [row for part in inner for row in _table_rows(part.with_name(f"{field.name}[].{part.name}"))]
    return [_table_row(field, field.name), *parts]


def _table_row(field: pa.Field, name: str) -> str:
    doc = (field.metadata or {}).get(b"doc", b"").decode()
    return f"| `{name}` | {_arrow_name(field.type)} | {'yes' if field.nullable else 'no'} | {_cell(doc)} |"


def _arrow_name(type_: pa.DataType) -> str:
    if pa.types.is_dictionary(type_):
        return "text (dictionary)"
    if pa.types.is_list(type_):
        inner = "struct" if pa.types.is_struct(type_.value_type) else _arrow_name(type_.value_type)
        return f"list of {inner}"
    return {"string": "text", "double": "float64"}.get(str(type_), str(type_))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(reference(), end="")
