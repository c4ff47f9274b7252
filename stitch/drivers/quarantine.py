"""Find events with an absurd time: a clock ten years ahead, or one that starts in 1970.

The rule looks at the days (UTC) of all events of one file together, so it depends neither on the order of
events nor on the memory budget, and files of January and of March may come in one import:

* Days with events, with no more than MAX_SILENCE_DAYS between one and the next, are an *island*.
* Islands that hold at least BULK_SHARE of the events each are the *bulk*; if the bulk holds most of all,
  events of the other islands are absurd. If it does not, nothing is far from anything, and none is.
* A day that is absurd in one file and not in another of the same import is kept.

    day       19000 19001 19002 …  22650        0
    events     5000  9000  4000      120       40     of 18160: one island is the bulk; 160 events are absurd

A span has two times, and either may be absurd: its end lies on an island, too, but weighs nothing, so that no
end makes a bulk. What is left of the request is stitched without it. (Live ingestion has a clock to go by: a
start or an end in its future is absurd, `stitch.drivers.live.arrivals`.)
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.arrays import B1, I8
from schemas.windows import NS_PER_DAY
from stitch.columnar.runs import count_values

MAX_SILENCE_DAYS: Final = 31
"""A recording may pause for a month; clocks that are wrong are so by years."""
BULK_SHARE: Final = 0.1
"""Of a file's events: a smaller island is not what the file is about."""
ABSURD_DETAIL: Final = (
    "far away from the bulk of its file: a wrong clock, or a wrong unit; --any-time keeps it"
)


class DaysSeen:
    """Counts events by file and day. Memory: 584 years have 213,504 days."""

    def __init__(self) -> None:
        self._events: defaultdict[str, Counter[int]] = defaultdict(Counter)
        """By the day they start; 0 for a day on which they only end."""
        self._ends: defaultdict[str, Counter[int]] = defaultdict(Counter)
        """Of events that end on another day than they start on."""

    def add(self, file: str, events: pa.Table) -> None:
        """Count a batch of a file; events without a time count nowhere. O(events)."""
        start, end = (_days(events[name]) for name in ("ts_ns", "end_ns"))
        timed = events["ts_ns"].is_valid().to_numpy()
        elsewhere = events["end_ns"].is_valid().to_numpy() & (~timed | (end != start))
        for found, days in ((self._events[file], start[timed]), (self._ends[file], end[elsewhere])):
            found.update(dict(zip(*(part.tolist() for part in count_values(days)), strict=True)))
        self._events[file].update(dict.fromkeys(self._ends[file], 0))

    def absurd(self) -> I8:
        """Days whose events are quarantined, ascending; mostly none."""
        far: set[int] = set()
        fine: set[int] = set()
        for events in self._events.values():
            found = set(_absurd(events).tolist())
            far |= found
            fine |= events.keys() - found
        return np.array(sorted(far - fine), dtype=np.int64)

    def count(self, file: str, absurd_days: I8) -> int:
        """Times of events of a file on some days; a span that starts and ends on one of them counts once."""
        return sum(self._events[file][day] + self._ends[file][day] for day in absurd_days.tolist())


def _absurd(events_by_day: Counter[int]) -> I8:
    """Days that are absurd in one file, ascending."""
    days = np.array(sorted(events_by_day), dtype=np.int64)
    if not len(days):
        return days
    events = np.array([events_by_day[day] for day in days.tolist()], dtype=np.int64)
    island = np.concatenate(([0], np.cumsum(np.diff(days) > MAX_SILENCE_DAYS)))
    size = np.bincount(island, events)
    is_bulk = size >= BULK_SHARE * events.sum()
    if 2 * size[is_bulk].sum() <= events.sum():
        return days[:0]
    absurd: I8 = days[~is_bulk[island]]
    return absurd


def is_absurd(events: pa.Table, absurd_days: I8) -> B1:
    """[events] whether each starts or ends on one of the days."""
    found: B1 = np.zeros(events.num_rows, dtype=np.bool_)
    for name in ("ts_ns", "end_ns"):
        found |= np.isin(_days(events[name]), absurd_days) & events[name].is_valid().to_numpy()
    return found


def _days(time_ns: pa.ChunkedArray) -> I8:
    """[events] days since the epoch; any for an event without the time."""
    days: I8 = pc.fill_null(time_ns, 0).to_numpy() // NS_PER_DAY
    return days
