"""What is said about clusters and about trees on each other."""

from __future__ import annotations

from typing import Final

from analyze.report import wording
from schemas.report.clusters import ClusterRow, ClustersSection, OverlayNode, TreeOverlayRow

FEATURES: Final = {
    "combined": "points, latencies and counts together",
    "points": "trace points reached",
    "latencies": "mean latency of each step",
    "counts": "number of times of each step",
}


def number(value: float | None, digits: int = 2) -> str:
    """`0.87`; `–` for None."""
    return "–" if value is None else wording.significant(value, digits)


def mean_rand(values: tuple[float, ...]) -> str:
    """Mean of adjusted Rand indices with the lowest: `0.97 (lowest 0.90)`."""
    if not values:
        return "not tried"
    return f"{sum(values) / len(values):.2f} (lowest {min(values):.2f})"


def place(node: OverlayNode) -> str:
    """`component/point`, one line."""
    return f"{node.where}/{node.what}" if node.where else node.what


def difference(node: OverlayNode) -> str:
    """What differs at a node: `slower ×6.4`, `only here`, `more 1.2 → 3.4`; empty for nothing."""
    if node.kind in ("slower", "faster"):
        before, after = node.mean_a_us, node.mean_b_us
        ratio = after / before if before and after else None
        return f"{node.kind} {wording.factor(ratio)}" if ratio is not None else node.kind
    if node.kind in ("more", "fewer"):
        return node.kind
    return {"only-a": "only A", "only-b": "only B"}.get(node.kind, "")


def passing(node: OverlayNode) -> str:
    """Share of A's and of B's requests that pass, and how often where that is not once."""
    told = _moved(wording.percent(node.passing_a), wording.percent(node.passing_b))
    sides = ((node.visits_a, node.passing_a), (node.visits_b, node.passing_b))
    per = [visits / share for visits, share in sides if share > 0]
    if all(abs(times - 1) < 0.005 for times in per):
        return told
    words = [wording.significant(times, 2) for times in per]
    return f"{told} ×{_moved(words[0], words[-1])}"


def _moved(before: str, after: str) -> str:
    return before if before == after else f"{before} → {after}"


def marks(row: ClusterRow) -> str:
    """`with cache/MISS, without cache/HIT`; empty where nothing tells it from the rest of its root type."""
    told = [f"with {row.has}"] if row.has else []
    told += [f"without {row.lacks}"] if row.lacks else []
    return ", ".join(told)


def overlay_title(row: TreeOverlayRow) -> str:
    """What is held against what."""
    return {
        "samples": f"Cluster {row.cluster}, both samples",
        "origin": f"Cluster {row.cluster} grew: against cluster {row.other}, its suspected origin",
        "nearest": f"Cluster {row.cluster} against cluster {row.other}, its nearest",
        "alone": f"Cluster {row.cluster}",
    }[row.kind]


def overlay_says(row: TreeOverlayRow) -> str:
    """One line: where to look; `no difference` …"""
    if row.first is None:
        return "" if row.kind == "alone" else "No difference beyond chance."
    node = row.nodes[row.first]
    added = f"{wording.change(node.added_us)} a request"
    if node.kind in ("only-a", "only-b"):
        here, there = ("A", "B") if node.kind == "only-a" else ("B", "A")
        part = wording.percent(node.passing_a if here == "A" else node.passing_b)
        return f"Ways part at {place(node)}: {part} of {here} go there, none of {there} ({added})."
    if node.kind in ("more", "fewer"):
        often = f"{wording.significant(node.visits_a)} → {wording.significant(node.visits_b)}"
        return f"{node.kind.capitalize()} at {place(node)}: {often} a request ({added})."
    moved = wording.moved_duration(node.mean_a_us, node.mean_b_us)
    return f"{node.kind.capitalize()} at {place(node)}: {moved} ({added})."


def look_first(section: ClustersSection) -> str:
    """A sentence about the overlay that stands first; empty where none is coloured."""
    for row in section.overlays:
        if row.first is not None and row.kind in ("samples", "origin"):
            return f"Look first at cluster {row.cluster}. {overlay_says(row)}"
    return ""


def changed_share(row: ClusterRow) -> str:
    """`12 % → 31 %` of its root type's requests."""
    return " → ".join(wording.percent(share) for share in row.of_root)


def came_from(row: ClusterRow) -> str:
    """`from cluster 3`; empty where it did not grow."""
    return "" if row.origin is None else f"from cluster {row.origin}"


def merged(row: ClusterRow) -> str:
    """`12 categories, 9 of them rare (14 requests)`."""
    told = wording.counted(row.categories_total, "category", "categories")
    if not row.rare:
        return told
    return f"{told}, {wording.count(row.rare)} of them rare ({wording.counted(row.rare_requests, 'request')})"
