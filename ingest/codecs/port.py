"""Interface of a codec: payloads in, one event batch and dead letters out. Codecs never raise because of
their input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from schemas.config import DecodeConfig
from schemas.rejects import Reject


@dataclass(frozen=True, slots=True)
class Decoded:
    """Events, rejects and counts that a codec returns for a list of payloads.

    `events` has `EVENT_SCHEMA`, rows in the order of the payloads; `rejects` name payload and item and are
    bounded (`dead_letters`); `oddities` counts peculiarities that were accepted (`unknown-field`, `text-cut`,
    …).
    """

    events: pa.Table
    rejects: list[Reject]
    oddities: Mapping[str, int] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)
    """Reason -> number of refused items, including items that `rejects` leaves out."""


class Codec(Protocol):
    """Codec of one input format. It has no state: the same payloads always give the same result, however they
    are divided among calls."""

    name: str
    """Name of the format as used for `--format`, for example `otlp-json`."""

    def decode(self, payloads: Sequence[bytes], config: DecodeConfig) -> Decoded:
        """Decode payloads, each a whole, decompressed message. An invalid item never affects other items."""
        ...
