"""End a command: its exit code, and one line on standard error where something failed.

0: done. 1: what a command found (a change, errors in a lake), never anything else. 2: an error, a wrong
option, or a bug; only a bug has a traceback. 3: a comparison that cannot tell, or found a change without a
cause. 4: live ingestion halted, and waits for a person. 75: the lake does not answer, or another writer came
first: the same call may work in a moment. 130: interrupted.

Standard input, output and error may be closed, full, or read by somebody who leaves. A reader that leaves (`|
head`) is no error. Output that cannot be written otherwise (a full disk, a closed descriptor) is one. Python
would find both out at its very end, where it has an exit code of its own for them, so output is flushed here.
"""

from __future__ import annotations

import atexit
import codecs
import errno
import io
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import typer

from flowdiff.cli.terminal import echo
from flowdiff.extras import missing_extra
from schemas.errors import TRY_AGAIN, FlowdiffError, InputError, is_passing


def open_closed_streams() -> None:
    """Give the process the standard streams that whoever started it has closed.

    Reading standard input then fails, and so does writing to standard output. To be called before anything is
    opened: the next file would otherwise become a standard stream.
    """
    if sys.stdin is None:
        # For writing: what is not there is an error and not an empty file.
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_WRONLY), "r", encoding="utf-8")
    if sys.stdout is None:
        # For reading: so a write is an error and not lost unnoticed.
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")


def tolerate_any_text() -> None:
    """Print what the encoding of standard output cannot show (−, →, …) in plain letters, rather than fail."""
    codecs.register_error("flowdiff.plain", _plain)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="flowdiff.plain")


_PLAIN: Final = {
    **{"−": "-", "–": "-", "—": "-", "→": "->", "↳": ">", "×": "x", "µ": "u", "±": "+/-", "²": "2"},
    **{"…": "...", "│": "|", "─": "-", "≤": "<=", "≥": ">=", "\u202f": " ", "\u00a0": " "},
}
"""What a terminal without it shows instead; anything else is `?`."""


def _plain(error: UnicodeError) -> tuple[str, int]:
    """Replace what cannot be encoded."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    shown = "".join(_PLAIN.get(letter, "?") for letter in error.object[error.start : error.end])
    return shown, error.end


def say(text: str) -> None:
    """Print one line on standard error; what names in it would do to a terminal is shown and not done."""
    try:
        echo(f"flowdiff: {text}", err=True)
    except OSError:
        return  # Standard error is where this would be reported.


def reader_left(error: BaseException) -> bool:
    """Whether `error` says that the reader of standard output has left; rich exits with 1 then."""
    return isinstance(error, BrokenPipeError) or (
        isinstance(error, SystemExit) and isinstance(error.__context__, BrokenPipeError)
    )


def discard_output() -> None:
    """Send standard output nowhere from here on, and what is still buffered."""
    try:
        descriptor = sys.stdout.fileno()
    except io.UnsupportedOperation:
        return  # A test's buffer, which takes everything.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


@contextmanager
def reported_afterwards(done: str) -> Iterator[None]:
    """Guard printing about what is done already: where that fails, the work and its exit code stand.

    `done` is the beginning of the line that reports it on standard error: `The import is committed`. A
    reader that left is not reported.
    """
    try:
        yield
        sys.stdout.flush()
    except (OSError, SystemExit) as error:
        if not isinstance(error, OSError) and not reader_left(error):
            raise
        discard_output()
        if not reader_left(error):
            say(f"{done}; that could not be printed: {why(error)}.")


def why(error: BaseException) -> str:
    """The system's words for an OSError, as part of a sentence."""
    text = getattr(error, "strerror", None) or str(error)
    return text[:1].lower() + text[1:]


def is_about_output(error: OSError) -> bool:
    """Whether standard output is what could not be written: it keeps what is left, so it fails again."""
    try:
        sys.stdout.flush()
    except OSError as again:
        return again.errno == error.errno
    return False


FAILED: Final = 2
INTERRUPTED: Final = 130


class Leaving:
    """Leave the process once all handlers of its end have run, and take no library apart around its threads.

    To be made before the libraries of a command are loaded, so that it is called last. Threads of Arrow give
    buffers back to Python after a read is over; Python ends a thread that asks for its lock while it takes
    itself apart, and a destructor in C++ that is ended so ends the process by SIGABRT, whatever its exit code
    was to be. Pools of threads, temporary folders and other processes are ended before, as always.
    """

    def __init__(self) -> None:
        self.code = FAILED
        atexit.register(self._leave)

    def _leave(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(self.code)


_WRITING: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


def exit_code(run: Callable[[], int | None]) -> int:
    """Run a command to its exit code, and see to it that what it printed is out."""
    try:
        code = _code(run)
        sys.stdout.flush()
    except OSError as error:
        code = _system_failed(error)
    if code == INTERRUPTED:
        say("interrupted.")
    return code


def _code(run: Callable[[], int | None]) -> int:
    try:
        return run() or 0
    except FlowdiffError as error:
        say(str(error))
        return error.exit_code
    except ModuleNotFoundError as error:
        if (missing := missing_extra(error)) is None:
            return _bug()
        say(str(missing))
        return FAILED
    except typer.TyperException as error:
        say(_usage(error))
        return FAILED
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except SystemExit as ended:
        if reader_left(ended):
            discard_output()
            return 0
        return ended.code if isinstance(ended.code, int) else FAILED if ended.code else 0
    except UnicodeEncodeError as error:
        if not _is_foreign_name(error):
            return _bug()
        say(str(InputError(f"The name '{error.object}' is not UTF-8.", remedy="Rename the file.")))
        return FAILED
    except OSError as error:
        # Arrow's have no number where a file is damaged: who reads one says which.
        return _bug() if error.errno is None else _system_failed(error)
    except MemoryError:
        say(str(FlowdiffError("There is not enough memory.", remedy="Take a shorter period, or a filter.")))
        return FAILED
    except Exception:  # noqa: BLE001 - nothing is hidden; Python's own exit code means "changed"
        return _bug()


def _bug() -> int:
    traceback.print_exc()
    return FAILED


def _usage(error: typer.TyperException) -> str:
    """Say what is wrong with the options, in one line."""
    message = " ".join(error.format_message().replace("Value error, ", "").split())
    context: typer.Context | None = getattr(error, "ctx", None)
    path = "flowdiff" if context is None else context.command_path
    return f"{message}{'' if message.endswith(('.', '?')) else '.'} See: {path} --help [usage]"


def _is_foreign_name(error: UnicodeEncodeError) -> bool:
    """Whether it is about a byte that Python could not read as UTF-8 and spells as a lone surrogate."""
    return 0xDC80 <= ord(error.object[error.start]) <= 0xDCFF


def _system_failed(error: OSError) -> int:
    """The system refused something: not permitted, no space, no such file."""
    if reader_left(error):
        discard_output()
        return 0
    if error.filename is not None:
        message = f"'{_text(error.filename)}': {why(error)}."
    elif is_about_output(error):
        message = f"Standard output cannot be written: {why(error)}."
    elif error.errno in _WRITING:
        message = f"Standard output, or a file, cannot be written: {why(error)}."
    else:
        message = f"The system refused: {why(error)}."
    discard_output()
    say(str(InputError(message)))
    return TRY_AGAIN if error.filename is not None and is_passing(error) else FAILED


def _text(name: object) -> str:
    return name.decode(errors="surrogateescape") if isinstance(name, bytes) else str(name)
