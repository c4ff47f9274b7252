"""Blocks of a train schedule: the drawing, and the steps of each component on demand."""

from __future__ import annotations

from markupsafe import Markup

from analyze.report import wording
from analyze.report.bars import Axis
from analyze.report.blocks import Bar, Blocks, Column, Details, Drawing, Grid, Styled, dim
from analyze.report.drawing.svg import element
from analyze.report.drawing.wide_charts import draw_train
from schemas.report.parts import ScheduleStep, TrainSchedule


def schedule_blocks(schedule: TrainSchedule, title: str) -> Blocks:
    """The drawing, and a table of the steps of each component."""
    rails = Markup("").join(
        element(
            "li",
            element("b", wording.clip(lane.component, 44)),
            element("span", wording.clip(", ".join(lane.hosts), 44), class_="dim host"),
            element("span", wording.duration(lane.waited_us) if lane.waited_us > 0 else "", class_="n"),
        )
        for lane in schedule.lanes
    )
    listed = element("ol", rails, class_="rails")
    drawn = element("div", listed, draw_train(schedule, title), class_="schedule")
    cut = f"; {wording.count(schedule.cut)} parts not drawn" if schedule.cut else ""
    messages = f", {wording.duration(schedule.message_us)} of the response" if schedule.message_us > 0 else ""
    legend = (
        Styled("", "swatch", "waited"),
        "work that the response waited for ",
        Styled("", "swatch", "other"),
        "other work ",
        Styled("", "swatch", "line"),
        f"calls and replies{messages}{cut}",
    )
    last = max([schedule.response_us, *(bar.end_us for bar in schedule.bars)])
    axis = Axis(0.0, last)
    columns = (
        Column("name", "Step", "name"),
        Column("", "", "bar", lambda step: _extent(step, axis)),
        Column("", "Takes", "us", lambda step: step.end_us - step.start_us),
        Column("waited_us", "Waited for", "us"),
    )
    lanes = [
        Details(
            (f"{wording.clip(lane.component, 60)} ", dim(f"{wording.duration(lane.waited_us)} waited for")),
            (Grid(f"Steps of {lane.component}", columns, lane.steps, lane.steps_total),),
        )
        for lane in schedule.lanes
        if lane.steps
    ]
    return (Drawing(drawn, legend=legend), Details("Open a component", lanes))


def _extent(step: ScheduleStep, axis: Axis) -> Bar:
    kind = "waited" if step.waited_us > 0 else "idle"
    title = f"from {wording.duration(step.start_us)} to {wording.duration(step.end_us)}"
    return Bar((axis.stretch(kind, step.start_us, step.end_us),), title)
