"""Periods worth comparing: the usual pairs of a lake, around deployments, incidents and change points."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from flowdiff.serve.lake_state import Known
from flowdiff.serve.watched import Watched
from schemas.periods import format_instant
from schemas.windows import NS_PER_DAY

_HOUR_NS: Final = NS_PER_DAY // 24
_MOST_EVENTS: Final = 5
"""Deployments, incidents and change points that are proposed, the latest of each."""
LEAST_HISTORY: Final = 12
"""Windows before the reference from which they are proposed as ordinary times."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A pair of periods, in the notation of the command line."""

    title: str
    reference: str
    problem: str
    history: str = ""
    """Ordinary times before the reference; empty where there are too few."""

    @property
    def parameters(self) -> dict[str, str]:
        """Parameters of the address of the comparison."""
        return {"reference": self.reference, "problem": self.problem, "history": self.history}


def proposals(known: Known, watched: Watched) -> list[Proposal]:
    """Pairs of which the lake has both periods, the most specific first; each pair once."""
    if known.is_empty:
        return []
    found: dict[tuple[str, str], Proposal] = {}
    for title, before, since in (*_events(known, watched), *_recordings(known), *_usual(known)):
        before, since = (_within(known, period) for period in (before, since))
        if _has(known, before) and _has(known, since) and before[1] <= since[0]:
            pair = Proposal(title, _text(before), _text(since), _history(known, before[0]))
            found.setdefault((pair.reference, pair.problem), pair)
    return [*found.values()]


_Range = tuple[int, int]
_Pair = tuple[str, _Range, _Range]


def _events(known: Known, watched: Watched) -> Iterator[_Pair]:
    length_ns = known.windows[0].window.length_ns
    span_ns = max(_HOUR_NS, 2 * length_ns)
    for incident in [*watched.incidents][:_MOST_EVENTS]:
        at, until = incident.began_from_ns, incident.resolved_ns or known.bounds_ns[1]
        since = incident.began_to_ns, min(until, incident.began_to_ns + span_ns)
        yield f"since the incident: {incident.headline}", (at - span_ns, at), since
    for one in [*watched.deployments][-_MOST_EVENTS:]:
        at = one.at_ns
        yield f"after the deployment: {one.text}", (at - span_ns, at), (at, at + span_ns)


def _recordings(known: Known) -> Iterator[_Pair]:
    if len(known.recorded) > 1:
        before, last = known.recorded[-2:]
        yield "the last recording and the one before", (before[0], before[1]), (last[0], last[1])


def _usual(known: Known) -> Iterator[_Pair]:
    end = known.bounds_ns[1]
    day = end // NS_PER_DAY * NS_PER_DAY
    day -= NS_PER_DAY if day == end else 0
    last_hour = (end - _HOUR_NS, end)
    yield "the last hour and the hour before", (end - 2 * _HOUR_NS, end - _HOUR_NS), last_hour
    yield (
        "the last hour and the same hour yesterday",
        (end - NS_PER_DAY - _HOUR_NS, end - NS_PER_DAY),
        last_hour,
    )
    yield (
        "the last hour and the same hour a week ago",
        (end - 7 * NS_PER_DAY - _HOUR_NS, end - 7 * NS_PER_DAY),
        last_hour,
    )
    yield "the last day and the day before", (day - NS_PER_DAY, day), (day, day + NS_PER_DAY)


def _within(known: Known, period: _Range) -> _Range:
    """Period cut to whole windows of the lake's time."""
    length_ns = known.windows[0].window.length_ns
    first, last = known.bounds_ns
    start, end = max(period[0], first), min(period[1], last)
    return start // length_ns * length_ns, -(-end // length_ns) * length_ns


def _has(known: Known, period: _Range) -> bool:
    return any(period[0] <= entry.window.start_ns < period[1] for entry in known.windows)


def _history(known: Known, before_ns: int) -> str:
    earlier = [e.window for e in known.windows if before_ns - 7 * NS_PER_DAY <= e.window.start_ns < before_ns]
    return _text((earlier[0].start_ns, before_ns)) if len(earlier) >= LEAST_HISTORY else ""


def _text(period: _Range) -> str:
    return f"{format_instant(period[0])}/{format_instant(period[1])}"
