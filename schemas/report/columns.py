"""A column of a table: how its values read on a page and a terminal, and what it is in Parquet and in SQL.

One list of columns makes all four. A `Column` is shown, what `stored` makes is in Parquet and in SQL, and
with a label in both:

    Column("share", "Of all", "share")
    stored("q", "p", "p corrected for the number of tests", label="q")
    stored("requests{}", "count", "requests with the call site, {}", label="Requests")

The last is two fields of a row and two stored columns, requests0 and requests1, before and after; shown they
are one, `29 → 3 174`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

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
    "flag",
]
"""`text`: words; `name`: a name from outside, clipped; `key`: of a category, shortened; `figure`: words that
stand to the right like numbers; `place`: a small whole number; `us`: a duration in µs; `change`: one with its
sign; `share`: in percent; `gain`: with its sign; `ratio`: `×1.3`; `flag`: yes or no. A pair of values reads
`before → after`."""

LEFT: Final = ("text", "name", "key", "keys", "bar", "flag")
"""Units that stand to the left; numbers stand to the right."""

_ARROW: Final = {
    "text": pa.string(),
    "name": pa.string(),
    "key": pa.string(),
    "keys": pa.list_(pa.string()),
    "count": pa.int64(),
    "place": pa.int32(),
    "flag": pa.bool_(),
}
"""Types that are no float64."""

PERIODS: Final = ("reference", "problem")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    key: str
    """Field of a row, and its name where it is stored. `mean{}_us` stands for two: `mean0_us` before and
    `mean1_us` after."""
    label: str = ""
    """Heading; empty: stored only, or a bar."""
    unit: ColumnUnit = "text"
    value: Callable[[Any], Any] | None = None
    """The value of a row where it is no field of the key's name; of a pair a pair."""
    far: int = 0
    """Columns of the highest number are left out first where there is little room; of 0 none."""
    about: str = ""
    """What it holds, where a word is not enough; `{}` in that of a stored pair is the period."""
    is_stored: bool = False
    """Whether Parquet has it."""
    null: bool = False
    """Whether it may be null there."""

    def of(self, row: Any) -> Any:
        """The value of a row; of a pair both."""
        if self.value is not None:
            return self.value(row)
        if self.is_pair:
            return getattr(row, self.key.format(0)), getattr(row, self.key.format(1))
        return getattr(row, self.key)

    @property
    def is_pair(self) -> bool:
        """Whether it is two, before and after."""
        return "{}" in self.key

    @property
    def is_shown(self) -> bool:
        """Whether a page and a terminal have it."""
        return bool(self.label) or not self.is_stored

    @property
    def is_left(self) -> bool:
        """Whether it stands to the left."""
        return self.unit in LEFT

    def fields(self) -> Iterator[pa.Field]:
        """What it is in Parquet; none where it is shown only."""
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
) -> Column:
    """A column that Parquet and SQL have; with a label it is shown, too."""
    return Column(key, label, unit, value, far, about, is_stored=True, null=null)


def arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    """The schema of what of some columns is stored, each described in its metadata."""
    return pa.schema([field for column in columns for field in column.fields()])


def arrow_table(columns: Sequence[Column], rows: Iterable[Any]) -> pa.Table:
    """Rows as Parquet has them: O(rows · columns), for tables of some thousands."""
    kept = [column for column in columns if column.is_stored]
    records = []
    for row in rows:
        record: dict[str, Any] = {}
        for column in kept:
            value = column.of(row)
            if column.is_pair:
                record[column.key.format(0)], record[column.key.format(1)] = value
            else:
                record[column.key] = value
        records.append(record)
    return pa.Table.from_pylist(records, schema=arrow_schema(columns))


def arrow_columns(columns: Iterable[Column], **values: Any) -> pa.Table:
    """Whole columns as Parquet has them, by name, for tables of many rows.

    values: arrays of Arrow or numpy, or sequences; NaN is null where the column may be null.
    """
    schema = arrow_schema(columns)
    return pa.table([_array(values[field.name], field) for field in schema], schema=schema)


def _array(given: Any, field: pa.Field) -> pa.Array | pa.ChunkedArray:
    if isinstance(given, pa.Array | pa.ChunkedArray):
        return given.cast(field.type)
    return pa.array(given, field.type, from_pandas=field.nullable)
