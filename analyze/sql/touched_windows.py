"""Find the windows whose rows a statement can use, from DuckDB's plan of the statement.

DuckDB pushes filters down to the scans, through views, joins and groups, and moves calculations from the
column to the constant. The filter over a scan is rewritten to a condition on windows: a comparison of a time
becomes a comparison of the window's first or last such time, any other condition is true. DuckDB evaluates
the result. A plan or filter of unknown form selects all windows.

A constant with a time zone (`now()`) makes DuckDB cast the column. A cast may fail and is not pushed down, so
the statement is planned with such constants in UTC, without a zone.

A filter names columns of the scan as `<mark><table>__<column>`, with a mark drawn at random for each
statement. One that DuckDB does not push down to the scan names columns as the statement does: its `start_ns`
may be any number.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping
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
_EXPLAIN: Final = "EXPLAIN (FORMAT json) "
_CONDITION: Final = "SELECT start_ns_low FROM _touchable WHERE "
"""Query to which a filter is appended only in order to parse it; not run."""

_TIMES: Final = ("start_ns", "started_at", "window_start")
"""Columns of tables of windows that hold a time."""
_ZONED: Final = "TIMESTAMP WITH TIME ZONE"
_FORMS: Final = "SELECT typeof(0), CAST(0 AS TIMESTAMP)"
"""Query of a constant's type, and of the constant without a zone: `0` is replaced by the constant."""
_NO_CONSTANTS: Final = ("COLUMN_REF", "SUBQUERY", "WINDOW", "STAR", "LAMBDA")
"""Classes of nodes whose value may differ from row to row."""
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
        plan = _plan(connection, text, values)
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
        tree = _parsed(connection, _CONDITION + filter_)
        if tree is None:
            return everything
        node = tree["statements"][0]["node"]
        node["where_clause"] = _possible(node["where_clause"], mark)
        try:
            rows = connection.execute(_text(connection, tree)).fetchnumpy()
        except duckdb.InterruptException:
            raise
        except duckdb.Error:  # a condition that cannot be written, or fails on a window
            return everything
        is_touched |= np.isin(starts_ns, rows["start_ns_low"])
    return is_touched


def _plan(connection: duckdb.DuckDBPyConnection, text: str, values: dict[str, object] | list[object]) -> str:
    """DuckDB's plan of a statement, in JSON; times with a zone that a statement compares with are without it
    in the plan. Raises duckdb.Error."""
    ((_, plan),) = connection.execute(_EXPLAIN + text, values).fetchall()
    if _ZONED in plan and (tree := _parsed(connection, text)) is not None:
        try:
            _drop_zones(tree, connection, values)
            ((_, plan),) = connection.execute(_EXPLAIN + _text(connection, tree), values).fetchall()
        except duckdb.InterruptException:
            raise
        except duckdb.Error:  # a column may have the name of a function: the plan as it stands
            pass
    return str(plan)


def _parsed(connection: duckdb.DuckDBPyConnection, text: str) -> dict[str, Any] | None:
    """Tree of a statement, as `_text` takes it; None if DuckDB cannot write it."""
    ((parsed,),) = connection.execute(_SERIALIZED, [text]).fetchall()
    tree: dict[str, Any] = json.loads(parsed)
    return None if tree["error"] else tree


def _text(connection: duckdb.DuckDBPyConnection, tree: _Node) -> str:
    ((text,),) = connection.execute("SELECT json_deserialize_sql(?)", [json.dumps(tree)]).fetchall()
    return str(text)


def _drop_zones(
    tree: object, connection: duckdb.DuckDBPyConnection, values: dict[str, object] | list[object]
) -> None:
    """Cast each constant with a time zone that is compared with something else to a time in UTC, in place."""
    named = values if isinstance(values, dict) else {str(n): value for n, value in enumerate(values, 1)}
    for node in _nodes(tree):
        if node.get("class") not in ("COMPARISON", "BETWEEN"):
            continue
        sides = [side for side in ("left", "right", "input", "lower", "upper") if side in node]
        constant = [side for side in sides if not any(map(_varies, _nodes(node[side])))]
        for side in constant if len(constant) < len(sides) else ():
            form = _parsed(connection, _FORMS) or {}
            asked, cast = form["statements"][0]["node"]["select_list"]
            asked["arguments"][0]["expression"] = cast["child"] = node[side]
            used = {part["identifier"] for part in _nodes(node[side]) if part.get("class") == "PARAMETER"}
            bound = {name: value for name, value in named.items() if name in used}
            ((kind, _),) = connection.execute(_text(connection, form), bound).fetchall()
            if kind == _ZONED:
                node[side] = cast


def _varies(node: _Node) -> bool:
    """True if a node's value may differ from row to row."""
    return node.get("class") in _NO_CONSTANTS and node.get("column_names") != ["current_timestamp"]


def _nodes(tree: object) -> Iterator[dict[str, Any]]:
    """Yield the nodes of a tree, each after those below it."""
    for child in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from _nodes(child)
    if isinstance(tree, dict):
        yield tree


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
    if kind == "COMPARE_BETWEEN":
        bounds = ((_LOWER[1], node["lower"]), (_UPPER[1], node["upper"]))
        return _all(_compared(bound, node["input"], constant, mark) for bound, constant in bounds)
    if kind == "COMPARE_EQUAL":
        sides = (node["left"], node["right"])
        time, constant = sides if _is_constant(sides[1]) else sides[::-1]
        return _all(_compared(bound, time, constant, mark) for bound in (_LOWER[1], _UPPER[1]))
    if kind in (*_UPPER, *_LOWER):
        if _is_constant(node["right"]):
            return _compared(kind, node["left"], node["right"], mark)
        mirrored = (_UPPER if kind in _LOWER else _LOWER)[kind.endswith("EQUALTO")]
        return _compared(mirrored, node["right"], node["left"], mark)
    return _TRUE


def _all(conditions: Iterable[_Node]) -> _Node:
    return {"class": "CONJUNCTION", "type": "CONJUNCTION_AND", "children": [*conditions]}


def _compared(kind: str, time: _Node, constant: _Node, mark: str) -> _Node:
    """Comparison of a window's first or last value of a time, whichever is true more often; true if `time` is
    none of the scan, or compared with something else than a constant."""
    end = _end(time, mark, "low" if kind in _UPPER else "high")
    if end is None or not _is_constant(constant):
        return _TRUE
    return {"class": "COMPARISON", "type": kind, "left": end, "right": constant}


def _is_constant(node: _Node) -> bool:
    return node["class"] == "CONSTANT" or (node["class"] == "CAST" and _is_constant(node["child"]))


def _end(node: _Node, mark: str, end: str) -> _Node | None:
    """A window's first (`low`) or last (`high`) value of a time of the scan, cast as the time is; None if the
    node is something else."""
    if node["class"] == "CAST" and node.get("type_expr", {}).get("type_name") == "DOUBLE":
        child = _end(node["child"], mark, end)
        return None if child is None else {**node, "child": child}
    if node["class"] != "COLUMN_REF" or not node["column_names"][-1].startswith(mark):
        return None
    name = node["column_names"][-1].partition("__")[2]
    return _column(f"{name}_{end}") if name in _TIMES else None
