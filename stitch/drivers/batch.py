"""Import files into a lake in one commit: decode, collect by request, stitch group by group, write windows.

Nothing of an import is visible before its commit; whatever stops it, the next one starts clean. The content
of the lake depends on what the files hold, not on their names, order or number, nor on the memory budget.

Groups are cut by request, so each has requests of every window. A file has a fixed cost, and structures of
its own: in a lake of small windows that was a third of it. So small windows wait until every group has its
part of them, and become one file a table.
"""

from __future__ import annotations

import tempfile
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Lock
from typing import BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.decoding import DecodedBatch
from ingest.files import decode_file
from ingest.formats import format_of
from schemas.arrays import B1
from schemas.commits import CommitBody, CommitRecord, Counters, InputFile
from schemas.errors import LakeError
from schemas.events import with_text_ids
from schemas.rejects import Reason, Reject, rejects_table
from schemas.windows import NS_PER_MINUTE, NS_PER_SECOND, Window
from stitch.columnar.hashing import hash_rows
from stitch.columnar.runs import whole
from stitch.drivers.flow_counts import count_flags, shared_params
from stitch.drivers.import_settings import DECODERS, ImportSettings, ImportSummary, Progress
from stitch.drivers.inputs import Source, Sources, Tally, open_sources, refuse_without_events, sort_out
from stitch.drivers.prefetch import prefetch
from stitch.drivers.refusals import (
    ABSURD_DETAIL,
    KERNEL_SOURCE,
    RETIRED_DETAIL,
    DaysSeen,
    DeadLetters,
    is_absurd,
    of_retired,
    refuse_all_retired,
)
from stitch.drivers.spill import EventSpill, Load
from stitch.kernel import Stitched, reject_rows, stitch
from stitch.lake.copies import Copies
from stitch.lake.disk import exclusive_lock, make_private_folder
from stitch.lake.known import KnownRequests, rows_of
from stitch.lake.lane import Lane
from stitch.lake.layout import STAGE, WINDOW_TABLES, ensure_lake, read_info
from stitch.lake.manifest import Manifest, open_manifest
from stitch.lake.place import is_bucket, open_place
from stitch.lake.staging import Staging
from stitch.lake.store import LocalStore, Store
from stitch.lake.windowing import WindowPart, cut, merged_flows, merged_params, merged_structures, starts_of
from stitch.structures import StructureMemo

DEFAULT_WINDOW_NS: Final = 5 * NS_PER_MINUTE
_DECODED_AHEAD: Final = 1
"""Batches waiting between the decoders and the collector."""
_CHUNK_BYTES_PER_EVENT: Final = 160
"""Of the lines of a chunk, about; batches of at least so many events are passed on."""
_WORKERS: Final = 2
"""Groups that are stitched and written at once, each in a thread: numpy, Arrow and zstd free the lock."""
_BUDGET_PER_PAYLOAD_BYTE: Final = 6
"""Peak of kernel and writer over the payload of the group they work on, measured (docs/operations.md)."""
_MEMO_SHARE: Final = 10
"""One part in ten of the budget is for structures already described."""
_MEMO_BYTES_PER_STRUCTURE: Final = 20_000
_SMALL_PART_BYTES: Final = 2 * 2**20
"""In memory; some 300 KB on disk, of which the fixed cost of a file is 2 %."""
_HELD_SHARE: Final = 16
"""One part in so many of an import's memory is for parts that wait."""


def import_into(
    lake: Path | str,
    names: Sequence[str],
    settings: ImportSettings,
    *,
    owner: str,
    created_by: str,
    stdin: BinaryIO,
    progress: Progress,
) -> ImportSummary:
    """Import files into a lake, a folder or `s3://bucket/prefix`, which is made where it is missing.

    One writer at a time: on this machine the second waits for nobody and is refused, in a bucket it fences
    off the first, which learns of it. Raises LakeError (errors of disk and network included), InputError,
    ConfigError, and UnknownFormatError for a format that is none or that neither is given nor shows. In every
    case the lake is as it was, or the next import finishes what was committed; files on their way are
    removed.
    """
    if settings.format is not None:
        # Commits hold its own name, whichever alias was asked for.
        settings = settings.model_copy(update={"format": format_of(settings.format).name})
    run = partial(
        import_files,
        names=names,
        settings=settings,
        owner=owner,
        created_by=created_by,
        stdin=stdin,
        progress=progress,
        lake=str(lake),
    )
    try:
        return _into_bucket(str(lake), run) if is_bucket(str(lake)) else _into_folder(Path(lake), run)
    except OSError as error:
        raise LakeError(
            f"Writing the lake '{lake}' failed: {error.strerror or error}.",
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
    with exclusive_lock(lake):
        store.remove(scratch)
        try:
            return run(store, lake / scratch)
        finally:
            store.remove(scratch)


def _into_bucket(lake: str, run: Callable[..., ImportSummary]) -> ImportSummary:
    """Import into a bucket; what spills goes to the folder for temporary files of this machine."""
    place = open_place(lake)
    with tempfile.TemporaryDirectory(prefix="flowdiff-import-") as scratch:
        return run(place.store, Path(scratch), copies=place.copies)


def import_files(
    store: Store,
    scratch: Path,
    names: Sequence[str],
    settings: ImportSettings,
    *,
    owner: str,
    created_by: str,
    stdin: BinaryIO,
    progress: Progress,
    lake: str = "LAKE",
    copies: Copies | None = None,
) -> ImportSummary:
    """Import as `import_into` does, on any store; the caller holds the lock and clears `scratch`.

    `copies`: where files of the lake are read, if not in the store.
    """
    ensured = partial(ensure_lake, store, settings.window_length_ns, DEFAULT_WINDOW_NS, created_by, lake)
    info = ensured() if read_info(store, lake) is not None else None
    given = open_sources(names, scratch, stdin)
    if info is None:  # a lake that is made has its windows for good
        refuse_without_events(given, settings)
        info = ensured()
    lane = Lane(store, info, owner=owner, created_by=created_by)
    config = settings.model_dump(mode="json", include={"format", "params_share", "decode", "stitch"})
    changed = lane.changed_settings(config)
    sources = sort_out(given, lane.known_inputs(), settings.format, any_time=settings.any_time)
    if not sources.fresh:
        return _summary(sources, None, Counters(), spilled=False)
    with lane.stage() as staging:
        run = _Import(staging, open_manifest(store, lake, copies), settings, progress)
        counters, spilled = run.run(sources.fresh, scratch)
        body = CommitBody(
            kind="import",
            inputs=tuple(run.input_file(source) for source in sources.fresh),
            counters=counters,
            config=config,
        )
        record = lane.commit(staging, body)
    return _summary(sources, record, counters, spilled=spilled, changed=changed)


def _summary(
    sources: Sources, record: CommitRecord | None, counters: Counters, *, spilled: bool, changed: str = ""
) -> ImportSummary:
    files = () if record is None else record.publish
    return ImportSummary(
        commit=None if record is None else record.seq,
        files_imported=tuple(source.name for source in sources.fresh),
        files_known=tuple(source.name for source in sources.known),
        windows=len({item.window for item in files if item.window is not None}),
        bytes_written=sum(item.size for item in files),
        spilled=spilled,
        counters=counters,
        changed_settings=changed,
    )


class _Import:
    """One run of the driver: its parts share the stage and the ledger."""

    def __init__(
        self, staging: Staging, manifest: Manifest, settings: ImportSettings, progress: Progress
    ) -> None:
        self._staging = staging
        self._manifest = manifest
        self._settings = settings
        self._progress = progress
        self._totals: Counter[str] = Counter()
        self._oddities: Counter[str] = Counter()
        self._quality: Counter[str] = Counter()
        self._tally = Tally(settings.format)
        self._memo = StructureMemo(settings.memory_bytes // (_MEMO_SHARE * _MEMO_BYTES_PER_STRUCTURE))
        self._dead_letters = DeadLetters(staging, settings.max_dead_letters_per_file)
        self._days = DaysSeen()
        self._absurd_days = self._days.absurd()
        self._small = _SmallWindows(settings.memory_bytes // _HELD_SHARE)
        self._windows: set[int] = set()
        self._windows_lock = Lock()

    def run(self, sources: Sequence[Source], scratch: Path) -> tuple[Counters, bool]:
        """Everything up to the commit. Returns the ledger and whether events went to disk.

        Raises as `Tally.require_events` and `refuse_all_retired`, LakeError and InputError.
        """
        limit_bytes = self._settings.memory_bytes // _BUDGET_PER_PAYLOAD_BYTE
        spill = EventSpill(scratch, limit_bytes)
        self._progress.begin(sum(source.size for source in sources))
        self._decode(sources, spill)
        self._tally.require_events(sources)
        if not self._settings.any_time:
            self._absurd_days = self._days.absurd()
        with ThreadPoolExecutor(_WORKERS, thread_name_prefix="stitch") as pool:
            running: deque[tuple[int, Future[_GroupOutcome]]] = deque()
            for part, load in enumerate(spill.groups()):
                if len(running) == _WORKERS:
                    self._finish(*running.popleft(), pool)
                running.append((part, pool.submit(self._work, load, part)))
            while running:
                self._finish(*running.popleft(), pool)
            self._write_small(pool)
        counters, manifest = self._counters(), self._manifest
        refuse_all_retired(counters, sources, manifest.retired_to_ns, manifest.info.window_length_ns)
        self._dead_letters.flush()
        return counters, spill.spilled

    def input_file(self, source: Source) -> InputFile:
        """Return what the commit says of a file. After `run`."""
        return self._tally.input_file(source, self._days.count(source.sha256, self._absurd_days))

    def _counters(self) -> Counters:
        return Counters.model_validate(
            {
                **self._totals,
                "rejects": dict(sorted(self._dead_letters.counts.items())),
                "rejects_not_kept": self._dead_letters.not_kept,
                "oddities": dict(sorted(self._oddities.items())),
                "quality": dict(sorted(self._quality.items())),
            }
        )

    def _decode(self, sources: Sequence[Source], spill: EventSpill) -> None:
        """Read every file once; threads decode while this one collects."""
        with (
            ThreadPoolExecutor(DECODERS, thread_name_prefix="decode") as pool,
            closing(prefetch(self._decoded(sources, pool), _DECODED_AHEAD)) as batches,
        ):
            for source, decoded in batches:
                if decoded is None:
                    self._progress.decoded(source.size, 0)
                    continue
                n_events = decoded.events.num_rows
                self._tally.add(source, decoded)
                self._totals["events_read"] += n_events
                self._oddities.update(decoded.oddities)
                self._dead_letters.add(decoded.rejects, source.name, decoded.refused)
                if n_events:
                    self._days.add(source.sha256, decoded.events)
                    spill.add(decoded.events)
                self._progress.decoded(0, n_events)

    def _decoded(
        self, sources: Sequence[Source], pool: Executor
    ) -> Iterator[tuple[Source, DecodedBatch | None]]:
        """Yield what the codecs make of each file, then None: the file was read to its end."""
        for source in sources:
            batches = decode_file(
                source.path,
                self._settings.format,
                self._settings.decode,
                chunk_bytes=self._settings.chunk_bytes,
                batch_events=self._settings.chunk_bytes // _CHUNK_BYTES_PER_EVENT,
                pool=pool,
                ahead=DECODERS,
            )
            for decoded in batches:
                yield source, decoded
            source.refuse_if_changed()
            yield source, None

    def _work(self, load: Load, part: int) -> _GroupOutcome:
        """Flows of one group onto the stage. Runs in a worker; nothing shared is changed but the stage."""
        events = load()
        outcome = _GroupOutcome(self._settings.max_dead_letters_per_file)
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
                self._overlap(rows_of(events, ids, keep=True), known, part, outcome)
                events = rows_of(events, ids, keep=False)
        if (retired_to_ns := self._manifest.retired_to_ns) is not None:
            retired = of_retired(events, retired_to_ns, self._settings.stitch, self._memo)
            events = outcome.refuse(events, retired, Reason.RETIRED, RETIRED_DETAIL)
        n_events = events.num_rows
        made = stitch(events, self._settings.stitch, memo=self._memo)
        del events  # the largest thing there is, and writing takes a while
        outcome.count(made, n_events)
        params = shared_params(made.params, self._settings.params_share)
        self._count_windows(starts_of(made.flows["start_ns"], length_ns).tolist())
        for window in cut(made.flows, made.structures, params, length_ns):
            if _is_small(window):
                outcome.waiting.append(_own_copy(window))
            else:
                self._write(part, [window])
        return outcome

    def _write(self, part: int, of_window: list[WindowPart]) -> None:
        """Stage parts of one window as one file a table."""
        window = _merged(of_window)
        for table in WINDOW_TABLES:
            self._staging.add_window(table, window.window, part, getattr(window, table))

    def _count_windows(self, starts_ns: list[int]) -> None:
        """Raises LakeError once the import has more windows than it may."""
        with self._windows_lock:
            self._windows.update(starts_ns)
            if len(self._windows) > self._settings.max_windows:
                length_s = self._manifest.info.window_length_ns // NS_PER_SECOND
                raise LakeError(
                    f"The input spreads over more than {self._settings.max_windows:,} windows of "
                    f"{length_s} s, the most for one import.",
                    remedy="Use a longer --window in a new lake, import in parts, or raise --max-windows.",
                )

    def _overlap(self, events: pa.Table, known: KnownRequests, part: int, outcome: _GroupOutcome) -> None:
        """Events of requests that the lake has: the same flow again is a duplicate, any other is late."""
        made = stitch(events, self._settings.stitch, memo=self._memo)
        same = known.unchanged(made.flows)
        n_same = int(np.count_nonzero(same))
        changed = made.flows["request_id"].filter(pa.array(~same)).combine_chunks()
        late = rows_of(events, changed, keep=True)
        by_content = late.take(pa.array(np.argsort(hash_rows(late), kind="stable")))
        self._staging.add_side("late", part, with_text_ids(by_content))
        outcome.totals["events_duplicate"] += events.num_rows - late.num_rows
        outcome.totals["events_late"] += late.num_rows
        outcome.totals["flows_duplicate"] += n_same
        outcome.totals["flows_late"] += made.flows.num_rows - n_same

    def _finish(self, part: int, work: Future[_GroupOutcome], pool: Executor) -> None:
        """Book what a worker did; in the order of the groups, whoever was first."""
        outcome = work.result()
        self._small.add(part, outcome.waiting)
        if self._small.full:
            self._write_small(pool)
        self._totals.update(outcome.totals)
        self._quality.update(outcome.quality)
        letters = rejects_table(outcome.rejects, KERNEL_SOURCE, [0])
        self._dead_letters.add(letters, KERNEL_SOURCE, outcome.refused)
        self._progress.stitched(outcome.totals["flows"])

    def _write_small(self, pool: Executor) -> None:
        """Stage the windows that wait."""
        list(pool.map(lambda item: self._write(*item), self._small.take()))


@dataclass(slots=True)
class _GroupOutcome:
    """Filled in by the worker of the group, booked by the import."""

    max_letters: int
    """Dead letters kept of one refusal; the others are counted."""
    totals: Counter[str] = field(default_factory=Counter)
    quality: Counter[str] = field(default_factory=Counter)
    rejects: list[Reject] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    """By reason: `rejects`, and those that were only counted."""
    waiting: list[WindowPart] = field(default_factory=list)
    """Parts of small windows, not written yet."""

    def count(self, made: Stitched, n_events: int) -> None:
        """Book `n_events` events that the kernel made flows of."""
        duplicate, rejected = made.counts["duplicates"], made.counts["rejected"]
        self.totals["flows"] += made.flows.num_rows
        self.totals["events_duplicate"] += duplicate
        self.totals["events_rejected"] += rejected
        self.totals["events_published"] += n_events - duplicate - rejected
        self.rejects += made.rejects
        self.refused.update(reject.reason.value for reject in made.rejects)
        self.quality.update(count_flags(made.flows))

    def refuse(self, events: pa.Table, rows: B1, reason: Reason, detail: str) -> pa.Table:
        """The events but those of `rows` ([events]), which become dead letters."""
        refused = events.filter(pa.array(rows))
        if not refused.num_rows:
            return events
        kept = np.argsort(hash_rows(refused), kind="stable")[: self.max_letters]
        self.rejects += reject_rows(refused, kept, reason, detail)
        self.refused[reason.value] += refused.num_rows
        self.totals["events_rejected"] += refused.num_rows
        return events.filter(pa.array(~rows))


def _is_small(part: WindowPart) -> bool:
    """Whether a part is worth waiting for the rest of its window."""
    return bool(part.flows.nbytes + part.params.nbytes <= _SMALL_PART_BYTES)


def _own_copy(part: WindowPart) -> WindowPart:
    """The part in memory of its own: what the kernel gave shares the buffers of its group."""
    return WindowPart(part.window, *(_copied(t) for t in (part.flows, part.structures, part.params)))


@dataclass(slots=True)
class _SmallWindows:
    """Parts that wait. Groups must be added in their order, so that which files there are is no accident."""

    limit_bytes: int
    _parts: dict[Window, list[tuple[int, WindowPart]]] = field(default_factory=dict)
    _bytes: int = 0

    def add(self, group: int, parts: list[WindowPart]) -> None:
        """Parts of one group, each of another window."""
        for part in parts:
            self._parts.setdefault(part.window, []).append((group, part))
            self._bytes += part.flows.nbytes + part.structures.nbytes + part.params.nbytes

    @property
    def full(self) -> bool:
        """Whether they should be written before more come."""
        return self._bytes > self.limit_bytes

    def take(self) -> list[tuple[int, list[WindowPart]]]:
        """Everything that waits, a window after the other in order of time: a group that nobody else names
        for this window, and the parts. Nothing waits then."""
        waiting = [(parts[0][0], [part for _, part in parts]) for _, parts in sorted(self._parts.items())]
        self._parts, self._bytes = {}, 0
        return waiting


def _merged(parts: list[WindowPart]) -> WindowPart:
    """Parts of one window, of different requests, as one in the order of the contract."""
    if len(parts) == 1:
        return parts[0]
    flows = merged_flows([part.flows for part in parts])
    return WindowPart(
        parts[0].window,
        flows,
        merged_structures([part.structures for part in parts]),
        merged_params([part.params for part in parts], flows),
    )


def _copied(table: pa.Table) -> pa.Table:
    return table.take(pa.array(np.arange(table.num_rows))).combine_chunks()
