"""Clusters on a terminal, within its width."""

from __future__ import annotations

from typing import Final

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from analyze.report import wording
from analyze.report.sections.clusters import clusters_words as words
from schemas.report.clusters import ClusterRow, ClustersSection, OverlayNode, TreeOverlayRow

CLUSTERS: Final = 12
MARKED: Final = 6
"""Clusters whose marks are told."""
OVERLAYS: Final = 3
NODES: Final = 4
"""Coloured nodes told of an overlay."""
_INDENT: Final = (0, 0, 0, 3)


def print_clusters(section: ClustersSection, console: Console) -> None:
    """Groups, where their trees differ, how far to trust them."""
    console.print()
    console.print(_table(section))
    left = section.clusters_total - min(len(section.clusters), CLUSTERS)
    if left:
        console.print(Text(f"and {wording.counted(left, 'more cluster')}", style="dim"))
    for cluster in section.clusters[:MARKED]:
        if words.marks(cluster):
            marks = Text(wording.visible(f"{cluster.number}: {words.marks(cluster)}"), style="dim")
            console.print(Padding(marks, _INDENT, expand=False))
    told = [row for row in section.overlays if row.first is not None][:OVERLAYS]
    for row in told:
        _overlay(row, console)
    console.print()
    for line in (
        f"By {words.FEATURES[section.features]} ({section.style}): "
        f"{wording.counted(section.requests, 'request')}, {wording.count(section.rows)} distinct, "
        f"{section.dimensions} dimensions.",
        f"Done again, adjusted Rand: other centres {words.mean_rand(section.reseeded)}, "
        f"halves {words.mean_rand(section.halved)}. "
        f"Against {wording.counted(section.categories, 'category', 'categories')}: "
        f"{section.rand_categories:.2f}.",
    ):
        console.print(Text(wording.visible(line), style="dim"))


def _table(section: ClustersSection) -> Table:
    changes = any(row.changed for row in section.clusters)
    table = Table(box=None, pad_edge=False, title="Clusters", title_justify="left", title_style="bold")
    table.add_column("", justify="right")
    table.add_column("root type", ratio=1, overflow="fold")
    for name in ("requests", "of root", "mean"):
        table.add_column(name, justify="right", no_wrap=True)
    if changes:
        table.add_column("changed", no_wrap=True)
    for row in section.clusters[:CLUSTERS]:
        cells = [str(row.number), wording.visible(row.root), *_numbers(row)]
        if changes:
            cells.append(f"yes {words.came_from(row)}".strip() if row.changed else "")
        table.add_row(*(Text(cell) for cell in cells))
    return table


def _numbers(row: ClusterRow) -> tuple[str, str, str]:
    mean = wording.moved_duration(*row.mean_us) if len(row.mean_us) == 2 else wording.duration(row.mean_us[0])
    return " → ".join(wording.count(n) for n in row.requests), words.changed_share(row), mean


def _overlay(row: TreeOverlayRow, console: Console) -> None:
    console.print()
    console.print(Text(wording.visible(words.overlay_title(row)), style="bold"))
    coloured = sorted((node for node in row.nodes if node.shade), key=lambda node: -abs(node.added_us))
    for node in coloured[:NODES]:
        console.print(Padding(_node(node), _INDENT, expand=False))


def _node(node: OverlayNode) -> Text:
    told = Text(wording.visible(words.place(node)))
    told.append(f"  {words.difference(node)}", style="bold")
    return told.append(
        wording.visible(
            f"  {words.passing(node)}  {wording.moved_duration(node.mean_a_us, node.mean_b_us)}"
            f"  {wording.change(node.added_us)}"
        ),
        style="dim",
    )
