"""A comparison for a terminal of 80 to 120 columns (rich)."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from analyze.report import wording
from schemas.report import Comparison, Direction, Mutation, MutationKind

LISTED = 15
"""Mutations in each list; the page and the tables have the rest."""
SENTENCES = 3
_KIND = {MutationKind.RESPONSE_TIME: "timing", MutationKind.STRUCTURAL: "structure"}
_TITLE = {Direction.INCREASE: "Takes more time", Direction.DECREASE: "Takes less time"}
_STYLE = {Direction.INCREASE: "red", Direction.DECREASE: "blue"}


def print_report(comparison: Comparison, console: Console) -> None:
    """Headline, data-quality notes, ranked list, and a sentence for each of the best results.

    Names are printed as text, never as rich markup.
    """
    console.print(Text(comparison.headline.sentence, style="bold"))
    for name, period in (("Reference", comparison.reference), ("Problem", comparison.problem)):
        where = f" where {period.where}" if period.where else ""
        told = f"{name} {period.text}{where}: {wording.counted(period.requests, 'request')}"
        console.print(Text(told, style="dim"))
    for note in comparison.notes:
        console.print(Text(f"! {note}", style="yellow"))
    console.print(Text(comparison.verdict_text))
    if not comparison.mutations:
        return
    # The papers' separate lists; the one with the best result first.
    for way in dict.fromkeys(mutation.direction for mutation in comparison.mutations):
        members = [mutation for mutation in comparison.mutations if mutation.direction is way]
        console.print(Text(f"\n{_TITLE[way]}", style="bold"))
        console.print(_ranked(members[:LISTED], console.width))
        if len(members) > LISTED:
            console.print(Text(f"and {wording.count(len(members) - LISTED)} more", style="dim"))
    console.print(Text("\nLook first at", style="bold"))
    for mutation in comparison.mutations[:SENTENCES]:
        line = Text(f"{mutation.rank}. {mutation.root}", style="bold")
        line.append(f"  {wording.explain(mutation)}", style="not bold")
        console.print(line)


def _ranked(mutations: Sequence[Mutation], width: int) -> Table:
    """One list; the category is left out where the terminal is narrow."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("kind", no_wrap=True)
    table.add_column("root type", ratio=1, no_wrap=True, overflow="ellipsis")
    if width >= 100:
        table.add_column("category", no_wrap=True)
    for name in ("nodes", "requests", "mean", "contribution"):
        table.add_column(name, justify="right", no_wrap=True)
    for mutation in mutations:
        table.add_row(*_cells(mutation, width))
    return table


def _cells(mutation: Mutation, width: int) -> list[Text]:
    style = _STYLE[mutation.direction]
    cells = [
        Text(str(mutation.rank)),
        Text(_KIND[mutation.kind]),
        Text(mutation.root),
        Text(wording.count(mutation.n_nodes)),
        Text(f"{wording.count(mutation.before.count)} → {wording.count(mutation.after.count)}"),
        Text(f"{wording.duration(mutation.before.mean_us)} → {wording.duration(mutation.after.mean_us)}"),
        Text(
            f"{wording.change(mutation.contribution_us)} {wording.percent(mutation.share_of_listed)}",
            style=style,
        ),
    ]
    if width >= 100:
        cells.insert(3, Text(wording.short(mutation.category), style="dim"))
    return cells
