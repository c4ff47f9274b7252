"""Lay out what `flowdiff top` shows: one screen of 80 columns."""

from __future__ import annotations

from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from flowdiff.live.scrape import Scrape
from schemas.visible import visible

NONE: Final = "–"
_SIZES: Final = ("B", "kB", "MB", "GB", "TB")
_LANE_COLUMNS: Final = (
    ("open", "flowdiff_open_flows"),
    ("pending", "flowdiff_pending_flows"),
    ("state", "flowdiff_state_bytes"),
    ("oldest", "flowdiff_oldest_open_flow_age_seconds"),
    ("watermark", "flowdiff_watermark_delay_seconds"),
    ("sealed", "flowdiff_seal_delay_seconds"),
    ("commit", "flowdiff_commit_age_seconds"),
)


def view(url: str, now: Scrape, before: Scrape | None, *, rows: int | None = None) -> RenderableType:
    """One screen. `before`: an earlier look, for rates. `rows`: most of each table; None: all."""
    return Group(
        _head(url, now),
        _totals(now, before),
        Text(""),
        _lanes(now, rows),
        Text(""),
        _streams(now, before, rows),
    )


def _head(url: str, now: Scrape) -> Text:
    ((version,), _), *_ = now.by("flowdiff_build_info", "version")
    states = {state: int(count) for (state,), count in now.by("flowdiff_lanes", "state")}
    is_ready = now.one("flowdiff_ready") == 1
    text = Text.assemble(
        (f"flowdiff {visible(version)}", "bold"),
        f"  {visible(url)}  ",
        ("ready" if is_ready else "NOT READY", "green" if is_ready else "bold red"),
    )
    if now.one("flowdiff_source_trouble"):
        text.append("  the log cannot be read", "bold red")
    if now.one("flowdiff_paused"):
        text.append("  reading waits", "yellow")
    text.append("\nlanes  " + ", ".join(f"{count} {state}" for state, count in states.items()))
    return text


def _totals(now: Scrape, before: Scrape | None) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    in_ = [
        ("messages", _amount(now.total("flowdiff_messages_total")), "flowdiff_messages_total", _amount),
        ("bytes", _size(now.total("flowdiff_message_bytes_total")), "flowdiff_message_bytes_total", _size),
        ("events", _amount(now.total("flowdiff_events_total")), "flowdiff_events_total", _amount),
    ]
    out = [
        ("published flows", "flowdiff_published_flows_total"),
        ("late events", "flowdiff_late_events_total"),
        ("rejected", "flowdiff_rejected_total"),
    ]
    for (name, total, metric, shown), (other, other_metric) in zip(in_, out, strict=True):
        speed = _rate(now, before, metric)
        table.add_row(
            name,
            total,
            NONE if speed is None else f"{shown(speed)}/s",
            other,
            _amount(now.total(other_metric)),
        )
    memory, budget = now.total("flowdiff_state_bytes"), now.one("flowdiff_memory_budget_bytes") or 0
    rss = now.one("process_resident_memory_bytes")
    table.add_row(
        "state",
        _size(memory),
        f"of {_size(budget)}",
        "resident memory",
        NONE if rss is None else _size(rss),
    )
    return table


def _lanes(now: Scrape, rows: int | None) -> RenderableType:
    found: dict[str, dict[str, float]] = {}
    for title, metric in _LANE_COLUMNS:
        for (lane,), value in now.by(metric, "lane"):
            found.setdefault(lane, {})[title] = value
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("lane", justify="right")
    for title, _ in _LANE_COLUMNS:
        table.add_column(title, justify="right")
    lanes = sorted(found, key=int)
    for lane in lanes[:rows]:
        table.add_row(lane, *(_lane_cell(title, found[lane].get(title)) for title, _ in _LANE_COLUMNS))
    return _with_rest(table, len(lanes), rows, "lanes")


def _lane_cell(title: str, value: float | None) -> str:
    if value is None:
        return NONE
    if title in ("open", "pending"):
        return _amount(value)
    return _size(value) if title == "state" else _time(value)


def _streams(now: Scrape, before: Scrape | None, rows: int | None) -> RenderableType:
    """Partitions, those with the most to read first."""
    lags = dict(now.by("flowdiff_lag_messages", "topic", "partition"))
    positions = dict(now.by("flowdiff_position", "topic", "partition"))
    idle = dict(now.by("flowdiff_idle", "topic", "partition"))
    earlier = {} if before is None else dict(before.by("flowdiff_messages_total", "topic", "partition"))
    read = dict(now.by("flowdiff_messages_total", "topic", "partition"))
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("partition", overflow="ellipsis", no_wrap=True, max_width=36)
    for title in ("lag", "offset", "messages/s", ""):
        table.add_column(title, justify="right")
    streams = sorted(positions, key=lambda stream: (-lags.get(stream, 0), stream))
    for stream in streams[:rows]:
        speed = NONE
        if before is not None and now.at_s > before.at_s:
            speed = _amount((read.get(stream, 0) - earlier.get(stream, 0)) / (now.at_s - before.at_s))
        lag = _amount(lags[stream]) if stream in lags else NONE
        name = visible("/".join(stream))
        table.add_row(Text(name), lag, f"{positions[stream]:.0f}", speed, "idle" if idle.get(stream) else "")
    return _with_rest(table, len(streams), rows, "partitions")


def _with_rest(table: Table, n: int, rows: int | None, what: str) -> RenderableType:
    return table if rows is None or n <= rows else Group(table, Text(f"and {n - rows} more {what}"))


def _rate(now: Scrape, before: Scrape | None, metric: str) -> float | None:
    """A second; None where it cannot be told: one look only, or a restart between the two."""
    if before is None or now.at_s <= before.at_s:
        return None
    grown = now.total(metric) - before.total(metric)
    return None if grown < 0 else grown / (now.at_s - before.at_s)


def _amount(value: float) -> str:
    for limit, unit in ((1e10, "G"), (1e7, "M"), (1e4, "k")):
        if value >= limit:
            return f"{value * 10 / limit:.1f}{unit}"
    return f"{value:.0f}"


def _size(value: float) -> str:
    power = 0
    while value >= 1000 and power < len(_SIZES) - 1:
        value, power = value / 1000, power + 1
    return f"{value:.0f} B" if power == 0 else f"{value:.3g} {_SIZES[power]}"


def _time(seconds: float) -> str:
    if abs(seconds) < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if abs(seconds) < 7200 else f"{seconds / 3600:.1f} h"
