"""Make untrusted text safe to show: without terminal controls, direction changes and invisible characters.

Names come from traces, so they are hostile data. `visible` is for people (one character becomes one other);
`escaped` is for files (`\\u200b`) and loses nothing.
"""

from __future__ import annotations

from typing import Final

_CONTROLS: Final = (*range(0x20), 0x7F, *range(0x80, 0xA0))
_LINE_ENDS: Final = (0x2028, 0x2029)
# Unicode format characters, and blank letters: they change the direction of text, or make different names
# look the same.
_INVISIBLE: Final = (
    0x00AD,
    0x034F,
    0x061C,
    *(0x115F, 0x1160, 0x17B4, 0x17B5),
    *range(0x180B, 0x1810),
    *range(0x200B, 0x2010),
    *range(0x202A, 0x202F),
    *range(0x2060, 0x2070),
    *(0x3164, 0xFEFF, 0xFFA0),
    *range(0xFFF9, 0xFFFC),
    *range(0xE0000, 0xE0080),
)
_SURROGATES: Final = range(0xD800, 0xE000)
_BYTES: Final = range(0xDC80, 0xDD00)
"""Code points by which Python represents the bytes 0x80 to 0xFF of names that are not UTF-8."""

_VISIBLE: Final[dict[int, int | str]] = {
    **dict.fromkeys([*range(0x80, 0xA0), *_INVISIBLE, *_SURROGATES], 0xFFFD),
    **{code: 0x2400 + code for code in range(0x20)},
    **dict.fromkeys(_LINE_ENDS, 0x240A),
    **{code: f"\\x{code - 0xDC00:02x}" for code in _BYTES},
    0x7F: 0x2421,
}
_ESCAPED: Final[dict[int, int | str]] = {
    **{code: f"\\u{code:04x}" for code in (*_CONTROLS, *_LINE_ENDS, *_INVISIBLE) if code <= 0xFFFF},
    **{
        code: f"\\u{0xD7C0 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
        for code in _INVISIBLE
        if code > 0xFFFF
    },
    **{code: f"\\u{code:04x}" for code in _SURROGATES},
}

ESCAPED_CLASS: Final = (
    "[" + "".join(f"\\x{{{code:x}}}" for code in (*_CONTROLS, *_LINE_ENDS, *_INVISIBLE)) + "]"
)
"""RE2 class of the characters that `escaped` changes, except surrogates (no Arrow text has one)."""

_IN_FILES: Final = {code: text for code, text in _ESCAPED.items() if code not in (0x09, 0x0A, 0x0D)}


def visible(text: str) -> str:
    """`text` on one line, with pictures for control characters, U+FFFD for invisible and bidi ones.

    A byte of a name that is not UTF-8 becomes `\\xNN`.
    """
    plain = text.isascii() and text.isprintable()  # nearly every name, and ten times as fast
    return text if plain else text.translate(_VISIBLE)


def visible_lines(text: str) -> str:
    """Apply `visible` to each line of a text, keeping line ends."""
    return visible(text) if "\n" not in text else "\n".join(map(visible, text.split("\n")))


def escaped(text: str, *, keep_line_ends: bool = False) -> str:
    """`text` with unsafe characters as JSON escapes (`\\u200b`); tab, CR and LF too unless
    `keep_line_ends`."""
    return text.translate(_IN_FILES if keep_line_ends else _ESCAPED)


def readable_name(name: str) -> str:
    """File name as storable text: bytes that are not UTF-8 become `\\xff`, other characters are unchanged."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
