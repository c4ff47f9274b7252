"""What is drawn of a graph: spans that call nothing become one box, long unchanged stretches one pill."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from enum import StrEnum

from schemas.report import GraphView

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
    label: str
    """Label of the node or operation; of a fold, what it hides."""
    marked: bool
    """Has no partner in the other graph."""


@dataclass(frozen=True, slots=True)
class Steps:
    """A drawing's boxes, in topological order, and its arrows between box indices."""

    steps: tuple[Step, ...]
    arrows: Mapping[tuple[int, int], tuple[int, int]]
    """(box, box) -> the edge (src, dst) it stands for; of a fold, the edge that enters or leaves it."""


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
    """Steps with stretches in which nothing happens folded.

    A step is kept if it touches a changed edge or stands beside one that does, if it forks or joins, is first
    or last, or stands where marked and unmarked meet; runs of at least `FOLD_LEAST` others in series become
    one pill, of marked steps or of unmarked ones. No position is ever dropped.
    """
    whole = all_steps(view, marked)
    after, before = _neighbours(whole)
    kept = _kept(whole, changed, after, before)
    groups: list[tuple[int, ...]] = []
    folds: set[int] = set()
    taken: set[int] = set()
    for i in range(len(whole.steps)):
        if i in taken:
            continue
        run = [i]
        while i not in kept and (following := after[run[-1]][0]) not in kept:
            run.append(following)
        if len(run) < FOLD_LEAST:
            run = [i]
        else:
            folds.add(len(groups))
        taken.update(run)
        groups.append(tuple(sorted(p for r in run for p in whole.steps[r].members)))
    return _group(view, groups, marked, folds=frozenset(folds))


def _kept(
    whole: Steps, changed: Set[tuple[int, int]], after: list[list[int]], before: list[list[int]]
) -> set[int]:
    """Boxes that never go into a fold."""
    hot = {i for arrow, edge in whole.arrows.items() if edge in changed for i in arrow}
    hot |= {i for i, step in enumerate(whole.steps) if step.kind is StepKind.SPAN and step.members in changed}
    kept = hot | {b for a in hot for b in after[a]} | {a for b in hot for a in before[b]}
    kept |= {i for i in range(len(whole.steps)) if len(after[i]) != 1 or len(before[i]) != 1}
    for a, b in whole.arrows:
        if whole.steps[a].marked != whole.steps[b].marked:
            kept |= {a, b}
    return kept


def _leaf_spans(view: GraphView, marked: Set[int]) -> dict[int, int]:
    """Start -> end of operations whose start leads to their end and nowhere else."""
    outs = [0] * len(view.nodes)
    ins = [0] * len(view.nodes)
    for src, dst in ((e.src, e.dst) for e in view.edges):
        outs[src] += 1
        ins[dst] += 1
    pairs = {}
    for src, dst in ((e.src, e.dst) for e in view.edges):
        a, b = view.nodes[src].label, view.nodes[dst].label
        alone = outs[src] == 1 and ins[dst] == 1
        if (
            alone
            and a[:-1] == b[:-1]
            and a[-1:] == ">"
            and b[-1:] == "<"
            and (src in marked) == (dst in marked)
        ):
            pairs[src] = dst
    return pairs


def _neighbours(whole: Steps) -> tuple[list[list[int]], list[list[int]]]:
    after: list[list[int]] = [[] for _ in whole.steps]
    before: list[list[int]] = [[] for _ in whole.steps]
    for a, b in whole.arrows:
        after[a].append(b)
        before[b].append(a)
    return after, before


def _group(
    view: GraphView, groups: list[tuple[int, ...]], marked: Set[int], *, folds: frozenset[int]
) -> Steps:
    """Boxes of the given groups of positions, put into topological order by their first position."""
    order = sorted(range(len(groups)), key=lambda g: groups[g][0])
    box = {position: i for i, g in enumerate(order) for position in groups[g]}
    steps = []
    for g in order:
        members = groups[g]
        label = view.nodes[members[0]].label
        kind = StepKind.NODE
        if g in folds:
            kind, label = StepKind.FOLD, " · ".join(view.nodes[p].label for p in members)
        elif len(members) == 2:
            kind, label = StepKind.SPAN, label[:-1]
        steps.append(Step(kind, members, label, members[0] in marked))
    arrows = {}
    for src, dst in ((e.src, e.dst) for e in view.edges):
        if box[src] != box[dst]:
            arrows[box[src], box[dst]] = (src, dst)
    return Steps(tuple(steps), arrows)
