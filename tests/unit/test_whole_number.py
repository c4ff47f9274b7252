"""Whole numbers of an address."""

from __future__ import annotations

import pytest

from flowdiff.serve.answer import whole_number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("00012", 12),
        ("-7", -7),
        ("0" * 5000 + "9", 9),
        ("100", 100),
        ("101", None),
        ("-101", None),
        ("9" * 5000, None),
        ("0" * 20 + "9" * 5000, None),
        ("", None),
        ("-", None),
        ("--1", None),
        ("1_0", None),
        ("²", None),
        ("١", None),
    ],
)
def test_a_number_of_any_length_is_read_or_refused(text: str, number: int | None) -> None:
    assert whole_number(text, -100, 100) == number
