"""Settings of `ingest` and `watch` in one model (their sources: `flowdiff.settings.effective`)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from analyze.watch.settings import WatchSettings
from flowdiff.notify.settings import NotifySettings
from ingest.http.address import is_loopback
from ingest.kafka.kafka_settings import KafkaSettings
from schemas.config import Config
from schemas.windows import NS_PER_SECOND
from stitch.drivers.live.live_settings import LiveSettings


class ServeSettings(Config):
    """Settings of metrics and health over HTTP. These contain names of topics, but no data and no secrets."""

    address: str = "127.0.0.1:9464"
    """`host:port` for /metrics, /healthz and /readyz; port 0 takes a free one, the empty text serves nothing.
    Anyone who can connect can read them: other addresses than loopback are for networks of your own."""
    watch_address: str = ""
    """`host:port` at which `flowdiff watch` serves /metrics (incidents, requests and times of the watched
    service), /healthz and /readyz. Empty: nowhere; 9465 is the usual port."""
    stalled_after_ns: int = Field(default=60 * NS_PER_SECOND, ge=NS_PER_SECOND)
    """/healthz fails once the loop has not turned for so long."""

    @field_validator("address", "watch_address")
    @classmethod
    def _is_address(cls, address: str) -> str:
        if address:
            split_address(address)
        return address

    @property
    def is_open(self) -> bool:
        """True if other machines may connect."""
        if not self.address:
            return False
        return not is_loopback(split_address(self.address)[0])


class LogSettings(Config):
    """The log, on standard error: one line an event."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """debug, info, warning, error; debug reports every commit."""
    format: Literal["auto", "json", "text"] = "auto"
    """auto (text on a terminal, else JSON), json, text."""


class IngestConfig(Config):
    """Settings of `flowdiff ingest`; `watch` and `notify` are for `flowdiff watch`."""

    lake: str
    """Folder of the lake, or s3://bucket/prefix; made where it is missing."""
    stop_budget_ns: int = Field(default=25 * NS_PER_SECOND, ge=NS_PER_SECOND)
    """SIGTERM and SIGINT commit, give the lanes up and leave the group within this time; then it just ends.
    Less than the grace of what stops it: 30 s in Kubernetes, 90 s of systemd."""
    stay_halted: bool = False
    """Stay, not ready, where every lane waits for a person, instead of ending with exit code 4: for what
    starts anew whatever ends, as Kubernetes does."""
    hash_key_file: Path | None = None
    """File with the key of `live.decode.params.hash`; else the variable FLOWDIFF_HASH_KEY."""
    kafka: KafkaSettings
    live: LiveSettings = LiveSettings()
    serve: ServeSettings = ServeSettings()
    log: LogSettings = LogSettings()
    watch: WatchSettings = WatchSettings()
    notify: NotifySettings = NotifySettings()

    @model_validator(mode="after")
    def _has_lake(self) -> Self:
        if not self.lake:
            raise ValueError("lake must not be empty")
        return self


def split_address(address: str) -> tuple[str, int]:
    """Host and port of `host:port`, `[::1]:9464`, `:9464` (every address). Raises ValueError."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65_535:
        raise ValueError("write host:port")
    return host.removeprefix("[").removesuffix("]"), int(port)
