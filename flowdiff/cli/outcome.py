"""End a command: its exit code, and one line on standard error where something failed.

0: done. 1: the command found something (a change, errors in a lake), never anything else. 2: an error, a
wrong option, or a bug; only a bug has a traceback. 3: a comparison that cannot tell, or found a change
without a cause. 4: live ingestion halted, and waits for a person. 75: the lake does not answer, or another
writer came first: the same call may succeed in a moment. 130: interrupted.

Standard input, output and error may be closed, full, or lose their reader. A reader that leaves (`| head`) is
no error. Output that cannot be written for another reason (a full disk, a closed descriptor) is one. Python
would detect both only at its very end, with an exit code of its own, so output is flushed here.
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
from schemas.masking import masked_passwords


def open_closed_streams() -> None:
    """Reopen standard streams that the parent process has closed, so that using them fails.

    Must be called before any file is opened, as a file opened earlier would become a standard stream.
    """
    if sys.stdin is None:
        # Opened for writing: reading a closed input is then an error, not an empty file.
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_WRONLY), "r", encoding="utf-8")
    if sys.stdout is None:
        # Opened for reading: writing is then an error, and output is not lost unnoticed.
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")


def tolerate_any_text() -> None:
    """Replace characters that standard output cannot encode (−, →, …) by plain letters, rather than fail."""
    codecs.register_error("flowdiff.plain", _plain)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="flowdiff.plain")


_PLAIN: Final = {
    **{"−": "-", "–": "-", "—": "-", "→": "->", "↳": ">", "×": "x", "µ": "u", "±": "+/-", "²": "2"},
    **{"…": "...", "│": "|", "─": "-", "≤": "<=", "≥": ">=", "\u202f": " ", "\u00a0": " "},
}
"""Character -> replacement, for terminals that cannot encode it; all other such characters become `?`."""


def _plain(error: UnicodeError) -> tuple[str, int]:
    """Codec error handler: return (replacement of the characters that cannot be encoded, position after
    them).
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    shown = "".join(_PLAIN.get(letter, "?") for letter in error.object[error.start : error.end])
    return shown, error.end


def say(text: str) -> None:
    """Print one line on standard error, with control characters made visible; a failure to print is
    ignored."""
    try:
        echo(f"flowdiff: {text}", err=True)
    except OSError:
        return  # There is no other place to report this.


def reader_left(error: BaseException) -> bool:
    """True if `error` means that the reader of standard output has closed it (rich raises SystemExit
    then)."""
    return isinstance(error, BrokenPipeError) or (
        isinstance(error, SystemExit) and isinstance(error.__context__, BrokenPipeError)
    )


def discard_output() -> None:
    """Redirect standard output to /dev/null, and drop buffered output."""
    try:
        descriptor = sys.stdout.fileno()
    except io.UnsupportedOperation:
        return  # A buffer of a test, which accepts everything.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


@contextmanager
def reported_afterwards(done: str) -> Iterator[None]:
    """Context for printing about completed work: a failure to print changes neither the work nor the exit
    code.

    done: beginning of the message about the failure on standard error: `The import is committed`. A reader
    that left is not reported.
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
    """Message of the system in an OSError, with a small first letter, for use within a sentence."""
    text = getattr(error, "strerror", None) or str(error)
    return text[:1].lower() + text[1:]


def is_about_output(error: OSError) -> bool:
    """True if `error` is a failure to write standard output: flushing the rest then fails with the same
    error.
    """
    try:
        sys.stdout.flush()
    except OSError as again:
        return again.errno == error.errno
    return False


FAILED: Final = 2
INTERRUPTED: Final = 130


class Leaving:
    """Ends the process after all exit handlers, without unloading libraries while their threads run.

    Must be created before a command's libraries are loaded, so that it is the last exit handler to run.
    Arrow's threads return buffers to Python after a read is over; Python ends a thread that requests the
    interpreter lock during finalization, and if a C++ destructor is ended that way the process dies with
    SIGABRT, whatever its exit code. Thread pools, temporary folders and other processes are ended before, as
    usual.
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
    """Run a command, flush its output, and return its exit code."""
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
        # Arrow's errors about damaged files have no errno: readers add the name of the file.
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
    """Message about wrong command-line options, on one line."""
    message = masked_passwords(" ".join(error.format_message().replace("Value error, ", "").split()))
    context: typer.Context | None = getattr(error, "ctx", None)
    path = "flowdiff" if context is None else context.command_path
    return f"{message}{'' if message.endswith(('.', '?')) else '.'} See: {path} --help [usage]"


def _is_foreign_name(error: UnicodeEncodeError) -> bool:
    """True if a character that cannot be encoded is a lone surrogate: a byte of a name that is not UTF-8."""
    return 0xDC80 <= ord(error.object[error.start]) <= 0xDCFF


def _system_failed(error: OSError) -> int:
    """Report a system error in one line (not permitted, no space, no such file); return the exit code."""
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
