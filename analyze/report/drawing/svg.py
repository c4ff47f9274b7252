"""Write SVG elements: texts and attributes are escaped, lengths rounded to visible digits."""

from __future__ import annotations

from markupsafe import Markup, escape


def px(value: float) -> str:
    """Format a length or coordinate to 0.1 px."""
    return f"{value:.1f}".removesuffix(".0")


def element(tag: str, /, *inside: str, **attributes: str | float) -> Markup:
    """Element with content: str is escaped, Markup is not; self-closing without content.

    attributes: numbers are lengths; a trailing `_` of a name is dropped (`class_`), other `_` become `-`.
    """
    words = ""
    for name, value in attributes.items():
        key = name.removesuffix("_").replace("_", "-")
        words += f' {key}="{escape(value if isinstance(value, str) else px(value))}"'
    if not inside:
        return Markup(f"<{tag}{words}/>")
    return Markup(f"<{tag}{words}>{''.join(map(escape, inside))}</{tag}>")
