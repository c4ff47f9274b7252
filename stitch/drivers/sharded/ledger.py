"""Collect the results of an import's tasks: counts, dead letters, and entries of the input files."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

import pyarrow as pa

from ingest.decoding import DecodedBatch
from schemas.arrays import I8
from schemas.commits import Counters, InputFile
from schemas.rejects import rejects_table
from stitch.drivers.file_counts import FileCounts, require_events
from stitch.drivers.import_settings import ImportSettings
from stitch.drivers.inputs import Source
from stitch.drivers.refusals import KERNEL_SOURCE, DeadLetters, absurd_days
from stitch.drivers.sharded.stitching import GroupOutcome, refuse_too_many_windows
from stitch.lake.staging import Staging


class Ledger:
    """Accounts of an import, in which every event is counted exactly once. Not thread-safe.

    The order of calls determines which dead letters are stored, and in which files.
    """

    def __init__(self, staging: Staging, settings: ImportSettings, window_length_ns: int) -> None:
        self._settings = settings
        self._window_length_ns = window_length_ns
        self._files: defaultdict[Source, FileCounts] = defaultdict(FileCounts)
        self._letters = DeadLetters(staging, settings.max_dead_letters_per_file)
        self._totals: Counter[str] = Counter()
        self._starts_ns: set[int] = set()

    def add_batch(self, source: Source, decoded: DecodedBatch) -> None:
        """Record a decoded batch of a file: its counts and rejects. Raises OSError."""
        self._files[source].add(decoded)
        self._letters.add(decoded.rejects, source.name, decoded.refused)

    def add_file(
        self, source: Source, counts: FileCounts, letters: Iterable[tuple[pa.Table, Counter[str]]]
    ) -> None:
        """Record the counts and dead letters of a file that another task read.

        letters: (dead letters, reason -> number of refused items) of each batch. Raises OSError.
        """
        self._files[source] = counts
        for rejects, refused in letters:
            self._letters.add(rejects, source.name, refused)

    def add_group(self, outcome: GroupOutcome) -> None:
        """Record the outcome of a group of requests. Raises OSError; LakeError if the import has more windows
        than allowed."""
        self._starts_ns |= outcome.starts_ns
        refuse_too_many_windows(self._starts_ns, self._settings.max_windows, self._window_length_ns)
        self._totals.update(outcome.totals)
        self._letters.add(rejects_table(outcome.rejects, KERNEL_SOURCE, [0]), KERNEL_SOURCE, outcome.refused)

    def require_events(self) -> None:
        """Raise an error if the import read no event; see `file_counts.require_events`."""
        require_events(self._files, self._settings.format)

    def absurd_days(self) -> I8:
        """Days since the epoch whose events are refused as absurd; valid once all files are recorded."""
        days = absurd_days(counts.days for counts in self._files.values())
        return days[:0] if self._settings.any_time else days

    def close(self) -> Counters:
        """Write the remaining dead letters, and return the totals. Raises OSError."""
        self._letters.flush()
        oddities = sum((counts.oddities for counts in self._files.values()), Counter[str]())
        return Counters.model_validate(
            {
                "events_read": sum(counts.events for counts in self._files.values()),
                **self._totals,
                "rejects": dict(sorted(self._letters.counts.items())),
                "rejects_not_kept": self._letters.not_kept,
                "oddities": dict(sorted(oddities.items())),
            }
        )

    def input_files(self) -> tuple[InputFile, ...]:
        """Entries of the input files for the commit record."""
        days = self.absurd_days()
        return tuple(
            counts.input_file(source, self._settings, days) for source, counts in self._files.items()
        )
