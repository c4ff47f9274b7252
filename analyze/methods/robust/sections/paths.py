"""Section on changes of whole paths (call graphs of requests): at the end of a page, one line on a
terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from analyze.paths.alignment import DifferenceLine, difference_lines
from analyze.paths.changes import PathChanges, path_changes
from analyze.paths.moves import OTHER, PathGroup, PathMove
from analyze.paths.settings import PathSettings
from analyze.population import Graph, Population
from analyze.report import blocks as b
from analyze.report import wording
from analyze.report.limits import ReportLimits
from analyze.report.model_values import node_name, number
from analyze.report.section_view import SectionView
from analyze.report.steps import step_words
from analyze.report.wording import (
    change,
    count,
    counted,
    moved_duration,
    p_value,
    percent,
    short,
    significant,
)
from schemas.report.parts import NodeName
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
    StepFate,
)

_NAMES = 12
"""Maximum number of steps listed for a group of moves."""
_ROOTS = 8
"""Maximum number of root types listed for a group of moves."""


def paths_section(
    population: Population, history: Population | None, settings: PathSettings, limits: ReportLimits
) -> PathsSection:
    """Compare the whole paths of requests in samples 0 (reference) and 1 (problem), and fill the section. The
    result is deterministic.

    history: samples of normal periods, from which the noise is estimated; None without a history.
    """
    found = path_changes(population, history, settings)
    times = _time_rows(found)
    mix, structure, timing, rest = found.account.sums_us
    repeats = [row.model_copy(update={"roots": row.roots[:_ROOTS]}) for row in found.repeats]
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
            _group_row(found, group, rank, limits)
            for rank, group in enumerate(found.groups[: settings.groups], 1)
        ),
        groups_total=len(found.groups),
        times=tuple(times[: limits.categories]),
        times_total=len(times),
        repeats=tuple(repeats[: limits.roots]),
        repeats_total=len(repeats),
        rare=_rare_rows(found),
        moves_not_compared=found.rest_moves,
        not_compared_us=found.rest_us,
        paths_tested=int(found.tests.tested.sum()),
        paths_total=int((found.table.count.sum(axis=0) > 0).sum()),
        windows=sum(found.table.blocks),
        no_baseline=found.table.noise_assumed,
    )


def _group_row(found: PathChanges, group: PathGroup, rank: int, limits: ReportLimits) -> PathGroupRow:
    lead, moves = group.lead, [one.move for one in group.members]
    mark = lead.signature
    kind: MoveKind = "no-comparison" if mark is None else mark.move.value
    anchor = node_name(mark.anchor) if mark is not None and mark.anchor is not None else None
    inserted = tuple(node_name(n) for n in mark.inserted) if mark is not None else ()
    removed = tuple(node_name(n) for n in mark.removed) if mark is not None else ()
    replaced = (
        tuple((node_name(old), node_name(new)) for old, new in mark.replaced) if mark is not None else ()
    )
    roots = tuple(dict.fromkeys(_root(found, move) for move in moves))
    before, after = (found.table.graphs[i] for i in lead.partners)
    lines = (
        difference_lines(before, after, lead.pairs, found.table.settings.difference_rows)
        if mark is not None
        else []
    )
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
        moves=tuple(
            PathMoveRow(
                root=_root(found, move),
                source=_end_row(found, move.source),
                target=_end_row(found, move.target),
                share=move.share,
                contribution_us=move.contribution_us,
                confidence=move.confidence,
            )
            for move in moves[: limits.precursors]
        ),
        moves_total=len(moves),
        difference=tuple(_difference_row(before, after, line) for line in lines),
    )


def _root(found: PathChanges, move: PathMove) -> str:
    return found.table.graphs[move.target if move.source == OTHER else move.source].root


def _end_row(found: PathChanges, index: int) -> PathEnd | None:
    if index == OTHER:
        return None
    table, q = found.table, float(found.tests.q[index])
    return PathEnd(
        category=table.graphs[index].key,
        requests0=int(table.count[0, index]),
        requests1=int(table.count[1, index]),
        share0=float(found.shares.of_root[0, index]),
        share1=float(found.shares.of_root[1, index]),
        mean0_us=number(table.mean_us[0, index]),
        mean1_us=number(table.mean_us[1, index]),
        p=float(found.tests.estimate.p[index]),
        q=number(q),
    )


def _difference_row(before: Graph, after: Graph, line: DifferenceLine) -> DifferenceRow:
    old = None if line.before is None else node_name(before.nodes[line.before])
    new = None if line.after is None else node_name(after.nodes[line.after])
    fate: StepFate = "kept" if old == new else "replaced"
    if old is None or new is None:
        fate = "run" if old is new else "gained" if old is None else "lost"
    return DifferenceRow(fate=fate, before=old, after=new, steps=line.steps, differing=line.differing)


def _time_rows(found: PathChanges) -> list[PathTimeRow]:
    """Rows of the paths whose times changed significantly, largest absolute contribution to the mean response
    time first."""
    part, table, times = found.account.timing_us, found.table, found.times
    changed = np.flatnonzero(times.changed)
    order = changed[np.lexsort((changed, -np.abs(part[changed])))]
    return [
        PathTimeRow(
            category=found.table.graphs[i].key,
            root=found.table.graphs[i].root,
            n_nodes=found.table.graphs[i].n_nodes,
            requests0=int(table.count[0, i]),
            requests1=int(table.count[1, i]),
            mean0_us=float(table.mean_us[0, i]),
            mean1_us=float(table.mean_us[1, i]),
            contribution_us=float(part[i]),
            p=float(times.estimate.p[i]),
            q=float(times.q[i]),
            z=float(times.estimate.z[i]),
        )
        for i in order.tolist()
    ]


def _rare_rows(found: PathChanges) -> tuple[RarePathsRow, ...]:
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


TIMES_SHOWN: Final = 50
"""Maximum number of paths with changed times that are listed; of the others only the number is shown."""

_BREAKDOWN: Final = (
    b.Column("what", "Mean response time", value=lambda row: row[0]),
    b.Column("us", "", "figure", lambda row: row[1]),
)
_MOVES: Final = (
    b.Column("", "Came from", "text", lambda move: _end(move.source, "no path lost as many")),
    b.Column(
        "", "Went to", "text", lambda move: _end(move.target, "paths that did not change significantly")
    ),
    b.Column("share", "Share of all requests", "share"),
    b.Column("contribution_us", "On the mean", "change"),
    b.Column(
        "confidence",
        "Stable",
        "share",
        far=1,
        about="Share of draws of uncertain shares in which at least half of the move is there",
    ),
)
_TIMES: Final = (
    b.Column("root", "Root type", "name"),
    b.Column(
        "",
        "Path",
        "text",
        lambda t: (b.code(short(t.category), t.category), b.dim(f" {count(t.n_nodes)} nodes")),
    ),
    b.Column("requests{}", "Requests", "count"),
    b.Column("mean{}_us", "Mean response time", "us"),
    b.Column("contribution_us", "On the mean of all", "change"),
    b.Column("p", "p", "p", far=1),
)


def paths_blocks(section: PathsSection) -> b.Blocks:
    """Display of the section: one line on a terminal; on a page the breakdown over paths, moves, repeats,
    rare paths and times."""
    line = one_line(section)
    printed = (b.Text((b.strong("Paths: "), line)),) if line else ()
    return (b.Only("terminal", printed), b.Details("Whole paths", tuple(_page(section, line))))


def whole_paths(section: PathsSection) -> b.Blocks:
    """Display of the complete section, for a page of its own."""
    return tuple(_page(section, one_line(section)))


def _page(s: PathsSection, line: str) -> Iterator[b.Block]:
    yield b.Text(
        "Findings say where something changed; this says which whole paths requests take. "
        f"{line or 'No path changed significantly.'}"
    )
    few = (
        " They are pieces of few windows, so more noise is assumed than they show: read moves with care, or "
        "give more history."
    )
    yield b.Text(
        f"{count(s.paths_tested)} of {count(s.paths_total)} paths are frequent enough to be tested one by "
        f"one, against {counted(s.windows, 'block')} of the baseline.{few if s.no_baseline else ''}",
        "dim",
    )
    whole = s.account
    rows = (
        ("Before → after", moved_duration(whole.before_us, whole.after_us)),
        ("Other root types arrive", change(whole.mix_us)),
        ("Requests took another path", change(whole.structure_us)),
        ("The same path took longer, or less time", change(whole.timing_us)),
        ("Not significant path by path", change(whole.rest_us)),
    )
    yield b.Grid("Breakdown over whole paths", _BREAKDOWN, rows)
    yield from map(_group, s.groups)
    if len(s.groups) < s.groups_total:
        yield b.Text(f"Shown: {count(len(s.groups))} of {count(s.groups_total)} groups.", "dim")
    if s.moves_not_compared:
        yield b.Text(
            f"In the breakdown, but not compared step by step: "
            f"{counted(s.moves_not_compared, 'smaller move')} ({change(s.not_compared_us)}).",
            "dim",
        )
    if s.repeats:
        note = "estimates beside the breakdown: the same requests are in it as moves"
        yield b.Part("More or fewer repeats", (b.Items([_repeats(row) for row in s.repeats]),), note=note)
    if s.rare:
        yield b.Part("Rare paths together", (b.Items([_rare(row) for row in s.rare]),))
    if s.times:
        table = b.Grid("Paths that took longer, or less time", _TIMES, s.times[:TIMES_SHOWN], s.times_total)
        yield b.Part("Paths that took longer, or less time", (table,))


def _group(group: PathGroupRow) -> b.Part:
    share = f"{percent(group.share)} of all requests, {change(group.contribution_us)} on the mean"
    blocks: list[b.Block] = [b.Text(_roots(group.roots, group.roots_total, "more root type"))]
    if group.difference:
        blocks.append(b.Items([_difference(row) for row in group.difference], ordered=True))
    blocks.append(b.Grid(f"Moves of group {group.rank}", _MOVES, group.moves, group.moves_total))
    return b.Part(group.title, blocks, note=share, anchor=f"path{group.rank}", open=False)


def _roots(roots: Sequence[str], total: int, what: str) -> b.Words:
    more = total - len(roots)
    return (b.joined(map(b.code, roots)), f" and {counted(more, what)}" if more > 0 else "")


def _end(end: PathEnd | None, nobody: str) -> b.Words:
    if end is None:
        return b.dim(nobody)
    means = moved_duration(end.mean0_us, end.mean1_us)
    moved = f"{count(end.requests0)} → {count(end.requests1)} requests, {means}"
    shares = f" {percent(end.share0)} → {percent(end.share1)} "
    return ("path ", b.code(short(end.category), end.category), shares, b.dim(f"({moved})"))


def _difference(row: DifferenceRow) -> b.Words:
    if row.fate == "run":
        differ = f", {count(row.differing)} of them differ" if row.differing else " alike"
        return b.dim(f"… {counted(row.steps, 'step')}{differ}")
    return step_words(row.before, row.after, _step)


def _step(name: NodeName) -> b.Words:
    return (b.code(name.text), b.dim(f" {name.happens}") if name.happens else "")


def _repeats(row: RepeatsRow) -> b.Words:
    times = (
        _roots(row.roots, row.roots_total, "more"),
        f", {counted(row.categories, 'path')}, p {p_value(row.p)}",
    )
    return (repeats_title(row), " (", *times, f"), about {change(row.contribution_us)} on the mean")


def _rare(row: RarePathsRow) -> b.Words:
    return (
        b.code(row.root),
        f": {significant(row.seen)} requests on rare paths where {significant(row.expected)} were expected, "
        f"{counted(row.new_kinds, 'kind')} never seen before (p {p_value(row.p)})",
    )


_NAMED = 2
"""Maximum number of steps named in a title."""


def move_title(
    kind: MoveKind,
    anchor: NodeName | None,
    inserted: Sequence[NodeName],
    removed: Sequence[NodeName],
    replaced: Sequence[tuple[NodeName, NodeName]],
    *,
    new: bool,
    lost: bool,
) -> str:
    """Title of a group of moves, e.g. "write now goes to sn-data instead of sn-meta".

    anchor: last common step before the paths differ; inserted, removed, replaced: steps that differ; new,
    lost: True if the path is new, or gone.
    """
    after = f" after {anchor.text}" if anchor is not None else ""
    against = " (against the usual path)" if new or lost else ""
    if kind == "replaced":
        before, now = replaced[0]
        more = _more(len(replaced) - 1)
        if before.what == now.what:
            go = "go" if more else "goes"
            return f"{now.what}{more} now {go} to {now.where} instead of {before.where}{against}"
        return f"{now.text} instead of {before.text}{more}{after}{against}"
    if kind == "other-steps":
        return f"{_list(inserted)} instead of {_list(removed)}{after}{against}"
    if kind == "inserted":
        also = f"{anchor.text} is now followed by " if anchor is not None else "Also "
        return f"{also}{_list(inserted)}{against}"
    if kind == "removed":
        gone = f"{anchor.text} is no longer followed by " if anchor is not None else "No longer "
        return f"{gone}{_list(removed)}{against}"
    if kind == "repeats":
        named = f" of {_list(inserted)}" if inserted else ""
        return f"The same steps, other numbers{named}{against}"
    if kind == "order":
        return f"The same steps in another order, or waiting for others{after}{against}"
    return "The usual path of its root type is taken less" if lost else "The usual path is taken more"


def repeats_title(row: RepeatsRow) -> str:
    """Title of a change of how often an operation repeats, e.g. `read: 3.1 → 7.9 times a request`."""
    numbers = f"{wording.significant(row.before)} → {wording.significant(row.after)} times a request"
    return f"{row.operation.text}{_more(row.operations - 1)}: {numbers}"


def one_line(section: PathsSection) -> str:
    """Summary of the section in one line, for a terminal; empty if no path changed."""
    parts = []
    if section.groups_total:
        share = sum(group.share for group in section.groups)
        parts.append(
            f"{wording.percent(min(share, 1.0))} of the requests took another path "
            f"({wording.counted(section.groups_total, 'kind')} of change, "
            f"{wording.change(section.account.structure_us)} on the mean)"
        )
    if section.times_total:
        parts.append(
            f"{wording.counted(section.times_total, 'path')} took "
            f"{'longer' if section.account.timing_us > 0 else 'less time'} with the same steps "
            f"({wording.change(section.account.timing_us)} on the mean)"
        )
    if section.repeats_total:
        parts.append(f"{wording.counted(section.repeats_total, 'loop')} ran more or less often")
    if not parts:
        return ""
    first = f". Most: {section.groups[0].title}" if section.groups else ""
    return wording.sentence(f"{'; '.join(parts)}{first}")


def _list(names: Sequence[NodeName]) -> str:
    shown = ", ".join(name.text for name in names[:_NAMED])
    return shown + _more(len(names) - _NAMED)


def _more(number: int) -> str:
    return f" and {wording.counted(number, 'more step')}" if number > 0 else ""


PATHS: Final = SectionView(PathsSection, paths_blocks, aside=True)
