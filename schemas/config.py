"""Configuration models, frozen. Every bound documents what happens when it is reached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal, Self, TypeVar

from pydantic import ConfigDict, Field, SecretBytes, model_validator

from schemas.closed import Closed
from schemas.windows import NS_PER_SECOND

MAX_KEPT: Final = 10_000
"""Maximum dead letters stored per decode; further ones are only counted."""


T = TypeVar("T")
EXPERT: Final = "expert"
"""Marker of a setting that few people change: help lists it on request only."""
Expert = Annotated[T, EXPERT]
"""Type of an expert setting: `Expert[int]`."""


class Config(Closed):
    """Base of settings: the docstring under a field describes it."""

    model_config = ConfigDict(use_attribute_docstrings=True)


DENIED_PARAMS = ("authorization", "proxy-authorization", "cookie", "set-cookie", "*.token", "*password*")
"""Patterns of parameters that are never kept, whatever the settings."""
MIN_HASH_KEY_BYTES = 16
"""Minimum length of a hash key: a shorter one could be found by brute force."""


class ParamRules(Config):
    """Rules for keeping, dropping, blanking or hashing parameters. Patterns: `ingest.codecs.privacy`."""

    allow: tuple[str, ...] = ()
    """If any are given, only parameters that match one are kept."""
    deny: tuple[str, ...] = ()
    """Dropped, as DENIED_PARAMS are; this counts before the others."""
    redact: tuple[str, ...] = ()
    """Kept with the value `[redacted]`; counts before `hash`."""
    hash: tuple[str, ...] = ()
    """Kept with an HMAC of the value: equal values stay equal."""
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
    """Span attributes that become the semantic label (values joined by `;`), not params."""
    event_points: tuple[str, ...] = ()
    """Names of span events that become inner nodes; others become params `event.<name>` (ns)."""
    host_keys: tuple[str, ...] = ("host.name", "k8s.pod.name", "service.instance.id", "container.id")
    """Resource attributes tried in this order for the host."""
    params: ParamRules = ParamRules()
    max_payload_bytes: int = Field(default=16 * 2**20, gt=0)
    """A larger payload (after decompression) is a dead letter `too-large`. Reading one takes about ten times
    its size for a moment; a broker takes 1 MB by default."""
    max_name_bytes: int = Field(default=256, gt=0)
    """Native ids and names over this are a dead letter `bad-value`; span names are cut, with a count."""
    max_text_bytes: int = Field(default=4096, gt=0)
    """Longer text parameters are cut at this many bytes, with a count."""
    max_params_per_event: int = Field(default=128, gt=0)
    """Parameters past this many (in key order) are dropped, with a count."""
    min_repetition: Expert[float] = Field(default=2, ge=1)
    """A table's text is held as distinct words and their numbers if it takes over this many times as much as
    they do. Else it is read as text: to look each value up among the words is a third of the time."""


class SpanColumns(Config):
    """Columns of a table of spans by meaning; an empty name means no column.

    The defaults are those of the Collector's ClickHouse exporter. A table needs the first five, and every
    column named explicitly; the rest may be missing.
    """

    trace_id: str = "TraceId"
    """Hex text, or bytes."""
    span_id: str = "SpanId"
    """Hex text, or bytes."""
    parent_id: str = "ParentSpanId"
    """Hex text, or bytes; null, empty or zeros: a root."""
    name: str = "SpanName"
    start: str = "Timestamp"
    """A timestamp, or a number since the epoch (`time_unit`)."""
    end: str = ""
    """A time as in `start`; empty: `duration` counts."""
    duration: str = "Duration"
    """A duration, or a number (`time_unit`)."""
    kind: str = "SpanKind"
    """`Server`, `SPAN_KIND_SERVER`, 2."""
    service: str = "ServiceName"
    """Else the resource attribute `service.name`."""
    host: str = ""
    """Else the resource attributes of `host_keys`."""
    status: str = "StatusCode"
    """Failed: `Error`, `STATUS_CODE_ERROR`, 2, true."""
    status_message: str = "StatusMessage"
    trace_state: str = "TraceState"
    attributes: str = "SpanAttributes"
    """A map, or a list of keys with values, of text or numbers."""
    resource_attributes: str = "ResourceAttributes"
    """Attributes of the resource, in a form as in `attributes`."""
    time_unit: Literal["s", "ms", "us", "ns"] = "ns"
    """Unit of times that are numbers."""

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
    """Events past this many (in time order) are dropped and the flow is flagged CAPPED."""
    orphan_share: float = Field(default=0.05, ge=0, le=1)
    """More orphans than max(1, this share of the spans) flag the flow INCOMPLETE."""
    idle_ns: int = Field(default=10 * NS_PER_SECOND, gt=0)
    """A request closes when the watermark is this far past its last event."""
    max_age_ns: int = Field(default=15 * 60 * NS_PER_SECOND, gt=0)
    """The log of a request that has not ended is kept for so long after its window for what is to come; what
    comes later may be late, and the request stays INCOMPLETE."""
