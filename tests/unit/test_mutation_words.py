"""What is said about a mutation: numbers that do not confuse, and no edge as a reason that is none."""

from __future__ import annotations

import pytest
from oracles.paper_report import paper_outcome, paper_report
from oracles.populations import chain, constant_chain, population

from analyze.methods.paper.sections import explain, list_title, look_first, part_of
from analyze.report.limits import ReportLimits
from analyze.report.wording import NBSP
from schemas.report.mutations import Direction, Mutation, RankedList
from schemas.report.parts import GraphDifference, GraphView, NodeName

FAST, SLOW = 100_000, 400_000
US = 1000


def timing(before: list[int], after: list[int], jitter: int = 7) -> Mutation:
    """A chain whose edges take `before` and `after` ns, with a little jitter on the first."""
    rows = [
        [
            [edge + (jitter * i * US if place == 0 else 0) for place, edge in enumerate(edges)]
            for i in range(40)
        ]
        for edges in (before, after)
    ]
    labels = ("write", *(f"step{i}" for i in range(len(before))))
    (mutation,) = paper_report(population(chain(labels, *rows))).mutations
    return mutation


def told(mutation: Mutation) -> str:
    return explain(mutation, {}).replace(NBSP, " ")


def test_the_reddest_edge_has_its_part():
    text = told(timing([FAST] * 3, [FAST, SLOW, FAST]))
    assert "300 µs slower on average" in text
    assert text.endswith("reddest edge: step0 → step1, 100 % of it.")


def test_a_part_beyond_the_whole_is_an_amount():
    text = told(timing([FAST, FAST, SLOW], [FAST, SLOW + FAST, FAST]))
    assert "100 µs slower" in text
    assert text.endswith("reddest edge: step0 → step1, +400 µs by itself.")
    assert "%" not in text


def test_an_edge_that_went_the_other_way_is_no_reason():
    mutation = timing([FAST, SLOW, FAST], [FAST, FAST, SLOW + SLOW])
    opposite = [edge for edge in mutation.edges if edge.attribution_us > 0]
    alone = mutation.model_copy(
        update={"edges": tuple(e for e in mutation.edges if e.attribution_us <= 0), "edges_changed": 1}
    )
    assert opposite
    assert told(alone).endswith("no single changed edge on its critical path accounts for it.")
    assert told(mutation).endswith("reddest edge: step1 → step2, +700 µs by itself.")


def test_a_negligible_edge_is_no_reason():
    mutation = timing([FAST] * 3, [FAST, SLOW, FAST])
    minor = mutation.edges[0].model_copy(update={"attribution_us": 29.0})
    assert "accounts for it" in told(mutation.model_copy(update={"edges": (minor,)}))
    enough = mutation.edges[0].model_copy(update={"attribution_us": 31.0})
    assert told(mutation.model_copy(update={"edges": (enough,)})).endswith("10 % of it.")


def test_no_changed_edge_is_said():
    mutation = timing([FAST] * 3, [FAST, SLOW, FAST])
    calm = tuple(edge.model_copy(update={"changed": False}) for edge in mutation.edges)
    assert told(mutation.model_copy(update={"edges": calm})).endswith("changed significantly.")


def test_means_that_read_alike_are_not_a_move():
    mutation = timing([FAST] * 3, [FAST, SLOW, FAST])
    after = mutation.after.model_copy(update={"mean_us": mutation.before.mean_us})
    text = told(mutation.model_copy(update={"after": after}))
    assert "the same mean" in text
    assert "slower" not in text
    assert "→" not in text


@pytest.mark.parametrize(
    ("us", "whole", "text"),
    [
        (34.0, 100.0, "34 % of it"),
        (-34.0, -100.0, "34 % of it"),
        (100.0, 100.0, "100 % of it"),
        (100.4, 100.0, "100 % of it"),
        (100.6, 100.0, "+101 µs by itself"),
        (128.0, 100.0, "+128 µs by itself"),
        (-0.3, 100.0, "−300 ns by itself"),
        (5.0, 0.0, "+5 µs by itself"),
    ],
)
def test_no_share_beyond_the_whole(us: float, whole: float, text: str):
    assert part_of(us, whole).replace(NBSP, " ") == text


def test_every_list_has_a_title():
    ways = (*Direction, None)
    titles = [list_title(RankedList(direction=way, ranks=(1,), total=1))[0] for way in ways]
    assert titles == ["Takes more time", "Takes less time", "All mutations"]


def test_released_is_one_signed_list():
    worse = [constant_chain(("a", f"w{i}"), 0, 100 + i, 0, 9000) for i in range(2)]
    better = constant_chain(("b", "x"), 0, 100, 0, 10), constant_chain(("b", "y"), 300, 100, 5000, 5000)
    lost = constant_chain(("a", "y"), 300, 0, 100, 0)
    found = paper_report(population(*worse, *better, lost), variant="released")
    (listed,) = found.ranked.lists
    assert listed.direction is None
    assert listed.ranks == tuple(m.rank for m in found.mutations)
    signed = [m.contribution_us for m in found.mutations]
    assert signed == sorted(signed, reverse=True)
    assert signed[0] > 0 > signed[-1]


def test_a_short_report_of_one_signed_list_has_both_ends():
    worse = [constant_chain(("a", f"w{i}"), 0, 100 + i, 0, 9000) for i in range(4)]
    lost = constant_chain(("a", "y"), 500, 0, 100, 0)
    gone = constant_chain(("b", "y"), 900, 0, 5000, 0)
    better = [constant_chain(("b", f"x{i}"), 0, 100 + i, 0, 10) for i in range(4)]
    p = population(*worse, lost, *better, gone)
    whole = paper_report(p, variant="released").mutations
    signed = [m.contribution_us for m in whole]
    assert len(signed) == 8
    short = paper_report(p, ReportLimits(mutations=4, detailed=2), variant="released")
    assert [m.contribution_us for m in short.mutations] == [*signed[:2], *signed[-2:]]
    assert [m.rank for m in short.mutations if m.histograms] == [1, 8]
    (listed,) = short.ranked.lists
    assert (listed.ranks, listed.total) == ((1, 2, 7, 8), 8)


def test_what_costs_nothing_is_not_looked_at_first():
    free = constant_chain(("new", "n"), 0, 200, 0, 40)
    worse = [constant_chain(("a", f"w{i}"), 0, 100 + i, 0, 9000) for i in range(2)]
    lost = constant_chain(("a", "y"), 500, 0, 100, 0)
    better, gone = constant_chain(("b", "x"), 0, 300, 0, 10), constant_chain(("b", "y"), 900, 0, 90_000, 0)
    section = paper_report(population(free, *worse, lost, better, gone), variant="released").ranked
    first = look_first(section, 4)
    assert [m.rank for m in section.mutations if m.contribution_us == 0] == [3]
    assert [m.rank for m in first] == [4, 1, 2, 3]


def structural(before: tuple[str, ...], after: tuple[str, ...], others: int = 0) -> Mutation:
    """`after` in place of `before`, and other candidates that lost as much."""
    more = [constant_chain((*before, f"z{i}"), 200, 0, 900, 0) for i in range(others)]
    old, new = constant_chain(before, 200, 0, 500, 0), constant_chain(after, 0, 100, 0, 700)
    found = paper_report(population(old, new, *more)).mutations
    return next(m for m in found if m.after.count == 100)


def test_the_mean_of_one_precursor_is_told_from_that_of_several():
    assert told(structural(("a", "b"), ("a", "c", "d"))).endswith("0), which took 500 µs on average.")
    text = told(structural(("a", "b"), ("a", "c", "d"), others=2))
    assert ", the mean of 3 candidates weighted by likeness." in text
    assert "whose mean" not in text


def view(key: str, *names: NodeName) -> GraphView:
    return GraphView(category=key, root="r", nodes=names, edges=(), nodes_total=len(names))


def test_the_mean_of_a_precursor_that_is_still_there_is_its_mean_after():
    old = constant_chain(("a", "b"), 200, 20, 500, 650)
    found = paper_report(population(old, constant_chain(("a", "c"), 0, 100, 0, 700))).mutations
    assert told(next(m for m in found if m.after.count == 100)).endswith("which takes 650 µs on average.")


def unlike(before: list[str], after: list[str]) -> str:
    """What is said of two structures whose nodes are `component/point`, all of them different."""
    mutation = structural(("a", "b"), ("a", "c", "d"))
    sides = [[NodeName(component=c, point=p) for c, p in (n.split("/") for n in s)] for s in (before, after)]
    difference = GraphDifference(
        precursor="p" * 32,
        only_mutation=tuple(range(len(after))),
        only_precursor=tuple(range(len(before))),
    )
    graphs = {"p" * 32: view("p" * 32, *sides[0]), mutation.category: view(mutation.category, *sides[1])}
    return explain(mutation.model_copy(update={"difference": difference}), graphs).split("on average. ")[1]


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (["web/a", "ads/b"], ["web/a", "cart/c"], "it lacks ads and adds cart."),
        (["w/a", "e/a", "d/a", "c/a", "b/a"], ["w/a"], "it lacks b, c, d and 1 more."),
        (["w/a", "w/b"], ["w/a", "w/c", "w/c"], "it lacks w/b and adds 2 × w/c."),
        (
            ["m/a", "m/b", "m/c", "m/d", "d/x"],
            ["d/a", "d/b", "d/c", "d/d", "m/x"],
            "it lacks 3 steps in m and adds 3 steps in d.",
        ),
        (["w/a", "w/b"], ["w/b", "w/a"], "Both do the same work in another order."),
    ],
)
def test_structures_are_told_apart_by_names(before: list[str], after: list[str], text: str):
    assert unlike(before, after).removeprefix("Compared with pppppppppp ") == text


def test_the_sides_of_an_edge_are_words():
    mutation = timing([FAST] * 3, [FAST, SLOW, FAST])
    called = [NodeName(component="svc", point=f"n>{i}", side=("start", "end")[i % 2]) for i in range(4)]
    text = explain(mutation, {mutation.category: view(mutation.category, *called)})
    assert "reddest edge: end of svc/n>1 → start of svc/n>2, " in text


def test_a_kind_that_was_not_found_is_not_counted():
    assert paper_outcome(population(constant_chain(("a", "b"), 1, 90, 5, 5))).report.verdict.text == (
        "1 structural mutation found."
    )
