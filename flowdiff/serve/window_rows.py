"""Rows of views by window, cached in memory: response times by root, and call sites.

Each window is read once, by a query in a child process, the latest window first; pages show the rows read so
far. A window changed by a repair is read again.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
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

RESPONSES: Final = pa.schema(
    [
        ("start_ns", pa.int64()),
        ("root", pa.string()),
        ("requests", pa.int64()),
        *((name, pa.float64()) for name in ("weighted", "mean_us", "p50_us", "p95_us", "p99_us", "failing")),
    ]
)
SITES: Final = pa.schema(
    [
        ("start_ns", pa.int64()),
        ("site", pa.int64()),
        ("requests", pa.int64()),
        *((name, pa.float64()) for name in ("calls", "mean_us", "p50_us", "p95_us", "failing")),
        *((name, pa.float64()) for name in ("critical_us", "share")),
    ]
)
_LOG: Final = logging.getLogger("flowdiff.serve")
_Content = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Summed:
    """Cached rows of the windows in a range of time."""

    rows: pa.Table
    """Rows in the schema of the cache, by start of the window."""
    missing: int
    """Number of windows in the range of time that are not read yet."""


class WindowRows(ABC):
    """Cache of rows of a lake's latest windows; thread-safe. Must be closed."""

    def __init__(
        self,
        known: Callable[[], Known],
        queries: Queries,
        settings: ServeSettings,
        schema: pa.Schema,
        then: Callable[[], None] = lambda: None,
    ) -> None:
        """then: function called in the reading thread whenever all windows have been read."""
        self._known = known
        self._queries = queries
        self._settings = settings
        self._then = then
        self._lock = threading.Lock()
        self._rows = schema.empty_table()
        self._content: dict[int, _Content] = {}
        """Start of a window, ns -> state of the window's content when its rows were read."""
        self._n_rows: dict[int, int] = {}
        """Start of a window, ns -> number of rows of the window, cached or not."""
        self._reading: threading.Thread | None = None
        self._closed = False

    @abstractmethod
    def _statement(self) -> str:
        """Name of the SQL statement that reads the rows of a period."""

    @abstractmethod
    def _kept(self, found: pa.Table) -> pa.Table:
        """Convert rows of a query to the schema of the cache; called under the lock."""

    def _most_rows(self) -> int | None:
        """Maximum number of rows in the cache; None: no limit."""
        return None

    def _latest(self, known: Known) -> Sequence[WindowEntry]:
        """Latest windows whose rows fit into the cache, limited by number of windows and of rows; at least
        one."""
        latest, most = known.windows[-self._settings.most_windows :], self._most_rows()
        if most is None:
            return latest
        n_rows = 0
        for at in range(len(latest) - 1, -1, -1):
            n_rows += self._n_rows.get(latest[at].window.start_ns, 0)
            if n_rows >= most:
                return latest[min(at + (n_rows > most), len(latest) - 1) :]
        return latest

    def between(self, start_ns: int, end_ns: int, only: pc.Expression | None = None) -> Summed:
        """Rows of the windows that begin in [start, end), filtered by `only`.

        Windows that are not cached are read in the background.
        """
        known = self._known()
        self.begin(known)
        with self._lock:
            rows, content, latest = self._rows, dict(self._content), self._latest(known)
        here = [entry for entry in latest if start_ns <= entry.window.start_ns < end_ns]
        missing = sum(content.get(entry.window.start_ns) != _content(entry) for entry in here)
        start = pc.field("start_ns")
        wanted = (start >= start_ns) & (start < end_ns)
        rows = rows.filter(wanted if only is None else wanted & only)
        return Summed(rows.sort_by("start_ns"), missing)

    def wait(self) -> None:
        """Wait until all windows are read, or the cache is closed."""
        while True:
            self.begin(self._known())
            with self._lock:
                reading = self._reading
            if reading is None:
                return
            reading.join()

    def close(self) -> None:
        """Stop reading; a query that is running is finished first."""
        with self._lock:
            self._closed, reading = True, self._reading
        if reading is not None:
            reading.join()

    def begin(self, known: Known) -> None:
        """Read the windows that are not cached, in the background."""
        with self._lock:
            if self._closed or self._reading is not None or not self._missing(known):
                return
            self._reading = threading.Thread(target=self._read_all, daemon=True)
            self._reading.start()

    def _missing(self, known: Known) -> Sequence[WindowEntry]:
        latest = self._latest(known)
        return [entry for entry in latest if self._content.get(entry.window.start_ns) != _content(entry)]

    def _read_all(self) -> None:
        try:
            while not self._closed:
                known = self._known()
                with self._lock:
                    missing = self._missing(known)
                if not missing:
                    self._then()
                    break
                self._read(known, self._next(missing))
        except (FlowdiffError, OSError) as error:
            _LOG.warning("%s cannot be read: %s", self._statement(), error)
        finally:
            with self._lock:
                self._reading = None

    def _next(self, missing: Sequence[WindowEntry]) -> Sequence[WindowEntry]:
        """Windows in `missing` that the next query should read: the latest ones."""
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
            found = session.query(statement(self._statement()))
        read = {
            entry.window.start_ns: _content(entry)
            for entry in known.windows
            if start_ns <= entry.window.start_ns < end_ns
        }
        with self._lock:
            found = self._kept(found)
            before = self._rows["start_ns"].to_numpy()
            rows = self._rows.filter(pa.array(~np.isin(before, [*read])))
            self._rows = pa.concat_tables([rows, found]).combine_chunks()
            self._content |= read
            starts, counts = np.unique(found["start_ns"].to_numpy(), return_counts=True)
            self._n_rows |= dict.fromkeys(read, 0) | dict(zip(starts.tolist(), counts.tolist(), strict=True))
            there = {entry.window.start_ns for entry in known.windows[-self._settings.most_windows :]}
            self._n_rows = {at: one for at, one in self._n_rows.items() if at in there}
            latest = {entry.window.start_ns for entry in self._latest(known)}
            if len(self._content.keys() - latest):
                self._content = {at: one for at, one in self._content.items() if at in latest}
                keep = np.isin(self._rows["start_ns"].to_numpy(), [*latest])
                self._rows = self._rows.filter(pa.array(keep)).combine_chunks()
                self._trimmed()

    @abstractmethod
    def _trimmed(self) -> None:
        """Discard data of evicted rows beside the cached table; called under the lock."""


class ResponseRows(WindowRows):
    """Cached rows of the view `responses`, schema RESPONSES."""

    def __init__(
        self,
        known: Callable[[], Known],
        queries: Queries,
        settings: ServeSettings,
        then: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(known, queries, settings, RESPONSES, then)

    def _statement(self) -> str:
        return "response_rows"

    def _kept(self, found: pa.Table) -> pa.Table:
        return found.cast(RESPONSES)

    def _trimmed(self) -> None:
        """Do nothing, as there is no data beside the cached table."""


@dataclass(frozen=True, slots=True)
class SiteName:
    """Component, operation and caller of a call site."""

    component: str
    operation: str
    caller: str
    """Operation that calls the site; empty if the site has no caller."""


class SiteRows(WindowRows):
    """Cached rows of the view `call_sites`, schema SITES; names are stored once per site."""

    def __init__(self, known: Callable[[], Known], queries: Queries, settings: ServeSettings) -> None:
        super().__init__(known, queries, settings, SITES)
        self._names: dict[int, SiteName] = {}

    @property
    def names(self) -> Mapping[int, SiteName]:
        """Key of a call site -> names of the site, for all sites with cached rows."""
        with self._lock:
            return dict(self._names)

    def _statement(self) -> str:
        return "site_rows"

    def _kept(self, found: pa.Table) -> pa.Table:
        words = found.select(["site", "component", "operation", "caller"])
        for row in words.group_by(words.column_names).aggregate([]).to_pylist():
            self._names[row["site"]] = SiteName(row["component"], row["operation"], row["caller"] or "")
        return found.select(SITES.names).cast(SITES)

    def _most_rows(self) -> int:
        return self._settings.most_site_rows

    def _trimmed(self) -> None:
        there = {*pc.unique(self._rows["site"]).to_pylist()}
        self._names = {site: words for site, words in self._names.items() if site in there}


def _content(entry: WindowEntry) -> _Content:
    return entry.flows, entry.files, entry.size, entry.commits
