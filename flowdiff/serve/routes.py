"""Table of the server's pages. To add a page, add a file under `pages` and a row here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from flowdiff.serve.access import Role
from flowdiff.serve.answer import Asked, Reply
from flowdiff.serve.pages import compare, findings, incidents, now, reports, requests, sql, timeline
from flowdiff.serve.shell import Tab
from flowdiff.serve.site import Site


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a page's address, as described in the OpenAPI document."""

    name: str
    about: str


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the server, or an action that changes something."""

    path: str
    tab: str
    """Name of the navigation entry to which the page belongs."""
    about: str
    answer: Callable[[Site, Asked], Reply]
    parameters: Sequence[Parameter] = ()
    role: Role = Role.READ
    method: Literal["GET", "POST"] = "GET"
    is_shared: bool = False
    """True: the page is the same for all readers, so it is rendered once per `fresh_seconds` and shared."""


TABS: Final = (
    Tab("", "Now"),
    Tab("compare", "Compare"),
    Tab("incidents", "Incidents"),
    Tab("reports", "Reports"),
    Tab("timeline", "Timeline"),
    Tab("sql", "SQL"),
)
_SEARCH: Final = Parameter("q", "words that a row has")
_FROM: Final = Parameter("from", "number of the first row, from 0")

_PERIODS: Final = (
    Parameter("reference", "period before: 2026-11-18, START/END, same-weekday; repeated for several"),
    Parameter("problem", "period after, written the same way"),
    Parameter("period", "one period, for methods of one"),
    Parameter("history", "ordinary times"),
    Parameter("where", "filter of all periods"),
    Parameter("reference_where", "filter of the reference"),
    Parameter("problem_where", "filter of the problem"),
    Parameter("method", "robust, paper, paths, browse, variance, clusters or distalyze"),
)

PAGES: Final = (
    Page(
        "/",
        "",
        "Response times by root over the latest time",
        now.now,
        (Parameter("span", "1h, 6h, 1d, 1w or 4w"),),
        is_shared=True,
    ),
    Page("/compare", "compare", "Report of a question, its progress, or the form", compare.compare, _PERIODS),
    Page("/compare", "compare", "Start the work of a question", compare.start, _PERIODS, Role.RUN, "POST"),
    Page(
        "/compare/finding/{rank}",
        "compare",
        "One finding: numbers, calls around it, requests of both sides",
        findings.finding,
        (
            Parameter("report", "report that it is of"),
            Parameter("job", "result that it is of"),
            *_PERIODS,
        ),
    ),
    Page("/results/{job}", "compare", "Report of a finished job", compare.finished),
    Page(
        "/requests/{request:path}",
        "compare",
        "One request beside its twin of the other side",
        requests.request,
        (
            Parameter("report", "report that leads here, which names the twin"),
            Parameter("job", "result that leads here, which names the twin"),
            Parameter("beside", "id of the twin"),
            Parameter("kind", "spans or records, where an id has both"),
        ),
    ),
    Page("/jobs/{job}/cancel", "compare", "Cancel a job", compare.cancel, (), Role.RUN, "POST"),
    Page(
        "/incidents",
        "incidents",
        "Incidents of the watch, open ones first",
        incidents.incidents,
        (Parameter("state", "all or open"), _FROM),
        is_shared=True,
    ),
    Page("/incidents/{incident}", "incidents", "One incident", incidents.incident),
    Page(
        "/incidents/{incident}/accept",
        "incidents",
        "Accept an incident as the new normal",
        incidents.accept,
        (Parameter("note", "why"),),
        Role.MARK,
        "POST",
    ),
    Page(
        "/reports",
        "reports",
        "Reports that the lake keeps, newest first",
        reports.reports,
        (_SEARCH, _FROM),
        is_shared=True,
    ),
    Page("/reports/{report}", "reports", "One report", reports.report),
    Page(
        "/timeline",
        "timeline",
        "Course of a root, a call site, a host or a version by window",
        timeline.timeline,
        (
            Parameter("root", "root type"),
            Parameter("site", "key of a call site"),
            Parameter("host", "machine, pod or instance"),
            Parameter("component", "component of a version"),
            Parameter("version", "version of a component"),
            Parameter("by", "host or version: what there is to choose from"),
            Parameter("span", "1h, 6h, 1d, 1w or 4w"),
        ),
        is_shared=True,
    ),
    Page(
        "/sql",
        "sql",
        "One reading statement, its rows as table, csv, json or parquet",
        sql.sql,
        (
            Parameter("q", "the statement"),
            Parameter("period", "all, or as for a comparison"),
            Parameter("format", "csv, json or parquet"),
        ),
        Role.RUN,
    ),
)
