"""A profile as one Parquet file of one row group: its names and its tables one below the other.

One file, so that it is there whole or not at all; plain Parquet, so that any tool can look into it; `table`
says which table a row is of. A window of a small system has sixty sites, and what is kept of it is read ten
thousand times: bytes are split by their place before they are compressed (most of a number's are 0), whole
numbers are integers, a column that is 0 everywhere is left out, and so is one that is equal to another (the
weights of requests that were not sampled; `flowdiff.same` says to which). Votes of a place are lists in its
row: they are nine of ten numbers of a large window, and every other column would go on below them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from analyze.population import FoldedNames
from analyze.profile.name_columns import NameColumns, name_columns, names_of
from analyze.profile.profile import PROFILE_VERSION, SCHEMAS, TABLES, Profile, Slot, Watched
from analyze.profile.votes import Votes
from analyze.stats.histograms import N_BINS

STORED_VERSION: Final = 6
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
    "votes": ("measure", "site", "pattern", "slot", "vote_bin", "vote_n", "vote_w", "vote_w2"),
}
"""Tables of the file. A row of votes is a place, its last four columns are lists."""
_LISTS: Final = _COLUMNS["votes"][4:]
_VALUES: Final = (*dict.fromkeys(value for _, values in TABLES.values() for value in values), *_LISTS[1:])
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
    lists = dict(zip(_LISTS, (votes.bin, *votes.weights), strict=True))
    tables: dict[str, Mapping[str, Any]] = {
        **_name_tables(stored.names),
        **stored.tables,
        "votes": dict(zip(("measure", "site", "pattern", "slot"), votes.keys, strict=True)),
    }
    rows = {name: len(next(iter(columns.values()))) for name, columns in tables.items()}
    same = _equal_columns([*tables.values(), lists])
    columns: dict[str, pa.Array] = {
        "table": pa.DictionaryArray.from_arrays(
            pa.array(np.repeat(np.arange(len(rows), dtype=np.int32), list(rows.values()))), list(rows)
        )
    }
    for name in dict.fromkeys(name for of in _COLUMNS.values() for name in of if name not in same):
        if name in _LISTS:
            columns[name] = _lists(lists[name], votes.n_rows, sum(rows.values()))
        elif name in _TEXTS:
            columns[name] = pa.concat_arrays(
                [tables[t][name] if name in tables[t] else pa.repeat("", n) for t, n in rows.items()]
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
    texts = ["table", *_TEXTS]
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        table.schema,
        compression="zstd",
        compression_level=_ZSTD_LEVEL,
        use_dictionary=texts,
        column_encoding={
            f"{name}.list.element" if name in _LISTS else name: "BYTE_STREAM_SPLIT"
            for name in columns
            if name not in texts
        },
        dictionary_pagesize_limit=_PAGE,
        write_statistics=False,
        write_page_checksum=True,
        store_schema=False,
    ) as writer:
        writer.write_table(table, row_group_size=max(1, table.num_rows))
        writer.add_key_value_metadata(
            {
                META_VERSION: version().encode(),
                META_SLOTS: json.dumps(
                    [[s.sample, s.start_ns, s.end_ns, *map(_from_start, s.watched)] for s in stored.slots]
                ).encode(),
                META_ROWS: json.dumps(rows | {"pattern": stored.names.n_patterns}).encode(),
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


def _name_tables(names: NameColumns) -> dict[str, dict[str, StoredColumn | pa.StringArray]]:
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


def _lists(values: StoredColumn, n: StoredColumn, n_rows: int) -> pa.ListArray:
    """Lists of n values each, in the last of so many rows; none in the others."""
    ends = np.zeros(n_rows + 1, dtype=np.int32)
    ends[n_rows + 1 - len(n) :] = np.cumsum(n)
    elements = pa.array(_narrowed(values))
    of = pa.list_(pa.field("element", elements.type, nullable=False))
    return pa.ListArray.from_arrays(pa.array(ends), elements, type=of)


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
    votes = stored.votes.table()
    return Profile(names_of(stored.names), stored.slots, votes=votes, **tables, folded=stored.folded)


def decode(data: pa.Buffer | bytes) -> Profile | None:
    """The profile of `encode`; None where the bytes are no such file, or one of another version.

    Every number is checked against the names that it refers to: a profile that is returned can be used.
    """
    stored = stored_tables(data)
    return None if stored is None else profile_of_stored(stored)


def stored_tables(data: pa.Buffer | bytes) -> Stored | None:
    """What a file holds, in columns; None as in `decode`. O(rows), no object a name."""
    try:
        file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True, read_dictionary=_TEXTS)
        metadata = file.metadata.metadata or {}
        if metadata.get(META_VERSION, b"").decode() != version():
            return None
        rows: dict[str, int] = json.loads(metadata[META_ROWS])
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
        table = file.read(
            [name for name in file.schema_arrow.names if name != "table"], use_threads=False
        ).combine_chunks()
        if table.num_rows != sum(rows[name] for name in _COLUMNS) or any(c.null_count for c in table.columns):
            return None
        texts = {name: table[name].combine_chunks() for name in _TEXTS}
        lists = {name: table[name].combine_chunks() for name in table.column_names if name in _LISTS}
        numbers = {
            name: table[name].to_numpy()
            for name in table.column_names
            if name not in texts and name not in lists
        }
        found: dict[str, dict[str, Any]] = {}
        first = 0
        for name, columns in _COLUMNS.items():
            past = first + rows[name]
            found[name] = {
                key: texts[key][first:past].cast(pa.string())
                if key in texts
                else _typed(name, key, numbers.get(same.get(key, key)), first, past)
                for key in columns
                if key not in _LISTS
            }
            first = past
        stored = Stored(
            _names(found, rows["pattern"]),
            slots,
            _votes(found["votes"], {name: lists[same.get(name, name)] for name in _LISTS}),
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
        columns = pq.read_metadata(pa.BufferReader(data)).row_group(0)
    except (pa.ArrowException, ValueError, OSError):
        return 0
    many = (columns.column(at).num_values for at in range(columns.num_columns))
    return max(many, default=0)


def _votes(places: Mapping[str, StoredColumn], lists: Mapping[str, pa.ListArray]) -> Votes:
    """Votes of the last rows. Raises ValueError where a place has not as many bins as numbers."""
    keys = tuple(places.values())
    bins, n, w, w2 = lists.values()
    ends = bins.offsets.to_numpy()
    of_places = ends[len(ends) - 1 - len(keys[0]) :]
    if of_places[0] or not all(np.array_equal(ends, other.offsets.to_numpy()) for other in (n, w, w2)):
        raise ValueError("votes are of no place, or not of each bin")
    sums = (n,) if n is w and n is w2 else (n, w, w2)
    return Votes(
        keys,
        np.diff(of_places),
        bins.flatten().to_numpy(),
        tuple(column.flatten().to_numpy() for column in sums),
    )


def _typed(table: str, name: str, column: StoredColumn | None, first: int, past: int) -> StoredColumn:
    to = np.dtype(np.int64 if table in _NAMES else _TYPES[name])
    if column is None:
        return np.zeros(past - first, to)
    return column[first:past].astype(to)


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
        roots=tables["roots"]["point"],
        errors=tables["errors"]["point"],
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
