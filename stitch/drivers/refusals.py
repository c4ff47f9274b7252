"""Refuse events of an import with absurd times or in retired windows, and store their dead letters.

An absurd time comes from a clock that is, for example, ten years ahead or starts in 1970. The rule considers
the days (UTC) of all events of one file together. So the result depends neither on the order of events nor on
the memory budget, and files of January and of March may be imported together:

* Days with events, with no more than MAX_GAP_DAYS between one and the next, are an *island*.
* Islands with at least BULK_SHARE of the events each are the *bulk*; if the bulk has more than half of all
  events, events of the other islands are absurd. Otherwise no event is.
* A day that is absurd in one file and not in another of the same import is kept.

    day       19000 19001 19002 …  22650        0
    events     5000  9000  4000      120       40     of 18160: one island is the bulk; 160 events are absurd

A span has two times, either of which may be absurd: its end must lie on an island of the bulk, too, but does
not count for the size of islands. The rest of the request is stitched without it. (Live ingestion compares
with the clock: a start or an end in its future is absurd, `stitch.drivers.live.arrivals`.)

Requests that began in windows retired by `flowdiff retain` would never be visible, and a sweep would delete
them: all their events are refused, with a reason. All dead letters are counted; a bounded number per file is
stored, and at most one file of them is in memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.arrays import B1, I8
from schemas.commits import Counters
from schemas.config import StitchConfig
from schemas.errors import InputError
from schemas.events import SPAN_KIND_BASE
from schemas.rejects import Reason
from schemas.windows import NS_PER_DAY, Window
from stitch.columnar.runs import count_values
from stitch.drivers.inputs import Source
from stitch.kernel import stitch
from stitch.lake.known import rows_of
from stitch.lake.staging import Staging
from stitch.structures import StructureMemo

MAX_GAP_DAYS: Final = 31
"""Maximum number of days without events inside an island: a recording may pause for a month; wrong clocks are
off by years."""
BULK_SHARE: Final = 0.1
"""Minimum share, in [0, 1], of a file's events in an island (days with events, without a long gap) for it to
belong to the bulk, whose times count as right."""
ABSURD_DETAIL: Final = (
    "far away from the bulk of its file: a wrong clock, or a wrong unit; --any-time keeps it"
)


class DaysSeen:
    """Number of a file's events per day (UTC, days since the epoch; int64 ns allow 213,504 days)."""

    def __init__(self) -> None:
        self._events: Counter[int] = Counter()
        """Day -> number of events that start on it; a day on which events only end has the value 0."""
        self._ends: Counter[int] = Counter()
        """Day -> number of events that end on it but start on another day."""

    @classmethod
    def of(cls, events: Mapping[int, int], ends: Mapping[int, int]) -> DaysSeen:
        """Make an instance from the two mappings that `counts` returns."""
        seen = cls()
        seen._events.update(events)
        seen._ends.update(ends)
        return seen

    def counts(self) -> tuple[dict[int, int], dict[int, int]]:
        """(day -> number of events that start on it; day -> number of events that end on it but start on
        another day)."""
        return dict(self._events), dict(self._ends)

    def add(self, events: pa.Table) -> None:
        """Count the events of a batch; events without a time are ignored. O(events)."""
        start, end = (_days(events[name]) for name in ("ts_ns", "end_ns"))
        timed = events["ts_ns"].is_valid().to_numpy()
        elsewhere = events["end_ns"].is_valid().to_numpy() & (~timed | (end != start))
        for found, days in ((self._events, start[timed]), (self._ends, end[elsewhere])):
            found.update(dict(zip(*(part.tolist() for part in count_values(days)), strict=True)))
        self._events.update(dict.fromkeys(self._ends, 0))

    def count(self, absurd_days: I8) -> int:
        """Number of starts and ends of events on the given days; a start and an end of one event on the same
        day count once."""
        return sum(self._events[day] + self._ends[day] for day in absurd_days.tolist())

    def judged(self) -> tuple[set[int], set[int]]:
        """Apply the rule of the module docstring to this file: (absurd days, other days)."""
        days = np.array(sorted(self._events), dtype=np.int64)
        if not len(days):
            return set(), set()
        events = np.array([self._events[day] for day in days.tolist()], dtype=np.int64)
        island = np.concatenate(([0], np.cumsum(np.diff(days) > MAX_GAP_DAYS)))
        size = np.bincount(island, events)
        is_bulk = size >= BULK_SHARE * events.sum()
        fine = is_bulk[island] | (2 * size[is_bulk].sum() <= events.sum())
        return set(days[~fine].tolist()), set(days[fine].tolist())


def absurd_days(files: Iterable[DaysSeen]) -> I8:
    """Days since the epoch whose events are refused as absurd, over all files, ascending; mostly none."""
    judged = [each.judged() for each in files]
    far = set[int]().union(*(absurd for absurd, _ in judged))
    return np.array(sorted(far.difference(*(fine for _, fine in judged))), dtype=np.int64)


def is_absurd(events: pa.Table, absurd_days: I8) -> B1:
    """[events] True if an event starts or ends on one of `absurd_days` (days since the epoch)."""
    found: B1 = np.zeros(events.num_rows, dtype=np.bool_)
    for name in ("ts_ns", "end_ns"):
        found |= np.isin(_days(events[name]), absurd_days) & events[name].is_valid().to_numpy()
    return found


def _days(time_ns: pa.ChunkedArray) -> I8:
    """[events] day of each time, in days since the epoch; undefined for null."""
    days: I8 = pc.fill_null(time_ns, 0).to_numpy() // NS_PER_DAY
    return days


RETIRED_DETAIL: Final = "its request began in a window that `flowdiff retain` took out of the lake"


def of_retired(events: pa.Table, retired_to_ns: int, config: StitchConfig, memo: StructureMemo) -> B1:
    """[events] True for events of flows that start before `retired_to_ns`. events: all events of whole
    requests, each with its request id.

    Only requests with an event before that time are stitched for this.
    """
    old = pc.fill_null(pc.less(events["ts_ns"], retired_to_ns), True)
    none: B1 = np.zeros(events.num_rows, dtype=np.bool_)
    if not pc.any(old).as_py():
        return none
    ids = pc.unique(events["request_id"].filter(old)).drop_null()
    flows = stitch(rows_of(events, ids, keep=True), config, memo=memo).flows
    flows = flows.filter(pc.less(flows["start_ns"], retired_to_ns))
    is_span = pc.greater_equal(events["kind"], SPAN_KIND_BASE).to_numpy()
    found = none
    for kind, own in (("spans", is_span), ("records", ~is_span)):
        gone = flows["request_id"].filter(pc.equal(flows["kind"].cast(pa.string()), kind))
        inside = pc.is_in(
            events["request_id"], value_set=gone.cast(events["request_id"].type).combine_chunks()
        )
        found |= own & inside.to_numpy()
    return found


def refuse_all_retired(
    counters: Counters, sources: Sequence[Source], retired_to_ns: int | None, window_length_ns: int
) -> None:
    """Raise InputError if all requests of an import were refused because their windows are retired: otherwise
    the files would be recorded as imported."""
    retired = counters.rejects.get(Reason.RETIRED.value, 0)
    if not retired or retired_to_ns is None:
        return
    if counters.flows + counters.flows_late + counters.flows_duplicate:
        return
    what = f"'{sources[0].name}'" if len(sources) == 1 else f"the {len(sources):,} files"
    last = Window(retired_to_ns - window_length_ns, window_length_ns).name
    raise InputError(
        f"All requests of {what} began in windows that were retired from this lake, {last} and before.",
        remedy="Nothing was imported. Import them into a lake of their own, with another --lake.",
    )


FLUSH_BYTES: Final = 32 * 2**20
"""Maximum bytes of dead letters in memory; when reached, they are written to a file in the stage folder."""
FLUSH_ROWS: Final = 100_000
"""Maximum number of dead letters in memory; when reached, they are written to a file in the stage folder."""
_ORDER: Final = [(name, "ascending") for name in ("source", "position", "item", "sha256", "detail")]


class DeadLetters:
    """Dead letters of an import, written to the stage folder in parts. Not thread-safe."""

    def __init__(self, staging: Staging, max_per_file: int) -> None:
        self._staging = staging
        self._max_per_file = max_per_file
        self._kept: Counter[str] = Counter()
        self._held: list[pa.Table] = []
        self._parts = 0
        self.counts: Counter[str] = Counter()
        """Reason -> number of dead letters, including those that are only counted."""
        self.not_kept = 0

    def room(self, source: str) -> int:
        """Number of dead letters that may still be stored for a source."""
        return max(0, self._max_per_file - self._kept[source])

    def add(self, letters: pa.Table, source: str, refused: Mapping[str, int]) -> None:
        """Add dead letters (REJECT_SCHEMA) of one source, under the source's name; they are stored up to the
        limit per source.

        refused: reason -> number of refused items, in total at least the number of rows. Raises OSError.
        """
        kept = letters.slice(0, self.room(source))
        self._kept[source] += kept.num_rows
        self.counts.update(refused)
        self.not_kept += sum(refused.values()) - kept.num_rows
        if not kept.num_rows:
            return
        self._held.append(_renamed(kept, source))
        rows = sum(table.num_rows for table in self._held)
        if rows > FLUSH_ROWS or sum(table.nbytes for table in self._held) > FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the dead letters in memory as one file in the stage folder. Raises OSError."""
        if self._held:
            table = pa.concat_tables(self._held)
            self._staging.add_side("dead_letters", self._parts, table.sort_by(_ORDER))
            self._held = []
            self._parts += 1


def _renamed(letters: pa.Table, source: str) -> pa.Table:
    """Copy of dead letters with `source` set to the name given by the user, not the name of a spool file."""
    names = pa.array([source], pa.string()).take(pa.array(np.zeros(letters.num_rows, dtype=np.int32)))
    return letters.set_column(0, "source", names)
