"""When a comparison fails a gate."""

import pytest
from oracles.paper_report import paper_outcome
from oracles.populations import constant_chain, population

from analyze.report.gate import FailOn, Floor, fails, parse_floor
from analyze.report.limits import ReportLimits
from analyze.report.outcome import Outcome
from schemas.errors import ConfigError
from schemas.report.mutations import MutationKind, MutationsSection


@pytest.fixture(scope="module")
def structural() -> Outcome:
    """One structural mutation of 60 requests x 3 ms = 180 ms; 200 ms + 10 ms before."""
    p = population(
        constant_chain(("r", "a"), 100, 20, 2000, 2000), constant_chain(("r", "b"), 2, 62, 5000, 5000)
    )
    return paper_outcome(p)


@pytest.mark.parametrize(
    ("on", "expected"),
    [("mutations", True), ("structural", True), ("response-time", False), ("never", False)],
)
def test_kind_decides(structural: Outcome, on: str, expected: bool):
    assert fails(structural, FailOn(on), Floor()) is expected


@pytest.mark.parametrize(
    ("floor", "expected"), [("180ms", True), ("181ms", False), ("85%", True), ("86 %", False), ("0.5%", True)]
)
def test_floor_decides(structural: Outcome, floor: str, expected: bool):
    assert structural.report.section(MutationsSection).mutations[0].contribution_us == 180_000
    assert structural.report.sample("reference").total_us == 210_000
    assert fails(structural, FailOn.MUTATIONS, parse_floor(floor)) is expected


def test_what_the_report_leaves_out_counts_too():
    slower = constant_chain(("w", "x"), 40, 40, 1000, 1100)  # 40 x 100 µs
    p = population(
        constant_chain(("r", "a"), 100, 20, 2000, 2000), constant_chain(("r", "b"), 2, 62, 5000, 5000), slower
    )
    outcome = paper_outcome(p, ReportLimits(mutations=1, detailed=0))
    assert [m.kind for m in outcome.report.section(MutationsSection).mutations] == [MutationKind.STRUCTURAL]
    assert fails(outcome, FailOn.RESPONSE_TIME, parse_floor("4ms"))
    assert not fails(outcome, FailOn.RESPONSE_TIME, parse_floor("5ms"))


def test_nothing_found_fails_nothing():
    same = population(constant_chain(("r", "a"), 40, 40, 1000, 1000))
    outcome = paper_outcome(same)
    assert not fails(outcome, FailOn.MUTATIONS, Floor())


@pytest.mark.parametrize("text", ["", "5", "-1s", "much", "%"])
def test_other_floors_are_refused(text: str):
    with pytest.raises(ConfigError, match="is not a contribution"):
        parse_floor(text)
