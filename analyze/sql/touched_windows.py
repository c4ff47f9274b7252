"""Find the windows whose rows a statement can use, from DuckDB's plan of the statement.

DuckDB pushes filters down to the scans, through views, joins and groups, and moves calculations from the
column to the constant. The filter over a scan is rewritten to a condition on windows: a comparison of a time
becomes a comparison of the window's first or last such time, any other condition is true. DuckDB evaluates
the result. A plan or filter of unknown form selects all windows.

A constant with a time zone (`now()`) makes DuckDB cast the column. A cast may fail and is not pushed down, so
the statement is planned with such constants in UTC, without a zone, where they are compared with times
without one. Text is no such time: it may have an offset, which is ignored unless it is read as a time with a
zone.

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
_KIND: Final = "SELECT typeof(0)"
"""Query of the type of a constant, by which `0` is replaced."""
_WITHOUT_ZONE: Final = "SELECT CAST(0 AS TIMESTAMP)"
_CHOICE: Final = "SELECT CASE WHEN typeof(0) IN ('TIMESTAMP', 'DATE') THEN 1 ELSE 2 END"
"""Query of the comparison `1` if `0` is a time without a zone, else of the comparison `2`; DuckDB knows which
when it plans."""
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
        except (duckdb.Error, RecursionError):  # a column may have a function's name: the plan as it stands
            pass
    return str(plan)


def _parsed(connection: duckdb.DuckDBPyConnection, text: str) -> dict[str, Any] | None:
    """Tree of a statement, as `_text` takes it; None if DuckDB cannot write it, or it is too deep to read."""
    ((parsed,),) = connection.execute(_SERIALIZED, [text]).fetchall()
    try:
        tree: dict[str, Any] = json.loads(parsed)
    except RecursionError:
        return None
    return None if tree["error"] else tree


def _text(connection: duckdb.DuckDBPyConnection, tree: _Node) -> str:
    ((text,),) = connection.execute("SELECT json_deserialize_sql(?)", [json.dumps(tree)]).fetchall()
    return str(text)


def _drop_zones(
    tree: object, connection: duckdb.DuckDBPyConnection, values: dict[str, object] | list[object]
) -> None:
    """Cast each constant with a time zone to a time in UTC where it is compared with times without a zone, in
    place. Raises duckdb.Error."""
    named = values if isinstance(values, dict) else {str(n): value for n, value in enumerate(values, 1)}
    for node in _nodes(tree):
        if node.get("class") not in ("COMPARISON", "BETWEEN"):
            continue
        sides = [side for side in ("left", "right", "input", "lower", "upper") if side in node]
        varying = [side for side in sides if any(map(_varies, _nodes(node[side])))]
        written, planned = {**node}, {**node}
        for side in sides if varying else ():
            if side not in varying and _is_zoned(node[side], connection, named):
                planned[side] = _expression(_filled(connection, _WITHOUT_ZONE, node[side]))
        if planned == written:
            continue
        for side in varying:
            planned = _expression(_filled(connection, _CHOICE, node[side], planned, written))
        node.clear()
        node.update(planned, alias=written.get("alias", ""))


def _is_zoned(constant: _Node, connection: duckdb.DuckDBPyConnection, named: Mapping[str, object]) -> bool:
    """True if a constant is a time with a zone. named: bound values. Raises duckdb.Error."""
    if constant["class"] == "CONSTANT":  # a number or text, as long as nothing casts it
        return False
    used = {part["identifier"] for part in _nodes(constant) if part.get("class") == "PARAMETER"}
    bound = {name: value for name, value in named.items() if name in used}
    asked = _text(connection, _filled(connection, _KIND, constant))
    return (_ZONED,) in connection.execute(asked, bound).fetchall()


def _filled(connection: duckdb.DuckDBPyConnection, text: str, *parts: _Node) -> dict[str, Any]:
    """Tree of a query in which each number n is replaced by the node parts[n]."""
    tree = _parsed(connection, text) or {}
    for node in [*_nodes(tree)]:
        if node.get("class") == "CONSTANT" and node["literal"]["kind"] == "INTEGER":
            part = parts[int(node["literal"]["text"])]
            node.clear()
            node.update(part)
    return tree


def _expression(tree: _Node) -> dict[str, Any]:
    """The only expression that a query selects."""
    (node,) = tree["statements"][0]["node"]["select_list"]
    return dict(node)


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
