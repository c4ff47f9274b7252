"""The account on a terminal: a line a measure, and the places of the mean as a table."""

from __future__ import annotations

from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from analyze.report import wording
from analyze.report.sections.account import account_words as words
from schemas.report.accounts import Account, AccountSection

LISTED = 3
"""Places that are told."""
LEAST_PLACE = 24
"""Columns that a place needs to be told from others."""
_PARTS: Final = ("part", "more calls", "other paths", "slower")


def print_account(section: AccountSection, console: Console) -> None:
    """A sentence a measure that changed, the first with its parts; then the others and the load. Places of
    the first where no finding names them."""
    console.print()
    changed = [account for account in section.accounts if account.changed]
    for account in changed:
        line = Text(wording.visible(words.sentence(account)))
        if account is changed[0]:
            line.append(wording.visible(f" {words.parts(account)}"), style="dim")
        console.print(line)
    calm = [words.sentence(account) for account in section.accounts if not account.changed]
    console.print(Text(wording.visible(" ".join((*calm, words.load(section)))), style="dim"))
    if changed and all(row.finding is None for row in changed[0].rows):
        console.print(_places(changed[0], console.width))


def _places(account: Account, width: int) -> Table:
    """The waterfall within `width`: names are clipped, columns without a part left out."""
    lines = words.lines(account, LISTED)
    cells = [
        [words.part(account, amount) for amount in (line.total, line.calls, line.structure, line.slower)]
        for line in lines
    ]
    kept = [i for i in range(len(_PARTS)) if i == 0 or any(row[i] for row in cells)]
    while len(kept) > 1 and _room(kept, cells, width) < LEAST_PLACE:
        kept.pop()
    room = max(_room(kept, cells, width), 1)
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    title = f"{words.title(account)} by place"
    table.add_column(title if len(title) <= room else "Place"[:room], no_wrap=True)
    for i in kept:
        # Of its own width whatever the room is: a name can be clipped, a number cannot.
        table.add_column(_PARTS[i], justify="right", no_wrap=True, min_width=_wide(i, cells))
    for line, row in zip(lines, cells, strict=True):
        name = line.text if line.row is None else line.row.site.text
        shown = Text(wording.clip(wording.visible(name), room), style="dim" if line.row is None else "")
        table.add_row(shown, *(Text(row[i]) for i in kept))
    return table


def _room(kept: list[int], cells: list[list[str]], width: int) -> int:
    """Columns left for the places, a blank after each of the others."""
    return width - sum(_wide(i, cells) + 1 for i in kept) - 1


def _wide(i: int, cells: list[list[str]]) -> int:
    """Columns that a part and its numbers take."""
    return max(len(_PARTS[i]), *(len(row[i]) for row in cells))
