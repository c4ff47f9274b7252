"""Windows of event time: half open, UTC, whole minutes, aligned to the epoch; the unit of storage."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from schemas.errors import ConfigError

NS_PER_US = 1_000
NS_PER_SECOND = 1_000_000_000
NS_PER_MINUTE = 60 * NS_PER_SECOND
NS_PER_DAY = 86_400 * NS_PER_SECOND

_MAX_NS = 2**63 - 1
"""Largest time, ns since the epoch: the maximum of int64."""

_DURATION = re.compile(r"^(\d+)(ms|s|m|h|d|w)$")
_UNIT_NS = {
    "ms": 1_000_000,
    "s": NS_PER_SECOND,
    "m": NS_PER_MINUTE,
    "h": 60 * NS_PER_MINUTE,
    "d": NS_PER_DAY,
    "w": 7 * NS_PER_DAY,
}


def parse_duration_ns(text: str) -> int:
    """Duration in ns of a text such as `90s`, `5m`, `1h`, `1d`, `1w`.

    Raises ConfigError for any other text, for zero, and for 2**63 ns or more.
    """
    match = _DURATION.match(text.strip())
    if match is None or int(match[1]) == 0:
        raise ConfigError(
            f"'{text}' is not a duration.", remedy="Write a number and a unit: 30s, 5m, 1h, 1d."
        )
    ns = int(match[1]) * _UNIT_NS[match[2]]
    if ns > _MAX_NS:
        raise ConfigError(
            f"'{text}' is longer than 292 years.", remedy="Write a shorter time: 30s, 5m, 1h, 1d."
        )
    return ns


def window_length_ns(text: str) -> int:
    """Parse `text` (`5m`) to a window length in ns. Raises ConfigError if it is invalid
    (`checked_length_ns`).
    """
    return checked_length_ns(parse_duration_ns(text), text)


def checked_length_ns(length_ns: int, text: str = "") -> int:
    """Return `length_ns` if windows may have this length: whole minutes that divide a day.

    text: the length as given by the user, for the message. Raises ConfigError.
    """
    if length_ns <= 0 or length_ns % NS_PER_MINUTE or NS_PER_DAY % length_ns:
        raise ConfigError(
            f"Window '{text or f'{length_ns} ns'}' does not divide a day into whole minutes.",
            remedy="Use 1m, 5m, 15m, 1h or 1d.",
        )
    return length_ns


@dataclass(frozen=True, slots=True, order=True)
class Window:
    """Window `[start_ns, start_ns + length_ns)` of event time; `start_ns` is a multiple of the length."""

    start_ns: int
    length_ns: int

    @property
    def end_ns(self) -> int:
        """First nanosecond after the window."""
        return self.start_ns + self.length_ns

    @property
    def name(self) -> str:
        """Name of the window's folder, made from the start only: `20261120T0905Z`."""
        return datetime.fromtimestamp(self.start_ns // NS_PER_SECOND, UTC).strftime("%Y%m%dT%H%MZ")

    @classmethod
    def from_name(cls, name: str, length_ns: int) -> Window:
        """Window with this folder name and this length. Raises ValueError for a malformed name."""
        start = datetime.strptime(name, "%Y%m%dT%H%MZ").replace(tzinfo=UTC)
        return cls(int(start.timestamp()) * NS_PER_SECOND, length_ns)

    @classmethod
    def of(cls, ts_ns: int, length_ns: int) -> Window:
        """Window that contains `ts_ns`."""
        return cls(ts_ns - ts_ns % length_ns, length_ns)
