"""Hash whole columns to 64 bits: BLAKE2b for each distinct word, then multiply-xor mixing.

The hashes are used to *group* nodes and flows inside a batch and to order branches canonically; they are
stable across batches, machines and versions. They are never stored as keys: those are 128-bit BLAKE2b of the
whole template (`stitch.graph.template`).

The content hash of event rows is equal for rows of equal content, wherever they are in the batch. It is used
on the few rows whose ids collide: it distinguishes a duplicate from another version of the event, and makes
the choice of the version to keep independent of arrival order.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.arrays import B1, U8
from schemas.events import EVENT_SCHEMA, with_text_ids
from stitch.columnar.runs import list_lengths, whole

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLY_1 = np.uint64(0xBF58476D1CE4E5B9)
_MULTIPLY_2 = np.uint64(0x94D049BB133111EB)
_NULL = np.uint64(0xA24BAED4963EE407)


def mix(x: U8) -> U8:
    """[any shape] bijective hash of each number (the finaliser of splitmix64): every input bit changes half
    of the output bits."""
    with np.errstate(over="ignore"):
        z = x + _GOLDEN
        z = (z ^ (z >> np.uint64(30))) * _MULTIPLY_1
        z = (z ^ (z >> np.uint64(27))) * _MULTIPLY_2
    return z ^ (z >> np.uint64(31))


def hash_word(text: str | None) -> int:
    """Stable 64-bit hash of one string; null differs from the empty string."""
    if text is None:
        return 0x5DEECE66D
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


Words = Callable[[pa.Array], U8]
"""Function that returns a uint64 hash for each word of an array of distinct words."""


def hash_words(words: pa.Array) -> U8:
    """[words] uint64 hash of each word, by `hash_word`."""
    return np.array([hash_word(word) for word in words.to_pylist()], dtype=np.uint64)


def hash_dictionary(column: pa.ChunkedArray | pa.Array, words: Words = hash_words) -> U8:
    """[rows] uint64 hash of each value of a dictionary-encoded string column: O(distinct) hashing, O(rows)
    gather. words: function that hashes the distinct values."""
    if isinstance(column, pa.ChunkedArray):
        column = whole(column.unify_dictionaries())
    table = np.append(words(column.dictionary), np.uint64(hash_word(None)))
    codes = column.indices.fill_null(len(table) - 1).to_numpy(zero_copy_only=False)
    hashes: U8 = table[codes]
    return hashes


def hash_labels(events: pa.Table) -> U8:
    """[events] uint64 hash of each node's label: component, point, label and kind, but not the host."""
    with np.errstate(over="ignore"):
        h = mix(hash_dictionary(events["component"]))
        h = mix(h ^ hash_dictionary(events["point"]))
        h = mix(h ^ hash_dictionary(events["label"]))
        return mix(h + events["kind"].to_numpy().astype(np.uint64))


def hash_rows(events: pa.Table, words: Words = hash_words) -> U8:
    """[rows] stable uint64 hash of each row over all columns of `events`; null differs from empty. words:
    function that hashes distinct strings. O(rows + values)."""
    if events.schema.names == EVENT_SCHEMA.names and events.schema.field("id").type == pa.binary():
        events = with_text_ids(events)
    total = np.zeros(events.num_rows, dtype=np.uint64)
    for name in events.column_names:
        array = whole(events[name])
        with np.errstate(over="ignore"):
            total = mix(total + _hash_values(array, words))
    return total


def _hash_values(array: pa.Array, words: Words) -> U8:
    """[values] uint64 hash of each value of a column, which may have any type that EVENT_SCHEMA has."""
    kind = array.type
    is_text = pa.types.is_string(kind) or pa.types.is_binary(kind)
    if array.null_count == len(array) and not pa.types.is_dictionary(kind):
        return np.full(len(array), hash_word(None) if is_text else _NULL, np.uint64)
    if pa.types.is_list(kind):
        return _hash_lists(array, words)
    if pa.types.is_struct(kind):
        total = np.zeros(len(array), dtype=np.uint64)
        for i in range(kind.num_fields):
            with np.errstate(over="ignore"):
                total = mix(total + _hash_values(pc.struct_field(array, [i]), words))
        return np.where(nulls(array), _NULL, total)
    if pa.types.is_dictionary(kind):
        return hash_dictionary(array, words)
    if is_text:
        return hash_dictionary(array.dictionary_encode(), words)
    if pa.types.is_floating(kind):
        bits = pc.fill_null(array, 0.0).to_numpy(zero_copy_only=False).view(np.uint64)
    else:
        whole = pc.fill_null(array.cast(pa.int64()), 0)
        bits = whole.to_numpy(zero_copy_only=False).view(np.uint64)
    return np.where(nulls(array), _NULL, mix(bits))


def _hash_lists(array: pa.Array, words: Words) -> U8:
    """[lists] uint64 hash of each list, computed from its length, its values and their positions."""
    lengths = list_lengths(array)
    values = _hash_values(pc.list_flatten(array), words)
    ends = np.cumsum(lengths)
    place = np.arange(len(values)) - np.repeat(ends - lengths, lengths)
    with np.errstate(over="ignore"):
        running = np.concatenate(
            (np.zeros(1, np.uint64), np.cumsum(mix(values + mix(place.astype(np.uint64)))))
        )
        total = mix(running[ends] - running[ends - lengths] + lengths.astype(np.uint64))
    return np.where(nulls(array), _NULL, total)


def nulls(array: pa.Array) -> B1:
    """[values] True where the array is null."""
    result: B1 = array.is_null().to_numpy(zero_copy_only=False)
    return result
