"""Encode a profile of one slot as one Parquet file; `schemas.statistics` describes the content.

A single file is written as a whole or not at all. It has one row; each relation is a column with a list of
rows, so that a reader can skip relations. Names are keyed by hashes (`analyze.profile.name_keys`); a reader
numbers them in row order. Only encodings that DuckDB 1.x, polars and pandas can read are used.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from analyze.population import FoldedNames
from analyze.profile.leaf_numbers import CODEC, leaf_numbers
from analyze.profile.name_columns import NameColumns, name_columns, names_of
from analyze.profile.name_keys import NameKeys, name_keys
from analyze.profile.names import NO_CALLER
from analyze.profile.numbering import KeyTable, RunNames
from analyze.profile.profile import (
    PROFILE_VERSION,
    SCHEMAS,
    TABLES,
    TOTAL_TIME,
    Column,
    Profile,
    Slot,
    Watched,
    columns_of,
)
from analyze.profile.segment_sums import NO_SEGMENTS, SegmentSums, are_sound
from analyze.profile.votes import Votes, joined_votes, summed_votes
from analyze.stats.histograms import N_BINS
from ingest.codecs.parquet.pages import PageError
from schemas.arrays import I8
from schemas.statistics import MEASURES, SITE_KINDS, STATISTICS_SCHEMA, columns_of_relation

STORED_VERSION: Final = 11
"""Version of the file format of stored profiles."""
WRITTEN: Final[dict[str, Any]] = {
    "compression": CODEC,
    "compression_level": 7,  # counts are an eighth smaller than by 3, and read in two thirds of the time
    "use_dictionary": False,  # two pages a column, where zstd finds what comes again
    "data_page_version": "1.0",
    "write_statistics": False,
    "write_page_checksum": True,
    "store_schema": False,
}
"""Options of pyarrow's writer of a statistics file; `leaf_numbers` reads pages that are written so."""
META_VERSION: Final = b"flowdiff.profile_version"
META_WATCHED: Final = b"flowdiff.watched"
META_COUNTS: Final = b"flowdiff.counts"
META_FOLDED: Final = b"flowdiff.folded"

_RELATION_OF: Final = {
    "visits": "visits",
    "patterns": "pattern_visits",
    **{name: name for name in ("responses", "origins", "account")},
}
"""Table of a profile -> relation of the file; without `votes`, which are stored as lists of bins."""
_KEY_OF: Final = {
    "operations": "operation",
    "sites": "site",
    "patterns": "pattern",
    "paths": "path",
    "roots": "root",
    "errors": "error",
}
"""Relation of names -> its key column."""
_ACCOUNT: Final = ("paths", "account")
"""Relations that a reader may skip together: only `account` refers to paths."""
_MOST_NUMBERS: Final = 1 << 28
"""Maximum number of values in a column of a valid file; protects memory from a damaged footer."""

_TYPES: Final[dict[str, type]] = {
    field.name: field.type.to_pandas_dtype() for schema in SCHEMAS.values() for field in schema
}


class Stored(NamedTuple):
    """Profile of one slot in columns, as read from a statistics file or to be written to one."""

    names: NameColumns | None
    """Names; None if the `RunNames` for which the file was read has all of them."""
    keys: NameKeys
    """Keys of the names."""
    slots: tuple[Slot, ...]
    """The slot; exactly one."""
    votes: Votes
    tables: Mapping[str, Mapping[str, Column]]
    """Table (all but `votes`) -> column name -> [rows], integers for key columns, else float64."""
    folded: tuple[FoldedNames, ...]
    """Components whose names contain ids that were replaced by `#`; profiles that are joined with this one
    must be folded in the same way, see `analyze.profile.folded_names`."""
    segments: SegmentSums = NO_SEGMENTS
    """Numbers of requests by attribute value."""

    @property
    def all_names(self) -> NameColumns:
        """The names. Raises ValueError if they were not read."""
        if self.names is None:
            raise ValueError("the names of these statistics were not read")
        return self.names

    def without_totals(self) -> Stored:
        """Copy without the votes of TOTAL_TIME, which no test uses."""
        return self._replace(votes=self.votes.where(self.votes.keys[0] != TOTAL_TIME))


def version() -> str:
    """Version of stored profiles, `semantics.format`; files of other versions are not read."""
    return f"{PROFILE_VERSION}.{STORED_VERSION}"


def encode(profile: Profile) -> bytes:
    """Parquet file with a profile of one slot; equal profiles give equal bytes. O(rows)."""
    return encode_stored(stored_of(profile))


def encode_stored(stored: Stored) -> bytes:
    """Parquet file with a profile in columns; see `encode`."""
    (slot,) = stored.slots
    columns = {"start_ns": pa.array([slot.start_ns]), "end_ns": pa.array([slot.end_ns])}
    columns |= {name: _row_of(rows) for name, rows in relations_of(stored).items()}
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, STATISTICS_SCHEMA, **WRITTEN) as writer:
        writer.write_table(
            pa.table([columns[name] for name in STATISTICS_SCHEMA.names], schema=STATISTICS_SCHEMA)
        )
        writer.add_key_value_metadata(
            {
                META_VERSION: version().encode(),
                META_WATCHED: json.dumps([*map(_from_start, slot.watched)]).encode(),
                META_COUNTS: json.dumps({"vote": len(stored.votes.bin)}).encode(),
                META_FOLDED: json.dumps(stored.folded).encode(),
            }
        )
    return bytes(sink.getvalue())


def _row_of(rows: pa.StructArray) -> pa.ListArray:
    """Column with a single value, the list of all rows of a relation."""
    return pa.ListArray.from_arrays(pa.array([0, len(rows)], pa.int32()), rows)


def relations_of(stored: Stored) -> dict[str, pa.StructArray]:
    """Relation name -> its rows, for all relations of a statistics file."""
    keys = stored.keys
    is_total = stored.votes.keys[0] == TOTAL_TIME
    found = {
        **_name_relations(stored.all_names, keys),
        "votes": _vote_rows("votes", stored.votes.where(~is_total), keys),
        "totals": _vote_rows("totals", stored.votes.where(is_total), keys),
        **{
            name: _relation(name, [_array(column) for column in rows.columns])
            for name, rows in stored.segments._asdict().items()
        },
    }
    for table, name in _RELATION_OF.items():
        columns = stored.tables[table]
        found[name] = _relation(
            name,
            [
                getattr(keys, column)[columns[column]] if column in keys._fields else columns[column]
                for column in columns_of_relation(name).names
            ],
        )
    return found


def _relation(name: str, columns: Sequence[Any]) -> pa.StructArray:
    schema = columns_of_relation(name)
    arrays = [
        column if isinstance(column, pa.Array) else pa.array(column, field.type)
        for column, field in zip(columns, schema, strict=True)
    ]
    return pa.StructArray.from_arrays(arrays, fields=[*schema])


def _list_like(field: pa.Field, ends: pa.Array, values: pa.Array) -> pa.ListArray:
    return pa.ListArray.from_arrays(ends, values, type=field.type)


def _name_relations(names: NameColumns, keys: NameKeys) -> dict[str, pa.StructArray]:
    children = columns_of_relation("patterns").field("children")
    parts = (keys.operation[names.child], names.calls.astype(np.int32), names.awaited.astype(np.bool_))
    child = pa.StructArray.from_arrays([*map(pa.array, parts)], fields=[*children.type.value_type])
    ends = np.searchsorted(names.pattern, np.arange(names.n_patterns + 1)).astype(np.int32)
    of_operation = (words.cast(pa.string()) for words in (names.component, names.point, names.callee))
    kinds = np.array(SITE_KINDS)[names.kind]
    columns: dict[str, Sequence[Any]] = {
        "operations": (keys.operation, *of_operation),
        "sites": (
            keys.site,
            _or_null(keys.operation, names.caller),
            keys.operation[names.operation],
            pa.array(kinds, pa.string()),
        ),
        "patterns": (keys.pattern, _list_like(children, pa.array(ends), child)),
        "paths": (keys.path, _or_null(keys.path, names.above), keys.site[names.path_site]),
        "roots": (keys.root, names.roots),
        "errors": (keys.error, names.errors),
    }
    return {name: _relation(name, several) for name, several in columns.items()}


def _or_null(keys: I8, number: I8) -> pa.Array:
    """int64 array: `keys[number]`, null where `number` is NO_CALLER."""
    return pa.array(np.append(keys, 0)[number], mask=number == NO_CALLER)


def _vote_rows(name: str, votes: Votes, keys: NameKeys) -> pa.StructArray:
    schema = columns_of_relation(name)
    measure, site, pattern, _ = votes.keys
    ends = pa.array(np.append(0, np.cumsum(votes.n_rows, dtype=np.int64)).astype(np.int32))
    number, *weights = votes.sums
    lists = [
        pa.array(votes.n_rows.astype(np.int32)),
        _list_like(schema.field("bins"), ends, pa.array(votes.bin.astype(np.int16))),
        _list_like(schema.field("n"), ends, pa.array(number.astype(np.int32))),
    ]
    for column, of in zip(("w", "w2"), weights or (None, None), strict=True):
        field = schema.field(column)
        lists.append(
            pa.nulls(len(measure), field.type)
            if of is None
            else _list_like(field, ends, pa.array(of.astype(np.float64)))
        )
    words = [pa.array(np.array(MEASURES)[measure], pa.string())] if "measure" in schema.names else []
    return _relation(name, [*words, keys.site[site], keys.pattern[pattern], *lists])


def _from_start(one: Watched) -> tuple[float, ...]:
    """JSON row of a watched interval: (start, Unix ns; length, ns; number of requests; sum of their weights;
    starts of the first and the last request, ns after the interval's start)."""
    start = one.start_ns
    return start, one.end_ns - start, one.n, one.w, one.first_ns - start, one.last_ns - start


def _watched(start: int, length: int, n: float, w: float, first: int, last: int) -> Watched:
    """Watched interval from the values of a JSON row, the inverse of `_from_start`."""
    at = int(start)
    return Watched(at, at + int(length), float(n), float(w), at + int(first), at + int(last))


def stored_of(profile: Profile, segments: SegmentSums = NO_SEGMENTS) -> Stored:
    """Profile of one slot in columns, with numbers of requests by attribute value."""
    tables = {name: columns_of(table) for name, table in profile.tables().items()}
    votes = Votes.of(tables.pop("votes"))
    names = name_columns(profile.names)
    return Stored(names, name_keys(names), profile.slots, votes, tables, profile.folded, segments)


def profile_of_stored(stored: Stored) -> Profile:
    """Convert a profile in columns to a `Profile`."""
    tables = {
        name: pa.table([pa.array(columns[key]) for key in SCHEMAS[name].names], schema=SCHEMAS[name])
        for name, columns in stored.tables.items()
    }
    votes = summed_votes([stored.votes]).table()
    return Profile(names_of(stored.all_names), stored.slots, votes=votes, **tables, folded=stored.folded)


def stored_tables(
    data: pa.Buffer | bytes | None,
    *,
    with_account: bool = True,
    with_totals: bool = False,
    known: RunNames | None = None,
) -> Stored | None:
    """Read a file written by `encode`; None if `data` is None, damaged, or of another version.

    Every key is checked to have a name. with_account: read the relations `account` and `paths`. with_totals:
    read the votes of TOTAL_TIME. known: numbering of names; if it has all names of the file, they are not
    read, and `Stored.names` is None. O(rows), without a Python object per name.
    """
    if data is None:
        return None
    try:
        file = StatisticsFile(data)
        if file.version != version():
            return None
        votes_of = ("votes", "totals") if with_totals else ("votes",)
        wanted = [*_KEY_OF, *_RELATION_OF.values(), *SegmentSums._fields]
        wanted = [name for name in wanted if with_account or name not in _ACCOUNT]
        rows = file.relations([name for name in wanted if name not in _KEY_OF])
        keys = _named_keys(file.columns([(name, _KEY_OF[name]) for name in wanted if name in _KEY_OF]))
        of_names = NameKeys(*(of.keys for of in keys))
        names = None
        if known is None or not known.holds(of_names):
            names = _names(file.relations([name for name in wanted if name in _KEY_OF]), keys)
        tables = {
            table: _numbered_columns(table, rows.get(name), keys) for table, name in _RELATION_OF.items()
        }
        parts = [_votes(file, name, keys) for name in votes_of]
        votes = joined_votes(parts) if len(parts) > 1 else parts[0]
        # In few bytes, and not in those of the file: a block holds many windows until they are added up.
        segments = SegmentSums(
            *(pa.table(rows[name], schema=columns_of_relation(name)) for name in SegmentSums._fields)
        )
        stored = Stored(names, of_names, (file.slot(),), votes, tables, file.folded(), segments)
        if not _is_sound(stored) or not are_sound(segments, keys.root.keys):
            return None
        return stored._replace(votes=votes.compact())  # only now: in two bytes, any number is a bin
    except _UNREADABLE:
        return None


_UNREADABLE: Final = (
    *(pa.ArrowException, ValueError, KeyError, TypeError, IndexError, OSError),
    *(OverflowError, RecursionError, AttributeError, PageError),
)
"""Exceptions that reading bytes that are not a valid statistics file may raise."""


def is_of_other_version(data: pa.Buffer | bytes) -> bool:
    """True if a file holds statistics of another version; False for files that are not statistics."""
    try:
        metadata = pq.read_metadata(pa.BufferReader(data)).metadata or {}
        return bool(metadata.get(META_VERSION, version().encode()) != version().encode())
    except _UNREADABLE:
        return False


def votes_kept(data: pa.Buffer | bytes) -> int:
    """Number of rows of `votes` in a statistics file, from the file's footer; 0 for files that are not
    statistics."""
    try:
        metadata = pq.read_metadata(pa.BufferReader(data)).metadata or {}
        return int(json.loads(metadata[META_COUNTS])["vote"])
    except _UNREADABLE:
        return 0


Rows = Mapping[str, pa.Array]
"""Rows of one relation: column name -> array."""


class StatisticsFile:
    """Statistics file written by `encode`; relations are read on demand."""

    def __init__(self, data: pa.Buffer | bytes) -> None:
        """Read the footer. Raises one of `_UNREADABLE` if the bytes are not a statistics file."""
        self._data = pa.py_buffer(data)
        self._file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        metadata = self._file.metadata
        self._metadata = metadata.metadata or {}
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        most = max((one.column(at).num_values for one in groups for at in range(one.num_columns)), default=0)
        if metadata.num_rows != 1 or most > _MOST_NUMBERS:
            raise ValueError("no row of statistics")
        (group,) = groups
        columns = map(group.column, range(group.num_columns))
        self._chunks = {column.path_in_schema: column for column in columns}

    @staticmethod
    def of(data: pa.Buffer | bytes) -> StatisticsFile | None:
        """Open a file from its bytes; None if they are not a statistics file."""
        try:
            return StatisticsFile(data)
        except _UNREADABLE:
            return None

    @property
    def version(self) -> str:
        """Version of the stored profile, see `version()`; empty if the file has none."""
        return str(self._metadata.get(META_VERSION, b""), "utf-8")

    def slot(self) -> Slot:
        """Slot of time that the statistics cover."""
        rows = self._file.read(["start_ns", "end_ns"], use_threads=False)
        start, end = (int(rows[name][0].as_py()) for name in ("start_ns", "end_ns"))
        return Slot(0, start, end, tuple(_watched(*row) for row in json.loads(self._metadata[META_WATCHED])))

    def folded(self) -> tuple[FoldedNames, ...]:
        """Components whose names contain ids that were replaced by `#`."""
        return tuple(
            FoldedNames(component, int(level), int(left), (str(a), str(b)))
            for component, level, left, (a, b) in json.loads(self._metadata[META_FOLDED])
            if component is None or isinstance(component, str)
        )

    def relations(self, names: Sequence[str]) -> dict[str, Rows]:
        """Relation name -> its rows, for each of `names`. Raises KeyError if the file lacks a relation."""
        row = self._file.read([*names], use_threads=False)
        found: dict[str, Rows] = {}
        for name in names:
            rows = _array(row[name]).flatten()
            found[name] = {field.name: rows.field(field.name) for field in columns_of_relation(name)}
        return found

    def columns(self, wanted: Sequence[tuple[str, str]]) -> Mapping[str, Rows]:
        """Relation name -> some of its columns, for (relation name, column name) in `wanted`. Raises KeyError
        if the file lacks one."""
        row = self._file.read([f"{name}.list.element.{column}" for name, column in wanted], use_threads=False)
        rows = {name: _array(row[name]).flatten() for name in row.column_names}
        found: dict[str, dict[str, pa.Array]] = {}
        for name, column in wanted:
            found.setdefault(name, {})[column] = rows[name].field(column)
        return found

    def bins(self, name: str) -> dict[str, Column]:
        """Column name -> values of all its lists, end to end, for the columns of relation `name` that are
        lists of numbers. Raises KeyError or PageError if a column is not there."""
        lists = (field.name for field in columns_of_relation(name) if pa.types.is_list(field.type))
        paths = {column: f"{name}.list.element.{column}.list.element" for column in lists}
        return {column: leaf_numbers(self._data, self._chunks[path]) for column, path in paths.items()}

    def relation(self, name: str) -> pa.StructArray:
        """Rows of the relation called `name`, one struct each."""
        rows: pa.StructArray = _array(self._file.read([name], use_threads=False)[name]).flatten()
        return rows


def _array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _plain(column: pa.Array) -> Column:
    """Convert a column to a numpy array. Raises ValueError if it has nulls."""
    if column.null_count:
        raise ValueError("a number is missing")
    values: Column = column.to_numpy(zero_copy_only=False)
    return values


class _Keys(KeyTable):
    """Mapping from the keys of one kind of name to row numbers."""

    def numbers(self, wanted: I8) -> I8:
        """int64[wanted]: row number of each key. Raises ValueError for an unknown key."""
        found = self.find(wanted)
        if found.min(initial=0) < 0:
            raise ValueError("a key has no name")
        return found

    def numbers_or_none(self, wanted: pa.Array) -> I8:
        """int64[wanted]: row number of each key; NO_CALLER for null. Raises ValueError for an unknown key."""
        is_there = ~wanted.is_null().to_numpy(zero_copy_only=False)
        found = np.full(len(wanted), NO_CALLER, dtype=np.int64)
        found[is_there] = self.numbers(_plain(wanted.drop_null()))
        return found


class _NamedKeys(NamedTuple):
    """Mapping from keys to row numbers for each kind of name (see `NameKeys`)."""

    operation: _Keys
    site: _Keys
    pattern: _Keys
    path: _Keys
    root: _Keys
    error: _Keys


def _numbered_columns(table: str, rows: Rows | None, keys: _NamedKeys) -> dict[str, Column]:
    """Columns of table `table` of a profile, with keys replaced by numbers of names. rows: of the relation in
    the file; None: the columns are empty."""
    found: dict[str, Column] = {}
    for column in (*TABLES[table][0], *TABLES[table][1]):
        if rows is None:
            values = np.zeros(0)
        elif column == "slot":
            values = np.zeros(len(next(iter(rows.values()))))
        else:
            values = _plain(rows[column])
            values = getattr(keys, column).numbers(values) if column in keys._fields else values
        found[column] = values.astype(_TYPES[column], copy=False)
    return found


def _named_keys(rows: Mapping[str, Rows]) -> _NamedKeys:
    """Mappings from the keys in a file to numbers of names. rows: relation name -> rows; absent: no names."""
    none = np.zeros(0, np.int64)
    return _NamedKeys(
        **{key: _Keys(_plain(rows[name][key]) if name in rows else none) for name, key in _KEY_OF.items()}
    )


def _names(rows: Mapping[str, Rows], keys: _NamedKeys) -> NameColumns:
    """Names of a file. rows: relation name -> rows; keys: their keys.

    Raises ValueError or pyarrow errors for damaged data."""
    none = np.zeros(0, np.int64)
    operations, sites = rows["operations"], rows["sites"]
    paths = rows.get("paths", {"above": pa.array(none), "site": pa.array(none)})
    children = rows["patterns"]["children"]
    if children.null_count:
        raise ValueError("children are missing")
    child = children.flatten()
    return NameColumns(
        component=_texts(operations["component"]).dictionary_encode(),
        point=_texts(operations["point"]).dictionary_encode(),
        callee=_texts(operations["callee"]).dictionary_encode(),
        caller=keys.operation.numbers_or_none(sites["caller"]),
        operation=keys.operation.numbers(_plain(sites["operation"])),
        kind=_word_numbers(sites["kind"], SITE_KINDS),
        above=keys.path.numbers_or_none(paths["above"]),
        path_site=keys.site.numbers(_plain(paths["site"])),
        n_patterns=len(keys.pattern.keys),
        pattern=np.repeat(np.arange(len(keys.pattern.keys)), np.diff(children.offsets.to_numpy())),
        child=keys.operation.numbers(_plain(child.field("operation"))),
        calls=_plain(child.field("calls")).astype(np.int64),
        awaited=_plain(child.field("awaited")).astype(np.int64),
        roots=_texts(rows["roots"]["name"]),
        errors=_texts(rows["errors"]["name"]),
    )


def _texts(words: pa.Array) -> pa.StringArray:
    """Return a text column after a check. Raises ValueError if it has nulls, ArrowInvalid if not UTF-8."""
    words.validate(full=True)
    if words.null_count:
        raise ValueError("a word is missing")
    return words


def _word_numbers(words: pa.Array, known: Sequence[str]) -> I8:
    """int64[words]: index into `known` of each word. Raises ValueError for a word that is not in `known`."""
    found: I8 = _plain(pc.index_in(words, value_set=pa.array(known, pa.string()))).astype(np.int64)
    return found


def _votes(file: StatisticsFile, name: str, keys: _NamedKeys) -> Votes:
    """Votes of the relation `votes` or `totals`. Raises ValueError unless every bin has a valid count."""
    words = ("measure",) if name == "votes" else ()
    runs = file.columns([(name, column) for column in (*words, "site", "pattern", "filled")])[name]
    lists = file.bins(name)
    weights = [lists[weight] for weight in ("w", "w2") if len(lists[weight])]
    if len(weights) == 1 or any(len(column) != len(lists["bins"]) for column in (lists["n"], *weights)):
        raise ValueError("votes of no bin")
    if lists["n"].min(initial=0) < 0:
        raise ValueError("a negative number of requests")
    site, pattern = (getattr(keys, key).numbers(_plain(runs[key])) for key in ("site", "pattern"))
    measure = _word_numbers(runs["measure"], MEASURES) if words else np.full(len(site), TOTAL_TIME)
    places = (measure, site, pattern, np.zeros(len(site), np.int64))
    return Votes(places, _plain(runs["filled"]), lists["bins"], (lists["n"], *weights))


def _is_sound(stored: Stored) -> bool:
    """True if every number refers to an existing name, slot or bin, sums are finite, and the lengths of the
    runs of votes add up to the number of votes."""
    many = stored.keys.many | {"slot": len(stored.slots), "bin": N_BINS}
    votes = stored.votes
    runs = dict(zip(("measure", "site", "pattern", "slot"), votes.keys, strict=True))
    rows = {"bin": votes.bin, **{str(at): column for at, column in enumerate(votes.sums)}}
    return (
        (stored.names is None or stored.names.are_sound())
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
