"""Convert columns of native records, as read by DuckDB, to events, and find invalid rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.codecs.payloads import JSON_ERRORS
from ingest.codecs.spans.span_batch import NO_TIME
from ingest.codecs.spans.spans_to_events import bad_times
from ingest.codecs.values.columns import event_table, list_column, mask, owners
from ingest.codecs.values.json_params import attributes_of_json
from ingest.codecs.values.names import clean_words, constant_words, words
from ingest.codecs.values.params import params_column
from schemas.arrays import B1
from schemas.config import DecodeConfig
from schemas.events import EVENT_SCHEMA, SMALLEST_RATE, EventKind
from schemas.records import FIELDS, ActivityRecord, RecordKind
from schemas.rejects import Reason

_TYPES = {"ts": "BIGINT", "links": "JSON", "parents": "JSON", "params": "JSON"}
DUCKDB_TYPES = {name: _TYPES.get(name, "VARCHAR") for name in FIELDS}
"""Field -> DuckDB type of its column. Optional fields are read as text, because DuckDB silently replaces a
value that does not fit another type by null."""

_IDS = ("breadcrumb", "request_id", "id")
_WORDS = ("component", "point", "host", "label", "status")
_REQUIRED = ("breadcrumb", "ts", "component", "point")
_KINDS = {kind.value: EventKind[kind.name] for kind in RecordKind}


def events_of_columns(
    columns: pa.Table, config: DecodeConfig, oddities: Counter[str], *, trusted: bool = False
) -> tuple[pa.Table, B1]:
    """Convert columns of native records to events: (events with one row per line, [rows] True if the row is
    invalid).

    trusted: True for lines that this program has rewritten: text that looks like an object or a boolean is
    then really text.
    """
    n = len(columns)
    of = {name: columns[name].combine_chunks() for name in DUCKDB_TYPES}
    bad = np.zeros(n, np.bool_)
    for name in _REQUIRED:
        bad |= mask(pc.is_null(of[name]))
    for name in _IDS:
        _check_ids(of[name], config, bad, trusted=trusted)
    for name in _WORDS:
        of[name] = words(of[name])
        _check_words(of[name], config, bad, trusted=trusted, required=name in _REQUIRED)
    ts = pc.fill_null(of["ts"], NO_TIME).to_numpy()
    bad |= bad_times(ts)
    attributes, bad_params = attributes_of_json(of["params"])
    bad[bad_params] = True
    out = {
        "kind": _kinds(of["kind"], bad),
        "request_id": pc.if_else(pc.equal(of["request_id"], ""), None, of["request_id"]),
        "breadcrumb": of["breadcrumb"],
        "id": pc.if_else(pc.equal(of["id"], ""), None, of["id"]).cast(pa.binary()),
        "parents": _lists(of["parents"], config, bad).cast(pa.list_(pa.binary())),
        "links": _lists(of["links"], config, bad),
        "seq": _numbers(of["seq"], pa.int64(), bad),
        "ts_ns": of["ts"],
        "shared": pa.array(np.zeros(n, np.bool_)),
        "sample_rate": _rates(of["sample_rate"], bad),
        "params": params_column(n, attributes, config, oddities),
    }
    for name in _WORDS:
        out[name] = clean_words(of[name], config.max_name_bytes, oddities)
    for name, filler in (("component", "?"), ("point", "?"), ("status", "ok")):
        out[name] = _filled(out[name], filler)
    return event_table(out, n, _LOOSE_SCHEMA).cast(EVENT_SCHEMA), bad


def check_record(record: ActivityRecord, config: DecodeConfig) -> tuple[Reason, str] | None:
    """Reason to refuse a record that the pydantic model accepts but the event columns cannot hold: time out
    of range, text too long, NUL in ids; None if there is no reason."""
    if bad_times(np.array([record.ts]))[0] or record.ts == NO_TIME:
        return Reason.BAD_TIME, "ts lies outside 1990 to 2200 (ns since the epoch)"
    ids: dict[str, Sequence[str | None]] = {
        "breadcrumb": [record.breadcrumb],
        "request_id": [record.request_id],
        "id": [record.id],
        "links": record.links or [],
        "parents": record.parents or [],
    }
    names: dict[str, Sequence[str | None]] = {name: [getattr(record, name)] for name in _WORDS}
    for name, values in (ids | names).items():
        for value in values:
            if value is None:
                continue
            if len(value.encode()) > config.max_name_bytes:
                return Reason.BAD_VALUE, f"{name} is longer than {config.max_name_bytes} bytes"
            if name in ids and "\0" in value:
                return Reason.BAD_VALUE, f"{name} holds a NUL character"
    return None


def _check_ids(column: pa.Array, config: DecodeConfig, bad: B1, *, trusted: bool) -> None:
    """Set `bad` for rows whose id is too long or contains NUL. Nulls in required columns are the caller's
    task."""
    if column.null_count == len(column):
        return
    bad |= mask(pc.greater(pc.binary_length(column), config.max_name_bytes))
    data = column.buffers()[2]
    if data is not None and b"\0" in memoryview(data).tobytes():
        bad |= mask(pc.match_substring(column, "\0"))
    if not trusted:
        bad |= mask(_looks_converted(column))


def _check_words(
    column: pa.DictionaryArray, config: DecodeConfig, bad: B1, *, trusted: bool, required: bool
) -> None:
    """Set `bad` for rows whose word is invalid: too long, with NUL, or null if `required`. Each distinct word
    is checked once."""
    words_ = column.dictionary
    wrong = pc.greater(pc.binary_length(words_), config.max_name_bytes)
    if not trusted:
        wrong = pc.or_(wrong, _looks_converted(words_))
    if required:
        wrong = pc.or_(wrong, pc.equal(words_, ""))
    codes = np.flatnonzero(mask(wrong))
    if len(codes):
        bad |= mask(pc.is_in(column.indices, pa.array(codes, pa.int32())))


def _looks_converted(column: pa.Array) -> pa.Array:
    """[rows] True if a text may be DuckDB's rendering of an object, array or boolean, so that the line must
    be parsed again."""
    first = pc.binary_slice(pc.cast(column, pa.binary()), 0, 1)
    suspects = pc.is_in(first, pa.array([b"{", b"[", b"t", b"f"]))
    if not pc.any(suspects).as_py():
        return suspects
    return pc.match_substring_regex(column, r"^(\{|\[|true$|false$)")


def _kinds(column: pa.Array, bad: B1) -> pa.Array:
    kinds = words(column)
    codes = pa.array([_KINDS.get(w) for w in kinds.dictionary.to_pylist()], pa.uint8())
    found = codes.take(kinds.indices)
    bad |= mask(pc.and_(pc.is_valid(column), pc.is_null(found)))
    return pc.fill_null(found, pa.scalar(EventKind.EVENT, pa.uint8()))


def _numbers(column: pa.Array, type_: pa.DataType, bad: B1) -> pa.Array:
    """Parse a column of text into numbers of `type_`; sets `bad` for rows with invalid text."""
    if column.null_count == len(column):
        return pa.nulls(len(column), type_)
    try:
        return pc.cast(column, type_)
    except pa.ArrowInvalid:
        plain = r"^-?[0-9]{1,18}$"
        if not pa.types.is_integer(type_):
            plain = r"^-?[0-9]{1,18}(\.[0-9]{1,18})?([eE]-?[0-9]{1,2})?$"
        legal = mask(pc.match_substring_regex(column, plain))
        # Other number-like texts are tried one by one: a record's value must not depend on other records.
        odd = np.flatnonzero(mask(pc.match_substring_regex(column, r"^[-+]?\.?[0-9]")) & ~legal)
        texts = column.take(pa.array(odd)).dictionary_encode()
        is_number = pa.array([_is_number(text, type_) for text in texts.dictionary], pa.bool_())
        legal[odd] = mask(is_number.take(texts.indices))
        bad |= mask(pc.is_valid(column)) & ~legal
        return pc.cast(pc.if_else(pa.array(legal), column, None), type_)


def _is_number(text: pa.StringScalar, type_: pa.DataType) -> bool:
    try:
        return bool(text.cast(type_).is_valid)
    except pa.ArrowInvalid:
        return False


def _rates(column: pa.Array, bad: B1) -> pa.Array:
    rates = _numbers(column, pa.float64(), bad)
    legal = pc.and_(pc.greater_equal(rates, SMALLEST_RATE), pc.less_equal(rates, 1.0))
    bad |= mask(pc.invert(legal))
    return rates


def _lists(column: pa.Array, config: DecodeConfig, bad: B1) -> pa.Array:
    """Parse a column of JSON arrays into lists of strings; sets `bad` for rows with elements that are not
    strings."""
    type_ = pa.list_(pa.string())
    there = np.flatnonzero(mask(pc.is_valid(column)))
    if len(there) == 0:
        return pa.nulls(len(column), type_)
    texts = column.drop_null().to_pylist()
    try:
        values: list[list[str]] = msgspec.json.decode("[" + ",".join(texts) + "]", type=list[list[str]])
    except JSON_ERRORS:
        values = []
    if len(values) != len(texts):
        values = [_list_of(text) for text in texts]
        bad[there[[v == _NO_LIST for v in values]]] = True
    lengths = np.zeros(len(column), np.int64)
    lengths[there] = [len(v) for v in values]
    flat = pa.array([text for v in values for text in v], pa.string())
    wrong = mask(
        pc.or_(pc.greater(pc.binary_length(flat), config.max_name_bytes), pc.match_substring(flat, "\0"))
    )
    bad[owners(lengths)[wrong]] = True
    return list_column(lengths, flat, mask(pc.is_null(column)))


_NO_LIST = ["\0"]


def _list_of(text: str) -> list[str]:
    """Parse a JSON array of strings; `_NO_LIST`, a value that no record may have, if it is not one."""
    try:
        return msgspec.json.decode(text, type=list[str])
    except JSON_ERRORS:
        return _NO_LIST


def _filled(column: pa.DictionaryArray, filler: str) -> pa.DictionaryArray:
    """Replace nulls and empty strings by `filler`."""
    decoded_empty = "" in column.dictionary.to_pylist()
    if column.null_count == 0 and not decoded_empty:
        return column
    if column.null_count == len(column):
        return constant_words(filler, len(column))
    text = column.dictionary_decode()
    return words(pc.fill_null(pc.if_else(pc.equal(text, ""), None, text), filler))


_LOOSE_SCHEMA = pa.schema([pa.field(f.name, f.type, metadata=f.metadata) for f in EVENT_SCHEMA])
"""Event schema in which every column may be null, as invalid rows need; the caller removes these rows."""
