"""A session in a child process, for untrusted statements: the process is killed when it exceeds its time or
memory limit.

DuckDB checks time and memory between blocks of rows. One call of a function may compute for minutes and fill
the machine before the next check (`repeat`, `levenshtein`, `list_reduce`), so only a process can be stopped
reliably: the parent kills it when the time is over, and the system refuses more memory.

This module has both ends. The parent sends requests; the child answers with the schema, batches and None,
with the texts of the first rows, or with an error instead of any of these. A slow reader blocks the child, as
a pipe is bounded. Texts are made by the child, so that a parent that prints a few rows need not import Arrow,
which would take longer than the query.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from queue import SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from analyze.sql.asked_comparison import AskedComparison, Comparing
from schemas.errors import ConfigError, FlowdiffError, QueryError
from schemas.sizes import parse_size

if TYPE_CHECKING:
    import pyarrow as pa

    from analyze.sql.session import Session, Values
    from analyze.sql.values import ValueKind

DEFAULT_SECONDS: Final = 300.0
"""Default limit of a query's computing time, s. A join without its condition would run for days."""
BESIDE: Final = 256 * 1024**2
"""Memory, bytes, that the process may take in addition to DuckDB's own limit: texts made by functions,
batches of the answer, thread stacks.
"""
_LONGEST_WAIT_S: Final = 20 * 86_400.0
"""Maximum time-out for `poll`, s, as its milliseconds have 31 bits; a longer time limit counts as none."""
_OUT_OF_MEMORY: Final = "Out of Memory Error"
"""Text by which DuckDB's error for lack of memory is recognized.

Memory taken until then stays with the process.
"""


@dataclass(frozen=True, slots=True)
class Asked:
    """Message to the child process that asks for a session on a period of a lake."""

    lake: str
    period: str
    now_ns: int
    """Time to which relative words of a period (`yesterday`) refer, ns since the epoch."""
    memory_bytes: int
    provisional: Path | None
    """Folder for files made of windows that are not sealed yet; None: such windows are refused."""
    attached: Mapping[str, Path | pa.Table]
    """SQL name -> the user's own file or table."""


@dataclass(frozen=True, slots=True)
class Statement:
    """Message to the child process that asks it to run one statement."""

    text: str
    values: Values
    shown: int | None
    """Maximum number of rows to return as texts; None: return all rows, as batches."""


@dataclass(frozen=True, slots=True)
class ShownRows:
    """First rows of a result as texts, with the number of all rows."""

    names: Sequence[str]
    kinds: Sequence[ValueKind]
    """[columns] ValueKind of each column."""
    rows: Sequence[Sequence[str]]
    total: int
    """Number of rows in the whole result."""


class SessionProcess:
    """Queries on a period of a lake in a child process, with the interface of `Session`. Must be closed."""

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
        may_fork: bool = False,
        comparing: Comparing | None = None,
    ) -> None:
        """Start the process. memory bounds DuckDB, and with `BESIDE` the whole process once it is ready;
        seconds bounds the computing time of each query. provisional: folder for files of windows not sealed
        yet, refused without it. attached: name -> the user's own file or table. may_fork: the caller's
        process is ours and has nothing open that a child must not inherit; while it has a single thread, a
        fork saves starting Python. comparing: makes, in the caller's process, the comparisons that a query
        requests; their time does not count for the query.

        Raises ConfigError if `memory` is not a size or too small, PeriodError, LakeError, InputError.
        """
        memory_bytes = parse_size(memory)
        if memory_bytes is None:
            raise ConfigError(f"'{memory}' is not a memory limit.", remedy="Write 512MB, 2GB or the like.")
        self._asked = Asked(lake, period, now_ns, memory_bytes, provisional, attached or {})
        self._seconds = seconds
        self._may_fork = may_fork
        self._comparing = comparing
        self._process: subprocess.Popen[bytes] | _Fork | None = None
        self._pipe: Connection
        self._left = float("inf")
        self.notes: Sequence[str] = self._started()
        """Sentences on parts of the lake that are not visible, for example of an interrupted import."""

    def query(self, text: str, values: Values = ()) -> pa.Table:
        """Run one statement, with `?` or `:name` bound to `values`; returns a table. Raises as `stream`."""
        return self.stream(text, values).read_all()

    def stream(self, text: str, values: Values = ()) -> pa.RecordBatchReader:
        """Like `query`, but batch by batch, so that memory stays bounded for large results.

        Raises QueryError for a statement that is wrong, writes, or exceeds its time or memory; LakeError if a
        file of the lake cannot be read. Errors during execution are raised by the reader.
        """
        self._ask(Statement(text, values, None))
        import pyarrow as pa  # while the child computes

        return pa.RecordBatchReader.from_batches(self._answer(), self._batches())

    def first_rows(self, text: str, values: Values, at_most: int) -> ShownRows:
        """First rows of the result as texts, with the total number of rows. Raises as `stream`."""
        self._ask(Statement(text, values, at_most))
        shown: ShownRows = self._answer()
        return shown

    def _ask(self, statement: Statement) -> None:
        try:
            statement.text.encode()
        except UnicodeEncodeError as error:  # bytes of a command line that are none
            raise QueryError("The query is not UTF-8.", remedy="Convert it.") from error
        if self._process is None:
            self._started()
        self._left = self._seconds
        self._pipe.send(statement)

    def close(self) -> None:
        """Kill the process; the next query starts a new one."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
            self._pipe.close()

    def _started(self) -> Sequence[str]:
        """Start a process and open its session; return the session's notes (see `notes`).

        Raises what opening a session raises.
        """
        self._pipe, theirs = Pipe()
        with theirs:
            if self._may_fork and _is_alone():
                self._process = _Fork(theirs, self._pipe)
            else:
                arguments = f"{sys.path!r}; from {__name__} import serve; serve({theirs.fileno()})"
                # In a session of its own, Ctrl-C does not reach it: that is the parent's to decide.
                self._process = subprocess.Popen(
                    [sys.executable, "-c", f"import sys; sys.path = {arguments}"],
                    stdin=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
        self._left = float("inf")
        self._pipe.send(self._asked)
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
        """Receive the child's next answer. The wait counts for the query's time limit; time between calls
        does not.
        """
        started = monotonic()
        try:
            while isinstance(answer := self._received(started), AskedComparison):
                self._left -= monotonic() - started
                self._pipe.send(self._compared(answer))
                started = monotonic()
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

    def _received(self, since: float) -> Any:
        """Receive the child's next message.

        since: monotonic clock, s, from which computing time counts. Raises QueryError if the child has
        exceeded its time limit.
        """
        left = self._left - (monotonic() - since)
        if not self._pipe.poll(max(left, 0) if left < _LONGEST_WAIT_S else None):
            raise QueryError(
                f"The query computed for more than {self._seconds:g} s.",
                remedy="Look whether a join lacks its condition, or raise --timeout.",
            )
        return self._pipe.recv()

    def _is_running(self) -> bool:
        """True unless the child process has ended; an ended child is not reaped."""
        process = self._process
        if process is None:
            return False
        try:
            return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        except ChildProcessError:
            return False

    def _compared(self, asked: AskedComparison) -> Mapping[str, pa.Table] | FlowdiffError:
        """Make a comparison that the child requests; return its tables, or the error."""
        if self._comparing is None:
            return QueryError("Nothing is compared in this session.")
        try:
            return self._comparing(replace(asked, is_wanted=self._is_running))
        except FlowdiffError as error:
            return error


class _Fork:
    """Child process that is a fork of this process, with the interface of `subprocess.Popen`."""

    def __init__(self, theirs: Connection, ours: Connection) -> None:
        self.pid = os.fork()
        if not self.pid:
            # The parent's handlers and what it has not printed yet are the parent's.
            try:
                os.setsid()
                ours.close()
                with open(os.devnull) as nothing:  # noqa: PTH123 - Path takes longer
                    os.dup2(nothing.fileno(), 0)
                serve(theirs.fileno())
            except BaseException:  # noqa: BLE001 - a bug, and nobody above to print it
                traceback.print_exc()
            finally:
                os._exit(1)

    def kill(self) -> None:
        """Kill the child."""
        os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> None:
        """Wait for the child to exit."""
        os.waitpid(self.pid, 0)


def _is_alone() -> bool:
    """True if this process has a single thread, so that it can safely fork."""
    try:
        return len(os.listdir("/proc/self/task")) == 1  # noqa: PTH208 - Path takes longer
    except OSError:
        return False


def serve(descriptor: int) -> None:
    """Main function of the child: open the requested session, then answer statements until the parent is
    gone."""
    # To look for plugins in all that is installed takes longer than to open the lake.
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"
    from analyze.scope import Lakes, notes
    from analyze.sql.session import attached_tables, open_session
    from schemas.periods import parse_period

    parent = _Parent(Connection(descriptor))
    asked: Asked = parent.pipe.recv()
    try:
        lakes = Lakes(asked.lake, provisional=asked.provisional)
        period = parse_period(lakes.dated(asked.period), now_ns=asked.now_ns)
        unlisted = lakes.unlisted(period, may_be_empty=True)
        with open_session(
            unlisted,
            memory=f"{asked.memory_bytes}B",
            attached=attached_tables(asked.attached),
            comparing=parent.compared,
        ) as session:
            _take_no_more_than(asked.memory_bytes + BESIDE)
            threading.Thread(target=parent.listen, daemon=True).start()
            parent.send(notes([unlisted.found]))
            while True:
                _run(session, parent, parent.statements.get())
    except (FlowdiffError, OSError) as error:
        parent.send(error)


def _take_no_more_than(n_bytes: int) -> None:
    """Limit the memory of this process to `n_bytes` more than it uses now (RLIMIT_DATA).

    Without /proc/self/status no limit is set, and only DuckDB's own limit holds.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        return
    taken = next(line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmData:"))
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = int(taken) * 1024 + n_bytes
    resource.setrlimit(
        resource.RLIMIT_DATA, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard)
    )


class _Parent:
    """The child's connection to the parent process; DuckDB's threads request comparisons over it while
    answers are sent."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe = pipe
        self.statements: SimpleQueue[Statement] = SimpleQueue()
        self._comparisons: SimpleQueue[Mapping[str, pa.Table] | FlowdiffError] = SimpleQueue()
        self._sending = threading.Lock()

    def listen(self) -> None:
        """Dispatch messages from the parent; exit at once when the parent is gone."""
        try:
            while True:
                come = self.pipe.recv()
                if isinstance(come, Statement):
                    self.statements.put(come)
                else:
                    self._comparisons.put(come)
        except (EOFError, ConnectionError):
            os._exit(0)

    def send(self, answer: object) -> None:
        """Send an answer, or one part of an answer, to the parent."""
        with self._sending:
            self.pipe.send(answer)

    def compared(self, asked: AskedComparison) -> Mapping[str, pa.Table]:
        """Ask the parent for a comparison, and return its tables; calls wait for each other.

        Raises FlowdiffError.
        """
        self.send(asked)
        made = self._comparisons.get()
        if isinstance(made, FlowdiffError):
            raise made
        return made


def _run(session: Session, parent: _Parent, statement: Statement) -> None:
    try:
        reader = session.stream(statement.text, statement.values)
        if statement.shown is not None:
            parent.send(_first_rows(reader, statement.shown))
            return
        parent.send(reader.schema)
        for batch in reader:
            parent.send(batch)
        parent.send(None)
    except (FlowdiffError, OSError) as error:
        parent.send(error)
    except MemoryError:
        parent.send(QueryError(f"The query failed: {_OUT_OF_MEMORY}."))


def _first_rows(reader: pa.RecordBatchReader, at_most: int) -> ShownRows:
    from analyze.sql.values import python_values, value_kind

    rows: list[list[str]] = []
    total = 0
    for batch in reader:
        total += batch.num_rows
        shown = [python_values(column) for column in batch.slice(0, at_most - len(rows)).columns]
        rows += [["" if value is None else str(value) for value in row] for row in zip(*shown, strict=True)]
    return ShownRows(reader.schema.names, [value_kind(field.type) for field in reader.schema], rows, total)
