"""Import files into a lake in one commit: decode, group by request, stitch group by group, write windows.

An import is invisible before its commit; after an interruption the next import starts clean. The resulting
content of the lake depends on the content of the files, not on their names, order or number, nor on the
memory budget.

Events are grouped by request, so each group has requests of every window. Every file in the lake has a fixed
cost and its own copy of structures, which would be a third of a lake of small windows. So the parts of small
windows are buffered until all groups are stitched, and written as one file per table.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
import pyarrow as pa

from ingest.source import LogPart
from schemas.commits import CommitBody, CommitRecord, Counters, Segment, Standing
from schemas.errors import LakeError, lake_error
from schemas.events import concat_events
from schemas.rejects import Reason
from schemas.windows import Window
from stitch.closing import NEVER, event_times
from stitch.drivers.file_counts import refuse_without_events
from stitch.drivers.import_settings import STITCHED_AT_ONCE, ImportSettings, ImportSummary, Progress
from stitch.drivers.inputs import Source, Sources, open_sources, sort_out
from stitch.drivers.live.arrivals import DETAILS, refusals
from stitch.drivers.live.keys import log_rows
from stitch.drivers.partition import payload_bytes
from stitch.drivers.refusals import ABSURD_DETAIL, is_absurd, refuse_all_retired
from stitch.drivers.sharded.engines import (
    PROCESSES_FROM_BYTES,
    TWO_FROM_BYTES,
    Cluster,
    Engine,
    import_engine,
)
from stitch.drivers.sharded.ledger import Ledger
from stitch.drivers.sharded.left_parts import WaitingPart, WindowParts
from stitch.drivers.sharded.stitching import GroupOutcome
from stitch.drivers.spill import EventSpill, Group
from stitch.lake.copies import Copies
from stitch.lake.disk import exclusive_lock, make_private_folder
from stitch.lake.lane import Lane
from stitch.lake.layout import DEFAULT_WINDOW_NS, STAGE, ensure_lake, read_info
from stitch.lake.manifest import open_manifest
from stitch.lake.place import local_path, open_place
from stitch.lake.staging import Staging
from stitch.lake.store import LocalStore, Store
from stitch.scratch import Scratch

_HELD_SHARE: Final = 16
"""The memory budget in bytes divided by this is the maximum size of the parts of small windows that are
buffered until all groups are stitched."""


def import_into(
    lake: Path | str,
    names: Sequence[str | LogPart],
    settings: ImportSettings,
    *,
    owner: str,
    created_by: str,
    stdin: BinaryIO,
    progress: Progress,
    workers: int | Cluster = 1,
    threads: int = STITCHED_AT_ONCE,
) -> ImportSummary:
    """Import files and parts of topics into a lake, which is created if missing.

    workers: number of processes, started if the input is large enough (`worth_processes`); 1: only this
    process, with `threads` threads, at most STITCHED_AT_ONCE. Each process imports the program's main module:
    a script that asks for more than one must guard its work by `if __name__ == "__main__"`. With a cluster
    the memory budget applies to each process.

    Only one import may write at a time: on this machine a second one is refused at once; in a bucket a second
    one fences off the first, which then fails. Raises LakeError (errors of disk and network included),
    InputError, ConfigError, and UnknownFormatError for an unknown format name or a file of unrecognised
    format. In every case the lake is unchanged, or the next import finishes what was committed; staged files
    are removed.
    """
    run = partial(
        import_files,
        names=names,
        settings=settings.named(),
        owner=owner,
        created_by=created_by,
        stdin=stdin,
        progress=progress,
        lake=str(lake),
        workers=workers,
        threads=threads,
    )
    try:
        if (folder := local_path(str(lake))) is not None:
            return _into_folder(folder, run)
        place = open_place(str(lake))  # what spills goes to this machine's folder for temporary files
        with Scratch() as scratch:
            return run(place.store, scratch.folder, copies=place.copies)
    except OSError as error:
        raise lake_error(
            f"Writing the lake '{lake}' failed: {error.strerror or error}.",
            error,
            remedy="Nothing is lost: see to it, then run the same import again.",
        ) from error


def _into_folder(lake: Path, run: Callable[..., ImportSummary]) -> ImportSummary:
    try:
        lake.parent.mkdir(parents=True, exist_ok=True)
        make_private_folder(lake)
    except OSError as error:
        raise LakeError(
            f"The folder '{lake}' cannot be made: {error.strerror}.", remedy="Check --lake."
        ) from error
    store = LocalStore.at(lake)
    scratch = f"{STAGE}/scratch"
    own = f"{scratch}/{secrets.token_hex(8)}"

    def sweep() -> None:
        for name in store.names(scratch):
            if f"{scratch}/{name}" != own:
                store.remove(f"{scratch}/{name}")

    with exclusive_lock(lake):
        try:
            return run(store, lake.absolute() / own, sweep=sweep)
        finally:
            store.remove(scratch)


def worth_processes(workers: int, sources: Sequence[Source]) -> bool:
    """True if the input is large enough to repay the start of `workers` processes; topics count as large."""
    sizes = [source.size for source in sources]
    if workers == STITCHED_AT_ONCE:
        return sum(sizes) - max(sizes) >= TWO_FROM_BYTES
    return sum(sizes) >= PROCESSES_FROM_BYTES or any(isinstance(each.path, LogPart) for each in sources)


def import_files(
    store: Store,
    scratch: Path,
    names: Sequence[str | LogPart],
    settings: ImportSettings,
    *,
    owner: str,
    created_by: str,
    stdin: BinaryIO,
    progress: Progress,
    lake: str = "LAKE",
    copies: Copies | None = None,
    workers: int | Cluster = 1,
    threads: int = STITCHED_AT_ONCE,
    sweep: Callable[[], None] = lambda: None,
) -> ImportSummary:
    """Import as `import_into` does, on any store; the caller holds the lock and clears `scratch`.

    copies: local copies from which files of the lake are read; None: they are read from the store. If there
    are several `workers`, each opens the lake by its name. sweep: function that removes files left beside
    `scratch` by an import that died. The import's queue, in the stage folder, is removed first, as a worker
    of it that still runs would otherwise miss a file of its task.
    """
    ensured = partial(ensure_lake, store, settings.window_length_ns, DEFAULT_WINDOW_NS, created_by, lake)
    info = ensured() if read_info(store, lake) is not None else None
    given = open_sources(names, scratch, stdin)
    if info is None:  # a lake that is made has its windows for good
        refuse_without_events(given, settings)
        info = ensured()
    lane = Lane(store, info, owner=owner, created_by=created_by)
    sweep()
    config = settings.model_dump(mode="json", include={"format", "params_share", "decode", "stitch"})
    changed = lane.changed_settings(config)
    sources = sort_out(given, lane.known_inputs(), settings)
    if not sources.fresh:
        return _summary(sources, None, spilled=False)
    if settings.keep_events:  # what is only logged is not worth other processes
        workers = 1
    if isinstance(workers, int):
        workers = settings.most_workers(workers) if worth_processes(workers, sources.fresh) else 1
        settings = settings.shared_among(workers)
    with lane.stage() as staging:
        manifest = open_manifest(store, lake, copies)
        ledger = Ledger(staging, settings, info.window_length_ns)
        segments: tuple[Segment, ...] = ()
        with import_engine(staging, manifest, settings, scratch, workers, threads) as engine:
            spill = EventSpill(scratch, settings.payload_bytes, engine.threads)
            _read(engine, sources.fresh, spill, ledger, progress)
            if settings.keep_events:
                segments = _log(staging, spill, ledger, settings, info.window_length_ns)
            else:
                _stitch(engine, spill, ledger, settings, progress)
        counters = ledger.close()
        refuse_all_retired(counters, sources.fresh, manifest.retired_to_ns, info.window_length_ns)
        body = CommitBody(
            kind="import",
            inputs=ledger.input_files(),
            counters=counters,
            config=config,
            standing=Standing(segments=segments),
        )
        record = lane.commit(staging, body)
    return _summary(sources, record, spilled=spill.spilled, changed=changed)


def _summary(
    sources: Sources, record: CommitRecord | None, *, spilled: bool, changed: str = ""
) -> ImportSummary:
    files = () if record is None else record.publish
    return ImportSummary(
        commit=None if record is None else record.seq,
        files_imported=tuple(source.name for source in sources.fresh),
        files_known=tuple(source.name for source in sources.known),
        windows=len({item.window for item in files if item.window is not None}),
        bytes_written=sum(item.size for item in files),
        spilled=spilled,
        counters=Counters() if record is None else record.counters,
        changed_settings=changed,
    )


def _read(
    engine: Engine, sources: Sequence[Source], spill: EventSpill, ledger: Ledger, progress: Progress
) -> None:
    """Decode all files to events. Raises as `require_events`, LakeError and InputError."""
    progress.begin(sum(source.size for source in sources))
    engine.read(sources, spill, ledger, progress)
    ledger.require_events()


def _log(
    staging: Staging, spill: EventSpill, ledger: Ledger, settings: ImportSettings, length_ns: int
) -> tuple[Segment, ...]:
    """Write all events as segments of the lane's log, which windows are built from; returns the segments.

    Events that fit no window are refused, as by live lanes. Memory: two segments. Raises LakeError for more
    windows than an import may have, OSError.
    """
    absurd_days = ledger.absurd_days()
    segments: list[Segment] = []
    for events in _in_segments(spill.batches(), settings.segment_bytes):
        outcome = GroupOutcome(settings.max_dead_letters_per_file)
        if len(absurd_days):
            absurd = is_absurd(events, absurd_days)
            events = outcome.refuse(events, absurd, Reason.ABSURD_TIME, ABSURD_DETAIL)
        for reason in (Reason.BAD_ID, Reason.BAD_TIME):
            rows = refusals(events, *event_times(events), int(NEVER)).get(reason)
            if rows is not None:
                events = outcome.refuse(events, rows, reason, DETAILS.get(reason, "")).combine_chunks()
        if events.num_rows:
            first, _ = event_times(events)
            timed = first[first != NEVER]
            outcome.starts_ns |= {*np.unique(timed // length_ns * length_ns).tolist()}
            segments.append(staging.add_segment(log_rows(concat_events([events])), part=len(segments)))
            outcome.totals["events_logged"] += events.num_rows
        ledger.add_group(outcome)
    return tuple(segments)


def _in_segments(batches: Iterable[pa.Table], limit_bytes: int) -> Iterator[pa.Table]:
    """Yield the events of `batches` in tables (one chunk a column) of about `limit_bytes` of payload."""
    held: list[pa.Table] = []
    size = 0
    for batch in batches:
        n_parts = -(-payload_bytes(batch) // limit_bytes)
        rows = -(-batch.num_rows // max(1, n_parts))
        for at in range(0, batch.num_rows, max(1, rows)):
            events = batch.slice(at, rows)
            own = payload_bytes(events)
            if held and size + own > limit_bytes:
                yield concat_events(held)
                held, size = [], 0
            held.append(events)
            size += own
    if held:
        yield concat_events(held)


def _stitch(
    engine: Engine, spill: EventSpill, ledger: Ledger, settings: ImportSettings, progress: Progress
) -> None:
    """Stitch all events to windows in the stage folder. Raises LakeError and InputError."""
    engine.begin(ledger.absurd_days())
    small = _SmallWindows(settings.memory_bytes // _HELD_SHARE)
    running: deque[tuple[int, Group, Callable[[], GroupOutcome]]] = deque()

    def finish() -> None:
        """Wait for the group that was begun first, and record its outcome, even if a later one ended before
        it."""
        part, group, ended = running.popleft()
        outcome = ended()
        group.forget()
        small.add(part, [*outcome.waiting, *outcome.left])
        if small.full:
            engine.write_windows(small.take())
        ledger.add_group(outcome)
        progress.stitched(outcome.totals["flows"])

    for part, group in enumerate(spill.groups()):
        if len(running) == engine.at_once:
            finish()
        running.append((part, group, engine.stitch_group(group, part)))
    while running:
        finish()
    engine.write_windows(small.take())


@dataclass(slots=True)
class _SmallWindows:
    """Buffer of the parts of small windows until all groups are stitched, so that each window becomes one
    file per table. Groups must be added in ascending order, so that the same input gives the same files."""

    limit_bytes: int
    _parts: dict[Window, list[tuple[int, WaitingPart]]] = field(default_factory=dict)
    _bytes: int = 0

    def add(self, group: int, parts: Sequence[WaitingPart]) -> None:
        """Add the parts of one group, each of a different window."""
        for part in parts:
            self._parts.setdefault(part.window, []).append((group, part))
            self._bytes += part.nbytes

    @property
    def full(self) -> bool:
        """True if the buffered parts exceed `limit_bytes`."""
        return self._bytes > self.limit_bytes

    def take(self) -> list[WindowParts]:
        """Remove and return all buffered parts: for each window, in order of time, (number of the first group
        with a part of the window, parts)."""
        waiting = [(parts[0][0], [part for _, part in parts]) for _, parts in sorted(self._parts.items())]
        self._parts, self._bytes = {}, 0
        return waiting
