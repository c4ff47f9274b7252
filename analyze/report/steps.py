"""Steps of an account before and after, as rows on one axis, with stretches of small changes folded.

The bars of each side follow each other in the order in which the response waited, so that they end at the
mean.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

from analyze.report import blocks as b
from analyze.report import wording
from schemas.report.parts import NodeName, StepAccount, StepRow

MATERIAL = 0.03
"""Minimum |part| for a step to be material, as a share of the sum of all |parts|: at most 33 steps are."""
MOST_DIFFERENT = 16
"""Maximum number of differing steps up to which each gets a row even if its part is small."""
FOLD_LEAST = 3
"""Minimum number of steps to fold into one row: a fold of fewer would hide more than it saves."""
UNCHANGED = 0.25
"""Maximum change of a fold's time that is called unchanged, as a share of the larger of before and after."""


class Fate(StrEnum):
    """Difference of a step between before and after."""

    KEPT = "kept"
    REPLACED = "replaced"
    """The step has a counterpart with another name: its work is done elsewhere."""
    LOST = "lost"
    GAINED = "gained"
    FOLD = "fold"


@dataclass(frozen=True, slots=True)
class StepLine:
    """Row of the drawing: one step, or a fold of the rows `inside` (empty if the report has only their
    sums)."""

    fate: Fate
    row: StepRow
    text: str
    """Label of a fold, e.g. `12 unchanged steps`; empty for a step."""
    bars: tuple[b.Stretch, b.Stretch]
    """Stretches of the bars for the step's time: (before, after)."""
    material: bool = False
    """True if the step's part of the change is at least MATERIAL of the sum of all |parts|."""
    inside: tuple[StepLine, ...] = ()

    @property
    def was_there(self) -> bool:
        """True if the step, or any step of the fold, exists before."""
        return self.fate is not Fate.GAINED and (not self.inside or any(x.was_there for x in self.inside))

    @property
    def is_there(self) -> bool:
        """True if the step, or any step of the fold, exists after."""
        return self.fate is not Fate.LOST and (not self.inside or any(x.is_there for x in self.inside))

    @property
    def heat(self) -> str:
        """Colour of the row: `slower`, `faster` or `quiet`."""
        if not self.material:
            return "quiet"
        return "slower" if self.row.part_us > 0 else "faster"


def step_lines(account: StepAccount) -> tuple[StepLine, ...]:
    """Rows of a step account, with stretches of small parts folded. O(steps · log steps)."""
    lines = _lines(account.rows, 100 / max(account.mean0_us, account.mean1_us, 1e-9))
    return _folded(lines, _shown(lines))


def _lines(rows: Sequence[StepRow], percent_per_us: float) -> list[StepLine]:
    """Lines with bars, one per row of the account; bars of the same side follow one another on the axis."""
    least = MATERIAL * sum(abs(row.part_us) for row in rows)
    lines, ends = [], (0.0, 0.0)
    for row in rows:
        widths = (row.before_us * percent_per_us, row.after_us * percent_per_us)
        fate = _fate(row)
        bars = (
            b.Stretch("before", ends[0], widths[0], "upper"),
            b.Stretch("after", ends[1], widths[1], "lower"),
        )
        text = _text([row], [fate]) if fate is Fate.FOLD else ""
        lines.append(StepLine(fate, row, text, bars, row.part_us != 0 and abs(row.part_us) >= least))
        ends = (ends[0] + widths[0], ends[1] + widths[1])
    return lines


def _fate(row: StepRow) -> Fate:
    if row.before is None or row.after is None:
        return Fate.FOLD if row.before is row.after else Fate.LOST if row.after is None else Fate.GAINED
    return Fate.KEPT if row.before == row.after else Fate.REPLACED


def _shown(lines: Sequence[StepLine]) -> set[int]:
    """Indices of lines that are not folded: lines with a material part and the step before each, differing
    lines if they are few, the first and the last."""
    different = [i for i, line in enumerate(lines) if line.fate not in (Fate.KEPT, Fate.FOLD)]
    if len(different) > MOST_DIFFERENT:
        different = []
    material = {i for i, line in enumerate(lines) if line.material}
    return material | {i - 1 for i in material} | set(different) | {0, len(lines) - 1}


def _folded(lines: Sequence[StepLine], shown: set[int]) -> tuple[StepLine, ...]:
    """Fold stretches of at least `FOLD_LEAST` lines outside of `shown`."""
    drawn: list[StepLine] = []
    for is_shown, group in itertools.groupby(range(len(lines)), key=lambda i: i in shown):
        stretch = [lines[i] for i in group]
        if is_shown or len(stretch) < FOLD_LEAST:
            drawn += stretch
        else:
            drawn.append(_fold(stretch))
    return tuple(drawn)


def _fold(stretch: Sequence[StepLine]) -> StepLine:
    before, after = (
        replace(stretch[0].bars[side], width=sum(line.bars[side].width for line in stretch))
        for side in (0, 1)
    )
    rows = [line.row for line in stretch]
    text = _text(rows, [line.fate for line in stretch])
    return StepLine(Fate.FOLD, StepRow.together(rows), text, (before, after), inside=tuple(stretch))


def _text(stretch: Sequence[StepRow], fates: Sequence[Fate]) -> str:
    """Label of a fold: number of its steps, and how they differ.

    stretch: rows of the steps; fates: difference of each step.
    """
    steps = wording.count(sum(part.steps for part in stretch))
    if Fate.FOLD in fates:
        return f"{steps} steps with small parts"
    words = {Fate.LOST: "only before", Fate.GAINED: "only after", Fate.REPLACED: "elsewhere"}
    for fate, word in words.items():
        if all(other is fate for other in fates):
            return f"{steps} steps {word}"
    counted = [f"{wording.count(fates.count(fate))} {word}" for fate, word in words.items() if fate in fates]
    tested = sum(part.tested for part in stretch)
    if tested:
        counted.append(f"{wording.count(tested)} changed significantly")
    if counted:
        return f"{steps} steps, {', '.join(counted)}"
    before, after = (
        sum(us) for us in zip(*((part.before_us, part.after_us) for part in stretch), strict=True)
    )
    if abs(after - before) > UNCHANGED * max(before, after):
        return f"{steps} steps, each with a small part"
    return f"{steps} unchanged steps"


def steps_blocks(account: StepAccount, label: str, *, names: bool = True) -> b.Blocks:
    """Table of the material steps, and on demand a table of all steps.

    label: description of the steps; names: True to name the two sides by their categories.
    """
    lines = step_lines(account)
    every = [inner for line in lines for inner in (line.inside or (line,))]
    is_new = account.requests0 == 0
    columns, tone = _columns(is_new), partial(_tone, is_new)
    total = replace(_fold(every), text=_TOGETHER, inside=())
    shown = b.Grid(label, columns, (*lines, total), printed=0, tone=tone)
    if len(every) == len(lines):
        return (b.Text(_caption(account, names), "dim"), shown)
    whole = b.Grid(f"{label}, every one", columns, (*every, total), printed=0, tone=tone)
    return (
        b.Text(_caption(account, names), "dim"),
        shown,
        b.Details(f"All {wording.count(len(every))} steps", (whole,)),
    )


def _caption(account: StepAccount, names: bool) -> b.Words:
    head = "How long the response waited for each step, from the step before it, mean over"
    after = wording.count(account.requests1)
    if not account.requests0:
        return f"{head} {after} requests after; there were none before."
    of: tuple[b.Words, b.Words] = ("", "")
    if names and account.category0 != account.category1:
        of = (
            ("the precursor's (", b.code(wording.short(account.category0)), ") "),
            ("the mutation's (", b.code(wording.short(account.category1)), ") "),
        )
    before = wording.count(account.requests0)
    end = f"{after} after. The parts add up to {wording.change(account.mean1_us - account.mean0_us)}."
    return (f"{head} ", of[0], f"{before} requests before and ", of[1], end)


def _columns(is_new: bool) -> tuple[b.Column, ...]:
    def part(line: StepLine) -> b.Words:
        return "" if is_new or line.row.part_us == 0 else wording.change(line.row.part_us)

    return (
        b.Column("", "Step", "text", _step),
        b.Column("", "Before", "figure", lambda x: _waited(x.row.before_us, x.was_there and not is_new)),
        b.Column("", "After", "figure", lambda line: _waited(line.row.after_us, line.is_there)),
        b.Column("", "", "bar", lambda line: b.Bar(line.bars, _title(line, is_new))),
        b.Column("", "Contribution", "figure", part),
    )


def _step(line: StepLine) -> b.Words:
    """Name of a step, marked `+`, `−` or `±` if it exists on one side only or differs; for a fold its
    label.
    """
    if line.text:
        return b.dim(line.text)
    return step_words(line.row.before, line.row.after, _named)


def step_words(
    before: NodeName | None, after: NodeName | None, named: Callable[[NodeName], b.Words]
) -> b.Words:
    """Name of a step of two paths, marked `+` (only after), `−` (only before) or `±` (differs)."""
    if before is None or after is None:
        sign, name = ("+ ", after) if before is None else ("− ", before)
        return (b.strong(sign), "" if name is None else named(name))
    if before == after:
        return named(after)
    return (b.strong("± "), named(after), b.dim(" instead of "), named(before))


def _named(name: NodeName) -> b.Words:
    side = b.dim(f" {name.happens}") if name.side else ""
    return (b.dim(f"{wording.clip(name.where, 48)} "), wording.clip(name.what, 64), side)


def _waited(us: float, there: bool) -> str:
    return (wording.duration(us) if us else "0") if there else "–"


def _title(line: StepLine, new: bool) -> str:
    before = "" if new else f"{wording.duration(line.row.before_us)} before, "
    return f"{before}{wording.duration(line.row.after_us)} after"


def _tone(is_new: bool, line: StepLine) -> str:
    return "end" if line.text == _TOGETHER else "" if is_new else line.heat


_TOGETHER = "Together"
"""Label of the last row, which has the mean before and after."""
