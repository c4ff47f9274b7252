"""Find the calls that nobody waits for, call by call and request by request: slow and obvious."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from oracles.span_tree import SpanTree

from analyze.refine.settings import RefineSettings
from analyze.refine.stored import StoredCategory
from schemas.arrays import I8

Left = tuple[frozenset[int], set[tuple[int, int]]]
"""Units left behind, and (unit below one of them, ancestor that waits for it)."""
Place = tuple[Any, ...]
Asked = list[tuple[int, Place, Callable[[Callable[[int], int], Callable[[int], int]], bool]]]
"""(structure, place, answer given the starts and the ends of units)."""


def asynchronous(
    categories: Sequence[StoredCategory],
    times: Sequence[I8],
    trees: Sequence[SpanTree | None],
    settings: RefineSettings,
) -> list[Left]:
    """Expected result of `find_asynchronous`, by structure."""
    late: Asked = []
    for number, tree in enumerate(trees):
        for unit in range(1, 0 if tree is None else tree.n_units):
            assert tree is not None
            if tree.awaited[unit]:
                above = tree.parent[unit]
                calls = (tree.operation[above], tree.operation[unit])
                late.append((number, calls, outlives(unit, above, settings)))
    places = carried(late, categories, times, trees, settings.async_share, settings)
    found: list[Left] = []
    left: list[frozenset[int]] = []
    early: Asked = []
    below: list[list[tuple[int, int, Place]]] = []
    for number, tree in enumerate(trees):
        left.append(frozenset())
        below.append([])
        if tree is None:
            continue
        left[-1] = frozenset(
            unit
            for unit in range(1, tree.n_units)
            if tree.awaited[unit] and (tree.operation[tree.parent[unit]], tree.operation[unit]) in places
        )
        for unit in range(1, tree.n_units):
            top = waited_through(tree, unit, left[-1])
            if top >= 0 and tree.start[unit] != tree.end[unit]:
                above = tree.parent[top]
                place = tree.operation[above], tree.operation[top], tree.operation[unit]
                below[-1].append((unit, top, place))
                early.append((number, place, is_over_early(tree, unit, top)))
    kept = carried(early, categories, times, trees, settings.sequential_share, settings)
    for tree, behind, rows in zip(trees, left, below, strict=True):
        stays: set[int] = set()
        waited = set()
        for unit, top, place in rows:
            assert tree is not None
            if tree.parent[unit] in stays:
                stays.add(unit)
            elif place in kept:
                stays.add(unit)
                waited.add((unit, tree.parent[top]))
        found.append((behind, waited))
    return found


def outlives(unit: int, above: int, settings: RefineSettings) -> Any:
    """Tell whether a unit ends after its caller, by more than the slack."""

    def answer(start: Callable[[int], int], end: Callable[[int], int]) -> bool:
        duration, own = max(end(above) - start(above), 0), max(end(unit) - start(unit), 0)
        slack = max(int(duration * settings.slack_share), settings.slack_ns)
        return end(unit) - end(above) > min(slack, duration >> 1, own >> 1)

    return answer


def is_over_early(tree: SpanTree, unit: int, top: int) -> Any:
    """Tell whether a unit is over before the caller of `top` goes on."""
    above = tree.parent[top]

    def answer(start: Callable[[int], int], end: Callable[[int], int]) -> bool:
        others = [start(o) for o in tree.children[above] if o != top and start(o) >= start(top)]
        return end(unit) <= min([end(above), *others])

    return answer


def waited_through(tree: SpanTree, unit: int, left: frozenset[int]) -> int:
    """The unit left behind that waits for a unit, directly or through spans; -1 for none."""
    while True:
        if not tree.awaited[unit] or unit in left:
            return -1
        unit = tree.parent[unit]
        if unit < 0:
            return -1
        if unit in left:
            return unit
        if tree.start[unit] == tree.end[unit]:
            return -1


def carried(
    asked: Asked,
    categories: Sequence[StoredCategory],
    times: Sequence[I8],
    trees: Sequence[SpanTree | None],
    share: float,
    settings: RefineSettings,
) -> set[Place]:
    """Places at which enough requests agree."""
    votes: dict[Place, list[float]] = defaultdict(lambda: [0.0, 0.0])
    requests: dict[Place, set[tuple[int, int]]] = defaultdict(set)
    for number, place, answer in asked:
        tree, matrix = trees[number], times[number]
        assert tree is not None
        for row, weight in enumerate(categories[number].weight.tolist()):
            start = lambda unit, row=row, tree=tree, m=matrix: int(m[tree.start[unit], row])  # noqa: E731
            end = lambda unit, row=row, tree=tree, m=matrix: int(m[tree.end[unit], row])  # noqa: E731
            votes[place][0] += weight
            votes[place][1] += weight * answer(start, end)
            requests[place].add((number, row))
    return {
        place
        for place, (every, yes) in votes.items()
        if yes >= share * every
        and (
            len(requests[place]) >= settings.min_traces
            or (yes == every and len(requests[place]) >= settings.min_unanimous)
        )
    }
