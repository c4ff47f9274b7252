"""Encode a profile of one slot as one Parquet file; `schemas.statistics` describes the content.

A single file is written as a whole or not at all. It has one row; each relation is a column with a list of
rows, so that a reader can skip relations. Names are keyed by hashes (`analyze.profile.name_rows`); a reader
gives them numbers. Only encodings that DuckDB 1.x, polars and pandas can read are used.

Damage and other versions are found by a file's name, which has hashes of its bytes and of the version of the
program that wrote it (`stitch.lake.stats_files`). A file that another program made under such a name is
treated as absent if a row of it has no meaning.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from analyze.population import FoldedNames
from analyze.profile.leaf_numbers import CODEC, leaf_numbers
from analyze.profile.name_rows import KIND_OF, NameRows, Numbers, keys_of, name_rows
from analyze.profile.numbering import KeyTable, RunNames, names_of
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
from analyze.profile.segment_sums import NO_SEGMENTS, SegmentSums
from analyze.profile.shards import site_parts
from analyze.profile.votes import Votes, joined_votes, summed_votes
from analyze.stats.histograms import N_BINS
from ingest.codecs.parquet.pages import PageError
from schemas.statistics import MEASURES, SITE_KINDS, STATISTICS_SCHEMA, columns_of_relation, rows_of_relation
from stitch.columnar.runs import whole

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
META_FOLDED: Final = b"flowdiff.folded"

_RELATION_OF: Final = {
    "visits": "visits",
    "patterns": "pattern_visits",
    **{name: name for name in ("responses", "origins", "account")},
}
"""Table of a profile -> relation of the file; without `votes`, which are stored as lists of bins."""
_ACCOUNT: Final = ("paths", "account")
"""Relations that a reader may skip together: only `account` refers to paths."""
_NAMES_OF_SEGMENTS: Final = {"attribute_values": "value", "components": "component"}
"""Relation of names of `SegmentSums` -> its key column."""
_MOST_BY_ARROW: Final = 1 << 13
"""Maximum number of values of a column that Arrow reads, at 13 ns each; more are read from the pages, which
takes 50 us and 2 ns each."""

_TYPES: Final[dict[str, type]] = {
    field.name: field.type.to_pandas_dtype() for schema in SCHEMAS.values() for field in schema
}


class Stored(NamedTuple):
    """Profile of one slot in columns, as read from a statistics file or to be written to one."""

    names: NameRows
    """Names, whose numbers are their rows; empty if numbers of names are those of a `RunNames`."""
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

    def renumbered(self, codes: Numbers) -> Stored:
        """Copy without names, with numbers of a `RunNames`. codes: its numbers of the names."""
        tables = {name: renumbered(columns, codes) for name, columns in self.tables.items()}
        votes = self.votes.renumbered(codes["site"], codes["pattern"]).compact()
        return self._replace(names={}, votes=votes, tables=tables)

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
                META_FOLDED: json.dumps(stored.folded).encode(),
            }
        )
    return bytes(sink.getvalue())


def _row_of(rows: pa.StructArray) -> pa.ListArray:
    """Column with a single value, the list of all rows of a relation."""
    return pa.ListArray.from_arrays(pa.array([0, len(rows)], pa.int32()), rows)


def relations_of(stored: Stored) -> dict[str, pa.StructArray]:
    """Relation name -> its rows, for all relations of a statistics file."""
    keys = keys_of(stored.names)
    # By part: a reader that puts them into shards needs no other order.
    votes = stored.votes.ordered(site_parts(stored.names)[stored.votes.keys[1]])
    is_total = votes.keys[0] == TOTAL_TIME
    found = {
        **stored.names,
        "votes": _vote_rows("votes", votes.where(~is_total), keys),
        "totals": _vote_rows("totals", votes.where(is_total), keys),
        **{name: whole(rows.to_struct_array()) for name, rows in stored.segments._asdict().items()},
    }
    for table, name in _RELATION_OF.items():
        columns = stored.tables[table]
        found[name] = rows_of_relation(
            name,
            [
                keys[column][columns[column]] if column in keys else columns[column]
                for column in columns_of_relation(name).names
            ],
        )
    return found


def _vote_rows(name: str, votes: Votes, keys: Numbers) -> pa.StructArray:
    schema = columns_of_relation(name)
    measure, site, pattern, _ = votes.keys
    ends = pa.array(np.append(0, np.cumsum(votes.n_rows, dtype=np.int64)).astype(np.int32))

    def lists(column: str, values: Column | None) -> pa.Array:
        type_ = schema.field(column).type
        if values is None:
            return pa.nulls(len(site), type_)
        return pa.ListArray.from_arrays(ends, pa.array(values, type_.value_type), type=type_)

    n, *weights = votes.sums
    w, w2 = weights or (None, None)
    words = [pa.array(np.array(MEASURES)[measure], pa.string())] if "measure" in schema.names else []
    several = (lists(*of) for of in (("bins", votes.bin), ("n", n), ("w", w), ("w2", w2)))
    return rows_of_relation(
        name, [*words, keys["site"][site], keys["pattern"][pattern], votes.n_rows, *several]
    )


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
    return Stored(name_rows(profile.names), profile.slots, votes, tables, profile.folded, segments)


def profile_of_stored(stored: Stored) -> Profile:
    """Convert a profile in columns to a `Profile`."""
    tables = {name: table_of(name, columns) for name, columns in stored.tables.items()}
    votes = summed_votes([stored.votes]).table()
    return Profile(names_of(stored.names), stored.slots, votes=votes, **tables, folded=stored.folded)


def stored_tables(
    data: pa.Buffer | bytes | None,
    *,
    with_account: bool = True,
    with_totals: bool = False,
    run: RunNames | None = None,
) -> Stored | None:
    """Read a file written by `encode`; None if `data` is None or not such a file.

    with_account: read the relations `account` and `paths`. with_totals: read the votes of TOTAL_TIME. run:
    numbering of names; if it has all names of the file, they are not read, and `Stored.names` is empty.
    O(rows), without a Python object per name.
    """
    if data is None:
        return None
    votes_of = ("votes", "totals") if with_totals else ("votes",)
    skipped = () if with_account else _ACCOUNT
    kinds = {name: kind for name, kind in KIND_OF.items() if name not in skipped}
    tables = {table: name for table, name in _RELATION_OF.items() if name not in skipped}
    try:
        file = StatisticsFile(data)
        read = file.numbers(
            {name: [kind] for name, kind in kinds.items()}
            | {name: columns_of_relation(name).names for name in tables.values()}
            | dict.fromkeys(votes_of, ("site", "pattern", "filled"))
        )
        of_names = {kind: read[name][kind] for name, kind in kinds.items()}
        numbers, names = None if run is None else run.tables(of_names), dict[str, pa.StructArray]()
        if numbers is None:
            numbers = {kind: KeyTable(keys) for kind, keys in of_names.items()}
            names = file.relations([*kinds])
            _check_names(names, numbers)
        columns = {table: _numbered_columns(table, read[name], numbers) for table, name in tables.items()}
        votes = joined_votes([_votes(file, name, read[name], numbers) for name in votes_of])
        _check_rows(votes, columns)
        rows = file.relations(SegmentSums._fields)
        _check_segments(rows, of_names["root"])
        segments = SegmentSums(
            *(pa.table(rows[name].flatten(), schema=columns_of_relation(name)) for name in rows)
        )
        return Stored(names, (file.slot(),), votes, columns, file.folded(), segments)
    except _UNREADABLE:
        return None


def rows_kept(data: pa.Buffer | bytes | None, relation: str) -> pa.StructArray | None:
    """Rows of a relation in a statistics file; None if `data` is None or not such a file."""
    try:
        return None if data is None else StatisticsFile(data).relations([relation])[relation]
    except _UNREADABLE:
        return None


_UNREADABLE: Final = (
    *(pa.ArrowException, OSError, PageError, LookupError, TypeError, ValueError),
    *(ArithmeticError, AttributeError, RuntimeError),
)
"""Exceptions of reading bytes that are no statistics file."""


def _check_names(names: NameRows, numbers: Mapping[str, KeyTable]) -> None:
    """Raise ValueError if a name refers to one that the file lacks, or a path to a later one."""
    sites, child = names["sites"], names["patterns"].field("children").flatten()
    used = [
        ("operation", sites.field("caller")),
        *(("operation", of.field("operation")) for of in (sites, child)),
    ]
    if "paths" in names:
        paths = names["paths"]
        used += [("path", paths.field("above")), ("site", paths.field("site"))]
        above = numbers["path"].find_or_none(paths.field("above"))
        if (above >= np.arange(len(above))).any():
            raise ValueError("a path before that of its caller")
    if any(numbers[kind].find(keys.drop_null().to_numpy()).min(initial=0) < 0 for kind, keys in used):
        raise ValueError("a key has no name")
    if pc.index_in(sites.field("kind"), value_set=pa.array(SITE_KINDS, pa.string())).null_count:
        raise ValueError("a site of no kind")


def _check_rows(votes: Votes, tables: Mapping[str, Mapping[str, Column]]) -> None:
    """Raise ValueError for keys without a name, numbers that are no bin or not finite, and columns that are
    not equally long."""
    keys, sums, bins = [*votes.keys], [*votes.sums], [votes.bin, tables["responses"]["bin"]]
    lengths = [{int(votes.n_rows.sum(dtype=np.int64)), *map(len, (votes.bin, *sums))}]
    for table, columns in tables.items():
        keys += [columns[name] for name in TABLES[table][0]]
        sums += [columns[name] for name in TABLES[table][1]]
        lengths.append({*map(len, columns.values())})
    if any(len(several) > 1 for several in lengths) or votes.n_rows.min(initial=1) < 1:
        raise ValueError("columns that are not equally long")
    if any(key.min(initial=0) < 0 for key in keys) or any(of.max(initial=0) >= N_BINS for of in bins):
        raise ValueError("a key without a name, or a number that is no bin")
    descends = votes.bin[1:] <= votes.bin[:-1]
    descends[np.cumsum(votes.n_rows[:-1], dtype=np.int64) - 1] = False  # from one run to the next
    if descends.any():
        raise ValueError("bins of a run that do not ascend")
    if not all(np.isfinite(of).all() for of in sums if of.dtype.kind == "f"):
        raise ValueError("a sum that is not finite")


def _check_segments(rows: NameRows, roots: Column) -> None:
    """Raise ValueError for keys without a name and numbers that are not finite. rows: of the relations of
    `SegmentSums`; roots: keys of the root types."""
    known = {"root": roots}
    known |= {key: rows[name].field(key).to_numpy() for name, key in _NAMES_OF_SEGMENTS.items()}
    for name in rows.keys() - _NAMES_OF_SEGMENTS.keys():
        for field in rows[name].type:
            column = rows[name].field(field.name).to_numpy()
            if not (np.isin(column, known[field.name]) if field.name in known else np.isfinite(column)).all():
                raise ValueError("a key without a name, or a number that is not finite")


def _metadata(data: pa.Buffer | bytes) -> Mapping[bytes, bytes]:
    """Metadata in the footer of a Parquet file; empty for other files."""
    try:
        return pq.read_metadata(pa.BufferReader(data)).metadata or {}
    except _UNREADABLE:
        return {}


def is_of_other_version(data: pa.Buffer | bytes) -> bool:
    """True if a file holds statistics of another version; False for files that are not statistics."""
    return _metadata(data).get(META_VERSION, version().encode()) != version().encode()


def votes_kept(data: pa.Buffer | bytes) -> int:
    """Number of rows of `votes` in a statistics file, from the file's footer; 0 for other files."""
    try:
        return int(StatisticsFile(data).chunks["votes.list.element.bins.list.element"].num_values)
    except _UNREADABLE:
        return 0


@cache
def _schema() -> pq.ParquetSchema:
    """Parquet schema of a statistics file."""
    sink = pa.BufferOutputStream()
    pq.write_table(STATISTICS_SCHEMA.empty_table(), sink, **WRITTEN)
    return pq.read_metadata(pa.BufferReader(sink.getvalue())).schema


class StatisticsFile:
    """Statistics file written by `encode`; relations are read on demand."""

    def __init__(self, data: pa.Buffer | bytes) -> None:
        """Read the footer. Raises one of `_UNREADABLE` if the bytes are no statistics file."""
        self._data = pa.py_buffer(data)
        self._file = pq.ParquetFile(pa.BufferReader(data))
        metadata = self._file.metadata
        if metadata.schema != _schema() or (metadata.num_rows, metadata.num_row_groups) != (1, 1):
            raise ValueError("no row of statistics")
        group = metadata.row_group(0)
        chunks = map(group.column, range(group.num_columns))
        self.chunks = {chunk.path_in_schema: chunk for chunk in chunks}

    def slot(self) -> Slot:
        """Slot of time that the statistics cover."""
        (bounds,) = self._file.read(["start_ns", "end_ns"], use_threads=False).to_pylist()
        watched = json.loads(self._file.metadata.metadata[META_WATCHED])
        return Slot(0, bounds["start_ns"], bounds["end_ns"], tuple(_watched(*row) for row in watched))

    def folded(self) -> tuple[FoldedNames, ...]:
        """Components whose names contain ids that were replaced by `#`."""
        folds = json.loads(self._file.metadata.metadata[META_FOLDED])
        return tuple(
            FoldedNames(component, level, left, (before, after))
            for component, level, left, (before, after) in folds
        )

    def relations(self, names: Iterable[str]) -> dict[str, pa.StructArray]:
        """Relation name -> its rows, one struct each."""
        row = self._file.read([*names], use_threads=False)
        row.validate(full=True)  # of texts, too: Arrow reads what is not UTF-8
        return {name: whole(row[name]).flatten() for name in names}

    def numbers(self, wanted: Mapping[str, Sequence[str]]) -> dict[str, dict[str, Column]]:
        """Relation name -> column name -> its numbers, for the relations and columns in `wanted`."""
        few, found = [], {name: dict[str, Column]() for name in wanted}
        for name, column in ((name, column) for name, columns in wanted.items() for column in columns):
            chunk = self.chunks[path := f"{name}.list.element.{column}"]
            if chunk.num_values <= _MOST_BY_ARROW:
                few.append(path)
            else:
                found[name][column] = leaf_numbers(self._data, chunk)
        rows = self._file.read(few, use_threads=False)
        for name in rows.column_names:
            of = whole(rows[name]).flatten()
            found[name] |= {field.name: of.field(field.name).to_numpy() for field in of.type}
        return found

    def bins(self, name: str) -> dict[str, Column]:
        """Column name -> values of all its lists, end to end, for the columns of relation `name` that are
        lists of numbers."""
        lists = (field.name for field in columns_of_relation(name) if pa.types.is_list(field.type))
        paths = {column: f"{name}.list.element.{column}.list.element" for column in lists}
        return {column: leaf_numbers(self._data, self.chunks[path]) for column, path in paths.items()}

    def words(self, name: str, column: str) -> pa.Array:
        """Texts in a column of relation `name`."""
        row = self._file.read([f"{name}.list.element.{column}"], use_threads=False)
        return whole(row[name]).flatten().field(column)


def _numbered_columns(
    table: str, rows: Mapping[str, Column], keys: Mapping[str, KeyTable]
) -> dict[str, Column]:
    """Columns of table `table` of a profile, with keys replaced by numbers of names. rows: of the relation in
    the file."""
    found: dict[str, Column] = {"slot": np.zeros(len(next(iter(rows.values()), ())))}
    found |= {name: keys[name].find(column) if name in keys else column for name, column in rows.items()}
    return {
        name: found[name].astype(_TYPES[name], copy=False) for name in (*TABLES[table][0], *TABLES[table][1])
    }


def _votes(
    file: StatisticsFile, name: str, runs: Mapping[str, Column], keys: Mapping[str, KeyTable]
) -> Votes:
    """Votes of the relation `votes` or `totals`. runs: its columns of numbers."""
    lists = file.bins(name)
    if lists["n"].min(initial=0) < 0:
        raise ValueError("a negative number of requests")
    sums = tuple(lists[column] for column in ("n", "w", "w2") if len(lists[column]))
    site, pattern = (keys[key].find(runs[key]) for key in ("site", "pattern"))
    measure = np.full(len(site), TOTAL_TIME)
    if name == "votes":
        words = pa.array(MEASURES, pa.string())
        measure = pc.index_in(file.words(name, "measure"), value_set=words).to_numpy()
    places = (measure, site, pattern, np.zeros(len(site), np.int64))
    # In few bytes, and not in those of the file: a block holds many windows until they are added up.
    return Votes(places, runs["filled"], lists["bins"], sums or (lists["n"],)).compact()
