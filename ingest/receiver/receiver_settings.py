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
    """Folder on this machine for requests that were answered and are not in the lake yet; empty: `spool` in
    the lake's folder. A lake in a bucket needs one."""
    partition: int = Field(default=0, ge=0, lt=10_000)
    """Number of this receiver among those that write to the same lake: each has a lane of its own, and all
    spans of a request must reach the same one."""
    certificate_file: Path | None = None
    """PEM with the certificate of the receiver and its chain: both addresses then speak TLS alone."""
    key_file: Path | None = None
    """PEM with the key of the certificate."""
    token_file: Path | None = None
    """File with bearer tokens, one a line: requests without one of them are refused. Read again when it
    changes."""
    max_body_bytes: int = Field(default=16 * 2**20, ge=2**10, le=2**30)
    """A larger request, as it is sent, is refused with 413. Unpacked, live.decode.max_payload is the
    limit."""
    pending_bytes: int = Field(default=32 * 2**20, ge=2**20)
    """Bytes of requests in memory, until they are durable; beyond, requests are refused with 429."""
    sync_interval_ns: Expert[int] = Field(default=20 * _NS_PER_MS, ge=0, le=200 * _NS_PER_MS)
    """Requests are made durable this often at most, all that came in the meantime together."""
    max_spool_bytes: int = Field(default=8 * 2**30, ge=2**20)
    """Size of the spool from which on requests are refused with 503, until the lake has taken some."""
    least_free_bytes: int = Field(default=512 * 2**20, ge=0)
    """Free space of the spool's disk below which requests are refused with 503: the lake, which frees the
    spool, may be on the same disk."""
    segment_bytes: Expert[int] = Field(default=64 * 2**20, ge=2**16)
    """Size from which on the spool goes on in another file; a file is removed once the lake has all of it."""
    segment_age_ns: Expert[int] = Field(default=10 * NS_PER_MINUTE, ge=NS_PER_SECOND)
    """Age from which on the spool goes on in another file, however small it is; one of which the lake has all
    is removed then."""
    read_bytes: Expert[int] = Field(default=4 * 2**20, ge=2**16)
    """Bytes that the lake takes from the spool by one read, exceeded by one request at most."""
    read_messages: Expert[int] = Field(default=2_000, ge=1)
    """Maximum number of requests that the lake takes from the spool in one read."""
    max_connections: int = Field(default=256, ge=1, le=100_000)
    """HTTP connections at once; beyond, the one that has waited longest for a request to be whole is
    dropped."""
    max_calls: Expert[int] = Field(default=128, ge=1, le=100_000)
    """Calls of gRPC at once whose message is still coming; a further one is refused, to be tried again."""
    request_timeout_ns: int = Field(default=10 * NS_PER_SECOND, ge=NS_PER_SECOND)
    """Time from the first byte of a request to its last; a slower one is dropped."""
    keep_alive_ns: Expert[int] = Field(default=75 * NS_PER_SECOND, ge=NS_PER_SECOND)
    """A connection that sends nothing for so long is closed."""
    retry_after_ns: Expert[int] = Field(default=2 * NS_PER_SECOND, ge=NS_PER_SECOND)
    """Pause that a client refused for lack of room is asked for, ns; the receiver is not ready for as long
    after a failed write."""
    stop_ns: Expert[int] = Field(default=5 * NS_PER_SECOND, ge=NS_PER_SECOND)
    """Time that requests under way get at the end; then they are cut, and their senders try again."""

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if (self.certificate_file is None) != (self.key_file is None):
            raise ValueError("certificate_file and key_file go together")
        if self.pending_bytes < self.max_body_bytes:
            raise ValueError("pending_bytes must be at least max_body_bytes")
        return self
