"""Gather what the tasks of an import say of their parts: counts, dead letters, what each file brought."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from ingest.decoding import DecodedBatch
from schemas.arrays import I8
from schemas.commits import Counters, InputFile
from schemas.rejects import rejects_table
from stitch.drivers.import_settings import ImportSettings
from stitch.drivers.inputs import Source, Tally
from stitch.drivers.refusals import KERNEL_SOURCE, DaysSeen, DeadLetters
from stitch.drivers.sharded.stitching import GroupOutcome, refuse_too_many_windows
from stitch.lake.staging import Staging


@dataclass(slots=True)
class FileCounts:
    """Counts of what was read of some files, beside their events and dead letters."""

    tally: Tally
    days: DaysSeen = field(default_factory=DaysSeen)
    oddities: Counter[str] = field(default_factory=Counter)

    def count(self, source: Source, decoded: DecodedBatch) -> None:
        """Count a batch of a file."""
        self.tally.add(source, decoded)
        self.oddities.update(decoded.oddities)
        if decoded.events.num_rows:
            self.days.add(source.sha256, decoded.events)

    def add(self, other: FileCounts) -> None:
        """Count what was counted of other files."""
        self.tally.join(other.tally)
        self.days.join(other.days)
        self.oddities.update(other.oddities)


class Ledger:
    """Books every event of an import once. Not for several threads.

    Which dead letters are kept, and in which files, follows from the order in which they are booked.
    """

    def __init__(self, staging: Staging, settings: ImportSettings, window_length_ns: int) -> None:
        self._settings = settings
        self._window_length_ns = window_length_ns
        self._files = FileCounts(Tally(settings.format, settings.columns.told))
        self._letters = DeadLetters(staging, settings.max_dead_letters_per_file)
        self._totals: Counter[str] = Counter()
        self._starts_ns: set[int] = set()

    def add_batch(self, source: Source, decoded: DecodedBatch) -> None:
        """Book a batch of a file. Raises OSError."""
        self._files.count(source, decoded)
        self._letters.add(decoded.rejects, source.name, decoded.refused)

    def add_file(
        self, source: Source, counts: FileCounts, letters: Iterable[tuple[pa.Table, Counter[str]]]
    ) -> None:
        """Book a file that somebody else read: its counts, the rejects of its batches. Raises OSError."""
        self._files.add(counts)
        for rejects, refused in letters:
            self._letters.add(rejects, source.name, refused)

    def add_group(self, outcome: GroupOutcome) -> None:
        """Book a group of requests. Raises OSError, LakeError for more windows than an import may have."""
        self._starts_ns |= outcome.starts_ns
        refuse_too_many_windows(self._starts_ns, self._settings.max_windows, self._window_length_ns)
        self._totals.update(outcome.totals)
        self._letters.add(rejects_table(outcome.rejects, KERNEL_SOURCE, [0]), KERNEL_SOURCE, outcome.refused)

    def require_events(self, sources: Sequence[Source]) -> None:
        """See `Tally.require_events`."""
        self._files.tally.require_events(sources)

    def absurd_days(self) -> I8:
        """Find the days whose events are quarantined, once all files are booked (`DaysSeen`)."""
        days = self._files.days.absurd()
        return days[:0] if self._settings.any_time else days

    def close(self) -> Counters:
        """Write the dead letters that are left, and sum up. Raises OSError."""
        self._letters.flush()
        return Counters.model_validate(
            {
                "events_read": self._files.tally.n_events,
                **self._totals,
                "rejects": dict(sorted(self._letters.counts.items())),
                "rejects_not_kept": self._letters.not_kept,
                "oddities": dict(sorted(self._files.oddities.items())),
            }
        )

    def input_file(self, source: Source) -> InputFile:
        """Return what the commit says of a file."""
        quarantined = self._files.days.count(source.sha256, self.absurd_days())
        return self._files.tally.input_file(source, quarantined)
