"""The web shop: what its traces say, and that they say it again."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from flowdiff.simulation import shop_plan
from schemas.errors import ConfigError
from simulator.shop import DEPLOYED, ROLLOUT_S, SLOW_STOCK, ShopPlan, shop_lines

PLAN = ShopPlan(4000, 3, 10**18, deployed_s=200.0, slow_ms=45.0)


def spans(plan: ShopPlan) -> list[dict[str, Any]]:
    """Spans with the resource attributes of their service, times in seconds of the run."""
    found = []
    for line in shop_lines(plan):
        for group in json.loads(line)["resourceSpans"]:
            of = {a["key"]: a["value"]["stringValue"] for a in group["resource"]["attributes"]}
            for span in group["scopeSpans"][0]["spans"]:
                values = {a["key"]: next(iter(a["value"].values())) for a in span["attributes"]}
                at, end = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
                seconds = {"at": (at - plan.start_ns) / 1e9, "took_ms": (end - at) / 1e6}
                found.append({**span, **of, **values, **seconds})
    return found


@pytest.fixture(scope="module")
def told() -> list[dict[str, Any]]:
    return spans(PLAN)


def test_the_same_arguments_give_the_same_bytes() -> None:
    assert [*shop_lines(PLAN)] == [*shop_lines(PLAN)]
    assert [*shop_lines(replace(PLAN, seed=4))] != [*shop_lines(PLAN)]


def test_every_span_has_its_parent_inside_of_its_request(told: list[dict[str, Any]]) -> None:
    known = {(span["traceId"], span["spanId"]) for span in told}
    assert len(known) == len(told)
    roots = Counter(span["traceId"] for span in told if "parentSpanId" not in span)
    assert len(roots) == PLAN.requests
    assert {*roots.values()} == {1}
    assert all((s["traceId"], s["parentSpanId"]) in known for s in told if "parentSpanId" in s)


def test_instances_are_deployed_one_after_the_other(told: list[dict[str, Any]]) -> None:
    of = [span for span in told if span["service.name"] == DEPLOYED[0]]
    begun = PLAN.deployed_s or 0.0
    assert {s["service.version"] for s in of if s["at"] < begun} == {"1.8.1"}
    assert {s["service.version"] for s in of if begun + 1 < s["at"] < begun + ROLLOUT_S} == {"1.8.1", "1.8.2"}
    assert {s["service.version"] for s in of if s["at"] > begun + 2 * ROLLOUT_S + 1} == {"1.8.2"}


def test_the_new_version_is_slow_for_one_warehouse_alone(told: list[dict[str, Any]]) -> None:
    warehouse = {s["traceId"]: s["warehouse"] for s in told if "warehouse" in s}
    queries = [s for s in told if s["name"] == "SELECT stock"]
    slow = {(s["service.version"], warehouse[s["traceId"]]) for s in queries if s["took_ms"] > 10}
    assert slow == {("1.8.2", "eu-2")}
    new = {s["service.version"] for s in told if s["name"] == "SELECT warehouses"}
    assert new == {"1.8.2"}


def test_a_declined_card_is_tried_again_and_fails_the_request(told: list[dict[str, Any]]) -> None:
    charges = Counter(s["traceId"] for s in told if s["name"] == "POST /v1/charges")
    assert {*charges.values()} == {1, 2}
    failed = {s["traceId"] for s in told if s.get("status") and "parentSpanId" not in s}
    assert failed
    assert all(charges[trace] == 2 for trace in failed)


def test_a_fault_that_it_does_not_have_is_refused() -> None:
    assert shop_plan(5, 1, 0, ["s1"], [10.0], [2.0]) == ShopPlan(5, 1, 0, deployed_s=2.0, slow_ms=10.0)
    with pytest.raises(ConfigError, match=SLOW_STOCK):
        shop_plan(5, 1, 0, ["F1"])
    with pytest.raises(ConfigError, match="nothing to simulate"):
        shop_plan(0, 1, 0)
    with pytest.raises(ConfigError, match="more severities or starts than faults"):
        shop_plan(5, 1, 0, (), [10.0])
