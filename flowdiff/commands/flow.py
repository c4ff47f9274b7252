"""`flowdiff flow`: one request as a swim lane in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from analyze.report.drawing.swimlane import Activity, activities
from analyze.report.wording import clip, duration, short, significant, visible
from analyze.sql.browse import StoredFlow, find_flow
from analyze.sql.session import open_session
from flowdiff.options import JsonOption, LakeOption, PeriodOption, period_of
from flowdiff.output import print_json_value
from schemas.lake import RECORDS, SPANS
from schemas.quality import Quality


class FlowKind(StrEnum):
    """What a flow was made of."""

    SPANS = SPANS
    RECORDS = RECORDS


_COLOURS = ("cyan", "yellow", "green", "magenta", "blue", "bright_cyan", "bright_yellow", "bright_green")


def command(
    request_id: Annotated[str, typer.Argument(help="Request or trace id, or the beginning of one.")],
    lake: LakeOption,
    period: PeriodOption = "all",
    rows: Annotated[int, typer.Option(min=1, help="Longest list of bars to draw.")] = 60,
    params: Annotated[bool, typer.Option("--params", help="List the low-level parameters too.")] = False,
    kind: Annotated[
        FlowKind | None, typer.Option(help="Which, where an id came with spans and with records.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Draw one request: which component worked when, and what the response waited for."""
    with open_session(period_of(lake, period)) as session:
        found = find_flow(session, request_id, kind)
    if as_json:
        print_json_value({"flow": found.flow, "structure": found.structure, "params": found.params})
        return
    console = Console()
    _print_head(console, found)
    bars = activities(found.flow, found.structure)
    _print_bars(console, bars[:rows])
    if len(bars) > rows:
        console.print(f"{rows} of {len(bars)} bars; --rows shows more.", style="dim")
    if params:
        _print_params(console, found)


def _print_head(console: Console, found: StoredFlow) -> None:
    flow = found.flow
    started = datetime.fromtimestamp(flow["start_ns"] / 1e9, UTC)
    console.print(Text(visible(flow["request_id"]), style="bold"), Text(visible(flow["root"])))
    told = (
        f"{started:%Y-%m-%d %H:%M:%S.%f} UTC, response {duration(flow['response_ns'] / 1e3)}, "
        f"{flow['n_nodes']} nodes, category {short(flow['category'])}, status {flow['status']}"
    )
    if flow["inner_status"] is not None:
        told += f", {flow['inner_status']} inside"
    console.print(visible(told), markup=False)
    flags = [str(flag.name).lower() for flag in Quality if flow["quality"] & flag]
    if flags:
        console.print("quality: " + ", ".join(flags), style="yellow")


def _print_bars(console: Console, bars: Sequence[Activity]) -> None:
    """Lanes left, bars right on one time axis; what the response waited for is drawn solid and bold."""
    width = max(console.width, 60)
    lane_width = min(max((len(bar.lane) for bar in bars), default=4), width // 4)
    name_width = min(max((len(bar.name) + bar.depth for bar in bars), default=4), width // 4)
    axis = width - lane_width - name_width - 14
    first = min((bar.start_us for bar in bars), default=0.0)
    last = max((bar.end_us for bar in bars), default=0.0)
    scale = (axis - 1) / (last - first) if last > first else 0.0
    colours: dict[str, str] = {}
    table = Table(box=None, padding=(0, 1, 0, 0), show_header=True, header_style="dim")
    table.add_column("component", width=lane_width, no_wrap=True)
    table.add_column("work", width=name_width, no_wrap=True)
    table.add_column("time", width=8, justify="right", no_wrap=True)
    table.add_column(f"0 … {duration(last - first)}", width=axis, no_wrap=True)
    for bar in bars:
        colour = colours.setdefault(bar.lane, _COLOURS[len(colours) % len(_COLOURS)])
        left = round((bar.start_us - first) * scale)
        length = max(1, round(bar.duration_us * scale))
        glyph = "·" if bar.duration_us == 0 else "█" if bar.critical_us > 0 else "░" if bar.deferred else "▒"
        table.add_row(
            Text(clip(visible(bar.lane), lane_width), style=colour),
            Text(clip(" " * min(bar.depth, name_width // 2) + visible(bar.name), name_width)),
            Text(duration(bar.duration_us)),
            Text(" " * left + glyph * length, style=f"bold {colour}" if bar.critical_us > 0 else colour),
        )
    console.print(table)
    legend = "█ has time on the critical path   ▒ has none"
    if any(bar.deferred for bar in bars):
        legend += "   ░ deferred"
    console.print(legend, style="dim")


def _print_params(console: Console, found: StoredFlow) -> None:
    if not found.params:
        console.print("No parameters are stored with this request.")
        return
    table = Table("node", "parameter", "value", box=None, header_style="bold")
    for row in found.params:
        node = found.structure["nodes"][row["position"]]
        value = row["text"] if row["num"] is None else significant(row["num"], 12)
        cells = (f"{node['component']}/{node['point']}", row["key"], value)
        table.add_row(*(Text(visible(cell)) for cell in cells))
    console.print(table)
