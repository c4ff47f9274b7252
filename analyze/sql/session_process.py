"""A session in a process of its own, for statements that others write: it is ended at its time and memory.

DuckDB looks at its clock and at its memory between blocks of rows. One call of a function may compute for
minutes and fill the machine before it looks again (`repeat`, `levenshtein`, `list_reduce`), so only a process
can be stopped for sure: its parent kills it when the time is over, and the system gives it no more memory.

Both ends are here. The parent sends `(text, values)`; the child answers with the schema, batches and None, or
with an error instead of any of these. What is not read holds the child back, for a pipe is bounded.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from queue import SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from schemas.errors import ConfigError, FlowdiffError, QueryError
from schemas.sizes import parse_size

if TYPE_CHECKING:
    import pyarrow as pa

    from analyze.sql.session import Session, Values

DEFAULT_SECONDS: Final = 300.0
"""How long a query may compute. A join that forgot its condition runs for days and takes a core."""
BESIDE: Final = 256 * 1024**2
"""Bytes that the process may take beside DuckDB's own account: texts that functions make, batches of the
answer, stacks of threads."""
_LONGEST_WAIT_S: Final = 20 * 86_400.0
"""A wait is in milliseconds of 31 bits; longer ones have no end."""
_OUT_OF_MEMORY: Final = "Out of Memory Error"
"""DuckDB's words. What was taken until then stays with the process."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a session is opened on."""

    lake: str
    period: str
    now_ns: int
    """What a period is relative to."""
    memory_bytes: int
    provisional: Path | None
    """A folder for what is read of windows that are not sealed; None: those are refused."""
    attached: Mapping[str, Path | pa.Table]
    """Files and tables of somebody's own, by name."""


class SessionProcess:
    """Queries on a period of a lake, like those of `Session`. To be closed."""

    def __init__(
        self,
        lake: str,
        period: str = "all",
        *,
        now_ns: int,
        memory: str = "2GB",
        seconds: float = DEFAULT_SECONDS,
        provisional: Path | None = None,
        attached: Mapping[str, Path | pa.Table] | None = None,
    ) -> None:
        """Start it. `memory` bounds DuckDB, and with `BESIDE` all that its process takes once it is ready;
        `seconds` the computing of each query. `provisional`: a folder for what is read of windows that are
        not sealed, which are refused without. `attached`: files and tables to be asked, too, by name.

        Raises ConfigError where `memory` is no size or too small, PeriodError, LakeError, InputError.
        """
        memory_bytes = parse_size(memory)
        if memory_bytes is None:
            raise ConfigError(f"'{memory}' is not a memory limit.", remedy="Write 512MB, 2GB or the like.")
        self._asked = Asked(lake, period, now_ns, memory_bytes, provisional, attached or {})
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection
        self._left = float("inf")
        self.notes: Sequence[str] = self._started()
        """What keeps something of the lake from its readers."""

    def query(self, text: str, values: Values = ()) -> pa.Table:
        """The result of one statement, with `?` or `:name` bound to `values`. Raises what `stream` raises."""
        return self.stream(text, values).read_all()

    def stream(self, text: str, values: Values = ()) -> pa.RecordBatchReader:
        """Like `query`, but batch by batch: memory stays bounded for large results.

        Raises QueryError for a statement that is wrong, writes, or needs more time or memory than there is;
        LakeError where a file of the lake cannot be read. What goes wrong late is raised by the reader.
        """
        import pyarrow as pa

        try:
            text.encode()
        except UnicodeEncodeError as error:  # bytes of a command line that are none
            raise QueryError("The query is not UTF-8.", remedy="Convert it.") from error
        if self._process is None:
            self._started()
        self._left = self._seconds
        self._pipe.send((text, values))
        return pa.RecordBatchReader.from_batches(self._answer(), self._batches())

    def close(self) -> None:
        """End the process, whatever it does; the next query starts another."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
            self._pipe.close()

    def _started(self) -> Sequence[str]:
        """A new process, ready for queries. Raises what opening a session raises."""
        self._pipe, theirs = Pipe()
        arguments = f"{sys.path!r}; from {__name__} import serve; serve({theirs.fileno()})"
        with theirs:
            # In a session of its own, Ctrl-C does not reach it: that is the parent's to decide.
            self._process = subprocess.Popen(
                [sys.executable, "-c", f"import sys; sys.path = {arguments}"],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._left = float("inf")
        self._pipe.send(self._asked)
        import pyarrow as pa  # noqa: F401 - while the child does the same

        try:
            notes: Sequence[str] = self._answer()
        except BaseException:
            self.close()
            raise
        return notes

    def _batches(self) -> Iterator[pa.RecordBatch]:
        is_whole = False
        try:
            while (batch := self._answer()) is not None:
                yield batch
            is_whole = True
        finally:
            if not is_whole:  # nobody reads the rest
                self.close()

    def _answer(self) -> Any:
        """What the child says next. The time until then is computing; that in which nobody asks is not."""
        started = monotonic()
        try:
            if not self._pipe.poll(self._left if self._left < _LONGEST_WAIT_S else None):
                raise QueryError(
                    f"The query computed for more than {self._seconds:g} s.",
                    remedy="Look whether a join lacks its condition, or raise --timeout.",
                )
            answer = self._pipe.recv()
        except (EOFError, ConnectionError) as error:
            self.close()
            raise QueryError("The process of the query died.", remedy="Try more --memory.") from error
        except BaseException:
            self.close()
            raise
        self._left -= monotonic() - started
        if isinstance(answer, Exception):
            if _OUT_OF_MEMORY in str(answer):
                self.close()
            raise answer
        return answer


def serve(descriptor: int) -> None:
    """The child: open the session that is asked for, then answer statements until the parent is gone."""
    from analyze.scope import Lakes, notes
    from analyze.sql.session import attached_tables, open_session
    from schemas.periods import parse_period

    pipe = Connection(descriptor)
    asked: Asked = pipe.recv()
    try:
        lakes = Lakes(asked.lake, provisional=asked.provisional)
        period = parse_period(asked.period, now_ns=asked.now_ns)
        bounds = lakes.bounds(period, may_be_empty=True)
        with open_session(
            bounds,
            listed=lambda: lakes.find(period, may_be_empty=True),
            memory=f"{asked.memory_bytes}B",
            attached=attached_tables(asked.attached),
        ) as session:
            _take_no_more_than(asked.memory_bytes + BESIDE)
            statements: SimpleQueue[tuple[str, Values]] = SimpleQueue()
            threading.Thread(target=_listen, args=[pipe, statements], daemon=True).start()
            pipe.send(notes([bounds]))
            while True:
                _run(session, pipe, *statements.get())
    except (FlowdiffError, OSError) as error:
        pipe.send(error)


def _take_no_more_than(n_bytes: int) -> None:
    """Let the system refuse this process more memory. Where it does not count, DuckDB's limit is all."""
    status = Path("/proc/self/status")
    if not status.exists():
        return
    taken = next(line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmData:"))
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = int(taken) * 1024 + n_bytes
    resource.setrlimit(
        resource.RLIMIT_DATA, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard)
    )


def _listen(pipe: Connection, statements: SimpleQueue[tuple[str, Values]]) -> None:
    """Pass statements on; without a parent nobody needs the answer that is being computed."""
    try:
        while True:
            statements.put(pipe.recv())
    except (EOFError, ConnectionError):
        os._exit(0)


def _run(session: Session, pipe: Connection, text: str, values: Values) -> None:
    try:
        reader = session.stream(text, values)
        pipe.send(reader.schema)
        for batch in reader:
            pipe.send(batch)
        pipe.send(None)
    except (FlowdiffError, OSError) as error:
        pipe.send(error)
    except MemoryError:
        pipe.send(QueryError(f"The query failed: {_OUT_OF_MEMORY}."))
