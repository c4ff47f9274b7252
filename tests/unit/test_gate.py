"""When a comparison fails a gate."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from oracles.paper_report import paper_outcome
from oracles.populations import constant_chain, population

from analyze.report.gate import Floor, GateCode, Outcome, Weighed, gate, parse_fail_on, parse_floor
from analyze.report.limits import ReportLimits
from schemas.errors import ConfigError
from schemas.report.mutations import MutationKind, MutationsSection


@pytest.fixture(scope="module")
def structural() -> Outcome:
    """One structural mutation of 60 requests x 3 ms = 180 ms; 200 ms + 10 ms before."""
    p = population(
        constant_chain(("r", "a"), 100, 20, 2000, 2000), constant_chain(("r", "b"), 2, 62, 5000, 5000)
    )
    return paper_outcome(p)


KINDS = ("response-time", "structural", "errors")


def code(outcome: Outcome, words: Sequence[str] = ("any",), floor: str | None = None) -> int:
    return gate(outcome, parse_fail_on(words, KINDS), Floor() if floor is None else parse_floor(floor)).code


@pytest.mark.parametrize(
    ("on", "expected"),
    [
        (("any",), 1),
        (("findings",), 1),
        (("mutations",), 1),
        (("structural",), 1),
        (("response-time",), 0),
        (("errors", "structural"), 1),
        (("never",), 0),
    ],
)
def test_kind_decides(structural: Outcome, on: tuple[str, ...], expected: int):
    assert code(structural, on) == expected


@pytest.mark.parametrize(
    ("floor", "expected"), [("180ms", 1), ("181ms", 0), ("85%", 1), ("86 %", 0), ("0.5%", 1)]
)
def test_floor_decides(structural: Outcome, floor: str, expected: int):
    assert structural.report.section(MutationsSection).mutations[0].contribution_us == 180_000
    assert structural.report.sample("reference").total_us == 210_000
    assert code(structural, floor=floor) == expected


def test_what_the_report_leaves_out_counts_too():
    slower = constant_chain(("w", "x"), 40, 40, 1000, 1100)  # 40 x 100 µs
    p = population(
        constant_chain(("r", "a"), 100, 20, 2000, 2000), constant_chain(("r", "b"), 2, 62, 5000, 5000), slower
    )
    outcome = paper_outcome(p, ReportLimits(mutations=1, detailed=0))
    assert [m.kind for m in outcome.report.section(MutationsSection).mutations] == [MutationKind.STRUCTURAL]
    assert code(outcome, ("response-time",), "4ms") == GateCode.CHANGED
    assert code(outcome, ("response-time",), "5ms") == GateCode.PASSED


def test_nothing_found_fails_nothing():
    same = population(constant_chain(("r", "a"), 40, 40, 1000, 1000))
    assert code(paper_outcome(same)) == GateCode.PASSED


def weighing(structural: Outcome, *weighed: Weighed) -> Outcome:
    return replace(structural, weighed=weighed)


def test_what_is_open_gives_3_unless_something_sure_counts(structural: Outcome):
    open_ = Weighed("errors", None, sure=False)
    assert code(weighing(structural, open_)) == GateCode.UNSURE
    assert code(weighing(structural, open_), ("errors",)) == GateCode.UNSURE
    assert code(weighing(structural, open_), ("structural",)) == GateCode.PASSED
    assert code(weighing(structural, open_), ("never",)) == GateCode.PASSED
    sure = Weighed("structural", 1000.0)
    assert code(weighing(structural, open_, sure)) == GateCode.CHANGED
    assert code(weighing(structural, open_, sure), floor="2ms") == GateCode.UNSURE


def test_what_is_no_matter_of_time_has_no_floor(structural: Outcome):
    assert code(weighing(structural, Weighed("errors", None)), floor="1h") == GateCode.CHANGED
    assert code(weighing(structural, Weighed("errors", 5.0)), floor="1h") == GateCode.PASSED


def test_what_got_better_passes_where_only_the_worse_counts(structural: Outcome):
    faster = Weighed("response-time", -5.0, better=True)
    open_ = Weighed("response-time", -5.0, sure=False, better=True)
    assert code(weighing(structural, faster)) == GateCode.CHANGED
    assert code(weighing(structural, faster, open_), ("worse",)) == GateCode.PASSED
    assert code(weighing(structural, faster), ("worse", "response-time")) == GateCode.PASSED
    assert code(weighing(structural, faster, Weighed("errors", None)), ("any", "worse")) == GateCode.CHANGED
    slower = Weighed("response-time", 5.0)
    assert code(weighing(structural, slower), ("worse", "errors")) == GateCode.PASSED
    assert code(weighing(structural, slower), ("worse",)) == GateCode.CHANGED


@pytest.mark.parametrize("words", [("sometimes",), ("structural", "conc"), ("never", "errors")])
def test_words_that_mean_nothing_are_refused(words: tuple[str, ...]):
    with pytest.raises(ConfigError, match="--fail-on"):
        parse_fail_on(words, KINDS)


@pytest.mark.parametrize("text", ["", "5", "-1s", "much", "%"])
def test_other_floors_are_refused(text: str):
    with pytest.raises(ConfigError, match="is not a contribution"):
        parse_floor(text)
