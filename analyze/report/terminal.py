"""A comparison for a terminal of 80 to 120 columns (rich)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from analyze.report import wording
from schemas.report import Comparison, Direction, Mutation, MutationKind

LISTED = 15
"""Mutations in each list; the page and the tables have the rest."""
SENTENCES = 3
STORED = 3
"""Stored categories that a sentence names."""
LEAST_ROOT = 20
"""Columns a root type needs to be told from others."""
ROOT = "root type"
_HEADERS = ("#", "kind", ROOT, "category", "nodes", "requests", "mean", "contribution", "share")
_SPARE = ("share", "nodes", "mean")
"""Columns that go first; never the category, by which everything else is found."""
_JUSTIFY: dict[str, Literal["left", "right"]] = {"kind": "left", ROOT: "left", "category": "left"}
_KIND = {MutationKind.RESPONSE_TIME: "timing", MutationKind.STRUCTURAL: "structure"}
_TITLE = {Direction.INCREASE: "Takes more time", Direction.DECREASE: "Takes less time"}
_STYLE = {Direction.INCREASE: "red", Direction.DECREASE: "blue"}


def print_report(comparison: Comparison, console: Console) -> None:
    """Headline, data-quality notes, ranked list, and a sentence for each of the best results.

    Names are printed as text, never as rich markup; control characters in them are shown, not obeyed.
    """
    console.print(Text(comparison.headline.sentence, style="bold"))
    for name, period in (("Reference", comparison.reference), ("Problem", comparison.problem)):
        where = f" where {period.where}" if period.where else ""
        told = f"{name} {period.text}{where}: {wording.counted(period.requests, 'request')}"
        console.print(Text(wording.visible(told), style="dim"))
    for note in comparison.notes:
        console.print(Text(wording.visible(f"! {note}"), style="yellow"))
    console.print(Text(comparison.verdict_text))
    if not comparison.mutations:
        return
    # The papers' separate lists; the direction of the change has the best ranks and comes first.
    for way in dict.fromkeys(mutation.direction for mutation in comparison.mutations):
        members = [mutation for mutation in comparison.mutations if mutation.direction is way]
        console.print(Text(f"\n{_TITLE[way]}", style="bold"))
        console.print(_ranked(members[:LISTED], console.width))
        if len(members) > LISTED:
            console.print(Text(f"and {wording.count(len(members) - LISTED)} more", style="dim"))
    console.print(Text("\nLook first at", style="bold"))
    for mutation in comparison.mutations[:SENTENCES]:
        line = Text(wording.visible(f"{mutation.rank}. {mutation.root}"), style="bold")
        line.append(wording.visible(f"  (stored as {_stored(mutation)})"), style="not bold dim")
        line.append(wording.visible(f"  {wording.explain(mutation)}"), style="not bold")
        console.print(line)


def _stored(mutation: Mutation) -> str:
    """The lake's categories of a mutation, shortened, as `flowdiff categories` lists them."""
    keys = [wording.short(key) for key in mutation.stored[:STORED]]
    more = mutation.stored_total - len(keys)
    return ", ".join(keys) + (f" and {wording.count(more)} more" if more else "")


def _ranked(mutations: Sequence[Mutation], width: int) -> Table:
    """One list within `width`: root types are clipped; where little would be left of them, columns go."""
    rows = [_cells(mutation) for mutation in mutations]
    headers = [*_HEADERS]
    for name in _SPARE:
        if _room(headers, rows, width) < LEAST_ROOT:
            spare = headers.index(name)
            headers.pop(spare)
            for row in rows:
                row.pop(spare)
    room = max(_room(headers, rows, width), 1)
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    for name in headers:
        table.add_column(name, justify=_JUSTIFY.get(name, "right"), no_wrap=True)
    root = headers.index(ROOT)
    for row in rows:
        row[root] = Text(wording.clip(row[root].plain, room), style=row[root].style)
        table.add_row(*row)
    return table


def _room(headers: Sequence[str], rows: Sequence[Sequence[Text]], width: int) -> int:
    """Columns left for root types by the others, with a blank after each."""
    others = (
        max(len(name), *(len(row[i]) for row in rows)) + 1 for i, name in enumerate(headers) if name != ROOT
    )
    return width - sum(others) - 1


def _cells(mutation: Mutation) -> list[Text]:
    """One row, in the order of `_HEADERS`."""
    contribution = wording.change(mutation.contribution_us)
    return [
        Text(str(mutation.rank)),
        Text(_KIND[mutation.kind]),
        Text(wording.visible(mutation.root)),
        Text(wording.short(mutation.category), style="dim"),
        Text(wording.count(mutation.n_nodes)),
        Text(f"{wording.count(mutation.before.count)} → {wording.count(mutation.after.count)}"),
        Text(f"{wording.duration(mutation.before.mean_us)} → {wording.duration(mutation.after.mean_us)}"),
        Text(
            contribution,
            style=_STYLE[mutation.direction] if wording.moves(mutation.contribution_us) else "dim",
        ),
        Text(wording.percent(mutation.share_of_listed)),
    ]
