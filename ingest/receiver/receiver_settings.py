"""Settings of the OTLP receiver and its spool."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Self

from pydantic import Field, model_validator

from schemas.config import Config, Expert
from schemas.windows import NS_PER_MINUTE, NS_PER_SECOND

PROTOBUF: Final = "otlp-proto"
"""Format of protobuf requests, and name of their stream in the spool."""
JSON: Final = "otlp-json"
"""Format of JSON requests, and name of their stream in the spool."""
_NS_PER_MS: Final = 1_000_000


class ReceiverSettings(Config):
    """Settings of the receiver of OTLP: limits, security, and the spool that holds them until they are in the
    lake.
    """

    spool: str = ""
    """Local folder for requests that were acknowledged and are not in the lake yet; empty: `spool` in the
    lake's folder. Required where the lake is in a bucket.
    """
    partition: int = Field(default=0, ge=0, lt=10_000)
    """Number of this receiver among those that write to the same lake. Each has its own lane, and all spans
    of a request must reach the same receiver.
    """
    certificate_file: Path | None = None
    """PEM file with the receiver's certificate and its chain; if set, both addresses accept only TLS."""
    key_file: Path | None = None
    """PEM file with the key of the receiver's certificate."""
    token_file: Path | None = None
    """File with bearer tokens, one per line, of which a request must carry one. Read again when it changes.
    """
    max_body_bytes: int = Field(default=16 * 2**20, ge=2**10, le=2**30)
    """Maximum size of a request as sent; a larger one is refused (413). After unpacking,
    live.decode.max_payload is the limit.
    """
    pending_bytes: int = Field(default=32 * 2**20, ge=2**20)
    """Maximum size of requests in memory that are not durable yet; further requests are refused (429)."""
    sync_interval_ns: Expert[int] = Field(default=20 * _NS_PER_MS, ge=0, le=200 * _NS_PER_MS)
    """Minimum time between two syncs of the spool; a sync makes all requests durable that arrived since the
    last one.
    """
    max_spool_bytes: int = Field(default=8 * 2**30, ge=2**20)
    """Size of the spool from which requests are refused (503) until the lake has taken some."""
    least_free_bytes: int = Field(default=512 * 2**20, ge=0)
    """Free space of the spool's disk below which requests are refused (503): the lake may be on the same
    disk, and must be able to write to free the spool.
    """
    segment_bytes: Expert[int] = Field(default=64 * 2**20, ge=2**16)
    """Size at which the spool starts a new file; a file is removed once all of it is in the lake."""
    segment_age_ns: Expert[int] = Field(default=10 * NS_PER_MINUTE, ge=NS_PER_SECOND)
    """Age at which the spool starts a new file, whatever its size."""
    read_bytes: Expert[int] = Field(default=4 * 2**20, ge=2**16)
    """Maximum number of bytes that the lake takes from the spool in one read; a single larger request is
    taken whole.
    """
    read_messages: Expert[int] = Field(default=2_000, ge=1)
    """Maximum number of requests that the lake takes from the spool in one read."""
    max_connections: int = Field(default=256, ge=1, le=100_000)
    """Maximum number of HTTP connections; beyond it, the connection that has waited longest for the rest of a
    request is closed.
    """
    max_calls: Expert[int] = Field(default=128, ge=1, le=100_000)
    """Maximum number of gRPC calls whose message is still arriving; a further call is refused and may be
    retried.
    """
    request_timeout_ns: int = Field(default=10 * NS_PER_SECOND, ge=NS_PER_SECOND)
    """Time limit from the first byte of a request to its last; a slower request is dropped."""
    keep_alive_ns: Expert[int] = Field(default=75 * NS_PER_SECOND, ge=NS_PER_SECOND)
    """Time after which an idle connection is closed."""
    retry_after_ns: Expert[int] = Field(default=2 * NS_PER_SECOND, ge=NS_PER_SECOND)
    """Pause requested from a client that was refused for lack of room; after a failed write, also the time
    during which the receiver reports that it is not ready.
    """
    stop_ns: Expert[int] = Field(default=5 * NS_PER_SECOND, ge=NS_PER_SECOND)
    """Time that requests in progress get at shutdown; then they are cut, and their senders retry."""

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if (self.certificate_file is None) != (self.key_file is None):
            raise ValueError("certificate_file and key_file go together")
        if self.pending_bytes < self.max_body_bytes:
            raise ValueError("pending_bytes must be at least max_body_bytes")
        return self
