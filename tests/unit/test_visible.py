"""Text of strangers: nothing steers, turns around or hides."""

from __future__ import annotations

import ast
import json
import unicodedata
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from rich.table import Table
from rich.text import Text

from flowdiff.cli.terminal import drawn, echo, echo_json, echo_lines
from schemas.visible import ESCAPED_CLASS, escaped, visible, visible_lines

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


def test_lines_stay_lines() -> None:
    assert visible_lines("a\x1b\nb\u202e\r\n") == "a␛\nb�␍\n"


def test_whatever_is_printed_is_safe(capsys: pytest.CaptureFixture[str]) -> None:
    echo("a\x1b[2J\nb")
    echo("c\x9b", err=True)
    echo_lines("d\x07\ne")
    echo_json('{"a": "\u202e"}')
    assert capsys.readouterr() == ('a␛[2J␊b\nd␇\ne\n{"a": "\\u202e"}\n', "c�\n")
    table = Table("x\x1b[2J", "y")
    table.add_row(Text("\u202e", style="bold red"), "\x9bz")
    text = drawn(lambda console: console.print(table, Text("k\x1b]0;owned\x07")), 60)
    assert not set(text) & set("\x1b\x07\x9b\u202e")
    assert {"␛", "�"} <= set(text)


def test_the_command_line_prints_in_one_place(repository: Path) -> None:
    """Whatever else calls what writes to a terminal would have to be as careful, and one day is not."""
    writes = {"print", "Console", "secho"}
    found = {
        f"{path.relative_to(repository)}: {ast.unparse(node.func)}"
        for path in (repository / "flowdiff").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and (
            (isinstance(node.func, ast.Name) and node.func.id in writes)
            or ast.unparse(node.func) in ("typer.echo", "click.echo", "sys.stdout.write", "sys.stderr.write")
        )
    }
    assert found == {"flowdiff/cli/terminal.py: typer.echo"}
