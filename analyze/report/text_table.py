"""Tables as lines of text: one renderer for listings and for the tables of a report on a terminal.

Numbers, times and headings are never cut. Texts are shortened, with `…` in the middle, as names differ at
either end. Cells are plain strings, or styled ones, which are many times slower.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Final, TypeVar

from rich.cells import cell_len, set_cell_size
from rich.text import Text

Value = TypeVar("Value", bound=Hashable)

LEGIBLE: Final = 12
"""Minimum width of a shortened text, in terminal cells."""
LEGIBLE_PROSE: Final = 30
"""Minimum width of a sentence, in terminal cells; a sentence is wrapped and never cut."""
GAPS: Final = (2, 1)
"""Numbers of blanks between two columns: (usual, where space is short)."""


class Kind(Enum):
    """Kind of a column, which decides how its values may be shortened."""

    NUMBER = "number"
    """Number, aligned right and never cut."""
    EXACT = "exact"
    """Time or key, never cut."""
    TEXT = "text"
    """Text that may be shortened with `…`."""
    WORDS = "words"
    """Text that may be shortened with `…` in a table, but is wrapped if a row is printed as a block."""
    PROSE = "prose"
    """Sentence that may be wrapped; for the last column only."""


@dataclass(frozen=True, slots=True)
class Heading:
    """Heading of a column, and how the column's values may be shortened."""

    name: str
    kind: Kind = Kind.TEXT


def each(word: Callable[[Value], str], values: Sequence[Value]) -> list[str]:
    """[rows] texts of a column's values; `word` is applied once per distinct value."""
    made = {value: word(value) for value in set(values)}
    return [made[value] for value in values]


def width_of(text: str) -> int:
    """Width of a text in terminal cells; for ASCII five times as fast as `cell_len`."""
    return len(text) if text.isascii() else cell_len(text)


def fitted_widths(
    columns: Sequence[Heading], texts: Sequence[Sequence[str]], limit: int | None
) -> tuple[list[int], int] | None:
    """(width of each column, width of the gaps), in terminal cells, for lines of at most `limit` cells; None
    if the columns do not fit.
    """
    natural = [max(map(width_of, {column.name, *of})) for column, of in zip(columns, texts, strict=True)]
    if limit is None:
        return natural, GAPS[0]
    least = [min(wide, _least(column)) for column, wide in zip(columns, natural, strict=True)]
    for gap in GAPS:
        room = limit - gap * (len(columns) - 1)
        if sum(least) <= room:
            return _capped(least, natural, room), gap
    return None


def _capped(least: Sequence[int], natural: Sequence[int], room: int) -> list[int]:
    """Column widths whose sum is at most `room`: the natural ones, cut at a common maximum (but not below
    `least`).

    So the widest columns are shortened first.
    """
    cap = max(natural, default=0)
    while sum(max(low, min(wide, cap)) for low, wide in zip(least, natural, strict=True)) > room:
        cap -= 1
    return [max(low, min(wide, cap)) for low, wide in zip(least, natural, strict=True)]


def _least(column: Heading) -> int:
    """Minimum width of a column, in terminal cells; sys.maxsize if its values may not be shortened."""
    if column.kind in (Kind.TEXT, Kind.WORDS):
        return max(LEGIBLE, cell_len(column.name))
    return max(LEGIBLE_PROSE, cell_len(column.name)) if column.kind is Kind.PROSE else sys.maxsize


def table_lines(
    columns: Sequence[Heading], texts: Sequence[Sequence[str]], widths: Sequence[int], gap: int
) -> list[Text | str]:
    """Lines of a table: one text for the headings, and one with all rows and line ends."""
    indent = " " * (sum(widths[:-1]) + gap * (len(widths) - 1))
    cells = [
        each(
            partial(broken, width=wide, indent=indent)
            if column.kind is Kind.PROSE
            else partial(padded, width=wide, kind=column.kind),
            of_column,
        )
        for column, wide, of_column in zip(columns, widths, texts, strict=True)
    ]
    names = [padded(column.name, wide, column.kind) for column, wide in zip(columns, widths, strict=True)]
    blank = " " * gap
    # All rows in one text: rich takes 90 µs a text even without any markup.
    rows = "\n".join([blank.join(row).rstrip(" ") for row in zip(*cells, strict=True)])
    return [Text(blank.join(names).rstrip(" "), style="bold"), *([rows] if texts[:1] != [[]] else [])]


def shortened(text: str, width: int) -> str:
    """Shorten text to at most `width` cells; `…` replaces the middle, as names differ at either end."""
    if width_of(text) <= width:
        return text
    head = set_cell_size(text, width // 2).rstrip(" ")
    # Take the end of the reversed text: `set_cell_size` cuts at the right.
    tail = set_cell_size(text[::-1], width - width // 2 - 1).rstrip(" ")[::-1]
    return f"{head}…{tail}"


def padded(text: str, width: int, kind: Kind) -> str:
    """Pad text to `width` cells, shortened if needed; numbers are right-aligned and never cut."""
    if kind is Kind.NUMBER:
        return " " * (width - width_of(text)) + text
    short = shortened(text, width)
    return short + " " * (width - width_of(short))


def broken(text: str, width: int, indent: str) -> str:
    """Text wrapped to lines of at most `width` cells; every line but the first begins with `indent`."""
    return f"\n{indent}".join(wrapped(text, width))


def wrapped(text: str, width: int) -> list[str]:
    """Lines of at most `width` cells, broken between words."""
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if cell_len(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines if lines[0] else lines[1:] or [""]


def styled_lines(
    columns: Sequence[Heading], cells: Sequence[Sequence[Text]], styles: Sequence[str], *, head: str
) -> list[Text]:
    """Lines of the headings, in style `head`, and of the rows, each in its style; nothing is shortened.

    cells: [columns][rows]; styles: [rows], in rich's notation.
    """
    widths = [
        max([width_of(column.name), *(cell.cell_len for cell in of)])
        for column, of in zip(columns, cells, strict=True)
    ]

    def line(row: Sequence[Text], style: str) -> Text:
        made = Text(style=style, no_wrap=True, overflow="ellipsis")
        for number, (cell, column, width) in enumerate(zip(row, columns, widths, strict=True)):
            blanks = " " * (width - cell.cell_len)
            made.append(" " * bool(number) + blanks * (column.kind is Kind.NUMBER)).append_text(cell)
            made.append(blanks * (column.kind is not Kind.NUMBER))
        return made

    names = [Text(column.name) for column in columns]
    return [
        line(names, head),
        *(line(row, s) for row, s in zip(zip(*cells, strict=True), styles, strict=True)),
    ]
