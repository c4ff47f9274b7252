"""Relevance and figures from numbers made by hand."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from evaluation.edges import EdgeMatcher
from evaluation.modes import Result
from evaluation.scoring import CategoryTruth, Evidence, figures, is_relevant, score
from evaluation.truth import FACTS, EdgeTruth
from evaluation.truths import PathFacts, RequestTruth, Rule

SPIN = EdgeTruth(
    src="sn-data/sn/LOG_WRITE", dst="sn-data/sn/STORAGE_NODE_RPC_REPLY", touches=1, added_ns_mean=1.0
)
BOTH = Rule("", lambda r: r.affected, response_time=True)
FACTS_OF = PathFacts(
    {"a": 0, "b": 1}, {k: np.array([0, 3 if k == "partial_modifies" else 0, 0]) for k in FACTS}
)


def requests(affected: list[int], path: list[int], base: list[int]) -> RequestTruth:
    n = len(path)
    return RequestTruth(
        names=pa.array([f"r{i}" for i in range(n)]),
        op=np.array(["READ"] * n, dtype=object),
        start_ns=np.arange(n),
        affected=np.array(affected, dtype=bool),
        path=np.array(path),
        base_path=np.array(base),
        facts=FACTS_OF,
    )


def evidence(rule: Rule = BOTH, weight: float = 1.0) -> Evidence:
    """Problem: x has rows 0-3 (three concerned and moved), y rows 4-7 (two concerned, not moved), z row 8
    (not concerned); row 9, concerned, is in no category. Reference: x none, y rows 0-1 (path a), z row 2 (b).
    """
    problem = requests(
        [1, 1, 1, 0, 1, 1, 0, 0, 0, 1], [1, 1, 1, 1, 0, 0, 0, 0, 0, 1], [0, 0, -1, 1, 0, 0, 0, 0, 0, 0]
    )
    rows = {"x": ([0, 1, 2, 3], []), "y": ([4, 5, 6, 7], [0, 1]), "z": ([8], [2])}
    return Evidence(
        rule=rule,
        reference=requests([0, 0, 0], [0, 0, 1], [0, 0, 1]),
        problem=problem,
        concerned=rule.affected(problem),
        categories={
            key: CategoryTruth(
                np.array(late, np.int64), np.array(early, np.int64), np.full(len(late), weight)
            )
            for key, (late, early) in rows.items()
        },
        is_cause_edge=EdgeMatcher([SPIN]),
        weight1=weight,
    )


FLAGGED = ((SPIN.src, SPIN.dst),)


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (Result("structural", ("x",)), True),
        (Result("structural", ("y",)), False),  # half are concerned, none changed path
        (Result("response-time", ("y",), edges=FLAGGED), True),  # exactly half
        (Result("response-time", ("y",), edges=(("sn-data/sn/DISPATCH", SPIN.dst),)), False),
        (Result("response-time", ("y",)), False),
        (Result("response-time", ("y", "z"), edges=FLAGGED), False),  # two of five
        (Result("structural", ("x", "z")), True),  # a finding: three of five
        (Result("structural", ("x", "x")), True),
    ],
)
def test_a_result_is_relevant_if_half_of_its_requests_are_concerned(result: Result, expected: bool) -> None:
    assert is_relevant(result, evidence()) is expected


def test_a_rule_may_refuse_a_kind() -> None:
    only_slower = Rule("", lambda r: r.affected, structural=False, response_time=True)
    assert not is_relevant(Result("structural", ("x",)), evidence(only_slower))
    only_structural = Rule("", lambda r: r.affected)
    assert not is_relevant(Result("response-time", ("y",), edges=FLAGGED), evidence(only_structural))


def test_a_rule_may_ask_for_the_right_best_precursor() -> None:
    unmodified = Rule(
        "",
        lambda r: r.affected,
        precursor=lambda result, before: bool((before.fact("partial_modifies") == 0).all()),
    )
    given = evidence(unmodified)
    assert is_relevant(Result("structural", ("x",), ("y", "z")), given)
    assert not is_relevant(Result("structural", ("x",), ("z", "y")), given)
    assert not is_relevant(Result("structural", ("x",)), given)


def test_facts_of_a_missing_counterfactual_are_zero() -> None:
    problem = evidence().problem
    assert problem.fact("partial_modifies").tolist()[:5] == [3, 3, 3, 3, 0]
    assert problem.base_fact("partial_modifies").tolist()[:5] == [0, 0, 0, 3, 0]
    assert problem.moved.tolist() == [True, True, True, False, False, False, False, False, False, True]


@pytest.mark.parametrize("weight", [1.0, 10.0])
def test_coverage_counts_requests_that_the_analyzer_lost_and_each_category_once(weight: float) -> None:
    results = [
        Result("structural", ("x",), explained_us=3.0),
        Result("structural", ("z",), explained_us=100.0),
        Result("structural", ("x",), explained_us=4.0),
    ]
    found = score(results, evidence(weight=weight), true_share_us=8.0, true_change_us=-4.0)
    assert found.relevant == 2
    assert found.coverage_pct == pytest.approx(100 * 3 / 6)
    assert found.explained_error_points == pytest.approx(25.0)
    assert found.false_positive_pct == pytest.approx(100 / 3)


def test_figures_of_a_ranked_list() -> None:
    judged = [False, True, True] + [False] * 6 + [True, True, True]
    found = figures(judged, 30.0, 40.0)
    assert (found.results, found.relevant, found.first_rank) == (12, 5, 2)
    assert found.top10_pct == pytest.approx(30.0)
    assert found.false_positive_pct == pytest.approx(100 * 7 / 12)
    assert found.coverage_pct == pytest.approx(75.0)


def test_top10_of_fewer_results_is_over_those() -> None:
    assert figures([True, False], 1.0, 1.0).top10_pct == pytest.approx(50.0)


def test_no_result_scores_zero_by_convention() -> None:
    found = figures([], 0.0, 5.0)
    assert (found.top10_pct, found.false_positive_pct, found.coverage_pct) == (0.0, 0.0, 0.0)
    assert found.first_rank is None


def test_nothing_to_cover_has_no_coverage() -> None:
    assert figures([False], 0.0, 0.0).coverage_pct is None


def test_nothing_explained_has_no_error() -> None:
    assert score([Result("structural", ("x",))], evidence(), 8.0, 4.0).explained_error_points is None


def test_edges_of_the_record_are_found_among_those_of_spans() -> None:
    matches = EdgeMatcher([SPIN])
    assert matches("sn-data/sn/LOG_WRITE<", "sn-data/sn/SN.WRITE<")
    assert not matches("sn-data/sn/LOG_WRITE>", "sn-data/sn/LOG_WRITE<")
    assert not matches("sn-meta/sn/LOG_WRITE<", "sn-meta/sn/SN.WRITE<")
    leaf = EdgeTruth(src="mds-a/mds/LOOKUP_CALL", dst="mds-a/mds/DISPATCH", touches=1, added_ns_mean=1.0)
    assert EdgeMatcher([leaf])("mds-a/mds/DISPATCH>", "mds-a/mds/DISPATCH<")
    assert EdgeMatcher([leaf])("mds-a/mds/MDS.LOOKUP>", "mds-a/mds/DISPATCH<")


def test_zoomed_out_an_edge_inside_the_right_call_is_found() -> None:
    pair = ("sn-data/sn/SN.WRITE>", "sn-data/sn/SN.WRITE<")
    assert EdgeMatcher([SPIN], zoomed=True)(*pair)
    assert not EdgeMatcher([SPIN])(*pair)
    assert not EdgeMatcher([SPIN], zoomed=True)("nfs-a/nfs/storage.WRITE>", "nfs-a/nfs/storage.WRITE<")
