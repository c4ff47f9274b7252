"""Tell when the messages of a topic are plainly of another format than they are read as."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final

from ingest.files import sniff_format
from ingest.formats import codec_for
from schemas.config import DecodeConfig
from schemas.errors import InputError

TRIED: Final = 20
"""Messages that are looked at."""


class OtherFormatError(InputError):
    """A person has to say what a topic holds: what is read as another format is lost as dead letters."""


def refuse_other_format(topic: str, format_: str, payloads: Sequence[bytes], config: DecodeConfig) -> None:
    """Raise OtherFormatError where messages of which none could be read all show one other format.

    To be asked of the first messages of a topic in a format, of which no event came.
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
