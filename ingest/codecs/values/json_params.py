"""Read parameters from a column of JSON objects (compact text), without parsing row by row.

In an object without nesting and escapes, every quote begins or ends a string, keys are the strings before a
colon, and a value extends to the next key. So a few numpy passes over the bytes find all keys and values.
Rows with escapes or nesting are parsed one by one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingest.codecs.named_twice import members
from ingest.codecs.payloads import JSON_ERRORS
from ingest.codecs.values.attributes import AttributeTable, attribute_table, no_attributes, plain_value
from ingest.codecs.values.columns import mask
from ingest.codecs.values.ids import binary_parts
from schemas.arrays import B1, I8

_QUOTE, _COLON, _MINUS, _ZERO, _NINE, _NULL = (ord(c) for c in '":-09n')
_BACKSLASH, _BRACE, _BRACKET = (ord(c) for c in "\\{[")


def attributes_of_json(objects: pa.Array) -> tuple[list[AttributeTable], I8]:
    """Parse JSON objects into attributes: (tables of attributes, owned by rows; indices of bad rows).

    objects: strings of compact JSON objects, or null. The attributes of a row are in one table only. A row is
    bad if its text is no object, is nested too deep, or has a number out of the range of a double. O(bytes).
    """
    legal = pc.starts_with(objects, "{")
    bad = np.flatnonzero(mask(pc.invert(legal)))
    there = np.flatnonzero(mask(legal))
    texts = objects.drop_null() if len(bad) == 0 else objects.filter(pc.fill_null(legal, False))
    odd = _rows_with_escapes(texts)
    if odd is None:
        flat = _flat(texts)
        odd = flat.nested_rows(len(texts))
        if odd is None:
            table, infinite = flat.attributes(there)
            return [table], np.concatenate([bad, infinite])
    else:
        # Nested rows can be detected only once rows with escapes are excluded.
        plain = np.flatnonzero(~odd)
        nested = _flat(texts.take(pa.array(plain))).nested_rows(len(plain))
        if nested is not None:
            odd[plain[nested]] = True
    flat = _flat(texts.filter(pa.array(~odd)))
    table, infinite = flat.attributes(there[~odd])
    parsed, refused = _parsed(texts.filter(pa.array(odd)), there[odd])
    return [table, parsed], np.concatenate([bad, infinite, refused])


def _rows_with_escapes(texts: pa.Array) -> B1 | None:
    """[rows] True for texts that contain a backslash; None if no text does."""
    offsets, data = binary_parts(texts)
    if not (data[offsets[0] : offsets[-1]] == _BACKSLASH).any():
        return None
    return mask(pc.match_substring(texts, "\\"))


def _parsed(texts: pa.Array, owner: I8) -> tuple[AttributeTable, I8]:
    decode = msgspec.json.Decoder(dict[str, object]).decode
    owners: list[int] = []
    keys: list[str] = []
    values: list[object] = []
    bad: list[int] = []
    for row, text in zip(owner.tolist(), texts.to_pylist(), strict=True):
        try:
            pairs = _plain(decode(text).items())
            # More names than members: one is duplicated, or text looks like a name.
            if _names(text) > len(pairs) + sum(_names(v) for _, v in pairs if isinstance(v, str)):
                pairs = _plain(members(text))
        except JSON_ERRORS:
            bad.append(row)
            continue
        owners += [row] * len(pairs)
        keys += [k for k, _ in pairs]
        values += [v for _, v in pairs]
    return attribute_table(owners, keys, values), np.array(bad, np.int64)


def _plain(pairs: Iterable[tuple[str, object]]) -> list[tuple[str, object]]:
    return [(key, plain_value(value)) for key, value in pairs]


def _names(text: str) -> int:
    """Upper bound of the number of members in compact JSON, the number of `":`: one follows each name, but
    text may also contain it."""
    return text.count('":')


@dataclass(frozen=True, slots=True)
class _Flat:
    """Positions of all keys and values in JSON texts without escapes."""

    texts: pa.Array
    row: I8
    """[keys] row of the text that contains the key; never decreases."""
    key_start: I8
    """[keys] byte offset at which the key starts, after its quote."""
    key_end: I8
    """[keys] byte offset at which the key ends, before its quote."""
    value_start: I8
    """[keys] byte offset at which the value starts; for a string after its quote."""
    value_end: I8
    """[keys] byte offset at which the value ends; for a string before its quote."""
    first: npt.NDArray[np.uint8]
    """[keys] first byte of the value."""

    def nested_rows(self, n: int) -> B1 | None:
        """[rows] True for texts in which a value is an object or array; None if there are none.

        All other fields of this class are invalid for such texts.
        """
        nested = (self.first == _BRACE) | (self.first == _BRACKET)
        if not nested.any():
            return None
        rows: B1 = np.zeros(n, np.bool_)
        rows[self.row[nested]] = True
        return rows

    def attributes(self, owner: I8) -> tuple[AttributeTable, I8]:
        """Attributes in the texts: (attributes, owners with a number out of the range of a double);
        attributes of text r are owned by `owner[r]`.

        Only for texts without nested values. Null values are omitted.
        """
        if len(self.row) == 0:
            return no_attributes(), np.empty(0, np.int64)
        is_num = (self.first == _MINUS) | ((self.first >= _ZERO) & (self.first <= _NINE))
        has_text = ~is_num & (self.first != _NULL)
        at = np.flatnonzero(is_num)
        number = np.zeros(len(self.row))
        number[at] = pc.cast(
            _slices(self.texts, self.value_start[at], self.value_end[at]), pa.float64()
        ).to_numpy()
        infinite = ~np.isfinite(number)
        is_num &= ~infinite
        keys = _slices(self.texts, self.key_start, self.key_end).dictionary_encode()
        values = _slices(self.texts, self.value_start, self.value_end)
        table = AttributeTable(
            owner[self.row],
            np.asarray(keys.indices, np.int64),
            tuple(keys.dictionary.to_pylist()),
            pa.array(number, mask=~is_num),
            values if has_text.all() else pc.if_else(pa.array(has_text), values, None),
        )
        return table.rows(is_num | has_text), owner[np.unique(self.row[infinite])]


def _flat(texts: pa.Array) -> _Flat:
    """Find the keys and values in `texts`, compact JSON objects without backslashes."""
    offsets, data = binary_parts(texts)
    quotes = np.flatnonzero(data[offsets[0] : offsets[-1]] == _QUOTE) + offsets[0]
    opens, closes = quotes[0::2], quotes[1::2]
    string = np.flatnonzero(data[closes + 1] == _COLON)
    key_open, key_close = opens[string], closes[string]
    per_row = np.diff(np.searchsorted(key_open, offsets))
    row = np.repeat(np.arange(len(texts)), per_row)
    # A value other than a string ends before the comma of the next key, or before the closing brace.
    end = np.empty(len(string), np.int64)
    end[:-1] = key_open[1:] - 1
    last = np.cumsum(per_row)[per_row > 0] - 1
    end[last] = offsets[1:][per_row > 0] - 1
    start = key_close + 2
    first = data[start]
    is_text = first == _QUOTE
    start += is_text
    end[is_text] = closes[string[is_text] + 1]
    return _Flat(texts, row, key_open + 1, key_close, start, end, first)


def _slices(texts: pa.Array, start: I8, end: I8) -> pa.Array:
    """Strings between byte positions `start` and `end` of the array's data; `start` must ascend, and slices
    must not overlap.

    An array is laid over the data whose elements are alternately the gaps and the slices; every second
    element is taken.
    """
    if len(start) == 0:
        return pa.array([], pa.string())
    bounds = np.empty(2 * len(start), np.int32)
    bounds[0::2], bounds[1::2] = start, end
    laid = pa.StringArray.from_buffers(len(bounds) - 1, pa.py_buffer(bounds), texts.buffers()[2])
    return laid.take(pa.array(np.arange(0, len(bounds) - 1, 2)))
