"""Response times by window and root: rows of the view `responses`, kept in memory.

Each window is read once, by a query in a process of its own, the latest first; pages show what is there. A
window that a repair changed is read again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flowdiff.serve.lake_state import Known
from flowdiff.serve.queries import Queries
from flowdiff.serve.settings import ServeSettings
from flowdiff.serve.statements import statement
from schemas.errors import FlowdiffError
from schemas.periods import format_instant
from stitch.lake.manifest import WindowEntry

SCHEMA: Final = pa.schema(
    [
        ("start_ns", pa.int64()),
        ("root", pa.string()),
        ("requests", pa.int64()),
        *((name, pa.float64()) for name in ("weighted", "mean_us", "p50_us", "p95_us", "p99_us", "failing")),
    ]
)
_LOG: Final = logging.getLogger("flowdiff.serve")
_Content = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Summed:
    """Rows of a stretch of time."""

    rows: pa.Table
    """SCHEMA, in order of time."""
    missing: int
    """Windows of the stretch that are not read yet."""


class ResponseRows:
    """Rows of the latest windows of a lake, for many threads. To be closed."""

    def __init__(self, known: Callable[[], Known], queries: Queries, settings: ServeSettings) -> None:
        self._known = known
        self._queries = queries
        self._settings = settings
        self._lock = threading.Lock()
        self._rows = SCHEMA.empty_table()
        self._content: dict[int, _Content] = {}
        """Content of each window that is read, by its start."""
        self._reading: threading.Thread | None = None
        self._closed = False

    def between(self, start_ns: int, end_ns: int) -> Summed:
        """Rows of the windows that begin in [start, end); those not read yet are read in the background."""
        known = self._known()
        self._begin(known)
        with self._lock:
            rows, content = self._rows, dict(self._content)
        here = [entry for entry in known.windows if start_ns <= entry.window.start_ns < end_ns]
        missing = sum(content.get(entry.window.start_ns) != _content(entry) for entry in here)
        start = pc.field("start_ns")
        return Summed(rows.filter((start >= start_ns) & (start < end_ns)).sort_by("start_ns"), missing)

    def wait(self) -> None:
        """Wait until every window is read."""
        while True:
            self._begin(self._known())
            with self._lock:
                reading = self._reading
            if reading is None:
                return
            reading.join()

    def close(self) -> None:
        """Stop after the current query."""
        with self._lock:
            self._closed, reading = True, self._reading
        if reading is not None:
            reading.join()

    def _begin(self, known: Known) -> None:
        with self._lock:
            if self._closed or self._reading is not None or not self._missing(known):
                return
            self._reading = threading.Thread(target=self._read_all, daemon=True)
            self._reading.start()

    def _missing(self, known: Known) -> Sequence[WindowEntry]:
        latest = known.windows[-self._settings.most_windows :]
        return [entry for entry in latest if self._content.get(entry.window.start_ns) != _content(entry)]

    def _read_all(self) -> None:
        try:
            while not self._closed:
                known = self._known()
                with self._lock:
                    missing = self._missing(known)
                if not missing:
                    break
                self._read(known, self._next(missing))
        except (FlowdiffError, OSError) as error:
            _LOG.warning("Response times cannot be read: %s", error)
        finally:
            with self._lock:
                self._reading = None

    def _next(self, missing: Sequence[WindowEntry]) -> Sequence[WindowEntry]:
        """Latest windows that one query reads."""
        first, requests = len(missing), 0
        while first > max(len(missing) - self._settings.summed_windows, 0):
            requests += missing[first - 1].flows
            if first < len(missing) and requests > self._settings.summed_requests:
                break
            first -= 1
        return missing[first:]

    def _read(self, known: Known, windows: Sequence[WindowEntry]) -> None:
        start_ns, end_ns = windows[0].window.start_ns, windows[-1].window.end_ns
        period = f"{format_instant(start_ns)}/{format_instant(end_ns)}"
        with self._queries.borrowed(known.token, period, self._settings.job_seconds) as session:
            found = session.query(statement("response_rows")).cast(SCHEMA)
        read = {
            entry.window.start_ns: _content(entry)
            for entry in known.windows
            if start_ns <= entry.window.start_ns < end_ns
        }
        latest = {entry.window.start_ns for entry in known.windows[-self._settings.most_windows :]}
        with self._lock:
            self._content = {at: one for at, one in {**self._content, **read}.items() if at in latest}
            before = self._rows["start_ns"].to_numpy()
            kept = np.isin(before, [*latest]) & ~np.isin(before, [*read])
            self._rows = pa.concat_tables([self._rows.filter(pa.array(kept)), found]).combine_chunks()


def _content(entry: WindowEntry) -> _Content:
    return entry.flows, entry.files, entry.size, entry.commits
