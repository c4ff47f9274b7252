"""Folding and layered layout of graphs."""

import itertools

import numpy as np
import pytest

from analyze.report.drawing.graph import EdgeMark, Heat, Marks, StepKind, all_steps, draw_graph, folded_steps
from analyze.report.drawing.layout import Box, lay_out
from schemas.report.parts import GraphEdge, GraphView, NodeName


def name(text: str) -> NodeName:
    """`[component/]point`, with `>` or `<` for the side of a span."""
    sides = {">": "start", "<": "end"}
    side = sides.get(text[-1], "")
    component, _, point = (text[:-1] if side else text).rpartition("/")
    return NodeName(component=component or "svc", point=point, side=side)


def view(labels: list[str], edges: list[tuple[int, int]] | None = None) -> GraphView:
    links = edges if edges is not None else list(itertools.pairwise(range(len(labels))))
    return GraphView(
        category="c" * 32,
        root=labels[0],
        nodes=tuple(name(label) for label in labels),
        edges=tuple(GraphEdge(src=s, dst=d, mean0_us=1.0, mean1_us=2.0) for s, d in links),
        nodes_total=len(labels),
    )


def test_span_without_children_is_one_box():
    steps = all_steps(view(["a>", "b>", "b<", "a<"]), frozenset())
    assert [(s.kind, s.names[0], s.members) for s in steps.steps] == [
        (StepKind.NODE, name("a>"), (0,)),
        (StepKind.SPAN, name("b>"), (1, 2)),
        (StepKind.NODE, name("a<"), (3,)),
    ]
    assert dict(steps.arrows) == {(0, 1): (0, 1), (1, 2): (2, 3)}


def test_span_whose_start_leads_elsewhere_too_is_two_boxes():
    steps = all_steps(view(["a>", "b>", "a<"], [(0, 1), (0, 2), (1, 2)]), frozenset())
    assert len(steps.steps) == 3


def test_long_quiet_stretch_is_folded_and_context_is_kept():
    labels = [f"n{i}" for i in range(20)]
    steps = folded_steps(view(labels), frozenset(), frozenset({(10, 11)})).steps
    kinds = [s.kind for s in steps]
    assert kinds == [StepKind.NODE, StepKind.FOLD, *[StepKind.NODE] * 4, StepKind.FOLD, StepKind.NODE]
    assert steps[1].members == tuple(range(1, 9))
    assert [s.members[0] for s in steps[2:6]] == [9, 10, 11, 12]


def test_fold_drops_no_position():
    labels = [f"n{i}" for i in range(30)]
    edges = [(i, i + 1) for i in range(12)] + [(5, 13)] + [(i, i + 1) for i in range(13, 29)] + [(12, 29)]
    steps = folded_steps(view(labels, edges), frozenset({20, 21}), frozenset()).steps
    assert sorted(p for s in steps for p in s.members) == list(range(30))


def test_marked_stretch_is_folded_apart_from_unmarked_ones():
    steps = folded_steps(view([f"n{i}" for i in range(20)]), frozenset(range(5, 15)), frozenset()).steps
    folds = [s for s in steps if s.kind is StepKind.FOLD]
    assert [(s.marked, s.members) for s in folds] == [
        (False, (1, 2, 3)),
        (True, tuple(range(6, 14))),
        (False, (16, 17, 18)),
    ]


def test_quiet_branches_of_a_fork_become_one_pill_without_a_latency():
    # 0 -> (1 2), (3 4), (5 6), (7 8) -> 9, and 7 -> 8 changed.
    edges = [(0, 1), (1, 2), (0, 3), (3, 4), (0, 5), (5, 6), (0, 7), (7, 8), (2, 9), (4, 9), (6, 9), (8, 9)]
    labels = [f"n{i}" for i in range(10)]
    drawn = folded_steps(view(labels, sorted(edges, key=lambda e: e[1])), frozenset(), frozenset({(7, 8)}))
    assert [s.members for s in drawn.steps] == [(0,), (1, 2, 3, 4, 5, 6), (7,), (8,), (9,)]
    assert drawn.arrows[0, 1] is None
    assert drawn.arrows[1, 4] is None
    assert drawn.arrows[2, 3] == (7, 8)


def test_graph_that_is_not_series_parallel_stays_as_it_is():
    # A bridge between two branches: 1 -> 4 as well as 1 -> 3, 2 -> 4.
    edges = [(0, 1), (0, 2), (1, 3), (1, 4), (2, 4), (3, 5), (4, 5)]
    drawn = folded_steps(view([f"n{i}" for i in range(6)], edges), frozenset(), frozenset())
    assert all(s.kind is StepKind.NODE for s in drawn.steps)


def test_nested_forks_reduce_from_the_inside():
    #  0 -> 1 -> (2 -> (3 | 4) -> 5 | 6) -> 7 -> 8
    edges = [(0, 1), (1, 2), (2, 3), (2, 4), (3, 5), (4, 5), (1, 6), (5, 7), (6, 7), (7, 8)]
    drawn = folded_steps(view([f"n{i}" for i in range(9)], edges), frozenset(), frozenset())
    assert [s.members for s in drawn.steps] == [(0,), (1, 2, 3, 4, 5, 6, 7), (8,)]


def _overlap(layout, boxes) -> list[tuple[int, int]]:
    return [
        (i, j)
        for i, j in itertools.combinations(range(len(boxes)), 2)
        if abs(layout.x[i] - layout.x[j]) < (boxes[i].width + boxes[j].width) / 2 - 1e-6
        and abs(layout.y[i] - layout.y[j]) < (boxes[i].height + boxes[j].height) / 2 - 1e-6
    ]


@pytest.mark.parametrize("seed", range(12))
def test_boxes_never_overlap_and_arrows_go_down(seed: int):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 60))
    boxes = [Box(float(rng.integers(60, 260)), float(rng.integers(20, 60))) for _ in range(n)]
    arrows = [
        (int(rng.integers(max(0, b - 8), b)), b) for b in range(1, n) for _ in range(rng.integers(1, 3))
    ]
    layout = lay_out(boxes, arrows)
    assert _overlap(layout, boxes) == []
    for a, b in arrows:
        heights = [layout.y[a], *(y for _, y in layout.bends[a, b]), layout.y[b]]
        assert heights == sorted(heights)
        assert heights[0] < heights[-1]
    for i, box in enumerate(boxes):
        assert box.width / 2 - 1e-6 <= layout.x[i] <= layout.width - box.width / 2 + 1e-6
        assert box.height / 2 - 1e-6 <= layout.y[i] <= layout.height - box.height / 2 + 1e-6
    assert lay_out(boxes, arrows) == layout


def test_chain_is_a_straight_column():
    layout = lay_out([Box(100, 30), Box(200, 30), Box(60, 30)], [(0, 1), (1, 2)])
    assert len(set(layout.x)) == 1
    assert layout.y[0] < layout.y[1] < layout.y[2]


def test_empty_graph_has_no_size():
    layout = lay_out([], [])
    assert (layout.width, layout.height) == (0, 0)


def test_changed_edges_are_coloured_and_written():
    marks = Marks(edges={(1, 2): EdgeMark("9 ms → 476 ms", Heat.SLOWER), (0, 1): EdgeMark("1 ms → 1 ms")})
    svg = str(draw_graph(view(["a", "b", "c"]), marks, "t"))
    assert svg.count('class="arrow slower"') == 1
    assert svg.count('class="arrow quiet"') == 1
    assert "9 ms → 476 ms" in svg


def test_svg_escapes_names():
    svg = str(draw_graph(view(['<script>alert("x")</script>', "b&b/<c>"]), Marks(), "<t>"))
    assert "<script" not in svg
    assert "&lt;t&gt;" in svg
    assert "b&amp;b" in svg


def test_marks_inside_names_mean_nothing():
    called = [NodeName(component="a/b", point="c>"), NodeName(component="a/b", point="c<")]
    graph = view(["x", "y"]).model_copy(update={"nodes": tuple(called)})
    assert [step.kind for step in all_steps(graph, frozenset()).steps] == [StepKind.NODE, StepKind.NODE]
    svg = str(draw_graph(graph, Marks(), "t"))
    assert '>a/b</text><text class="what"' in svg
    assert ">c&gt;</text>" in svg


def test_sides_of_a_span_are_words_in_a_box_and_in_its_title():
    svg = str(draw_graph(view(["web/op>", "db/get>", "db/get<", "web/op<"]), Marks(), "t"))
    assert ">op starts</text>" in svg
    assert ">op ends</text>" in svg
    assert ">get</text>" in svg
    assert "<title>web/op starts</title>" in svg
    assert "<title>db/get</title>" in svg


def test_host_is_told_beside_the_component():
    called = NodeName(component="db", point="get", host="h1", label="MISS")
    graph = view(["x"]).model_copy(update={"nodes": (called,)})
    svg = str(draw_graph(graph, Marks(), "t"))
    assert ">h1/db</text>" in svg
    assert ">get/MISS</text>" in svg
