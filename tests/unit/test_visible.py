"""Text of strangers: nothing steers, turns around or hides."""

from __future__ import annotations

import json
import unicodedata

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from schemas.visible import ESCAPED_CLASS, escaped, visible

HARMLESS = "aé漢字µ–→🙂 ́\u202f\u00a0"
"""Letters, marks, symbols, and the blanks that we print ourselves."""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x00b\x1bc\x7fd\x9be", "a␀b␛c␡d�e"),
        ("\t\r\n", "␉␍␊"),
        ("\u200b\u200d\u202e\u2066\ufeff\u00ad\u3164", "�" * 7),
        ("\u2028\u2029", "␊␊"),
        ("\U000e0041", "�"),
        ("x\udcff\ud800", "x\\xff�"),
        (HARMLESS, HARMLESS),
    ],
)
def test_visible(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_no_control_or_format_character_gets_through() -> None:
    bad = [
        chr(code)
        for code in range(0x110000)
        if unicodedata.category(chr(code)) in ("Cc", "Cf", "Zl", "Zp", "Cs") and not _written(code)
    ]
    assert len(bad) > 2000
    for char in bad:
        assert char not in visible(char), hex(ord(char))
        assert char not in escaped(char), hex(ord(char))


def _written(code: int) -> bool:
    """Format characters that scripts write: signs before numbers, and notes of music or shorthand."""
    name = unicodedata.name(chr(code), "")
    return any(word in name for word in ("ARABIC", "SYRIAC", "KAITHI", "EGYPTIAN", "SHORTHAND", "MUSICAL"))


def test_escaped_is_what_json_reads_back() -> None:
    text = "a\u200b\x1b\u2028\ufeff\U000e0041b"
    assert json.loads(f'"{escaped(text)}"') == text
    assert escaped("a\tb\nc", keep_line_ends=True) == "a\tb\nc"


def test_the_class_matches_what_is_escaped() -> None:
    texts = ["a\u200b", "\x1b", HARMLESS, "\ufeffx", "\U000e0041", ""]
    assert pc.match_substring_regex(pa.array(texts), ESCAPED_CLASS).to_pylist() == [
        escaped(text) != text for text in texts
    ]
