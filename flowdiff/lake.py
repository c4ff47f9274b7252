"""Python API of a lake: windows, requests, SQL, and analyses of periods by methods.

For notebooks and commands. The analysis is imported on use.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast

from flowdiff.extras import needed
from flowdiff.results import Analysis, Flow, Imported
from flowdiff.tables import Table
from flowdiff.times import Period, Periods, period_texts
from schemas.errors import ConfigError, InputError, PeriodError
from schemas.periods import parse_period

if TYPE_CHECKING:
    import pyarrow as pa

    from analyze.refine.settings import RefineSettings
    from analyze.scope import LakePeriod

SQL_SECONDS = 300.0
"""Default limit of a query's computing time, s; longer queries are killed."""


@dataclass(frozen=True, slots=True)
class Lake:
    """A lake, by name. Every call reads its current state."""

    name: str

    def windows(self, period: Period = "all") -> Table:
        """Table with a row per window: requests, categories, mean response time, errors.

        Windows that the period overlaps are listed whole. From 64 on the number of categories is an estimate
        (`categories_estimated`), as in `flowdiff windows`. Raises PeriodError.
        """
        from analyze.scope import Lakes

        lakes = Lakes(self.name)
        asked = parse_period(lakes.dated(_one(period)), now_ns=time.time_ns())
        return Table(lakes.counts(asked, may_be_empty=True).windows)

    def requests(self, period: Period = "all", where: str | None = None) -> Table:
        """Table with a row per request, as the view `requests` of docs/sql.md; where: filter, as in commands.

        Raises PeriodError.
        """
        from analyze.load import read_flow_files
        from analyze.sql.session import open_session

        found = self._period(period, where)
        with open_session(found) as session:
            if where is None:
                return Table(session.query("FROM requests"))
            parts = [rows for _, rows in read_flow_files(found, ["request_id", "kind", "start_ns"])]
            ids, kinds = (
                [one for rows in parts for one in rows[name].to_pylist()] for name in ("request_id", "kind")
            )
            query = "FROM requests WHERE (request_id, kind) IN (SELECT unnest(?), unnest(?))"
            return Table(session.query(query, [ids, kinds]))

    def flow(self, request_id: str, period: Period = "all", *, kind: str | None = None) -> Flow:
        """Find one request by its id or a unique prefix; kind: `spans` or `records`, if both have the id.

        Raises NotFoundError, PeriodError, ConfigError.
        """
        from analyze.sql.browse import find_flow
        from analyze.sql.session import open_session

        with open_session(self._period(period)) as session:
            found = find_flow(session, request_id, kind)
            row = [found.flow["request_id"], found.flow["kind"]]
            spans = session.query(
                "FROM spans WHERE request_id = ? AND ? = 'spans' ORDER BY start_us, position", row
            )
            nodes = session.query("FROM nodes WHERE request_id = ? AND kind = ? ORDER BY position", row)
            return Flow(found, Table(spans), Table(nodes))

    def sql(
        self,
        query: str,
        /,
        period: Period = "all",
        *,
        attach: Mapping[str, Any] | None = None,
        memory: str = "2GB",
        seconds: float = SQL_SECONDS,
        **parameters: object,
    ) -> Table:
        """Run a query over the views of docs/sql.md; `:name` in it is bound to the keyword argument `name`.

        attach: name -> your own table: a file (CSV, JSON, Parquet), or an Arrow-compatible object
        (DataFrame). The query's process is killed when it exceeds its time or memory; comparisons that it
        requests run in this process. Raises QueryError, PeriodError, ConfigError, InputError.
        """
        from analyze.sql.session_process import SessionProcess
        from flowdiff.query_comparisons import QueryComparisons

        now_ns = time.time_ns()
        started = SessionProcess(
            self.name,
            _one(period),
            now_ns=now_ns,
            comparing=QueryComparisons(self.name, now_ns),
            memory=memory,
            seconds=seconds,
            attached={name: _attached(name, given) for name, given in (attach or {}).items()},
        )
        with closing(started) as session:
            return Table(session.query(query, parameters))

    def import_(
        self,
        files: str | Path | Sequence[str | Path] | object,
        *,
        format: str | None = None,
        columns: Mapping[str, str] | None = None,
        keep_events: bool = False,
        progress: bool = False,
    ) -> Imported:
        """Import trace files (names or globs), or messages of topics, named as in `flowdiff import`; or a
        table of spans that Arrow can read (DataFrame).

        columns: for tables and Parquet files, as `--column`: {"trace_id": "tid", "time_unit": "ms"}. A
        missing lake is created. Importing the same input again changes nothing. keep_events: as
        `--keep-events`, to join requests that are cut over imports. Raises LakeError, InputError,
        ConfigError, UnknownFormatError.
        """
        if hasattr(files, "__arrow_c_stream__"):
            with _as_parquet(files) as path:
                return self.import_(path, columns=columns, keep_events=keep_events, progress=progress)
        from flowdiff.cli.version import owner_name, version
        from flowdiff.importing import (
            build_kept_events,
            expanded,
            import_progress,
            reaching_topics,
            span_columns,
            with_build,
        )
        from stitch.drivers.batch import import_into
        from stitch.drivers.import_settings import ImportSettings

        given = [files] if isinstance(files, str | Path) else list(cast("Sequence[str | Path]", files))
        names = [str(name) for name in given]
        chosen = ImportSettings(format=format, columns=span_columns(columns or {}), keep_events=keep_events)
        settings = reaching_topics(chosen, names, None)
        with import_progress(shown=progress) as bar:
            summary = import_into(
                self.name,
                expanded(names, settings),
                settings,
                owner=owner_name(),
                created_by=f"flowdiff {version()}",
                stdin=sys.stdin.buffer,
                progress=bar,
            )
        if keep_events:
            summary = with_build(summary, build_kept_events(self.name, settings.memory_bytes, 1))
        return Imported(summary)

    def compare(
        self,
        reference: Periods,
        problem: Periods,
        *,
        history: Periods = (),
        where: str | None = None,
        reference_where: str | None = None,
        problem_where: str | None = None,
        method: str = "robust",
        settings: Mapping[str, Any] | None = None,
        refine: Mapping[str, Any] | RefineSettings | None = None,
        progress: bool = False,
    ) -> Analysis:
        """Compare two periods; returns what changed. history: baseline periods; settings: of the method, name
        -> value.

        Raises PeriodError, ConfigError, LakeError.
        """
        from flowdiff.samples import asked_samples

        asked = asked_samples(period_texts(reference), period_texts(problem), ())
        filters = {"reference": reference_where, "problem": problem_where}
        history_texts = period_texts(history) if history else ()
        return self._analysis(asked, history_texts, method, settings, refine, where, filters, progress)

    def analyse(
        self,
        method: str,
        period: Periods | None = None,
        *,
        reference: Periods | None = None,
        problem: Periods | None = None,
        where: str | None = None,
        reference_where: str | None = None,
        problem_where: str | None = None,
        settings: Mapping[str, Any] | None = None,
        refine: Mapping[str, Any] | RefineSettings | None = None,
        progress: bool = False,
    ) -> Analysis:
        """Run a method over one period, over two, or over two parts of one period selected by filters. Raises
        as `compare`."""
        from flowdiff.samples import one_or_two

        filters = {"reference": reference_where, "problem": problem_where}
        given = {name: text for name, text in filters.items() if text is not None}
        texts = [[] if one is None else period_texts(one) for one in (period, reference, problem)]
        asked = one_or_two(texts[0], texts[1], texts[2], given)
        return self._analysis(asked, (), method, settings, refine, where, filters, progress)

    def variance(self, period: Periods | None = None, **options: Any) -> Analysis:
        """Find where response times vary, and the edges that make them vary. Options as in `analyse`."""
        return self.analyse("variance", period, **options)

    def clusters(self, period: Periods | None = None, **options: Any) -> Analysis:
        """Group requests by structure and duration. Options as in `analyse`."""
        return self.analyse("clusters", period, **options)

    def browse(self, period: Periods | None = None, **options: Any) -> Analysis:
        """Describe one period: response times, typical requests, load, call sites.

        Options as in `analyse`.
        """
        return self.analyse("browse", period, **options)

    def distalyze(self, reference: Periods, problem: Periods, **options: Any) -> Analysis:
        """Differences between two classes of requests. Options as in `analyse`."""
        return self.analyse("distalyze", reference=reference, problem=problem, **options)

    def _analysis(
        self,
        asked: Mapping[str, Sequence[str]],
        history: Sequence[str],
        method: str,
        settings: Mapping[str, Any] | None,
        refine: Mapping[str, Any] | RefineSettings | None,
        where: str | None,
        filters: Mapping[str, str | None],
        progress: bool,
    ) -> Analysis:
        with needed():
            from analyze.methods.port import Chosen
            from analyze.methods.registry import method_of
            from analyze.refine.settings import RefineSettings
            from flowdiff.analysing import analysed, refuse_sample_count, unseen, with_trace_url
            from flowdiff.cli.progress import stage
            from flowdiff.samples import find_samples

            found = method_of(method)
            chosen = Chosen(found, _settings(found.settings, settings))
            how = refine if isinstance(refine, RefineSettings) else _settings(RefineSettings, refine)
            refuse_sample_count([found], [*asked], "Give one period, or reference and problem.")
            samples = find_samples(
                asked,
                history,
                now_ns=time.time_ns(),
                lake=self.name,
                where=where,
                own_where={name: text for name, text in filters.items() if text is not None},
            )
            shown = stage if progress else unseen
            outcome = analysed(samples, [chosen], how, "auto", shown)
            return Analysis(with_trace_url(outcome, self.name, None), self.name)

    def _period(self, period: Period, where: str | None = None) -> LakePeriod:
        from analyze.scope import Lakes, resolve

        asked = parse_period(Lakes(self.name).dated(_one(period)), now_ns=time.time_ns(), where=where)
        return resolve(asked, default_lake=self.name, may_be_empty=True)


def opened(name: str, *, create: bool) -> Lake:
    """Open a lake by name. create: allow a missing lake. Raises LakeError if it is missing otherwise."""
    if not create:
        from analyze.scope import Lakes

        Lakes(name).manifest(parse_period("all", now_ns=0))
    return Lake(name)


@contextmanager
def _as_parquet(table: object) -> Iterator[Path]:
    """Write a table to a temporary Parquet file that exists while the block runs; equal rows give equal
    bytes.

    Raises InputError for a column of a type that Parquet lacks.
    """
    import pyarrow as pa
    from pyarrow.parquet import write_table

    with TemporaryDirectory(prefix="flowdiff-table-") as folder:
        path = Path(folder) / "table.parquet"
        try:
            given = pa.table(table)
            # Parquet's writer takes no views inside of lists, structs or dictionaries, as Polars makes them.
            plain = pa.schema([one.with_type(_without_views(one.type)) for one in given.schema])
            write_table(given.cast(plain), path)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InputError(
                f"The table cannot be read: {error}.", remedy="Cast its columns to plain types first."
            ) from error
        yield path


def _without_views(type_: pa.DataType) -> pa.DataType:
    """Arrow type with view types replaced by large ones, also inside lists, structs and dictionaries."""
    import pyarrow as pa
    import pyarrow.types as kinds

    if kinds.is_string_view(type_):
        return pa.large_string()
    if kinds.is_binary_view(type_):
        return pa.large_binary()
    if kinds.is_dictionary(type_):
        return pa.dictionary(type_.index_type, _without_views(type_.value_type), type_.ordered)
    if kinds.is_struct(type_):
        return pa.struct([one.with_type(_without_views(one.type)) for one in type_.fields])
    if kinds.is_large_list(type_):
        return pa.large_list(type_.value_field.with_type(_without_views(type_.value_type)))
    if kinds.is_list(type_):
        return pa.list_(type_.value_field.with_type(_without_views(type_.value_type)))
    return type_


def _one(period: Period) -> str:
    texts = period_texts(period)
    if len(texts) != 1:
        raise PeriodError("Several periods are given, and one is asked for.")
    return texts[0]


def _attached(name: str, given: object) -> Any:
    """Path of a file, or Arrow table. Raises ConfigError for anything else."""
    import pyarrow as pa

    if isinstance(given, str | Path):
        return Path(given)
    if not hasattr(given, "__arrow_c_stream__"):
        raise ConfigError(f"'{name}' is neither a file nor a table that speaks Arrow.")
    return pa.table(given)


def _settings(model: Any, given: Mapping[str, Any] | None) -> Any:
    """Make settings from name -> value; settings that are not given have defaults.

    Raises ConfigError, which names an invalid setting.
    """
    from pydantic import ValidationError

    try:
        return model.model_validate(dict(given or {}))
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"])) or "settings"
        raise ConfigError(f"{name}: {first['msg']}.") from error
