"""Configuration that crosses a boundary. Frozen pydantic; every bound says what happens at it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from schemas.windows import NS_PER_SECOND


class Config(BaseModel):
    """Base: frozen, unknown keys refused; the docstring under a field is its description."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class DecodeConfig(Config):
    """What codecs keep, and the size of input they accept."""

    label_keys: tuple[str, ...] = ("flowdiff.label",)
    """Span attributes that become the semantic label (values joined by `;`), not params."""
    event_points: tuple[str, ...] = ()
    """Names of span events that become inner nodes; others become params `event.<name>` (ns)."""
    host_keys: tuple[str, ...] = ("host.name", "k8s.pod.name", "service.instance.id", "container.id")
    """Resource attributes tried in this order for the host."""
    drop_params: tuple[str, ...] = ()
    """Parameter keys that never reach the lake."""
    max_payload_bytes: int = Field(default=64 * 2**20, gt=0)
    """A larger payload (after decompression) is a dead letter `too-large`."""
    max_name_bytes: int = Field(default=256, gt=0)
    """Native ids and names over this are a dead letter `bad-value`; span names are cut, with a count."""
    max_text_bytes: int = Field(default=4096, gt=0)
    """Longer text parameters are cut at this many bytes, with a count."""
    max_params_per_event: int = Field(default=128, gt=0)
    """Parameters past this many (in key order) are dropped, with a count."""


class StitchConfig(Config):
    """Bounds of the stitch kernel."""

    max_events_per_flow: int = Field(default=20_000, gt=1)
    """Events past this many (in time order) are dropped and the flow is flagged CAPPED."""
    orphan_share: float = Field(default=0.05, ge=0, le=1)
    """More orphans than max(1, this share of the spans) flag the flow INCOMPLETE (A.6 S2)."""
    idle_ns: int = Field(default=10 * NS_PER_SECOND, gt=0)
    """A request closes when the watermark is this far past its last event."""
    max_age_ns: int = Field(default=15 * 60 * NS_PER_SECOND, gt=0)
    """A request closes, INCOMPLETE, when the watermark is this far past its first event."""
