"""Draw one request as swim lanes in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table
from rich.text import Text

from analyze.report.drawing.swimlane import Activity, activities, cells
from analyze.report.wording import clip, count, counted, duration, short, visible
from analyze.sql.browse import StoredFlow
from schemas.quality import Quality

LEAST_NAME, LEAST_AXIS = 8, 12
"""Minimum width of a name, and minimum width of the axis, in columns; on a narrower terminal lines are
cut."""
ROWS = 60
"""Maximum number of bars in a drawing."""
TIME_WIDTH = 9
"""Width of a duration such as `99 999 ms`, columns."""
FAILED = "✗"
_FAILED_STYLE = "bold red"
_COLOURS = ("cyan", "yellow", "green", "magenta", "blue", "bright_cyan", "bright_yellow", "bright_green")


def print_flow(console: Console, found: StoredFlow, rows: int = ROWS) -> None:
    """Print a request's header and swim lanes, and the number of bars beyond `rows`, which are not drawn."""
    _print_head(console, found)
    bars = activities(found.flow, found.structure)
    print_bars(console, bars[:rows], found.flow["response_ns"] / 1e3)
    if len(bars) > rows:
        failed = sum(bool(bar.failed) for bar in bars[rows:])
        also = f", {count(failed)} of them failed" if failed else ""
        console.print(f"{counted(len(bars) - rows, 'more bar')}{also}; --rows shows more.", style="dim")


def _print_head(console: Console, found: StoredFlow) -> None:
    flow = found.flow
    started = datetime.fromtimestamp(flow["start_ns"] / 1e9, UTC)
    console.print(Text(visible(flow["request_id"]), style="bold"), Text(visible(flow["root"])))
    summary = (
        f"{started:%Y-%m-%d %H:%M:%S.%f} UTC, response {duration(flow['response_ns'] / 1e3)}, "
        f"{flow['n_nodes']} nodes, category {short(flow['category'])}, status {flow['status']}"
    )
    if flow["inner_status"] is not None:
        summary += f", {flow['inner_status']} inside"
    console.print(visible(summary), markup=False)
    flags = [str(flag.name).lower() for flag in Quality if flow["quality"] & flag]
    if flags:
        console.print("quality: " + ", ".join(flags), style="yellow")


def print_bars(console: Console, bars: Sequence[Activity], response_us: float) -> None:
    """Print lanes at the left and bars at the right, on an axis as long as the response; parts of a bar for
    which the response waited are solid and bold."""
    axis_us = response_us if response_us > 0 else max((bar.end_us for bar in bars), default=0.0)
    # An extra column if something failed: a sixth of the width shows most classes, the legend the others.
    failed_width = min(
        max((len(_failed(bar)) for bar in bars), default=0), max(console.width // 6, LEAST_NAME)
    )
    room = console.width - (failed_width + 1 if failed_width else 0)
    named = max(room // 4, LEAST_NAME)
    lane_width = min(max((len(bar.lane) for bar in bars), default=0), named)
    name_width = min(max((len(bar.name) + bar.depth for bar in bars), default=0), named)
    blanks = 3  # between the four other columns
    axis_width = max(room - lane_width - name_width - TIME_WIDTH - blanks, LEAST_AXIS)
    colours: dict[str, str] = {}
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, show_header=True, header_style="dim")
    table.add_column(clip("component", lane_width), width=lane_width, no_wrap=True)
    table.add_column(clip("work", name_width), width=name_width, no_wrap=True)
    if failed_width:
        table.add_column(clip("failed", failed_width), width=failed_width, no_wrap=True)
    table.add_column("time", width=TIME_WIDTH, justify="right", no_wrap=True)
    table.add_column(f"0 … {duration(axis_us)}", width=axis_width, no_wrap=True)
    for bar in bars:
        colour = colours.setdefault(bar.lane, _COLOURS[len(colours) % len(_COLOURS)])
        failed = [Text(clip(_failed(bar), failed_width), style=_FAILED_STYLE)] if failed_width else []
        table.add_row(
            Text(clip(visible(bar.lane), lane_width), style=colour),
            Text(clip(" " * min(bar.depth, name_width // 2) + visible(bar.name), name_width)),
            *failed,
            Text(duration(bar.duration_us)),
            Text(
                _bar_text(bar, axis_us, axis_width), style=f"bold {colour}" if bar.critical_us > 0 else colour
            ),
        )
    console.print(table)
    for line in _legend(bars, axis_us):
        console.print(line, style="dim")
    cut = [bar for bar in bars if len(_failed(bar)) > failed_width]
    for text in dict.fromkeys(_failed(bar) for bar in cut):
        console.print(Text(text, style=_FAILED_STYLE), soft_wrap=False)


def _failed(bar: Activity) -> str:
    """Text that marks a failed bar, with its error classes; empty if the bar did not fail."""
    return f"{FAILED} {visible(', '.join(bar.failed))}" if bar.failed else ""


def _bar_text(bar: Activity, axis_us: float, width: int) -> str:
    """Bar as text of `width` cells; `◀` and `▶` mark ends beyond the axis; a bar after the axis shows its
    start.
    """
    at = cells(bar, axis_us, width)
    if bar.start_us > axis_us:
        begins = f"+{duration(bar.start_us - axis_us)} ▶"
        return f"{begins:>{width}}" if len(begins) <= width else f"{'▶':>{width}}"
    if bar.duration_us == 0:
        return " " * at.left + ("◀" if at.earlier else "·")
    glyph = "█" if bar.critical_us > 0 else "░" if bar.deferred else "▒"
    drawn = [*(" " * at.left), *(glyph * at.length)]
    if at.later:
        drawn[-1] = "▶"
    if at.earlier:
        drawn[0] = "◀"
    return "".join(drawn)


def _legend(bars: Sequence[Activity], axis_us: float) -> list[str]:
    """Lines that explain the glyphs in use, and how far clipped bars extend."""
    glyphs = "█ on the critical path   ▒ not waited for"
    if any(bar.deferred for bar in bars):
        glyphs += "   ░ deferred"
    lines = [glyphs]
    later = [bar.end_us for bar in bars if bar.end_us > axis_us]
    if later:
        times = f", {count(round(max(later) / axis_us))} times the response" if axis_us > 0 else ""
        bars_later = counted(len(later), "bar")
        lines.append(f"▶ after the response: {bars_later}, the last until {duration(max(later))}{times}")
    earlier = [bar.start_us for bar in bars if bar.start_us < 0]
    if earlier:
        lines.append(
            f"◀ before the request: {counted(len(earlier), 'bar')}, from {duration(-min(earlier))} before it "
            "(clocks that differ)"
        )
    return lines
