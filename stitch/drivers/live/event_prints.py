"""A cheap hash of an event, to tell a repeated delivery from a late event after its request was closed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stitch.columnar.chunks import whole
from stitch.columnar.mixing import hash_dictionary, mix
from stitch.drivers.partition import hash_texts

U8 = npt.NDArray[np.uint64]

_NULL = np.uint64(0xA24BAED4963EE407)
_NUMBERS = ("kind", "seq", "ts_ns", "end_ns", "shared")
_WORDS = ("component", "point", "label", "host", "peer", "status")
_LISTS = ("parents", "follows", "links", "marks", "params")


def print_events(events: pa.Table, keys: U8) -> U8:
    """[events] hash over what each says; `keys` [events] are those of their requests. O(events).

    Of lists only their lengths count (so a parameter may have changed unseen), of ids all. That suffices to
    tell an event from all others of its request; two *versions* of it that differ in the values of a list
    alone are taken for one.
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
        if column.null_count == len(column):
            total = _with(total, _NULL)
        else:
            total = _with(total, _numbers(pc.list_value_length(column)))
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
    bits: U8 = filled.to_numpy(zero_copy_only=False).astype(np.int64).view(np.uint64)
    return np.where(_nulls(array), _NULL, bits) if nulls else bits


def _nulls(array: pa.Array) -> npt.NDArray[np.bool_]:
    result: npt.NDArray[np.bool_] = array.is_null().to_numpy(zero_copy_only=False)
    return result
