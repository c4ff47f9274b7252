"""Hash requests and events of a lane to 64 bits, so that what comes after a request was closed is recognised.

A request is known by its id, and by its records' breadcrumbs and ids; an event by a cheap hash of what it
says, which distinguishes a repeated delivery from a late event. Spans and records of one id are two requests
here, as they are two flows (`stitch.kernel`): they may start in different windows, and are published one by
one.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.arrays import B1, I8, U8
from schemas.events import SPAN_KIND_BASE
from schemas.lake import SPANS
from stitch.columnar.hashing import hash_dictionary, mix, nulls
from stitch.columnar.runs import whole
from stitch.drivers.partition import hash_texts
from stitch.records.components import assign_requests, flat_list, split_and_join_links

_OF_SPANS: Final = np.uint64(0x9FB21C651E98DF25)
_CRUMB: Final = np.uint64(0xD6E8FEB86659FD93)
_ID: Final = np.uint64(0xA3B195354A39B70D)
LINKING_COLUMNS: Final = ["kind", "request_id", "breadcrumb", "id", "parents", "links"]
"""All that ties records to each other."""
_NULL = np.uint64(0xA24BAED4963EE407)
_NUMBERS = ("kind", "seq", "ts_ns", "end_ns", "shared", "sample_rate")
_WORDS = ("component", "point", "label", "host", "peer", "status")
_LISTS = ("parents", "follows", "links", "marks", "params")
"""The lists of an event: what is in them distinguishes one version of an event from another."""


def request_keys(events: pa.Table) -> tuple[U8, B1 | None]:
    """`(key [events], loose)`: loose are records without a request id, whose key is 0; None: there are none.

    One hash a distinct id, O(events) gather.
    """
    words = whole(events["request_id"]).dictionary_encode()
    is_span = events["kind"].to_numpy() >= SPAN_KIND_BASE
    hashes = np.append(hash_texts(words.dictionary), np.uint64(0))
    if not words.null_count:
        return _by_kind(hashes[words.indices.to_numpy(zero_copy_only=False)], is_span), None
    code = pc.fill_null(words.indices, len(hashes) - 1).to_numpy(zero_copy_only=False)
    keys = _by_kind(hashes[code], is_span)
    loose = code == len(hashes) - 1
    keys[loose] = 0
    return keys, loose


def flow_keys(flows: pa.Table) -> U8:
    """[flows] the key of the request of each, by `request_id` and `kind`."""
    is_span = pc.equal(flows["kind"].cast(pa.string()), SPANS).to_numpy()
    return _by_kind(hash_texts(whole(flows["request_id"])), is_span)


def loose_keys(records: pa.Table) -> U8:
    """[records] key of the request of each, known by what ties them where they name none.

    records: LINKING_COLUMNS of every open record of the lane, one chunk a column. As
    `stitch.records.components.assign_requests`, by component of all of them.
    """
    requests = assign_requests(records)
    return _by_kind(hash_texts(requests.names), np.zeros(len(requests.names), np.bool_))[requests.code]


def _by_kind(hashes: U8, is_span: B1) -> U8:
    keys: U8 = mix(np.where(is_span, hashes ^ _OF_SPANS, hashes))
    return keys


def record_words(events: pa.Table) -> tuple[I8, U8]:
    """`(row, word)`: what records without a request id are tied by to each record: breadcrumbs and ids.

    Spans have none. A record that names nothing at all has the breadcrumb "", as in `assign_requests`.
    """
    is_record = events["kind"].to_numpy() < SPAN_KIND_BASE
    rows = np.flatnonzero(is_record)
    if not len(rows):
        return rows, np.zeros(0, dtype=np.uint64)
    events = events.select(LINKING_COLUMNS)
    if len(rows) < events.num_rows:
        events = events.take(pa.array(rows)).combine_chunks()
    found: list[tuple[I8, U8]] = []
    for name, salt in (("breadcrumb", _CRUMB), ("id", _ID)):
        column = whole(events[name])
        valid = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
        found.append((valid, _word_hashes(column.drop_null(), salt)))
    link_row, link = split_and_join_links(events)
    found.append((link_row, _word_hashes(link, _CRUMB)))
    parent_row, parent = flat_list(whole(events["parents"]))
    found.append((parent_row, _word_hashes(parent, _ID)))
    names_nothing = np.ones(len(rows), dtype=np.bool_)
    for row, _ in found:
        names_nothing[row] = False
    nothing = np.flatnonzero(names_nothing)
    found.append((nothing, np.repeat(_word_hashes(pa.array([""]), _CRUMB), len(nothing))))
    return rows[np.concatenate([row for row, _ in found])], np.concatenate([word for _, word in found])


def _word_hashes(words: pa.Array, salt: np.uint64) -> U8:
    if not len(words):
        return np.zeros(0, dtype=np.uint64)
    encoded = words.dictionary_encode()
    hashes: U8 = mix(hash_texts(encoded.dictionary) ^ salt)[encoded.indices.to_numpy(zero_copy_only=False)]
    return hashes


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
            total = _with(total, np.where(nulls(column), _NULL, hashes) if column.null_count else hashes)
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
    has_nulls = array.null_count > 0
    filled = pc.fill_null(array, False if pa.types.is_boolean(array.type) else 0) if has_nulls else array
    values = filled.to_numpy(zero_copy_only=False)
    bits: U8 = (values if values.dtype == np.float64 else values.astype(np.int64)).view(np.uint64)
    return np.where(nulls(array), _NULL, bits) if has_nulls else bits


def _lists(array: pa.Array) -> U8:
    """[lists] hash of each list: its values with their places. O(values + distinct texts)."""
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    values = _values(pc.list_flatten(array))
    ends = np.cumsum(lengths)
    place = (np.arange(len(values)) - np.repeat(ends - lengths, lengths)).astype(np.uint64)
    with np.errstate(over="ignore"):
        running = np.concatenate((np.zeros(1, np.uint64), np.cumsum(mix(values + mix(place)))))
        total: U8 = mix(running[ends] - running[ends - lengths] + lengths.astype(np.uint64))
    return np.where(nulls(array), _NULL, total)


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
