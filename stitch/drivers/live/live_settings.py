"""Settings of live ingestion: windows, lateness, commits, memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import Field, ValidationError, field_validator

from schemas.config import Config, DecodeConfig, Expert, StitchConfig
from schemas.windows import NS_PER_MINUTE, NS_PER_SECOND

LEAST_MEMORY_BYTES: Final = 352 * 2**20
"""Minimum of `live.memory`, bytes: 120 MB for the loaded process, 160 MB of working memory, and twice the 32
MB that lanes buffer. A process that needs more, as it reads more formats, refuses to start with this."""


class LiveSettings(Config):
    """Settings of ingestion from a log; the settings of the Kafka client are in `ingest.kafka`."""

    window_length_ns: int | None = None
    """Window length of a new lake: 1m, 5m (default), 15m, 1h or 1d."""
    commit_interval_ns: int = Field(default=10 * NS_PER_SECOND, gt=0)
    """Time between two commits of a lane that receives events; bounds what is read again after a crash."""
    lateness_ns: int = Field(default=30 * NS_PER_SECOND, ge=0)
    """Maximum delay of an event behind the latest event of its stream before it counts as late; the watermark
    follows the latest event by this."""
    linger_ns: int = Field(default=NS_PER_SECOND, ge=0)
    """Time after the last event of a complete request, by the watermark, until the request counts as over."""
    patience_ns: int = Field(default=15 * NS_PER_SECOND, ge=0)
    """Maximum time after the end of a window, by the watermark, until it is built. Requests that still run
    are then flagged INCOMPLETE, until the window is built again with their remaining events. Should exceed
    `stitch.idle`."""
    rebuild_ns: int = Field(default=10 * NS_PER_MINUTE, ge=0)
    """Time since a window was built, by the watermark, after which it is built again if late events belong
    to it."""
    rebuild_share: float = Field(default=0.01, ge=0)
    """Growth of a window's number of events, as a share, above which it is built again before `live.rebuild`
    is over."""
    max_future_ns: int = Field(default=5 * NS_PER_MINUTE, gt=0)
    """Maximum time by which an event may be ahead of this process's clock; events further ahead become dead
    letters, as the sender's clock must be wrong."""
    idle_ns: int = Field(default=30 * NS_PER_SECOND, gt=0)
    """Time without messages after which a stream that is read to its end no longer holds back the watermark
    of its lane."""
    memory_bytes: int = 2**30
    """Memory budget of the process; minimum 352 MB. What the loaded process leaves is shared by events read
    since the last commits and by the windows being built; streams pause when it is used up."""
    lanes_share: Expert[float] = Field(default=1 / 4, gt=0, le=0.5)
    """Share of `live.memory` that lanes may take for events read since their last commits; reading pauses
    above it."""
    queue_share: Expert[float] = Field(default=1 / 8, gt=0, le=0.5)
    """Share of `live.memory` that messages queued for busy lanes may take; nothing is polled above it."""
    commit_share: Expert[float] = Field(default=1 / 16, gt=0, le=0.5)
    """Share of `live.memory` that a lane may take before it commits ahead of `live.commit_interval`."""
    young_share: Expert[float] = Field(default=1 / 4, ge=0, le=0.5)
    """Share of `live.memory` for events that stay in memory until they are stitched, and with it what lanes
    leave of theirs; the others are read back from the log. Stitching takes a third of `live.memory`."""
    build_workers: int = Field(default=1, ge=1)
    """Number of processes that build windows while there is a backlog, as after an outage; they end with it.
    1: only the process itself builds. Together they take at most `live.memory` in addition to what the
    process takes, and are fewer if more would not fit."""
    build_lease_ns: Expert[int] = Field(default=6 * NS_PER_SECOND, ge=NS_PER_SECOND)
    """Time without a sign of life after which another process builds the windows of a lake in a bucket."""
    build_retry_ns: Expert[int] = Field(default=5 * NS_PER_SECOND, gt=0)
    """Time after a failure until the process tries to build windows again."""
    build_attempts: Expert[int] = Field(default=3, ge=1)
    """Number of failures in a row after which the process lets another one build windows, as the cause may be
    its own: a full disk, too little memory."""
    build_pause_ns: Expert[int] = Field(default=60 * NS_PER_SECOND, ge=0)
    """Time after `live.build_attempts` failures until the process may build windows again if no other one
    does."""
    build_stage_ns: Expert[int] = Field(default=10 * NS_PER_SECOND, ge=0)
    """Time without a change after which another builder's staged files count as left behind by a process that
    died."""
    build_grace_ns: Expert[int] = Field(default=60 * NS_PER_MINUTE, ge=0)
    """Time for which files of replaced windows stay, for readers that opened the lake before."""
    keep_freed_share: Expert[float] = Field(default=0.85, ge=0, le=1)
    """Share of `live.memory` up to which the process keeps freed memory instead of returning it to the
    system. The system clears returned pages before they are used again: an eighth to a quarter of the CPU
    time while a backlog is read, if memory is returned every second."""
    keep_freed_ns: Expert[int] = Field(default=60 * NS_PER_SECOND, ge=NS_PER_SECOND)
    """Time between two returns of freed memory to the system while the process uses less than
    `live.keep_freed_share`: an idle process returns all of it."""
    keep_events_ns: int = Field(default=120 * NS_PER_MINUTE, ge=0)
    """Minimum time for which raw events stay in the lake after they were read; they always stay until their
    windows are built. Late events can join their requests during this time. 0: only until built."""
    accept_gaps: bool = False
    """True: go on where retention deleted messages before they were read, or a topic was truncated or
    created anew, and record the gap in the ledger. False: halt the lane, so that someone notices the loss."""
    params_share: float = Field(default=1.0, ge=0, le=1)
    """Share of requests, in [0, 1], whose parameters are stored; selected by a hash of the request id."""
    max_dead_letters_per_commit: Expert[int] = Field(default=1_000, ge=0, le=10_000)
    """Maximum number of dead letters stored per commit of a lane; further ones are only counted."""
    decode: DecodeConfig = DecodeConfig()
    stitch: StitchConfig = StitchConfig()

    @field_validator("memory_bytes")
    @classmethod
    def _is_enough(cls, memory_bytes: int) -> int:
        if memory_bytes < LEAST_MEMORY_BYTES:
            raise ValueError(f"{LEAST_MEMORY_BYTES // 2**20}MB is the least that is enough")
        return memory_bytes


RECORDED: Final = ("params_share", "stitch", "linger_ns", "patience_ns")
"""Names of the LiveSettings that a commit records because its flows depend on them."""


def recorded_settings(config: Mapping[str, Any]) -> LiveSettings:
    """Parse the settings recorded in a commit (`CommitBody.config`). Settings that the commit does not record
    have their defaults; all have them if a newer version wrote the commit."""
    try:
        return LiveSettings.model_validate({name: config[name] for name in RECORDED if name in config})
    except ValidationError:
        return LiveSettings()
