"""How one node reads in canonical text: `component/point[/label]` with its side and flags.

A word has no white space or grammar character outside double quotes, so a text splits into words by
`stitch.graph.text.split_words` alone. Flags stand before the name: `~` deferred, `!` a response that the
deferred flags do not imply (or a missing one). Sides stand after it: `>` the start of a span, `<` its end,
`<>` both, with nothing between.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from stitch.graph.key import digest, name_bytes

_PLAIN = re.compile(r'[^\s"\\{}|()^*&~!<>]+')
_SIDES = ("", ">", "<")


class Word(NamedTuple):
    """A node as a symbol of folding and as text."""

    symbol: bytes
    """[16] digest of name, kind, side and flags."""
    name: str
    """Quoted name without flags and side."""
    flags: str
    text: str


@lru_cache(maxsize=65_536)
def quote(component: str, point: str, label: str | None) -> str:
    """The name as text: in double quotes where it holds white space, grammar or unprintable characters.

    Inside quotes `"` and backslash are escaped by a backslash, unprintable characters and white space other
    than the blank as `\\u{hex}`. Slashes inside the parts are kept, so the text names a node for people; the
    key tells nodes apart.
    """
    name = f"{component}/{point}" if label is None else f"{component}/{point}/{label}"
    if name.isprintable() and _PLAIN.fullmatch(name):
        return name
    escaped = "".join(
        f"\\{c}" if c in '"\\' else c if c.isprintable() else f"\\u{{{ord(c):x}}}" for c in name
    )
    return f'"{escaped}"'


@lru_cache(maxsize=65_536)
def word(
    component: str, point: str, label: str | None, kind: int, side: int, deferred: bool, marked: bool
) -> Word:
    """The word of a node; `marked`: its being a response is not what the deferred flags imply."""
    flags = ("~" if deferred else "") + ("!" if marked else "")
    symbol = digest(b"n", bytes([kind, side, deferred, marked]), name_bytes(component, point, label))
    name = quote(component, point, label)
    return Word(symbol, name, flags, f"{flags}{name}{_SIDES[side]}")
