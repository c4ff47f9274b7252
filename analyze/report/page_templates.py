"""Templates of a report's page: autoescaped, and a name that is missing fails.

A template lies beside the Python module that fills it, and is called `package:file`. What a template prints
has its control characters shown here, in one place; markup of ours stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib import resources
from urllib.parse import quote

from jinja2 import Environment, FunctionLoader, StrictUndefined, Template
from markupsafe import Markup

from analyze.report import wording
from analyze.report.blocks import Block, cell, runs
from schemas.trace_urls import TRACE_ID


def template(package: str, file: str) -> Template:
    """The template `file` of a package. Raises FileNotFoundError."""
    return _environment().get_template(f"{package}:{file}")


def blocks_html(blocks: Sequence[Block], end: str, level: int = 2, trace_url: str = "") -> Markup:
    """Blocks as HTML: `end` ends every id, `level` is of the outermost headings; trace_url: of the report."""
    made = template("analyze.report", "templates/blocks.html.jinja").render(
        shown=blocks, end=end, level=level, trace_url=trace_url
    )
    return Markup(made)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_source),
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
        trace=lambda url, request_id: url.replace(TRACE_ID, quote(request_id, safe="")),
    )
    return environment


def _source(name: str) -> str:
    package, _, file = name.partition(":")
    return resources.files(package).joinpath(file).read_text(encoding="utf-8")


_SEPARATORS = re.compile(r"(?<=[/._:])(?=[^\W\d])")
"""After these a name may break at the end of a line; a number never does."""


def _breakable(text: str) -> Markup:
    return Markup("<wbr>").join(_SEPARATORS.split(wording.visible(text)))


def _shown(markup: Markup) -> Markup:
    """A drawing with the control characters of its texts made visible; its own line ends stay."""
    return Markup("\n").join(Markup(wording.visible(line)) for line in markup.split("\n"))


def _visible(value: object) -> object:
    """What a template prints, with control characters made visible; markup of ours as it is."""
    return wording.visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value
