"""Convert the tables of the native library to events; words (distinct strings) become dictionaries.

A message that the library does not read (`tables.walk`) is left to the portable reader, which returns the
same events.
"""

from __future__ import annotations

import base64
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingest.codecs.otlp.nested_values import json_of_elements
from ingest.codecs.otlp.wire import tables as wire
from ingest.codecs.otlp.wire.library import Library
from ingest.codecs.otlp.wire.tables import EMPTY_WORD, FIRST_WORDS, NO_TIME, Flag, Kind, Role, Tables
from ingest.codecs.privacy import Keep, privacy_of
from ingest.codecs.spans.span_batch import BadSpans
from ingest.codecs.spans.spans_to_events import SpanResult, event_key, probability_of_tracestate, time_column
from ingest.codecs.values.columns import event_table, list_column
from ingest.codecs.values.ids import fixed_values
from ingest.codecs.values.names import clean_word, clean_words, coded_words, constant_words, point_name
from ingest.codecs.values.params import param_values
from ingest.codecs.values.protobuf import message_classes
from schemas.arrays import B1, I8
from schemas.config import DecodeConfig
from schemas.events import PARAM_TYPE, SPAN_KIND_BASE

_SEED: Final = int.from_bytes(os.urandom(7), "little")
_MESSAGE, _NAME = "status.message", "span.name"
"""Names of parameters that come from fields of a span and not from its attributes."""
_FINE, _ERROR, _UNKNOWN = "ok", "error", "?"
_MAX_KNOWN: Final = 1_000
"""Maximum number of words passed to the library as known; its hash table has room for twice as many before it
grows."""
_NO_HOST: Final = 1 << 30
_Items = message_classes("flowdiff.items", {"Items": "1 values *bytes"})["Items"]


@dataclass(frozen=True, slots=True)
class _Known:
    """Words (attribute keys and others) that are passed to the library in advance, with the code and the
    roles of each."""

    words: dict[str, int]
    """Word -> its code, which is an index into `roles` and `host_rank`."""
    roles: I8
    host_rank: I8


@lru_cache(maxsize=16)
def _known_words(config: DecodeConfig) -> _Known | None:
    """Known words for the given settings; None if the library cannot apply the settings, because names are
    limited to a few bytes or there are too many words."""
    roles = dict.fromkeys([*FIRST_WORDS, _MESSAGE, _NAME, _FINE, _ERROR, _UNKNOWN], 0)
    of_role = {
        Role.SERVICE: ("service.name",),
        Role.HOST: config.host_keys,
        Role.LABEL: config.label_keys,
        Role.PEER: ("peer.service",),
        Role.ADDRESS: ("server.address",),
        Role.PEER_NAME: ("net.peer.name",),
        Role.ERROR_TYPE: ("error.type",),
        Role.SAMPLER: ("sampler.param",),
        Role.MARK: config.event_points,
    }
    for role, words in of_role.items():
        for word in words:
            roles[word] = roles.get(word, 0) | role
    if len(roles) > _MAX_KNOWN or config.max_name_bytes < len(_MESSAGE):
        return None
    codes = {word: code for code, word in enumerate(roles)}
    host_rank = np.full(len(roles), _NO_HOST, np.int64)
    for place, key in reversed(list(enumerate(config.host_keys))):
        host_rank[codes[key]] = place
    return _Known(codes, np.array([*roles.values()], np.int64), host_rank)


def read_messages(
    library: Library, messages: Sequence[bytes], indexes: Sequence[int], config: DecodeConfig
) -> tuple[SpanResult | None, list[int]]:
    """Read messages with the native library: (their events, None if there are none; payload indexes of the
    messages that were read).

    indexes: payload index of each message. O(bytes).
    """
    known = _known_words(config)
    if known is None:
        return None, []
    settings = wire.WalkSettings(
        known=[*known.words],
        roles=known.roles,
        seed=_SEED,
        long_bytes=config.max_name_bytes,
        max_key_bytes=config.max_name_bytes,
    )
    tables, was_read, n_spans = wire.walk(library, messages, settings)
    index = np.array(indexes, np.int64)
    read: list[int] = index[was_read].tolist()
    if not len(tables.spans):
        return None, read
    oddities: Counter[str] = Counter()
    events = _Columns(library, tables, known, config, oddities).events()
    return SpanResult(events, np.repeat(index, n_spans), _NO_BAD_SPANS, +oddities), read


_NO_BAD_SPANS: Final = BadSpans(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.uint8))


class _Columns:
    """Converter of the tables of one call of `walk` to columns of events."""

    def __init__(
        self, library: Library, tables: Tables, known: _Known, config: DecodeConfig, oddities: Counter[str]
    ) -> None:
        self._library = library
        self._tables = tables
        self._known = known
        self._config = config
        self._oddities = oddities
        self._texts = _texts(library, tables)
        """[words] text of each word."""

    def events(self) -> pa.Table:
        """Convert the tables to a table of EVENT_SCHEMA with one row per span."""
        spans, library = self._tables.spans, self._library
        n = len(spans)
        self._oddities["untimed"] += int((spans["start"] == NO_TIME).sum())
        is_of_event, pairs = self._event_attributes()
        keys, names = self._keys(is_of_event, pairs)
        event_keys = self._event_ranks(names, pairs)
        resources = wire.resource_columns(library, self._tables, keys)
        rank = {name: place for place, name in enumerate(names)}
        rules = wire.ParameterRules(
            message_rank=rank.get(_MESSAGE, -1),
            name_rank=rank.get(_NAME, -1),
            changed=self._changed_names(),
            most=self._config.max_params_per_event,
        )
        found = wire.parameter_columns(library, self._tables, keys, resources, event_keys, rules)
        self._oddities["duplicate-param"] += found.duplicates
        self._oddities["params-dropped"] += found.dropped
        ids = wire.id_columns(library, self._tables)
        all_ = np.ones(n, np.bool_)
        links = fixed_values(
            wire.link_texts(library, self._tables),
            np.ones(len(self._tables.links), np.bool_),
            wire.LINK_BYTES,
            pa.string(),
        )
        parents = fixed_values(ids.parent, np.ones(len(ids.parent) // 8, np.bool_), 8, pa.binary())
        service, host = resources.service[spans["resource"]], resources.host[spans["resource"]]
        columns = {
            "kind": pa.array((spans["kind"] + SPAN_KIND_BASE).astype(np.uint8)),
            "request_id": fixed_values(ids.trace, all_, 32, pa.string()),
            "id": fixed_values(ids.span, all_, 8, pa.binary()),
            "parents": list_column(ids.has_parent.astype(np.int64), parents),
            "links": list_column(spans["last_link"] - spans["first_link"], links),
            "ts_ns": time_column(np.ascontiguousarray(spans["start"])),
            "end_ns": time_column(np.ascontiguousarray(spans["end"])),
            "component": self._clean(np.where(service > EMPTY_WORD, service, self._known.words[_UNKNOWN])),
            "point": self._clean(spans["name"], point_name),
            "label": self._clean(np.where(found.label > EMPTY_WORD, found.label, wire.NONE)),
            "host": self._clean(host),
            "peer": self._clean(found.peer),
            "shared": pa.array(np.zeros(n, np.bool_)),
            "status": self._status(found.error),
            "sample_rate": self._rates(),
            "params": self._params(names, found),
        }
        return event_table(columns, n)

    def _event_attributes(self) -> tuple[B1, _Pairs]:
        """([attributes] True if the attribute belongs to a span event, names of the parameters that span
        events become)."""
        events, attributes = self._tables.events, self._tables.attributes
        is_of_event = np.zeros(len(attributes), np.bool_)
        count = events["last"] - events["first"]
        rows = np.arange(count.sum()) + np.repeat(events["first"] - (np.cumsum(count) - count), count)
        is_of_event[rows] = True
        n_words = len(self._tables.words)
        both = np.repeat(events["name"], count) * n_words + attributes["key"][rows]
        pair, of_row = np.unique(both, return_inverse=True)
        name, of_event = np.unique(events["name"], return_inverse=True)
        spelled = self._spelled(name)
        prefix = {
            code: event_key(text, self._config) for code, text in zip(name.tolist(), spelled, strict=True)
        }
        inner = self._spelled(pair % n_words)
        keys = [f"{prefix[n]}.{key}" for n, key in zip((pair // n_words).tolist(), inner, strict=True)]
        return is_of_event, _Pairs([*prefix.values()], of_event, keys, rows, of_row)

    def _keys(self, is_of_event: B1, pairs: _Pairs) -> tuple[wire.KeyOrder, list[str]]:
        """Rank the parameter names that are kept: (rank of each word that is an attribute key, sorted names
        of all kept parameters)."""
        codes = wire.keys_used(self._library, self._tables, is_of_event)
        keys = self._spelled(codes)
        privacy = privacy_of(self._config.params)
        all_keys = {*keys, *pairs.event_keys, *pairs.attribute_keys, _MESSAGE, _NAME}
        names = sorted(key for key in all_keys if privacy.keep(key) != Keep.DROPPED)
        place = {key: rank for rank, key in enumerate(names)}
        rank = np.full(len(self._tables.words), -1, np.int32)
        rank[codes] = [place.get(key, -1) for key in keys]
        return wire.KeyOrder(rank, self._known.roles, self._known.host_rank), names

    def _event_ranks(self, names: list[str], pairs: _Pairs) -> wire.EventKeys:
        place = {key: rank for rank, key in enumerate(names)}
        of_name = np.array([place.get(key, -1) for key in pairs.event_keys], np.int32)
        of_pair = np.array([place.get(key, -1) for key in pairs.attribute_keys], np.int32)
        row_rank = np.full(len(self._tables.attributes), -1, np.int32)
        row_rank[pairs.rows] = of_pair[pairs.of_row]
        return wire.EventKeys(np.ascontiguousarray(of_name[pairs.of_event]), row_rank)

    def _changed_names(self) -> B1:
        """[words] True for span names that are not stored as received, because they are normalised or cut."""
        changed = np.zeros(len(self._tables.words), np.bool_)
        used = np.flatnonzero(np.bincount(self._tables.spans["name"], minlength=len(changed)))
        odd = used[self._tables.words["flags"][used] & (Flag.ODD | Flag.NUL | Flag.LONG) != 0]
        limit = self._config.max_name_bytes
        changed[odd] = [clean_word(text, limit, point_name) != text for text in self._spelled(odd)]
        return changed

    def _spelled(self, codes: npt.NDArray[np.integer]) -> list[str]:
        texts: list[str] = self._texts.take(pa.array(codes)).to_pylist()
        return texts

    def _words(self, codes: I8) -> pa.DictionaryArray:
        """[rows] dictionary-encoded words with the given codes; null for negative codes."""
        dense, used = wire.distinct(self._library, codes, len(self._tables.words))
        return coded_words(dense, self._texts.take(pa.array(used)))

    def _clean(self, codes: I8, change: Callable[[str], str] = str) -> pa.DictionaryArray:
        return clean_words(self._words(codes), self._config.max_name_bytes, self._oddities, change)

    def _status(self, error: I8) -> pa.DictionaryArray:
        """[spans] status: `ok`, or for a failed span its `error.type` (code in `error`), else `error`."""
        failed = self._tables.spans["failed"] != 0
        if not failed.any():
            return constant_words(_FINE, len(failed))
        fine = self._known.words[_FINE]
        class_ = np.where((error <= EMPTY_WORD) | (error == fine), self._known.words[_ERROR], error)
        return self._clean(np.where(failed, class_, fine))

    def _rates(self) -> pa.Array:
        """[spans] sampling probability in (0, 1], from the trace state; null if unknown."""
        states = self._tables.spans["state"]
        if not (states != EMPTY_WORD).any():
            return pa.nulls(len(states), pa.float64())
        words = self._words(states)
        rates = pa.array([probability_of_tracestate(s) for s in words.dictionary.to_pylist()], pa.float64())
        return rates.take(words.indices)

    def _params(self, names: list[str], found: wire.ParameterColumns) -> pa.Array:
        """[spans] list of each span's parameters, `list<PARAM_TYPE>`. names: kept parameter names, sorted."""
        n = len(self._tables.spans)
        if not len(found.key):
            return pa.nulls(n, pa.list_(PARAM_TYPE))
        dense, used = wire.distinct(self._library, found.text, len(self._tables.words))
        num = pa.array(found.num, mask=dense >= 0)
        text = coded_words(dense, self._texts.take(pa.array(used)))
        values = param_values(names, found.key, num, text, self._config, self._oddities)
        return list_column(np.diff(found.offsets).astype(np.int64), values)


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Names of the parameters that span events become: `event.<name>` for each distinct event name,
    `event.<name>.<key>` for each distinct pair of event name and attribute key."""

    event_keys: list[str]
    """[distinct event names] parameter name `event.<name>`."""
    of_event: I8
    """[span events] index into `event_keys` of the event's name."""
    attribute_keys: list[str]
    """[distinct pairs] parameter name `event.<name>.<key>` of each pair of event name and attribute key."""
    rows: I8
    """[attributes of span events] row of the attribute in the library's table `attributes`."""
    of_row: I8
    """[attributes of span events] index into `attribute_keys` of the pair (event name, attribute key)."""


def _texts(library: Library, tables: Tables) -> pa.StringArray:
    """[words] text of each word: nested values as JSON, bytes as base64; empty for known words that no
    message contains."""
    offsets, data = wire.texts_of_words(library, tables)
    texts = pa.StringArray.from_buffers(len(tables.words), pa.py_buffer(offsets), pa.py_buffer(data))
    flags = tables.words["flags"]
    raw = np.flatnonzero((flags >= 0) & (flags & Flag.RAW != 0))
    if not len(raw):
        return texts
    index = np.arange(len(texts))
    index[raw] = len(texts) + np.arange(len(raw))
    spelled = pa.array([_raw_text(tables, code) for code in raw.tolist()], pa.string())
    return pa.concat_arrays([texts, spelled]).take(pa.array(index))


def _raw_text(tables: Tables, code: int) -> str:
    word = tables.words[code]
    body = tables.buffer[word["at"] : word["at"] + word["size"]].tobytes()
    if word["kind"] == Kind.BYTES:
        return base64.b64encode(body).decode()
    is_list = word["kind"] == Kind.ARRAY
    return json_of_elements(tuple(_Items.FromString(body).values), is_list=is_list)
