"""Tables filled by the native library, and its functions on them.

Columns are those of `src/tables.rs`, in the same order. A *word* is a distinct byte string; its code is its
row in `words`. Other columns that refer to words contain codes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ingest.codecs.otlp.wire.library import Library
from schemas.arrays import B1, F8, I4, I8, U1

Table = npt.NDArray[Any]


def _rows_of(columns: str) -> np.dtype[Any]:
    return np.dtype([(name, np.int64) for name in columns.split()])


WORD: Final = _rows_of("at size flags kind")
"""Type of a row of `words`: `at`, `size`: offset and number of the word's bytes in the buffer; `flags`: bits
of Flag, or -1: not understood; `kind`: Kind.
"""
ATTRIBUTE: Final = _rows_of("key text value")
"""Type of a row of `attributes`: `key`, `text`: codes of words; where `text` is negative, `value` is a
number, as the bits of a float64 (-1) or as an int64 (-2).
"""
SPAN: Final = _rows_of(
    "start end name kind resource first last message state failed first_event last_event"
    " trace span parent first_link last_link"
)
"""Type of a row of `spans`: `trace`, `span`, `parent`: offsets of the ids in the buffer (0: no parent);
`first` to `last`: rows of the span's attributes.
"""
RESOURCE: Final = _rows_of("first last")
LINK: Final = _rows_of("span trace id")
EVENT: Final = _rows_of("span time name first last")

_U1, _I4, _I8, _U8, _F8 = (np.dtype(t) for t in (np.uint8, np.int32, np.int64, np.uint64, np.float64))


class Flag:
    """Bits of the column `flags` of a word."""

    NUL = 1
    LONG = 2
    """Word has more bytes than `WalkSettings.long_bytes`."""
    ODD = 4
    """The word has a digit or a character outside ASCII: `normalise_name` may change it."""
    OPENS = 8
    """The word begins like a JSON object or array."""
    RAW = 16
    """Word is not text: bytes, or the elements of a nested value."""


class Kind:
    """Kinds of words: equal bytes of different kinds are different words."""

    TEXT, ARRAY, KEY_VALUES, BYTES = range(4)


class Role:
    """Roles of known keys, as bits: a key may have several."""

    SERVICE, HOST, LABEL, PEER, ADDRESS, PEER_NAME, ERROR_TYPE, SAMPLER, MARK = (1 << bit for bit in range(9))


FIRST_WORDS: Final = ("", "service.name", "true", "false", "NaN", "Infinity", "-Infinity")
"""Words that the library knows, whose codes are their indices here."""
EMPTY_WORD: Final = 0
NONE: Final = -1
NO_TIME: Final = np.iinfo(np.int64).min
BYTES_A_WORD: Final = 8
BYTES_A_SPAN: Final = 16
"""Minimum bytes of a message per span: a denser message is left to the portable reader."""


class Tables(NamedTuple):
    """Tables with the rows of all messages that the library read."""

    buffer: U1
    """Bytes of known words and messages, concatenated."""
    words: Table
    attributes: Table
    spans: Table
    resources: Table
    links: Table
    events: Table


@dataclass(frozen=True, slots=True)
class WalkSettings:
    """Settings of one call of `walk`."""

    known: list[str]
    """Known words, whose codes are their indices: FIRST_WORDS, then further ones."""
    roles: I8
    """[known] bits of Role of each known word."""
    seed: int
    """Seed of the hash, unknown to senders of messages."""
    long_bytes: int
    """Maximum bytes of a text without the flag LONG."""
    max_key_bytes: int
    """Maximum bytes of a key; a message with a longer one is left to the portable reader."""


_WALK: Final = (
    *(_U1, _I8, _I8, _I8, _U8),
    *(WORD, ATTRIBUTE, SPAN, RESOURCE, LINK, EVENT),
    *(_U1, _I8, _I8),
)


def walk(library: Library, messages: Sequence[bytes], settings: WalkSettings) -> tuple[Tables, B1, I8]:
    """Read messages in one pass: `(tables, was_read, n_spans)`.

    was_read: [messages] False for a message that has no row, and is left to another reader. n_spans:
    [messages] number of spans. O(bytes).
    """
    known = [word.encode() for word in settings.known]
    data = b"".join([*known, *messages])
    buffer = np.frombuffer(data, np.uint8)
    ends = np.cumsum([0, *map(len, known)])
    bounds = ends[-1] + np.cumsum(np.fromiter((0, *map(len, messages)), np.int64))
    room, few = len(data) // BYTES_A_WORD + 64, len(data) // BYTES_A_SPAN + 2
    rows = (room + len(known), room, few, few, few, room)
    types = (WORD, ATTRIBUTE, SPAN, RESOURCE, LINK, EVENT)
    tables = [np.empty(n, type_) for n, type_ in zip(rows, types, strict=True)]
    was_read = np.zeros(len(messages), np.uint8)
    last = np.zeros(len(messages), np.int64)
    counts = np.zeros(len(tables), np.int64)
    library.call(
        "walk",
        _WALK,
        buffer,
        bounds.astype(np.int64),
        np.stack([ends[:-1], ends[1:]], axis=1).astype(np.int64).ravel(),
        settings.roles,
        np.array([settings.seed, settings.long_bytes, settings.max_key_bytes], np.uint64),
        *tables,
        was_read,
        last,
        counts,
    )
    filled = (table[:n] for table, n in zip(tables, counts.tolist(), strict=True))
    return Tables(buffer, *filled), was_read.view(np.bool_), np.diff(last, prepend=0)


def texts_of_words(library: Library, tables: Tables) -> tuple[I4, U1]:
    """`(offsets [words + 1], bytes)` of the text of each word; empty for words that are not text."""
    offsets = np.zeros(len(tables.words) + 1, np.int32)
    size = library.call("text_bytes", (WORD, _I4), tables.words, offsets[1:])
    data = np.empty(size, np.uint8)
    types = (_U1, WORD, _I4, _U1)
    library.call("texts", types, tables.buffer, tables.words, offsets[1:], data)
    return offsets, data


def distinct(library: Library, codes: I8, n_words: int) -> tuple[I4, I4]:
    """`(dense, used)`: codes renumbered in order of first occurrence, and the old code for each new code.

    dense: [codes]; negative codes are unchanged. used: [new codes].
    """
    dense = np.full(n_words, -1, np.int32)
    used, out = np.empty(min(n_words, len(codes)), np.int32), np.empty(len(codes), np.int32)
    n = library.call("distinct", (_I8, _I4, _I4, _I4), np.ascontiguousarray(codes), dense, used, out)
    return out, used[:n]


def keys_used(library: Library, tables: Tables, is_of_event: B1) -> I8:
    """Codes of words that are keys of attributes of spans or resources, ascending.

    is_of_event: [attributes] True if owned by an event.
    """
    out = np.zeros(len(tables.words), np.uint8)
    types = (ATTRIBUTE, _U1, _U1)
    library.call("keys_used", types, tables.attributes, is_of_event.view(np.uint8), out)
    return np.flatnonzero(out)


class KeyOrder(NamedTuple):
    """Ranks of keys in the order of their names; -1: dropped."""

    rank: I4
    """[words] rank of the word as a key; -1: dropped, or no key."""
    roles: I8
    """[known words] bits of Role of each known word."""
    host_rank: I8
    """[known words] priority among the host keys; the first one present in a resource counts."""


class ResourceColumns(NamedTuple):
    """Component, host and attributes of each resource."""

    service: I8
    """[resources] code of the component's name; -1: none."""
    host: I8
    """[resources] code of the host's name; -1: none."""
    begin: I8
    """[resources + 1] offsets into `row`."""
    row: I8
    """Rows of attributes, sorted by resource and key, without component and host."""


def resource_columns(library: Library, tables: Tables, keys: KeyOrder) -> ResourceColumns:
    """Extract component, host and attributes of each resource. O(attributes of resources)."""
    n = len(tables.resources)
    n_rows = int((tables.resources["last"] - tables.resources["first"]).sum())
    service, host, begin, row = (np.empty(size, np.int64) for size in (n, n, n + 1, n_rows))
    types = (RESOURCE, ATTRIBUTE, _I4, *[_I8] * 6)
    library.call("resources", types, tables.resources, tables.attributes, *keys, service, host, begin, row)
    return ResourceColumns(service, host, begin, row)


class EventKeys(NamedTuple):
    """Ranks of the parameters of span events among the kept parameter names, sorted; -1: not kept."""

    event_rank: I4
    """[events] rank of `event.<name>` among the kept names; -1: not kept."""
    row_rank: I4
    """[attributes] rank of `event.<name>.<key>` among the kept names, -1: not kept; undefined for attributes
    of spans.
    """


class ParameterRules(NamedTuple):
    """Ranks of parameters that are not attributes, and the maximum number of parameters per span."""

    message_rank: int
    """Rank of `status.message`; -1: not kept."""
    name_rank: int
    """Rank of `span.name`; -1: not kept."""
    changed: B1
    """[words] True for span names that the point name replaces, so that `span.name` is kept."""
    most: int
    """Maximum parameters per span."""


class ParameterColumns(NamedTuple):
    """Parameters of all spans, sorted by span and key, and codes of words for columns of spans."""

    offsets: I4
    """[spans + 1] offsets into the parameters."""
    key: I4
    """[parameters] rank of the parameter's key among the kept names."""
    text: I8
    """[parameters] code of the word that is the value; -1: the value is a number."""
    num: F8
    """[parameters] value, if it is a number; 0 for text."""
    peer: I8
    """[spans] code of the peer's name; -1: none."""
    label: I8
    """[spans] code of the label; -1: none."""
    error: I8
    """[spans] code of the error class; -1: none."""
    duplicates: int
    """Number of values dropped because their key had an earlier value in the span."""
    dropped: int
    """Number of parameters dropped because their span had the maximum already."""


def parameter_columns(
    library: Library,
    tables: Tables,
    keys: KeyOrder,
    resources: ResourceColumns,
    event_keys: EventKeys,
    rules: ParameterRules,
) -> ParameterColumns:
    """Sort and bound the parameters of each span: first the span's own, then its resource's, then its
    events'.

    If a key occurs several times, its first value counts. O(parameters).
    """
    n = len(tables.spans)
    spread = int(np.diff(resources.begin)[tables.spans["resource"]].sum())
    room = min(len(tables.attributes) + spread + 2 * n + len(tables.events), n * rules.most)
    offsets = np.zeros(n + 1, np.int32)
    key, text, num = np.empty(room, np.int32), np.empty(room, np.int64), np.empty(room, np.float64)
    peer, label, error = (np.empty(n, np.int64) for _ in range(3))
    counts = np.zeros(2, np.int64)
    n_parameters = library.call(
        "parameters",
        (SPAN, ATTRIBUTE, EVENT, _I8, _I8, _I4, _I4, _U1, _I4, _I8, _I8, _I4, _I4, _I8, _F8, *[_I8] * 4),
        tables.spans,
        tables.attributes,
        tables.events,
        resources.begin,
        resources.row,
        *event_keys,
        rules.changed.view(np.uint8),
        keys.rank,
        keys.roles,
        np.array([rules.message_rank, rules.name_rank, rules.most], np.int64),
        offsets[1:],
        key,
        text,
        num,
        peer,
        label,
        error,
        counts,
    )
    return ParameterColumns(
        offsets=offsets,
        key=key[:n_parameters],
        text=text[:n_parameters],
        num=num[:n_parameters],
        peer=peer,
        label=label,
        error=error,
        duplicates=int(counts[0]),
        dropped=int(counts[1]),
    )


class IdColumns(NamedTuple):
    """Ids of all spans, as concatenated bytes."""

    trace: U1
    """[32 * spans] trace ids as hexadecimal digits."""
    span: U1
    """[8 * spans] span ids as bytes."""
    parent: U1
    """[8 * spans with a parent] parent ids as bytes."""
    has_parent: B1
    """[spans] True if the span has a parent."""


def id_columns(library: Library, tables: Tables) -> IdColumns:
    """Extract the ids of all spans."""
    n = len(tables.spans)
    trace, span, parent = (np.empty(size * n, np.uint8) for size in (32, 8, 8))
    has_parent = np.empty(n, np.uint8)
    types = (_U1, SPAN, _U1, _U1, _U1, _U1)
    n_parents = library.call("ids", types, tables.buffer, tables.spans, trace, span, parent, has_parent)
    return IdColumns(trace, span, parent[: 8 * n_parents], has_parent.view(np.bool_))


LINK_BYTES: Final = 49


def link_texts(library: Library, tables: Tables) -> U1:
    """[49 * links] `trace/span` in hexadecimal digits."""
    out = np.empty(LINK_BYTES * len(tables.links), np.uint8)
    library.call("link_texts", (_U1, LINK, _U1), tables.buffer, tables.links, out)
    return out


def is_sound(library: Library, message: bytes) -> bool:
    """True if protobuf's parser reads a message, and the decoder accepts ids and times of every span.

    False if not, or if this library cannot tell. O(bytes).
    """
    return library.call("is_sound", (_U1,), np.frombuffer(message, np.uint8)) == 1
