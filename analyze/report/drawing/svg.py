"""Write SVG, element by element: texts and attributes are escaped, lengths have visible digits only."""

from __future__ import annotations

from markupsafe import Markup, escape


def px(value: float) -> str:
    """Write a length or a coordinate without invisible digits."""
    return f"{value:.1f}".removesuffix(".0")


def element(tag: str, /, *inside: str, **attributes: str | float) -> Markup:
    """Write an element around its content: text is escaped, markup is not; without content it is
    self-closing.

    attributes: numbers are lengths; a trailing `_` of a name is dropped (`class_`), other `_` become `-`.
    """
    words = ""
    for name, value in attributes.items():
        key = name.removesuffix("_").replace("_", "-")
        words += f' {key}="{escape(value if isinstance(value, str) else px(value))}"'
    if not inside:
        return Markup(f"<{tag}{words}/>")
    return Markup(f"<{tag}{words}>{''.join(map(escape, inside))}</{tag}>")
