"""Content hash of event rows: equal for rows that say the same, whatever their place in the batch.

Used on the few rows whose ids collide, to tell a repeated delivery from a contradiction and to choose a
winner that does not depend on arrival order.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.arrays import B1, U8
from schemas.events import EVENT_SCHEMA, with_text_ids
from stitch.columnar.chunks import whole
from stitch.columnar.mixing import hash_dictionary, mix

_NULL = np.uint64(0xA24BAED4963EE407)


def hash_rows(events: pa.Table) -> U8:
    """[rows] stable uint64 hash over every column of `events`; null differs from empty. O(rows + values)."""
    if events.schema.equals(EVENT_SCHEMA):
        events = with_text_ids(events)
    total = np.zeros(events.num_rows, dtype=np.uint64)
    for name in events.column_names:
        array = whole(events[name])
        with np.errstate(over="ignore"):
            total = mix(total + _hash_values(array))
    return total


def _hash_values(array: pa.Array) -> U8:
    """[values] hash of one column of any type of the event schema."""
    kind = array.type
    if pa.types.is_list(kind):
        return _hash_lists(array)
    if pa.types.is_struct(kind):
        total = np.zeros(len(array), dtype=np.uint64)
        for i in range(kind.num_fields):
            with np.errstate(over="ignore"):
                total = mix(total + _hash_values(pc.struct_field(array, [i])))
        return np.where(_nulls(array), _NULL, total)
    if pa.types.is_dictionary(kind):
        return hash_dictionary(array)
    if pa.types.is_string(kind):
        return hash_dictionary(array.dictionary_encode())
    if pa.types.is_floating(kind):
        bits = pc.fill_null(array, 0.0).to_numpy(zero_copy_only=False).view(np.uint64)
    else:
        whole = pc.fill_null(array.cast(pa.int64()), 0)
        bits = whole.to_numpy(zero_copy_only=False).view(np.uint64)
    return np.where(_nulls(array), _NULL, mix(bits))


def _hash_lists(array: pa.Array) -> U8:
    """[lists] hash of each list: its length and its values with their places."""
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    values = _hash_values(pc.list_flatten(array))
    ends = np.cumsum(lengths)
    place = np.arange(len(values)) - np.repeat(ends - lengths, lengths)
    with np.errstate(over="ignore"):
        running = np.concatenate(
            (np.zeros(1, np.uint64), np.cumsum(mix(values + mix(place.astype(np.uint64)))))
        )
        total = mix(running[ends] - running[ends - lengths] + lengths.astype(np.uint64))
    return np.where(_nulls(array), _NULL, total)


def _nulls(array: pa.Array) -> B1:
    """[values] where the array is null."""
    result: B1 = array.is_null().to_numpy(zero_copy_only=False)
    return result
