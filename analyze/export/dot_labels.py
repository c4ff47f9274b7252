"""Names as labels that the original Spectroscope reads: only A-Z, a-z, 0-9 and `_`, and nothing lost.

A label is `<host>__<component>__<point>`. Its parts keep letters, digits and single underscores inside;
`Z` begins what stands for anything else, so that unlike names never get one label and every label can be
read back (`tests/oracles/dot_reader.py` does):

    ZZ      the letter Z
    Z2f     a byte of UTF-8, two lower-case hex digits: here `/`
    ZL      what follows is the node's semantic label
    ZS, ZE  the start, the end of a span (last in a label)
    ZU      a host that nobody recorded (the whole part)

`_` is a byte to be written so where it begins or ends a part or stands beside another one: `__` is then
always the border of two parts.
"""

from __future__ import annotations

import re
from typing import Final

from stitch.graph.placed import END, POINT, START

UNKNOWN_HOST: Final = "ZU"
_SEMANTIC: Final = "ZL"
_SIDE: Final = {POINT: "", START: "ZS", END: "ZE"}

_ODD: Final = re.compile(r"Z|[^A-Za-z0-9_]|(?<![^_])_|_(?![^_])")


def word(name: str) -> str:
    """One part of a label."""
    return _ODD.sub(_written, name)


def _written(odd: re.Match[str]) -> str:
    char = odd[0]
    return "ZZ" if char == "Z" else "".join(f"Z{byte:02x}" for byte in char.encode())


def host_word(host: str | None) -> str:
    """The part that names a host."""
    return UNKNOWN_HOST if host is None else word(host)


def point_word(point: str, label: str | None, side: int) -> str:
    """The part that names a trace point: with its semantic label, and which end of a span it is."""
    semantic = "" if label is None else _SEMANTIC + word(label)
    return word(point) + semantic + _SIDE[side]
