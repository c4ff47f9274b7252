"""A cheap hash of an event, to tell a repeated delivery from a late event after its request was closed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.arrays import B1, U8
from stitch.columnar.chunks import whole
from stitch.columnar.hashing import hash_dictionary, mix
from stitch.drivers.partition import hash_texts

_NULL = np.uint64(0xA24BAED4963EE407)
_NUMBERS = ("kind", "seq", "ts_ns", "end_ns", "shared", "sample_rate")
_WORDS = ("component", "point", "label", "host", "peer", "status")
_LISTS = ("parents", "follows", "links", "marks", "params")
"""The lists of an event: what is in them tells one version of an event from another."""


def print_events(events: pa.Table, keys: U8) -> U8:
    """[events] hash over what each says; `keys` [events] are those of their requests. O(events).

    Events that print alike are copies: two versions of one id that differ anywhere print otherwise.
    """
    total = keys
    for name in _NUMBERS:
        total = _with(total, _numbers(events[name]))
    for name in _WORDS:
        total = _with(total, hash_dictionary(whole(events[name])))
    for name in ("id", "breadcrumb"):
        column = whole(events[name])
        if column.null_count == len(column):
            total = _with(total, _NULL)
        else:
            hashes = hash_texts(column)
            total = _with(total, np.where(_nulls(column), _NULL, hashes) if column.null_count else hashes)
    for name in _LISTS:
        column = whole(events[name])
        total = _with(total, _NULL if column.null_count == len(column) else _lists(column))
    return total


def _with(total: U8, value: U8 | np.uint64) -> U8:
    with np.errstate(over="ignore"):
        return mix(total + value)


def _numbers(column: pa.ChunkedArray | pa.Array) -> U8:
    array = whole(column) if isinstance(column, pa.ChunkedArray) else column
    if array.null_count == len(array):
        return np.full(len(array), _NULL)
    nulls = array.null_count > 0
    filled = pc.fill_null(array, False if pa.types.is_boolean(array.type) else 0) if nulls else array
    values = filled.to_numpy(zero_copy_only=False)
    bits: U8 = (values if values.dtype == np.float64 else values.astype(np.int64)).view(np.uint64)
    return np.where(_nulls(array), _NULL, bits) if nulls else bits


def _lists(array: pa.Array) -> U8:
    """[lists] hash of each list: its values with their places. O(values + distinct texts)."""
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    values = _values(pc.list_flatten(array))
    ends = np.cumsum(lengths)
    place = (np.arange(len(values)) - np.repeat(ends - lengths, lengths)).astype(np.uint64)
    with np.errstate(over="ignore"):
        running = np.concatenate((np.zeros(1, np.uint64), np.cumsum(mix(values + mix(place)))))
        total: U8 = mix(running[ends] - running[ends - lengths] + lengths.astype(np.uint64))
    return np.where(_nulls(array), _NULL, total)


def _values(array: pa.Array) -> U8:
    """[values] hash of what a list holds: texts, ids, numbers, or structs of these."""
    if pa.types.is_struct(array.type):
        total = np.zeros(len(array), dtype=np.uint64)
        for place in range(array.type.num_fields):
            total = _with(total, _values(pc.struct_field(array, [place])))
        return total
    if pa.types.is_string(array.type) or pa.types.is_binary(array.type):
        words = array.dictionary_encode()
        table = np.append(hash_texts(words.dictionary), _NULL)
        codes = words.indices.fill_null(len(words.dictionary)).to_numpy(zero_copy_only=False)
        hashes: U8 = table[codes]
        return hashes
    return _numbers(array)


def _nulls(array: pa.Array) -> B1:
    result: B1 = array.is_null().to_numpy(zero_copy_only=False)
    return result
