"""Open a read-only DuckDB session on a period of a lake: the views of `analyze.sql.catalog` over its files.

Locked down before any user text runs: no other files, no network, no extensions, no change of settings, and
only statements that read. The files are listed, never globbed, so that a concurrent import is not seen half.
Users' own files and tables are read beforehand, so the session gets rows instead of paths.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import cached_property, partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import duckdb
import numpy as np
import pyarrow as pa
from duckdb.func import PythonUDFType

from analyze.scope import LakePeriod, UnlistedPeriod
from analyze.sql.asked_comparison import Comparing
from analyze.sql.catalog import VIEWS, relation
from analyze.sql.comparisons import COMPARING, Comparisons, with_named_where
from analyze.sql.connection import locked_connection, run_interruptible, silent_connection, unreadable_file
from analyze.sql.request_versions import RequestVersions
from analyze.sql.span_times import RETURNS, SpanTimes
from analyze.sql.stored_tables import LISTED, OF_WINDOWS, STATISTICS, WATCHED, behind, tables_behind
from analyze.sql.touched_windows import touched_windows
from analyze.verify import verify
from schemas.arrays import B1
from schemas.errors import ConfigError, FlowdiffError, InputError, LakeError, QueryError
from schemas.quality import Quality
from stitch.lake.encoding import still_at

if TYPE_CHECKING:
    from analyze.profile.window_statistics import WindowStatistics

_Result = TypeVar("_Result")
Values = Sequence[object] | Mapping[str, object]
"""Values to bind: a sequence for each `?` in order, or a mapping for `:name` and `$name`."""

# What stands in quotes or comments is passed over, and so is a cast.
_PARTS: Final = re.compile(
    r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/|::|:(?P<name>[A-Za-z_]\w*)", re.DOTALL
)

_QUALITY_NAMES: Final = (
    "CREATE MACRO quality_names(mask) AS"
    " (SELECT list(name ORDER BY bit) FROM _quality_flags WHERE (mask & bit) <> 0)"
)

# DuckDB adds floating numbers in the order in which its threads get to them, so the last digits differ from
# run to run. Whole multiples of 2^-40 add up to the same in every order; 10^8 values of at most 9 * 10^17
# fit into 127 bits.
_STEADY_SUM: Final = (
    "CREATE MACRO steady_sum(x) AS sum(least(x * 1099511627776, 1e30)::HUGEINT)::DOUBLE / 1099511627776"
)

# The value of a histogram up to which `q` hundredths of the weight lie, by linear interpolation on the axis
# of its bins, 32 an octave; rows have a bin, its weight, that up to its end, and the whole. Weights are
# integers.
_BIN_QUANTILE: Final = (
    "CREATE MACRO _bin_quantile(q, bin, w, up_to, total) AS"
    " min(CASE WHEN 100 * up_to >= q * total THEN 2 ** ((bin + greatest(0, least(1,"
    " (q * total - 100 * (up_to - w))::DOUBLE / (100 * w)::DOUBLE))) / 32) END)"
)

_KEPT_TABLES: Final = (
    "SELECT table_name, temporary FROM duckdb_tables()"
    " WHERE NOT internal AND (temporary OR starts_with(table_name, '_rows_of_'))"
)
"""Query for the tables that a reconnect copies to the new connection: users' temporary tables, and tables
read by Arrow."""

BATCH_ROWS: Final = 65_536
"""Number of rows per batch of a streamed result."""

_UNKNOWN_TABLE: Final = re.compile(r"Table with name (?P<name>.+?) does not exist!")
_WRONG_CALL: Final = re.compile(rf"Macro (?P<name>{'|'.join(COMPARING)})\(\) does not support")
_TEMPORARY: Final = re.compile(
    r"\s*create\s+(?:or\s+replace\s+)?temp(?:orary)?\s+table\s+[a-z]\w*\s+as\s+(?:select|from|with)\b",
    re.IGNORECASE,
)
_RELATIONS: Final = dict.fromkeys([*(f"_{table}" for table in LISTED), *VIEWS])
"""Names of the relations that a statement may use, in order of creation."""
_WORD: Final = re.compile(r"\w+")
_CATALOG: Final = re.compile(
    r"show|describe|summarize|query|query_table|information_schema|(?:duckdb|pg|sqlite)_\w+"
)
"""Words with which a statement may list relations, or build a relation's name from strings: then all views
are created.
"""
_SHOW_TABLES: Final = re.compile(r"\s*show\s+tables\s*", re.IGNORECASE)
_TABLES: Final = "SELECT name FROM (SHOW TABLES) WHERE name[1] <> '_' ORDER BY name"
"""Query for the relations that users read: views, attached tables, temporary tables."""
_EXPLAIN: Final = re.compile(r"\s*explain(?:\s+analyze)?\s+(?P<query>.*)", re.IGNORECASE | re.DOTALL)

_REPORT_TABLES: Final = {
    "findings": "findings",
    "evidence": "evidence",
    "account": "account",
    "suspects": "suspects",
    "kinds": "kinds",
    "mutations": "mutations",
    "report_requests": "requests",
}
"""Table over all reports -> file name, without suffix, in each report's folder."""


class Session:
    """Queries on one snapshot of a lake. Make one with `open_session`."""

    def __init__(
        self,
        found: LakePeriod | UnlistedPeriod,
        memory: str,
        threads: int,
        attached: Mapping[str, pa.Table],
        comparing: Comparing | None,
    ) -> None:
        self._unlisted = found if isinstance(found, UnlistedPeriod) else None
        self._bounds = found.found if isinstance(found, UnlistedPeriod) else found
        n_windows = 0 if self._unlisted is None else len(self._unlisted.starts_ns)
        self._is_listed = np.zeros(n_windows, dtype=np.bool_)
        """[windows] true for windows that a statement touched, whose files are listed."""
        self._files = self._files_of_listed({})
        self._memory = memory
        self._threads = threads
        self._attached = attached
        self._span_times = SpanTimes()
        self._comparisons = None if comparing is None else Comparisons(comparing)
        self._compares = False
        """True once the SQL functions `compare` and `breakdown` are registered; deferred, as it takes a tenth
        of the time to open a session."""
        self._unread = {*LISTED}
        self._made: set[str] = set()
        """Names of the views created so far, `_<table>` included."""
        self._bound: dict[str, list[Path]] = {}
        """Name of a table -> paths of its files when they were bound (made readable); the connection may open
        no other files."""
        self._raised: FlowdiffError | None = None
        """Error that one of this package's functions raised while a statement ran; None: none was raised."""
        self._opened = ExitStack()
        self._connection = self._connected()

    def _files_of_listed(self, known: Mapping[str, list[Path]]) -> _Files:
        """Files of the listed windows. known: table -> files, of tables that are of no window."""
        if self._unlisted is None:
            return _Files(lambda: self._bounds, known)
        listed, starts_ns = self._unlisted.listed, self._unlisted.starts_ns[self._is_listed]
        return _Files(lambda: listed(starts_ns), known)

    def close(self) -> None:
        """Close the connection; results can no longer be read."""
        self._opened.close()

    def query(self, text: str, values: Values = ()) -> pa.Table:
        """Run one reading statement, with `?` or `:name` bound to `values`; returns an Arrow table.

        Statements `CREATE TEMP TABLE … AS SELECT …;` may precede it; their tables remain in the session.
        Raises QueryError for a syntax error, an unknown name, several statements, or one that writes;
        LakeError if a file of the lake cannot be read.
        """
        return self.stream(text, values).read_all()

    def stream(self, text: str, values: Values = ()) -> pa.RecordBatchReader:
        """Like `query`, but batch by batch, so that memory stays bounded for large results.

        Errors during execution are raised by the reader, as instances of the same classes.
        """
        text = with_named_where(text)
        if isinstance(values, Mapping):
            text = bound_names(text, values)
        try:
            *before, text = _readable_statements(self._connection, text)
            self._make_views_of(";".join([*before, text]))
            for made in before:
                self._read_files_of(made, ())
                self._run(partial(self._connection.execute, made))
            if isinstance(values, Mapping):
                values = _used(self._connection, values, text)
            self._read_files_of(text, values)
            reader = self._begun(text, values)
        except duckdb.Error as error:
            if not self._moved():
                raise self._failure(error) from error
            reader = self._begun(text, values)
        again = partial(self._begun, text, values)
        return pa.RecordBatchReader.from_batches(reader.schema, self._batches(reader, again))

    def _begun(self, text: str, values: Values) -> pa.RecordBatchReader:
        bound = _bindable(values)
        return self._run(lambda: self._connection.sql(text, params=bound).to_arrow_reader(BATCH_ROWS))

    def _run(self, work: Callable[[], _Result]) -> _Result:
        return run_interruptible(work, self._connection.interrupt)

    def _batches(
        self,
        reader: pa.RecordBatchReader,
        again: Callable[[], pa.RecordBatchReader],
    ) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a result. DuckDB's own errors arrive as OSError through Arrow's C interface.

        DuckDB opens files lazily. If upkeep has moved one aside meanwhile, `again` restarts the query,
        provided that no batch was yielded yet.
        """
        is_given = False
        while True:
            try:
                batch = self._run(lambda reader=reader: next(reader, None))  # type: ignore[misc]
            except (OSError, duckdb.Error) as error:
                if is_given or not self._moved():
                    raise self._failure(error) from error
                reader = again()
                continue
            if batch is None:
                return
            is_given = True
            yield batch

    def _moved(self) -> bool:
        """Reconnect if upkeep has moved files that DuckDB reads; return True if it has."""
        now = {table: self._files.now(table) for table in self._bound}
        if now == self._bound:
            return False
        self._reopen(now)
        return True

    def _connected(self) -> duckdb.DuckDBPyConnection:
        """Open a connection to the bound files, with functions and attached tables, but without views."""
        readable = [path for paths in self._bound.values() for path in paths]
        locked = locked_connection(readable, memory_limit=self._memory, threads=self._threads)
        connection = self._opened.enter_context(locked)
        with _enough(self._memory):
            connection.execute("SET VARIABLE from_ns = ?::BIGINT", [self._bounds.period.start_ns])
            connection.execute("SET VARIABLE to_ns = ?::BIGINT", [self._bounds.period.end_ns])
            functions: tuple[tuple[str, Callable[..., Any], list[Any], str], ...] = (
                ("_span_times", self._span_times, ["VARCHAR", "BIGINT[]"], RETURNS),
                ("_versions", self._versions, ["UBIGINT"], "VARCHAR[]"),
            )
            for name, function, parameters, returns in functions:
                own = self._noted(function)
                connection.create_function(name, own, parameters, returns, type=PythonUDFType.ARROW)
            flags = {"bit": [flag.value for flag in Quality], "name": [flag.name for flag in Quality]}
            connection.register("_flags", pa.table(flags))
            # Fails where there is no memory at all.
            connection.execute("CREATE TABLE _quality_flags AS FROM _flags")
            connection.unregister("_flags")
            connection.execute(_QUALITY_NAMES)
            connection.execute(_STEADY_SUM)
            connection.execute(_BIN_QUANTILE)
            for name, table in self._attached.items():
                connection.register(name, table)
            if self._compares and self._comparisons is not None:
                self._comparisons.add_to(connection, self._noted)
        return connection

    def _versions(self, request: pa.ChunkedArray) -> pa.Array:
        return self._files.versions(request)

    def _noted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap one of this package's functions for DuckDB, which turns errors into text: a FlowdiffError is
        saved, to be raised unchanged."""

        @wraps(function)
        def called(*columns: pa.ChunkedArray) -> pa.Array:
            try:
                return function(*columns)
            except FlowdiffError as error:
                self._raised = error
                raise

        return called

    def _reopen(self, bound: Mapping[str, list[Path]]) -> None:
        """Reconnect with access to the files of `bound`; tables and views are copied over.

        DuckDB accepts a list of files only before it is locked, at 12 µs each: so a connection gets only the
        files of tables that statements have named.
        """
        before, opened = self._connection, self._opened
        self._bound, self._opened = {**bound}, ExitStack()
        with opened:
            self._connection = self._connected()
            views, self._made = self._made, set()
            for name, is_temporary in before.execute(_KEPT_TABLES).fetchall():
                # A temporary one may have the name of a view. Names are words: see `_TEMPORARY`.
                made = (
                    'CREATE TEMP TABLE "@" AS FROM _kept' if is_temporary else "CREATE TABLE @ AS FROM _kept"
                )
                self._connection.register("_kept", before.table(name).to_arrow_reader(BATCH_ROWS))
                self._connection.execute(made.replace("@", name))
                self._connection.unregister("_kept")
            self._make(views)
        for table in {*LISTED} - self._unread:
            self._show(table)

    def _show(self, table: str) -> None:
        """Bind the files of a table, and replace its view by a view over these."""
        if table in self._bound:
            self._connection.execute(LISTED[table].set_files, [[str(path) for path in self._bound[table]]])
        self._show_view(table)

    def _show_view(self, table: str) -> None:
        """Replace the view of a table by a view over its files, or by an empty view if it has no files."""
        if table in self._unread:
            self._connection.execute(LISTED[table].unread)
            return
        self._connection.execute(LISTED[table].read if self._files[table] else LISTED[table].empty)

    def _make_views_of(self, text: str) -> None:
        """Create the views named in a statement, and the views that they depend on: creating all views takes
        long.

        Views left over from an interruption are created again.
        """
        words = {*_WORD.findall(text.lower())}
        if words & COMPARING.keys() and self._comparisons is not None and not self._compares:
            with _enough(self._memory):
                self._comparisons.add_to(self._connection, self._noted)
            self._compares = True
        named = words & _RELATIONS.keys()
        if any(map(_CATALOG.fullmatch, words)):
            named = {*_RELATIONS}
        self._make(frozenset(each for name in named for each in behind(name)) - self._made)

    def _make(self, wanted: Collection[str]) -> None:
        with _enough(self._memory):
            for name in _RELATIONS:
                if name not in wanted:
                    continue
                if name in VIEWS:
                    self._connection.execute(relation(name).sql)
                else:
                    table = LISTED[name[1:]]
                    self._connection.execute(table.columns)
                    self._connection.execute(table.unread)
                self._made.add(name)

    def _list_windows_of(self, text: str, values: Values) -> None:
        """List the files of the windows that a statement touches, besides those that are listed already."""
        if self._unlisted is None or self._is_listed.all():
            return
        self._list(self._is_listed | self._touched(self._unlisted, text, values))

    def _list(self, is_listed: B1) -> None:
        """Change the windows whose files are listed. is_listed: [windows]."""
        if np.array_equal(is_listed, self._is_listed):
            return
        self._is_listed = is_listed
        self._files = self._files_of_listed(self._files.of_no_window())
        read = OF_WINDOWS - self._unread
        self._unread |= OF_WINDOWS
        self._bound = {table: paths for table, paths in self._bound.items() if table not in OF_WINDOWS}
        for table in sorted(read):
            self._connection.execute(LISTED[table].forget_rows)
            self._show_view(table)

    def _touched(self, unlisted: UnlistedPeriod, text: str, values: Values) -> B1:
        """[windows] true for windows whose rows a statement can use; see `analyze.sql.touched_windows`."""
        connection = self._connection
        without_rows = OF_WINDOWS | self._unread
        tables = [table for table in LISTED if table in without_rows and f"_{table}" in self._made]
        try:
            for table in tables:
                connection.execute(LISTED[table].unread)
            used = without_rows & self._tables_of(text, values)
            joined = {f"_{table}" for table in used if LISTED[table].windows == "joined"}
            if not used & OF_WINDOWS or joined & {*_WORD.findall(text.lower())}:
                return np.full(len(unlisted.starts_ns), bool(used & OF_WINDOWS))
            if explained := _EXPLAIN.fullmatch(text):
                text = explained["query"]
            return touched_windows(
                connection, text, _bindable(values), used, unlisted.starts_ns, unlisted.found.window_ns
            )
        finally:
            for table in tables:
                self._show_view(table)

    def _read_files_of(self, text: str, values: Values) -> None:
        """Verify and bind the files of the tables a statement uses. Raises LakeError."""
        before = self._is_listed
        self._list_windows_of(text, values)
        try:
            self._bind(sorted(self._unread & self._tables_of(text, values)))
        except LakeError:  # a file of a window that later statements may not touch
            self._list(before)
            raise

    def _bind(self, tables: Sequence[str]) -> None:
        """Verify and bind the files of tables. Raises LakeError."""
        filled = [table for table in tables if self._files[table]]
        for table in filled:
            if table not in WATCHED and table not in STATISTICS:
                verify(self._files.found, self._files[table])
        by_path = {table: self._files.now(table) for table in filled if not LISTED[table].is_arrow}
        if by_path:
            self._reopen(self._bound | by_path)
        for table in tables:
            if table in filled and LISTED[table].is_arrow:
                rows = self._files.rows(table)
                if table == "structures":
                    self._span_times.set_structures(rows)
                self._connection.register("_rows", rows)
                self._connection.execute(LISTED[table].set_files)
                self._connection.unregister("_rows")
            self._unread.discard(table)
            self._show(table)

    def _tables_of(self, text: str, values: Values) -> set[str]:
        """Tables that a statement reads, whatever the bound values.

        A table that is missed here is not bound, so that the statement fails.
        """
        try:
            # DuckDB looks through views, at the empty tables that lend them their columns.
            named = self._connection.get_table_names(text.replace("?", "NULL") if values else text)
        except duckdb.Error:
            # It takes no USING. Every word that is the name of a view may be one.
            words = {*re.findall(r"\w+", text.lower())}
            return {table for word in words for table in tables_behind(word)}
        return {name.removeprefix("_schema_") for name in named if name.startswith("_schema_")}

    def _failure(self, error: Exception) -> FlowdiffError:
        """Convert an error of DuckDB to the error for the user: about an unreadable file of the lake, else
        about the query."""
        raised, self._raised = self._raised, None
        if raised is not None:
            return raised
        readable = [path for table in self._bound for path in self._files[table]]
        broken = unreadable_file(self._bounds, readable, error)
        if broken is not None:
            return broken
        if unknown := _UNKNOWN_TABLE.search(str(error)):
            # DuckDB proposes what is nearest in spelling: names that are not for users.
            return QueryError(
                f"There is no table '{unknown['name']}'.",
                remedy=f"There are {', '.join(VIEWS)}: docs/sql.md.",
            )
        if called := _WRONG_CALL.search(str(error)):
            return QueryError(
                f"{called['name']}() does not take these arguments.",
                remedy=f"Write {called['name']}(REFERENCE, PROBLEM), and behind the periods by name: "
                "history := PERIOD, where := FILTER, reference_where, problem_where, method.",
            )
        failed = f"The query failed: {_first_lines(error)}"
        if isinstance(error, duckdb.OutOfMemoryException):
            return QueryError(f"{failed.removesuffix('.')}.", remedy="Raise --memory.")
        return QueryError(failed)


def _bindable(values: Values) -> dict[str, object] | list[object]:
    """Copy of bound values as DuckDB takes them."""
    return dict(values) if isinstance(values, Mapping) else list(values)


def _used(
    connection: duckdb.DuckDBPyConnection, values: Mapping[str, object], text: str
) -> Mapping[str, object]:
    """Bound values for the parameters that a statement names. Raises QueryError if one is missing."""
    named = connection.extract_statements(text)[0].named_parameters
    if missing := sorted(named - values.keys()):
        raise QueryError(f"The parameter {missing[0]} has no value.", remedy="Give one: --param NAME=VALUE.")
    return {name: values[name] for name in named}


def _readable_statements(connection: duckdb.DuckDBPyConnection, text: str) -> Sequence[str]:
    """Split a text into statements: any number of CREATE TEMP TABLE … AS SELECT, then one SELECT or EXPLAIN
    of a SELECT. `SELECT true AS made` is added if there are only tables.

    Raises QueryError for anything else, duckdb.Error if it does not parse. COPY, ATTACH, SET and the like are
    refused by type: allowed paths could otherwise be written to. EXPLAIN has one type whatever it explains,
    and EXPLAIN ANALYZE runs it. The module's own `extract_statements` would open another DuckDB.
    """
    statements = connection.extract_statements(text)
    texts = [one.query.strip().rstrip(";") for one in statements]
    made = [_TEMPORARY.match(one) for one in texts]
    if statements and all(made):
        return [*texts, "SELECT true AS made"]
    if not all(made[:-1]) or not statements:
        raise QueryError(
            f"That is {len(statements)} statements.",
            remedy="Give one SELECT; before it may stand CREATE TEMP TABLE name AS SELECT ….",
        )
    text, kind = texts[-1], statements[-1].type
    if kind == duckdb.StatementType.EXPLAIN:
        inner = _EXPLAIN.fullmatch(text)
        kinds = [] if inner is None else [part.type for part in connection.extract_statements(inner["query"])]
        if kinds != [duckdb.StatementType.SELECT]:
            raise QueryError("Only a SELECT can be explained.", remedy="Write EXPLAIN SELECT …, or ANALYZE.")
    elif kind != duckdb.StatementType.SELECT:
        raise QueryError(
            "Only statements that read are allowed on a lake.",
            remedy="Write a SELECT; for files use --format csv, json or parquet with --output.",
        )
    return [*texts[:-1], _TABLES if _SHOW_TABLES.fullmatch(text) else text]


def _first_lines(error: Exception) -> str:
    """First two lines of DuckDB's error message, joined to one line."""
    return " ".join(line.strip() for line in str(error).splitlines()[:2] if line.strip())


class _Files:
    """Paths of the files of each table.

    Listed on demand, as listing the files of a year takes seconds.
    """

    def __init__(self, listed: Callable[[], LakePeriod], known: Mapping[str, list[Path]]) -> None:
        """known: table -> paths, where they are known already."""
        self._listed = listed
        self._of = {**known}
        self._versions: RequestVersions | None = None

    @cached_property
    def found(self) -> LakePeriod:
        """The period, with the files of its windows. Raises LakeError if a file is missing."""
        return self._listed()

    def __getitem__(self, table: str) -> list[Path]:
        """Paths of a table's files, as named in the snapshot. Raises LakeError."""
        if table not in self._of:
            self._of[table] = [*self._find(table)]
        return self._of[table]

    def of_no_window(self) -> dict[str, list[Path]]:
        """Table -> paths as listed so far, of tables whose files are of no window."""
        return {table: paths for table, paths in self._of.items() if table not in OF_WINDOWS}

    def now(self, table: str) -> list[Path]:
        """Current paths of a table's files, which upkeep may have moved while they are read."""
        return [still_at(path) for path in self[table]]

    def versions(self, request: pa.ChunkedArray) -> pa.Array:
        """Versions of requests by node, for DuckDB's function `_versions` (see RequestVersions)."""
        if self._versions is None:
            self._versions = RequestVersions(self.found, self["params"])
        return self._versions(request)

    def rows(self, table: str) -> pa.Table:
        """Rows of a table that is not read from files by DuckDB. Raises LakeError."""
        rows_of = LISTED[table].rows
        if rows_of is None:
            return self._statistics.rows(STATISTICS[table])
        return rows_of(self.found, self[table])

    @cached_property
    def _statistics(self) -> WindowStatistics:
        from analyze.profile.window_statistics import WindowStatistics
        from analyze.refine.settings import RefineSettings

        return WindowStatistics(self.found, RefineSettings())

    def _find(self, table: str) -> Iterable[Path]:
        match table:
            case "flows":
                return self.found.flows
            case "structures" | "readings":
                return self.found.structures
            case "params":
                return self.found.params
            case "dead_letters":
                return self.found.dead_letters
        if table in STATISTICS:
            return self.found.flows
        if table in WATCHED:
            from stitch.lake.watch_files import WATCH

            # Whichever files there are: the watch's last commit names them, and is read once a query asks.
            return [Path(WATCH)] if self.found.store.names(WATCH) else []
        file = f"{_REPORT_TABLES[table]}.parquet"
        return [path for path in self._reports if path.name == file]

    @cached_property
    def _reports(self) -> list[Path]:
        return self.found.report_files()


@contextmanager
def open_session(
    found: LakePeriod | UnlistedPeriod,
    *,
    memory: str = "2GB",
    threads: int = 2,
    attached: Mapping[str, pa.Table] | None = None,
    comparing: Comparing | None = None,
) -> Iterator[Session]:
    """Open a locked session on one period of a lake (its filter is ignored), and on the lake's reports.

    Of an UnlistedPeriod each query lists the files of the windows that it can touch. memory bounds DuckDB,
    threads its workers: for untrusted statements use
    `analyze.sql.session_process`. attached: name -> the user's own table. comparing: makes comparisons for
    the table functions `compare` and `breakdown`; None: without these. Raises ConfigError if `memory` is not
    a size, or too small. Files are opened by the queries that use them.
    """
    session = Session(found, memory, threads, attached or {}, comparing)
    with closing(session):
        yield session


@contextmanager
def _enough(memory: str) -> Iterator[None]:
    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise ConfigError(f"'{memory}' of memory is too little.", remedy="Raise --memory.") from error


def bound_names(text: str, names: Collection[str]) -> str:
    """Replace `:name` by `$name` for each of `names`; other colons are left alone."""
    return _PARTS.sub(lambda found: f"${found['name']}" if found["name"] in names else found[0], text)


READERS: Final = {
    ".csv": "FROM read_csv(?)",
    ".tsv": "FROM read_csv(?)",
    ".json": "FROM read_json(?)",
    ".jsonl": "FROM read_json(?)",
    ".ndjson": "FROM read_json(?)",
    ".parquet": "FROM read_parquet(?)",
}
"""File name suffix -> SQL statement that reads the file; files with a second suffix `.gz` or `.zst` are
unpacked."""
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def attached_tables(asked: Mapping[str, Path | pa.Table]) -> dict[str, pa.Table]:
    """SQL name -> table, with files read. Raises ConfigError for an invalid name, InputError for a file."""
    folded = [name.lower() for name in asked]
    if twice := [name for name in asked if folded.count(name.lower()) > 1]:
        raise ConfigError(f"Tables are attached under one name: in SQL {' and '.join(twice)} are the same.")
    for name in asked:
        if not _NAME.fullmatch(name) or name.lower() in VIEWS:
            raise ConfigError(
                f"No table can be attached as '{name}'.",
                remedy=f"Take letters, digits and _, and none of {', '.join(VIEWS)}.",
            )
    return {name: _read(given) if isinstance(given, Path) else given for name, given in asked.items()}


def _read(path: Path) -> pa.Table:
    """All rows of a file. DuckDB infers the columns of a CSV from all of its rows."""
    plain = path.with_suffix("") if path.suffix.lower() in (".gz", ".zst") else path
    reader = READERS.get(plain.suffix.lower())
    if reader is None:
        raise InputError(
            f"'{path}' does not tell by its name what it is.", remedy=f"End it in {', '.join(READERS)}."
        )
    if not path.is_file():
        raise InputError(f"There is no file '{path}'.")
    # A path is no pattern, and nothing is fetched from elsewhere.
    escaped = re.sub(r"([*?\[])", r"[\1]", str(path.resolve()))
    with silent_connection(autoinstall_known_extensions=False) as connection:
        try:
            return connection.sql(reader, params=[escaped]).to_arrow_table()
        except duckdb.Error as error:
            raise InputError(f"'{path}' cannot be read: {str(error).splitlines()[0]}") from error
