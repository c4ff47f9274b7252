"""A table for a terminal: names at the left, clipped to what is left, and columns of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from analyze.report import wording

LEAST_NAME: Final = 20
"""Columns of a name; where there is less room, columns of numbers are left out from the right."""


def print_name_table(
    console: Console, title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]
) -> None:
    """A name, clipped to what is left, and columns of numbers; columns that hold nothing are left out."""
    kept = [i for i in range(len(heads)) if any(row[i + 1] for row in rows)]
    widths = {i: max([len(heads[i]), *(len(row[i + 1]) for row in rows)]) for i in kept}
    while len(kept) > 1 and console.width - sum(widths[i] + 1 for i in kept) < LEAST_NAME:
        kept.pop()
    room = max(console.width - sum(widths[i] + 1 for i in kept) - 1, 1)
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column(wording.clip(title, room), no_wrap=True)
    for i in kept:
        table.add_column(heads[i], justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            Text(wording.clip(wording.visible(row[0]), room)),
            *(Text(wording.visible(row[i + 1])) for i in kept),
        )
    console.print(table)
