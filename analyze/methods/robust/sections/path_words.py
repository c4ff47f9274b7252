"""What is said about moves between paths: substructures by name, not by hash."""

from __future__ import annotations

from collections.abc import Sequence

from analyze.report import wording
from schemas.report.parts import NodeName
from schemas.report.paths import MoveKind, PathsSection, RepeatsRow

_NAMED = 2
"""Steps that a sentence names."""


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
    """One sentence about a group of moves: "write now goes to sn-data instead of sn-meta"."""
    after = f" after {anchor.text}" if anchor is not None else ""
    against = " (against the usual path)" if new or lost else ""
    if kind == "replaced":
        before, now = replaced[0]
        more = _more(len(replaced) - 1, "step")
        if before.what == now.what:
            go = "go" if more else "goes"
            return f"{now.what}{more} now {go} to {now.where} instead of {before.where}{against}"
        return f"{now.text} instead of {before.text}{more}{after}{against}"
    if kind == "other-steps":
        return f"{_list(inserted)} instead of {_list(removed)}{after}{against}"
    if kind == "inserted":
        return f"Also {_list(inserted)}{after}{against}"
    if kind == "removed":
        return f"No longer {_list(removed)}{after}{against}"
    if kind == "repeats":
        named = f" of {_list(inserted)}" if inserted else ""
        return f"The same steps, other numbers{named}{against}"
    if kind == "order":
        return f"The same steps in another order, or waiting for others{after}{against}"
    return "The usual path of its root type is taken less" if lost else "The usual path is taken more"


def repeats_title(row: RepeatsRow) -> str:
    """`read: 3.1 → 7.9 times a request`."""
    numbers = f"{wording.significant(row.before)} → {wording.significant(row.after)} times a request"
    return f"{row.operation.text}{_more(row.operations - 1, 'step')}: {numbers}"


def one_line(section: PathsSection) -> str:
    """All of the section in one line, for a terminal; empty where no path changed."""
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
            f"{wording.counted(section.times_total, 'path')} took another time "
            f"({wording.change(section.account.timing_us)})"
        )
    if section.repeats_total:
        parts.append(f"{wording.counted(section.repeats_total, 'loop')} ran more or less often")
    if not parts:
        return ""
    first = f"; most: {section.groups[0].title}" if section.groups else ""
    return f"{'; '.join(parts)}{first}."


def _list(names: Sequence[NodeName]) -> str:
    shown = ", ".join(name.text for name in names[:_NAMED])
    return shown + _more(len(names) - _NAMED, "step")


def _more(number: int, what: str) -> str:
    return f" and {wording.counted(number, f'more {what}')}" if number > 0 else ""
