"""Format values as text, including those without a Python or Arrow form, such as times after the year
9999."""

from __future__ import annotations

from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

ValueKind = Literal["number", "exact", "text"]
"""Layout of a type's values in a narrow terminal: `number` aligned right; `exact` (times, booleans) never
cut; `text` may be cut.
"""


def value_kind(type_: pa.DataType) -> ValueKind:
    """ValueKind of an Arrow type."""
    if pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_):
        return "number"
    return "exact" if pa.types.is_temporal(type_) or pa.types.is_boolean(type_) else "text"


def python_values(column: pa.Array) -> list[Any]:
    """Values of a column as Python objects, or as text if Python cannot represent them (`infinity`, intervals
    of months, days and nanoseconds).
    """
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
    """Dates or times of a column as text. Arrow's own cast gives "out of range" for values beyond
    Python's.
    """
    try:
        pc.min_max(column).as_py()
    except (OverflowError, ValueError):
        return texts(column)
    return column.cast(pa.string())


def texts(column: pa.Array) -> pa.Array:
    """Values of a column as text, formatted by DuckDB."""
    from analyze.sql.connection import (
        silent_connection,
    )  # DuckDB takes a tenth of a second, hardly ever needed

    with silent_connection() as connection:
        connection.register("_values", pa.table({"value": column}))
        answer = connection.sql("SELECT value::VARCHAR AS value FROM _values").to_arrow_table()
    return answer["value"].combine_chunks()
