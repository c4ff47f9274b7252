"""The one error root. Expected failures are `FlowdiffError`s: one line, an exit code, no traceback.

A bug keeps its traceback: never wrap an unexpected exception in these.
"""

from __future__ import annotations

import errno
from typing import Final

from schemas.visible import visible

TRY_AGAIN: Final = 75
"""Exit code of what may work in a moment (EX_TEMPFAIL of sysexits.h): a supervisor starts it again."""


class FlowdiffError(Exception):
    """An expected failure, reported in one line: what failed, with which value, what to do.

    `slug` names the failure for scripts and documentation; `remedy` is an imperative sentence.
    """

    slug = "error"
    exit_code = 2

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        tail = f" {self.remedy}" if self.remedy else ""
        # Python prints it at the end of a traceback, and messages repeat what names there are.
        return visible(f"{self.message}{tail} [{self.slug}]")


class UnknownFormatError(FlowdiffError):
    """A file's format was neither given nor recognised."""

    slug = "unknown-format"


class InputError(FlowdiffError):
    """An input file cannot be read at all (missing, not permitted, truncated archive)."""

    slug = "input"


class UnreachableInputError(InputError):
    """An input file lies where nobody answers now: the same call may work in a moment."""

    slug = "unreachable"
    exit_code = TRY_AGAIN


class PeriodError(FlowdiffError):
    """A period or filter expression does not parse, or names no sealed window."""

    slug = "period"


class LakeError(FlowdiffError):
    """The lake is missing, or of another layout version."""

    slug = "lake"


class UnreachableError(LakeError):
    """The lake does not answer, or not now: the same call may work in a moment."""

    slug = "unreachable"
    exit_code = TRY_AGAIN


class BusyLakeError(LakeError):
    """Another process of this machine writes to the lake: when it is done, the same call works."""

    exit_code = TRY_AGAIN


class FailedWorkerError(LakeError):
    """The machine of an import's worker refused something: another one, or a later start, may do it."""

    exit_code = TRY_AGAIN


_PASSING: Final = (
    errno.EAGAIN,
    errno.ECONNREFUSED,
    errno.ECONNRESET,
    errno.EHOSTUNREACH,
    errno.ENETUNREACH,
    errno.ETIMEDOUT,
)


def is_passing(error: OSError) -> bool:
    """Whether what the system or the network refused may work in a moment."""
    return error.errno in _PASSING


def lake_error(message: str, error: OSError, *, remedy: str = "") -> LakeError:
    """Make the error of a lake that the system or the network refused: UnreachableError where that passes."""
    kind = UnreachableError if is_passing(error) else LakeError
    return kind(message, remedy=remedy)


class QueryError(FlowdiffError):
    """A user's SQL failed, or asked for what a read-only lake does not allow."""

    slug = "query"


class NotFoundError(FlowdiffError):
    """A request, category or report that was named does not exist in the lake."""

    slug = "not-found"


class ConfigError(FlowdiffError):
    """An option or configuration value is out of its range."""

    slug = "config"


class HaltedError(FlowdiffError):
    """Live ingestion met what only a person can decide; to start it again changes nothing."""

    slug = "halted"
    exit_code = 4
