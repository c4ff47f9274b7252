"""What is drawn of a graph: spans that call nothing become one box, long unchanged stretches one pill."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum

from schemas.report.drawn_graphs import GraphView
from schemas.report.parts import NodeName

FOLD_LEAST = 3
"""A stretch of fewer steps is drawn as it is: a pill would hide more than it saves."""


class StepKind(StrEnum):
    """How a step is drawn."""

    NODE = "node"
    SPAN = "span"
    """Start and end of an operation with nothing between: one box, the latency inside."""
    FOLD = "fold"


@dataclass(frozen=True, slots=True)
class Step:
    """One box of the drawing."""

    kind: StepKind
    members: tuple[int, ...]
    """Canonical positions, ascending."""
    names: tuple[NodeName, ...]
    """Of the members."""
    marked: bool
    """Has no partner in the other graph."""


@dataclass(frozen=True, slots=True)
class Steps:
    """A drawing's boxes, in topological order, and its arrows between box indices."""

    steps: tuple[Step, ...]
    arrows: Mapping[tuple[int, int], tuple[int, int] | None]
    """(box, box) -> the edge (src, dst) it stands for; None where it stands for several, into or out of a
    fold of branches."""


def all_steps(view: GraphView, marked: Set[int]) -> Steps:
    """Every step, spans that call nothing joined into one box."""
    heads = _leaf_spans(view, marked)
    groups: list[tuple[int, ...]] = [
        (node, heads[node]) if node in heads else (node,)
        for node in range(len(view.nodes))
        if node not in set(heads.values())
    ]
    return _group(view, groups, marked, folds=frozenset())


def folded_steps(view: GraphView, marked: Set[int], changed: Set[tuple[int, int]]) -> Steps:
    """Steps with regions in which nothing happens folded.

    Kept are boxes that touch a changed edge or stand beside one that does, the first and the last, and those
    where marked and unmarked meet. The others are merged by series-parallel reduction: boxes in series, and
    branches between the same two boxes; such a region has one entry and one exit, so the drawing stays a
    DAG. Regions of `FOLD_LEAST` boxes or more become one pill. No position is ever dropped.
    """
    whole = all_steps(view, marked)
    regions = reduce_series_parallel(
        len(whole.steps),
        whole.arrows,
        quiet=set(range(len(whole.steps))) - _kept(whole, changed),
        colour=[step.marked for step in whole.steps],
    )
    groups: list[tuple[int, ...]] = []
    folds: set[int] = set()
    for region in regions:
        if len(region) >= FOLD_LEAST:
            folds.add(len(groups))
            groups.append(tuple(sorted(p for i in region for p in whole.steps[i].members)))
        else:
            groups += [whole.steps[i].members for i in region]
    return _group(view, groups, marked, folds=frozenset(folds))


def _kept(whole: Steps, changed: Set[tuple[int, int]]) -> set[int]:
    """Boxes that never go into a fold."""
    hot = {i for arrow, edge in whole.arrows.items() if edge in changed for i in arrow}
    hot |= {i for i, step in enumerate(whole.steps) if step.kind is StepKind.SPAN and step.members in changed}
    kept = set(hot)
    for a, b in whole.arrows:
        if a in hot or b in hot or whole.steps[a].marked != whole.steps[b].marked:
            kept |= {a, b}
    return kept


def reduce_series_parallel(
    n: int, arrows: Iterable[tuple[int, int]], *, quiet: Set[int], colour: Sequence[bool]
) -> list[list[int]]:
    """Regions of the boxes 0..n-1, singletons but for quiet boxes of one colour that could be merged.

    In series: a box and its only successor, whose only predecessor it is. In parallel: boxes with the same
    only predecessor and the same only successor. Boxes without predecessor or successor stay alone. Repeated
    until nothing more merges; O(n · rounds), at most n rounds, few in practice.
    """
    after: dict[int, set[int]] = {i: set() for i in range(n)}
    before: dict[int, set[int]] = {i: set() for i in range(n)}
    for a, b in arrows:
        after[a].add(b)
        before[b].add(a)
    members = {i: [i] for i in range(n)}
    merged = True
    while merged:
        merged = False
        between: dict[tuple[int, int, bool], int] = {}
        for i in sorted(members):
            if i not in members or i not in quiet or len(before[i]) != 1 or len(after[i]) != 1:
                continue
            (source,), (target,) = before[i], after[i]
            twin = between.setdefault((source, target, colour[i]), i)
            if twin != i:
                after[source].discard(i)
                before[target].discard(i)
            elif (
                source in quiet and colour[source] == colour[i] and len(after[source]) == 1 and before[source]
            ):
                twin = source
                del between[source, target, colour[i]]
                after[source] = {target}
                before[target] = before[target] - {i} | {source}
            else:
                continue
            members[twin] += members.pop(i)
            merged = True
    return [sorted(members[i]) for i in sorted(members)]


def _leaf_spans(view: GraphView, marked: Set[int]) -> dict[int, int]:
    """Start -> end of operations whose start leads to their end and nowhere else."""
    outs = [0] * len(view.nodes)
    ins = [0] * len(view.nodes)
    for src, dst in ((e.src, e.dst) for e in view.edges):
        outs[src] += 1
        ins[dst] += 1
    pairs = {}
    for src, dst in ((e.src, e.dst) for e in view.edges):
        start, end = view.nodes[src], view.nodes[dst]
        alone = outs[src] == 1 and ins[dst] == 1
        if (
            alone
            and (start.side, end.side) == ("start", "end")
            and start.model_copy(update={"side": "end"}) == end
            and (src in marked) == (dst in marked)
        ):
            pairs[src] = dst
    return pairs


def _group(
    view: GraphView, groups: list[tuple[int, ...]], marked: Set[int], *, folds: frozenset[int]
) -> Steps:
    """Boxes of the given groups of positions, put into topological order by their first position."""
    order = sorted(range(len(groups)), key=lambda g: groups[g][0])
    box = {position: i for i, g in enumerate(order) for position in groups[g]}
    steps = []
    for g in order:
        members = groups[g]
        kind = StepKind.FOLD if g in folds else StepKind.SPAN if len(members) == 2 else StepKind.NODE
        names = tuple(view.nodes[position] for position in members)
        steps.append(Step(kind, members, names, members[0] in marked))
    arrows: dict[tuple[int, int], tuple[int, int] | None] = {}
    for src, dst in ((e.src, e.dst) for e in view.edges):
        if box[src] != box[dst]:
            arrow = (box[src], box[dst])
            arrows[arrow] = None if arrow in arrows else (src, dst)
    return Steps(tuple(steps), arrows)
