"""Attributes as one long table with the columns owner, key, value.

Python code runs only per distinct key, never per attribute.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.codecs.values.columns import mask
from schemas.arrays import B1, I8


@dataclass(frozen=True, slots=True)
class AttributeTable:
    """Attributes of spans, resources or span events, one row per attribute.

    `owner` never decreases. In each row exactly one of `num` and `text` is not null.
    """

    owner: I8
    """[n] row of the span, resource or span event that owns the attribute, in its table."""
    code: I8
    """[n] index of the key in `keys`."""
    keys: tuple[str, ...]
    """Distinct attribute keys, indexed by `code`."""
    num: pa.Array
    """[values] float64 value; null if the value is text."""
    text: pa.Array
    """[values] text value, booleans as `true`/`false`, nested values as compact JSON; null if the value is a
    number."""
    row: I8 | None = None
    """[n] index into `num` and `text` of the attribute's value; None: attribute i has value i."""

    def __len__(self) -> int:
        return len(self.owner)

    def rows(self, chosen: B1) -> AttributeTable:
        """Copy with only the rows where `chosen` [n] is True."""
        if chosen.all():
            return self
        row = np.flatnonzero(chosen) if self.row is None else self.row[chosen]
        return replace(self, owner=self.owner[chosen], code=self.code[chosen], row=row)

    def spread(self, of_row: I8) -> AttributeTable:
        """Copy attributes to new owners: the new owner r gets all attributes of the old owner `of_row[r]`
        (resources → spans)."""
        n_owners = int(max(of_row.max(initial=-1), self.owner.max(initial=-1))) + 1
        count = np.bincount(self.owner, minlength=n_owners)
        first = np.cumsum(count) - count
        lengths = count[of_row]
        owner = np.repeat(np.arange(len(of_row)), lengths)
        begin = np.cumsum(lengths) - lengths
        take = np.arange(len(owner)) + np.repeat(first[of_row] - begin, lengths)
        row = take if self.row is None else self.row[take]
        return replace(self, owner=owner, code=self.code[take], row=row)

    def first_text(self, key: str, n_rows: int) -> pa.Array:
        """[n_rows] each owner's first value under `key`, as text (numbers printed); null if the owner lacks
        the key."""
        out = pa.nulls(n_rows, pa.string())
        if key not in self.keys:
            return out
        at = np.flatnonzero(self.code == self.keys.index(key))
        if len(at) == 0:
            return out
        at = at[np.unique(self.owner[at], return_index=True)[1]]
        index = pa.array(at if self.row is None else self.row[at])
        values = self.text.take(index)
        if values.null_count:
            values = pc.coalesce(values, number_text(self.num.take(index)))
        there = np.zeros(n_rows, np.bool_)
        there[self.owner[at]] = True
        return pc.replace_with_mask(out, pa.array(there), values)


def no_attributes() -> AttributeTable:
    """`AttributeTable` without rows."""
    none = np.empty(0, np.int64)
    return AttributeTable(none, none, (), pa.array([], pa.float64()), pa.array([], pa.string()))


def number_text(num: pa.Array) -> pa.Array:
    """Print numbers as text; integers without a decimal point."""
    whole = pc.and_(pc.equal(num, pc.floor(num)), pc.less(pc.abs(num), 2.0**53))
    as_int = pc.cast(pc.cast(pc.if_else(whole, num, None), pa.int64()), pa.string())
    return pc.coalesce(as_int, pc.cast(num, pa.string()))


def attribute_table(owner: Sequence[int], keys: Sequence[str], values: Iterable[object]) -> AttributeTable:
    """Build a table from Python values, for formats that are read item by item. None values are omitted.

    Numbers go to `num` (to `text` if not finite or out of range), text and booleans to `text`, lists and
    objects to `text` as JSON.
    """
    num: list[float | None] = []
    text: list[str | None] = []
    for value in values:
        kind = type(value)
        if kind is str:
            num.append(None)
            text.append(value)  # type: ignore[arg-type]
        else:
            n, t = split_value(value)
            num.append(n)
            text.append(t)
    encoded = pa.array(keys, pa.string()).dictionary_encode()
    table = AttributeTable(
        np.asarray(owner, np.int64),
        np.asarray(encoded.indices, np.int64),
        tuple(encoded.dictionary.to_pylist()),
        pa.array(num, pa.float64()),
        pa.array(text, pa.string()),
    )
    return table.rows(mask(pc.or_(pc.is_valid(table.num), pc.is_valid(table.text))))


def split_value(value: object) -> tuple[float | None, str | None]:
    """Split a value into (num, text), of which one is None; both are None for the value None."""
    if value is None:
        return None, None
    if isinstance(value, bool):
        return None, "true" if value else "false"
    if isinstance(value, int):
        try:
            return float(value), None
        except OverflowError:
            return None, str(value)
    if isinstance(value, float):
        if np.isfinite(value):
            return value, None
        return None, "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, str):
        return None, value
    return None, msgspec.json.encode(value).decode()


def plain_value(value: object) -> object:
    """JSON text of a list or object, as `split_value` returns it; other values unchanged.

    For readers that must know, item by item, whether a value can be converted. Raises RecursionError.
    """
    return msgspec.json.encode(value).decode() if isinstance(value, list | dict) else value


def finite_or_text(num: pa.Array, text: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Move numbers that are not finite from `num` to `text`, as `split_value` does."""
    finite = pc.is_finite(num)
    if num.null_count == len(num) or pc.all(finite).as_py() is not False:
        return num, text
    odd = pc.fill_null(pc.invert(finite), False)
    name = pc.if_else(pc.is_nan(num), "NaN", pc.if_else(pc.greater(num, 0.0), "Infinity", "-Infinity"))
    return pc.if_else(odd, None, num), pc.if_else(odd, name, text)
