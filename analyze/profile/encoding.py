"""Encode a profile of one slot as one Parquet file; `schemas.statistics` describes the content.

A single file is written as a whole or not at all. It has one row; each relation is a column with a list of
rows, so that a reader can skip relations. Names are keyed by hashes (`analyze.profile.name_columns`); a
reader gives them numbers. Only encodings that DuckDB 1.x, polars and pandas can read are used.
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
from analyze.profile.name_columns import NameColumns, NameKeys, name_columns, name_keys, names_of
from analyze.profile.names import NO_CALLER, Recoding
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
    renumbered,
    table_of,
)
from analyze.profile.segment_sums import NO_SEGMENTS, SegmentSums, are_sound
from analyze.profile.shards import site_parts
from analyze.profile.votes import Votes, joined_votes, summed_votes
from analyze.stats.histograms import N_BINS
from ingest.codecs.parquet.pages import PageError
from schemas.arrays import B1, I8
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
_MOST_BY_ARROW: Final = 1 << 13
"""Maximum number of values of a column that Arrow reads, at 13 ns each; more are read from the pages, which
takes 50 us and 2 ns each."""
_MOST_NUMBERS: Final = 1 << 28
"""Maximum number of values in a column of a valid file; protects memory from a damaged footer."""

_TYPES: Final[dict[str, type]] = {
    field.name: field.type.to_pandas_dtype() for schema in SCHEMAS.values() for field in schema
}


class Stored(NamedTuple):
    """Profile of one slot in columns, as read from a statistics file or to be written to one."""

    names: NameColumns | None
    """Names; None if numbers of names are those of a `RunNames`, else they are rows of `names`."""
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

    def renumbered(self, codes: Recoding) -> Stored:
        """Copy without names, with numbers of a `RunNames`. codes: its numbers of the names."""
        tables = {name: renumbered(columns, codes._asdict()) for name, columns in self.tables.items()}
        votes = self.votes.renumbered(codes.site, codes.pattern).compact()
        return self._replace(names=None, votes=votes, tables=tables)

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
    # By part: a reader that puts them into shards needs no other order.
    votes = stored.votes.ordered(site_parts(stored.all_names)[stored.votes.keys[1]])
    is_total = votes.keys[0] == TOTAL_TIME
    found = {
        **_name_relations(stored.all_names, keys),
        "votes": _vote_rows("votes", votes.where(~is_total), keys),
        "totals": _vote_rows("totals", votes.where(is_total), keys),
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
    tables = {name: table_of(name, columns) for name, columns in stored.tables.items()}
    votes = summed_votes([stored.votes]).table()
    return Profile(names_of(stored.all_names), stored.slots, votes=votes, **tables, folded=stored.folded)


def stored_tables(
    data: pa.Buffer | bytes | None,
    *,
    with_account: bool = True,
    with_totals: bool = False,
    run: RunNames | None = None,
) -> Stored | None:
    """Read a file written by `encode`; None if `data` is None, damaged, or of another version.

    Every key is checked to have a name. with_account: read the relations `account` and `paths`. with_totals:
    read the votes of TOTAL_TIME. run: numbering of names; if it has all names of the file, they are not
    read, and `Stored.names` is None. O(rows), without a Python object per name.
    """
    if data is None:
        return None
    try:
        file = StatisticsFile(data)
        if file.version != version():
            return None
        votes_of = ("votes", "totals") if with_totals else ("votes",)
        named = {name: [key] for name, key in _KEY_OF.items() if with_account or name not in _ACCOUNT}
        tables = {table: name for table, name in _RELATION_OF.items() if with_account or name not in _ACCOUNT}
        read = file.numbers(
            named
            | {name: columns_of_relation(name).names for name in tables.values()}
            | dict.fromkeys(votes_of, ("site", "pattern", "filled"))
        )
        none = np.zeros(0, np.int64)
        of_names = NameKeys(**{key: read[n][key] if n in named else none for n, key in _KEY_OF.items()})
        numbers = None if run is None else run.numbers(of_names)
        keys = _keys(of_names, numbers)
        names = _names(file.relations([*named]), keys) if numbers is None else None
        columns = {table: _numbered_columns(table, read[name], keys) for table, name in tables.items()}
        parts = [_votes(file, name, read[name], keys) for name in votes_of]
        votes = joined_votes(parts) if len(parts) > 1 else parts[0]
        # In few bytes, and not in those of the file: a block holds many windows until they are added up.
        rows = file.relations(SegmentSums._fields)
        segments = SegmentSums(
            *(pa.table(rows[name].flatten(), schema=columns_of_relation(name)) for name in rows)
        )
        if not are_sound(segments, of_names.root):
            return None
        return Stored(names, of_names, (file.slot(),), votes, columns, file.folded(), segments)
    except _UNREADABLE:
        return None


_UNREADABLE: Final = (
    *(pa.ArrowException, ValueError, KeyError, TypeError, IndexError, OSError),
    *(OverflowError, RecursionError, AttributeError, PageError),
)
"""Exceptions that reading bytes that are not a valid statistics file may raise."""


def _metadata(data: pa.Buffer | bytes) -> Mapping[bytes, bytes]:
    """Metadata in the footer of a statistics file; empty for other files."""
    try:
        return pq.read_metadata(pa.BufferReader(data)).metadata or {}
    except _UNREADABLE:
        return {}


def is_of_other_version(data: pa.Buffer | bytes) -> bool:
    """True if a file holds statistics of another version; False for files that are not statistics."""
    return _metadata(data).get(META_VERSION, version().encode()) != version().encode()


def votes_kept(data: pa.Buffer | bytes) -> int:
    """Number of rows of `votes` in a statistics file, from the file's footer; 0 for files that are not
    statistics."""
    try:
        return int(json.loads(_metadata(data)[META_COUNTS])["vote"])
    except _UNREADABLE:
        return 0


class StatisticsFile:
    """Statistics file written by `encode`; relations are read on demand."""

    def __init__(self, data: pa.Buffer | bytes) -> None:
        """Read the footer. Raises one of `_UNREADABLE` if the bytes are not a statistics file."""
        self._data = pa.py_buffer(data)
        self._file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        metadata = self._file.metadata
        self._metadata = metadata.metadata or {}
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        chunks = [one.column(at) for one in groups for at in range(one.num_columns)]
        most = max((chunk.num_values for chunk in chunks), default=0)
        if metadata.num_rows != 1 or len(groups) != 1 or most > _MOST_NUMBERS:
            raise ValueError("no row of statistics")
        self._chunks = {chunk.path_in_schema: chunk for chunk in chunks}

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

    def relations(self, names: Sequence[str]) -> dict[str, pa.StructArray]:
        """Relation name -> its rows, one struct each. Raises KeyError if the file lacks a relation."""
        row = self._file.read([*names], use_threads=False)
        return {name: _array(row[name]).flatten() for name in names}

    def numbers(self, wanted: Mapping[str, Sequence[str]]) -> dict[str, dict[str, Column]]:
        """Relation name -> column name -> its numbers, for the relations and columns in `wanted`. Raises
        KeyError if the file lacks one, ValueError if a number is missing."""
        few, found = [], {name: dict[str, Column]() for name in wanted}
        for name, column in ((name, column) for name, columns in wanted.items() for column in columns):
            chunk = self._chunks[path := f"{name}.list.element.{column}"]
            if chunk.num_values <= _MOST_BY_ARROW:
                few.append(path)
            elif len(numbers := leaf_numbers(self._data, chunk)) == chunk.num_values:
                found[name][column] = numbers
            else:
                raise ValueError("a number is missing")
        rows = self._file.read(few, use_threads=False)
        for name in rows.column_names:
            of = _array(rows[name]).flatten()
            found[name] |= {field.name: _plain(of.field(field.name)) for field in of.type}
        if any(len({*map(len, columns.values())}) > 1 for columns in found.values()):
            raise ValueError("columns of one relation that are not equally long")
        return found

    def bins(self, name: str) -> dict[str, Column]:
        """Column name -> values of all its lists, end to end, for the columns of relation `name` that are
        lists of numbers. Raises KeyError or PageError if a column is not there."""
        lists = (field.name for field in columns_of_relation(name) if pa.types.is_list(field.type))
        paths = {column: f"{name}.list.element.{column}.list.element" for column in lists}
        return {column: leaf_numbers(self._data, self._chunks[path]) for column, path in paths.items()}

    def words(self, name: str, column: str) -> pa.Array:
        """Texts in a column of relation `name`."""
        row = self._file.read([f"{name}.list.element.{column}"], use_threads=False)
        return _array(row[name]).flatten().field(column)


def _array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _plain(column: pa.Array) -> Column:
    """Convert a column to a numpy array. Raises ValueError if it has nulls."""
    if column.null_count:
        raise ValueError("a number is missing")
    values: Column = column.to_numpy(zero_copy_only=False)
    return values


class _Keys(NamedTuple):
    """Numbers of the keys of one kind of name in a file."""

    table: KeyTable
    """Numbers by key; it may have keys that the file has no name for."""
    is_named: B1
    """bool[keys of the table + 1]: True if the file has a name for the key; the last is False."""

    def numbers(self, wanted: I8) -> I8:
        """int64[wanted]: number of each key. Raises ValueError for a key without a name."""
        found = self.table.find(wanted)
        if not self.is_named[found].all():
            raise ValueError("a key has no name")
        return found

    def numbers_or_none(self, wanted: pa.Array) -> I8:
        """int64[wanted]: number of each key; NO_CALLER for null. Raises ValueError as `numbers`."""
        is_there = ~wanted.is_null().to_numpy(zero_copy_only=False)
        found = np.full(len(wanted), NO_CALLER, dtype=np.int64)
        found[is_there] = self.numbers(_plain(wanted.drop_null()))
        return found


def _keys(of_names: NameKeys, known: Sequence[tuple[KeyTable, I8]] | None) -> dict[str, _Keys]:
    """Kind of name -> numbers of its keys: of the run, or row numbers. of_names: keys with a name in the
    file; known: as `RunNames.numbers` returns them.

    Raises ValueError if a key comes twice."""
    if known is None:
        known = [(KeyTable(keys), np.arange(len(keys))) for keys in of_names]
    found = {}
    for kind, (table, numbers) in zip(of_names._fields, known, strict=True):
        is_named = np.zeros(len(table.keys) + 1, np.bool_)
        is_named[numbers] = True
        if np.count_nonzero(is_named) != len(numbers):
            raise ValueError("two names of one key")
        found[kind] = _Keys(table, is_named)
    return found


def _numbered_columns(table: str, rows: Mapping[str, Column], keys: Mapping[str, _Keys]) -> dict[str, Column]:
    """Columns of table `table` of a profile, with keys replaced by numbers of names. rows: of the relation in
    the file. Raises ValueError for a key without a name, and for what is no bin or no finite number."""
    found: dict[str, Column] = {}
    for column in (*TABLES[table][0], *TABLES[table][1]):
        if column == "slot":
            values: Column = np.zeros(len(next(iter(rows.values()))))
        elif column in keys:
            values = keys[column].numbers(rows[column])
        else:
            values = _bins(rows[column]) if column == "bin" else _finite(rows[column])
        found[column] = values.astype(_TYPES[column], copy=False)
    return found


def _bins(column: Column) -> Column:
    """Return a column after a check. Raises ValueError unless its values are bins."""
    if len(column) and not 0 <= column.min() <= column.max() < N_BINS:
        raise ValueError("a number that is no bin")
    return column


def _finite(column: Column) -> Column:
    """Return a column after a check. Raises ValueError unless its values are finite."""
    if not np.isfinite(column).all():
        raise ValueError("a number that is not finite")
    return column


def _names(rows: Mapping[str, pa.StructArray], keys: Mapping[str, _Keys]) -> NameColumns:
    """Names of a file. rows: relation name -> rows; keys: kind of name -> row numbers.

    Raises ValueError or pyarrow errors for damaged data."""
    operations, sites, operation = rows["operations"], rows["sites"], keys["operation"]
    children = rows["patterns"].field("children")
    if children.null_count:
        raise ValueError("children are missing")
    child = children.flatten()
    words = ("component", "point", "callee")
    of_operation = (_texts(operations.field(word)).dictionary_encode() for word in words)
    of_site = (
        operation.numbers_or_none(sites.field("caller")),
        operation.numbers(_plain(sites.field("operation"))),
        _word_numbers(sites.field("kind"), SITE_KINDS),
    )
    of_child = (
        np.repeat(np.arange(len(children)), np.diff(children.offsets.to_numpy())),
        operation.numbers(_plain(child.field("operation"))),
        *(_plain(child.field(column)).astype(np.int64) for column in ("calls", "awaited")),
    )
    of_path: tuple[I8, I8] = (np.zeros(0, np.int64),) * 2
    if "paths" in rows:
        above, site = rows["paths"].field("above"), rows["paths"].field("site")
        of_path = keys["path"].numbers_or_none(above), keys["site"].numbers(_plain(site))
    texts = (_texts(rows[relation].field("name")) for relation in ("roots", "errors"))
    names = NameColumns.of(of_operation, of_site, of_path, len(children), of_child, texts)
    if names.calls.min(initial=1) < 1 or not (names.above < np.arange(len(names.above))).all():
        raise ValueError("a call that is made less than once, or a path before that of its caller")
    return names


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


def _votes(file: StatisticsFile, name: str, runs: Mapping[str, Column], keys: Mapping[str, _Keys]) -> Votes:
    """Votes of the relation `votes` or `totals`. runs: its columns of numbers. Raises ValueError unless every
    run has a name and bins, and every bin a count."""
    lists = file.bins(name)
    weights = [_finite(lists[weight]) for weight in ("w", "w2") if len(lists[weight])]
    if len(weights) == 1 or any(len(column) != len(lists["bins"]) for column in (lists["n"], *weights)):
        raise ValueError("votes of no bin")
    if runs["filled"].min(initial=1) < 1 or int(runs["filled"].sum()) != len(lists["bins"]):
        raise ValueError("runs of votes that are not as long as their lists")
    if lists["n"].min(initial=0) < 0:
        raise ValueError("a negative number of requests")
    site, pattern = (keys[key].numbers(runs[key]) for key in ("site", "pattern"))
    measure = np.full(len(site), TOTAL_TIME)
    if name == "votes":
        measure = _word_numbers(file.words(name, "measure"), MEASURES)
    places = (measure, site, pattern, np.zeros(len(site), np.int64))
    return Votes(places, runs["filled"], _bins(lists["bins"]), (lists["n"], *weights)).compact()
