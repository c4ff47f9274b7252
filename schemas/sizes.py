"""Sizes in bytes, as people write them."""

from __future__ import annotations

import re
from typing import Final

_SIZE: Final = re.compile(r"(\d{1,15})\s*(K|M|G|T)?(i?B)?", re.IGNORECASE)
_POWERS: Final = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


def parse_size(text: str) -> int | None:
    """Bytes of `512MB`, `1GiB`, `1G`: units of 1024; None for an invalid text."""
    match = _SIZE.fullmatch(text.strip())
    return None if match is None else int(match[1]) * 1024 ** _POWERS[(match[2] or "").upper()]
