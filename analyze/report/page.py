"""Self-contained HTML page: no request, every name escaped (jinja2 autoescape and markupsafe).

The content security policy allows the page's only style sheet by its hash, and likewise its one script, if a
section has any; everything else is forbidden. Templates are beside the modules that use them
(`package:file`), an undefined name fails, and control characters in printed values are made visible, in one
place. The report's JSON is in an inert script block, with `<`, `>` and `&` as JSON escapes. The content of a
section comes from its view (`SectionView.blocks`).
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final
from urllib.parse import quote

from jinja2 import Environment, FunctionLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from analyze.report import wording
from analyze.report.blocks import Block, cell, runs
from analyze.report.section_view import Views, first_screen, opening, warnings
from schemas.report.parts import Section
from schemas.report.report import Report
from schemas.trace_urls import TRACE_ID

INDEX_LINK: Final = "../index.html"
"""Address of the list of reports, relative to a report's page in a lake."""
RANK: Final = "RANK"
"""Placeholder in the address of a finding's page, replaced by the finding's rank."""
STYLE: Final = "analyze.report:templates/report.css"


def template(package: str, file: str) -> Template:
    """Load the template `file` of a package. Raises FileNotFoundError."""
    return _environment().get_template(f"{package}:{file}")


def blocks_html(
    blocks: Sequence[Block], end: str, level: int = 2, trace_url: str = "", finding_url: str = ""
) -> Markup:
    """Render blocks as HTML.

    end: suffix appended to every HTML id; level: heading level of the outermost titles; trace_url: as in the
    report; finding_url: address of a finding's page, with RANK in place of its rank.
    """
    made = template("analyze.report", "templates/blocks.html.jinja").render(
        shown=blocks, end=end, level=level, trace_url=trace_url, finding_url=finding_url
    )
    return Markup(made)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(source),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        durations=wording.durations, runs=runs, cell=cell, kind=lambda block: type(block).__name__
    )
    environment.filters.update(
        duration=wording.duration,
        percent=wording.percent,
        count=wording.count,
        capital=lambda text: text[:1].upper() + text[1:],
        breakable=_breakable,
        shown=_shown,
        finding=lambda url, rank: url.replace(RANK, rank, 1),
        trace=lambda url, request_id: url.replace(TRACE_ID, quote(request_id, safe="")),
    )
    return environment


def source(name: str) -> str:
    """Read the text of a file `package:file`."""
    package, _, file = name.partition(":")
    return resources.files(package).joinpath(file).read_text(encoding="utf-8")


_INSTANT = r"\d{4}-\d\d-\d\d(?:T[\d:.]+Z?)?"
_SEPARATORS = re.compile(rf"(?<=[/._:])(?=[^\W\d])|(?<=/)(?={_INSTANT})")
"""Positions in a name where a line may break; never within a number."""
_INSTANTS = re.compile(f"({_INSTANT})")


def _breakable(text: str) -> Markup:
    parts = []
    for piece in _SEPARATORS.split(wording.visible(text)):
        words = [*map(str, map(escape, _INSTANTS.split(piece)))]
        # Every second one is a date, and stays on its line.
        words[1::2] = [f'<span class="whole">{word}</span>' for word in words[1::2]]
        parts += ["".join(words)]
    return Markup("<wbr>".join(parts))


def _shown(markup: Markup) -> Markup:
    """Markup with the control characters in its texts made visible; line ends are kept."""
    return Markup("\n").join(Markup(wording.visible(line)) for line in markup.split("\n"))


def _visible(value: object) -> object:
    """Value as a template prints it: control characters in a str made visible; Markup unchanged."""
    return wording.visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@dataclass(frozen=True, slots=True)
class Frame:
    """Navigation that a server puts around a report's page."""

    top: Markup
    style: str
    """CSS of the navigation."""
    finding_url: str = ""
    """Address of a finding's page, with RANK in place of its rank; empty: findings have no page."""


def page_policy(report: Report, views: Views, frame: Frame | None = None) -> str:
    """Content security policy of a report's page: only its own style sheet and script."""
    script = _script(report, views)
    allowed = f"; script-src '{csp_hash(script)}'" if script else ""
    style = csp_hash(_style(report, views, frame))
    return f"default-src 'none'; style-src '{style}'{allowed}; base-uri 'none'; form-action 'none'"


def _style(report: Report, views: Views, frame: Frame | None) -> str:
    own = dict.fromkeys(views[section.section].style for section in report.sections)
    return "".join((source(STYLE), *own, "" if frame is None else frame.style))


def _script(report: Report, views: Views) -> str:
    own = dict.fromkeys(views[section.section].script for section in report.sections)
    return "\n".join(one for one in own if one)


def render_html(report: Report, views: Views, *, index: str = "", frame: Frame | None = None) -> str:
    """Render the page of a report; deterministic.

    index: address of the list of reports; empty for none. frame: navigation of a server; None for a page that
    is a file. Raises jinja2.UndefinedError on a template bug, KeyError for a section without a view.
    """
    shown = [(views[section.section], section) for section in report.sections]
    url = report.trace_url
    findings = "" if frame is None else frame.finding_url
    blocks = [
        (view, section.method, blocks_html(view.blocks(section), end, 3 if view.aside else 2, url, findings))
        for (view, section), end in zip(shown, _id_ends(report.sections), strict=True)
    ]
    screen = first_screen(report, views)
    script = _script(report, views)
    return template("analyze.report", "templates/page.html.jinja").render(
        r=report,
        before=report.samples[0],
        after=report.samples[1] if report.headline.change is not None else None,
        policy=Markup(page_policy(report, views, frame)),
        top=Markup("") if frame is None else frame.top,
        style=Markup(_style(report, views, frame)),
        script=Markup(script),
        json="" if frame is not None and not script else _inert_json(report),
        screen=screen,
        index=index,
        first=None if screen is None else blocks_html(screen.blocks, "-first", 2, url),
        strip=None if screen is None else blocks_html(screen.over_time, "-strip"),
        picture=None if screen is None else blocks_html(screen.picture, "-picture"),
        notes=[note for note in report.notes if screen is None or note not in screen.said],
        opening=opening(report, views),
        warnings=warnings(report, views),
        titles={method.name: method.title for method in report.methods} if len(report.methods) > 1 else {},
        leading={method: block for view, method, block in reversed(blocks) if view.leads},
        blocks=[(method, block) for view, method, block in blocks if not view.aside and not view.leads],
        asides=[(method, block) for view, method, block in blocks if view.aside],
    )


def _id_ends(sections: Iterable[Section]) -> list[str]:
    """Suffix that makes the ids of each section unique: empty for the first section of a type, then `-2`,
    `-3`, ….
    """
    seen: dict[str, int] = {}
    ends = []
    for section in sections:
        seen[section.section] = place = seen.get(section.section, 0) + 1
        ends.append("" if place == 1 else f"-{place}")
    return ends


def csp_hash(text: str) -> str:
    """Hash of a style sheet or script, in the form that a content security policy expects."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def _inert_json(report: Report) -> Markup:
    text = report.model_dump_json()
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)
