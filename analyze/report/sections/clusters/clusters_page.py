"""Clusters on the page: the groups, the choice of their number, distances, trees on each other.

`CLUSTERS` is the section's view, on the page and on a terminal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from importlib import resources
from typing import Final

from markupsafe import Markup

from analyze.report.drawing.distance_matrix import draw_distances
from analyze.report.drawing.score_curve import CurveDot, draw_score_curve
from analyze.report.page_templates import template
from analyze.report.section_view import SectionView
from analyze.report.sections.clusters import clusters_words as words
from analyze.report.sections.clusters.clusters_terminal import print_clusters
from schemas.report.clusters import ClusterRow, ClustersSection, OverlayNode, TreeOverlayRow

_PACKAGE: Final = "analyze.report.sections.clusters"
OPEN: Final = 2
"""Overlays that are open."""
LISTED: Final = 12
STEMS: Final = 6
"""Widths of a branch."""


@dataclass(slots=True)
class TreeItem:
    """A row of a drawn tree."""

    node: OverlayNode
    place: int
    stem: int
    """1 to STEMS by the requests that pass."""
    lists: list[list[TreeItem]] = field(default_factory=list)
    """What is drawn below, a list a branch; of a chain of steps that does not fork none: it goes on in the
    same list."""


def clusters_html(section: ClustersSection, end: str) -> Markup:
    """The section's block of the page; `end` ends every id."""
    first = listed(section)
    order = sorted(range(len(section.clusters)), key=lambda i: (section.clusters[i].root, i))
    return Markup(
        template(_PACKAGE, "clusters.html.jinja").render(
            s=section,
            end=end,
            words=words,
            two=len(section.samples) == 2,
            largest=max((max(row.shares) for row in section.clusters), default=1.0) or 1.0,
            opened=OPEN,
            changes=any(row.changed for row in section.clusters),
            first=first,
            rest=[row for row in section.clusters if row not in first],
            drawn=[(row, tree_lists(row)) for row in section.overlays],
            curve=draw_score_curve(
                [CurveDot(point.k, point.score, point.se) for point in section.curve],
                section.clusters_total,
                "number of clusters",
                "Simplified silhouette by number of clusters",
            ),
            apart=draw_distances(
                [str(section.clusters[i].number) for i in order],
                [[section.apart[i][j] for j in order] for i in order],
                "Distances between the centres of clusters",
            ),
        )
    )


def listed(section: ClustersSection) -> list[ClusterRow]:
    """Clusters that are listed at once, by number: those that changed, then the largest."""
    wanted = sorted(section.clusters, key=lambda row: (not row.changed, row.number))[:LISTED]
    return sorted(wanted, key=lambda row: row.number)


def tree_lists(row: TreeOverlayRow) -> list[list[TreeItem]]:
    """The rows of an overlay as nested lists: calls below their callers, steps below each other."""
    items = [TreeItem(node, place, _stem(node)) for place, node in enumerate(row.nodes)]
    children: dict[int, list[TreeItem]] = {}
    for item in items:
        children.setdefault(item.node.above, []).append(item)
    roots = children.get(-1, [])
    if row.calls:
        for item in items:
            below = children.get(item.place, [])
            item.lists = [below] if below else []
        return [roots]
    return [_chain(root, children) for root in roots]


def _chain(item: TreeItem, children: dict[int, list[TreeItem]]) -> list[TreeItem]:
    """Steps up to the next fork, whose last row has a list a branch."""
    chain = [item]
    while len(below := children.get(chain[-1].place, [])) == 1:
        chain += below
    chain[-1].lists = [_chain(child, children) for child in below]
    return chain


def _stem(node: OverlayNode) -> int:
    visits = max(node.visits_a, node.visits_b)
    return max(1, min(STEMS, round(STEMS * math.sqrt(min(visits, 1.0)))))


CLUSTERS: Final = SectionView(
    ClustersSection,
    html=clusters_html,
    text=print_clusters,
    style=resources.files(_PACKAGE).joinpath("clusters.css").read_text(encoding="utf-8"),
)
