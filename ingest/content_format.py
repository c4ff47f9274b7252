"""Recognise the format of a topic's messages by their content, as `files` does for files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from ingest.files import sniff_format
from ingest.formats import AUTO, codec_for
from ingest.source import Payloads
from schemas.config import DecodeConfig

TRIED: Final = 20
"""Maximum number of messages of a poll that are examined to recognise the format."""
USUAL: Final = "otlp-proto"
"""Name of the format that is assumed if no message shows its format: the default of the OpenTelemetry
Collector."""


class ContentFormat:
    """Format of the messages of one topic: recognised from the first messages that decode to events, and
    unchanged from then on."""

    def __init__(self, config: DecodeConfig, before: str | None = None) -> None:
        """before: format in which the topic was last read, which is tried first; None: not known."""
        self._config = config
        self._before = before
        self._found: str | None = None

    def named(self, payloads: Payloads) -> Payloads:
        """Copy of `payloads` with the recognised format in place of `AUTO`; payloads with any other format
        are returned unchanged."""
        if payloads.format != AUTO:
            return payloads
        if self._found is None:
            self._found = self._recognised(payloads.payloads)
        return replace(payloads, format=self._found or self._before or USUAL)

    def _recognised(self, payloads: Sequence[bytes]) -> str | None:
        """Name of the format that most of the first messages match, and in which they decode to events; None
        if there is none."""
        first = list(islice(payloads, TRIED))
        rows = [sniff_format(payload, is_whole=True) for payload in first]
        shown = [name for name, _ in Counter(row.name for row in rows if row is not None).most_common()]
        for name in dict.fromkeys([*([self._before] if self._before else []), *shown]):
            if codec_for(name).decode(first, self._config).events.num_rows:
                return name
        return None
