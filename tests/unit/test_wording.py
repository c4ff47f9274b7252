"""How numbers are worded."""

import pytest

from analyze.report import wording


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (None, "–"),
        (0.0, "0 µs"),
        (0.5, "500 ns"),
        (417.0, "417 µs"),
        (999.7, "1 ms"),
        (12_345.0, "12.3 ms"),
        (467_000.0, "467 ms"),
        (4_070_000.0, "4.07 s"),
        (65_374_237.0, "65.4 s"),
        (1e10, "10000 s"),
        (-3.2, "-3.2 µs"),
    ],
)
def test_duration(us: float | None, text: str):
    assert wording.duration(us).replace(wording.NBSP, " ") == text


@pytest.mark.parametrize(("us", "text"), [(None, "–"), (3.0, "+3 µs"), (-3000.0, "−3 ms"), (0.0, "±0 µs")])
def test_change(us: float | None, text: str):
    assert wording.change(us).replace(wording.NBSP, " ") == text


@pytest.mark.parametrize(
    ("share", "sign", "text"),
    [
        (None, False, "–"),
        (0.0, True, "0.0 %"),
        (0.123, False, "12 %"),
        (0.0041, True, "+0.4 %"),
        (-0.5, False, "−50 %"),
        (12.17, True, "+1217 %"),
    ],
)
def test_percent(share: float | None, sign: bool, text: str):
    assert wording.percent(share, sign=sign).replace(wording.NBSP, " ") == text


@pytest.mark.parametrize(
    ("p", "text"),
    [(None, "not run"), (0.0, "< 1e-300"), (3.2e-65, "3e-65"), (4e-7, "4e-7"), (0.0312, "0.031")],
)
def test_p_value(p: float | None, text: str):
    assert wording.p_value(p) == text


def test_clip_keeps_both_ends():
    assert wording.clip("abcdefghij", 10) == "abcdefghij"
    clipped = wording.clip("abcdefghijk", 6)
    assert clipped == "ab…ijk"
    assert len(clipped) == 6


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0"), (0.00000211, "0.00000211"), (1234567.0, "1234567"), (0.183, "0.183")]
)
def test_significant(value: float, text: str):
    assert wording.significant(value) == text
