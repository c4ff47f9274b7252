"""Tables that the native library fills, and the library's functions that process them.

The columns are those of `src/tables.rs`, in the same order. A *word* is a distinct byte string (a name, key
or value); its code is its row in the table `words`. Columns of other tables refer to words by code.
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
"""Row type of the table `words`. `at`, `size`: offset and number of the word's bytes in the buffer; `flags`:
bits of Flag, or -1: not understood; `kind`: a value of Kind."""
ATTRIBUTE: Final = _rows_of("key text value")
"""Row type of the table `attributes`. `key`, `text`: codes of words; if `text` is negative, the value is a
number in `value`: the bits of a float64 (`text` -1) or an int64 (`text` -2)."""
SPAN: Final = _rows_of(
    "start end name kind resource first last message state failed first_event last_event"
    " trace span parent first_link last_link"
)
"""Row type of the table `spans`. `trace`, `span`, `parent`: offsets of the ids in the buffer (0: no parent);
`first`, `last`: range of the span's rows in `attributes`."""
RESOURCE: Final = _rows_of("first last")
LINK: Final = _rows_of("span trace id")
EVENT: Final = _rows_of("span time name first last")

_U1, _I4, _I8, _U8, _F8 = (np.dtype(t) for t in (np.uint8, np.int32, np.int64, np.uint64, np.float64))


class Flag:
    """Bits of the column `flags` of the table `words`."""

    NUL = 1
    LONG = 2
    """The word has more bytes than `WalkSettings.long_bytes`."""
    ODD = 4
    """The word has a digit or a character outside ASCII: `normalise_name` may change it."""
    OPENS = 8
    """The word begins like a JSON object or array: `{` or `[`."""
    RAW = 16
    """The word is not text, but bytes or the serialised elements of a nested value."""


class Kind:
    """Kinds of words: equal bytes of two kinds are two words."""

    TEXT, ARRAY, KEY_VALUES, BYTES = range(4)


class Role:
    """Roles of known attribute keys, as bits: one key may have several roles."""

    SERVICE, HOST, LABEL, PEER, ADDRESS, PEER_NAME, ERROR_TYPE, SAMPLER, MARK = (1 << bit for bit in range(9))


FIRST_WORDS: Final = ("", "service.name", "true", "false", "NaN", "Infinity", "-Infinity")
"""First entries of every list of known words: the library relies on their codes, which are their indices in
this tuple."""
EMPTY_WORD: Final = 0
NONE: Final = -1
NO_TIME: Final = np.iinfo(np.int64).min
BYTES_A_WORD: Final = 8
BYTES_A_SPAN: Final = 16
"""Minimum bytes of a message per span in it: a message with more spans for its size is left to the portable
reader."""


class Tables(NamedTuple):
    """Tables with the rows of all messages read in one call of `walk`."""

    buffer: U1
    """[bytes] known words and messages, concatenated."""
    words: Table
    attributes: Table
    spans: Table
    resources: Table
    links: Table
    events: Table


@dataclass(frozen=True, slots=True)
class WalkSettings:
    """Settings for one call of `walk`."""

    known: list[str]
    """Known words, whose codes are their indices in this list: FIRST_WORDS, then others."""
    roles: I8
    """[known words] bits of Role of each known word."""
    seed: int
    """Seed of the library's hash function, which senders of messages cannot know."""
    long_bytes: int
    """Maximum bytes of a word without the flag LONG."""
    max_key_bytes: int
    """Maximum bytes of an attribute key; a message with a longer key is left to the portable reader."""


_WALK: Final = (
    *(_U1, _I8, _I8, _I8, _U8),
    *(WORD, ATTRIBUTE, SPAN, RESOURCE, LINK, EVENT),
    *(_U1, _I8, _I8),
)


def walk(library: Library, messages: Sequence[bytes], settings: WalkSettings) -> tuple[Tables, B1, I8]:
    """Read messages in one pass over their bytes: `(tables, was_read, n_spans)`.

    was_read: [messages] False if the message has no rows in the tables and must be read by the portable
    reader. n_spans: [messages] number of spans. O(bytes).
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
    """Texts of all words as `(offsets [words + 1], bytes)`; the text of a word that is not text is empty."""
    offsets = np.zeros(len(tables.words) + 1, np.int32)
    size = library.call("text_bytes", (WORD, _I4), tables.words, offsets[1:])
    data = np.empty(size, np.uint8)
    types = (_U1, WORD, _I4, _U1)
    library.call("texts", types, tables.buffer, tables.words, offsets[1:], data)
    return offsets, data


def distinct(library: Library, codes: I8, n_words: int) -> tuple[I4, I4]:
    """Renumber codes by first occurrence: `(dense, used)`. dense: [codes] new code of each; negative codes
    stay unchanged. used: [new codes] old code."""
    dense = np.full(n_words, -1, np.int32)
    used, out = np.empty(min(n_words, len(codes)), np.int32), np.empty(len(codes), np.int32)
    n = library.call("distinct", (_I8, _I4, _I4, _I4), np.ascontiguousarray(codes), dense, used, out)
    return out, used[:n]


def keys_used(library: Library, tables: Tables, is_of_event: B1) -> I8:
    """Codes, ascending, of the words that are keys of attributes of spans or resources.

    is_of_event: [attributes] True if the attribute belongs to a span event, whose key does not count.
    """
    out = np.zeros(len(tables.words), np.uint8)
    types = (ATTRIBUTE, _U1, _U1)
    library.call("keys_used", types, tables.attributes, is_of_event.view(np.uint8), out)
    return np.flatnonzero(out)


class KeyOrder(NamedTuple):
    """Attribute keys sorted by name: the rank of each among the kept parameter names, and the roles of the
    known keys."""

    rank: I4
    """[words] rank of the word as an attribute key; -1: the key is dropped, or the word is no key."""
    roles: I8
    """[known words] bits of Role of each known word."""
    host_rank: I8
    """[known words] priority of the word among the host keys, 0 first: in each resource the present key with
    the lowest number gives the host."""


class ResourceColumns(NamedTuple):
    """Component, host and the other attributes of each resource."""

    service: I8
    """[resources] code of the word that is the component's name; -1: none."""
    host: I8
    """[resources] code of the word that is the host's name; -1: none."""
    begin: I8
    """[resources + 1] index into `row` of each resource's first attribute; last, the length of `row`."""
    row: I8
    """Rows of the table `attributes`, sorted by resource and key, without those of component and host."""


def resource_columns(library: Library, tables: Tables, keys: KeyOrder) -> ResourceColumns:
    """Extract component, host and attributes of each resource. O(attributes of resources)."""
    n = len(tables.resources)
    n_rows = int((tables.resources["last"] - tables.resources["first"]).sum())
    service, host, begin, row = (np.empty(size, np.int64) for size in (n, n, n + 1, n_rows))
    types = (RESOURCE, ATTRIBUTE, _I4, *[_I8] * 6)
    library.call("resources", types, tables.resources, tables.attributes, *keys, service, host, begin, row)
    return ResourceColumns(service, host, begin, row)


class EventKeys(NamedTuple):
    """Rank of each parameter made from a span event; ranks count the kept parameter names, sorted."""

    event_rank: I4
    """[span events] rank of the parameter `event.<name>`; -1: not kept."""
    row_rank: I4
    """[attributes] rank of the parameter `event.<name>.<key>`, -1: not kept; undefined for attributes that do
    not belong to span events."""


class ParameterRules(NamedTuple):
    """Ranks of the parameters that are not attributes, and the maximum number of parameters per span."""

    message_rank: int
    """Rank of the parameter `status.message` among the kept names; -1: not kept."""
    name_rank: int
    """Rank of the parameter `span.name` among the kept names; -1: not kept."""
    changed: B1
    """[words] True for span names whose point name is different, so that the parameter `span.name` is
    added."""
    most: int
    """Maximum number of parameters per span."""


class ParameterColumns(NamedTuple):
    """Parameters of all spans, sorted by span and key, and words for other columns of spans."""

    offsets: I4
    """[spans + 1] index of each span's first parameter; last, the number of parameters."""
    key: I4
    """[parameters] rank of the parameter's name among the kept names."""
    text: I8
    """[parameters] code of the word that is the value; -1 if the value is a number."""
    num: F8
    """[parameters] value if it is a number; 0 if it is text."""
    peer: I8
    """[spans] code of the word that names the peer; -1: none."""
    label: I8
    """[spans] code of the word that is the label; -1: none."""
    error: I8
    """[spans] code of the word that is the error class; -1: none."""
    duplicates: int
    """Number of values that were dropped because the span has an earlier value under the same key."""
    dropped: int
    """Number of parameters that were dropped because the span already has the maximum number."""


def parameter_columns(
    library: Library,
    tables: Tables,
    keys: KeyOrder,
    resources: ResourceColumns,
    event_keys: EventKeys,
    rules: ParameterRules,
) -> ParameterColumns:
    """Collect the parameters of each span, sort them by key, and limit their number: first those from the
    span's attributes, then from its resource's, then from its events.

    If a key occurs several times, the first value is kept. O(parameters).
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
    """Ids of all spans, as concatenated digits or bytes."""

    trace: U1
    """[32 * spans] trace ids as hexadecimal digits."""
    span: U1
    """[8 * spans] span ids as bytes."""
    parent: U1
    """[8 * spans with a parent] span ids of the parents as bytes."""
    has_parent: B1
    """[spans] True if the span has a parent."""


def id_columns(library: Library, tables: Tables) -> IdColumns:
    """Collect the ids of all spans from the buffer."""
    n = len(tables.spans)
    trace, span, parent = (np.empty(size * n, np.uint8) for size in (32, 8, 8))
    has_parent = np.empty(n, np.uint8)
    types = (_U1, SPAN, _U1, _U1, _U1, _U1)
    n_parents = library.call("ids", types, tables.buffer, tables.spans, trace, span, parent, has_parent)
    return IdColumns(trace, span, parent[: 8 * n_parents], has_parent.view(np.bool_))


LINK_BYTES: Final = 49


def link_texts(library: Library, tables: Tables) -> U1:
    """[49 * links] text `traceid/spanid` of each link, in hexadecimal digits."""
    out = np.empty(LINK_BYTES * len(tables.links), np.uint8)
    library.call("link_texts", (_U1, LINK, _U1), tables.buffer, tables.links, out)
    return out


def is_sound(library: Library, message: bytes) -> bool:
    """True if protobuf's parser accepts a message, and the decoder accepts the ids and times of every span.

    False if not, or if the library cannot decide it. O(bytes).
    """
    return library.call("is_sound", (_U1,), np.frombuffer(message, np.uint8)) == 1
