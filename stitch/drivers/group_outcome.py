"""What became of one group of an import's events: counts, dead letters, and parts that wait to be written."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from schemas.arrays import B1
from schemas.rejects import Reason, Reject
from stitch.columnar.hashing import hash_rows
from stitch.drivers.flow_counts import count_flags
from stitch.kernel import Stitched, reject_rows
from stitch.lake.windowing import WindowPart


@dataclass(slots=True)
class GroupOutcome:
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
