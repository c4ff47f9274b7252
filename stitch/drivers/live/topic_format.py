"""Detect that the messages of a topic have another format than configured."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final

from ingest.files import sniff_format
from ingest.formats import codec_for
from schemas.config import DecodeConfig
from schemas.errors import InputError

TRIED: Final = 20
"""Maximum number of messages examined to recognise the format of a topic."""


class OtherFormatError(InputError):
    """The messages of a topic have another format than configured, so all of them would become dead
    letters."""


def refuse_other_format(topic: str, format_: str, payloads: Sequence[bytes], config: DecodeConfig) -> None:
    """Raise OtherFormatError if all of the first `TRIED` payloads are recognised as one other format.

    Called with the first messages of a topic if none of them decodes to an event in `format_`.
    """
    first = list(islice(payloads, TRIED))
    shown = {None if row is None else row.name for row in (sniff_format(p, is_whole=True) for p in first)}
    found = shown.pop() if len(shown) == 1 else None
    if found is None or found == format_ or not codec_for(found).decode(first, config).events.num_rows:
        return
    raise OtherFormatError(
        f"Topic '{topic}' is read as {format_}, and its messages are {found}.",
        remedy=f"Give --default-format {found}, or `kafka.formats` for this topic; nothing was passed.",
    )
