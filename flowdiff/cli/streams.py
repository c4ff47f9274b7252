"""Mind standard input, output and error: closed, full, or read by somebody who leaves.

A reader that leaves (`| head`) is no error. Output that cannot be written otherwise (a full disk, a closed
descriptor) is one. Python would find both out at its very end, where it has an exit code of its own for
them, so output is flushed here.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from schemas.visible import visible


def open_closed_streams() -> None:
    """Give the process the standard streams that whoever started it has closed.

    Reading standard input then fails, and so does writing to standard output. To be called before anything is
    opened: the next file would otherwise become a standard stream.
    """
    if sys.stdin is None:
        # For writing: what is not there is an error and not an empty file.
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_WRONLY), "r", encoding="utf-8")
    if sys.stdout is None:
        # For reading: a write is an error and not lost in silence.
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")


def tolerate_any_text() -> None:
    """Print `?` for what the encoding of standard output cannot show (µ, arrows), rather than fail."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def say(text: str) -> None:
    """One line on standard error; what names in it would do to a terminal is shown and not done."""
    try:
        print(visible(f"flowdiff: {text}"), file=sys.stderr, flush=True)
    except OSError:
        return  # Standard error is where this would be told.


def reader_left(error: BaseException) -> bool:
    """Whether `error` says that the reader of standard output has left; rich exits with 1 then."""
    return isinstance(error, BrokenPipeError) or (
        isinstance(error, SystemExit) and isinstance(error.__context__, BrokenPipeError)
    )


def discard_output() -> None:
    """From here on, and for what is still buffered: standard output goes nowhere."""
    try:
        descriptor = sys.stdout.fileno()
    except io.UnsupportedOperation:
        return  # A test's buffer, which takes everything.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


@contextmanager
def told_afterwards(done: str) -> Iterator[None]:
    """Around printing about what is done already: where that fails, the work and its exit code stand.

    `done` is the beginning of the line that tells of it on standard error: `The import is committed`. A
    reader that left is not told of.
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
