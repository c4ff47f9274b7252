"""Files into a lake in one commit: decode, collect by request, stitch group by group, write windows.

Nothing of an import is visible before its commit; whatever stops it, the next one starts clean. The content
of the lake depends on what the files hold, not on their names, order or number, nor on the memory budget.
"""

from __future__ import annotations

import tempfile
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import closing
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
from schemas.commits import CommitBody, CommitRecord, Counters, InputFile
from schemas.errors import LakeError
from schemas.events import with_text_ids
from schemas.rejects import Reason, rejects_table
from schemas.windows import NS_PER_MINUTE, NS_PER_SECOND
from stitch.columnar.chunks import whole
from stitch.columnar.hashing import hash_rows
from stitch.drivers.dead_letters import KERNEL_SOURCE, DeadLetters
from stitch.drivers.flow_counts import shared_params
from stitch.drivers.group_outcome import GroupOutcome
from stitch.drivers.import_settings import DECODERS, ImportSettings, ImportSummary, Progress
from stitch.drivers.inputs import Source, Sources, Tally, open_sources, refuse_without_events, sort_out
from stitch.drivers.prefetch import prefetch
from stitch.drivers.quarantine import ABSURD_DETAIL, DaysSeen, is_absurd
from stitch.drivers.retired_requests import RETIRED_DETAIL, of_retired, refuse_all_retired
from stitch.drivers.small_windows import HELD_SHARE, SmallWindows, is_small, merged, own_copy
from stitch.drivers.spill import EventSpill, Load
from stitch.kernel import stitch
from stitch.lake.copies import Copies
from stitch.lake.disk import exclusive_lock, make_private_folder
from stitch.lake.known import KnownRequests, rows_of
from stitch.lake.lane import Lane
from stitch.lake.layout import STAGE, WINDOW_TABLES, ensure_lake, read_info
from stitch.lake.manifest import Manifest, open_manifest
from stitch.lake.place import is_bucket, open_place
from stitch.lake.staging import Staging
from stitch.lake.store import LocalStore, Store
from stitch.lake.windowing import WindowPart, cut, starts_of
from stitch.structures import StructureMemo

DEFAULT_WINDOW_NS: Final = 5 * NS_PER_MINUTE
DECODED_AHEAD: Final = 1
"""Batches waiting between the decoders and the collector."""
CHUNK_BYTES_PER_EVENT: Final = 160
"""Of the lines of a chunk, about; batches of at least so many events are passed on."""
WORKERS: Final = 2
"""Groups that are stitched and written at once, each in a thread: numpy, Arrow and zstd free the lock."""
BUDGET_PER_PAYLOAD_BYTE: Final = 6
"""Peak of kernel and writer over the payload of the group they work on, measured (docs/operations.md)."""
MEMO_SHARE: Final = 10
"""One part in ten of the budget is for structures already described."""
MEMO_BYTES_PER_STRUCTURE: Final = 20_000


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
    off the first, which is told so. Raises LakeError (errors of disk and network included), InputError,
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
    """What spills goes to the folder for temporary files of this machine."""
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
    """As `import_into`, on any store; the caller holds the lock and clears `scratch`.

    `copies`: where files of the lake are read, if not in the store.
    """
    ensured = partial(ensure_lake, store, settings.window_length_ns, DEFAULT_WINDOW_NS, created_by, lake)
    info = ensured() if read_info(store, lake) is not None else None
    given = open_sources(names, scratch, stdin)
    if info is None:  # a lake that is made has its windows for good
        refuse_without_events(given, settings)
        info = ensured()
    lane = Lane(store, info, owner=owner, created_by=created_by)
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
            config=settings.model_dump(mode="json", include={"format", "params_share", "decode", "stitch"}),
        )
        record = lane.commit(staging, body)
    return _summary(sources, record, counters, spilled=spilled)


def _summary(
    sources: Sources, record: CommitRecord | None, counters: Counters, *, spilled: bool
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
        self._memo = StructureMemo(settings.memory_bytes // (MEMO_SHARE * MEMO_BYTES_PER_STRUCTURE))
        self._dead_letters = DeadLetters(staging, settings.max_dead_letters_per_file)
        self._days = DaysSeen()
        self._absurd_days = self._days.absurd()
        self._small = SmallWindows(settings.memory_bytes // HELD_SHARE)
        self._windows: set[int] = set()
        self._windows_lock = Lock()

    def run(self, sources: Sequence[Source], scratch: Path) -> tuple[Counters, bool]:
        """Everything up to the commit. Returns the ledger and whether events went to disk.

        Raises as `Tally.require_events` and `refuse_all_retired`, LakeError and InputError.
        """
        limit_bytes = self._settings.memory_bytes // BUDGET_PER_PAYLOAD_BYTE
        spill = EventSpill(scratch, limit_bytes)
        self._progress.begin(sum(source.size for source in sources))
        self._decode(sources, spill)
        self._tally.require_events(sources)
        if not self._settings.any_time:
            self._absurd_days = self._days.absurd()
        with ThreadPoolExecutor(WORKERS, thread_name_prefix="stitch") as pool:
            running: deque[tuple[int, Future[GroupOutcome]]] = deque()
            for part, load in enumerate(spill.groups()):
                if len(running) == WORKERS:
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
        """What the commit says of a file. After `run`."""
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
            closing(prefetch(self._decoded(sources, pool), DECODED_AHEAD)) as batches,
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
        """What the codecs make of each file, then None: the file was read to its end."""
        for source in sources:
            batches = decode_file(
                source.path,
                self._settings.format,
                self._settings.decode,
                chunk_bytes=self._settings.chunk_bytes,
                batch_events=self._settings.chunk_bytes // CHUNK_BYTES_PER_EVENT,
                pool=pool,
                ahead=DECODERS,
            )
            for decoded in batches:
                yield source, decoded
            source.refuse_if_changed()
            yield source, None

    def _work(self, load: Load, part: int) -> GroupOutcome:
        """Flows of one group onto the stage. Runs in a worker; nothing shared is changed but the stage."""
        events = load()
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
            if is_small(window):
                outcome.waiting.append(own_copy(window))
            else:
                self._write(part, [window])
        return outcome

    def _write(self, part: int, of_window: list[WindowPart]) -> None:
        """Stage parts of one window as one file a table."""
        window = merged(of_window)
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

    def _overlap(self, events: pa.Table, known: KnownRequests, part: int, outcome: GroupOutcome) -> None:
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

    def _finish(self, part: int, work: Future[GroupOutcome], pool: Executor) -> None:
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
