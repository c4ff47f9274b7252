"""The rules of other tools do what their pages say, on spans made by hand."""

from __future__ import annotations

import polars as pl
import pytest
from evaluation.peers.measure import Asked, best_of, callees, named
from evaluation.peers.rules import Shown, deltas, percentiles, settings, shares


def spans(n: int, slow_at: str = "", *, us: float = 9_000.0, failing: int = 0) -> pl.DataFrame:
    """`n` requests of web, which calls cart; one of the two may be slow, and the first fail."""
    rows = [
        {
            "request_id": str(at),
            "position": position,
            "parent": None if position == 0 else 0,
            "component": component,
            "operation": f"{component}/GET",
            "host": f"{component}-1",
            "status": "error" if component == "cart" and at < failing else "ok",
            "duration_us": us if component == slow_at else 1_000.0 + at,
        }
        for at in range(n)
        for position, component in enumerate(("web", "cart"))
    ]
    return pl.DataFrame(rows)


def test_shares_are_those_of_a_selection_and_its_baseline() -> None:
    shown = shares(spans(20), spans(20, "cart"), "slow", 0.99)
    assert [(row.attribute, row.value) for row in shown] == [
        ("component", "cart"),
        ("host", "cart-1"),
        ("operation", "cart/GET"),
    ]
    # Selected: 20 of cart. The rest: 40 of web, 20 of cart.
    assert shown[0].score == pytest.approx(1 - 20 / 60)
    failing = shares(spans(20), spans(20, failing=5), "failing", 0.0)
    assert failing[0] == Shown("status", "error", 1.0)
    assert shares(spans(20), spans(20), "failing", 0.0) == []


def test_deltas_leave_out_what_is_different_everywhere() -> None:
    apart = spans(30).with_row_index("row").with_columns(pl.col("row").cast(pl.String).alias("host"))
    assert {row.attribute for row in deltas(apart.head(10), apart.tail(10), "period", 0.0)} == {
        "component",
        "operation",
        "status",
    }


def test_percentiles_need_ten_spans_and_a_fifth() -> None:
    assert [row.value for row in percentiles(spans(12), spans(12, "cart"), "relative")] == ["cart/GET"]
    assert percentiles(spans(9), spans(9, "cart"), "relative") == []
    assert percentiles(spans(12, "cart"), spans(12, "cart", us=10_700.0), "relative") == []


def test_a_row_counts_for_what_it_names_and_the_one_that_it_calls() -> None:
    frame = spans(10)
    one = Asked(frame, frame, "cart", True, callees(frame))
    assert named(Shown("operation", "web/GET", 1.0), one) == {"web", "cart"}
    assert named(Shown("host", "cart-1", 1.0), one) == {"cart"}
    assert named(Shown("status", "error", 1.0), one) == set()


def test_a_tool_gets_the_setting_that_serves_it_best() -> None:
    calm, bad = spans(20), spans(20, "cart")
    asked = [Asked(calm, bad, "cart", True, {}), Asked(calm, calm, None, False, {})]
    tools = dict.fromkeys(tool for tool, _, _ in settings())
    assert len(tools) == 9
    for tool in tools:
        (score,) = best_of(tool, asked)
        assert (score.first, score.shown_in_quiet) == (1, 0), tool
