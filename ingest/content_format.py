"""Recognise the format of a topic's messages by content, as `files` does that of a file."""

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
"""Messages of a poll that are looked at."""
USUAL: Final = "otlp-proto"
"""Format as which messages are read that show none: the Collector's default."""


class ContentFormat:
    """Format of one topic, decided by the first messages of which events come, and kept from then on."""

    def __init__(self, config: DecodeConfig, before: str | None = None) -> None:
        """before: format in which the topic was read until now; tried first."""
        self._config = config
        self._before = before
        self._found: str | None = None

    def named(self, payloads: Payloads) -> Payloads:
        """Payloads with the name of a format in place of `AUTO`; others as they are."""
        if payloads.format != AUTO:
            return payloads
        if self._found is None:
            self._found = self._recognised(payloads.payloads)
        return replace(payloads, format=self._found or self._before or USUAL)

    def _recognised(self, payloads: Sequence[bytes]) -> str | None:
        """Name of the format that most of the first messages show and that gives events; None without one."""
        first = list(islice(payloads, TRIED))
        rows = [sniff_format(payload, is_whole=True) for payload in first]
        shown = [name for name, _ in Counter(row.name for row in rows if row is not None).most_common()]
        for name in dict.fromkeys([*([self._before] if self._before else []), *shown]):
            if codec_for(name).decode(first, self._config).events.num_rows:
                return name
        return None
