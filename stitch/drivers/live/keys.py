"""Hash the requests of a lane to 64-bit keys.

A request is identified by its request id; records without one are grouped into requests by the breadcrumbs
and ids that link them. Spans and records with the same request id have different keys, as they are two flows
(`stitch.kernel`) and may start in different windows.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.arrays import B1, I8, U8
from schemas.events import SPAN_KIND_BASE
from schemas.lake import SPANS
from stitch.columnar.hashing import mix
from stitch.columnar.runs import coded_words, whole
from stitch.drivers.partition import hash_texts
from stitch.lake.event_log import LogRows, coded_ids
from stitch.records.components import assign_requests, flat_list, split_and_join_links

_OF_SPANS: Final = np.uint64(0x9FB21C651E98DF25)
_CRUMB: Final = np.uint64(0xD6E8FEB86659FD93)
_ID: Final = np.uint64(0xA3B195354A39B70D)
LINKING_COLUMNS: Final = ["kind", "request_id", "breadcrumb", "id", "parents", "links"]
"""Columns of EVENT_SCHEMA by which records of one request are linked to each other."""


def request_keys(events: pa.Table) -> tuple[U8, B1 | None]:
    """Key of each event's request: ([events] key, [events] True for records without a request id, whose key
    is 0).

    The second item is None if every event has a request id. O(events), with one hash per distinct id.
    """
    words = coded_words(whole(events["request_id"]))
    is_span = events["kind"].to_numpy() >= SPAN_KIND_BASE
    hashes = np.append(hash_texts(words.dictionary), np.uint64(0))
    code = pc.fill_null(words.indices, len(hashes) - 1).to_numpy(zero_copy_only=False)
    of_record, of_span = (_by_kind(hashes, np.full(len(hashes), is_it)) for is_it in (False, True))
    keys: U8 = of_span[code] if is_span.all() else np.where(is_span, of_span[code], of_record[code])
    if not words.null_count:
        return keys, None
    loose = code == len(hashes) - 1
    keys[loose] = 0
    return keys, loose


def flow_keys(flows: pa.Table) -> U8:
    """[flows] key of each flow's request, computed from the columns `request_id` and `kind`."""
    is_span = pc.equal(flows["kind"].cast(pa.string()), SPANS).to_numpy()
    return _by_kind(hash_texts(whole(flows["request_id"])), is_span)


def loose_keys(records: pa.Table) -> U8:
    """Key of each record's request for records without a request id: [records] one key for all records linked
    to each other.

    records: LINKING_COLUMNS of all open records of the lane, each column in one chunk;
    `stitch.records.components.assign_requests` finds the linked records.
    """
    requests = assign_requests(records)
    return _by_kind(hash_texts(requests.names), np.zeros(len(requests.names), np.bool_))[requests.code]


def log_rows(events: pa.Table) -> LogRows:
    """Combine events (EVENT_SCHEMA, each column in one chunk) and the keys of their requests to the rows of a
    log segment."""
    events = coded_ids(events)
    return LogRows(events, *request_keys(events))


def _by_kind(hashes: U8, is_span: B1) -> U8:
    keys: U8 = mix(np.where(is_span, hashes ^ _OF_SPANS, hashes))
    return keys


def record_words(events: pa.Table) -> tuple[I8, U8]:
    """Breadcrumbs and ids by which records are linked: ([pairs] row of a record, [pairs] hash of a breadcrumb
    or id of the record).

    Spans have no pair. A record without any breadcrumb or id gets the breadcrumb "", as in `assign_requests`.
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
