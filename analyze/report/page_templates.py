"""Templates of a report's page: autoescaped, and a name that is missing fails.

A template lies beside the Python module that fills it, and is called `package:file`. Filters word numbers as
the terminal does.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

from jinja2 import Environment, FunctionLoader, StrictUndefined, Template
from markupsafe import Markup

from analyze.report import wording


def template(package: str, file: str) -> Template:
    """The template `file` of a package. Raises FileNotFoundError."""
    return _environment().get_template(f"{package}:{file}")


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
    environment.globals["durations"] = wording.durations
    environment.filters.update(
        duration=wording.duration,
        moved=wording.moved_duration,
        change=wording.change,
        percent=wording.percent,
        factor=wording.factor,
        p_value=wording.p_value,
        short=wording.short,
        clip=wording.clip,
        count=wording.count,
        number=wording.significant,
        breakable=_breakable,
    )
    return environment


def _source(name: str) -> str:
    package, _, file = name.partition(":")
    return resources.files(package).joinpath(file).read_text(encoding="utf-8")


def _breakable(text: str) -> Markup:
    """A name that may break at the end of a line after its separators."""
    return Markup("<wbr>").join(re.split(r"(?<=[/._:])", wording.visible(text)))


def _visible(value: object) -> object:
    """What a template prints, with control characters made visible; markup of ours as it is."""
    return wording.visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value
