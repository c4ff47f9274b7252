"""Write a result to a file, atomically, or to standard output."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from schemas.errors import InputError

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


STDOUT: Final = "-"
"""Name of a file that stands for standard output."""


_DESCRIPTOR: Final = re.compile(r"/(?:dev|proc/self)/fd/(\d+)")


_STREAMS: Final = {"/dev/stdout": 1, "/dev/stderr": 2}


def is_stdout(output: Path | None) -> bool:
    """True if a result goes to standard output: None, or the name `-`."""
    return output is None or str(output) == STDOUT


@contextmanager
def open_output(output: Path | None) -> Iterator[BinaryIO]:
    """Open a file to write a result; None and `-` are standard output.

    A temporary file beside the target is renamed at the end, so that a failure leaves the old file. A pipe, a
    device or a descriptor of this process (`/dev/stdout`, bash's `>(…)`) is written to directly. Raises
    InputError if it cannot be written.
    """
    if output is None or is_stdout(output):
        yield sys.stdout.buffer
        return
    try:
        written, target = _places(output)
        out = os.fdopen(os.dup(written), "wb") if isinstance(written, int) else written.open("wb")
    except OSError as error:
        raise _cannot_write(output, error) from error
    try:
        with out:
            yield out
        if target is not None and isinstance(written, Path):
            _take_place(written, target, output)
    except OSError as error:
        if error.errno not in _NO_SPACE:
            raise
        raise _cannot_write(output, error) from error
    finally:
        if target is not None and isinstance(written, Path):
            written.unlink(missing_ok=True)


def refuse_unwritable(output: Path) -> None:
    """Raise InputError, before hours of work, if the folder of a file shows that it cannot be written."""
    folder = output.parent
    if is_stdout(output) or (output.exists() and not output.is_file() and not output.is_dir()):
        return
    if output.is_dir():
        raise _cannot_write(output, IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR)))
    if not os.access(folder, os.W_OK | os.X_OK):
        reason = errno.EACCES if folder.is_dir() else errno.ENOTDIR if folder.exists() else errno.ENOENT
        raise _cannot_write(output, OSError(reason, os.strerror(reason)))


def _places(output: Path) -> tuple[Path | int, Path | None]:
    """Return the place to write to: (path or descriptor; path to which to rename the file at the end, None if
    it is written in place)."""
    own = _DESCRIPTOR.fullmatch(str(output))
    if own is not None or str(output) in _STREAMS:
        return (_STREAMS[str(output)] if own is None else int(own[1])), None
    if output.exists() and not output.is_file():
        return output, None
    target = output.resolve()
    return target.with_name(f".{target.name}.{os.getpid()}.part"), target


def _take_place(written: Path, target: Path, output: Path) -> None:
    try:
        if target.exists():
            written.chmod(target.stat().st_mode)
        written.replace(target)
    except OSError as error:
        raise _cannot_write(output, error) from error


def _cannot_write(output: Path, error: OSError) -> InputError:
    return InputError(f"'{output}' cannot be written: {error.strerror}.", remedy="Check the path.")
