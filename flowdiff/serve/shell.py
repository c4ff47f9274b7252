"""Frame of every page: navigation at the top, one style sheet, no script except the one for choosing periods.

An answer is rendered as HTML by the renderer of reports, or as JSON.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from markupsafe import Markup

from analyze.report.blocks import Details, Styled, Text
from analyze.report.page import STYLE, blocks_html, source, template
from flowdiff.serve.answer import Answer
from flowdiff.serve.links import Links

TEMPLATES: Final = "flowdiff.serve"
_OWN_STYLE: Final = "flowdiff.serve:static/serve.css"
_SCRIPT: Final = "flowdiff.serve:static/brush.js"
POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
"""Default content security policy of the server."""


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file served under a name that changes with its content."""

    name: str
    kind: str
    body: bytes


@cache
def own_style() -> str:
    """CSS of the shell; pages of reports have it in addition to their own style."""
    return source(_OWN_STYLE)


@cache
def static_files() -> dict[str, StaticFile]:
    """Name without hash -> static file: the style sheet, and the script for choosing periods with a
    pointer.
    """
    texts = {
        "style.css": ("text/css; charset=utf-8", source(STYLE) + own_style()),
        "brush.js": ("text/javascript; charset=utf-8", source(_SCRIPT)),
    }
    found = {}
    for name, (kind, text) in texts.items():
        body = text.encode()
        stem, _, end = name.partition(".")
        found[name] = StaticFile(f"{stem}-{hashlib.sha256(body).hexdigest()[:12]}.{end}", kind, body)
    return found


@dataclass(frozen=True, slots=True)
class Tab:
    """Entry of the navigation: path of its page, and title."""

    name: str
    title: str


@dataclass(frozen=True, slots=True)
class Shell:
    """Renders answers as pages of one lake, below one base path."""

    lake: str
    links: Links
    tabs: Sequence[Tab]

    def page(self, answer: Answer, tab: str = "") -> str:
        """HTML page of an answer. tab: name of the page's navigation entry."""
        files = static_files()
        return self.rendered(
            "shell.html.jinja",
            title=answer.title,
            lake=self.lake,
            top=self.top(tab),
            above=answer.above,
            below=answer.below,
            blocks=blocks_html(answer.blocks, "", 2, answer.trace_url),
            style=self.links.to("static", files["style.css"].name),
            script=self.links.to("static", files["brush.js"].name) if answer.script else "",
            refresh_seconds=answer.refresh_seconds,
        )

    def top(self, tab: str = "") -> Markup:
        """HTML of the navigation bar, also used above reports. tab: name of the current entry."""
        return self.rendered("top.html.jinja", tabs=self.tabs, current=tab, lake=self.lake)

    def rendered(self, name: str, **values: Any) -> Markup:
        """Render a template of the shell."""
        made = template(TEMPLATES, f"templates/{name}").render(link=self.links.to, **values)
        return Markup(made)

    def same_in_sql(self, query: str, period: str = "") -> Details:
        """Folded block with the SQL query of a page, and a link that runs it."""
        run = Styled("Run it", href=self.links.to("sql", q=query, period=period))
        return Details("The same in SQL", (Text(query, "pre"), Text(run)))


def json_of(data: Any) -> bytes:
    """Encode an answer's data as indented JSON; models become objects of their fields."""
    return json.dumps(data, indent=1, default=_plain).encode() + b"\n"


def _plain(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return str(value)
