"""A profile as one Parquet file: its names and its tables one below the other.

One file, so that it is there whole or not at all; plain Parquet, so that any tool can look into it; `table`
says which table a row is of. A window of a small system has sixty sites, and what is kept of it is read ten
thousand times: bytes are split by their place before they are compressed (most of a number's are 0), whole
numbers are integers, a column that is 0 everywhere is left out, and so is one that is equal to another (the
weights of requests that were not sampled; `flowdiff.same` says to which).

Every column goes on below the other tables. Where these are long each is a row group of its own, and nothing
is read of columns that it has not; short ones share one. A row of votes
is a place and how many bins it has. The votes themselves are nine of ten numbers of a large window: each of
their columns is one packed value (`_packed`). What follows in a histogram is near what was before, so steps
are packed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from analyze.population import FoldedNames
from analyze.profile.name_columns import NameColumns, name_columns, names_of
from analyze.profile.profile import PROFILE_VERSION, SCHEMAS, TABLES, Profile, Slot, Watched
from analyze.profile.votes import Votes, summed_votes
from analyze.stats.histograms import N_BINS

STORED_VERSION: Final = 7
"""Of this file's form."""
META_VERSION: Final = b"flowdiff.profile_version"
META_SLOTS: Final = b"flowdiff.slots"
META_ROWS: Final = b"flowdiff.rows"
META_SAME: Final = b"flowdiff.same"
META_FOLDED: Final = b"flowdiff.folded"

_ZSTD_LEVEL: Final = 3
_TEXTS: Final = ("component", "point", "callee")
_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "operations": _TEXTS,
    "sites": ("caller", "operation", "kind"),
    "paths": ("above", "site"),
    "children": ("pattern", "operation", "calls", "awaited"),
    "roots": ("point",),
    "errors": ("point",),
}
"""Table of names -> its columns."""
_COLUMNS: Final = {
    **_NAMES,
    **{name: tuple(schema.names) for name, schema in SCHEMAS.items() if name != "votes"},
    "votes": ("measure", "site", "pattern", "slot", "bins"),
    "packed": ("vote_bin", "vote_n", "vote_w", "vote_w2"),
}
"""Tables of the file. The last has one row, the packed columns of the votes."""
_PACKED: Final = _COLUMNS["packed"]
_LEAST_ROWS: Final = 1 << 19
"""Rows of a file from which each table is a row group, of 6 kilobytes at least."""
_VALUES: Final = (*dict.fromkeys(value for _, values in TABLES.values() for value in values), *_PACKED[1:])
_PLAIN, _STEPS, _DOUBLES = range(3)
"""Kinds of packed columns."""
_MUCH_SMALLER: Final = 0.9
"""What steps must be of the compressed bytes: to add them up again takes as long as to read them."""
_PAGE: Final = 1 << 26
"""Bytes of a dictionary of names: all of it."""

_TYPES: Final[dict[str, type]] = {
    field.name: field.type.to_pandas_dtype() for schema in SCHEMAS.values() for field in schema
}

StoredColumn = npt.NDArray[Any]


class Stored(NamedTuple):
    """What a file holds: sound, and not yet in the forms of a profile."""

    names: NameColumns
    slots: tuple[Slot, ...]
    votes: Votes
    tables: Mapping[str, Mapping[str, StoredColumn]]
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
    votes = stored.votes
    packed = dict(zip(_PACKED, (votes.bin, *votes.weights), strict=True))
    tables: dict[str, Mapping[str, Any]] = {
        **_name_tables(stored.names),
        **stored.tables,
        "votes": dict(zip(_COLUMNS["votes"], (*votes.keys, votes.n_rows), strict=True)),
    }
    same = _equal_columns([*tables.values(), packed])
    tables["packed"] = {name: pa.array([_packed(packed[name])]) for name in _PACKED if name not in same}
    rows = {name: len(next(iter(columns.values()))) for name, columns in tables.items()}
    columns: dict[str, pa.Array] = {
        "table": pa.DictionaryArray.from_arrays(
            pa.array(np.repeat(np.arange(len(rows), dtype=np.int32), list(rows.values()))), list(rows)
        )
    }
    for name in dict.fromkeys(name for of in _COLUMNS.values() for name in of if name not in same):
        if name in (*_TEXTS, *_PACKED):
            to = pa.string() if name in _TEXTS else pa.binary()
            columns[name] = pa.concat_arrays(
                [
                    tables[t][name].cast(to) if name in tables[t] else pa.repeat(pa.scalar("", to), n)
                    for t, n in rows.items()
                ]
            )
        else:
            value = np.concatenate(
                [tables[t][name] if name in tables[t] else np.zeros(n) for t, n in rows.items()]
            )
            if value.any():
                columns[name] = pa.array(_narrowed(value))
    table = pa.table(
        list(columns.values()),
        pa.schema([pa.field(name, c.type, nullable=False) for name, c in columns.items()]),
    )
    in_words = ["table", *_TEXTS]
    groups = [n for n in rows.values() if n] if table.num_rows >= _LEAST_ROWS else [table.num_rows]
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        table.schema,
        compression="zstd",
        compression_level=_ZSTD_LEVEL,
        use_dictionary=in_words,
        column_encoding={name: "BYTE_STREAM_SPLIT" for name in columns if name not in (*in_words, *_PACKED)},
        dictionary_pagesize_limit=_PAGE,
        write_statistics=False,
        write_page_checksum=True,
        store_schema=False,
    ) as writer:
        for past, n in zip(accumulate(groups), groups, strict=True):
            writer.write_table(table.slice(past - n, n), row_group_size=n)
        writer.add_key_value_metadata(
            {
                META_VERSION: version().encode(),
                META_SLOTS: json.dumps(
                    [[s.sample, s.start_ns, s.end_ns, *map(_from_start, s.watched)] for s in stored.slots]
                ).encode(),
                META_ROWS: json.dumps(
                    rows | {"pattern": stored.names.n_patterns, "vote": len(votes.bin)}
                ).encode(),
                META_SAME: json.dumps(same).encode(),
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


def _name_tables(names: NameColumns) -> dict[str, dict[str, StoredColumn | pa.Array]]:
    return {
        "operations": {"component": names.component, "point": names.point, "callee": names.callee},
        "sites": {"caller": names.caller, "operation": names.operation, "kind": names.kind},
        "paths": {"above": names.above, "site": names.path_site},
        "children": {
            "pattern": names.pattern,
            "operation": names.child,
            "calls": names.calls,
            "awaited": names.awaited,
        },
        "roots": {"point": names.roots},
        "errors": {"point": names.errors},
    }


def _packed(values: StoredColumn) -> bytes:
    """Bytes of a column, those of one place side by side, and before them (kind, size of a number, how many
    of its bytes are there: the others are 0).

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
    sizes = [len(pa.compress(data, "zstd", asbytes=True)) for data in (plain, stepped)]
    return stepped if sizes[1] < _MUCH_SMALLER * sizes[0] else plain


def _in_planes(number: StoredColumn, kind: int) -> bytes:
    planes = max(1, (int(number.max(initial=0)).bit_length() + 7) // 8)
    data = number.view(np.uint8).reshape(-1, number.itemsize).T[:planes]
    return bytes((kind, number.itemsize, planes)) + data.tobytes()


def _unpacked(data: pa.Buffer) -> StoredColumn:
    """The column of `_packed`. Raises ValueError where it is none."""
    bytes_ = np.frombuffer(data, np.uint8)
    kind, size, n_planes = bytes_[:3].tolist()
    if kind not in (_PLAIN, _STEPS, _DOUBLES) or size not in (2, 4, 8) or not 0 < n_planes <= size:
        raise ValueError("no packed column")
    planes = bytes_[3:].reshape(n_planes, -1)
    number = planes[0].astype(f"u{size}")
    for at, plane in enumerate(planes[1:], 1):
        number |= plane.astype(number.dtype) << 8 * at
    if kind == _STEPS:
        sign = number & number.dtype.type(1)
        number >>= number.dtype.type(1)
        number ^= np.negative(sign, out=sign)
        np.cumsum(number, dtype=number.dtype, out=number)
    found: StoredColumn = number.view(np.float64) if kind == _DOUBLES else number
    return found


def _equal_columns(tables: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Columns of values that are those of another wherever they are, and of which."""
    same: dict[str, str] = {}
    for at, name in enumerate(_VALUES):
        users = [columns for columns in tables if name in columns]
        for other in _VALUES[:at]:
            if other not in same and all(
                other in columns and np.array_equal(columns[other], columns[name]) for columns in users
            ):
                same[name] = other
                break
    return same


def _narrowed(value: StoredColumn) -> StoredColumn:
    """Integers, of four bytes where they fit, where all are whole."""
    if value.dtype.kind == "f" and not (np.isfinite(value).all() and (np.rint(value) == value).all()):
        return value
    most = np.abs(value).max(initial=0)
    if most >= 2**62:
        return value
    return value.astype(np.int32 if most < 2**31 else np.int64)


def stored_of(profile: Profile) -> Stored:
    """A profile in columns."""
    tables = {
        name: {key: table[key].to_numpy() for key in table.column_names}
        for name, table in profile.tables().items()
    }
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


def stored_tables(data: pa.Buffer | bytes, *, with_account: bool = True) -> Stored | None:
    """What a file of `encode` holds, in columns; None for other bytes, and for another version. O(rows), no
    object a name.

    Every number is checked against the names that it refers to. Without the account there are no paths, which
    nothing else is by.
    """
    try:
        file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True, read_dictionary=_TEXTS)
        metadata = file.metadata.metadata or {}
        if metadata.get(META_VERSION, b"").decode() != version():
            return None
        many: dict[str, int] = json.loads(metadata[META_ROWS])
        same: dict[str, str] = json.loads(metadata[META_SAME])
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
        rows = {name: many[name] for name in _COLUMNS}
        tables = _read_tables(file, rows, same, () if with_account else ("paths", "account"))
        found = {
            name: {key: _column(tables.get(name), name, key, same.get(key, key)) for key in columns}
            for name, columns in _COLUMNS.items()
        }
        stored = Stored(
            _names(found, many["pattern"]),
            slots,
            _votes(found["votes"], found["packed"]),
            {name: found[name] for name in SCHEMAS if name != "votes"},
            folded,
        )
        # In few bytes, and not in those of the file: a block holds many windows until they are added up.
        return stored._replace(votes=stored.votes.compact()) if _is_sound(stored) else None
    except (pa.ArrowException, ValueError, KeyError, TypeError, IndexError, OSError, AttributeError):
        return None


def votes_kept(data: pa.Buffer | bytes) -> int:
    """Count the votes that a file holds from its footer; 0 of no such file."""
    try:
        metadata = pq.read_metadata(pa.BufferReader(data)).metadata or {}
        return int(json.loads(metadata[META_ROWS])["vote"])
    except (pa.ArrowException, ValueError, KeyError, TypeError, OSError):
        return 0


def _read_tables(
    file: pq.ParquetFile, rows: Mapping[str, int], same: Mapping[str, str], left_out: Sequence[str]
) -> dict[str, pa.Table]:
    """Tables that have a row. Raises ValueError where the file has others."""
    there = [name for name in _COLUMNS if rows[name]]
    stored = [name for name in file.schema_arrow.names if name != "table"]
    if file.num_row_groups == 1:
        whole = file.read(stored, use_threads=False).combine_chunks()
        first = accumulate((rows[name] for name in there), initial=0)
        found = {name: whole.slice(at, rows[name]) for name, at in zip(there, first, strict=False)}
    else:
        wanted = {name: {same.get(key, key) for key in _COLUMNS[name]} for name in there}
        found = {
            name: file.read_row_group(
                group, [key for key in stored if key in wanted[name]], use_threads=False
            ).combine_chunks()
            for group, name in enumerate(there)
            if name not in left_out
        }
    if file.metadata.num_rows != sum(rows.values()) or any(
        table.num_rows != rows[name] or any(column.null_count for column in table.columns)
        for name, table in found.items()
    ):
        raise ValueError("not the rows of the tables")
    return {name: table for name, table in found.items() if name not in left_out}


def _column(rows: pa.Table | None, table: str, name: str, stored: str) -> Any:
    """A column of a table from its rows, which have it under the name `stored`; else it is 0."""
    column = None if rows is None or stored not in rows.column_names else rows[stored].combine_chunks()
    if name in _TEXTS:
        return pa.array([], pa.string()).dictionary_encode() if column is None else column
    if name in _PACKED:
        return column
    to = np.dtype(np.int64 if name not in _TYPES or table in _NAMES else _TYPES[name])
    if column is None:
        return np.zeros(0 if rows is None else rows.num_rows, to)
    return column.to_numpy().astype(to)


def _votes(places: Mapping[str, StoredColumn], packed: Mapping[str, pa.BinaryArray]) -> Votes:
    """Votes of places. Raises ValueError where not every bin has its numbers."""
    *keys, n_rows = places.values()
    bins, *sums = (column[0].as_buffer() for column in packed.values())
    weighted = any(data != sums[0] for data in sums)
    columns = [_unpacked(data) for data in (bins, *(sums if weighted else sums[:1]))]
    if any(len(column) != int(n_rows.sum()) for column in columns):
        raise ValueError("votes are of no place, or not of each bin")
    return Votes(tuple(keys), n_rows, columns[0], tuple(columns[1:]))


def _names(tables: Mapping[str, Mapping[str, Any]], n_patterns: int) -> NameColumns:
    operations, sites, paths, children = (
        tables[name] for name in ("operations", "sites", "paths", "children")
    )
    return NameColumns(
        **operations,
        **sites,
        above=paths["above"],
        path_site=paths["site"],
        n_patterns=n_patterns,
        pattern=children["pattern"],
        child=children["operation"],
        calls=children["calls"],
        awaited=children["awaited"],
        roots=tables["roots"]["point"].cast(pa.string()),
        errors=tables["errors"]["point"].cast(pa.string()),
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
