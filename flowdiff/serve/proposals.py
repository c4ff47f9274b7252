"""Pairs of periods worth comparing: around incidents, deployments, recordings and the largest step of
response times; hours, days and halves of the lake."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from flowdiff.serve.lake_state import Known
from flowdiff.serve.watched import Watched
from schemas.arrays import F8
from schemas.periods import format_instant
from schemas.windows import NS_PER_DAY

_HOUR_NS: Final = NS_PER_DAY // 24
_MOST_EVENTS: Final = 5
"""Maximum number of incidents, and of deployments, for which a pair is proposed; the latest are chosen."""
LEAST_HISTORY: Final = 12
"""Minimum number of windows before the reference; with fewer, no history is proposed."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A pair of periods to compare, in the notation of the command line."""

    title: str
    reference: str
    problem: str
    history: str = ""
    """Period before the reference, proposed as history; empty if there are too few windows."""

    @property
    def parameters(self) -> dict[str, str]:
        """Parameters of the address of the page that compares these periods: name -> value."""
        return {"reference": self.reference, "problem": self.problem, "history": self.history}


def proposals(known: Known, watched: Watched, rows: pa.Table) -> list[Proposal]:
    """Pairs of periods to compare for which the lake has data, most specific first, without duplicates.

    rows: response times by window and root (`window_rows.RESPONSES`), as far as they are read.
    """
    if known.is_empty:
        return []
    found: dict[tuple[str, str], Proposal] = {}
    for title, before, since in (
        *_events(known, watched),
        *_recordings(known),
        *_step(known, rows),
        *_usual(known),
        *_halves(known),
    ):
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
        at = incident.began_from_ns // length_ns * length_ns
        begun = -(-incident.began_to_ns // length_ns) * length_ns
        since = begun, min(incident.resolved_ns or known.bounds_ns[1], begun + span_ns)
        yield f"since the incident: {incident.headline}", (at - span_ns, at), since
    for one in [*watched.deployments][-_MOST_EVENTS:]:
        at = one.at_ns // length_ns * length_ns
        yield f"after the deployment: {one.text}", (at - span_ns, at), (at, at + span_ns)


def _recordings(known: Known) -> Iterator[_Pair]:
    if len(known.recorded) > 1:
        before, last = known.recorded[-2:]
        yield "the last recording and the one before", (before[0], before[1]), (last[0], last[1])


def _step(known: Known, rows: pa.Table) -> Iterator[_Pair]:
    at = largest_step(rows)
    if at is not None:
        span_ns = max(_HOUR_NS, 2 * known.windows[0].window.length_ns)
        title = f"since the largest step of response times, at {format_instant(at)}"
        yield title, (at - span_ns, at), (at, at + span_ns)


def largest_step(rows: pa.Table) -> int | None:
    """Start of the window at which response times change most, ns since the epoch; None for fewer than two
    windows.

    Differences are of each root's log mean, weighted by the root's share of all time, so that a changed mix
    of roots is not a step; they are weighted less near the ends of the time, as in a CUSUM test. O(roots ·
    windows).
    """
    starts, window = np.unique(rows["start_ns"].to_numpy(), return_inverse=True)
    n = len(starts)
    if n < 2:
        return None
    names = rows["root"].combine_chunks().dictionary_encode()
    root = names.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    weighted, mean_us = (rows[name].to_numpy() for name in ("weighted", "mean_us"))
    shape = len(names.dictionary), n

    def summed(values: F8) -> F8:
        cells = np.bincount(root * n + window, values, minlength=shape[0] * n)
        return np.cumsum(cells.reshape(shape), axis=1)

    weight, time_us = summed(weighted), summed(weighted * mean_us)
    sides = [(time_us[:, :-1], weight[:, :-1])]
    sides.append((time_us[:, -1:] - sides[0][0], weight[:, -1:] - sides[0][1]))
    both = (sides[0][1] > 0) & (sides[1][1] > 0)
    before_us, since_us = (np.divide(t, w, out=np.ones_like(t), where=both & (t > 0)) for t, w in sides)
    part = time_us[:, -1:] / max(float(time_us[:, -1].sum()), 1e-300)
    before = np.arange(1, n)
    moved = (part * np.where(both, np.abs(np.log(since_us / before_us)), 0.0)).sum(axis=0)
    return int(starts[1 + int(np.argmax(moved * np.sqrt(before * (n - before))))])


def _halves(known: Known) -> Iterator[_Pair]:
    first, end = known.bounds_ns
    middle = known.windows[len(known.windows) // 2].window.start_ns
    yield "the later half of the lake and the earlier one", (first, middle), (middle, end)


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
    """Range of time `period`, clipped to the lake's windows and extended to whole windows."""
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
