"""Find the windows whose rows a statement can use, from DuckDB's plan of the statement.

DuckDB pushes filters down to the scans, through views, joins and groups, and moves calculations from the
column to the constant. The filter over a scan is rewritten to a condition on windows: a comparison of a time
becomes a comparison of the window's first or last such time, any other condition is true. DuckDB evaluates
the result. A plan or filter of unknown form selects all windows.

A filter names columns of the scan as `<mark><table>__<column>`, with a mark drawn at random for each
statement. One that DuckDB does not push down to the scan names columns as the statement does: its `start_ns`
may be any number.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analyze.sql.stored_tables import LISTED
from schemas.arrays import B1, I8
from schemas.windows import NS_PER_US

_Node = Mapping[str, Any]
"""Node of a plan, or of a parsed expression, as DuckDB writes it in JSON."""

_SERIALIZED: Final = (
    "SELECT json_serialize_sql(?, skip_null := true, skip_empty := true, skip_default := true)"
)
_CONDITION: Final = "SELECT start_ns_low FROM _touchable WHERE "
"""Query to which a filter is appended only in order to parse it; not run."""

_TIMES: Final = ("start_ns", "started_at", "window_start")
"""Columns of tables of windows that hold a time."""
_UPPER: Final = ("COMPARE_LESSTHAN", "COMPARE_LESSTHANOREQUALTO")
_LOWER: Final = ("COMPARE_GREATERTHAN", "COMPARE_GREATERTHANOREQUALTO")


def touched_windows(
    connection: duckdb.DuckDBPyConnection,
    text: str,
    values: dict[str, object] | list[object],
    tables: Collection[str],
    starts_ns: I8,
    length_ns: int,
) -> B1:
    """bool[windows]: true for windows whose rows a statement can use.

    values: bound values of the statement. tables: tables that it reads, of windows or without rows so far;
    their views are replaced by views for planning, which the caller replaces again. starts_ns: starts of the
    windows, Unix ns. Raises duckdb.Error if the statement names something that does not exist, or is
    interrupted.
    """
    everything = np.ones(len(starts_ns), dtype=np.bool_)
    mark = f"scan{secrets.token_hex(8)}"
    for table in sorted(tables):
        no_rows = connection.sql(LISTED[table].no_rows(mark)).to_arrow_table()
        connection.register(f"_planned_{table}", no_rows)
        connection.execute(LISTED[table].planned(mark))
    try:
        ((_, plan),) = connection.execute("EXPLAIN (FORMAT json) " + text, values).fetchall()
    except (duckdb.BinderException, duckdb.CatalogException, duckdb.InterruptException):
        raise
    except duckdb.Error:  # a statement that cannot be explained
        return everything
    dated = {table for table in tables if LISTED[table].windows == "dated"}
    is_touched = ~everything
    connection.register("_touchable", _touchable(starts_ns, length_ns))
    scans = [(table, filter_) for table, filter_ in _scans(json.loads(plan), mark) if table in dated]
    if dated - {table for table, _ in scans} and "EMPTY_RESULT" not in plan:
        return everything
    for _, filter_ in scans:
        ((parsed,),) = connection.execute(_SERIALIZED, [_CONDITION + filter_]).fetchall()
        tree = json.loads(parsed)
        if tree["error"]:
            return everything
        node = tree["statements"][0]["node"]
        node["where_clause"] = _possible(node["where_clause"], mark)
        try:
            ((query,),) = connection.execute("SELECT json_deserialize_sql(?)", [json.dumps(tree)]).fetchall()
            rows = connection.execute(query).fetchnumpy()
        except duckdb.InterruptException:
            raise
        except duckdb.Error:  # a condition that cannot be written, or fails on a window
            return everything
        is_touched |= np.isin(starts_ns, rows["start_ns_low"])
    return is_touched


def _touchable(starts_ns: I8, length_ns: int) -> pa.Table:
    """Table of windows: for each time that is a column of a table of windows, its first and last value."""
    last_ns = starts_ns + (length_ns - 1)
    low, high = (pa.array(ns // NS_PER_US).cast(pa.timestamp("us")) for ns in (starts_ns, last_ns))
    return pa.table(
        {
            "start_ns_low": starts_ns,
            "start_ns_high": last_ns,
            "started_at_low": low,
            # Longer by a microsecond: it is rounded.
            "started_at_high": pc.add(high, pa.scalar(1, pa.duration("us"))),
            "window_start_low": low,
            "window_start_high": low,
        }
    )


def _scans(node: Any, mark: str, filter_: str = "true") -> Iterator[tuple[str, str]]:
    """Yield (table, filter as SQL) of each scan of a table of windows. filter_: filter over the node."""
    for child in node if isinstance(node, list) else node["children"]:
        told = child["extra_info"]
        if child["name"] == "PYTHON_ARROW_SCAN":
            columns = told["Projections"]
            name = columns if isinstance(columns, str) else columns[0]
            yield name.removeprefix(mark).partition("__")[0], filter_
        else:
            above = told.get("Expression") if child["name"] == "FILTER" else None
            yield from _scans(child, mark, above if isinstance(above, str) else "true")


def _column(name: str) -> _Node:
    return {"class": "COLUMN_REF", "type": "COLUMN_REF", "column_names": [name]}


_TRUE: Final = {
    "class": "OPERATOR",
    "type": "OPERATOR_IS_NOT_NULL",
    "children": [_column("start_ns_low")],
}


def _possible(node: _Node, mark: str) -> _Node:
    """Condition on a window that holds if the condition `node` may hold for a row of the window."""
    kind = node["type"]
    if kind in ("CONJUNCTION_AND", "CONJUNCTION_OR"):
        return {**node, "children": [_possible(child, mark) for child in node["children"]]}
    if kind == "COMPARE_BETWEEN" and (time := _time(node["input"], mark)):
        return _both(_compared(_LOWER[1], time, node["lower"]), _compared(_UPPER[1], time, node["upper"]))
    if kind in (*_UPPER, *_LOWER, "COMPARE_EQUAL"):
        time, constant = _time(node["left"], mark), node["right"]
        if time is None:
            time, constant = _time(node["right"], mark), node["left"]
            if kind != "COMPARE_EQUAL":
                kind = (_UPPER if kind in _LOWER else _LOWER)[kind.endswith("EQUALTO")]
        if time is not None:
            if kind == "COMPARE_EQUAL":
                return _both(_compared(_LOWER[1], time, constant), _compared(_UPPER[1], time, constant))
            return _compared(kind, time, constant)
    return _TRUE


def _both(one: _Node, other: _Node) -> _Node:
    return {"class": "CONJUNCTION", "type": "CONJUNCTION_AND", "children": [one, other]}


def _compared(kind: str, time: str, constant: _Node) -> _Node:
    """Comparison of a window's first or last value of the column `time`, whichever is true more often."""
    if not _is_constant(constant):
        return _TRUE
    end = f"{time}_{'low' if kind in _UPPER else 'high'}"
    return {"class": "COMPARISON", "type": kind, "left": _column(end), "right": constant}


def _is_constant(node: _Node) -> bool:
    return node["class"] == "CONSTANT" or (node["class"] == "CAST" and _is_constant(node["child"]))


def _time(node: _Node, mark: str) -> str | None:
    """Name of the scan's column that the node is, if the column holds a time; else None."""
    if node["class"] != "COLUMN_REF" or not node["column_names"][-1].startswith(mark):
        return None
    name: str = node["column_names"][-1].partition("__")[2]
    return name if name in _TIMES else None
