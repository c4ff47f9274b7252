"""What counts as right: the rule for findings and for rows of paper mode, on made-up cases."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from evaluation.recordings.naming import callee, callees_of
from evaluation.recordings.regroup import regroup
from evaluation.recordings.test_regroup import population as plain_population
from evaluation.recordings.verdicts import passed_unseen
from oracles.populations import KnownText

from analyze.population import Graph, GraphNode, Nesting, Population
from schemas.report.findings import Site
from stitch.graph.placed import END, START

pytestmark = pytest.mark.evaluation


def span_graph(*, nested: bool) -> Graph:
    """web/page calls cart/Get through its own client span web/Get, then stock/Look directly."""
    names = [("web", "page"), ("web", "Get"), ("cart", "Get"), ("stock", "Look")]
    nodes = (*(GraphNode(*name, side=START) for name in names), GraphNode("web", "page", side=END))
    edges = np.array([[0, 1], [1, 2], [0, 3], [2, 4], [3, 4]], np.int32)
    owner = np.array([0, 1, 2, 3, 0], np.int32)
    parent = np.array([-1, 0, 1, 0, -1], np.int32)
    nesting = Nesting(owner, parent, np.zeros(5, np.uint8)) if nested else None
    return Graph("k", "web/page", nodes, edges, np.array([4], np.int32), KnownText("c"), nesting)


def of_graph(graph: Graph) -> Population:
    whole = regroup(plain_population(), [[0]], ["x"])
    return replace(whole, categories=(replace(whole.categories[0], graph=graph),))


@pytest.mark.parametrize("nested", [True, False])
def test_a_call_is_at_the_one_component_that_it_calls(nested: bool) -> None:
    callees = callees_of(of_graph(span_graph(nested=nested)))
    assert callee(callees, Site(component="web", operation="Get")) == {"cart"}
    assert callee(callees, Site(component="cart", operation="Get")) == frozenset()
    assert callee({}, Site(component="web", operation="POST -> stock")) == {"stock"}


def test_a_span_that_calls_several_components_is_at_none_of_them() -> None:
    callees = {("web", "page"): frozenset({"cart", "stock"})}
    assert callee(callees, Site(component="web", operation="page")) == frozenset()


@pytest.mark.parametrize(
    ("exit_code", "tested", "visible", "plain", "unseen"),
    [
        (0, ["mean"], "invisible", [], True),
        (0, [], "visible", ["tail"], True),
        (0, [], "invisible", ["tail"], False),
        (0, [], "visible", [], False),
        (1, ["mean"], "visible", ["mean"], False),
        (3, ["mean"], "visible", ["mean"], False),
    ],
)
def test_what_the_gate_passed_unseen(
    exit_code: int, tested: list[str], visible: str, plain: list[str], unseen: bool
) -> None:
    row = {"exit_code": exit_code, "tested": tested, "visible": visible, "moved": plain}
    assert passed_unseen(row) is unseen
