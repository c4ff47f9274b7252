"""Reports as pages of the server: reports stored in the lake, and results of jobs, by the same renderer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any, Final

from pydantic import ValidationError

from analyze.methods.registry import method_names, method_of
from analyze.report.page import RANK, Frame, page_policy, render_html
from analyze.report.section_view import SectionView, views_by_tag
from flowdiff.extras import installed
from flowdiff.serve.answer import Asked, Whole
from flowdiff.serve.jobs.question import Question
from flowdiff.serve.links import Links
from flowdiff.serve.shell import own_style
from flowdiff.serve.site import Site
from schemas.errors import NotFoundError
from schemas.report.findings import Finding, FindingsSection, FurtherView
from schemas.report.parts import ForeignSection
from schemas.report.report import Report, from_json
from schemas.trace_urls import TRACE_ID
from stitch.lake.layout import REPORT_END, REPORTS
from stitch.lake.place import open_store

_ID: Final = re.compile(r"[0-9a-f]{16}")
_ANSWERS: Final = "; frame-ancestors 'none'"
_PARAMETERS: Final = {
    "--reference": "reference",
    "--problem": "problem",
    "--period": "period",
    "--where": "where",
    "--reference-where": "reference_where",
    "--problem-where": "problem_where",
}
"""Option of a command -> parameter of a page's address."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A report as JSON, and the parameters that name it."""

    text: bytes
    link: Mapping[str, str]
    """Address parameter that names the report: `report` -> id of a report in the lake, or `job` -> key of a
    job's result."""
    question: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    """Address parameters of the question that the report answers, to ask the question again if the result was
    evicted. Empty: the question is unknown."""

    @property
    def key(self) -> str:
        """Text that identifies the report among all reports of the server."""
        return " ".join(f"{name} {value}" for name, value in self.link.items())

    @property
    def report(self) -> Report:
        """Parsed report. Raises NotFoundError if it is of another version."""
        try:
            return from_json(self.text, [view.model for view in known_views().values()])
        except ValidationError as error:
            raise NotFoundError("The report is of another version of flowdiff.") from error


@cache
def known_views() -> Mapping[str, SectionView[Any]]:
    """View for each section's tag, for the sections of all installed methods."""
    methods = [method_of(name) for name in method_names() if installed(name)]
    return views_by_tag(dict.fromkeys(view for method in methods for view in method.sections))


def kept_report(site: Site, report_id: str) -> Stored:
    """Read a report that is stored in the lake, by its id. Raises NotFoundError."""
    if _ID.fullmatch(report_id) is None:
        raise NotFoundError(f"'{report_id}' is no id of a report.")
    try:
        text = open_store(site.lake).read(f"{REPORTS}/{report_id}/{REPORT_END}").to_pybytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFoundError(
            f"The lake keeps no report {report_id}.", remedy="See the list of reports."
        ) from error
    except OSError as error:
        raise NotFoundError(f"The report {report_id} cannot be read.") from error
    return Stored(text, {"report": report_id})


def result(site: Site, key: str, question: Question | None = None) -> Stored | None:
    """Report of a finished job, by the job's key; None if there is none, or it was evicted.

    question: the question that the job answers, if known.
    """
    text = site.jobs.results.read(key)
    asked = {} if question is None else question.address
    return None if text is None else Stored(text, {"job": key}, asked)


def named_report(site: Site, asked: Asked) -> Stored | None:
    """Report named by the parameters of a page's address; None if they name none. Raises NotFoundError."""
    if report_id := asked.one("report"):
        return kept_report(site, report_id)
    if key := asked.one("job"):
        found = result(site, key)
        if found is None:
            raise NotFoundError("That result is not kept any more.", remedy="Ask the question again.")
        return found
    return None


def report_page(site: Site, asked: Asked, stored: Stored, tab: str) -> Whole:
    """Page of a report with the server's navigation, or its JSON; request ids link to pages of requests."""
    if asked.wants_json:
        return Whole(stored.text, "application/json")
    return site.pages.get(f"{tab} {stored.key} {bool(stored.question)}", lambda: _drawn(site, stored, tab))


def _drawn(site: Site, stored: Stored, tab: str) -> Whole:
    report = stored.report
    link = requests_link(site.links, stored)
    sections = tuple(
        _linked(site, section) if isinstance(section, FindingsSection) else section
        for section in report.sections
        if not isinstance(section, ForeignSection)
    )
    drawn = report.model_copy(update={"trace_url": link, "sections": sections})
    frame = Frame(site.shell.top(tab), own_style(), finding_address(site, stored, RANK))
    views = known_views()
    page = render_html(drawn, views, frame=frame)
    return Whole(page.encode(), policy=page_policy(drawn, views, frame) + _ANSWERS)


def requests_link(links: Links, stored: Stored) -> str:
    """Address of a request's page with `{trace_id}` in place of the request's id; it names the report by
    which the page chooses a twin."""
    requests = links.to("requests")
    return f"{requests}/{TRACE_ID}{links.to('requests', **stored.link).removeprefix(requests)}"


def report_address(site: Site, stored: Stored) -> str:
    """Address of the page of an existing report."""
    if "report" in stored.link:
        return site.links.to("reports", stored.link["report"])
    return site.links.to("results", stored.link["job"])


def finding_address(site: Site, stored: Stored, rank: int | str) -> str:
    """Address of the page for one finding of a report."""
    return site.links.to("compare", "finding", str(rank), **(stored.question or stored.link))


def _linked(site: Site, section: FindingsSection) -> FindingsSection:
    """Copy of the section whose suggested analyses link to the server's pages that run them."""

    def linked(finding: Finding) -> Finding:
        views = tuple(one.model_copy(update={"page": _page(site, one)}) for one in finding.views)
        return finding.model_copy(update={"views": views})

    return section.model_copy(update={"findings": tuple(map(linked, section.findings))})


def _page(site: Site, view: FurtherView) -> str:
    if view.method == "flow":
        return site.links.to("requests", view.arguments[1])
    given: dict[str, list[str]] = {}
    for option, value in pairwise(view.arguments):
        if option in _PARAMETERS:
            given.setdefault(_PARAMETERS[option], []).append(value)
    lists: dict[str, Sequence[str]] = {**given}
    return site.links.to("compare", method=view.method, **lists)
