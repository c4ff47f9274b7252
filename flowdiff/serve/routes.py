"""Table of the server's pages. Adding a page is adding a file under `pages` and a row here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from flowdiff.serve.access import Role
from flowdiff.serve.answer import Asked, Reply
from flowdiff.serve.pages import incidents, now, reports
from flowdiff.serve.shell import Tab
from flowdiff.serve.site import Site


@dataclass(frozen=True, slots=True)
class Parameter:
    """Parameter of an address, for the description of the interface."""

    name: str
    about: str


@dataclass(frozen=True, slots=True)
class Page:
    """A page, or a change."""

    path: str
    tab: str
    """Entry of the navigation that it belongs to."""
    about: str
    answer: Callable[[Site, Asked], Reply]
    parameters: Sequence[Parameter] = ()
    role: Role = Role.READ
    method: Literal["GET", "POST"] = "GET"


TABS: Final = (
    Tab("", "Now"),
    Tab("incidents", "Incidents"),
    Tab("reports", "Reports"),
)
_SEARCH: Final = Parameter("q", "words that a row has")
_FROM: Final = Parameter("from", "number of the first row, from 0")

PAGES: Final = (
    Page(
        "/",
        "",
        "Response times by root over the latest time",
        now.now,
        (Parameter("span", "1h, 6h, 1d, 1w or 4w"),),
    ),
    Page(
        "/incidents",
        "incidents",
        "Incidents of the watch, open ones first",
        incidents.incidents,
        (Parameter("state", "all or open"), _FROM),
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
        "/reports", "reports", "Reports that the lake keeps, newest first", reports.reports, (_SEARCH, _FROM)
    ),
    Page("/reports/{report}", "reports", "One report", reports.report),
)
