"""One self-contained HTML page: no request, every name escaped (jinja2 autoescape and markupsafe).

The page's only style sheet is allowed by its hash, and so is the one script, where a section has any;
everything else is forbidden by the content security policy. The report's JSON rides in an inert script block,
with `<`, `>` and `&` as JSON escapes. What a section says is its own business (`SectionView.blocks`).
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from importlib import resources

from markupsafe import Markup

from analyze.report.page_templates import blocks_html, template
from analyze.report.section_view import Views, warnings
from schemas.report.parts import Section
from schemas.report.report import Report


def render_html(report: Report, views: Views) -> str:
    """The page of a report whose sections all have a view; deterministic.

    Raises jinja2.UndefinedError on a template bug, KeyError for a section without a view.
    """
    shown = [(views[section.section], section) for section in report.sections]
    url = report.trace_url
    blocks = [
        (view, section.method, blocks_html(view.blocks(section), end, 3 if view.aside else 2, url))
        for (view, section), end in zip(shown, _id_ends(report.sections), strict=True)
    ]
    style = resources.files("analyze.report").joinpath("templates", "report.css").read_text(encoding="utf-8")
    style += "".join(view.style for view in dict.fromkeys(view for view, _ in shown))
    script = "\n".join(dict.fromkeys(view.script for view, _ in shown if view.script))
    return template("analyze.report", "templates/page.html.jinja").render(
        r=report,
        before=report.samples[0],
        after=report.samples[1] if report.headline.change is not None else None,
        style=Markup(style),
        style_hash=_csp_hash(style),
        script=Markup(script),
        script_hash=_csp_hash(script),
        json=_inert_json(report),
        warnings=warnings(report, views),
        titles=_titles(report),
        leading={method: block for view, method, block in reversed(blocks) if view.leads},
        blocks=[(method, block) for view, method, block in blocks if not view.aside and not view.leads],
        asides=[(method, block) for view, method, block in blocks if view.aside],
    )


def _id_ends(sections: Iterable[Section]) -> list[str]:
    """What the ids of each section end with, so that none is there twice."""
    seen: dict[str, int] = {}
    ends = []
    for section in sections:
        seen[section.section] = place = seen.get(section.section, 0) + 1
        ends.append("" if place == 1 else f"-{place}")
    return ends


def _titles(report: Report) -> dict[str, str]:
    """Method -> the title over its blocks; none where there is one method."""
    return {method.name: method.title for method in report.methods} if len(report.methods) > 1 else {}


def _csp_hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def _inert_json(report: Report) -> Markup:
    text = report.model_dump_json()
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)
