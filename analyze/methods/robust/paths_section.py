"""The section `paths` from what was found about whole paths."""

from __future__ import annotations

import math

import numpy as np

from analyze.methods.robust.sections.path_words import move_title
from analyze.paths.alignment import DifferenceLine, difference_lines
from analyze.paths.changes import PathChanges, path_changes
from analyze.paths.moves import OTHER, PathGroup, PathMove
from analyze.paths.settings import PathSettings
from analyze.population import Graph, Population
from analyze.report.drawing.graph_views import node_name
from analyze.report.limits import ReportLimits
from schemas.report.paths import (
    DifferenceRow,
    MoveKind,
    PathAccountRow,
    PathEnd,
    PathGroupRow,
    PathMoveRow,
    PathsSection,
    PathTimeRow,
    RarePathsRow,
    RepeatsRow,
)

_NAMES = 12
"""Steps named a group."""
_ROOTS = 8
"""Root types named a group."""


def paths_section(
    population: Population, history: Population | None, settings: PathSettings, limits: ReportLimits
) -> PathsSection:
    """Compare whole paths of samples 0 and 1; `history` has samples of ordinary times. Deterministic."""
    found = path_changes(population, history, settings)
    times = _times(found)
    mix, structure, timing, rest = found.account.sums_us
    repeats = [
        RepeatsRow(
            roots=change.roots[:_ROOTS],
            roots_total=len(change.roots),
            operation=node_name(change.operation),
            operations=change.operations,
            categories=change.categories,
            before=change.before,
            after=change.after,
            requests0=change.requests0,
            requests1=change.requests1,
            p=change.p,
            q=change.q,
            contribution_us=change.contribution_us,
        )
        for change in found.repeats
    ]
    return PathsSection(
        account=PathAccountRow(
            before_us=found.account.before_us,
            after_us=found.account.after_us,
            mix_us=mix,
            structure_us=structure,
            timing_us=timing,
            rest_us=rest,
        ),
        groups=tuple(
            _group(found, group, rank, settings, limits)
            for rank, group in enumerate(found.groups[: settings.groups], 1)
        ),
        groups_total=len(found.groups),
        times=tuple(times[: limits.categories]),
        times_total=len(times),
        repeats=tuple(repeats[: limits.roots]),
        repeats_total=len(repeats),
        rare=_rare(found),
        moves_not_compared=found.rest_moves,
        not_compared_us=found.rest_us,
        paths_tested=int(found.tests.tested.sum()),
        paths_total=int((found.table.moments.count.sum(axis=0) > 0).sum()),
        windows=sum(found.table.blocks),
        cold=found.table.cold,
    )


def _group(
    found: PathChanges, group: PathGroup, rank: int, settings: PathSettings, limits: ReportLimits
) -> PathGroupRow:
    mark = group.signature
    kind: MoveKind = "no-comparison" if mark is None else mark.move.value
    anchor = node_name(mark.anchor) if mark is not None and mark.anchor is not None else None
    inserted = tuple(node_name(n) for n in mark.inserted) if mark is not None else ()
    removed = tuple(node_name(n) for n in mark.removed) if mark is not None else ()
    replaced = tuple((node_name(a), node_name(b)) for a, b in mark.replaced) if mark is not None else ()
    roots = tuple(dict.fromkeys(_root(found, move) for move in group.moves))
    before, after = (found.table.graphs[i] for i in group.partners)
    lines = difference_lines(before, after, group.pairs, settings.difference_rows) if mark is not None else []
    return PathGroupRow(
        rank=rank,
        kind=kind,
        title=move_title(kind, anchor, inserted, removed, replaced, new=group.new, lost=group.lost),
        new=group.new,
        lost=group.lost,
        roots=roots[:_ROOTS],
        roots_total=len(roots),
        share=group.share,
        contribution_us=group.contribution_us,
        anchor=anchor,
        inserted=inserted[:_NAMES],
        removed=removed[:_NAMES],
        replaced=replaced[:_NAMES],
        moves=tuple(_move(found, move) for move in group.moves[: limits.precursors]),
        moves_total=len(group.moves),
        difference=tuple(_difference(before, after, line) for line in lines),
    )


def _root(found: PathChanges, move: PathMove) -> str:
    return found.table.graphs[move.target if move.source == OTHER else move.source].root


def _move(found: PathChanges, move: PathMove) -> PathMoveRow:
    return PathMoveRow(
        root=_root(found, move),
        source=_end(found, move.source),
        target=_end(found, move.target),
        share=move.share,
        contribution_us=move.contribution_us,
        confidence=move.confidence,
    )


def _end(found: PathChanges, index: int) -> PathEnd | None:
    if index == OTHER:
        return None
    moments, q = found.table.moments, float(found.tests.q[index])
    return PathEnd(
        category=found.table.graphs[index].key,
        requests0=int(moments.count[0, index]),
        requests1=int(moments.count[1, index]),
        share0=float(found.shares.of_root[0, index]),
        share1=float(found.shares.of_root[1, index]),
        mean0_us=_number(moments.mean_us[0, index]),
        mean1_us=_number(moments.mean_us[1, index]),
        p=float(found.tests.estimate.p[index]),
        q=_number(q),
    )


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _difference(before: Graph, after: Graph, line: DifferenceLine) -> DifferenceRow:
    old = None if line.before is None else node_name(before.nodes[line.before])
    new = None if line.after is None else node_name(after.nodes[line.after])
    if old is None and new is None:
        return DifferenceRow(fate="run", before=None, after=None, steps=line.steps, differing=line.differing)
    if old is None or new is None:
        return DifferenceRow(
            fate="gained" if old is None else "lost", before=old, after=new, steps=1, differing=0
        )
    return DifferenceRow(
        fate="kept" if old == new else "replaced", before=old, after=new, steps=1, differing=0
    )


def _times(found: PathChanges) -> list[PathTimeRow]:
    """Paths whose times changed by test, by |contribution|."""
    part, moments, times = found.account.timing_us, found.table.moments, found.times
    changed = np.flatnonzero(times.changed)
    order = changed[np.lexsort((changed, -np.abs(part[changed])))]
    return [
        PathTimeRow(
            category=found.table.graphs[i].key,
            root=found.table.graphs[i].root,
            n_nodes=found.table.graphs[i].n_nodes,
            requests0=int(moments.count[0, i]),
            requests1=int(moments.count[1, i]),
            mean0_us=float(moments.mean_us[0, i]),
            mean1_us=float(moments.mean_us[1, i]),
            contribution_us=float(part[i]),
            p=float(times.estimate.p[i]),
            q=float(times.q[i]),
            z=float(times.estimate.z[i]),
        )
        for i in order.tolist()
    ]


def _rare(found: PathChanges) -> tuple[RarePathsRow, ...]:
    tests, first = found.tests, len(found.table.graphs)
    return tuple(
        RarePathsRow(
            root=found.table.roots[r],
            expected=float(tests.expected[first + r]),
            seen=float(tests.seen[first + r]),
            new_kinds=int(tests.new_kinds[r]),
            p=float(tests.estimate.p[first + r]),
            q=float(tests.q[first + r]),
        )
        for r in np.flatnonzero(tests.rare_changed).tolist()
    )
