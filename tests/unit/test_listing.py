"""Rows for people: whatever the width, no number is cut, no column dropped, and what is cut is marked."""

from __future__ import annotations

import random
import re

import pytest
from rich.cells import cell_len

from analyze.report.text_table import Heading, Kind
from flowdiff.cli.listing import BAR, print_rows, print_sentence, width_of_output

WIDTHS = (60, 72, 80, 100, 120, 160, 200)
ROOT = "frontend/hipstershop.Frontend/Recv."


def printed(
    capsys: pytest.CaptureFixture[str],
    columns: list[Heading],
    rows: list[list[str]],
    width: int | None,
) -> list[str]:
    capsys.readouterr()
    print_rows(columns, rows, width)
    return capsys.readouterr().out.splitlines()


def check(
    capsys: pytest.CaptureFixture[str], columns: list[Heading], rows: list[list[str]], width: int | None
) -> list[str]:
    """Print, and hold what comes out to the promises."""
    lines = printed(capsys, columns, rows, width)
    whole = "\n".join(lines)
    is_table = BAR.strip() not in whole and (bool(rows) or len(lines) == 1)
    for i, column in enumerate(columns):
        assert column.name in (lines[0] if is_table else whole) or (rows and not is_table)
        if column.kind in (Kind.NUMBER, Kind.EXACT):
            told = [re.split(r"(?:^|\s)(?=\S)|\s", line) for line in lines]
            for row in rows:
                assert any(row[i] in words for words in told), (column, row[i], lines)
    if width is not None and is_table:
        assert all(cell_len(line) <= width for line in lines)
    return lines


@pytest.mark.parametrize("width", WIDTHS)
def test_the_digits_of_issue_6_are_whole(capsys: pytest.CaptureFixture[str], width: int) -> None:
    columns = [
        Heading("root"),
        Heading("category"),
        Heading("max(n_nodes)", Kind.NUMBER),
        Heading("avg(response_us)", Kind.NUMBER),
    ]
    rows = [[ROOT, "56c04ad17356c147b21f5a4c5b15c0f5", "210", "311199.92151515145"]]
    lines = check(capsys, columns, rows, width)
    assert "210" in " ".join(lines).split()


@pytest.mark.parametrize("width", WIDTHS)
def test_promises_hold_for_any_rows(capsys: pytest.CaptureFixture[str], width: int) -> None:
    rng = random.Random(width)
    for _ in range(60):
        kinds = [rng.choice([Kind.NUMBER, Kind.EXACT, Kind.TEXT]) for _ in range(rng.randint(1, 12))]
        columns = [Heading("n" * rng.randint(1, 20) + str(i), kind) for i, kind in enumerate(kinds)]
        rows = [[_cell(rng, kind) for kind in kinds] for _ in range(rng.randint(0, 4))]
        check(capsys, columns, rows, width)


def _cell(rng: random.Random, kind: Kind) -> str:
    if kind is Kind.NUMBER:
        return str(rng.randint(0, 10 ** rng.randint(1, 18)))
    if kind is Kind.EXACT:
        return rng.choice(["2026-11-19T09:00:00", "True", "9ed4fb5830"])
    return "".join(rng.choice("abcdé漢/.") for _ in range(rng.randint(0, 80)))


def test_a_text_gives_way_in_its_middle(capsys: pytest.CaptureFixture[str]) -> None:
    columns = [Heading("root"), Heading("n", Kind.NUMBER)]
    assert printed(capsys, columns, [[ROOT, "7"]], 20) == ["root               n", "frontend…nd/Recv.  7"]


def test_where_texts_cannot_give_way_rows_become_blocks(capsys: pytest.CaptureFixture[str]) -> None:
    columns = [Heading(f"measure {i}", Kind.NUMBER) for i in range(9)]
    lines = printed(capsys, columns, [[str(10**i) for i in range(9)]], 60)
    assert lines[0].startswith("── row 1 ─")
    assert lines[1:3] == ["measure 0 │ 1", "measure 1 │ 10"]
    assert lines[-1] == "measure 8 │ 100000000"


def test_blanks_between_columns_go_first(capsys: pytest.CaptureFixture[str]) -> None:
    columns = [Heading("aaaa", Kind.NUMBER), Heading("bbbb", Kind.NUMBER)]
    assert printed(capsys, columns, [["1", "2"]], 10)[0] == "aaaa  bbbb"
    assert printed(capsys, columns, [["1", "2"]], 9)[0] == "aaaa bbbb"


def test_wide_characters_count_as_two_cells(capsys: pytest.CaptureFixture[str]) -> None:
    columns = [Heading("root"), Heading("n", Kind.NUMBER)]
    lines = printed(capsys, columns, [["漢字" * 20, "7"], ["ab", "12"]], 40)
    assert all(cell_len(line) <= 40 for line in lines)
    assert "…" in lines[1]
    assert lines[1].endswith("  7")
    assert lines[2].endswith(" 12")


def test_prose_is_broken_into_lines(capsys: pytest.CaptureFixture[str]) -> None:
    columns = [Heading("flag", Kind.EXACT), Heading("meaning", Kind.PROSE)]
    sentence = "one two three four five six seven eight nine ten eleven twelve"
    lines = printed(capsys, columns, [["X", sentence]], 40)
    assert " ".join(" ".join(lines[1:]).removeprefix("X").split()) == sentence
    assert all(len(line) <= 40 for line in lines)
    assert len(lines) > 2


def test_words_of_a_block_are_broken_into_lines_and_no_word_is_lost(
    capsys: pytest.CaptureFixture[str],
) -> None:
    columns = [Heading("key", Kind.EXACT), Heading("said", Kind.WORDS), Heading("page", Kind.EXACT)]
    sentence = "one two three four five six seven eight nine ten eleven twelve"
    lines = printed(capsys, columns, [["k" * 20, sentence, "p" * 20]], 40)
    said = [line.partition("│")[2].strip() for line in lines if "│" in line]
    assert " ".join(said) == f"{'k' * 20} {sentence} {'p' * 20}"
    assert all(len(line) <= 40 for line in lines)


def test_without_a_terminal_nothing_is_shortened(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    long = "x" * 3000
    assert width_of_output() is None
    assert long in printed(capsys, [Heading("a"), Heading("b")], [[long, "1"]], None)[1]
    monkeypatch.setenv("COLUMNS", "70")
    assert width_of_output() == 70
    assert all(len(line) <= 70 for line in printed(capsys, [Heading("a"), Heading("b")], [[long, "1"]], None))


def test_what_a_name_would_do_to_the_terminal_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, [Heading("a\x1b[2J")], [["b\u202ec\u200bd\u2028e\ufeff"]], 80)
    assert lines == ["a␛[2J", "b�c�d␊e�"]
    print_sentence("a\nb\u200b")
    assert capsys.readouterr().out == "a␊b�\n"
