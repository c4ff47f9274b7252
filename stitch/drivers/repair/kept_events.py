"""Raw events that a live lane still keeps of requests which it has published: what a repair stitches anew.

The lane's log holds them for as long as `live.keep_events` says. Flows have no span ids, so without the
events a late span has nothing that it could be tied to. How a lane made its flows stands in its last commit
that says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from schemas.arrays import B1, U8
from schemas.commits import Segment
from schemas.errors import LakeError
from schemas.events import SPAN_KIND_BASE, concat_events
from stitch.drivers.live.keys import record_words, request_keys
from stitch.drivers.live.live_settings import LiveSettings, recorded_settings
from stitch.lake.chain import read_record, read_tail
from stitch.lake.event_log import Index, events_of, lost_segments, named_segments, open_segment
from stitch.lake.layout import segment_folder, segment_seq
from stitch.lake.store import Store, map_concurrently


def lane_settings(store: Store, lane: int) -> LiveSettings:
    """Read the settings of the lane's last commit that records them. Raises LakeError."""
    configs = (link.record.config for link in reversed(read_tail(store, lane).records))
    return recorded_settings(next((config for config in configs if "stitch" in config), {}))


@dataclass(frozen=True, slots=True)
class Kept:
    """Segments of a lane that a repair reads, in order of their commits."""

    segments: tuple[Segment, ...]
    lost: tuple[Segment, ...]
    """Missing ones that the lane retains."""


def kept_segments(store: Store, lane: int, head: int) -> Kept:
    """Segments of commits up to `head`, without those of dead writers, which no commit names.

    O(segments) small reads. Raises LakeError.
    """
    if not head:
        return Kept((), ())
    folder = segment_folder(lane)
    files = {f"{folder}/{name}": segment_seq(name) for name in store.names(folder)}
    last = read_record(store, lane, head).record
    kept_from = head if last.standing.kept_from is None else last.standing.kept_from
    numbers = {*(seq for seq in files.values() if seq is not None and seq <= head), *range(kept_from, head)}
    records = map_concurrently(store, lambda seq: read_record(store, lane, seq).record, sorted(numbers))
    commits = [*(record for record in records if record.seq != head), last]
    named = named_segments(commits)
    return Kept(
        tuple(named[name] for name in sorted(files) if name in named),
        tuple(lost_segments(store, lane, commits)),
    )


Wants = Callable[[Index, int], bool]
"""True if a segment may hold something wanted: by its index, and its number of records without request id."""


def read_kept(store: Store, segments: Iterable[Segment], wants: Wants) -> Iterator[pa.Table]:
    """EVENT_SCHEMA, without events that were late when they came: for each segment that may hold something
    wanted; one that was swept in the meantime gives none. Raises LakeError.
    """
    for segment in segments:
        if store.size(segment.name) is None:
            continue
        try:
            opened = open_segment(store, segment)
            if opened.has_index and not wants(opened.index, opened.n_loose):
                continue
            events = events_of(opened, segment)
        except LakeError as error:
            if store.size(segment.name) is None:
                continue
            raise LakeError(
                f"'{segment.name}' is damaged: a repair stitches requests anew from what it holds.",
                remedy="Restore it from a backup; `flowdiff fsck` lists all that is damaged.",
            ) from error
        if events.num_rows:
            yield concat_events([events])


def related(late: pa.Table, kept: Callable[[Wants], Iterator[pa.Table]]) -> pa.Table:
    """Kept events of the requests of late ones (EVENT_SCHEMA): by id, and for records that name none, by
    what ties them.

    `kept` reads them, table by table, those that are wanted at least; it is called once for spans, for
    records as often as a chain of ties is long. Memory: what is found, and one table.
    """
    known = _Known(late)
    while True:
        before = known.size
        found = []
        for events in kept(known.wants):
            rows = known.rows(events)
            if rows.any():
                found.append(events.filter(pa.array(rows)).combine_chunks())
        if known.size == before or not known.any_loose:
            return concat_events(found)


class _Known:
    """Requests by key, and the words of their records: both grow while events are looked at."""

    def __init__(self, late: pa.Table) -> None:
        self._keys: U8 = np.zeros(0, dtype=np.uint64)
        self._named: U8 = self._keys
        """Words of records with a request id: records without one that share a word belong to it."""
        self._loose: U8 = self._keys
        """Words of records without a request id: they join others, and requests, that share a word."""
        self.any_loose = False
        self._take(late, np.ones(late.num_rows, dtype=np.bool_))

    @property
    def size(self) -> int:
        """Grows while anything is found."""
        return len(self._keys) + len(self._named) + len(self._loose)

    def wants(self, index: Index, n_loose: int) -> bool:
        """See Wants. Once a record without a request id is known, all are: words tie it to others."""
        return self.any_loose or n_loose > 0 or bool(np.isin(self._keys, index["key"]).any())

    def rows(self, events: pa.Table) -> B1:
        """[events] of a request that is known; what they tell is known from now on."""
        key, loose = request_keys(events)
        loose = np.zeros(len(key), dtype=np.bool_) if loose is None else loose
        found: B1 = np.isin(key, self._keys) & ~loose
        self.any_loose |= bool(loose.any())
        if self.any_loose and (events["kind"].to_numpy() < SPAN_KIND_BASE).any():
            row, word = record_words(events)
            tied = np.isin(word, self._loose) | (loose[row] & np.isin(word, self._named))
            found[row[tied]] = True
        if found.any():
            self._take(events, found)
        return found

    def _take(self, events: pa.Table, rows: B1) -> None:
        some = events if rows.all() else events.filter(pa.array(rows)).combine_chunks()
        key, loose = request_keys(some)
        loose = np.zeros(len(key), dtype=np.bool_) if loose is None else loose
        self.any_loose |= bool(loose.any())
        self._keys = np.union1d(self._keys, key[~loose])
        row, word = record_words(some)
        self._named = np.union1d(self._named, word[~loose[row]])
        self._loose = np.union1d(self._loose, word[loose[row]])
