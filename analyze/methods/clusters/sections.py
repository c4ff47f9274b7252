"""Display of the section of clusters as blocks: groups of requests, and overlays of their calling trees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from analyze.report import blocks as b
from analyze.report import wording
from analyze.report.bars import Axis, pair
from analyze.report.drawing.charts import distances, score_curve
from analyze.report.section_view import SectionView
from schemas.report.clusters import ClusterRow, ClustersSection, OverlayNode, TreeOverlayRow

OPEN: Final = 2
"""Number of overlays that are shown unfolded."""
LISTED: Final = 12
"""Maximum number of clusters shown before the table is unfolded."""
NODES: Final = 4
"""Maximum number of coloured nodes of an overlay on a terminal."""

FEATURES: Final = {
    "combined": "points, latencies and counts together",
    "points": "trace points reached",
    "latencies": "mean latency of each step",
    "counts": "number of times of each step",
}
_SHADES: Final = ((1, 8), (2, 16), (3, 26), (4, 38))
"""(Number of the shade, percentage of the node's colour) of each shade of a drawn tree."""


def _style() -> str:
    warm, cool = ":is(.slower, .more, .only-b)", ":is(.faster, .fewer, .only-a)"
    rows = [
        f"tr.s{shade}{kinds} {{ background: color-mix(in srgb, var({colour}) {part}%, transparent); }}"
        for shade, part in _SHADES
        for kinds, colour in ((warm, "--after"), (cool, "--before"))
    ]
    return "\n".join(
        (
            *rows,
            "tr:is(.s1, .s2, .s3, .s4) td { background: none; }",
            "tr.most td:first-child { outline: 2px solid var(--ink); outline-offset: -2px; }",
            ".scores path.score { fill: none; stroke: var(--before); stroke-width: 2; }",
            ".scores .dot circle { fill: var(--before); }",
            ".scores .dot line { stroke: var(--before); stroke-width: 1.5; }",
            ".scores .dot.taken circle { fill: var(--after); stroke: var(--paper); stroke-width: 2; }",
            ".scores .tick.taken { fill: var(--after); font-weight: 700; }",
            ".scores .tick.level, .apart .left { text-anchor: end; }",
            ".apart rect { fill: var(--before); }",
            ".apart .own { fill: var(--line); }",
            *(
                f".apart .h{i} {{ fill-opacity: {opacity}; }}"
                for i, opacity in enumerate((0.06, 0.2, 0.4, 0.65, 1))
            ),
        )
    )


def clusters_blocks(section: ClustersSection) -> b.Blocks:
    """Display of the section as blocks: clusters, overlays of their trees, and reliability."""
    s = section
    note = f"{wording.counted(s.clusters_total, 'cluster')} by {FEATURES[s.features]}"
    return (b.Part("What groups requests fall into", tuple(_blocks(s)), note=note, anchor="clusters"),)


def _blocks(s: ClustersSection) -> Iterator[b.Block]:
    if len(s.samples) == 2:
        yield b.Only("page", (b.Text(b.sides(*s.samples), "dim"),))
    rows = listed(s)
    yield b.Grid(
        "Clusters",
        _columns(s),
        (*rows, *(row for row in s.clusters if row not in rows)),
        s.clusters_total,
        "clusters",
        first=LISTED,
        printed=LISTED,
        tone=lambda row: "changed" if row.changed else "",
    )
    marked = [f"{row.number}: {marks(row)}" for row in s.clusters[:LISTED] if marks(row)]
    yield b.Only("terminal", (b.Items(marked),))
    yield b.Part("Their call trees, laid on each other", tuple(_overlays(s)), anchor="overlays")
    yield b.Details("How many clusters, how far apart, how far to trust them", tuple(_trust(s)))


def listed(section: ClustersSection) -> list[ClusterRow]:
    """Clusters shown before the table is unfolded, by number: changed clusters and, as far as there is room,
    the largest."""
    wanted = sorted(section.clusters, key=lambda row: (not row.changed, row.number))[:LISTED]
    return sorted(wanted, key=lambda row: row.number)


def _columns(s: ClustersSection) -> tuple[b.Column, ...]:
    two = len(s.samples) == 2
    axis = Axis.over(share for row in s.clusters for share in row.shares)

    def shares(row: ClusterRow) -> b.Bar:
        label = ", ".join(
            f"{name}: {wording.percent(share)}" for name, share in zip(s.samples, row.shares, strict=True)
        )
        return pair(axis, row.shares[0], row.shares[1], label) if two else axis.share(row.shares[0], label)

    def requests(row: ClusterRow) -> str:
        return " → ".join(map(wording.count, row.requests))

    def of_root(row: ClusterRow) -> str:
        return " → ".join(map(wording.percent, row.of_root)) if two else ""

    def mean(row: ClusterRow) -> str:
        return wording.moved_duration(*row.mean_us) if two else wording.duration(row.mean_us[0])

    return (
        b.Column("", "Root type", "text", _root),
        b.Column("number", "#", "count"),
        b.Column("", "Of all requests", "bar", shares),
        b.Column("", "Requests", "figure", requests, far=1),
        b.Column("", "Of root", "figure", of_root),
        b.Column("", "Mean time", "figure", mean),
        b.Column("", "Changed", "text", _changed),
        b.Column("nearest", "Nearest", "count", far=3),
        b.Column(
            "jaccard", "Comes back", "share", far=4, about="Mean overlap when the clustering is done again"
        ),
        b.Column("", "Categories", "figure", merged, far=4),
    )


def _root(row: ClusterRow) -> b.Words:
    """Text of a cluster's root type, and of the nodes that distinguish the cluster from others of the same
    root type."""
    several = f" {wording.percent(row.root_part)}, {row.roots} root types" if row.roots > 1 else ""
    return (wording.clip(row.root, 80), b.dim(several), b.Styled(wording.clip(marks(row), 160), "span"))


def _changed(row: ClusterRow) -> str:
    grew = "" if row.origin is None else f" from cluster {row.origin}"
    return f"p {wording.p_value(row.p)}{grew}" if row.changed else ""


@dataclass(frozen=True, slots=True)
class TreeRow:
    """Row of a drawn tree: a node, or a collapsed sequence of steps (`gap`)."""

    node: OverlayNode
    depth: int
    first: bool
    """True for the most strongly coloured node."""
    gap: bool = False


def tree_rows(overlay: TreeOverlayRow) -> list[TreeRow]:
    """Rows of an overlay, each with its depth: calls below their callers, steps indented only at forks."""
    children = [0] * len(overlay.nodes)
    for node in overlay.nodes:
        if node.above >= 0:
            children[node.above] += 1
    depths: list[int] = []
    rows: list[TreeRow] = []
    for place, node in enumerate(overlay.nodes):
        deeper = node.above >= 0 and (overlay.calls or children[node.above] > 1)
        depths.append((depths[node.above] if node.above >= 0 else 0) + deeper)
        if node.skipped:
            rows.append(TreeRow(node, depths[place], False, gap=True))
        rows.append(TreeRow(node, depths[place], overlay.first == place))
    return rows


def _overlays(s: ClustersSection) -> Iterator[b.Block]:
    what = (
        "A row is a call; its time is without what it calls."
        if s.overlays and s.overlays[0].calls
        else "A row is a trace point; its time is that since the one before. Where two ways part, what "
        "follows is drawn twice."
    )
    text = (
        "The deeper the colour, the more of the difference in response time arises there: warm where B is "
        f"slower or more, cool where it is faster or less; outlined is the most. {what}"
    )
    yield b.Only("page", (b.Text(text, "dim"),))
    alike = []
    for place, overlay in enumerate(s.overlays, 1):
        drawn = _overlay(overlay, place)
        if overlay.first is None:
            drawn = b.Only("page", (drawn,))
        if overlay.first is None and overlay.kind != "alone":
            against = "" if overlay.kind == "samples" else f" against {overlay.other}"
            alike.append(f"{overlay.cluster}{against}")
        yield drawn
    if alike:
        none = (
            f"\nNo difference beyond chance in {wording.counted(len(alike), 'cluster')}: {', '.join(alike)}."
        )
        yield b.Only("terminal", (b.Text(none, "dim"),))
    if len(s.overlays) < s.overlays_total:
        shown = f"{len(s.overlays)} of {s.overlays_total} overlays"
        yield b.Text(f"{shown}; the table clusters_trees has every tree.", "dim")


def _overlay(row: TreeOverlayRow, place: int) -> b.Block:
    sides = [("B" if row.kind != "alone" else "", row.b, row.requests_b, row.mean_b_us)]
    if row.kind != "alone":
        sides.insert(0, ("A", row.a, row.requests_a, row.mean_a_us))
    facts = [
        b.Fact(f"{side}: {name}" if side else name, f"{wording.count(n)} requests, {wording.duration(us)}")
        for side, name, n, us in sides
    ]
    tree = b.Grid(
        overlay_title(row),
        _tree_columns(row),
        tree_rows(row),
        printed=0,
        tone=_tone,
        depth=lambda one: one.depth,
    )
    coloured = sorted((node for node in row.nodes if node.shade), key=lambda node: -abs(node.added_us))[
        :NODES
    ]
    shown = [TreeRow(node, 0, False) for node in coloured]
    cut = f"{len(row.nodes)} of {wording.count(row.nodes_total)} nodes."
    return b.Part(
        overlay_title(row),
        (
            b.Only("page", (b.Facts(facts, "lines"), tree)),
            b.Only("terminal", (b.Grid("Where they differ", _tree_columns(row), shown),)),
            *((b.Only("page", (b.Text(cut, "dim"),)),) if len(row.nodes) < row.nodes_total else ()),
        ),
        note=overlay_says(row),
        anchor=f"ov{place}",
        look="card",
        open=place <= OPEN,
    )


def _tree_columns(row: TreeOverlayRow) -> tuple[b.Column, ...]:
    alone = row.kind == "alone"
    whole = Axis(0.0, 1.0)

    def passing_bar(one: TreeRow) -> b.Words:
        node = one.node
        if one.gap:
            return ""
        return pair(
            whole, None if alone else node.passing_a, node.passing_b, f"{passing(node)} of the requests"
        )

    def time(one: TreeRow) -> str:
        node = one.node
        before, after = (
            (node.skipped_a_us, node.skipped_b_us) if one.gap else (node.mean_a_us, node.mean_b_us)
        )
        return wording.duration(after) if alone else wording.moved_duration(before, after)

    def through(one: TreeRow) -> str:
        if one.gap:
            return ""
        return wording.percent(one.node.passing_b) if alone else passing(one.node)

    return (
        b.Column("", "Call" if row.calls else "Trace point", "text", _node),
        b.Column("", "", "bar", passing_bar, far=1),
        b.Column("", "Difference", "text", lambda one: "" if one.gap else difference(one.node)),
        b.Column("", "Adds", "figure", _added),
        b.Column("", "Requests" if alone else "Requests, A → B", "figure", through, far=1),
        b.Column("", "Time" if alone else "Time, A → B", "figure", time),
    )


def _node(row: TreeRow) -> b.Words:
    node = row.node
    if row.gap:
        return b.dim(f"… {wording.counted(node.skipped, 'more step')}")
    where: b.Words = b.dim(f" {wording.clip(node.where, 60)}") if node.where else ""
    below: b.Words = b.dim(f" + {node.below} below") if node.below else ""
    return (b.strong(wording.clip(node.what, 96)), where, below)


def _added(row: TreeRow) -> str:
    return wording.change(row.node.added_us) if row.node.shade and not row.gap else ""


def _tone(row: TreeRow) -> str:
    if row.gap:
        return "sum"
    return f"{row.node.kind} s{row.node.shade}{' most' if row.first else ''}"


def _trust(s: ClustersSection) -> Iterator[b.Block]:
    order = sorted(range(len(s.clusters)), key=lambda i: (s.clusters[i].root, i))
    taken = "the best" if s.style == "paper" else "the smallest number within one of the best"
    score = (
        "How well requests lie in their own cluster instead of the next one (simplified silhouette, 1 at "
        f"best), with its standard error; {taken} is taken."
    )
    apart = "Distance between centres, clusters of a root type beside each other; darker is nearer."
    names = [str(s.clusters[i].number) for i in order]
    between = [[s.apart[i][j] for j in order] for i in order]
    yield b.Beside((*score_curve(s.curve, s.clusters_total, score), *distances(names, between, apart)))
    yield _trust_facts(s)
    yield b.Text(
        "Clusters merge rare categories to look at them together; they replace none. A mutation and the path "
        "it came from may lie in one cluster.",
        "dim",
    )


def _trust_facts(s: ClustersSection) -> b.Facts:
    """Facts on the input of the clustering, and on its recurrence in refits."""
    named = {
        "Requests": f"{wording.count(s.requests)}, {wording.count(s.rows)} distinct rows",
        "Columns": f"{wording.count(s.columns)}, of which {s.dimensions} dimensions keep "
        f"{wording.percent(s.explained)}",
        "Style": s.style,
        "Again from other centres, adjusted Rand": mean_rand(s.reseeded),
        "Again on two halves": mean_rand(s.halved),
        f"With {wording.count(s.categories)} categories, adjusted Rand": f"{s.rand_categories:.2f}",
        "Homogeneity, completeness": f"{s.homogeneity:.2f}, {s.completeness:.2f}",
    }
    return b.Facts([b.Fact(name, value) for name, value in named.items()], "lines")


def mean_rand(values: tuple[float, ...]) -> str:
    """Text of the mean of adjusted Rand indices, and the lowest: `0.97 (lowest 0.90)`."""
    if not values:
        return "not tried"
    return f"{sum(values) / len(values):.2f} (lowest {min(values):.2f})"


def place(node: OverlayNode) -> str:
    """Name of a node of an overlay in one line: `component/point`."""
    return f"{node.where}/{node.what}" if node.where else node.what


def difference(node: OverlayNode) -> str:
    """Text of the difference at a node: `slower ×6.4`, `only A`, `more`; empty if there is none."""
    if node.kind in ("slower", "faster"):
        before, after = node.mean_a_us, node.mean_b_us
        ratio = after / before if before and after else None
        return f"{node.kind} {wording.factor(ratio)}" if ratio is not None else node.kind
    if node.kind in ("more", "fewer"):
        return node.kind
    return {"only-a": "only A", "only-b": "only B"}.get(node.kind, "")


def passing(node: OverlayNode) -> str:
    """Text of the shares of A's and B's requests that pass a node, with the visits per request unless both
    are 1."""
    change = _moved(wording.percent(node.passing_a), wording.percent(node.passing_b))
    sides = ((node.visits_a, node.passing_a), (node.visits_b, node.passing_b))
    per = [visits / share for visits, share in sides if share > 0]
    if all(abs(times - 1) < 0.005 for times in per):
        return change
    words = [wording.significant(times, 2) for times in per]
    return f"{change} ×{_moved(words[0], words[-1])}"


def _moved(before: str, after: str) -> str:
    return before if before == after else f"{before} → {after}"


def marks(row: ClusterRow) -> str:
    """Text of the nodes that distinguish a cluster: `with cache/MISS, without cache/HIT`; empty if none
    do."""
    described = [f"with {row.has}"] if row.has else []
    described += [f"without {row.lacks}"] if row.lacks else []
    return ", ".join(described)


def overlay_title(row: TreeOverlayRow) -> str:
    """Title of an overlay: names of the two trees."""
    return {
        "samples": f"Cluster {row.cluster}, both samples",
        "origin": f"Cluster {row.cluster} grew: against cluster {row.other}, its suspected origin",
        "nearest": f"Cluster {row.cluster} against cluster {row.other}, its nearest",
        "alone": f"Cluster {row.cluster}",
    }[row.kind]


def overlay_says(row: TreeOverlayRow) -> str:
    """Sentence on an overlay: the node with the largest difference, or that there is none."""
    if row.first is None:
        return "" if row.kind == "alone" else "No difference beyond chance."
    node = row.nodes[row.first]
    added = f"{wording.change(node.added_us)} a request"
    if node.kind in ("only-a", "only-b"):
        here, there = ("A", "B") if node.kind == "only-a" else ("B", "A")
        part = wording.percent(node.passing_a if here == "A" else node.passing_b)
        return f"Paths part at {place(node)}: {part} of {here} go there, none of {there} ({added})."
    if node.kind in ("more", "fewer"):
        often = f"{wording.significant(node.visits_a)} → {wording.significant(node.visits_b)}"
        return f"{node.kind.capitalize()} at {place(node)}: {often} a request ({added})."
    moved = wording.moved_duration(node.mean_a_us, node.mean_b_us)
    return f"{node.kind.capitalize()} at {place(node)}: {moved} ({added})."


def look_first(section: ClustersSection) -> str:
    """Sentence on the first coloured overlay of two samples, or with a suspected origin; empty if there is
    none."""
    for row in section.overlays:
        if row.first is not None and row.kind in ("samples", "origin"):
            return f"{overlay_says(row)} Look first at cluster {row.cluster}."
    return ""


def merged(row: ClusterRow) -> str:
    """Text of the number of categories in a cluster: `12, 9 rare`."""
    return wording.count(row.categories_total) + (f", {wording.count(row.rare)} rare" if row.rare else "")


CLUSTERS: Final = SectionView(ClustersSection, clusters_blocks, style=_style())
