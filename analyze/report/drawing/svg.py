"""Write SVG, element by element: texts and attributes are escaped, lengths have the digits that are seen."""

from __future__ import annotations

from markupsafe import Markup, escape


def px(value: float) -> str:
    """Write a length, or a coordinate, with as many digits as can be seen."""
    return f"{value:.1f}".removesuffix(".0")


def element(tag: str, /, *inside: str, **attributes: str | float) -> Markup:
    """Write an element with what is inside it: text, or markup as it is; closed at once where nothing is.

    attributes: numbers are lengths; of a name a last `_` goes (`class_`), others are `-`.
    """
    words = ""
    for name, value in attributes.items():
        key = name.removesuffix("_").replace("_", "-")
        words += f' {key}="{escape(value if isinstance(value, str) else px(value))}"'
    if not inside:
        return Markup(f"<{tag}{words}/>")
    return Markup(f"<{tag}{words}>{''.join(map(escape, inside))}</{tag}>")
