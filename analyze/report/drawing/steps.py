"""Where the time went, drawn: the steps before and after as aligned rows on one axis, quiet stretches folded.

The bars of either side follow each other as the response waited for them, so that they end at the mean.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from analyze.report import wording
from schemas.report.parts import NodeName
from schemas.report.step_account import StepAccount, StepRow

MATERIAL = 0.03
"""A step with at least this share of the sum of all |parts| is pointed out: at most 33 of them."""
MOST_DIFFERENT = 16
"""Up to so many steps that are not the same on both sides each have a row, though their part is small."""
FOLD_LEAST = 3
"""A stretch of fewer steps is drawn as it is: a fold would hide more than it saves."""
UNCHANGED = 0.25
"""A fold whose times together moved by more than this share of the larger is not called unchanged."""
MOST_TICKS = 6


class Fate(StrEnum):
    """What became of a step."""

    KEPT = "kept"
    REPLACED = "replaced"
    """Another component does the same work in its place."""
    LOST = "lost"
    GAINED = "gained"
    FOLD = "fold"


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar on the axis, percent of its length."""

    left: float
    width: float


@dataclass(frozen=True, slots=True)
class Line:
    """One row of the drawing; a fold has the rows `inside` it (none where the model has only their sums)."""

    fate: Fate
    before: NodeName | None
    after: NodeName | None
    text: str
    """Of a fold."""
    before_us: float
    after_us: float
    bars: tuple[Bar, Bar]
    """Before, after."""
    material: bool
    """Carries much of the change."""
    tested: bool
    steps: int
    inside: tuple[Line, ...] = ()

    @property
    def part_us(self) -> float:
        """Its part of the change of the mean."""
        return self.after_us - self.before_us

    @property
    def was_there(self) -> bool:
        """Whether any of it was there before."""
        return self.fate is not Fate.GAINED and (not self.inside or any(x.was_there for x in self.inside))

    @property
    def is_there(self) -> bool:
        """Whether any of it is there after."""
        return self.fate is not Fate.LOST and (not self.inside or any(x.is_there for x in self.inside))

    @property
    def heat(self) -> str:
        """`slower`, `faster` or `quiet`."""
        if not self.material:
            return "quiet"
        return "slower" if self.part_us > 0 else "faster"


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark of the axis, percent of its length."""

    left: float
    us: float


@dataclass(frozen=True, slots=True)
class StepsView:
    """The drawing of one account."""

    account: StepAccount
    lines: tuple[Line, ...]
    ticks: tuple[Tick, ...]
    """Round times from 0."""
    total: tuple[Bar, Bar]
    """Both means."""

    @property
    def part_us(self) -> float:
        """What the parts of all lines add up to."""
        return self.account.mean1_us - self.account.mean0_us

    @property
    def tick_step(self) -> float:
        """From tick to tick, percent of the axis; the whole axis where there is one tick."""
        return self.ticks[1].left if len(self.ticks) > 1 else 100.0

    @property
    def aligned(self) -> bool:
        """Whether two structures stand side by side."""
        return self.account.category0 != self.account.category1

    @property
    def new(self) -> bool:
        """Whether there was nothing before to compare with: the times after stand alone."""
        return self.account.requests0 == 0


def steps_view(account: StepAccount) -> StepsView:
    """Rows, folds and axis of an account. O(steps · log steps)."""
    end_us = max(account.mean0_us, account.mean1_us, 1e-9)
    lines = _lines(account.rows, 100 / end_us)
    return StepsView(
        account=account,
        lines=_folded(lines, _shown(lines)),
        ticks=tuple(Tick(100 * us / end_us, us) for us in round_times(end_us)),
        total=(Bar(0, 100 * account.mean0_us / end_us), Bar(0, 100 * account.mean1_us / end_us)),
    )


def _lines(rows: Sequence[StepRow], percent_per_us: float) -> list[Line]:
    """A line a row, each side's bars one after the other."""
    least = MATERIAL * sum(abs(row.part_us) for row in rows)
    lines, ends = [], (0.0, 0.0)
    for row in rows:
        widths = (row.before_us * percent_per_us, row.after_us * percent_per_us)
        fate = _fate(row)
        lines.append(
            Line(
                fate=fate,
                before=row.before,
                after=row.after,
                text=_text([row], [fate]) if fate is Fate.FOLD else "",
                before_us=row.before_us,
                after_us=row.after_us,
                bars=(Bar(ends[0], widths[0]), Bar(ends[1], widths[1])),
                material=row.part_us != 0 and abs(row.part_us) >= least,
                tested=row.tested,
                steps=row.steps,
            )
        )
        ends = (ends[0] + widths[0], ends[1] + widths[1])
    return lines


def _fate(row: StepRow) -> Fate:
    if row.before is None and row.after is None:
        return Fate.FOLD
    if row.after is None:
        return Fate.LOST
    if row.before is None:
        return Fate.GAINED
    return Fate.KEPT if row.before == row.after else Fate.REPLACED


def _shown(lines: Sequence[Line]) -> set[int]:
    """Lines with a row of their own: what carries the change with the step before it, the few that differ,
    the first and the last."""
    different = [i for i, line in enumerate(lines) if line.fate not in (Fate.KEPT, Fate.FOLD)]
    if len(different) > MOST_DIFFERENT:
        different = []
    material = {i for i, line in enumerate(lines) if line.material}
    return material | {i - 1 for i in material} | set(different) | {0, len(lines) - 1}


def _folded(lines: Sequence[Line], shown: set[int]) -> tuple[Line, ...]:
    """Stretches of `FOLD_LEAST` lines and more that are not shown become one."""
    drawn: list[Line] = []
    for is_shown, group in itertools.groupby(range(len(lines)), key=lambda i: i in shown):
        stretch = [lines[i] for i in group]
        if is_shown or len(stretch) < FOLD_LEAST:
            drawn += stretch
        else:
            drawn.append(_fold(stretch))
    return tuple(drawn)


def _fold(stretch: Sequence[Line]) -> Line:
    bars = [
        Bar(stretch[0].bars[side].left, sum(line.bars[side].width for line in stretch)) for side in (0, 1)
    ]
    return Line(
        fate=Fate.FOLD,
        before=None,
        after=None,
        text=_text(stretch, [line.fate for line in stretch]),
        before_us=sum(line.before_us for line in stretch),
        after_us=sum(line.after_us for line in stretch),
        bars=(bars[0], bars[1]),
        material=False,
        tested=False,
        steps=sum(line.steps for line in stretch),
        inside=tuple(stretch),
    )


def _text(stretch: Sequence[Line | StepRow], fates: Sequence[Fate]) -> str:
    """What a fold says it holds."""
    steps = wording.count(sum(part.steps for part in stretch))
    if Fate.FOLD in fates:
        return f"{steps} steps with small parts"
    words = {Fate.LOST: "only before", Fate.GAINED: "only after", Fate.REPLACED: "elsewhere"}
    for fate, word in words.items():
        if all(other is fate for other in fates):
            return f"{steps} steps {word}"
    told = [f"{wording.count(fates.count(fate))} {word}" for fate, word in words.items() if fate in fates]
    tested = sum(part.tested for part in stretch)
    if tested:
        told.append(f"{wording.count(tested)} changed by test")
    if told:
        return f"{steps} steps, {', '.join(told)}"
    before, after = (
        sum(us) for us in zip(*((part.before_us, part.after_us) for part in stretch), strict=True)
    )
    if abs(after - before) > UNCHANGED * max(before, after):
        return f"{steps} steps, each with a small part"
    return f"{steps} unchanged steps"


def round_times(end_us: float) -> list[float]:
    """0 and the multiples of 1, 2 or 5 times a power of ten up to `end_us` > 0, at most `MOST_TICKS`."""
    power = 10.0 ** math.floor(math.log10(end_us / (MOST_TICKS - 1)))
    step = next(power * k for k in (1, 2, 5, 10, 20) if end_us / (power * k) <= MOST_TICKS - 1)
    return [step * k for k in range(math.floor(end_us / step + 1e-9) + 1)]
