"""A train schedule as SVG: time to the right, a lane a component, bars for work, lines for messages (H.5)."""

from __future__ import annotations

from typing import Final

from markupsafe import Markup

from analyze.report import wording
from analyze.report.drawing.stretched import WIDE, Stretched, Tick, draw_ticks, px
from schemas.report.schedules import TrainSchedule

LANE: Final = 38
"""As high as a row of the list of names beside it (style sheet)."""
TOP: Final = 6
BOTTOM: Final = 20
_LEAST: Final = 1.2
"""Of WIDE: the shortest bar that is drawn as such."""


def draw_train(schedule: TrainSchedule, title: str) -> Markup:
    """The schedule zoomed out: no point inside a component, only when it worked and who called whom."""
    floor = TOP + LANE * len(schedule.lanes)
    # Deferred work may go on after the response.
    last = max([schedule.response_us, *(bar.end_us for bar in schedule.bars)])
    whole = last or 1.0
    drawing = Stretched(floor + BOTTOM, "train", wording.visible(title))
    draw_ticks(drawing, even_ticks(last), TOP, floor)

    def y(lane: int) -> float:
        return TOP + LANE * (lane + 0.5)

    for number in range(len(schedule.lanes)):
        drawing.line("rail", 0, y(number), 1, y(number), below=True)
    for waited, kind in ((False, "message"), (True, "message waited")):
        drawing.path(
            kind,
            "".join(
                f"M{px(WIDE * m.start_us / whole)} {px(y(m.source))}"
                f"L{px(WIDE * m.end_us / whole)} {px(y(m.target))}"
                for m in schedule.messages
                if m.waited is waited
            ),
        )
    for waited, kind in ((False, "work"), (True, "work waited")):
        parts = []
        for bar in schedule.bars:
            if bar.waited is waited and bar.end_us > bar.start_us:
                start = WIDE * bar.start_us / whole
                parts.append(
                    f"M{px(start)} {px(y(bar.lane))}h{max(WIDE * bar.end_us / whole - start, _LEAST):.2f}"
                )
        drawing.path(kind, "".join(parts))
    return drawing.svg()


def even_ticks(last_us: float) -> list[Tick]:
    """Round times from 0, at most eight; 0 alone where nothing takes time."""
    if last_us <= 0:
        return [Tick(0.0, wording.duration(0.0))]
    step = 10.0 ** _power(last_us / 7)
    step *= next(times for times in (1, 2, 5, 10) if 7 * step * times >= last_us)
    return [Tick(i * step / last_us, wording.duration(i * step)) for i in range(int(last_us / step) + 1)]


def _power(value: float) -> int:
    """The power of ten below a value."""
    return int(f"{value:e}".partition("e")[2])
