"""End a command: its exit code, and one line on standard error where something failed.

0: done. 1: what a command found (a change, errors in a lake), never anything else. 2: an error, a wrong
option, or a bug; only a bug has a traceback. 3: a comparison that cannot tell, or found a change without a
cause. 4: live ingestion halted, and waits for a person. 130: interrupted.
"""

from __future__ import annotations

import errno
import sys
import traceback
from collections.abc import Callable
from typing import Final

import typer

from flowdiff.cli.streams import discard_output, is_about_output, reader_left, say, why
from schemas.errors import FlowdiffError, InputError

FAILED: Final = 2
INTERRUPTED: Final = 130
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
    """What is wrong with the options, in one line."""
    told = " ".join(error.format_message().replace("Value error, ", "").split())
    context: typer.Context | None = getattr(error, "ctx", None)
    path = "flowdiff" if context is None else context.command_path
    return f"{told}{'' if told.endswith(('.', '?')) else '.'} See: {path} --help [usage]"


def _is_foreign_name(error: UnicodeEncodeError) -> bool:
    """Whether it is about a byte that Python could not read as UTF-8 and spells as a lone surrogate."""
    return 0xDC80 <= ord(error.object[error.start]) <= 0xDCFF


def _system_failed(error: OSError) -> int:
    """The system refused something: not permitted, no space, no such file."""
    if reader_left(error):
        discard_output()
        return 0
    if error.filename is not None:
        told = f"'{_text(error.filename)}': {why(error)}."
    elif is_about_output(error):
        told = f"Standard output cannot be written: {why(error)}."
    elif error.errno in _WRITING:
        told = f"Standard output, or a file, cannot be written: {why(error)}."
    else:
        told = f"The system refused: {why(error)}."
    discard_output()
    say(str(InputError(told)))
    return FAILED


def _text(name: object) -> str:
    return name.decode(errors="surrogateescape") if isinstance(name, bytes) else str(name)
