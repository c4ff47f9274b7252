"""One request as swim lanes: bars of work by component and host, with the critical path marked.

Pure model: `activities` turns a stored flow into bars, `cells` a bar into positions on the axis of the
response; `flowdiff flow` draws them in the terminal.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa

from analyze.paths.critical_path import critical_positions
from analyze.sql.span_times import SpanTimes
from stitch.graph.placed import END, START


@dataclass(frozen=True, slots=True)
class Activity:
    """A bar of work: one span, or consecutive activity records on one component and host."""

    lane: str
    """Component, followed by `@host` if the host is known."""
    name: str
    depth: int
    """Number of ancestors, for indentation; 0 for the root."""
    start_us: float
    end_us: float
    critical_us: float
    """Part of the bar's time that lies on the critical path, µs."""
    deferred: bool
    failed: tuple[str, ...] = ()
    """Error classes of the bar's failed nodes, without duplicates."""

    @property
    def duration_us(self) -> float:
        """Length of the bar, µs; 0 for a point."""
        return self.end_us - self.start_us


@dataclass(frozen=True, slots=True)
class Cells:
    """Position of a bar on an axis that is divided into cells, clipped to the axis."""

    left: int
    """Index of the bar's first cell."""
    length: int
    """Number of cells, >= 1; `left + length` is at most the number of cells of the axis."""
    earlier: bool
    """True if the bar begins before the axis, i.e. before the request: a clock is behind."""
    later: bool
    """True if the bar ends after the axis: the response did not wait for the rest of the work."""


def cells(bar: Activity, axis_us: float, count: int) -> Cells:
    """Place a bar on an axis from 0 to `axis_us` in `count` >= 1 cells.

    A bar that lies entirely outside of the axis gets the cell at the nearer end. `axis_us` 0: a single point
    in time.
    """
    per_us = count / axis_us if axis_us > 0 else 0.0
    left = min(max(math.floor(bar.start_us * per_us), 0), count - 1)
    past = min(max(math.ceil(bar.end_us * per_us), left + 1), count)
    return Cells(left, past - left, earlier=bar.start_us < 0, later=bar.end_us > axis_us)


def activities(flow: Mapping[str, Any], structure: Mapping[str, Any]) -> list[Activity]:
    """Bars of one flow, each after its predecessors, siblings by start.

    flow: row of FLOWS_SCHEMA; structure: row of STRUCTURES_SCHEMA of the flow's category; both as dicts.
    """
    nodes: list[dict[str, Any]] = structure["nodes"]
    if any(node["side"] == START for node in nodes):
        return _span_bars(flow, nodes)
    edges = [(edge["src"], edge["dst"]) for edge in structure["in_edges"]]
    return _record_bars(flow, nodes, edges, structure["responses"])


def _lane(flow: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]], position: int) -> str:
    host = flow["host"][position]
    component: str = nodes[position]["component"]
    return f"{component}@{host}" if host is not None else component


def _failures(flow: Mapping[str, Any]) -> dict[int, str]:
    """Position of a failed node -> its error class."""
    return dict(zip(flow["error_position"], flow["error_class"], strict=True))


def _classes(failures: Mapping[int, str], positions: Iterable[int]) -> tuple[str, ...]:
    """Error classes of the nodes at `positions`, in order, without duplicates."""
    return tuple(dict.fromkeys(failures[position] for position in positions if position in failures))


def _name(node: Mapping[str, Any]) -> str:
    return str(node["point"]) + (f" [{node['label']}]" if node["label"] is not None else "")


def _span_bars(flow: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]]) -> list[Activity]:
    """Bars of a flow of spans: one per span, a point per span event; a span is followed by its children."""
    offsets = flow["offset_ns"]
    own = _own_critical_ns(nodes, offsets)
    failures = _failures(flow)
    depth: dict[int, int] = {}
    bars = []
    for position in _nested([node["parent"] for node in nodes], offsets):
        node = nodes[position]
        if node["side"] == END:
            continue
        depth[position] = depth.get(node["parent"], -1) + 1
        last = node["mate"] if node["side"] == START else position
        bars.append(
            Activity(
                lane=_lane(flow, nodes, position),
                name=_name(node),
                depth=depth[position],
                start_us=offsets[position] / 1e3,
                end_us=offsets[last] / 1e3,
                critical_us=own.get(position, 0) / 1e3,
                deferred=bool(node["deferred"]),
                failed=_classes(failures, (position, last)),
            )
        )
    return bars


def _nested(parents: Sequence[int], starts: Sequence[int]) -> list[int]:
    """Positions in depth-first order; siblings by start, ties by position. parents: -1 for a root."""
    children: dict[int, list[int]] = {}
    for position in sorted(range(len(parents)), key=lambda p: (-starts[p], -p)):
        children.setdefault(parents[position], []).append(position)
    order = []
    waiting = children.get(-1, [])
    while waiting:
        order.append(waiting.pop())
        waiting += children.get(order[-1], [])
    return order


def _own_critical_ns(nodes: Sequence[Mapping[str, Any]], offsets: Sequence[int]) -> dict[int, int]:
    """Start position of a span -> own time on this request's critical path, ns.

    Computed from the times of this one request, as in the view `spans`: the order of siblings is not stored,
    and cannot be learned from one request. Sums to the response time if every span lies inside its parent.
    """
    spans = SpanTimes()
    spans.set_structures(pa.table({"category": [""], "nodes": [[*nodes]]}))
    (times,) = spans(pa.array([""]), pa.array([offsets])).to_pylist()
    starts = [position for position, node in enumerate(nodes) if node["side"] == START]
    return {at: ns for at, ns in zip(starts, times["critical_ns"], strict=True) if ns is not None}


def _record_bars(
    flow: Mapping[str, Any],
    nodes: Sequence[Mapping[str, Any]],
    edges: Sequence[tuple[int, int]],
    responses: Sequence[int],
) -> list[Activity]:
    """Bars of a flow of activity records: one bar per sequence of records on one component and host without a
    split or join inside."""
    offsets = flow["offset_ns"]
    failures = _failures(flow)
    path = critical_positions(offsets, edges, responses)
    # The time of a critical edge counts for the run in which it ends.
    waited = {dst: (offsets[dst] - offsets[src]) / 1e3 for src, dst in pairwise(path)}
    successors: dict[int, list[int]] = {}
    predecessors: dict[int, list[int]] = {}
    for src, dst in edges:
        successors.setdefault(src, []).append(dst)
        predecessors.setdefault(dst, []).append(src)
    run_of: dict[int, int] = {}
    runs: list[list[int]] = []
    for position in range(len(nodes)):
        before = predecessors.get(position, [])
        continues = (
            len(before) == 1
            and len(successors[before[0]]) == 1
            and _lane(flow, nodes, before[0]) == _lane(flow, nodes, position)
        )
        if continues:
            run_of[position] = run_of[before[0]]
            runs[run_of[position]].append(position)
        else:
            run_of[position] = len(runs)
            runs.append([position])
    strand_depth: list[int] = []
    comes_from: list[set[int]] = []
    for run in runs:
        before = predecessors.get(run[0], [])
        comes_from.append({run_of[position] for position in before})
        above = [strand_depth[run_of[position]] for position in before]
        forked = len(before) == 1 and len(successors[before[0]]) > 1
        strand_depth.append(min(above) + forked if above else 0)
    return [
        Activity(
            lane=_lane(flow, nodes, runs[i][0]),
            name=" … ".join(_name(nodes[position]) for position in dict.fromkeys((runs[i][0], runs[i][-1]))),
            depth=strand_depth[i],
            start_us=offsets[runs[i][0]] / 1e3,
            end_us=offsets[runs[i][-1]] / 1e3,
            critical_us=sum(waited.get(position, 0.0) for position in runs[i]),
            deferred=bool(nodes[runs[i][0]]["deferred"]),
            failed=_classes(failures, runs[i]),
        )
        for i in _strand_by_strand(comes_from, [offsets[run[0]] for run in runs])
    ]


def _strand_by_strand(comes_from: Sequence[set[int]], starts: Sequence[int]) -> list[int]:
    """Indices of bars of records in an order in which each bar follows all its predecessors; ties by
    position.

    At a fork, the branch that started first is followed to its join before the next branch.
    """
    open_before = [len(sources) for sources in comes_from]
    leads_to: list[list[int]] = [[] for _ in comes_from]
    for run, sources in enumerate(comes_from):
        for source in sources:
            leads_to[source].append(run)
    order = []
    ready = [run for run, sources in enumerate(comes_from) if not sources]
    ready.sort(key=lambda run: (-starts[run], -run))
    while ready:
        order.append(ready.pop())
        freed = []
        for run in leads_to[order[-1]]:
            open_before[run] -= 1
            if open_before[run] == 0:
                freed.append(run)
        ready += sorted(freed, key=lambda run: (-starts[run], -run))
    return order
