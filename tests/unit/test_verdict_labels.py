"""Names with ids: what pattern is proposed, and that hostile names do no harm."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.examples import examples

from analyze.methods.robust.settings import VerdictSettings
from analyze.methods.robust.verdict.data_quality import Cleaning, hold_ids, propose_cleaning


def cleaned(how: Cleaning, name: str) -> str:
    return re.sub(how.pattern, "#", name)


@pytest.mark.parametrize(
    ("make", "what", "left"),
    [
        (lambda at: f"User: fs -mkdir dir_{at}", "numbers", "User: fs -mkdir dir_#"),
        (lambda at: f"GET /cart/{at * 7919}/items/{at}", "numbers", "GET /cart/#/items/#"),
        (lambda at: f'select "user {chr(97 + at % 26)}{chr(97 + at // 26)}"', "quoted words", "select #"),
        (
            lambda at: f"job-{at * 2654435761 % 2**32:08x}-{at:04x}-4{at % 999:03x}-a000-{at * 99991:012x}",
            "UUIDs",
            "job-#",
        ),
        (lambda at: f"tx {at * 2654435761 % 2**48:012x}a", "hexadecimal ids", "tx #"),
    ],
)
def test_ids_are_found(make: object, what: str, left: str) -> None:
    names = [make(at) for at in range(1, 301)]  # type: ignore[operator]
    assert hold_ids(names, 400, VerdictSettings())
    found = propose_cleaning(names, VerdictSettings().names_many)
    assert found is not None
    assert what in found.what
    assert found.after <= 3
    assert left in {cleaned(found, name) for name in names}


def test_the_simplest_pattern_that_does_is_taken() -> None:
    names = [f"fs -put file_{at}" for at in range(100)] + ["GET /", 'say "hello"']
    found = propose_cleaning(names, 0.5)
    assert found is not None
    assert found.what == ("numbers",)
    assert found.rule == "s/[0-9]+/#/g"
    assert found.after == 3
    assert found.example == ("fs -put file_0", "fs -put file_#")


def test_the_rule_does_what_it_says() -> None:
    names = [f'"{at}"/{at * 2654435761 % 2**40:010x}' for at in range(100)]
    found = propose_cleaning(names, 0.5)
    assert found is not None
    pattern = re.fullmatch(r"s/(.*)/#/g", found.rule)
    assert pattern is not None
    assert {re.sub(pattern[1].replace("\\/", "/"), "#", name) for name in names} == {
        cleaned(found, name) for name in names
    }
    assert len({cleaned(found, name) for name in names}) == found.after


def test_names_that_are_few_or_plain_are_let_be() -> None:
    assert not hold_ids([f"op{at}" for at in range(19)], 20, VerdictSettings())
    assert not hold_ids([f"op{at}" for at in range(100)], 1_000, VerdictSettings())
    assert not hold_ids([], 0, VerdictSettings())
    words = [f"{a}{b}{c}" for a in "abcde" for b in "fghij" for c in "klmno"]
    assert hold_ids(words, 130, VerdictSettings())
    assert propose_cleaning(words, VerdictSettings().names_many) is None


HOSTILE = [
    "",
    "#",
    "'" * 5_000,
    '"' + "a" * 100_000,
    "0" * 100_000,
    "a1" * 50_000,
    "\x00\x1b[31m\n" * 100,
    "٣٤٥" * 100,
    "f" * 63 + "g",
    "-" * 70_000,
    "../" * 1_000,
    "$(rm -rf 1) \\1 \\g<0> (?P<x>",
]


def test_hostile_names_do_no_harm() -> None:
    names = [f"{name}{at}" for at in range(20) for name in HOSTILE]
    start = time.process_time()
    assert hold_ids(names, len(names), VerdictSettings())
    found = propose_cleaning(names, VerdictSettings().names_many)
    assert found is not None
    assert re.compile(found.pattern)
    assert time.process_time() - start < 2


@examples(100)
@given(st.lists(st.text(max_size=40), min_size=20, max_size=60, unique=True))
def test_whatever_the_names(names: list[str]) -> None:
    found = propose_cleaning(names, VerdictSettings().names_many)
    if found is None:
        return
    cleaned = {cleaned(found, name) for name in names}
    assert len(cleaned) == found.after <= len(names) / 2
    assert {cleaned(found, name) for name in cleaned} == cleaned


def test_more_names_than_are_looked_at() -> None:
    found = propose_cleaning([f"dir_{at}" for at in range(50_000)], 0.5)
    assert found is not None
    assert found.after <= 3
