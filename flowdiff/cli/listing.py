"""Print rows for people: a table as wide as the terminal, or one block a row where it does not fit.

Numbers, times and headings are never cut and columns never dropped. Texts are shortened, with `…`, down to
LEGIBLE cells; where that is not enough every row becomes a block of `column │ value`. Without a terminal
nothing is shortened, so that programs get everything; COLUMNS sets a width in any case.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from flowdiff.cli.terminal import Terminal, echo
from schemas.visible import visible

if TYPE_CHECKING:
    from schemas.quality import Quality

Value = TypeVar("Value", bound=Hashable)

LEGIBLE: Final = 12
"""Cells that a text is shortened to, at least."""
LEGIBLE_PROSE: Final = 30
"""Width of a sentence, at least; it is wrapped instead of being cut."""
GAPS: Final = (2, 1)
"""Blanks between columns: usually, and where space is short."""
BAR: Final = " │ "


class Kind(Enum):
    """Kind of a column: the ways in which its values may be shortened."""

    NUMBER = "number"
    """Right-aligned, never cut."""
    EXACT = "exact"
    """Times, keys: never cut."""
    TEXT = "text"
    """May end in `…`."""
    WORDS = "words"
    """May end in `…` in a table; is broken into lines where a row is a block."""
    PROSE = "prose"
    """May be wrapped. The last column only."""


@dataclass(frozen=True, slots=True)
class Heading:
    """Name and kind of a column."""

    name: str
    kind: Kind = Kind.TEXT


def width_of_output() -> int | None:
    """Cells of a line on standard output; None without a terminal: unlimited."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError):
        return None


def print_rows(columns: Sequence[Heading], rows: Sequence[Sequence[str]], width: int | None = None) -> None:
    """Print rows of text, one cell a column; control characters are shown, not executed.

    width: cells of a line; None: `width_of_output`. O(rows), and each distinct text of a column is checked
    and laid out once: a year has 100,000 windows, but few distinct numbers.
    """
    named = [Heading(visible(column.name), column.kind) for column in columns]
    shown = [each(visible, texts) for texts in zip(*rows, strict=True)] or [[] for _ in named]
    limit = width_of_output() if width is None else width
    fitted = fitted_widths(named, shown, limit)
    lines = _blocks(named, shown, limit) if fitted is None else _table(named, shown, *fitted)
    console = Terminal()
    for line in lines:
        if isinstance(line, str):
            console.file.write(f"{line}\n")
        else:
            # Soft: rich must neither wrap nor cut lines that fit already.
            console.print(line, soft_wrap=True)


def each(word: Callable[[Value], str], values: Sequence[Value]) -> list[str]:
    """Texts of the values of a column, computed once for equal values."""
    made = {value: word(value) for value in set(values)}
    return [made[value] for value in values]


def _width(text: str) -> int:
    """Cells of a text; `cell_len` takes five times as long for ASCII."""
    return len(text) if text.isascii() else cell_len(text)


def fitted_widths(
    columns: Sequence[Heading], texts: Sequence[Sequence[str]], limit: int | None
) -> tuple[list[int], int] | None:
    """(Cells of each column of `texts`, cells of the gaps) of lines of at most `limit` cells; None if
    impossible.
    """
    natural = [max(map(_width, {column.name, *of})) for column, of in zip(columns, texts, strict=True)]
    if limit is None:
        return natural, GAPS[0]
    least = [min(wide, _least(column)) for column, wide in zip(columns, natural, strict=True)]
    for gap in GAPS:
        room = limit - gap * (len(columns) - 1)
        if sum(least) <= room:
            return _capped(least, natural, room), gap
    return None


def _capped(least: Sequence[int], natural: Sequence[int], room: int) -> list[int]:
    """Widths under the largest cap that fits, not below the minimal ones: the widest columns are shortened
    first.
    """
    cap = max(natural, default=0)
    while sum(max(low, min(wide, cap)) for low, wide in zip(least, natural, strict=True)) > room:
        cap -= 1
    return [max(low, min(wide, cap)) for low, wide in zip(least, natural, strict=True)]


def _least(column: Heading) -> int:
    """Minimal cells of a column."""
    if column.kind in (Kind.TEXT, Kind.WORDS):
        return max(LEGIBLE, cell_len(column.name))
    return max(LEGIBLE_PROSE, cell_len(column.name)) if column.kind is Kind.PROSE else sys.maxsize


def _table(
    columns: Sequence[Heading], texts: Sequence[Sequence[str]], widths: Sequence[int], gap: int
) -> list[Text | str]:
    """Lines of the headings and the rows; a row with a wrapped sentence is one text of several lines."""
    indent = " " * (sum(widths[:-1]) + gap * (len(widths) - 1))
    cells = [
        each(
            partial(_broken, width=wide, indent=indent)
            if column.kind is Kind.PROSE
            else partial(_padded, width=wide, kind=column.kind),
            of_column,
        )
        for column, wide, of_column in zip(columns, widths, texts, strict=True)
    ]
    names = [_padded(column.name, wide, column.kind) for column, wide in zip(columns, widths, strict=True)]
    blank = " " * gap
    # All rows in one text: rich takes 90 µs a text even without any markup.
    rows = "\n".join([blank.join(row).rstrip(" ") for row in zip(*cells, strict=True)])
    return [Text(blank.join(names).rstrip(" "), style="bold"), *([rows] if texts[:1] != [[]] else [])]


def shortened(text: str, width: int) -> str:
    """`text` in at most `width` cells; `…` replaces the middle, as names differ at either end."""
    if _width(text) <= width:
        return text
    head = set_cell_size(text, width // 2).rstrip(" ")
    # Take the end of the reversed text: `set_cell_size` cuts at the right.
    tail = set_cell_size(text[::-1], width - width // 2 - 1).rstrip(" ")[::-1]
    return f"{head}…{tail}"


def _padded(text: str, width: int, kind: Kind) -> str:
    """`text` in `width` cells; numbers are right-aligned and never cut."""
    if kind is Kind.NUMBER:
        return " " * (width - _width(text)) + text
    short = shortened(text, width)
    return short + " " * (width - _width(short))


def _broken(text: str, width: int, indent: str) -> str:
    return f"\n{indent}".join(_wrapped(text, width))


def _wrapped(text: str, width: int) -> list[str]:
    """Lines of at most `width` cells of a sentence, broken between words."""
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if cell_len(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines if lines[0] else lines[1:] or [""]


def _blocks(columns: Sequence[Heading], texts: Sequence[Sequence[str]], limit: int | None) -> list[Text]:
    """One block a row; without rows, the headings.

    Texts are shortened, numbers may exceed the line.
    """
    names = max((cell_len(column.name) for column in columns), default=0)
    if limit is not None:
        names = min(names, max(LEGIBLE, limit // 2))
    room = sys.maxsize if limit is None else max(LEGIBLE, limit - names - len(BAR))
    rows = [*zip(*texts, strict=True)]
    lines: list[Text] = [] if rows else [Text(column.name, style="bold") for column in columns]
    for number, row in enumerate(rows, 1):
        lines.append(Text(f"── row {number} ".ljust(min(limit or 40, 40), "─"), style="dim"))
        for column, cell in zip(columns, row, strict=True):
            value = cell
            if column.kind in (Kind.WORDS, Kind.PROSE):
                value = _broken(cell, room, " " * names + BAR)
            elif column.kind is Kind.TEXT:
                value = shortened(cell, room)
            line = Text(_padded(column.name, names, Kind.TEXT), style="bold")
            line.append(BAR, style="not bold dim").append(value, style="not bold")
            lines.append(line)
    return lines


def print_sentence(text: str, style: str = "dim") -> None:
    """Print a line beside a table, wrapped to the width of the output."""
    limit = width_of_output()
    lines = [visible(text)] if limit is None else _wrapped(visible(text), limit)
    console = Terminal()
    for line in lines:
        console.print(Text(line, style=style), soft_wrap=True)


def print_drawing(text: str) -> None:
    """Print aligned lines without wrapping; control characters are shown, not executed."""
    console = Terminal()
    for line in text.splitlines():
        console.print(Text(visible(line)), soft_wrap=True)


def print_flags(flags: Mapping[Quality, int], requests: int) -> None:
    """Print the number of requests with each quality flag, and its relevance.

    Nothing if no request has a flag. A request may have several.
    """
    from analyze.report.wording import count, percent
    from schemas.quality import MEANINGS, UNTESTABLE

    if not flags:
        return
    out = sum(n for flag, n in flags.items() if flag & UNTESTABLE)
    calm = "none of them keeps a request out of tests" if out == 0 else "some keep requests out of tests"
    echo()
    print_sentence(f"Flags on requests ({calm}):", style="bold")
    columns = [
        Heading("flag", Kind.EXACT),
        Heading("requests", Kind.NUMBER),
        Heading("share", Kind.NUMBER),
        Heading("meaning", Kind.PROSE),
    ]
    rows = [
        [str(flag.name), count(n), percent(n / requests), MEANINGS[flag]]
        for flag, n in sorted(flags.items(), key=lambda item: -item[1])
    ]
    print_rows(columns, rows)
