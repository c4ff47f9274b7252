"""How messages are written."""

from __future__ import annotations

from pydantic import Field

from schemas.config import Config


class ProduceSettings(Config):
    """How messages are written."""

    rate: float | None = Field(default=None, gt=0)
    """Spans or records a second, at most."""
    speed: float | None = Field(default=None, gt=0)
    """Write in event time: 1 as it happened, 60 an hour a minute. Files are taken in their order."""
    message_bytes: int = Field(default=64 * 1024, ge=0, le=900_000)
    """Requests of one partition share a message up to about this size; 0: a message a request."""
    compression: str = Field(default="zstd", pattern="^(none|gzip|snappy|lz4|zstd)$")
    """Of batches: none, gzip, snappy, lz4, zstd."""
    make_topic: int | None = Field(default=None, ge=1)
    """Make the topic first, with so many partitions, where it is not there."""
