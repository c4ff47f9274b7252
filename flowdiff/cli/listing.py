"""Print rows for people: a table as wide as the terminal, or one block per row if it does not fit.

Numbers, times and headings are never cut and columns never dropped. Texts are shortened, with `…`, down to
LEGIBLE cells; if that is not enough, every row becomes a block of `column │ value`. Without a terminal
nothing is shortened, so that programs get everything; COLUMNS sets a width in any case.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from rich.cells import cell_len
from rich.text import Text

from analyze.report.text_table import (
    LEGIBLE,
    Heading,
    Kind,
    broken,
    each,
    fitted_widths,
    padded,
    shortened,
    table_lines,
    wrapped,
)
from flowdiff.cli.terminal import Terminal, echo
from schemas.visible import visible

if TYPE_CHECKING:
    from schemas.quality import Quality

Value = TypeVar("Value", bound=Hashable)

BAR: Final = " │ "


def width_of_output() -> int | None:
    """Width of standard output in terminal cells; None if it is no terminal, i.e. unlimited."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError):
        return None


def print_rows(columns: Sequence[Heading], rows: Sequence[Sequence[str]], width: int | None = None) -> None:
    """Print rows of text, one cell per column, with control characters made visible.

    width: maximum cells of a line; None: `width_of_output`. O(rows); each distinct text of a column is
    checked and laid out once: a year has 100,000 windows, but few distinct numbers.
    """
    named = [Heading(visible(column.name), column.kind) for column in columns]
    shown = [each(visible, texts) for texts in zip(*rows, strict=True)] or [[] for _ in named]
    limit = width_of_output() if width is None else width
    fitted = fitted_widths(named, shown, limit)
    lines = _blocks(named, shown, limit) if fitted is None else table_lines(named, shown, *fitted)
    console = Terminal()
    for line in lines:
        if isinstance(line, str):
            console.file.write(f"{line}\n")
        else:
            # Soft: rich must neither wrap nor cut lines that fit already.
            console.print(line, soft_wrap=True)


def _blocks(columns: Sequence[Heading], texts: Sequence[Sequence[str]], limit: int | None) -> list[Text]:
    """Lines with one block per row; the headings alone if there are no rows.

    Texts are shortened to the width `limit`, numbers may exceed it.
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
                value = broken(cell, room, " " * names + BAR)
            elif column.kind is Kind.TEXT:
                value = shortened(cell, room)
            line = Text(padded(column.name, names, Kind.TEXT), style="bold")
            line.append(BAR, style="not bold dim").append(value, style="not bold")
            lines.append(line)
    return lines


def print_sentence(text: str, style: str = "dim") -> None:
    """Print a line above or below a table, wrapped to the width of the output."""
    limit = width_of_output()
    lines = [visible(text)] if limit is None else wrapped(visible(text), limit)
    console = Terminal()
    for line in lines:
        console.print(Text(line, style=style), soft_wrap=True)


def print_drawing(text: str) -> None:
    """Print lines without wrapping; control characters are made visible."""
    console = Terminal()
    for line in text.splitlines():
        console.print(Text(visible(line)), soft_wrap=True)


def print_flags(flags: Mapping[Quality, int], requests: int) -> None:
    """Print the number of requests with each quality flag, and whether it excludes them from tests.

    Prints nothing if no request has a flag. A request may have several.
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
