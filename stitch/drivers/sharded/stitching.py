"""Stitch one group of whole requests, and write the flows of each window to the stage folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.arrays import B1, I8
from schemas.errors import LakeError
from schemas.events import with_text_ids
from schemas.rejects import Reason, Reject
from schemas.windows import NS_PER_SECOND
from stitch.columnar.hashing import hash_rows
from stitch.columnar.runs import whole
from stitch.drivers.import_settings import ImportSettings
from stitch.drivers.partition import shared_params
from stitch.drivers.refusals import ABSURD_DETAIL, RETIRED_DETAIL, is_absurd, of_retired
from stitch.drivers.sharded.left_parts import LeftPart, WindowParts, load_parts
from stitch.drivers.spill import Group
from stitch.kernel import Stitched, reject_rows, stitch
from stitch.lake.known import KnownRequests, rows_of
from stitch.lake.layout import WINDOW_TABLES
from stitch.lake.manifest import Manifest
from stitch.lake.staging import Staging
from stitch.lake.windowing import WindowPart, cut, merged_flows, merged_params, merged_structures, starts_of
from stitch.structures import StructureMemo

_MEMO_SHARE: Final = 10
"""The memory budget divided by this is the maximum bytes of cached structures."""
_MEMO_BYTES_PER_STRUCTURE: Final = 20_000
_SMALL_PART_BYTES: Final = 2 * 2**20
"""Maximum bytes in memory of a window's part that is buffered until other parts of the window are stitched:
it takes some 300 KB on disk, of which a file's fixed cost is 2 %."""


@dataclass(slots=True)
class GroupOutcome:
    """Outcome of stitching a group of requests: the stitcher fills it, the ledger adds it to the totals."""

    max_letters: int
    """Maximum number of dead letters stored by one call of `refuse`; further ones are only counted."""
    totals: Counter[str] = field(default_factory=Counter)
    rejects: list[Reject] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    """Reason -> number of refused events, including those that are only counted."""
    starts_ns: set[int] = field(default_factory=set)
    """Starts of the windows in which flows of the group begin, ns since the epoch."""
    waiting: list[WindowPart] = field(default_factory=list)
    """Parts of small windows that are buffered in memory and not written to windows yet."""
    left: list[LeftPart] = field(default_factory=list)
    """Parts of small windows that were left in files and not written to windows yet."""

    def count(self, made: Stitched, n_events: int) -> None:
        """Add the counts and rejects of `n_events` events that the kernel stitched."""
        duplicate, rejected = made.counts["duplicates"], made.counts["rejected"]
        self.totals["flows"] += made.flows.num_rows
        self.totals["events_duplicate"] += duplicate
        self.totals["events_rejected"] += rejected
        self.totals["events_published"] += n_events - duplicate - rejected
        self.rejects += made.rejects
        self.refused.update(reject.reason.value for reject in made.rejects)

    def refuse(self, events: pa.Table, rows: B1, reason: Reason, detail: str) -> pa.Table:
        """Return the events not selected by `rows` ([events] True: refused); refused events become dead
        letters."""
        refused = events.filter(pa.array(rows))
        if not refused.num_rows:
            return events
        kept = np.argsort(hash_rows(refused), kind="stable")[: self.max_letters]
        self.rejects += reject_rows(refused, kept, reason, detail)
        self.refused[reason.value] += refused.num_rows
        self.totals["events_rejected"] += refused.num_rows
        return events.filter(pa.array(~rows))


class Stitcher:
    """Stitcher of groups of events. Thread-safe: only its cache of structures changes."""

    def __init__(self, manifest: Manifest, settings: ImportSettings, absurd_days: I8) -> None:
        """manifest: snapshot of the lake before the import. absurd_days: days since the epoch whose events
        are refused."""
        self._manifest = manifest
        self._settings = settings
        self._absurd_days = absurd_days
        self._memo = StructureMemo(settings.memory_bytes // (_MEMO_SHARE * _MEMO_BYTES_PER_STRUCTURE))

    def stitch_group(self, staging: Staging, group: Group, part: int) -> GroupOutcome:
        """Stitch a group, and write its flows as file `part` of each window; parts of small windows are
        returned in `GroupOutcome.waiting` instead.

        Raises LakeError if the import has more windows than allowed.
        """
        events = group.load()
        outcome = GroupOutcome(self._settings.max_dead_letters_per_file)
        if len(self._absurd_days):
            absurd = is_absurd(events, self._absurd_days)
            events = outcome.refuse(events, absurd, Reason.ABSURD_TIME, ABSURD_DETAIL)
        length_ns = self._manifest.info.window_length_ns
        known = KnownRequests(
            self._manifest, events["ts_ns"], max(length_ns, self._settings.stitch.max_age_ns)
        )
        if known:
            ids = known.among(pc.unique(whole(events["request_id"])))
            if len(ids):
                late = self._late(rows_of(events, ids, keep=True), known, outcome)
                staging.add_side("late", part, late)
                events = rows_of(events, ids, keep=False)
        if (retired_to_ns := self._manifest.retired_to_ns) is not None:
            retired = of_retired(events, retired_to_ns, self._settings.stitch, self._memo)
            events = outcome.refuse(events, retired, Reason.RETIRED, RETIRED_DETAIL)
        n_events = events.num_rows
        made = stitch(events, self._settings.stitch, memo=self._memo)
        del events  # the largest thing there is, and writing takes a while
        outcome.count(made, n_events)
        params = shared_params(made.params, self._settings.params_share)
        outcome.starts_ns.update(starts_of(made.flows["start_ns"], length_ns).tolist())
        refuse_too_many_windows(outcome.starts_ns, self._settings.max_windows, length_ns)
        small = []
        for window in cut(made.flows, made.structures, params, length_ns):
            if _is_small(window):
                small.append(window)
            else:
                write_windows(staging, [(part, [window])])
        outcome.waiting += _own_copies(small)
        return outcome

    def _late(self, events: pa.Table, known: KnownRequests, outcome: GroupOutcome) -> pa.Table:
        """Handle events of requests that the lake already has: return those of flows that differ from the
        stored ones; events of identical flows are dropped as duplicates."""
        made = stitch(events, self._settings.stitch, memo=self._memo)
        same = known.unchanged(made.flows)
        n_same = int(np.count_nonzero(same))
        changed = made.flows["request_id"].filter(pa.array(~same)).combine_chunks()
        late = rows_of(events, changed, keep=True)
        by_content = late.take(pa.array(np.argsort(hash_rows(late), kind="stable")))
        outcome.totals["events_duplicate"] += events.num_rows - late.num_rows
        outcome.totals["events_late"] += late.num_rows
        outcome.totals["flows_duplicate"] += n_same
        outcome.totals["flows_late"] += made.flows.num_rows - n_same
        return with_text_ids(by_content)


def write_windows(staging: Staging, windows: Iterable[WindowParts]) -> None:
    """Merge the parts of each window into one file per table, and write the files to the stage folder. Raises
    OSError, LakeError."""
    for part, of_window in load_parts(windows):
        window = _merged(of_window)
        for table in WINDOW_TABLES:
            staging.add_window(table, window.window, part, getattr(window, table))


def refuse_too_many_windows(starts_ns: set[int], most: int, length_ns: int) -> None:
    """Raise LakeError if an import has more than `most` windows. starts_ns: their starts."""
    if len(starts_ns) > most:
        raise LakeError(
            f"The input spreads over more than {most:,} windows of {length_ns // NS_PER_SECOND} s, the most "
            "for one import.",
            remedy="Use a longer --window in a new lake, import in parts, or raise --max-windows.",
        )


def _is_small(part: WindowPart) -> bool:
    """True if a part is small enough to be buffered until the window's other parts are stitched."""
    return bool(part.flows.nbytes + part.params.nbytes <= _SMALL_PART_BYTES)


def _own_copies(parts: list[WindowPart]) -> Iterator[WindowPart]:
    """Copy parts, so that they do not keep the buffers of their whole group in memory.

    All parts are copied together, as one copy takes at least a millisecond.
    """
    if not parts:
        return
    columns = [_slices_of_copy([getattr(part, table) for part in parts]) for table in WINDOW_TABLES]
    for part, *tables in zip(parts, *columns, strict=True):
        yield WindowPart(part.window, *tables)


def _slices_of_copy(tables: list[pa.Table]) -> Iterator[pa.Table]:
    """Copy tables: they are concatenated, copied once, and yielded as slices of the copy."""
    whole = pa.concat_tables(tables)
    copied = whole.take(pa.array(np.arange(whole.num_rows))).combine_chunks()
    at = 0
    for table in tables:
        yield copied.slice(at, table.num_rows)
        at += table.num_rows


def _merged(parts: list[WindowPart]) -> WindowPart:
    """Merge parts of one window, which have different requests, into tables sorted as the lake requires."""
    if len(parts) == 1:
        return parts[0]
    flows = merged_flows([part.flows for part in parts])
    return WindowPart(
        parts[0].window,
        flows,
        merged_structures([part.structures for part in parts]),
        merged_params([part.params for part in parts], flows),
    )
