"""Settings of `ingest` and `watch` in one model (their sources: `flowdiff.settings.effective`)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from analyze.watch.settings import WatchSettings
from flowdiff.notify.settings import NotifySettings
from ingest.http.address import is_loopback, split_address
from ingest.kafka.kafka_settings import KafkaSettings
from ingest.receiver.receiver_settings import ReceiverSettings
from schemas.config import Config, Expert
from schemas.windows import NS_PER_SECOND
from stitch.drivers.live.live_settings import LiveSettings


class ServeSettings(Config):
    """Settings of metrics and health over HTTP. These contain names of topics, but no data and no secrets."""

    address: str = "127.0.0.1:9464"
    """`host:port` for /metrics, /healthz and /readyz; port 0 chooses a free one, an empty text turns them
    off. Anyone who can connect can read them: use other addresses than loopback in private networks only.
    """
    watch_address: str = ""
    """`host:port` for /metrics (incidents, requests and times of the watched service), /healthz and /readyz
    of `flowdiff watch`; empty: off; 9465 is the usual port.
    """
    stalled_after_ns: int = Field(default=60 * NS_PER_SECOND, ge=NS_PER_SECOND)
    """Time without progress of the main loop after which /healthz fails."""

    @field_validator("address", "watch_address")
    @classmethod
    def _is_address(cls, address: str) -> str:
        if address:
            split_address(address)
        return address

    @property
    def is_open(self) -> bool:
        """True if other machines may connect."""
        return is_open_address(self.address)


class LogSettings(Config):
    """The log, on standard error: one line per event."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest level that is logged: debug, info, warning, error; debug reports every commit."""
    format: Literal["auto", "json", "text"] = "auto"
    """Format of log lines: auto (text on a terminal, else JSON), json, text."""


class HeapSettings(Config):
    """Shares of `live.memory`, which is that of the process (`flowdiff.live.memory`)."""

    buffers_bytes: Expert[int] = Field(default=160 * 2**20, ge=0)
    """Memory of work in progress beyond the freshly started process, however small the lanes' share: 103 to
    155 MB were observed. Fetches and decoding in progress, a segment, code loaded later, freed memory not yet
    returned."""
    held_share: Expert[float] = Field(default=0.9, gt=0, le=1)
    """Share of the remaining memory for lanes, events that wait for their windows, and stitching; the rest is
    for holes of the heap."""
    least_held_bytes: Expert[int] = Field(default=32 * 2**20, ge=2**20)
    """Smallest memory of the lanes. With 12 MB, 1,586 of 40,001 requests of a backlog were published in two
    pieces: more arrived late than fits in the memory of closed requests."""
    look_every_ns: Expert[int] = Field(default=NS_PER_SECOND, ge=10**7)
    """Time between looks at the memory of the process."""


class IngestConfig(Config):
    """Settings of `flowdiff ingest`; `watch` and `notify` are for `flowdiff watch`."""

    lake: str
    """Folder of the lake, or s3://bucket/prefix; made where it is missing."""
    stop_budget_ns: int = Field(default=25 * NS_PER_SECOND, ge=NS_PER_SECOND)
    """Time limit of a shutdown after SIGTERM or SIGINT, in which lanes are committed and released; then the
    process just ends. Less than the grace period of its supervisor: 30 s in Kubernetes, 90 s in systemd.
    """
    stay_halted: bool = False
    """Keep running, not ready, when every lane is halted, instead of ending with exit code 4: for supervisors
    that restart whatever ends, such as Kubernetes.
    """
    hash_key_file: Path | None = None
    """File with the key of `live.decode.params.hash`; else the variable FLOWDIFF_HASH_KEY."""
    otlp: str = ""
    """`host:port` at which OTLP is received over HTTP, instead of reading topics; 4318 is the usual port.
    Anyone who can connect can send: other addresses than loopback need receiver.token_file and TLS.
    """
    otlp_grpc: str = ""
    """`host:port` at which OTLP is received over gRPC; 4317 is the usual port."""
    kafka: KafkaSettings
    receiver: ReceiverSettings = ReceiverSettings()
    live: LiveSettings = LiveSettings()
    serve: ServeSettings = ServeSettings()
    log: LogSettings = LogSettings()
    heap: HeapSettings = HeapSettings()
    watch: WatchSettings = WatchSettings()
    notify: NotifySettings = NotifySettings()

    @model_validator(mode="after")
    def _has_lake(self) -> Self:
        if not self.lake:
            raise ValueError("lake must not be empty")
        return self

    @property
    def receives(self) -> bool:
        """True if spans are received over OTLP, and not read from topics."""
        return bool(self.otlp or self.otlp_grpc)

    @model_validator(mode="after")
    def _has_one_input(self) -> Self:
        if self.receives and self.kafka.has_topics:
            raise ValueError("topics are read, or otlp and otlp_grpc receive, not both")
        if not self.receives and not self.kafka.has_topics:
            raise ValueError("give topics or topic_pattern, to read Kafka, or otlp or otlp_grpc, to receive")
        return self

    @field_validator("otlp", "otlp_grpc")
    @classmethod
    def _is_otlp_address(cls, address: str) -> str:
        if address:
            split_address(address)
        return address


def is_open_address(address: str) -> bool:
    """True if other machines may connect to `host:port`; False for the empty text."""
    return bool(address) and not is_loopback(split_address(address)[0])
