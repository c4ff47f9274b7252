"""Train schedule of a request (technical report, Figure 7).

A lane is a component. An edge of the graph is work of one component, or a message: for activity records an
edge between two components, for spans the way from the caller's side of a remote call to the serving span,
and back. If a span calls another component without a span for the caller's side, the call takes no recorded
time and is drawn vertically.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np
from markupsafe import Markup

from analyze.numbering import Numbering
from analyze.paths.critical_path import critical_positions
from analyze.population import Category, Graph, Population
from analyze.profile.call_sites import GraphSites
from analyze.profile.names import Names
from analyze.report import wording
from analyze.report.bars import Axis
from analyze.report.blocks import Bar, Blocks, Column, Details, Drawing, Grid, Styled, dim
from analyze.report.drawing.svg import element
from analyze.report.drawing.wide_charts import draw_train
from schemas.arrays import F8
from schemas.report.parts import ScheduleBar, ScheduleLane, ScheduleMessage, ScheduleStep, TrainSchedule
from schemas.windows import NS_PER_US
from stitch.graph.placed import END, START

_MOST_STEPS: Final = 40
"""Maximum number of steps listed per component."""
_MOST_PARTS: Final = 600
"""Maximum number of bars drawn, and of messages drawn."""
_MOST_LANES: Final = 24
"""Maximum number of lanes; if there are more components, the last ones share a lane."""
_OTHERS: Final = "others"
_Span = tuple[float, float]


def hosts_of(population: Population, category: Category, row: int) -> list[str]:
    """[nodes] name of the host of each node of a request; empty if unknown. row: index of the request."""
    if category.host is None:
        return [node.host for node in category.graph.nodes]
    return [population.hosts[code] if code >= 0 else "" for code in category.host[:, row].tolist()]


@dataclass(slots=True)
class _Drawing:
    """Lanes, work and messages of a schedule under construction; times in µs."""

    lane: Numbering[str] = field(default_factory=Numbering)
    work: dict[tuple[int, bool], list[_Span]] = field(default_factory=dict)
    messages: list[ScheduleMessage] = field(default_factory=list)

    def lane_of(self, component: str) -> int:
        if component in self.lane or len(self.lane) < _MOST_LANES - 1:
            return self.lane[component]
        return self.lane.setdefault(_OTHERS, _MOST_LANES - 1)

    def message(self, source: int, start: float, target: int, end: float, waited: bool) -> None:
        if source != target:
            self.messages.append(
                ScheduleMessage(source=source, start_us=start, target=target, end_us=end, waited=waited)
            )


def train_schedule(
    graph: Graph,
    sites: GraphSites,
    names: Names,
    times_ns: F8,
    *,
    request_id: str | None = None,
    hosts: Sequence[str] | None = None,
) -> TrainSchedule:
    """Make a schedule from node times, which must satisfy dst >= src along every edge. O(nodes + edges), plus
    sorting.

    times_ns: [nodes]; hosts: [nodes] names, empty if unknown; None: several requests together.
    """
    us = (times_ns / NS_PER_US).tolist()
    edges = [(int(a), int(b)) for a, b in graph.edges.tolist()]
    path = critical_positions(us, edges, graph.responses.tolist())
    critical = set(pairwise(path))
    drawing = _Drawing()
    for position in sorted(range(graph.n_nodes), key=lambda i: (us[i], i)):
        drawing.lane_of(graph.nodes[position].component)
    callers = _callers(sites, names)
    waited_unit = np.zeros(max(sites.n_units, 1))
    lane_waited: dict[int, float] = {}
    message_us = 0.0
    for number in sorted(range(len(edges)), key=lambda i: (us[edges[i][0]], us[edges[i][1]], i)):
        src, dst = edges[number]
        waited = edges[number] in critical
        owner = int(sites.owner[number])
        if sites.are_calls:
            lane = drawing.lane_of(graph.nodes[int(sites.start[owner])].component)
            is_message = _call(drawing, graph, sites, (src, dst), owner in callers, owner, us, waited)
        else:
            lane = drawing.lane_of(graph.nodes[src].component)
            target = drawing.lane_of(graph.nodes[dst].component)
            is_message = target != lane
            drawing.message(lane, us[src], target, us[dst], waited)
        length = us[dst] - us[src]
        if waited and not is_message:
            lane_waited[lane] = lane_waited.get(lane, 0.0) + length
        if waited:
            message_us += length if is_message else 0.0
            waited_unit[owner] += length
        if not is_message:
            drawing.work.setdefault((lane, waited), []).append((us[src], us[dst]))
    bars = [
        ScheduleBar(lane=lane, start_us=start, end_us=end, waited=waited)
        for (lane, waited), spans in drawing.work.items()
        for start, end in _joined(spans)
    ]
    bars.sort(key=lambda bar: (bar.start_us, bar.lane, bar.end_us, bar.waited))
    return TrainSchedule(
        request_id=request_id,
        response_us=us[path[-1]],
        message_us=message_us,
        lanes=tuple(
            ScheduleLane(
                component=component,
                hosts=_lane_hosts(graph, drawing, lane, hosts),
                work_us=sum(
                    end - start
                    for start, end in _joined(
                        [span for waited in (True, False) for span in drawing.work.get((lane, waited), [])]
                    )
                ),
                waited_us=lane_waited.get(lane, 0.0),
                steps=tuple(steps[:_MOST_STEPS]),
                steps_total=len(steps),
            )
            for component, lane in drawing.lane.items()
            for steps in [_steps(graph, sites, names, drawing, lane, us, waited_unit)]
        ),
        bars=tuple(bars[:_MOST_PARTS]),
        messages=tuple(drawing.messages[:_MOST_PARTS]),
        cut=max(len(bars) - _MOST_PARTS, 0) + max(len(drawing.messages) - _MOST_PARTS, 0),
    )


def _call(
    drawing: _Drawing,
    graph: Graph,
    sites: GraphSites,
    edge: tuple[int, int],
    is_caller: bool,
    owner: int,
    us: Sequence[float],
    waited: bool,
) -> bool:
    """Add the messages at the ends of an edge of spans; return True if the whole edge is a message.

    is_caller: the edge's unit `owner` is the caller's side of a remote call.
    """
    src, dst = edge
    here = graph.nodes[int(sites.start[owner])].component
    source, target = graph.nodes[src], graph.nodes[dst]
    lane = drawing.lane_of(here)
    comes = source.side == END and source.component != here
    goes = target.side == START and target.component != here
    # Between the caller's side of a remote call and the serving span.
    one_way = (goes and src == int(sites.start[owner])) or (comes and dst == int(sites.end[owner]))
    if one_way and is_caller:
        first, last = (lane, drawing.lane_of(target.component)) if goes else (None, lane)
        drawing.message(
            drawing.lane_of(source.component) if first is None else first, us[src], last, us[dst], waited
        )
        return True
    if comes:
        drawing.message(drawing.lane_of(source.component), us[src], lane, us[src], waited)
    if goes:
        drawing.message(lane, us[dst], drawing.lane_of(target.component), us[dst], waited)
    return False


def _callers(sites: GraphSites, names: Names) -> set[int]:
    """Indices of the calls (units) that are the caller's side of a remote call: spans whose only child serves
    the call."""
    if not sites.are_calls:
        return set()
    children = np.bincount(sites.above[sites.above >= 0], minlength=sites.n_units)
    return {
        unit
        for unit in np.flatnonzero(children == 1).tolist()
        if names.operation(int(sites.site[unit])).callee
    }


def _joined(spans: Sequence[_Span]) -> list[_Span]:
    """Merge intervals that touch or overlap; the result is ascending."""
    found: list[_Span] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def _lane_hosts(graph: Graph, drawing: _Drawing, lane: int, hosts: Sequence[str] | None) -> tuple[str, ...]:
    if hosts is None:
        return ()
    mine = {
        host
        for node, host in zip(graph.nodes, hosts, strict=True)
        if host and drawing.lane_of(node.component) == lane
    }
    return tuple(sorted(mine))[:3]


def _steps(
    graph: Graph,
    sites: GraphSites,
    names: Names,
    drawing: _Drawing,
    lane: int,
    us: Sequence[float],
    waited: F8,
) -> list[ScheduleStep]:
    """Steps inside a component, in order of start: its spans (spans), or the edges between its records
    (activity records)."""
    found = []
    for unit in range(sites.n_units):
        start, end = int(sites.start[unit]), int(sites.end[unit])
        if drawing.lane_of(graph.nodes[start].component) != lane:
            continue
        if not sites.are_calls and drawing.lane_of(graph.nodes[end].component) != lane:
            continue
        if sites.are_calls and start == end:
            continue
        name = names.operation(int(sites.site[unit]))
        caller = names.caller(int(sites.site[unit]))
        text = f"{name.point} -> {name.callee}" if name.callee else name.point
        if not sites.are_calls and caller is not None:
            text = f"{caller.point} -> {text}"
        found.append(
            ScheduleStep(name=text, start_us=us[start], end_us=us[end], waited_us=float(waited[unit]))
        )
    return sorted(found, key=lambda step: (step.start_us, -step.end_us, step.name))


def schedule_blocks(schedule: TrainSchedule, title: str) -> Blocks:
    """Blocks of a schedule: the drawing, and on demand a table of steps for each component."""
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
