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
        (0.0, True, "0 %"),
        (0.123, False, "12 %"),
        (0.0041, True, "+0.4 %"),
        (0.00041, True, "+0.04 %"),
        (-0.0000123, False, "−0.001 %"),
        (-0.5, False, "−50 %"),
        (12.17, True, "+1217 %"),
        (1e-14, False, "0.000000000001 %"),
        (1e-16, False, "0 %"),
        (-1e-16, True, "0 %"),
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
    ("value", "text"),
    [
        (0.0, "0"),
        (0.00000211, "0.00000211"),
        (1234567.0, "1234567"),
        (0.183, "0.183"),
        (1e-14, "0"),
        (1e-5, "0.00001"),
    ],
)
def test_significant(value: float, text: str):
    assert wording.significant(value) == text


@pytest.mark.parametrize(
    ("before", "after", "texts"),
    [
        (2_713_100.0, 2_713_400.0, ("2.7131 s", "2.7134 s")),
        (166_000.0, 386_000.0, ("166 ms", "386 ms")),
        (999_970.0, 1_000_400.0, ("999.97 ms", "1.0004 s")),
        (1000.0, 1000.0, ("1 ms", "1 ms")),
        (1e6, 1e6 + 0.1, ("1 s", "1 s")),
        (None, 3.0, ("–", "3 µs")),
    ],
)
def test_durations_are_told_apart(before: float | None, after: float | None, texts: tuple[str, str]):
    assert tuple(text.replace(wording.NBSP, " ") for text in wording.durations(before, after)) == texts
    assert wording.moved_duration(before, after).replace(wording.NBSP, " ") == " → ".join(texts)


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (2_713_100.0, 2_713_400.0, "2.7131 s → 2.7134 s (+0.01 %)."),
        (386_000.0, 166_000.0, "386 ms → 166 ms (−57 %)."),
        (1e6, 1e6, "1 s in both periods."),
        (1e6, 1e6 + 0.1, "1 s in both periods."),
        (0.0, 10.0, "0 µs → 10 µs."),
    ],
)
def test_headline_never_moves_from_a_number_to_itself(before: float, after: float, text: str):
    told = wording.measured_sentence(before, after).replace(wording.NBSP, " ")
    assert told == f"Mean response time {text}"


@pytest.mark.parametrize(
    ("names", "prefix"),
    [
        (("shop/hipstershop.Cart/Add", "shop/hipstershop.Cart/Empty"), "shop/hipstershop.Cart/"),
        (("frontend/GET /api/a", "frontend/GET /api/b", "frontend/POST /a"), "frontend/"),
        (("frontend/", "frontend/a"), ""),
        (("a/b", "a/c"), ""),
        (("frontend/GET",), ""),
        ((), ""),
    ],
)
def test_what_names_share_ends_at_a_separator(names: tuple[str, ...], prefix: str) -> None:
    assert wording.common_prefix(names) == prefix


def test_a_name_after_another_is_without_what_they_share() -> None:
    said = "checkoutservice/hipstershop.CheckoutService/PlaceOrder"
    assert wording.after(said, "checkoutservice/hipstershop.CheckoutService/Ship") == "…/Ship"
    assert wording.after(said, "checkoutservice/hipstershop.Email/Send") == "…Email/Send"
    assert wording.after(said, "paymentservice/Charge") == "paymentservice/Charge"


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (1.3, "×1.3"),
        (845.2, "×845"),
        (999.6, "×1,000"),
        (15_037.0, "×15,000"),
        (99_999.0, "×1e5"),
        (31_701_765.0, "×3e7"),
        (2.6e12, "×3e12"),
        (0.00344, "×0.00344"),
    ],
)
def test_factors_are_told_by_their_order_where_they_are_large(ratio: float, text: str) -> None:
    assert wording.factor(ratio) == text
