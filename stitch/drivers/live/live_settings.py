"""Set how live ingestion stitches and commits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import Field, ValidationError, field_validator

from schemas.config import Config, DecodeConfig, Expert, StitchConfig
from schemas.windows import NS_PER_MINUTE, NS_PER_SECOND

LEAST_MEMORY_BYTES: Final = 352 * 2**20
"""The loaded process takes 120 MB, what it works with 160, and lanes that hold 32 MB twice that. A process
that reads more formats takes more, and says so at its start."""


class LiveSettings(Config):
    """Settings of ingestion from a log; those of Kafka are in `ingest.kafka`."""

    window_length_ns: int | None = None
    """Window length of a new lake: 1m, 5m (default), 15m, 1h, 1d."""
    commit_interval_ns: int = Field(default=10 * NS_PER_SECOND, gt=0)
    """A lane commits this often while something comes in: it bounds what is read again after a crash."""
    lateness_ns: int = Field(default=30 * NS_PER_SECOND, ge=0)
    """Time after the latest event of its stream within which an event still counts."""
    linger_ns: int = Field(default=NS_PER_SECOND, ge=0)
    """A complete request is over when the watermark is this far past its last event."""
    patience_ns: int = Field(default=15 * NS_PER_SECOND, ge=0)
    """A window is built when the watermark is this far past its end, whatever still runs: such requests are
    INCOMPLETE until it is built again, with what came of them. More than `stitch.idle`."""
    rebuild_ns: int = Field(default=10 * NS_PER_MINUTE, ge=0)
    """A window that late events belong to is built again when the watermark moved so far since it was
    built,
    """
    rebuild_share: float = Field(default=0.01, ge=0)
    """or earlier, if its events grew by more than this share."""
    max_future_ns: int = Field(default=5 * NS_PER_MINUTE, gt=0)
    """Events this far after the clock of this process become dead letters: a clock that is wrong."""
    idle_ns: int = Field(default=30 * NS_PER_SECOND, gt=0)
    """A stream that is read to its end and silent for so long no longer holds up the others of its lane."""
    memory_bytes: int = 2**30
    """Memory of the process, 352 MB at least. Lanes have what is left of it for events read since their last
    commits, and the builder for windows. Past that, streams pause."""
    keep_freed_share: Expert[float] = Field(default=0.7, ge=0, le=1)
    """Share of `memory_bytes` up to which the process keeps memory that it freed. Returned pages are cleared
    anew when they are taken again: an eighth to a quarter of the CPU of a backlog, if done each second."""
    keep_freed_ns: Expert[int] = Field(default=60 * NS_PER_SECOND, ge=NS_PER_SECOND)
    """Below that share freed memory is returned this often: a process at rest gives all back."""
    keep_events_ns: int = Field(default=120 * NS_PER_MINUTE, ge=0)
    """Raw events stay in the lake for so long after they came, or until their windows are built: for so long
    late events become part of the requests they belong to. 0: no longer than it takes to build."""
    accept_gaps: bool = False
    """Go on where retention passed the lane's position, or a topic was cut back or made anew; the gap is in
    the ledger. Else such a lane halts: what is gone is gone, and somebody should know."""
    params_share: float = Field(default=1.0, ge=0, le=1)
    """Share of requests, by a hash of the id, whose parameters are kept."""
    max_dead_letters_per_commit: Expert[int] = Field(default=1_000, ge=0, le=10_000)
    """Dead letters kept of one commit of a lane; more are counted only."""
    decode: DecodeConfig = DecodeConfig()
    stitch: StitchConfig = StitchConfig()

    @field_validator("memory_bytes")
    @classmethod
    def _is_enough(cls, memory_bytes: int) -> int:
        if memory_bytes < LEAST_MEMORY_BYTES:
            raise ValueError(f"{LEAST_MEMORY_BYTES // 2**20}MB is the least that is enough")
        return memory_bytes


RECORDED: Final = ("params_share", "stitch")
"""Settings that a commit records, by which its requests were made."""


def recorded_settings(config: Mapping[str, Any]) -> LiveSettings:
    """Settings as a commit says them; defaults where it does not, or is of a later version."""
    try:
        return LiveSettings.model_validate({name: config[name] for name in RECORDED if name in config})
    except ValidationError:
        return LiveSettings()
