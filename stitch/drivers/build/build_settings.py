"""Set when windows are built from a log, and how much memory that takes."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from schemas.config import Config, Expert
from schemas.windows import NS_PER_MINUTE, NS_PER_SECOND

LEAST_MEMORY_BYTES: Final = 64 * 2**20
_ROW_SHARE: Final = 4_096
"""Bytes of the memory budget per event that is stitched: the kernel's peak takes a third of it."""
_PLAN_SHARE: Final = 768
"""Bytes of the memory budget per request that is planned in memory, of 48 bytes: a sixteenth of it."""
_LEAST_AT_ONCE: Final = 16_384
_MOST_AT_ONCE: Final = 250_000
_MEMO_SHARE: Final = 32_768
"""Bytes of the memory budget per cached structure of some 4 KB: an eighth of it."""
_MOST_REMEMBERED: Final = 16_384


class BuildSettings(Config):
    """Settings of building windows from a log."""

    memory_bytes: int = Field(default=2**30, ge=LEAST_MEMORY_BYTES)
    """Memory budget beside the idle process and the keys of the log's requests (12 bytes each that is
    kept).
    """
    linger_ns: int = Field(default=NS_PER_SECOND, ge=0)
    """A complete request is over when the watermark is this far past its last event."""
    patience_ns: int = Field(default=15 * NS_PER_SECOND, ge=0)
    """A window is built when the watermark is this far past its end, whatever still runs."""
    rebuild_ns: int = Field(default=10 * NS_PER_MINUTE, ge=0)
    """A window that late events belong to is built again when the watermark moved so far since it was
    built
    """
    rebuild_share: float = Field(default=0.01, ge=0)
    """or earlier, if its events grew by more than this share."""
    windows_per_commit: int = Field(default=16, ge=1)
    """Windows built before they are committed: what an interruption loses."""
    max_dead_letters_per_commit: Expert[int] = Field(default=1_000, ge=0, le=10_000)
    """Dead letters kept of one commit; more are counted only."""

    @property
    def rows_at_once(self) -> int:
        """Maximum events stitched at a time; a window with more is partitioned into groups on disk."""
        return min(_MOST_AT_ONCE, max(_LEAST_AT_ONCE, self.memory_bytes // _ROW_SHARE))

    @property
    def rows_looked_at(self) -> int:
        """Maximum events at a time of which only what tells complete requests is read: an eighth of an
        event.
        """
        return 4 * self.rows_at_once

    @property
    def planned_in_memory(self) -> int:
        """Requests of which all that is planned stays in memory; of others, in windows that changed before,
        the key.
        """
        return self.memory_bytes // _PLAN_SHARE

    @property
    def remembered(self) -> int:
        """Capacity of the structure cache."""
        return min(_MOST_REMEMBERED, self.memory_bytes // _MEMO_SHARE)
