"""Described segments do what their description says, the same from the same seed, and their faults act."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from evaluation.segments import played
from evaluation.segments.described import SIZES, Fault, Scenario, scenarios_of, system_of
from evaluation.segments.played import Playing
from evaluation.segments.recorded import T0

from ingest.formats import codec_for
from schemas.config import DecodeConfig

pytestmark = pytest.mark.evaluation

QUIET = Scenario("quiet")


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A window of few requests."""
    monkeypatch.setattr(played, "REQUESTS", 2_000)


def spans(lines: list[str]) -> list[tuple[str, dict[str, Any], dict[str, str]]]:
    """(service, span, attributes of the span and its resource)."""
    found = []
    for line in lines:
        for resource in json.loads(line)["resourceSpans"]:
            known = _texts(resource["resource"])
            found += [
                (known["service.name"], span, known | _texts(span))
                for span in resource["scopeSpans"][0]["spans"]
            ]
    return found


def _texts(of: dict[str, Any]) -> dict[str, str]:
    return {pair["key"]: next(iter(pair["value"].values())) for pair in of["attributes"]}


@pytest.mark.parametrize("seed", range(len(SIZES)))
def test_the_same_seed_gives_the_same_bytes_and_every_scenario_others(seed: int) -> None:
    system = system_of(seed)
    assert len(system.services) == SIZES[seed]
    quiet = list(Playing(system, QUIET, 0, T0).lines())
    assert list(Playing(system, QUIET, 0, T0).lines()) == quiet
    assert list(Playing(system, QUIET, 1, T0).lines()) != quiet
    for scenario in scenarios_of(system):
        assert list(Playing(system, scenario, 0, T0).lines()) != quiet, scenario.name


def test_spans_are_decoded_and_have_fifteen_to_thirty_attributes() -> None:
    lines = list(Playing(system_of(0), QUIET, 0, T0).lines())
    decoded = codec_for("otlp-json").decode([line.encode() for line in lines], DecodeConfig())
    made = spans(lines)
    assert decoded.events.num_rows == len(made)
    assert not decoded.rejects
    assert {len(known) for _, _, known in made} <= set(range(15, 31))


def test_a_fault_touches_its_segment_only() -> None:
    fault = Fault("cart", of={"tier": "free", "client.region": "eu"}, fails=1.0)
    made = spans(list(Playing(system_of(0), Scenario("", (fault,)), 0, T0).lines()))
    failed = Counter(
        (known["tier"] == "free" and known["client.region"] == "eu", "status" in span)
        for service, span, known in made
        if service == "cart"
    )
    assert failed[True, False] == 0
    assert failed[True, True] > 50
    assert failed[False, True] < 0.03 * failed[False, False]


def test_a_new_kind_fails_always() -> None:
    made = spans(list(Playing(system_of(1), Scenario("", new_kind=80), 0, T0).lines()))
    refunds = [span for _, span, _ in made if span["name"] == "POST /refund"]
    assert len(refunds) == 80
    assert all("status" in span for span in refunds)
