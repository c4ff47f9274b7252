"""Mutations on a terminal: the ranked lists, and a sentence for each of the best."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from analyze.report import wording
from analyze.report.sections.mutations.mutation_words import explain, list_title, look_first
from schemas.report.mutations import Direction, Mutation, MutationKind, MutationsSection

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
_STYLE = {Direction.INCREASE: "red", Direction.DECREASE: "blue"}


def print_mutations(section: MutationsSection, console: Console) -> None:
    """The lists within the console's width; nothing where there is no mutation."""
    if not section.mutations:
        return
    by_rank = {mutation.rank: mutation for mutation in section.mutations}
    for listed in section.lists:
        members = [by_rank[rank] for rank in listed.ranks]
        title, meaning = list_title(listed)
        console.print(Text(f"\n{title}", style="bold").append(f"  {meaning}", style="not bold dim"))
        console.print(_ranked(members[:LISTED], console.width))
        if len(members) > LISTED:
            console.print(Text(f"and {wording.count(len(members) - LISTED)} more", style="dim"))
    console.print(Text("\nLook first at", style="bold"))
    for mutation in look_first(section, SENTENCES):
        line = Text(wording.visible(f"{mutation.rank}. {mutation.root}"), style="bold")
        line.append(wording.visible(f"  (stored as {_stored(mutation)})"), style="not bold dim")
        line.append(wording.visible(f"  {explain(mutation, section.graphs)}"), style="not bold")
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
        Text(wording.moved_duration(mutation.before.mean_us, mutation.after.mean_us)),
        Text(
            contribution,
            style=_STYLE[mutation.direction] if wording.moves(mutation.contribution_us) else "dim",
        ),
        Text(wording.percent(mutation.share_of_listed)),
    ]
