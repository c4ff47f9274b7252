"""Query a lake: windows, requests, SQL, and analyses of periods by methods.

The front door for notebooks and commands. The analysis is imported on use.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
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

    from analyze.methods.port import Chosen
    from analyze.profile.history import StatisticsUse
    from analyze.refine.settings import RefineSettings
    from analyze.report.gate import Outcome
    from analyze.scope import LakePeriod
    from flowdiff.samples import Samples

SQL_SECONDS = 300.0
"""Time limit of a query's computation."""
_LEAST_FOR_REQUESTS = 64 << 20
"""Fewest bytes for requests that a comparison begins with: 600,000 nodes."""
_BESIDE_REQUESTS = 160 << 20
"""Bytes for code that is loaded later, and for statistics while they are added up and tested: of 1,600
categories 128 MB where they are kept, and as much where windows are read in slices, however small these are.
"""


@dataclass(frozen=True, slots=True)
class Lake:
    """A lake by its name. Every call reads its current state."""

    name: str

    def windows(self, period: Period = "all") -> Table:
        """Table with a row a window: requests, categories, mean response time, errors.

        Windows that the period touches are listed whole. From 64 on the number of categories is an estimate
        (`categories_estimated`), as in `flowdiff windows`. Raises PeriodError.
        """
        from analyze.scope import Lakes

        lakes = Lakes(self.name)
        asked = parse_period(lakes.dated(_one(period)), now_ns=time.time_ns())
        return Table(lakes.counts(asked, may_be_empty=True).windows)

    def requests(self, period: Period = "all", where: str | None = None) -> Table:
        """Table with a row a request, as the view `requests` of docs/sql.md; `where`: the filter of the
        commands.

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
        """One request, by its id or a prefix; `kind` if both spans and records have the id.

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
        """Rows of a query over the views of docs/sql.md; `:name` in it is the parameter `name`.

        attach: your own tables by name: a file (CSV, JSON, Parquet), or an Arrow-compatible object
        (DataFrame).
        The query's process is killed when it exceeds its time or memory; comparisons that it calls run in
        this one.
        Raises QueryError, PeriodError, ConfigError, InputError.
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
        progress: bool = False,
    ) -> Imported:
        """Import trace files, named or by patterns, or messages of topics, as `flowdiff import` names them;
        or a table of spans that Arrow reads (DataFrame).

        columns: of tables and Parquet files, as `--column`: {"trace_id": "tid", "time_unit": "ms"}. A missing
        lake is created. The same input twice changes nothing. Raises LakeError, InputError, ConfigError,
        UnknownFormatError.
        """
        if hasattr(files, "__arrow_c_stream__"):
            with _as_parquet(files) as path:
                return self.import_(path, columns=columns, progress=progress)
        from flowdiff.cli.version import owner_name, version
        from flowdiff.commands.import_ import expanded, import_progress, reaching_topics, span_columns
        from stitch.drivers.batch import import_into
        from stitch.drivers.import_settings import ImportSettings

        given = [files] if isinstance(files, str | Path) else list(cast("Sequence[str | Path]", files))
        names = [str(name) for name in given]
        chosen = ImportSettings(format=format, columns=span_columns(columns or {}))
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
        """Changes from one period to another; `history`: ordinary times, `settings`: the method's.

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
        """Findings of a method in a period, in two, or in two parts of one by filters. Raises as
        `compare`.
        """
        from flowdiff.samples import one_or_two

        filters = {"reference": reference_where, "problem": problem_where}
        given = {name: text for name, text in filters.items() if text is not None}
        texts = [[] if one is None else period_texts(one) for one in (period, reference, problem)]
        asked = one_or_two(texts[0], texts[1], texts[2], given)
        return self._analysis(asked, (), method, settings, refine, where, filters, progress)

    def variance(self, period: Periods | None = None, **options: Any) -> Analysis:
        """Locations where response times vary, and the edges that make them vary. Options: those of
        `analyse`.
        """
        return self.analyse("variance", period, **options)

    def clusters(self, period: Periods | None = None, **options: Any) -> Analysis:
        """Groups of requests by structure and duration. Options: those of `analyse`."""
        return self.analyse("clusters", period, **options)

    def browse(self, period: Periods | None = None, **options: Any) -> Analysis:
        """Overview page of one period. Options: those of `analyse`."""
        return self.analyse("browse", period, **options)

    def distalyze(self, reference: Periods, problem: Periods, **options: Any) -> Analysis:
        """Differences between two classes of requests. Options: those of `analyse`."""
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
            from flowdiff.cli.analysis import refuse_sample_count, stage, with_trace_url
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
            shown = stage if progress else _unseen
            outcome = analysed(samples, [chosen], how, "auto", shown)
            return Analysis(with_trace_url(outcome, self.name, None), self.name)

    def _period(self, period: Period, where: str | None = None) -> LakePeriod:
        from analyze.scope import Lakes, resolve

        asked = parse_period(Lakes(self.name).dated(_one(period)), now_ns=time.time_ns(), where=where)
        return resolve(asked, default_lake=self.name, may_be_empty=True)


def opened(name: str, *, create: bool) -> Lake:
    """Lake of a name. Raises LakeError if it does not exist, unless `create`."""
    if not create:
        from analyze.scope import Lakes

        Lakes(name).manifest(parse_period("all", now_ns=0))
    return Lake(name)


def _unseen(_: str) -> AbstractContextManager[None]:
    """Stage without a display."""
    return nullcontext()


def analysed(
    found: Samples,
    chosen: Sequence[Chosen[Any]],
    refine: RefineSettings,
    use: StatisticsUse,
    stage: Callable[[str], AbstractContextManager[None]] = _unseen,
    workers: int = 1,
    memory: int | None = None,
) -> Outcome:
    """Outcome of methods over samples, which are read and refined once.

    `stage` is entered with the name of each step; workers: processes that may share the work; memory: bytes
    that this process may take in all. Raises PeriodError, LakeError, ConfigError.
    """
    from analyze.calibrate import calibration_sentence
    from analyze.compare import compare
    from analyze.profile.history import read_samples
    from analyze.watch.deployments import known_deployments
    from stitch.processes import shared_processes

    most_bytes = None if memory is None else memory_for_requests(memory)
    workers = 1 if memory is not None else workers
    with shared_processes(workers):
        with stage("Loading and refining"):
            read = read_samples(
                found.compared,
                found.history,
                refine,
                use=use,
                can_use=not any(one.method.needs_requests for one in chosen),
                workers=workers,
                most_bytes=most_bytes,
            )
        compared = read.compared.noted(*found.notes)
        roots = dict.fromkeys(part.root.resolve().name for _, parts in found.compared for part in parts)
        with stage("Analysing"):
            return compare(
                compared,
                chosen,
                history=read.history,
                refined=refine,
                source=", ".join(roots),
                calibration=calibration_sentence(found.compared[-1][1][0].store, chosen[0], refine),
                marks=known_deployments(found.compared[-1][1][0].store),
            )


def memory_for_requests(memory: int) -> int:
    """Bytes of `memory` that are left for requests. Raises ConfigError where these are few."""
    from flowdiff.live.memory import resident_bytes

    program = resident_bytes()
    beside = program + _BESIDE_REQUESTS
    if memory < beside + _LEAST_FOR_REQUESTS:
        least = -(-(beside + _LEAST_FOR_REQUESTS) // 2**24) * 16
        raise ConfigError(
            f"--memory is {memory >> 20} MB, and the process takes {beside >> 20} MB beside requests.",
            remedy=f"Set it to {least}MB or more.",
        )
    return memory - beside


@contextmanager
def _as_parquet(table: object) -> Iterator[Path]:
    """Parquet file of a table, for as long as the block runs: the same rows give the same bytes.

    Raises InputError for a column of a type that Parquet does not have.
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
    """Type of the same values without views, those in lists, structs and dictionaries, too."""
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
    """File, or Arrow table. Raises ConfigError for anything else."""
    import pyarrow as pa

    if isinstance(given, str | Path):
        return Path(given)
    if not hasattr(given, "__arrow_c_stream__"):
        raise ConfigError(f"'{name}' is neither a file nor a table that speaks Arrow.")
    return pa.table(given)


def _settings(model: Any, given: Mapping[str, Any] | None) -> Any:
    """Settings of a model, with defaults for missing ones. Raises ConfigError, naming the invalid one."""
    from pydantic import ValidationError

    try:
        return model.model_validate(dict(given or {}))
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"])) or "settings"
        raise ConfigError(f"{name}: {first['msg']}.") from error
