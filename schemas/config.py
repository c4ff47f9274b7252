"""Configuration models, frozen. Every bound documents what happens when it is reached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal, Self, TypeVar

from pydantic import ConfigDict, Field, SecretBytes, model_validator

from schemas.closed import Closed
from schemas.windows import NS_PER_SECOND

MAX_KEPT: Final = 10_000
"""Maximum number of dead letters stored per decode; all others are only counted."""


T = TypeVar("T")
EXPERT: Final = "expert"
"""Marker of a setting that few people change: help lists it on request only."""
Expert = Annotated[T, EXPERT]
"""Type of an expert setting: `Expert[int]`."""


class Config(Closed):
    """Base of settings: the docstring under a field describes it."""

    model_config = ConfigDict(use_attribute_docstrings=True)


DENIED_PARAMS = (
    *("authorization", "proxy-authorization", "cookie", "set-cookie"),
    *("*.token", "*-token", "*password*"),
)
"""Patterns of parameters that are always dropped, whatever the settings."""
MIN_HASH_KEY_BYTES = 16
"""Minimum length of a hash key: a shorter one could be found by brute force."""


class ParamRules(Config):
    """Rules for keeping, dropping, blanking or hashing parameters. Patterns: `ingest.codecs.privacy`."""

    allow: tuple[str, ...] = ()
    """Patterns of the parameters that are kept; none: all that no other rule drops."""
    deny: tuple[str, ...] = ()
    """Patterns of parameters that are dropped, beside DENIED_PARAMS; takes precedence over all other rules.
    """
    redact: tuple[str, ...] = ()
    """Patterns of parameters kept with the value `[redacted]`; takes precedence over `hash`."""
    hash: tuple[str, ...] = ()
    """Patterns of parameters kept with an HMAC of the value: equal values stay equal."""
    hash_key: SecretBytes | None = Field(default=None, exclude=True, repr=False)
    """Key of the HMAC. Never written, logged or shown."""

    @model_validator(mode="after")
    def _has_key(self) -> Self:
        if self.hash and len(self.hash_key.get_secret_value() if self.hash_key else b"") < MIN_HASH_KEY_BYTES:
            raise ValueError(f"hashing parameters needs a key of {MIN_HASH_KEY_BYTES} bytes or more")
        return self


class DecodeConfig(Config):
    """Settings of codecs: data to keep, and the size of input to accept."""

    label_keys: tuple[str, ...] = ("flowdiff.label",)
    """Span attributes that make up the semantic label (values joined by `;`) and are not kept as parameters.
    """
    event_points: tuple[str, ...] = ()
    """Names of span events that become inner nodes; all others become parameters `event.<name>` (ns since the
    span's start).
    """
    host_keys: tuple[str, ...] = ("host.name", "k8s.pod.name", "service.instance.id", "container.id")
    """Resource attributes that hold the host, in order of preference."""
    params: ParamRules = ParamRules()
    max_payload_bytes: int = Field(default=16 * 2**20, gt=0)
    """Maximum size of a payload after decompression; a larger one is a dead letter `too-large`. Decoding
    briefly takes about ten times its size; a broker accepts 1 MB by default.
    """
    max_name_bytes: int = Field(default=256, gt=0)
    """Maximum size of native ids and names; a longer one is a dead letter `bad-value`. Span names are cut
    instead, and counted.
    """
    max_text_bytes: int = Field(default=4096, gt=0)
    """Maximum size of a text parameter; longer ones are cut and counted."""
    max_params_per_event: int = Field(default=128, gt=0)
    """Maximum number of parameters of an event; further ones, in key order, are dropped and counted."""
    min_repetition: Expert[float] = Field(default=2, ge=1)
    """Ratio of the size of a table's text to the size of its distinct words with indices above which it is
    held as words and indices; below it, looking each value up would cost a third of the time.
    """


class SpanColumns(Config):
    """Columns of a table of spans by meaning; an empty name means no column.

    The defaults are those of the Collector's ClickHouse exporter. A table needs the first five, and every
    column named explicitly; the rest may be missing.
    """

    trace_id: str = "TraceId"
    """Column of trace ids: hex text or bytes."""
    span_id: str = "SpanId"
    """Column of span ids: hex text or bytes."""
    parent_id: str = "ParentSpanId"
    """Column of parent span ids: hex text or bytes; null, empty or zeros: a root."""
    name: str = "SpanName"
    start: str = "Timestamp"
    """Column of start times: a timestamp, or a number since the epoch (`time_unit`)."""
    end: str = ""
    """Column of end times, as in `start`; empty: `duration` is used."""
    duration: str = "Duration"
    """Column of durations: a duration, or a number (`time_unit`)."""
    kind: str = "SpanKind"
    """Column of span kinds: `Server`, `SPAN_KIND_SERVER` or 2."""
    service: str = "ServiceName"
    """Column of service names; empty: the resource attribute `service.name` is used."""
    host: str = ""
    """Column of hosts; empty: the resource attributes of `host_keys` are used."""
    status: str = "StatusCode"
    """Column of status codes; a span failed with `Error`, `STATUS_CODE_ERROR`, 2 or true."""
    status_message: str = "StatusMessage"
    trace_state: str = "TraceState"
    attributes: str = "SpanAttributes"
    """Column of span attributes: a map, or a list of keys with values, of text or numbers."""
    resource_attributes: str = "ResourceAttributes"
    """Column of resource attributes, in a form as in `attributes`."""
    time_unit: Literal["s", "ms", "us", "ns"] = "ns"
    """Unit of times and durations that are numbers."""

    @property
    def told(self) -> str:
        """JSON of the settings that differ from the defaults; empty if all are defaults."""
        return self.model_dump_json(exclude_defaults=True) if self != SpanColumns() else ""

    def _named(self) -> dict[str, str]:
        return {field: name for field, name in self if name and field != "time_unit"}

    def found_in(self, given: Sequence[str]) -> dict[str, str]:
        """Field -> column name, for the columns in `given`, those of a table."""
        return {field: name for field, name in self._named().items() if name in given}

    def missing_in(self, given: Sequence[str]) -> str:
        """Required columns missing in `given`, the columns of a table, as text; empty if none."""
        needed = {*_NEEDED_COLUMNS, *self.model_fields_set}
        lost = [f for f, name in self._named().items() if f in needed and name not in given]
        return ", ".join(f"'{getattr(self, field)}' ({field})" for field in lost)


_NEEDED_COLUMNS: Final = ("trace_id", "span_id", "parent_id", "name", "start")


class StitchConfig(Config):
    """Bounds of the stitch kernel."""

    max_events_per_flow: int = Field(default=20_000, gt=1)
    """Maximum number of events of a flow; further ones (in time order) are dropped and the flow is flagged
    CAPPED.
    """
    orphan_share: float = Field(default=0.05, ge=0, le=1)
    """Share of orphaned spans above which a flow is flagged INCOMPLETE; one orphan is always allowed."""
    idle_ns: int = Field(default=10 * NS_PER_SECOND, gt=0)
    """Distance of the watermark from a request's last event at which the request closes."""
    max_age_ns: int = Field(default=15 * 60 * NS_PER_SECOND, gt=0)
    """Time after its window for which the log of a request that has not ended is kept; events that come later
    may be late, and the request stays INCOMPLETE.
    """
