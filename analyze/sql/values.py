"""Write values as texts, those too that Python or Arrow have no form for: times beyond the year 9999."""

from __future__ import annotations

from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

ValueKind = Literal["number", "exact", "text"]
"""Treatment of values in a narrow terminal: a number stands to the right, and only a text is cut."""


def value_kind(type_: pa.DataType) -> ValueKind:
    """The kind of the values of a type."""
    if pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_):
        return "number"
    return "exact" if pa.types.is_temporal(type_) or pa.types.is_boolean(type_) else "text"


def python_values(column: pa.Array) -> list[Any]:
    """Values of a column; its `texts` where Python has no such date or time (`infinity`), or no such value as
    an interval of months, days and nanoseconds."""
    if _has_intervals(column.type):
        return list(texts(column).to_pylist())
    try:
        values: list[Any] = column.to_pylist()
    except (OverflowError, ValueError):
        values = texts(column).to_pylist()
    return values


def _has_intervals(type_: pa.DataType) -> bool:
    if pa.types.is_nested(type_):
        return any(_has_intervals(type_.field(number).type) for number in range(type_.num_fields))
    return bool(pa.types.is_interval(type_))


def times_as_text(column: pa.Array) -> pa.Array:
    """Texts of dates or times. Arrow's own say of what is beyond Python's that it is out of range."""
    try:
        pc.min_max(column).as_py()
    except (OverflowError, ValueError):
        return texts(column)
    return column.cast(pa.string())


def texts(column: pa.Array) -> pa.Array:
    """Values of a column as DuckDB writes them."""
    from analyze.sql.connection import (
        silent_connection,
    )  # DuckDB takes a tenth of a second, hardly ever needed

    with silent_connection() as connection:
        connection.register("_values", pa.table({"value": column}))
        answer = connection.sql("SELECT value::VARCHAR AS value FROM _values").to_arrow_table()
    return answer["value"].combine_chunks()
