"""Reports as pages of the server: kept ones of the lake, and results of jobs, drawn by the one renderer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from analyze.methods.registry import method_names, method_of
from analyze.report.page import Frame, page_policy, render_html
from analyze.report.section_view import SectionView, views_by_tag
from flowdiff.extras import installed
from flowdiff.serve.answer import Whole
from flowdiff.serve.shell import own_style
from flowdiff.serve.site import Site
from schemas.errors import NotFoundError
from schemas.report.parts import ForeignSection
from schemas.report.report import Report, from_json
from schemas.trace_urls import TRACE_ID
from stitch.lake.layout import REPORT_END, REPORTS
from stitch.lake.place import open_store

_ID: Final = re.compile(r"[0-9a-f]{16}")
_ANSWERS: Final = "; frame-ancestors 'none'"


@cache
def known_views() -> Mapping[str, SectionView[Any]]:
    """Views of the sections of all installed methods, by tag."""
    methods = [method_of(name) for name in method_names() if installed(name)]
    return views_by_tag(dict.fromkeys(view for method in methods for view in method.sections))


def kept_report(site: Site, report_id: str) -> Report:
    """Report that the lake keeps. Raises NotFoundError."""
    if _ID.fullmatch(report_id) is None:
        raise NotFoundError(f"'{report_id}' is no id of a report.")
    try:
        text = open_store(site.lake).read(f"{REPORTS}/{report_id}/{REPORT_END}").to_pybytes()
        return parsed(text)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFoundError(
            f"The lake keeps no report {report_id}.", remedy="See the list of reports."
        ) from error
    except (OSError, ValueError) as error:
        raise NotFoundError(f"The report {report_id} cannot be read, or is of another version.") from error


def parsed(text: str | bytes) -> Report:
    """Report of its JSON. Raises pydantic.ValidationError."""
    return from_json(text, [view.model for view in known_views().values()])


def report_page(site: Site, report: Report, tab: str, requests: Mapping[str, str]) -> Whole:
    """Page of a report below the server's navigation; request ids lead to pages of requests.

    requests: parameters of those pages' addresses.
    """
    shown = tuple(section for section in report.sections if not isinstance(section, ForeignSection))
    link = site.links.to("requests", "ID", **requests).replace("/ID", f"/{TRACE_ID}", 1)
    drawn = report.model_copy(update={"trace_url": link, "sections": shown})
    frame = Frame(site.shell.top(tab), own_style())
    views = known_views()
    page = render_html(drawn, views, frame=frame)
    return Whole(
        page.encode(),
        policy=page_policy(drawn, views, frame) + _ANSWERS,
        data=report,
    )
