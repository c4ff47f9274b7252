"""Errors of flowdiff, with one base class for expected failures: one line, an exit code, no traceback.

A bug keeps its traceback: never wrap an unexpected exception in these.
"""

from __future__ import annotations

import errno
from typing import Final

from schemas.masking import masked_passwords
from schemas.visible import visible

TRY_AGAIN: Final = 75
"""Exit code of temporary failures (EX_TEMPFAIL of sysexits.h): a supervisor restarts the process."""


class FlowdiffError(Exception):
    """An expected failure, reported in one line: what failed, with which value, what to do.

    `slug` names the failure for scripts and documentation; `remedy` is an imperative sentence. Passwords of
    URLs are masked in both sentences.
    """

    slug = "error"
    exit_code = 2

    def __init__(self, message: str, *, remedy: str = "") -> None:
        self.message = masked_passwords(message)
        super().__init__(self.message)
        self.remedy = masked_passwords(remedy)

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
    """The source of an input file does not answer: repeating the call may succeed."""

    slug = "unreachable"
    exit_code = TRY_AGAIN


class PeriodError(FlowdiffError):
    """A period or filter expression does not parse, or a period overlaps no sealed window."""

    slug = "period"


class LakeError(FlowdiffError):
    """The lake is missing, cannot be read or written, or has another layout version."""

    slug = "lake"


class UnreachableError(LakeError):
    """The lake does not answer: repeating the call may succeed."""

    slug = "unreachable"
    exit_code = TRY_AGAIN


class BusyLakeError(LakeError):
    """Another process of this machine writes to the lake: the call succeeds once it is done."""

    exit_code = TRY_AGAIN


class FailedWorkerError(LakeError):
    """The machine of an import's worker failed: another worker, or a later start, may succeed."""

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
    """True if repeating a failed call of the system or the network may succeed."""
    return error.errno in _PASSING


def lake_error(message: str, error: OSError, *, remedy: str = "") -> LakeError:
    """Error for a failed access to a lake: UnreachableError if temporary, else LakeError."""
    kind = UnreachableError if is_passing(error) else LakeError
    return kind(message, remedy=remedy)


class QueryError(FlowdiffError):
    """A user's SQL failed, or needs more than a read-only lake allows."""

    slug = "query"


class NotFoundError(FlowdiffError):
    """A named request, category or report does not exist in the lake."""

    slug = "not-found"


class ConfigError(FlowdiffError):
    """An option or configuration value is out of its range."""

    slug = "config"


class HaltedError(FlowdiffError):
    """Live ingestion needs a person's decision; a restart changes nothing."""

    slug = "halted"
    exit_code = 4
