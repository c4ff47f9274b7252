"""Tasks of an import, which any engine can run: partition a file, stitch a group, write windows.

Each task is a module-level function whose arguments can be pickled; it may run in any process of any machine,
more than once. Tasks pass files to each other through the job's exchange. An attempt at a task writes to a
separate stage folder and makes its files durable before it reports them, so a lost attempt leaves only files
that the owner of the stage sweeps. The process that started the tasks collects their results (`ledger`) and
commits once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
import pyarrow as pa

from schemas.commits import Publish
from schemas.rejects import REJECT_SCHEMA
from stitch.drivers.file_counts import FileCounts
from stitch.drivers.import_settings import STITCHED_AT_ONCE, ImportSettings
from stitch.drivers.inputs import Source
from stitch.drivers.sharded.exchange import Exchange, HandedFile
from stitch.drivers.sharded.left_parts import WindowParts, leave_parts
from stitch.drivers.sharded.stitching import GroupOutcome, Stitcher, write_windows
from stitch.drivers.spill import Dealt, EventSpill, Group, new_stream, read_stream
from stitch.lake.manifest import open_manifest
from stitch.lake.place import LakePlace, open_place
from stitch.lake.staging import Staging


@dataclass(frozen=True, slots=True)
class Job:
    """Data that all tasks of one import need. Jobs are equal if their `stage` is equal."""

    lake: str
    lane: int
    seq: int
    stage: str
    """Prefix of the names of the stage folders for attempts at tasks; unique to the import."""
    exchange: Exchange = field(compare=False)
    settings: ImportSettings = field(compare=False)
    absurd_days: tuple[int, ...] = field(default=(), compare=False)

    def with_absurd_days(self, days: tuple[int, ...]) -> Job:
        """Copy of the job with the days (since 1970-01-01 UTC) whose events are refused; made once all files
        are read."""
        return replace(self, absurd_days=days)


@dataclass(frozen=True, slots=True)
class FileDealt:
    """Result of partitioning the events of one input file."""

    counts: FileCounts
    events: Dealt
    letters_file: HandedFile
    refused: list[Counter[str]]
    """[batches with dead letters] reason -> number of refused items."""

    def letters(self) -> Iterator[tuple[pa.Table, Counter[str]]]:
        """Yield (dead letters, reason -> number of refused items) of each batch that has some."""
        return zip(read_stream(self.letters_file), self.refused, strict=True)


def deal_file(job: Job, source: Source, decoders: int) -> FileDealt:
    """Decode a file in `decoders` threads, and write its events to files, partitioned by request.

    Raises InputError, OSError.
    """
    settings = job.settings
    counts, refused = FileCounts(), []
    with job.exchange.folder() as folder:
        spill = EventSpill(folder, settings.payload_bytes // STITCHED_AT_ONCE)
        letters = folder / "letters.arrows"
        with (
            new_stream(letters, REJECT_SCHEMA) as stream,
            ThreadPoolExecutor(decoders, thread_name_prefix="decode") as pool,
        ):
            for decoded in source.decoded(settings, pool, decoders):
                counts.add(decoded)
                if decoded.refused:
                    stream.write_batch(_one_batch(decoded.rejects))
                    refused.append(decoded.refused)
                if decoded.events.num_rows:
                    spill.add(decoded.events)
        (letters_file,) = job.exchange.hand_on([letters])
        return FileDealt(counts, spill.dealt().handed_on(job.exchange), letters_file, refused)


def _one_batch(rejects: pa.Table) -> pa.RecordBatch:
    batches = rejects.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=REJECT_SCHEMA)


def stitch_group(job: Job, group: Group, part: int) -> tuple[GroupOutcome, tuple[Publish, ...]]:
    """Stitch a group (`Stitcher.stitch_group`): (outcome, files written to the stage folder)."""
    staging, stitcher = _at_work(job)
    outcome = stitcher.stitch_group(staging, group, part)
    outcome.left, outcome.waiting = leave_parts(outcome.waiting, job.exchange), []
    return outcome, staging.persisted()


def write_window_files(job: Job, windows: Sequence[WindowParts]) -> tuple[Publish, ...]:
    """Merge the parts of each window, and write the windows; return the files written to the stage folder."""
    staging, _ = _at_work(job)
    write_windows(staging, windows)
    return staging.persisted()


def _at_work(job: Job) -> tuple[Staging, Stitcher]:
    """Stage folder and stitcher for tasks of a job: (folder for one attempt, stitcher that all the job's
    tasks in this process share)."""
    place, stitcher = _opened(job)
    return Staging.attempt(place.store, job.lane, job.seq, job.stage), stitcher


@lru_cache(maxsize=1)
def _opened(job: Job) -> tuple[LakePlace, Stitcher]:
    place = open_place(job.lake)
    manifest = open_manifest(place.store, job.lake, place.copies)
    return place, Stitcher(manifest, job.settings, np.array(job.absurd_days, dtype=np.int64))
