"""Log the events of a live run to standard error, one line per event, as JSON or as text."""

from __future__ import annotations

import logging
from typing import Any, Final, TextIO

import structlog

from flowdiff.settings.ingest_config import LogSettings
from schemas.commits import CommitRecord, Counters
from schemas.periods import format_instant
from schemas.quality import Quality
from schemas.visible import visible
from stitch.drivers.live.watch import Watch

_HOW_BAD: Final = {
    **dict.fromkeys(("waiting", "lost", "set otherwise"), logging.WARNING),
    "halted": logging.ERROR,
}
"""State of a lane (`Watch.lane`) -> log level; states not listed are logged at INFO."""


TRUNCATED_FLOWS: Final = 50
"""Minimum number of flows in a commit for the log to report that a topic is not keyed by trace."""
TRUNCATED_SHARE: Final = 0.2
"""Share, in [0, 1], of flows with missing parents above which the topic is reported as not keyed by trace."""


def open_log(settings: LogSettings, stream: TextIO) -> Any:
    """Structlog logger that writes to `stream`, with format and level of `settings`. Thread-safe."""
    is_json = settings.format == "json" or (settings.format == "auto" and not stream.isatty())
    last: list[Any] = (
        [structlog.processors.JSONRenderer()]
        if is_json
        else [_one_line, structlog.processors.LogfmtRenderer(key_order=("timestamp", "level", "event"))]
    )
    return structlog.wrap_logger(
        structlog.PrintLogger(stream),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *last,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(settings.level),
        cache_logger_on_first_use=True,
    )


def _one_line(_logger: Any, _method: str, event: Any) -> Any:
    """Structlog processor that makes texts of an event safe for a terminal, each on one line.

    (JSON escapes such characters anyway.)
    """
    return {key: visible(value) if isinstance(value, str) else value for key, value in event.items()}


class LogWatch(Watch):
    """A `Watch` that writes log lines."""

    def __init__(self, log: Any) -> None:
        self._log = log

    def committed(self, record: CommitRecord, took_s: float) -> None:
        """Log every commit at level DEBUG, and above that published flows, rejected items, late events, flows
        with missing spans, and gaps."""
        counters, standing = record.counters, record.standing
        self._log.debug(
            "commit",
            lane=record.lane,
            commit=record.seq,
            seconds=round(took_s, 3),
            messages=counters.messages,
            events=counters.events_read,
            logged=counters.events_logged,
        )
        if counters.flows:
            self._log.info(
                "published",
                lane=record.lane,
                commit=record.seq,
                flows=counters.flows,
                events=counters.events_published,
                windows=len({file.window for file in record.publish if file.table == "flows"}),
                sealed_to=None if standing.sealed_to_ns is None else format_instant(standing.sealed_to_ns),
            )
        if counters.rejects:
            # Keys of a log line must not contain a dash.
            rejects = {reason.replace("-", "_"): count for reason, count in sorted(counters.rejects.items())}
            self._log.warning("rejected", lane=record.lane, commit=record.seq, **rejects)
        if counters.events_late:
            self._log.warning("late", lane=record.lane, commit=record.seq, events=counters.events_late)
        truncated = truncated_flows(counters)
        if counters.flows >= TRUNCATED_FLOWS and truncated > TRUNCATED_SHARE * counters.flows:
            self._log.warning(
                "torn",
                lane=record.lane,
                commit=record.seq,
                flows=counters.flows,
                without_parent=truncated,
                why="Many requests lack spans: a service does not send them, or to a topic that is not read.",
            )
        for gap in record.gaps:
            self._log.error(
                "gap",
                lane=record.lane,
                stream=f"{gap.topic}/{gap.partition}",
                messages=gap.end - gap.start,
                first=gap.start,
                until=gap.end,
            )

    def lane(self, lane: int, state: str, why: str) -> None:
        """Log every change of a lane's state."""
        reason = {"why": why} if why else {}
        self._log.log(_HOW_BAD.get(state, logging.INFO), f"lane {state}", lane=lane, **reason)

    def building(self, why: str | None) -> None:
        """Log that windows cannot be built or replaced files not removed, and when that is over."""
        if why is None:
            self._log.info("building has no trouble any more")
        else:
            self._log.error("build", why=why)

    def trouble(self, why: str | None) -> None:
        """Log that the source cannot be read (`why`), or that it can be read again (None)."""
        if why is None:
            self._log.info("the trouble is over")
        else:
            self._log.warning("trouble", why=why)


def truncated_flows(counters: Counters) -> int:
    """Number of flows published by a commit that lack the parent of a span (quality flag ORPHAN), as happens
    if a topic is not keyed by trace.
    """
    return counters.quality.get(str(Quality.ORPHAN.name), 0)
