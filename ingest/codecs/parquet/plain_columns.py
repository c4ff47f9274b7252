"""Convert the columns of a table to plain types: no dictionaries, 32-bit offsets, valid UTF-8.

Arrow refuses a whole column for one invalid text, so text is treated as bytes until every value is checked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.codecs.values.columns import list_column, mask, owners, ragged
from schemas.arrays import B1

_PAIR: Final = ("key", "value")


class RepeatedTextError(Exception):
    """Text that rows share would take far more memory than the table once copied to each row; the message
    becomes the detail of a reject."""


def plain_columns(
    table: pa.Table, ids: tuple[str, ...], most_bytes: int
) -> tuple[dict[str, pa.Array], dict[str, B1]]:
    """Convert all columns to plain types: (name -> column; name -> [rows] True where text is not UTF-8, only
    for columns with such text).

    Text becomes string, with U+FFFD in place of invalid bytes; bytes become text, except in `ids`; maps and
    lists of two-member structs become list<struct<key, value>>. Other types stay. Raises ArrowException if
    the table is damaged, and RepeatedTextError if the columns would take more than `most_bytes`.
    """
    shared = {
        name: _valid(chunks.chunk(0) if chunks.num_chunks else pa.array([], chunks.type))
        for name, chunks in zip(table.column_names, table.columns, strict=True)
    }
    if (size := sum(map(plain_bytes, shared.values()))) > most_bytes:
        raise RepeatedTextError(f"texts that rows share would take {size:,} bytes in {table.num_rows:,} rows")
    columns: dict[str, pa.Array] = {}
    not_utf8: dict[str, B1] = {}
    for name, column in shared.items():
        columns[name], bad = _plain(column, bytes_stay=name in ids)
        if bad.any():
            not_utf8[name] = bad
    return columns, not_utf8


def _valid(column: pa.Array) -> pa.Array:
    """Column in which text types are replaced by bytes types. Raises ArrowException if it is damaged."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    of_bytes = _with_bytes(column.type)
    if of_bytes != column.type:
        column = column.view(of_bytes)
    column.validate(full=True)
    return column


def _with_bytes(type_: pa.DataType) -> pa.DataType:
    """The type with the same buffers in which text is replaced by bytes."""
    if pa.types.is_string(type_):
        return pa.binary()
    if pa.types.is_large_string(type_):
        return pa.large_binary()
    if pa.types.is_string_view(type_):
        return pa.binary_view()
    if pa.types.is_dictionary(type_):
        return pa.dictionary(type_.index_type, _with_bytes(type_.value_type), type_.ordered)
    if pa.types.is_map(type_):
        return pa.map_(_field(type_.key_field), _field(type_.item_field))
    if pa.types.is_list(type_):
        return pa.list_(_field(type_.value_field))
    if pa.types.is_large_list(type_):
        return pa.large_list(_field(type_.value_field))
    if pa.types.is_struct(type_):
        return pa.struct([_field(field) for field in type_])
    return type_


def _field(field: pa.Field) -> pa.Field:
    return field.with_type(_with_bytes(field.type))


def _plain(column: pa.Array, *, bytes_stay: bool) -> tuple[pa.Array, B1]:
    """Replace dictionaries by values, and bytes by text unless `bytes_stay`: (column, [rows] True where bytes
    are not UTF-8)."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if _is_bytes(column.type):
        column = column.cast(pa.binary())
        return (column, _none(column)) if bytes_stay else _text(column)
    if is_pairs(column.type):
        return _pairs(column)
    return column, _none(column)


def plain_bytes(column: pa.Array) -> int:
    """Bytes of memory of a column without dictionaries, in which repeated text is stored only once.
    O(values)."""
    if pa.types.is_map(column.type):
        column = _listed(column)
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        return plain_bytes(column.flatten())
    if pa.types.is_struct(column.type):
        return sum(map(plain_bytes, column.flatten()))
    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes)
    if not is_text(column.type.value_type):
        return plain_bytes(column.dictionary_decode())
    lengths = pc.cast(pc.binary_length(column.dictionary), pa.int64())
    return int(pc.sum(lengths.take(column.indices)).as_py() or 0)


def without_dictionaries(column: pa.Array) -> pa.Array:
    """Column in which dictionaries are replaced by their values; maps become lists of pairs."""
    return _with_leaves(column, lambda leaf: leaf.dictionary_decode())


def with_used_words(column: pa.Array, min_repetition: float) -> pa.Array:
    """Column whose dictionaries contain only words in use; a dictionary is replaced by its values if these
    take less than `min_repetition` times its bytes."""
    return _with_leaves(column, lambda leaf: _with_used_words(leaf, min_repetition))


def _with_leaves(column: pa.Array, made: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Apply `made` to each dictionary array in a column, at any depth; maps become lists of pairs."""
    if pa.types.is_map(column.type):
        column = _listed(column)
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        lengths, values = ragged(column)
        return list_column(lengths, _with_leaves(values, made), mask(column.is_null()))
    if pa.types.is_struct(column.type):
        members = [_with_leaves(member, made) for member in column.flatten()]
        names = [field.name for field in column.type]
        return pa.StructArray.from_arrays(members, names=names, mask=column.is_null())
    return made(column) if pa.types.is_dictionary(column.type) else column


def _with_used_words(column: pa.DictionaryArray, min_repetition: float) -> pa.Array:
    """Dictionary array with only the words in use, or an array of values; see `with_used_words`.

    O(values and words).
    """
    words, indices = column.dictionary, column.indices
    if not is_text(words.type) or not len(words):
        return column.dictionary_decode()
    used = np.zeros(len(words), np.bool_)
    used[indices.drop_null().to_numpy()] = True
    kept = words.filter(pa.array(used))
    if plain_bytes(column) <= min_repetition * (kept.nbytes + indices.nbytes):
        return column.dictionary_decode()
    if len(kept) == len(words):
        return column
    # Never -1, also under nulls: Arrow looks them up where it unifies dictionaries.
    numbers = np.maximum(np.cumsum(used) - 1, 0)[pc.fill_null(indices, 0).to_numpy()]
    places = pa.array(numbers.astype(np.int32), mask=mask(indices.is_null()))
    return pa.DictionaryArray.from_arrays(places, kept)


def longest_word(column: pa.Array) -> int:
    """Length in bytes of the longest word in the dictionaries of a column, nested ones included."""
    sizes: list[int] = []

    def measure(leaf: pa.DictionaryArray) -> pa.Array:
        sizes.append(pc.max(pc.binary_length(leaf.dictionary)).as_py() or 0)
        return leaf

    _with_leaves(column, measure)
    return max(sizes, default=0)


def _listed(column: pa.MapArray) -> pa.ListArray:
    """Map column converted to a list of structs of key and value."""
    return column.cast(pa.list_(pa.struct([column.type.key_field, column.type.item_field])))


def is_text(type_: pa.DataType) -> bool:
    """True if a type is text or bytes with offsets of any size."""
    return _is_bytes(_with_bytes(type_))


def _is_bytes(type_: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(type_)
        or pa.types.is_large_binary(type_)
        or pa.types.is_fixed_size_binary(type_)
        or pa.types.is_binary_view(type_)
    )


def is_pairs(type_: pa.DataType) -> bool:
    """True if a type is a map, or a list of structs with two members."""
    if not (pa.types.is_list(type_) or pa.types.is_large_list(type_)):
        return bool(pa.types.is_map(type_))
    return bool(pa.types.is_struct(type_.value_type) and type_.value_type.num_fields == len(_PAIR))


def _none(column: pa.Array) -> B1:
    return np.zeros(len(column), np.bool_)


def _text(column: pa.Array) -> tuple[pa.Array, B1]:
    """Convert bytes to text: (text, [rows] True if not UTF-8). O(bytes); if any value is not UTF-8, Python
    runs per value."""
    try:
        return column.cast(pa.string()), _none(column)
    except pa.ArrowInvalid:
        values = column.to_pylist()
    texts = [None if value is None else value.decode(errors="replace") for value in values]
    bad = [text is not None and text.encode() != value for text, value in zip(texts, values, strict=True)]
    return pa.array(texts, pa.string()), np.array(bad, np.bool_)


def _pairs(column: pa.Array) -> tuple[pa.Array, B1]:
    if pa.types.is_map(column.type):
        column = _listed(column)
    elif pa.types.is_large_list(column.type):
        column = column.cast(pa.list_(column.type.value_field))
    lengths, pairs = ragged(column)
    members = [_plain(member, bytes_stay=False) for member in pairs.flatten()]
    plain = pa.StructArray.from_arrays([member for member, _ in members], names=_PAIR)
    rows = _none(column)
    rows[owners(lengths)[members[0][1] | members[1][1]]] = True
    return list_column(lengths, plain, _none(column)), rows
