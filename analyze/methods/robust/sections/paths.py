"""Whole paths, at the end of the page and in one line on a terminal: which requests take another one now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from analyze.methods.robust.sections.path_words import one_line, repeats_title
from analyze.report.blocks import (
    Block,
    Blocks,
    Column,
    Details,
    Grid,
    Items,
    Only,
    Part,
    Styled,
    Text,
    Words,
    code,
    dim,
    joined,
    strong,
)
from analyze.report.section_view import SectionView
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
from schemas.report.paths import DifferenceRow, PathEnd, PathGroupRow, PathsSection, RarePathsRow, RepeatsRow

TIMES_SHOWN: Final = 50
"""Paths with other times listed; the rest is counted."""

_BREAKDOWN: Final = (
    Column("what", "Mean response time", value=lambda row: row[0]),
    Column("us", "", "figure", lambda row: row[1]),
)
_MOVES: Final = (
    Column("", "Came from", "text", lambda move: _end(move.source, "no path lost as many")),
    Column("", "Went to", "text", lambda move: _end(move.target, "paths that did not change significantly")),
    Column("share", "Share of all requests", "share"),
    Column("contribution_us", "On the mean", "change"),
    Column(
        "confidence",
        "Stable",
        "share",
        far=1,
        about="Share of draws of uncertain shares in which at least half of the move is there",
    ),
)
_TIMES: Final = (
    Column("root", "Root type", "name"),
    Column(
        "", "Path", "text", lambda t: (code(short(t.category), t.category), dim(f" {count(t.n_nodes)} nodes"))
    ),
    Column("requests{}", "Requests", "count"),
    Column("mean{}_us", "Mean response time", "us"),
    Column("contribution_us", "On the mean of all", "change"),
    Column("p", "p", "p", far=1),
)


def paths_blocks(section: PathsSection) -> Blocks:
    """One line for a terminal; for the page the breakdown over paths, moves, repeats, rare paths, times."""
    line = one_line(section)
    told = (Text((strong("Paths: "), line)),) if line else ()
    return (Only("terminal", told), Details("Whole paths", tuple(_page(section, line))))


def _page(s: PathsSection, line: str) -> Iterator[Block]:
    yield Text(
        "Findings say where something changed; this says which whole paths requests take. "
        f"{line or 'No path changed significantly.'}"
    )
    few = (
        " They are pieces of few windows, so more noise is assumed than they show: read moves with care, or "
        "give more history."
    )
    yield Text(
        f"{count(s.paths_tested)} of {count(s.paths_total)} paths are frequent enough to be tested one by "
        f"one, against {counted(s.windows, 'block')} of the baseline.{few if s.cold else ''}",
        "dim",
    )
    whole = s.account
    rows = (
        ("Before → after", moved_duration(whole.before_us, whole.after_us)),
        ("Other root types arrive", change(whole.mix_us)),
        ("Requests took another path", change(whole.structure_us)),
        ("The same path took another time", change(whole.timing_us)),
        ("Not significant path by path", change(whole.rest_us)),
    )
    yield Grid("Breakdown over whole paths", _BREAKDOWN, rows)
    yield from map(_group, s.groups)
    if len(s.groups) < s.groups_total:
        yield Text(f"Shown: {count(len(s.groups))} of {count(s.groups_total)} groups.", "dim")
    if s.moves_not_compared:
        yield Text(
            f"In the breakdown, but not compared step by step: "
            f"{counted(s.moves_not_compared, 'smaller move')} ({change(s.not_compared_us)}).",
            "dim",
        )
    if s.repeats:
        note = "estimates beside the breakdown: the same requests are in it as moves"
        yield Part("More or fewer repeats", (Items([_repeats(row) for row in s.repeats]),), note=note)
    if s.rare:
        yield Part("Rare paths together", (Items([_rare(row) for row in s.rare]),))
    if s.times:
        table = Grid("Paths that took another time", _TIMES, s.times[:TIMES_SHOWN], s.times_total)
        yield Part("Paths that took another time", (table,))


def _group(group: PathGroupRow) -> Part:
    share = f"{percent(group.share)} of all requests, {change(group.contribution_us)} on the mean"
    blocks: list[Block] = [Text(_roots(group.roots, group.roots_total, "more root type"))]
    if group.difference:
        blocks.append(Items([_difference(row) for row in group.difference], ordered=True))
    blocks.append(Grid(f"Moves of group {group.rank}", _MOVES, group.moves, group.moves_total))
    return Part(group.title, blocks, note=share, anchor=f"path{group.rank}", open=False)


def _roots(roots: Sequence[str], total: int, what: str) -> Words:
    more = total - len(roots)
    return (joined(map(code, roots)), f" and {counted(more, what)}" if more > 0 else "")


def _end(end: PathEnd | None, nobody: str) -> Words:
    if end is None:
        return dim(nobody)
    means = moved_duration(end.mean0_us, end.mean1_us)
    moved = f"{count(end.requests0)} → {count(end.requests1)} requests, {means}"
    shares = f" {percent(end.share0)} → {percent(end.share1)} "
    return ("path ", code(short(end.category), end.category), shares, dim(f"({moved})"))


def _difference(row: DifferenceRow) -> Words:
    if row.fate == "run":
        differ = f", {count(row.differing)} of them differ" if row.differing else " alike"
        return dim(f"… {counted(row.steps, 'step')}{differ}")
    if row.before is None or row.after is None:
        sign, name = ("+ ", row.after) if row.before is None else ("− ", row.before)
        return (
            Styled(sign, "strong", "gained" if sign == "+ " else "lost"),
            "" if name is None else _step(name),
        )
    if row.fate == "replaced":
        return (strong("± "), _step(row.after), " instead of ", _step(row.before))
    return _step(row.after)


def _step(name: NodeName) -> Words:
    return (code(name.text), dim(f" {name.happens}") if name.happens else "")


def _repeats(row: RepeatsRow) -> Words:
    told = (
        _roots(row.roots, row.roots_total, "more"),
        f", {counted(row.categories, 'path')}, p {p_value(row.p)}",
    )
    return (repeats_title(row), " (", *told, f"), about {change(row.contribution_us)} on the mean")


def _rare(row: RarePathsRow) -> Words:
    return (
        code(row.root),
        f": {significant(row.seen)} requests on rare paths where {significant(row.expected)} were expected, "
        f"{counted(row.new_kinds, 'kind')} never seen before (p {p_value(row.p)})",
    )


PATHS: Final = SectionView(PathsSection, paths_blocks, aside=True)
