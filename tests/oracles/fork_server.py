"""Start Python programs as forks of a process that has imported flowdiff: real ones, without the imports.

A command takes half a second to a whole one of CPU before it does anything, nearly all of it imports, and
the suite starts hundreds. `Popen` and `run` are those of `subprocess` for `python -m MODULE`, `python -c
TEXT` and `python FILE`: the process is a child of whoever asks, with arguments, environment, folder, session
and descriptors of its own, and is killed and waited for as any. What Python or its libraries read before the
first line (`PYTHON…`, `LC_…`, `LD_…`) cannot be changed in a fork: where it differs, the fork becomes a new
Python, under the same number. The seed of hashes, too, is that of the server: where what two programs write
is compared, give them a PYTHONHASHSEED each, or compare it with what the test's own process writes. A program
ends after its handlers and frees nothing: a file that it leaves open is not written to its end. Tests of a
start, of its time and of the memory of a process use `subprocess`.

A program that was forked forks its sessions of SQL itself, one that serves also its jobs, and `up` its
parts: as it has threads, a fork that it made of itself before them forks for it. Workers of programs are
started anew; those of a test's process are forked within `forked_workers`.

The workers of xdist are forked within `forked_tests`, from a server that has collected the tests: to import
all takes six seconds. A worker's own server is started anew: to fork one that has tests takes twice as long.

How: the server forks twice, so that the program is an orphan, and whoever asks is for that moment the one
that orphans are given to. Only Linux has that; elsewhere all programs are started anew.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import gc
import io
import multiprocessing.util
import os
import pickle
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType, SimpleNamespace
from typing import Any, Final, NoReturn
from unittest.mock import patch

_READ_AT_START: Final = ("LC_", "LANG", "LD_", "MALLOC_", "OMP_", "OPENBLAS_", "GLIBC_", "ARROW_", "TYPER_")
_OWN: Final = "ARROW_DEFAULT_MEMORY_POOL"
"""Environment variable that `flowdiff` sets at its start; set too late in a fork, which changes only the
speed."""
_ROOMS: Final = ("schemas", "ingest", "stitch", "analyze", "simulator", "flowdiff")
_RARE: Final = ("flowdiff.__main__", "stitch.drivers.spark", "stitch.lake.iceberg")
"""What starts a program, and what few programs need and takes long to import."""
_SERVE: Final = "import sys; base, sys.path = sys.path[1:], {}; from {} import serve; serve({}, base, {})"
_WITH_THREADS: Final = ("polars",)
_COLLECT: Final = ("--collect-only", "-n0", "--dist=no", "--maxfail=0", "-qq", "-p", "no:cacheprovider")
_SERVE_OTHERS: Final = ("serve", "mcp", "up")
"""Commands that start processes beside their threads."""
_PART: Final = "flowdiff.live.part"
"""Module that runs a command behind its first argument."""
_SET_CHILD_SUBREAPER: Final = 36
_LONGEST_NAME: Final = 15
"""Maximum length of a process name, in characters (Linux)."""
_OF_WORKERS: Final = "--multiprocessing-fork"
_MOST_BYTES, _MOST_DESCRIPTORS, _HIGH = 1 << 20, 32, 500


@dataclass(frozen=True)
class Asked:
    """A program to start. The descriptors come with it."""

    words: list[str]
    """Behind the name of Python: -m, -c or a file, and its arguments."""
    folder: str | None
    environ: dict[str, str]
    numbers: list[int]
    """What each descriptor is in the program."""
    in_new_session: bool


class Popen(subprocess.Popen[Any]):
    """See `subprocess.Popen`."""

    def _execute_child(self, args: Any, executable: Any, preexec_fn: Any, *more: Any) -> None:
        """Ask for a fork, where all that is wanted of the process can be had so."""
        (_, pass_fds, cwd, env, *_, shell) = more[:7]
        ends = more[7:13]
        (_, gid, gids, uid, umask, in_new_session, group) = more[13:]
        words = [os.fspath(word) for word in args]
        plain = (preexec_fn, executable, gid, gids, uid) == (None,) * 5 and (umask, group) == (-1, -1)
        is_program = words[0] == sys.executable and (words[1] in ("-m", "-c") or words[1].endswith(".py"))
        if shell or not plain or not is_program:
            raise NotImplementedError("Only programs of Python; use subprocess.")
        if sys.platform != "linux" or (_FORKED and os.getpid() not in _SERVERS and not _may_fork()):
            super()._execute_child(args, executable, preexec_fn, *more)  # type: ignore[misc]
            return
        # Those for input, output and errors: the program's, then ours of a pipe.
        theirs = [end if end != -1 else number for number, end in enumerate((ends[0], ends[3], ends[5]))]
        asked = Asked(
            words[1:],
            None if cwd is None else os.fspath(cwd),
            dict(os.environ if env is None else env),
            [0, 1, 2, *pass_fds],
            in_new_session,
        )
        self.pid = fork(asked, [*theirs, *pass_fds])
        self._child_created = True
        self._close_pipe_fds(*ends)  # type: ignore[attr-defined]


def run(
    words: Sequence[str | os.PathLike[str]],
    *,
    input: str | bytes | None = None,
    capture_output: bool = False,
    check: bool = False,
    timeout: float | None = None,
    **how: Any,
) -> subprocess.CompletedProcess[Any]:
    """See `subprocess.run`."""
    if capture_output:
        how |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if input is not None:
        how["stdin"] = subprocess.PIPE
    with Popen(words, **how) as process:
        try:
            out, err = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(words, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


def fork(asked: Asked, descriptors: list[int]) -> int:
    """Start a program with descriptors of this process: the number of a new child of this process."""
    if asked.folder is None:  # that of whoever asks, now: the server's may be one of a test that is over
        asked = replace(asked, folder=os.getcwd())  # noqa: PTH109 - as `subprocess` has it
    if not _FORKED or os.getpid() in _SERVERS:
        return _server().fork(asked, descriptors)
    number = os.fork()
    if not number:
        _begin(asked, descriptors)
    return number


def _may_fork() -> bool:
    """Whether this process has no other thread."""
    return len([*Path("/proc/self/task").iterdir()]) == 1


def _begin(asked: Asked, descriptors: list[int]) -> NoReturn:
    """Be a program in the middle of the one that it was forked from, to the end."""
    atexit._clear()
    code: object = 1
    try:
        _become(asked, descriptors, _FORKED[0])
        code = 0
    except SystemExit as left:
        code = left.code or 0
    except BaseException:  # noqa: BLE001 - the program's, which ends with it
        sys.excepthook(*sys.exc_info())
    threading._shutdown()  # type: ignore[attr-defined]  # what Python calls at its end
    atexit._run_exitfuncs()
    _leave(code if isinstance(code, int) else 1)
    os._exit(120)  # as Python ends where what was printed cannot be written


@contextmanager
def forked_workers() -> Iterator[None]:
    """Within, processes that `multiprocessing` starts anew are forked."""
    util: Any = multiprocessing.util
    started = util.spawnv_passfds

    def forked(path: str, words: Sequence[str | bytes], passed: Sequence[int]) -> int:
        texts = [os.fsdecode(word) for word in words]
        if texts[1] != "-c" or texts[-1] != _OF_WORKERS:  # the process that tracks what they share
            return int(started(path, words, passed))
        numbers = [0, 1, 2, *passed]
        return fork(Asked(texts[1:], None, dict(os.environ), numbers, False), numbers)

    util.spawnv_passfds = forked
    try:
        yield
    finally:
        util.spawnv_passfds = started


class _Worker(Popen):
    """A Python that runs tests, as xdist starts it."""

    def __init__(self, words: Sequence[str], **how: Any) -> None:
        super().__init__([word for word in words if word != "-u"], **how)  # it writes past `sys.stdout`


@contextmanager
def forked_tests(asked: Sequence[str]) -> Iterator[None]:
    """Within, workers that xdist starts are forked, and have imported what pytest is asked for."""
    _SERVERS[os.getpid()] = _Server(asked)
    with patch.object(subprocess, "Popen", _Worker):
        yield


class _Asking:
    """This end of what a process that forks is asked through."""

    def __init__(self) -> None:
        self._asking = threading.Lock()
        self._socket, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MOST_BYTES)
        self._control = ctypes.CDLL(None, use_errno=True).prctl

    def fork(self, asked: Asked, descriptors: list[int]) -> int:
        """The number of a new process, a child of this one."""
        with self._asking:
            self._adopt(True)
            try:
                socket.send_fds(self._socket, [pickle.dumps(asked)], descriptors)
                number = int(self._socket.recv(64))
                # Its parent is gone.
                assert self._socket.recv(64) == b"forked"
            finally:
                self._adopt(False)
        return number

    def _adopt(self, wanted: bool) -> None:
        if self._control(_SET_CHILD_SUBREAPER, ctypes.c_ulong(wanted), 0, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl")


class _Fork(_Asking):
    """A fork of this program, as it is before it has threads. It ends with this one."""

    def __init__(self) -> None:
        super().__init__()
        if os.fork():
            self._theirs.close()
            return
        ours = self._theirs.fileno()
        for number in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208
            with suppress(OSError):  # that of the listing
                if number != ours:
                    os.close(number)
        _begin(*_awaited(self._theirs))


class _Server(_Asking):
    """The process that forks, which is started."""

    def __init__(self, tests: Sequence[str] | None = None) -> None:
        super().__init__()
        # A thread that holds signals back may be the first to ask; what others start is to hear them.
        held = signal.pthread_sigmask(signal.SIG_SETMASK, ())
        try:
            with self._theirs as theirs:
                self.process = subprocess.Popen(
                    [sys.executable, "-c", _SERVE.format(sys.path, __name__, theirs.fileno(), tests)],
                    stdin=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
        atexit.register(self.end)

    def end(self) -> None:
        """It ends with nobody left to ask."""
        self._socket.close()
        self.process.wait()


_FORKED: Final[list[list[str]]] = []
"""In a program that was forked: where modules are, without PYTHONPATH."""
_SERVERS: Final[dict[int, _Asking]] = {}
"""By process: of those that were forked, only programs that serve have one."""
_STARTING: Final = threading.Lock()


def _server() -> _Asking:
    with _STARTING:
        if os.getpid() not in _SERVERS:
            _SERVERS[os.getpid()] = _Server()
        return _SERVERS[os.getpid()]


def server_of_this() -> tuple[int, ...]:
    """Process of the server that forks for this one, number of the socket to it; () while there is none."""
    server = _SERVERS.get(os.getpid())
    return (server.process.pid, server._socket.fileno()) if isinstance(server, _Server) else ()


def serve(descriptor: int, path: list[str], tests: list[str] | None) -> None:
    """Import all, then fork for everyone who asks, and run the program there. `path` is that of modules.

    With `tests`, the arguments of a pytest, the programs are workers that run them.
    """
    # Extension modules complain at the end of what is not collected. A command asks for its handler to be
    # called after all those of its libraries, which are registered here before.
    last: list[Callable[[], None]] = [gc.unfreeze]
    atexit.register(lambda: [leave() for leave in last])
    _import_all()
    if tests is not None:
        _collect(tests)
    gc.collect()
    gc.freeze()
    ours = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    base = [entry for entry in path if entry not in ours]
    asked, descriptors = _awaited(socket.socket(fileno=descriptor))
    if tests is None:
        _FORKED.append(base)
        forking = SimpleNamespace(**{**vars(subprocess), "Popen": Popen})
        for module in ("analyze.sql.session_process", "flowdiff.serve.jobs.queue", "flowdiff.live.up_run"):
            import_module(module).subprocess = forking  # type: ignore[attr-defined]
        import_module("flowdiff.cli.outcome").atexit = SimpleNamespace(register=last.append)  # type: ignore[attr-defined]
    try:
        _become(asked, descriptors, base)
    except SystemExit as left:
        if left.code is None or isinstance(left.code, int):
            last.append(partial(_leave, left.code or 0))
        raise
    last.append(partial(_leave, 0))


def _awaited(asking: socket.socket) -> tuple[Asked, list[int]]:
    """Fork for everyone who asks: what to be and its descriptors, in each new program. Ends with who asks."""
    while True:
        try:
            text, descriptors, *_ = socket.recv_fds(asking, _MOST_BYTES, _MOST_DESCRIPTORS)
        except KeyboardInterrupt:  # the program is in the group of whoever asks
            continue
        if not text:
            os._exit(0)
        asked: Asked = pickle.loads(text)
        between = os.fork()
        if not between:
            here = os.getpid()
            number = os.fork()
            if not number:
                break
            asking.send(str(number).encode())
            os._exit(0)
        os.waitpid(between, 0)
        asking.send(b"forked")
        for end in descriptors:
            os.close(end)
    while os.getppid() == here:  # as long as it is not that of whoever asks
        time.sleep(0.001)
    asking.detach()
    return asked, descriptors


def _leave(code: int) -> None:
    """End the process after its handlers: to free all that is imported takes half a second of CPU.

    Where what was printed cannot be written, Python goes on and says so.
    """
    with suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code & 0xFF)


def _import_all() -> None:
    for room in _ROOMS:
        for found in walk_packages(import_module(room).__path__, f"{room}.", onerror=lambda _: None):
            if not found.name.startswith(_RARE):
                with suppress(ModuleNotFoundError):  # of an extra that is not installed
                    import_module(found.name)


def _collect(tests: list[str]) -> None:
    """Import tests as pytest does, but for those that need a library with threads: a fork would have none.

    Workers import the rest, and tell what cannot be collected: pytest leaves the half of a module that it
    began, and would take that for the whole.
    """
    pytest = import_module("pytest")
    before = _threads()
    begun: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def reported(collector: Any) -> Generator[None, Any, Any]:
        report = yield
        if not report.passed:
            begun.add(str(collector.path))
        return report

    absent: Any = dict.fromkeys(_WITH_THREADS)
    sys.modules.update(absent)  # as if they were not installed
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):  # noqa: PTH123
        pytest.main([*tests, *_COLLECT], [SimpleNamespace(pytest_make_collect_report=reported)])
    halves = (name for name, module in sys.modules.items() if getattr(module, "__file__", None) in begun)
    for name in [*_WITH_THREADS, *halves]:
        del sys.modules[name]
    if more := _threads() - before:
        sys.exit(
            f"Threads that forks of the tests would not have, {more}: their library is one _WITH_THREADS."
        )


def _threads() -> Counter[str]:
    """Count those that have a name; those of Arrow and BLAS have none, and begin anew in a fork."""
    names = Counter(name.read_text().strip() for name in Path("/proc/self/task").glob("*/comm"))
    del names[Path("/proc/self/comm").read_text().strip()]
    return names


def _become(asked: Asked, descriptors: list[int], base: list[str]) -> None:
    """Be a process that was started so, as far as a program sees."""
    # Out of the way of the numbers that they get.
    moved = [fcntl.fcntl(end, fcntl.F_DUPFD, _HIGH) for end in descriptors]
    os.closerange(0, _HIGH)
    for end, number in zip(moved, asked.numbers, strict=True):
        os.dup2(end, number)
        os.close(end)
    if asked.in_new_session:
        os.setsid()
    if asked.folder is not None:
        os.chdir(asked.folder)
    if _read_at_start(asked.environ) != _read_at_start(os.environ):
        os.execve(sys.executable, [sys.executable, *asked.words], asked.environ)
    os.environ.clear()
    os.environ.update(asked.environ)
    time.tzset()
    how, *words = asked.words
    first = {"-m": str(Path.cwd()), "-c": ""}.get(how, os.path.dirname(os.path.realpath(how)))  # noqa: PTH120
    path = asked.environ.get("PYTHONPATH", "")
    sys.path[:] = [first, *(path.split(os.pathsep) if path else ()), *base]
    sys.argv[:] = [how, *words[how in ("-m", "-c") :]]
    sys.orig_argv[:] = [sys.executable, *asked.words]
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        old = getattr(sys, name)
        raw = io.FileIO(number, "w" if number else "r", closefd=False)
        raw.name = f"<{name}>"
        buffered = (
            io.BufferedReader(raw) if not number else raw if old.write_through else io.BufferedWriter(raw)
        )
        new: Any = io.TextIOWrapper(
            buffered,
            old.encoding,
            old.errors,
            newline="\n" if number else None,
            line_buffering=old.line_buffering if number == 2 else raw.isatty(),
            write_through=old.write_through,
        )
        new.mode = raw.mode[:1]
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)
    if how == "-m":
        Path("/proc/self/comm").write_text(words[0][-_LONGEST_NAME:])
        command = words[2 if words[0] == _PART else 1 :]
        if words[0] in ("flowdiff", _PART) and command and command[0] in _SERVE_OTHERS:
            _SERVERS[os.getpid()] = _Fork()
        runpy._run_module_as_main(words[0])  # type: ignore[attr-defined]
    elif how == "-c":
        main = sys.modules["__main__"] = ModuleType("__main__")
        exec(compile(words[0], "<string>", "exec"), main.__dict__)
    else:
        runpy.run_path(how, run_name="__main__")


def _read_at_start(environ: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environ.items()
        if (name.startswith(_READ_AT_START) and name != _OWN)
        or (name.startswith("PYTHON") and name != "PYTHONPATH")
    }
