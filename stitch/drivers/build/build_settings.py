"""Settings of building windows from a log: when, and with how much memory."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from schemas.config import Config, Expert
from schemas.windows import NS_PER_MINUTE, NS_PER_SECOND

LEAST_MEMORY_BYTES: Final = 64 * 2**20
"""Minimum of `BuildSettings.memory_bytes`."""
_ROW_SHARE: Final = 4_096
"""The memory budget in bytes divided by this is the number of events stitched at a time: the kernel then uses
at most a third of the budget."""
_PLAN_SHARE: Final = 768
"""The memory budget in bytes divided by this is the number of requests planned in memory: at 48 bytes per
request the plan takes a sixteenth of the budget."""
_LEAST_AT_ONCE: Final = 16_384
"""Lower bound of `BuildSettings.rows_at_once`."""
_STRUCTURE_BYTES: Final = 4_096
"""Mean size of a structure in the structure cache."""
_MEMO_SHARE: Final = 8 * _STRUCTURE_BYTES
"""The memory budget in bytes divided by this is the capacity of the structure cache: it takes an eighth of
the budget."""
_MOST_REMEMBERED: Final = 16_384
"""Upper bound of `BuildSettings.remembered`."""


class BuildSettings(Config):
    """Settings of building windows from the log of a lake."""

    memory_bytes: int = Field(default=2**30, ge=LEAST_MEMORY_BYTES)
    """Memory budget of building, in addition to the idle process and the keys of the log's requests (12 bytes
    per request)."""
    linger_ns: int = Field(default=NS_PER_SECOND, ge=0)
    """Time after the last event of a complete request, by the watermark, until the request counts as over."""
    patience_ns: int = Field(default=15 * NS_PER_SECOND, ge=0)
    """Maximum time after the end of a window, by the watermark, until it is built, even if requests still
    run."""
    rebuild_ns: int = Field(default=10 * NS_PER_MINUTE, ge=0)
    """Time since a window was built, by the watermark, after which it is built again if late events belong
    to it."""
    rebuild_share: float = Field(default=0.01, ge=0)
    """Growth of a window's number of events, as a share, above which it is built again before `rebuild_ns` is
    over."""
    lateness_ns: int = Field(default=0, ge=0)
    """Time by which the watermark is behind the latest event: requests that are quiet for `stitch.idle` by
    the latest event are stitched before their window can be built."""
    ahead_waste_share: float = Field(default=0.25, ge=0, le=1)
    """Share of a window's events that were stitched ahead and changed afterwards, above which the next window
    is stitched at its end only."""
    most_at_once: int = Field(default=250_000, ge=1)
    """Maximum number of events stitched at a time, whatever the memory; large requests may exceed it."""
    most_reads: float = Field(default=2, ge=0)
    """Maximum mean number of times that a segment is read for the groups of a window; where more groups have
    events of it, the window is partitioned by groups once, and groups are built ahead several at a time."""
    most_reads_by_workers: Expert[float] = Field(default=4, ge=1)
    """Maximum mean number of processes that read a segment for their groups of a window; where more would,
    one process builds the window. They skip what lies before and after their groups in a segment."""
    windows_per_commit: int = Field(default=16, ge=1)
    """Maximum number of windows built per commit; an interruption loses the uncommitted ones."""
    workers: int = Field(default=1, ge=1)
    """Number of processes that build a backlog, fewer if `memory_bytes` has no room for as many; 1: the
    builder's own."""
    workers_from_rows: Expert[int] = Field(default=1_000_000, ge=0)
    """Minimum number of events to build in one commit for which other processes are started."""
    max_dead_letters_per_commit: Expert[int] = Field(default=1_000, ge=0, le=10_000)
    """Maximum number of dead letters stored per commit; further ones are only counted."""

    @property
    def rows_at_once(self) -> int:
        """Maximum number of events stitched at a time; a larger window is partitioned into groups on disk."""
        return min(self.most_at_once, max(_LEAST_AT_ONCE, self.memory_bytes // _ROW_SHARE))

    @property
    def rows_looked_at(self) -> int:
        """Maximum number of events read at a time when searching for complete requests: only the columns
        needed for this are read, an eighth of an event's size."""
        return 4 * self.rows_at_once

    @property
    def planned_in_memory(self) -> int:
        """Maximum number of requests whose plan stays in memory; for requests of windows that have not
        changed recently only the key stays, and the rest is in a file."""
        return self.memory_bytes // _PLAN_SHARE

    @property
    def at_once(self) -> int:
        """Number of processes that build a backlog: at most `workers`, and as many as stitch `rows_at_once`
        events each within the memory budget. The size of groups, and so the files, do not depend on it."""
        process_bytes = self.rows_at_once * _ROW_SHARE // 3 + self.remembered * _STRUCTURE_BYTES
        return max(1, min(self.workers, self.memory_bytes // process_bytes))

    @property
    def remembered(self) -> int:
        """Capacity of the structure cache, in number of structures."""
        return min(_MOST_REMEMBERED, self.memory_bytes // _MEMO_SHARE)
