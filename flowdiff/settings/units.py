"""Durations and sizes as people write them, there and back."""

from __future__ import annotations

import re
from typing import Final

from schemas.errors import ConfigError
from schemas.sizes import parse_size
from schemas.windows import NS_PER_MINUTE, NS_PER_SECOND, parse_duration_ns

_ZERO: Final = re.compile(r"0+(ms|s|m|h|d|w)?")
_SIZES: Final = ("T", "G", "M", "K")
_UNITS_NS: Final = (
    ("d", 1440 * NS_PER_MINUTE),
    ("h", 60 * NS_PER_MINUTE),
    ("m", NS_PER_MINUTE),
    ("s", NS_PER_SECOND),
)
_NS_PER_MS: Final = 1_000_000


def duration_of(text: str) -> int:
    """Nanoseconds of `1500ms`, `10s`, `5m`, `0s`. Raises ConfigError."""
    return 0 if _ZERO.fullmatch(text.strip()) else parse_duration_ns(text)


def shown_duration(ns: int) -> str:
    """The largest unit that is whole; `duration_of` reads it. What is below a millisecond is lost."""
    if ns:
        for unit, unit_ns in _UNITS_NS:
            if ns % unit_ns == 0:
                return f"{ns // unit_ns}{unit}"
    return f"{ns // _NS_PER_MS}ms" if ns else "0s"


def size_of(text: str) -> int:
    """Bytes of `512MB`, `1GiB`, `1G`, `4096`: units of 1024. Raises ConfigError."""
    size = parse_size(text)
    if size is None:
        raise ConfigError(f"'{text}' is not a size.", remedy="Write a number and a unit: 64MB, 1GB.")
    return size


def shown_size(n_bytes: int) -> str:
    """The largest unit that is whole; `size_of` reads it."""
    for place, unit in enumerate(_SIZES):
        unit_bytes = 1024 ** (len(_SIZES) - place)
        if n_bytes and n_bytes % unit_bytes == 0:
            return f"{n_bytes // unit_bytes}{unit}B"
    return f"{n_bytes}B"
