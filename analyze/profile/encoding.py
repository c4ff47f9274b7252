"""A profile as one Parquet file: a row for each column of its tables, with all numbers in one packed value.

One file, so that it is there whole or not at all. A window of a small system has sixty sites, and what is
kept of it is read ten thousand times: a column of Parquet costs 100 bytes and 0.1 ms, so the file has only
two, the name of a column and its numbers (`_packed`). Their bytes are split by place before they are
compressed (most of a number's are 0), whole numbers are integers, a column that is 0 everywhere is left out,
and one that is equal to another before it (the weights of requests that were not sampled) says to which.

A row of votes is a place and how many bins it has; the votes themselves, nine of ten numbers of a large
window, are a table of their own. The account is a group of rows of its own: who needs none does not read it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from analyze.population import FoldedNames
from analyze.profile.name_columns import NameColumns, name_columns, names_of
from analyze.profile.profile import PROFILE_VERSION, SCHEMAS, Column, Profile, Slot, Watched, columns_of
from analyze.profile.votes import Votes, summed_votes
from analyze.stats.histograms import N_BINS

STORED_VERSION: Final = 8
"""Of this file's form."""
META_VERSION: Final = b"flowdiff.profile_version"
META_SLOTS: Final = b"flowdiff.slots"
META_COUNTS: Final = b"flowdiff.counts"
META_FOLDED: Final = b"flowdiff.folded"

_CODEC: Final = pa.Codec("zstd", compression_level=3)
_TEXTS: Final = ("component", "point", "callee", "roots", "errors")
"""Tables of words: how long each is; the words themselves are a row beside it."""
_TEXT: Final = "text"
_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(_TEXTS, ("length",)),
    "operations": ("component", "point", "callee"),
    "sites": ("caller", "operation", "kind"),
    "paths": ("above", "site"),
    "children": ("pattern", "operation", "calls", "awaited"),
}
"""Table of names -> its columns; callers, and what is above, are numbered from 1 on, and 0 is none."""
_COLUMNS: Final = {
    **_NAMES,
    **{name: tuple(schema.names) for name, schema in SCHEMAS.items() if name != "votes"},
    "votes": ("measure", "site", "pattern", "slot", "bins"),
    "bins": ("bin", "n", "w", "w2"),
}
"""Tables of the file."""
_ACCOUNT: Final = ("paths", "account")
"""Tables of the last group of rows: nothing else is by paths."""
_PLAIN, _STEPS, _DOUBLES, _SAME = range(4)
"""Kinds of packed columns."""
_MUCH_SMALLER: Final = 0.9
"""What steps must be of the compressed bytes: to add them up again takes as long as to read them."""
_MOST: Final = 1 << 30
"""Bytes of a column, and patterns, that no file has: one that says so would fill the memory."""
_AT_ONCE: Final = 1 << 14
"""Packed numbers that are unpacked in one go: they stay in a core's cache."""

_TYPES: Final[dict[str, type]] = {
    field.name: field.type.to_pandas_dtype() for schema in SCHEMAS.values() for field in schema
}

_HEAD: Final = struct.Struct("<BBBI")
_SCHEMA: Final = pa.schema(
    [pa.field("column", pa.string(), nullable=False), pa.field("data", pa.binary(), nullable=False)]
)


class Stored(NamedTuple):
    """What a file holds: sound, and not yet in the forms of a profile."""

    names: NameColumns
    slots: tuple[Slot, ...]
    votes: Votes
    tables: Mapping[str, Mapping[str, Column]]
    """Every other table -> column -> [rows], keys as integers, values as doubles."""
    folded: tuple[FoldedNames, ...]
    """What is joined with it has to be folded so, too: `analyze.profile.folded_names`."""


def version() -> str:
    """Of the meaning and the form of what is stored; other ones are not read."""
    return f"{PROFILE_VERSION}.{STORED_VERSION}"


def encode(profile: Profile) -> bytes:
    """Parquet bytes; the same profile always gives the same bytes. O(rows)."""
    return encode_stored(stored_of(profile))


def encode_stored(stored: Stored) -> bytes:
    """The same of a profile in columns."""
    votes, texts = stored.votes, _texts(stored.names)
    tables: dict[str, Mapping[str, Column]] = {
        **{name: {"length": _lengths(words)} for name, words in texts.items()},
        **_name_tables(stored.names),
        **stored.tables,
        "votes": dict(zip(_COLUMNS["votes"], (*votes.keys, votes.n_rows), strict=True)),
        "bins": dict(zip(_COLUMNS["bins"], (votes.bin, *votes.weights), strict=True)),
    }
    rows = {f"{name}.{_TEXT}": _text(words) for name, words in texts.items()}
    account: dict[str, bytes] = {}
    for name, columns in tables.items():
        group = account if name in _ACCOUNT else rows
        group |= {f"{name}.{key}": data for key, data in _packed_table(columns).items()}
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        _SCHEMA,
        compression="none",  # each value is
        use_dictionary=False,
        write_statistics=False,
        write_page_checksum=True,
        store_schema=False,
    ) as writer:
        for group in (rows, account):
            writer.write_table(pa.table([[*group], [*group.values()]], _SCHEMA))
        writer.add_key_value_metadata(
            {
                META_VERSION: version().encode(),
                META_SLOTS: json.dumps(
                    [[s.sample, s.start_ns, s.end_ns, *map(_from_start, s.watched)] for s in stored.slots]
                ).encode(),
                META_COUNTS: json.dumps(
                    {"pattern": stored.names.n_patterns, "vote": len(votes.bin)}
                ).encode(),
                META_FOLDED: json.dumps(stored.folded).encode(),
            }
        )
    return bytes(sink.getvalue())


def _from_start(one: Watched) -> tuple[float, ...]:
    """Give a row of a stretch; its times after its start, which is fewer digits."""
    start = one.start_ns
    return start, one.end_ns - start, one.n, one.w, one.first_ns - start, one.last_ns - start


def _watched(start: int, length: int, n: float, w: float, first: int, last: int) -> Watched:
    """Give the stretch of a row. Raises TypeError where it is none."""
    at = int(start)
    return Watched(at, at + int(length), float(n), float(w), at + int(first), at + int(last))


def _texts(names: NameColumns) -> dict[str, pa.StringArray]:
    """Words by the table of their lengths."""
    of_operations = (names.component, names.point, names.callee)
    words = (*(texts.dictionary for texts in of_operations), names.roots, names.errors)
    return {name: array.cast(pa.string()) for name, array in zip(_TEXTS, words, strict=True)}


def _lengths(words: pa.StringArray) -> Column:
    lengths: Column = pc.binary_length(words).to_numpy()
    return lengths


def _text(words: pa.StringArray) -> bytes:
    """UTF-8 of all words, end to end, compressed."""
    return bytes(_CODEC.compress(b"".join(words.cast(pa.binary()).to_pylist())))


def _words(length: Column, text: pa.Buffer) -> pa.StringArray:
    """Words of `_lengths` and `_text`. Raises ValueError or ArrowInvalid where they are none."""
    offsets = np.append(0, np.cumsum(length, dtype=np.int64))
    whole = _CODEC.decompress(text, int(offsets[-1]))
    words = pa.StringArray.from_buffers(len(length), pa.py_buffer(offsets.astype(np.int32)), whole)
    words.validate(full=True)
    return words


def _name_tables(names: NameColumns) -> dict[str, dict[str, Column]]:
    return {
        "operations": {
            "component": names.component.indices.to_numpy(),
            "point": names.point.indices.to_numpy(),
            "callee": names.callee.indices.to_numpy(),
        },
        "sites": {"caller": names.caller + 1, "operation": names.operation, "kind": names.kind},
        "paths": {"above": names.above + 1, "site": names.path_site},
        "children": {
            "pattern": names.pattern,
            "operation": names.child,
            "calls": names.calls,
            "awaited": names.awaited,
        },
    }


def _packed_table(columns: Mapping[str, Column]) -> dict[str, bytes]:
    """Pack the columns of a table; of those that are 0 everywhere the first alone, which says how long they
    are."""
    packed: dict[str, bytes] = {}
    before: list[Column] = []
    for name, values in columns.items():
        if not before or values.any():
            same = next((at for at, other in enumerate(before) if np.array_equal(other, values)), None)
            packed[name] = _packed(values) if same is None else bytes((_SAME, same))
        before.append(values)
    return packed


def _packed(values: Column) -> bytes:
    """Pack a column: its kind, the size of a number, how many of its bytes are there (the others are 0), how
    many numbers there are; then those bytes, of one place side by side, compressed.

    Whole numbers are steps, modulo the size and with the sign in the last bit, where that is a tenth smaller.
    Other numbers are doubles.
    """
    whole = _narrowed(values)
    if whole.dtype.kind == "f" or whole.min(initial=0) < 0:
        return _in_planes(values.astype(np.float64).view(np.uint64), _DOUBLES)
    size = next(size for size in (2, 4, 8) if not len(whole) or whole.max() < 1 << 8 * size)
    number = whole.astype(f"u{size}")
    step = np.diff(number, prepend=number.dtype.type(0)).view(f"i{size}")
    steps = ((step << 1) ^ (step >> 8 * size - 1)).view(number.dtype)
    plain, stepped = _in_planes(number, _PLAIN), _in_planes(steps, _STEPS)
    return stepped if len(stepped) < _MUCH_SMALLER * len(plain) else plain


def _in_planes(number: Column, kind: int) -> bytes:
    planes = max(1, (int(number.max(initial=0)).bit_length() + 7) // 8)
    data = number.view(np.uint8).reshape(-1, number.itemsize).T[:planes].tobytes()
    return _HEAD.pack(kind, number.itemsize, planes, len(number)) + bytes(_CODEC.compress(data))


def _unpacked(data: pa.Buffer) -> Column:
    """The column of `_packed`. Raises ValueError or struct.error where it is none."""
    kind, size, n_planes, n = _HEAD.unpack_from(data)
    if (
        kind not in (_PLAIN, _STEPS, _DOUBLES)
        or size not in (2, 4, 8)
        or not 0 < n_planes <= size
        or n * size > _MOST
    ):
        raise ValueError("no packed column")
    whole = _CODEC.decompress(data.slice(_HEAD.size), n * n_planes)
    planes = np.frombuffer(whole, np.uint8).reshape(n_planes, n)
    found = np.empty(planes.shape[1], f"u{size}")
    # Numbers of two bytes are added up one after the other five times as slowly as those of four.
    wide, reached = np.dtype(f"u{max(size, 4)}"), 0
    for at in range(0, len(found), _AT_ONCE):
        number = planes[0, at : at + _AT_ONCE].astype(wide)
        for place, plane in enumerate(planes[1:, at : at + _AT_ONCE], 1):
            number |= plane.astype(wide) << 8 * place
        if kind == _STEPS:
            sign = number & wide.type(1)
            number >>= wide.type(1)
            number ^= np.negative(sign, out=sign)
            number[:1] += wide.type(reached)
            np.cumsum(number, out=number)
            reached = number[-1]
        found[at : at + _AT_ONCE] = number
    return found.view(np.float64) if kind == _DOUBLES else found


def _narrowed(value: Column) -> Column:
    """Integers, of four bytes where they fit, where all are whole."""
    if value.dtype.kind == "f" and not (np.isfinite(value).all() and (np.rint(value) == value).all()):
        return value
    most = np.abs(value).max(initial=0)
    if most >= 2**62:
        return value
    return value.astype(np.int32 if most < 2**31 else np.int64)


def stored_of(profile: Profile) -> Stored:
    """A profile in columns."""
    tables = {name: columns_of(table) for name, table in profile.tables().items()}
    votes = Votes.of(tables.pop("votes"))
    return Stored(name_columns(profile.names), profile.slots, votes, tables, profile.folded)


def profile_of_stored(stored: Stored) -> Profile:
    """The profile of some columns."""
    tables = {
        name: pa.table([pa.array(columns[key]) for key in SCHEMAS[name].names], schema=SCHEMAS[name])
        for name, columns in stored.tables.items()
    }
    votes = summed_votes([stored.votes]).table()
    return Profile(names_of(stored.names), stored.slots, votes=votes, **tables, folded=stored.folded)


def stored_tables(data: pa.Buffer | bytes | None, *, with_account: bool = True) -> Stored | None:
    """What a file of `encode` holds, in columns; None for none, other bytes, and another version. O(rows), no
    object a name.

    Every number is checked against the names that it refers to. Without the account there are no paths, which
    nothing else is by.
    """
    if data is None:
        return None
    try:
        file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        metadata = file.metadata.metadata or {}
        if metadata.get(META_VERSION, b"").decode() != version():
            return None
        many: dict[str, int] = json.loads(metadata[META_COUNTS])
        slots = tuple(
            Slot(
                int(a),
                int(b),
                int(c),
                tuple(_watched(*row) for row in of),
            )
            for a, b, c, *of in json.loads(metadata[META_SLOTS])
        )
        folded = tuple(
            FoldedNames(component, int(level), int(left), (str(a), str(b)))
            for component, level, left, (a, b) in json.loads(metadata[META_FOLDED])
            if component is None or isinstance(component, str)
        )
        rows = file.read_row_groups([0, 1] if with_account else [0], use_threads=False)
        packed = {
            str(name): value.as_buffer()
            for name, value in zip(rows["column"].to_pylist(), rows["data"], strict=True)
            if value.is_valid
        }
        tables = {
            name: _unpacked_table(name, packed)
            if with_account or name not in _ACCOUNT
            else {key: np.zeros(0, _type_of(name, key)) for key in columns}
            for name, columns in _COLUMNS.items()
        }
        texts = {name: _words(tables[name]["length"], packed[f"{name}.{_TEXT}"]) for name in _TEXTS}
        stored = Stored(
            _names(tables, texts, many["pattern"]),
            slots,
            _votes(tables["votes"], tables["bins"]),
            {name: tables[name] for name in SCHEMAS if name != "votes"},
            folded,
        )
        # In few bytes, and not in those of the file: a block holds many windows until they are added up.
        return stored._replace(votes=stored.votes.compact()) if _is_sound(stored) else None
    except (
        pa.ArrowException,
        ValueError,
        KeyError,
        TypeError,
        IndexError,
        OSError,
        OverflowError,
        RecursionError,
        AttributeError,
        struct.error,
    ):
        return None


def votes_kept(data: pa.Buffer | bytes) -> int:
    """Count the votes that a file holds from its footer; 0 of no such file."""
    try:
        metadata = pq.read_metadata(pa.BufferReader(data)).metadata or {}
        return int(json.loads(metadata[META_COUNTS])["vote"])
    except (pa.ArrowException, ValueError, KeyError, TypeError, OSError, OverflowError, RecursionError):
        return 0


def _unpacked_table(name: str, packed: Mapping[str, pa.Buffer]) -> dict[str, Column]:
    """The columns of `_packed_table`. Raises KeyError, IndexError or ValueError where they are no table."""
    found: dict[str, Column] = {}
    for key in _COLUMNS[name]:
        data = packed.get(f"{name}.{key}") if found else packed[f"{name}.{key}"]
        if data is None:
            values = np.zeros_like(next(iter(found.values())))
        elif data[0] == _SAME:
            values = [*found.values()][data[1]]
        else:
            values = _unpacked(data)
        found[key] = values
    if len({len(values) for values in found.values()}) > 1:
        raise ValueError("columns of one table that are not equally long")
    if name == "bins":
        return found
    return {key: values.astype(_type_of(name, key), copy=False) for key, values in found.items()}


def _type_of(table: str, column: str) -> np.dtype[Any]:
    return np.dtype(np.int64 if column not in _TYPES or table in _NAMES else _TYPES[column])


def _votes(places: Mapping[str, Column], bins: Mapping[str, Column]) -> Votes:
    """Votes of places. Raises ValueError where not every bin has its numbers."""
    *keys, n_rows = places.values()
    of, *sums = bins.values()
    if of.dtype.kind != "u" or len(of) != int(n_rows.sum()):
        raise ValueError("votes are of no place, or of no bin")
    weighted = any(column is not sums[0] for column in sums)
    return Votes(tuple(keys), n_rows, of, tuple(sums if weighted else sums[:1]))


def _names(
    tables: Mapping[str, Mapping[str, Column]], texts: Mapping[str, pa.StringArray], n_patterns: int
) -> NameColumns:
    if n_patterns > _MOST:
        raise ValueError("more patterns than a file has")
    operations, sites, paths, children = (
        tables[name] for name in ("operations", "sites", "paths", "children")
    )
    return NameColumns(
        **{
            name: pa.DictionaryArray.from_arrays(pa.array(code.astype(np.int32)), texts[name])
            for name, code in operations.items()
        },
        caller=sites["caller"] - 1,
        operation=sites["operation"],
        kind=sites["kind"],
        above=paths["above"] - 1,
        path_site=paths["site"],
        n_patterns=n_patterns,
        pattern=children["pattern"],
        child=children["operation"],
        calls=children["calls"],
        awaited=children["awaited"],
        roots=texts["roots"],
        errors=texts["errors"],
    )


def _is_sound(stored: Stored) -> bool:
    """Whether every number stands for a name or a slot, and every run of votes has its rows."""
    many = stored.names.many | {"slot": len(stored.slots), "bin": N_BINS}
    votes = stored.votes
    runs = dict(zip(("measure", "site", "pattern", "slot"), votes.keys, strict=True))
    rows = {"bin": votes.bin, **{str(at): column for at, column in enumerate(votes.sums)}}
    return (
        stored.names.are_sound()
        and bool((votes.n_rows > 0).all())
        and int(votes.n_rows.sum()) == len(votes.bin)
        and all(
            np.isfinite(column).all()
            if column.dtype.kind == "f"
            else key not in many or not len(column) or (column.min() >= 0 and column.max() < many[key])
            for columns in (runs, rows, *stored.tables.values())
            for key, column in columns.items()
        )
    )
