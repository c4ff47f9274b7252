"""When a comparison fails a gate."""

import pytest
from oracles.populations import constant_chain, population

from analyze.compare import compare
from analyze.report.assemble import PeriodName
from analyze.report.gate import FailOn, Floor, fails, parse_floor
from analyze.settings import PaperSettings
from schemas.errors import ConfigError
from schemas.report import Comparison


@pytest.fixture(scope="module")
def structural() -> Comparison:
    """One structural mutation of 60 requests x 3 ms = 180 ms; 200 ms + 10 ms before."""
    p = population(
        constant_chain(("r", "a"), 100, 20, 2000, 2000), constant_chain(("r", "b"), 2, 62, 5000, 5000)
    )
    return compare(p, PeriodName("x", 0, 1), PeriodName("y", 1, 2), PaperSettings()).comparison


@pytest.mark.parametrize(
    ("on", "expected"),
    [("mutations", True), ("structural", True), ("response-time", False), ("never", False)],
)
def test_kind_decides(structural: Comparison, on: str, expected: bool):
    assert fails(structural, FailOn(on), Floor()) is expected


@pytest.mark.parametrize(
    ("floor", "expected"), [("180ms", True), ("181ms", False), ("85%", True), ("86 %", False), ("0.5%", True)]
)
def test_floor_decides(structural: Comparison, floor: str, expected: bool):
    assert structural.mutations[0].contribution_us == 180_000
    assert structural.reference.total_us == 210_000
    assert fails(structural, FailOn.MUTATIONS, parse_floor(floor)) is expected


@pytest.mark.parametrize("text", ["", "5", "-1s", "much", "%"])
def test_other_floors_are_refused(text: str):
    with pytest.raises(ConfigError, match="is not a contribution"):
        parse_floor(text)
