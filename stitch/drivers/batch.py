"""Files into a lake in one commit: decode, collect by request, stitch group by group, write windows.

Nothing of an import is visible before its commit; whatever stops it, the next one starts clean. The content
of the lake depends on what the files hold, not on their names, order or number, nor on the memory budget.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from ingest.decoding import DecodedBatch
from ingest.files import decode_file
from ingest.formats import format_of
from schemas.config import Config, DecodeConfig, StitchConfig
from schemas.errors import FlowdiffError, LakeError
from schemas.events import with_text_ids
from schemas.quality import Quality
from schemas.rejects import Reject, rejects_table
from schemas.windows import NS_PER_MINUTE
from stitch.columnar.chunks import whole
from stitch.columnar.content import hash_rows
from stitch.drivers.inputs import Source, open_sources
from stitch.drivers.ledger import Tally
from stitch.drivers.partition import hash_texts, share_of
from stitch.drivers.prefetch import prefetch
from stitch.drivers.spill import EventSpill, Load
from stitch.kernel import Stitched, stitch
from stitch.lake.commits import Counters
from stitch.lake.known import KnownRequests, rows_of
from stitch.lake.layout import STAGE
from stitch.lake.manifest import open_manifest
from stitch.lake.store import Disk, LocalDisk, exclusive_lock
from stitch.lake.windowing import cut
from stitch.lake.writer import LakeWriter
from stitch.structures import StructureMemo

DEFAULT_WINDOW_NS: Final = 5 * NS_PER_MINUTE
DECODERS: Final = 2
"""Chunks decoded at once, each in a thread: DuckDB and Arrow free the lock, ptars partly."""
DECODED_AHEAD: Final = 1
"""Batches waiting between the decoders and the collector."""
CHUNK_BYTES_PER_EVENT: Final = 160
"""Of the lines of a chunk, about; batches of at least so many events are passed on."""
WORKERS: Final = 2
"""Groups that are stitched and written at once, each in a thread: numpy, Arrow and zstd free the lock."""
DEAD_LETTER_FILE_BYTES: Final = 32 * 2**20
BUDGET_PER_PAYLOAD_BYTE: Final = 6
"""Peak of kernel and writer over the payload of the group they work on, measured (docs/operations.md)."""
MEMO_SHARE: Final = 10
"""One part in ten of the budget is for structures already described."""
MEMO_BYTES_PER_STRUCTURE: Final = 20_000
KERNEL_SOURCE: Final = "(stitched)"
"""`source` of dead letters found when events of several files came together."""


class ImportSettings(Config):
    """How to import."""

    format: str | None = None
    """Name of a codec; None: by content, file by file."""
    window_length_ns: int | None = None
    """None: what the lake has, five minutes for a new one."""
    memory_bytes: int = Field(default=2**30, ge=64 * 2**20)
    """Budget over the ~200 MB of the idle process. Past it events go to disk, dealt by request."""
    params_share: float = Field(default=1.0, ge=0, le=1)
    """Share of requests, by a hash of the id, whose parameters are kept."""
    decode: DecodeConfig = DecodeConfig()
    stitch: StitchConfig = StitchConfig()

    @property
    def chunk_bytes(self) -> int:
        """Text decoded at a time by each of DECODERS: 8 MB for the usual budget, some 50 MB in passing."""
        return min(8 * 2**20, self.memory_bytes // (64 * DECODERS))


class ImportSummary(Config):
    """What an import did."""

    commit: int | None
    """Number of the commit; None: every file was in the lake, nothing was done."""
    files_imported: tuple[str, ...]
    files_known: tuple[str, ...]
    """In the lake already (by content), or given twice."""
    windows: int
    bytes_written: int
    spilled: bool
    """Whether events had to go to disk on their way."""
    counters: Counters


class Progress(Protocol):
    """Who wants to know how far it is."""

    def begin(self, total_bytes: int) -> None:
        """Reading starts."""
        ...

    def decoded(self, file_bytes: int, events: int) -> None:
        """More events; `file_bytes` is the size of a file that was read to its end, else 0."""
        ...

    def stitched(self, flows: int) -> None:
        """A group of events became flows."""
        ...


@dataclass(slots=True)
class _Ledger:
    """Counters under way."""

    totals: Counter[str] = field(default_factory=Counter)
    rejects: Counter[str] = field(default_factory=Counter)
    oddities: Counter[str] = field(default_factory=Counter)
    quality: Counter[str] = field(default_factory=Counter)

    def counters(self) -> Counters:
        return Counters.model_validate(
            {
                **self.totals,
                "rejects": dict(sorted(self.rejects.items())),
                "oddities": dict(sorted(self.oddities.items())),
                "quality": dict(sorted(self.quality.items())),
            }
        )


def import_into(
    lake: Path,
    names: Sequence[str],
    settings: ImportSettings,
    *,
    owner: str,
    created_by: str,
    stdin: BinaryIO,
    progress: Progress,
) -> ImportSummary:
    """Import files into a lake on this machine, which is made where it is missing.

    One writer at a time. Raises LakeError (the disk's errors included), InputError, and UnknownFormatError
    for a format that is none or that neither is given nor shows. In every case the lake is as it was, or the
    next import finishes what was committed.
    """
    if settings.format is not None:
        format_of(settings.format)
    try:
        lake.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LakeError(
            f"The folder '{lake}' cannot be made: {error.strerror}.", remedy="Check --lake."
        ) from error
    disk = LocalDisk(lake)
    scratch = f"{STAGE}/scratch"
    try:
        with exclusive_lock(lake):
            disk.remove(scratch)
            summary = import_files(
                disk,
                lake / scratch,
                names,
                settings,
                owner=owner,
                created_by=created_by,
                stdin=stdin,
                progress=progress,
            )
            disk.remove(scratch)
            return summary
    except OSError as error:
        raise LakeError(
            f"Writing the lake failed: {error}.",
            remedy="Nothing is lost: see to the disk, then run the same import again.",
        ) from error


def import_files(
    disk: Disk,
    scratch: Path,
    names: Sequence[str],
    settings: ImportSettings,
    *,
    owner: str,
    created_by: str,
    stdin: BinaryIO,
    progress: Progress,
) -> ImportSummary:
    """As `import_into`, on any disk; the caller holds the lock and clears `scratch`."""
    writer = LakeWriter(
        disk,
        window_length_ns=settings.window_length_ns,
        default_window_ns=DEFAULT_WINDOW_NS,
        owner=owner,
        created_by=created_by,
    )
    sources = open_sources(names, writer.known_inputs(), settings.format, scratch, stdin)
    spilled = False
    counters = Counters()
    commit = None
    if sources.fresh:
        run = _Import(disk, writer, settings, progress)
        try:
            counters, spilled = run.run(sources.fresh, scratch)
        except FlowdiffError:
            writer.abandon()
            raise
        commit = writer.commit(
            tuple(run.tally.input_file(source) for source in sources.fresh),
            counters,
            {**settings.model_dump(mode="json", include={"format", "params_share", "decode", "stitch"})},
        ).record
    files = commit.publish if commit is not None else ()
    return ImportSummary(
        commit=None if commit is None else commit.seq,
        files_imported=tuple(source.name for source in sources.fresh),
        files_known=tuple(source.name for source in sources.known),
        windows=len({item.window for item in files if item.window is not None}),
        bytes_written=sum(item.size for item in files),
        spilled=spilled,
        counters=counters,
    )


@dataclass(slots=True)
class _Outcome:
    """What became of one group."""

    totals: Counter[str] = field(default_factory=Counter)
    quality: Counter[str] = field(default_factory=Counter)
    rejects: list[Reject] = field(default_factory=list)

    def count(self, made: Stitched, n_events: int) -> None:
        """Book `n_events` events that the kernel made flows of."""
        duplicate, rejected = made.counts["duplicates"], made.counts["rejected"]
        self.totals["flows"] += made.flows.num_rows
        self.totals["events_duplicate"] += duplicate
        self.totals["events_rejected"] += rejected
        self.totals["events_published"] += n_events - duplicate - rejected
        self.rejects += made.rejects
        quality = made.flows["quality"].to_numpy()
        for flag in Quality:
            if count := int(np.count_nonzero(quality & flag)):
                self.quality[flag.name or str(flag.value)] += count


class _Import:
    """One run of the driver: its parts share the writer and the ledger."""

    def __init__(self, disk: Disk, writer: LakeWriter, settings: ImportSettings, progress: Progress) -> None:
        self._writer = writer
        self._settings = settings
        self._progress = progress
        self._ledger = _Ledger()
        self.tally = Tally(settings.format)
        self._memo = StructureMemo(settings.memory_bytes // (MEMO_SHARE * MEMO_BYTES_PER_STRUCTURE))
        self._known = KnownRequests(disk, open_manifest(disk).files("flows"))
        self._dead_letters: list[pa.Table] = []
        self._dead_letter_parts = 0

    def run(self, sources: Sequence[Source], scratch: Path) -> tuple[Counters, bool]:
        """Everything up to the commit. Returns the ledger and whether events went to disk.

        Raises as `Tally.require_events`, LakeError and InputError.
        """
        limit_bytes = self._settings.memory_bytes // BUDGET_PER_PAYLOAD_BYTE
        spill = EventSpill(scratch, limit_bytes)
        self._progress.begin(sum(source.size for source in sources))
        self._decode(sources, spill)
        self.tally.require_events(sources)
        with ThreadPoolExecutor(WORKERS, thread_name_prefix="stitch") as pool:
            running: deque[Future[_Outcome]] = deque()
            for part, load in enumerate(spill.groups()):
                if len(running) == WORKERS:
                    self._finish(running.popleft().result())
                running.append(pool.submit(self._work, load, part))
            while running:
                self._finish(running.popleft().result())
        self._flush_dead_letters()
        return self._ledger.counters(), spill.spilled

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
                self.tally.add(source, decoded)
                self._ledger.totals["events_read"] += n_events
                self._ledger.oddities.update(decoded.oddities)
                self._ledger.rejects.update(decoded.refused)
                self._keep_dead_letters(_renamed(decoded.rejects, source))
                if n_events:
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

    def _work(self, load: Load, part: int) -> _Outcome:
        """Flows of one group onto the stage. Runs in a worker; nothing shared is changed but the stage."""
        events = load()
        outcome = _Outcome()
        if self._known:
            known = self._known.among(pc.unique(whole(events["request_id"])))
            if len(known):
                self._overlap(rows_of(events, known, keep=True), part, outcome)
                events = rows_of(events, known, keep=False)
        n_events = events.num_rows
        made = stitch(events, self._settings.stitch, memo=self._memo)
        del events  # the largest thing there is, and writing takes a while
        outcome.count(made, n_events)
        params = self._shared(made.params)
        for window in cut(made.flows, made.structures, params, self._writer.window_length_ns):
            self._writer.stage_window("flows", window.window, part, window.flows)
            self._writer.stage_window("structures", window.window, part, window.structures)
            self._writer.stage_window("params", window.window, part, window.params)
        return outcome

    def _overlap(self, events: pa.Table, part: int, outcome: _Outcome) -> None:
        """Events of requests that the lake has: the same flow again is a duplicate, any other is late."""
        made = stitch(events, self._settings.stitch, memo=self._memo)
        same = self._known.unchanged(made.flows)
        n_same = int(np.count_nonzero(same))
        changed = made.flows["request_id"].filter(pa.array(~same)).combine_chunks()
        late = rows_of(events, changed, keep=True)
        self._writer.stage_side("late", part, with_text_ids(_by_content(late)))
        outcome.totals["events_duplicate"] += events.num_rows - late.num_rows
        outcome.totals["events_late"] += late.num_rows
        outcome.totals["flows_duplicate"] += n_same
        outcome.totals["flows_late"] += made.flows.num_rows - n_same

    def _finish(self, outcome: _Outcome) -> None:
        """Book what a worker did; in the order of the groups, whoever was first."""
        self._ledger.totals.update(outcome.totals)
        self._ledger.quality.update(outcome.quality)
        self._ledger.rejects.update(Counter(reject.reason.value for reject in outcome.rejects))
        self._keep_dead_letters(rejects_table(outcome.rejects, KERNEL_SOURCE, [0]))
        self._progress.stitched(outcome.totals["flows"])

    def _shared(self, params: pa.Table) -> pa.Table:
        """Parameters of the share of requests that keep theirs."""
        if self._settings.params_share >= 1 or params.num_rows == 0:
            return params
        words = params["request_id"].combine_chunks().dictionary_encode()
        keep = share_of(hash_texts(words.dictionary), self._settings.params_share)
        return params.filter(pa.array(keep[words.indices.to_numpy()]))

    def _keep_dead_letters(self, rejects: pa.Table) -> None:
        if rejects.num_rows:
            self._dead_letters.append(rejects)
            if sum(table.nbytes for table in self._dead_letters) > DEAD_LETTER_FILE_BYTES:
                self._flush_dead_letters()

    def _flush_dead_letters(self) -> None:
        if self._dead_letters:
            table = pa.concat_tables(self._dead_letters)
            order = [(name, "ascending") for name in ("source", "position", "item", "sha256", "detail")]
            self._writer.stage_side("dead_letters", self._dead_letter_parts, table.sort_by(order))
            self._dead_letters = []
            self._dead_letter_parts += 1


def _renamed(rejects: pa.Table, source: Source) -> pa.Table:
    """Dead letters under the name the user gave, not that of a spool file."""
    names = pa.array([source.name], pa.string()).take(pa.array(np.zeros(rejects.num_rows, dtype=np.int32)))
    return rejects.set_column(0, "source", names)


def _by_content(events: pa.Table) -> pa.Table:
    """Rows in an order that does not depend on how they came."""
    return events.take(pa.array(np.argsort(hash_rows(events), kind="stable")))
