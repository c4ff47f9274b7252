"""Ask a lake: its windows and requests, SQL, and what methods find in periods of it.

The front door: commands and notebooks come this way. Periods are texts, as on the command line: a date, a
range, `yesterday`, several of them. Tables are Arrow's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from analyze.calibrate import calibration_sentence
from analyze.compare import compare
from analyze.methods.port import Chosen
from analyze.methods.registry import method_of
from analyze.profile.history import StatisticsUse, read_samples
from analyze.refine.settings import RefineSettings
from analyze.report.outcome import Outcome
from analyze.report.page import render_html
from analyze.scope import Lakes, resolve
from analyze.sql import browse
from analyze.sql.session import open_session
from analyze.sql.session_process import DEFAULT_SECONDS, SessionProcess
from flowdiff.samples import ONE, Samples, find_samples
from schemas.periods import parse_period
from schemas.report.accounts import AccountSection
from schemas.report.findings import Finding, FindingsSection
from schemas.report.report import Report, Verdict, to_json

if TYPE_CHECKING:
    from analyze.scope import LakePeriod

Periods = str | Sequence[str]


@dataclass(frozen=True, slots=True)
class Analysis:
    """What a method found."""

    outcome: Outcome

    @property
    def report(self) -> Report:
        """The whole report, as in `report.json`."""
        return self.outcome.report

    @property
    def verdict(self) -> Verdict:
        """What it came to, in a word and a sentence."""
        return self.report.verdict

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The most important first; none of a method that gives no findings."""
        found = (s.findings for s in self.report.sections if isinstance(s, FindingsSection))
        return next(found, ())

    @property
    def account(self) -> AccountSection | None:
        """Where the change of the mean, of slow requests and of errors came from; None: not accounted for."""
        return next((s for s in self.report.sections if isinstance(s, AccountSection)), None)

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """Complete tables, by name."""
        return self.outcome.tables

    def html(self) -> str:
        """The page, self-contained."""
        return render_html(self.report, self.outcome.views)

    def json(self) -> str:
        """The report as JSON."""
        return to_json(self.report)


@dataclass(frozen=True, slots=True)
class Lake:
    """A lake by its name. Every question reads what is there at that moment."""

    name: str

    def __post_init__(self) -> None:
        """Raises LakeError where there is no lake."""
        Lakes(self.name).manifest(parse_period("all", now_ns=0))

    def windows(self, period: str = "all") -> pa.Table:
        """A row a window: requests, categories, mean response time, errors. Raises PeriodError."""
        with open_session(self._period(period)) as session:
            return browse.windows(session)

    def requests(self, period: str = "all") -> pa.Table:
        """A row a request, as the view `requests` of docs/sql.md. Raises PeriodError."""
        with open_session(self._period(period)) as session:
            return session.query("FROM requests")

    def sql(
        self, query: str, period: str = "all", *, memory: str = "2GB", seconds: float = DEFAULT_SECONDS
    ) -> pa.Table:
        """The rows of a query over the views of docs/sql.md; its process is ended at its time and memory.

        Raises QueryError, PeriodError, ConfigError.
        """
        started = SessionProcess(self.name, period, now_ns=time.time_ns(), memory=memory, seconds=seconds)
        with closing(started) as session:
            return session.query(query)

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
        refine: RefineSettings | None = None,
    ) -> Analysis:
        """What changed from one period to another; `history` are ordinary times, `settings` the method's.

        Raises PeriodError, ConfigError, pydantic's ValidationError for settings that cannot be.
        """
        filters = (("reference", reference_where), ("problem", problem_where))
        return self._analysis(
            {"reference": _texts(reference), "problem": _texts(problem)},
            _texts(history),
            method,
            settings,
            refine,
            where=where,
            own_where={name: text for name, text in filters if text is not None},
        )

    def analyse(
        self,
        method: str,
        period: Periods = "all",
        *,
        where: str | None = None,
        settings: Mapping[str, Any] | None = None,
        refine: RefineSettings | None = None,
    ) -> Analysis:
        """What a method of one sample finds in a period: variance, clusters, browse, distalyze.

        Raises as `compare`.
        """
        return self._analysis({ONE: _texts(period)}, (), method, settings, refine, where=where)

    def _analysis(
        self,
        asked: Mapping[str, Sequence[str]],
        history: Sequence[str],
        method: str,
        settings: Mapping[str, Any] | None,
        refine: RefineSettings | None,
        *,
        where: str | None,
        own_where: Mapping[str, str] | None = None,
    ) -> Analysis:
        found = method_of(method)
        chosen = Chosen(found, found.settings.model_validate(dict(settings or {})))
        samples = find_samples(
            asked, history, now_ns=time.time_ns(), lake=self.name, where=where, own_where=own_where
        )
        return Analysis(analysed(samples, [chosen], refine or RefineSettings(), "auto"))

    def _period(self, text: str) -> LakePeriod:
        asked = parse_period(text, now_ns=time.time_ns())
        return resolve(asked, default_lake=self.name, may_be_empty=True)


def analysed(
    found: Samples,
    chosen: Sequence[Chosen[Any]],
    refine: RefineSettings,
    use: StatisticsUse,
    stage: Callable[[str], AbstractContextManager[None]] = lambda _: nullcontext(),
) -> Outcome:
    """What the methods find in the samples: read and refined once, analysed, ready to be shown.

    `stage` is entered with the name of what is done. Raises PeriodError, LakeError, ConfigError.
    """
    with stage("Loading and refining"):
        read = read_samples(
            found.compared,
            found.history,
            refine,
            use=use,
            can_use=all(one.method.statistics is not None for one in chosen),
        )
    compared = replace(read.compared, notes=(*found.notes, *read.compared.notes))
    roots = dict.fromkeys(part.root.resolve().name for _, parts in found.compared for part in parts)
    with stage("Analysing"):
        return compare(
            compared,
            chosen,
            history=read.history,
            refined=refine,
            source=", ".join(roots),
            calibration=calibration_sentence(found.compared[-1][1][0].store, chosen[0], refine),
        )


def _texts(periods: Periods) -> list[str]:
    return [periods] if isinstance(periods, str) else [*periods]
