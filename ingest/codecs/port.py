"""Codec port: payloads in, one event batch and dead letters out. Codecs never raise on input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from schemas.config import DecodeConfig
from schemas.rejects import Reject


@dataclass(frozen=True, slots=True)
class Decoded:
    """Result of decoding a list of payloads.

    `events` has `EVENT_SCHEMA`, rows in the order of the payloads; `rejects` name payload and item and are
    bounded (`dead_letters`); `oddities` counts peculiarities that were accepted (`unknown-field`, `text-cut`,
    …).
    """

    events: pa.Table
    rejects: list[Reject]
    oddities: Mapping[str, int] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)
    """Reason -> number of refused items, including those beyond the bounds of `rejects`."""


class Codec(Protocol):
    """Codec of one input format. Stateless: the same payloads always give the same result, in any
    batching.
    """

    name: str
    """Name of the format for `--format`, for example `otlp-json`."""

    def decode(self, payloads: Sequence[bytes], config: DecodeConfig) -> Decoded:
        """Decode payloads, which are whole, decompressed messages. An invalid item never affects others."""
        ...
