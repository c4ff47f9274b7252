"""Sibling order by consensus, worked out request by request, slow and obvious.

A request is one parent span with its children as (operation, start, end); see `relations`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from analyze.refine.settings import RefineSettings

Children = Sequence[tuple[str, int, int]]
Key = tuple[str, int]


def keyed(children: Children) -> dict[Key, tuple[int, int]]:
    """(operation, occurrence by start) -> (start, end)."""
    seen: Counter[str] = Counter()
    found = {}
    for operation, start, end in sorted(children, key=lambda child: child[1]):
        found[operation, seen[operation]] = (start, end)
        seen[operation] += 1
    return found


def precedes(first: tuple[int, int], second: tuple[int, int], slack: int) -> bool:
    shorter = min(first[1] - first[0], second[1] - second[0])
    overlap = first[1] - second[0]
    return first[0] < second[0] and overlap <= slack and 2 * overlap <= shorter


def relations(
    requests: Sequence[tuple[int, Children, float]], settings: RefineSettings
) -> dict[tuple[frozenset[Key], Key, Key], str]:
    """For each family of keys and each pair (a, b) of it, a < b: `ab`, `ba`, `parallel` or `open`.

    `requests` are (duration of the parent, its children, weight), all of one parent operation; starts are
    distinct; operations are `component/point`.
    """
    levels: list[defaultdict[object, list[float]]] = [defaultdict(lambda: [0, 0, 0, 0]) for _ in range(3)]
    pairs = set()
    for duration, children, weight in requests:
        found = keyed(children)
        family = frozenset(found)
        slack = max(settings.slack_ns, int(duration * settings.slack_share))
        for a in found:
            for b in found:
                if a >= b:
                    continue
                pairs.add((family, a, b))
                components = frozenset((a[0].split("/")[0], b[0].split("/")[0]))
                for level, place in zip(levels, ((family, a, b), (a, b), components), strict=True):
                    sums = level[place]
                    sums[0] += 1
                    sums[1] += weight
                    sums[2] += weight * precedes(found[a], found[b], slack)
                    sums[3] += weight * precedes(found[b], found[a], slack)
    return {(family, a, b): _decide(levels, family, a, b, settings) for family, a, b in pairs}


def _decide(
    levels: Sequence[defaultdict[object, list[float]]],
    family: frozenset[Key],
    a: Key,
    b: Key,
    settings: RefineSettings,
) -> str:
    n, weight, ab, ba = levels[0][family, a, b]
    unanimous = n >= settings.min_unanimous and weight in (ab, ba)
    if n < settings.min_traces and not unanimous:
        n, weight, ab, ba = levels[1][a, b]
        if n < settings.min_traces:
            components = frozenset((a[0].split("/")[0], b[0].split("/")[0]))
            n, weight, ab, ba = levels[2][components]
            if n < settings.min_traces or ab + ba >= settings.sequential_share * weight:
                return "open"
            return "parallel"
    if ab >= settings.sequential_share * weight:
        return "ab"
    return "ba" if ba >= settings.sequential_share * weight else "parallel"
