"""A column of a table: how it is displayed on pages and terminals, and its type in Parquet and SQL.

A row is defined once, as a class; annotations of its fields describe the columns, and `columns_of` reads them
off the class:

    class HostRow(Frozen):
        host: Annotated[str, column("name", "host", label="Host")]
        p99_us: Annotated[float | None, column("us", "99th percentile")]  # null where it is None
        change: Annotated[Interval | None, Inside("change_")]  # change_low and change_high

`arrow_table` makes a table of such rows, `arrow_columns` of arrays, and `rows_of` turns a table into rows. A
column with a label is shown, too. Columns that are shown only, or that are no field of the row, are listed:

    Column("share", "Of all", "share")
    stored("requests{}", "count", "requests with the call site, {}", label="Requests")

The last stands for two fields of a row and two stored columns, requests0 and requests1, before and after; it
is shown as one, `29 → 3 174`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from types import NoneType
from typing import Any, Final, Literal, TypeAlias, TypeVar, get_args, get_type_hints

import pyarrow as pa

ColumnUnit = Literal[
    "text",
    "name",
    "key",
    "keys",
    "figure",
    "bar",
    "count",
    "place",
    "us",
    "change",
    "share",
    "gain",
    "ratio",
    "p",
    "number",
    "c2",
    "part",
    "flag",
]
"""Unit of a column's values, which decides how they are shown.

`text`: words; `name`: a name from outside, clipped; `key`: of a category, shortened; `figure`: words aligned
right like numbers; `place`: a small whole number; `us`: a duration in µs; `change`: one with its sign;
`share`: in percent; `gain`: with its sign; `ratio`: `×1.3`; `c2`: a squared coefficient of variation; `part`:
a share of a whole, marked if next to nothing; `flag`: yes or no. A pair of values reads `before → after`.
"""

LEFT: Final = ("text", "name", "key", "keys", "bar", "flag")
"""Units aligned left; all units not listed are aligned right."""

_ARROW: Final = {
    "text": pa.string(),
    "name": pa.string(),
    "key": pa.string(),
    "keys": pa.list_(pa.string()),
    "count": pa.int64(),
    "place": pa.int32(),
    "flag": pa.bool_(),
}
"""Unit -> Arrow type of a stored column; units that are not listed are float64."""

PERIODS: Final = ("reference", "problem")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: how it is shown, and how it is stored."""

    key: str
    """Name of the row's field and of the Parquet column. `mean{}_us` is a pair: `mean0_us` before, `mean1_us`
    after.
    """
    label: str = ""
    """Heading on pages and terminals; empty: stored only, or a bar."""
    unit: ColumnUnit = "text"
    value: Callable[[Any], Any] | None = None
    """Function from a row to its value, or to the two values of a pair; None: the value is the field
    `key`.
    """
    far: int = 0
    """Order in which columns are left out of a narrow table: the highest number first; columns with 0 always
    stay."""
    about: str = ""
    """Description in references (`{}` is replaced by the period); empty: the heading suffices."""
    is_stored: bool = False
    """True if the column is stored in Parquet."""
    null: bool = False
    """True if the Parquet column is nullable."""
    interval: str = ""
    """Name of the row's field with the interval of the value, shown below the value; empty: none."""

    def of(self, row: Any) -> Any:
        """Value of the column in `row`; (before, after) for a pair."""
        if self.value is not None:
            return self.value(row)
        if self.is_pair:
            return getattr(row, self.key.format(0)), getattr(row, self.key.format(1))
        return getattr(row, self.key)

    @property
    def is_pair(self) -> bool:
        """True for a pair of columns, before and after."""
        return "{}" in self.key

    @property
    def is_shown(self) -> bool:
        """True if pages and terminals show the column."""
        return bool(self.label) or not self.is_stored

    @property
    def is_left(self) -> bool:
        """True if the column is aligned left."""
        return self.unit in LEFT

    def fields(self) -> Iterator[pa.Field]:
        """Yield the Parquet fields of the column: one field, two for a pair, none if the column is only
        shown."""
        for place, period in enumerate(PERIODS if self.is_pair else ("",)):
            if self.is_stored:
                type_ = _ARROW.get(self.unit, pa.float64())
                about = {"doc": self.about.format(period)}
                yield pa.field(self.key.format(place), type_, nullable=self.null, metadata=about)


def stored(
    key: str,
    unit: ColumnUnit,
    about: str,
    value: Callable[[Any], Any] | None = None,
    *,
    label: str = "",
    far: int = 0,
    null: bool = False,
    interval: str = "",
) -> Column:
    """Make a column that is stored in Parquet; a column with a `label` is also shown."""
    return Column(key, label, unit, value, far, about, is_stored=True, null=null, interval=interval)


column = partial(stored, "")
"""Annotation of a model's field, which makes the field a column of the same name; nullable if the field may
be None.

value: function from a row to the value; None: the value of the field.
"""


@dataclass(frozen=True, slots=True)
class Inside:
    """Annotation of a field whose value is a row, or None: the columns of that row become columns of the
    outer row."""

    prefix: str = ""
    """Prefix for the names of the inner columns."""
    about: Mapping[str, str] = field(default_factory=dict)
    """Inner column name -> description that replaces the description given by the inner class."""


Row = TypeVar("Row")
RowClass: TypeAlias = Any
"""Class of rows. Not `type[Any]`: mypy does not accept that as the key of a cache."""


def columns_of(row: RowClass, *names: str) -> tuple[Column, ...]:
    """Columns of a row class, in the order of its annotated fields.

    names: only these columns, in this order; `mean{}_us` is the pair of mean0_us and mean1_us.
    """
    found = _columns(row)
    return tuple(_named(found, name) for name in names) if names else tuple(found.values())


@cache
def _columns(row: RowClass) -> Mapping[str, Column]:
    """Name -> column, for all columns of a row's class; cached, as sections ask for a few columns at a
    time."""
    found: dict[str, Column] = {}
    for name, hint in _annotated(row):
        type_, *marks = get_args(hint)
        null = NoneType in get_args(type_)
        for mark in marks:
            if isinstance(mark, Column):
                found[name] = replace(mark, key=name, null=null)
            elif isinstance(mark, Inside):
                inner = (_inside(name, mark, one, null) for one in columns_of(_class_of(type_)))
                found |= {one.key: one for one in inner}
    return found


def _named(found: Mapping[str, Column], name: str) -> Column:
    """Column of this name; for a name with `{}`, the pair of columns."""
    before, after = (found[name.format(place)] for place in (0, 1))
    if before is after:
        return before
    return replace(before, key=name, value=lambda row: (before.of(row), after.of(row)))


@cache
def _annotated(row: RowClass) -> Sequence[tuple[str, Any]]:
    """(Field name, annotated type) of each annotated field of a row class; cached, as it is read for every
    row.
    """
    hints = get_type_hints(row, include_extras=True)
    return [(name, hint) for name, hint in hints.items() if hasattr(hint, "__metadata__")]


def _class_of(type_: Any) -> RowClass:
    """The class X of a type `X | None`; `type_` itself if it is no union."""
    return next((one for one in get_args(type_) if one is not NoneType), type_)


def _inside(name: str, mark: Inside, inner: Column, null: bool) -> Column:
    def value(row: Any) -> Any:
        held = getattr(row, name)
        return None if held is None else inner.of(held)

    about = mark.about.get(inner.key, inner.about)
    return replace(inner, key=f"{mark.prefix}{inner.key}", value=value, about=about, null=inner.null or null)


def arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    """Schema of the stored columns among `columns`, with descriptions in the fields' metadata."""
    return pa.schema([field for column in columns for field in column.fields()])


def arrow_table(columns: Sequence[Column], rows: Iterable[Any], **values: Any) -> pa.Table:
    """Arrow table of rows, one value per stored column. O(rows · columns): for some thousands of rows.

    values: whole columns by name, for columns that are no field of the row.
    """
    every = [*rows]
    for one in columns:
        names = [field.name for field in one.fields()]
        if all(name in values for name in names):
            continue
        read = [one.of(row) for row in every]
        parts = [[pair[place] for pair in read] for place in (0, 1)] if one.is_pair else [read]
        values |= zip(names, parts, strict=True)
    return arrow_columns(columns, **values)


def arrow_columns(columns: Iterable[Column], **values: Any) -> pa.Table:
    """Arrow table of whole columns, for tables of many rows.

    values: name -> Arrow or numpy array, or sequence; NaN becomes null where the column may be null.
    """
    schema = arrow_schema(columns)
    return pa.table([_array(values[field.name], field) for field in schema], schema=schema)


def _array(given: Any, field: pa.Field) -> pa.Array | pa.ChunkedArray:
    if isinstance(given, pa.Array | pa.ChunkedArray):
        return given.cast(field.type)
    return pa.array(given, field.type, from_pandas=field.nullable)


def rows_of(row: type[Row], table: pa.Table) -> Iterator[Row]:
    """Yield the rows of `table` as objects of class `row`, whose fields must all be annotated columns."""
    for held in table.to_pylist():
        yield _row_of(row, held, "")


def _row_of(row: RowClass, held: dict[str, Any], prefix: str) -> Any:
    fields: dict[str, Any] = {}
    for name, hint in _annotated(row):
        type_, *marks = get_args(hint)
        inside = next((mark for mark in marks if isinstance(mark, Inside)), None)
        if inside is None:
            fields[name] = held[f"{prefix}{name}"]
        else:
            class_, names = _class_of(type_), f"{prefix}{inside.prefix}"
            absent = (held[f"{names}{one.key}"] is None for one in columns_of(class_) if not one.null)
            fields[name] = None if any(absent) else _row_of(class_, held, names)
    return row(**fields)
