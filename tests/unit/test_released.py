"""The `released` variant against results worked out by hand, one of its rules at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest
from oracles.populations import category, chain, constant_chain, graph, population

from analyze.methods.paper.mutation_tables import painted_table
from analyze.methods.paper.paper_run import PaperRun, Ranked, paper_run
from analyze.methods.paper.rows import mutations_section
from analyze.methods.paper.settings import PaperSettings
from analyze.methods.paper.structural import distances, edge_sequence
from analyze.methods.paper.timing import KsTests, named_edge_tests, released_tests
from analyze.paths.critical_path import critical_path, edge_latency_ns
from analyze.paths.moves import as_texts
from analyze.population import Category
from analyze.report.limits import ReportLimits
from schemas.report.columns import arrow_schema
from schemas.report.mutations import PAINTED

MS = 1_000_000
RELEASED = PaperSettings(variant="released")


def run(*categories: Category, **settings: object) -> PaperRun:
    options = {"variant": "released", **settings}
    return paper_run(population(*categories), PaperSettings.model_validate(options))


def ks(reference_ns: list[int], problem_ns: list[int]) -> KsTests:
    values = np.array([*reference_ns, *problem_ns], np.int64)[:, None]
    return released_tests(values, np.repeat([False, True], [len(reference_ns), len(problem_ns)]), RELEASED)


def name_of(result: PaperRun, found: Ranked, *categories: Category) -> str:
    """Last but one label: tells the categories of a test apart."""
    ordered = population(*categories).categories
    assert len(ordered) == len(result.root)
    return ordered[found.category].graph.labels[-2]


# Size of a test: n0·n1/(n0+n1+0.0001) >= 4


@pytest.mark.parametrize(
    ("n0", "n1"),
    [
        (8, 8),  # 64/16.0001 = 3.999975
        (6, 12),  # 72/18.0001 = 3.999978
        (5, 20),  # 100/25.0001 = 3.999984
        (20, 5),
        (7, 9),  # 63/16.0001 = 3.94
        (4, 10_000),  # 40,000/10,004.0001 = 3.998; four values never do
    ],
)
def test_too_small_a_size_is_not_tested(n0: int, n1: int):
    got = ks([1 * MS] * n0, [9 * MS] * n1)
    assert (got.n0[0], got.n1[0]) == (n0, n1)
    assert np.isnan(got.p[0])
    assert np.isnan(got.d[0])
    assert not got.changed[0]


@pytest.mark.parametrize(
    ("n0", "n1"),
    [
        (8, 9),  # 72/17.0001 = 4.235
        (6, 13),  # 78/19.0001 = 4.105
        (5, 21),  # 105/26.0001 = 4.038
        (21, 5),
    ],
)
def test_the_next_size_is_tested(n0: int, n1: int):
    assert ks([1 * MS] * n0, [9 * MS] * n1).changed[0]


def test_p_by_hand():
    # n = 5·21/26 = 4.0385, root 2.0096; D = 1: λ = 2.0096 + 0.12 + 0.11/2.0096 = 2.1843; p = exp(-2·4.7713)
    assert ks([1 * MS] * 5, [9 * MS] * 21).p[0] == pytest.approx(7.17e-5, rel=2e-3)


# Order: drop zeros, check sizes, round, test one-sided


def test_zeros_are_dropped_before_sizes_are_checked():
    # 8 and 9 values would do (4.235); with one zero dropped 8 and 8 are left: 3.999975.
    assert ks([1 * MS] * 8, [9 * MS] * 9).changed[0]
    got = ks([1 * MS] * 8, [9 * MS] * 8 + [0])
    assert (got.n0[0], got.n1[0]) == (8, 8)
    assert not got.changed[0]
    few = ks([1 * MS] * 3, [0, 9 * MS])  # too few whatever they are
    assert (few.n0[0], few.n1[0]) == (3, 1)
    assert np.isnan(few.p[0])


def test_what_rounds_to_zero_is_not_dropped():
    # 0.4 ms becomes 0 ms after zeros were dropped, so all ten stay: 0 ms against 1 ms, D = 1.
    got = ks([400_000] * 10, [600_000] * 10)
    assert (got.n0[0], got.n1[0], got.d[0]) == (10, 10, 1.0)
    assert got.changed[0]


def test_whole_milliseconds_half_up():
    # 1.499999 ms and 0.5 ms are both 1 ms: no difference is left. 1.5 ms is 2 ms.
    assert ks([500_000] * 20, [1_499_999] * 20).d[0] == 0
    assert ks([500_000] * 20, [1_500_000] * 20).d[0] == 1


def test_faster_is_nothing():
    # F0 - F1 is never above 0 where the problem period is faster, so D = 0 and p = exp(0) = 1.
    got = ks([9 * MS] * 20, [1 * MS] * 20)
    assert (got.d[0], got.p[0]) == (0, 1)


@pytest.mark.parametrize("where", ["reference", "problem"])
def test_an_edge_of_one_period_only_is_never_significant(where: str):
    # A latency of 0 is one that was not seen. 0·40/40.0001 = 0 < 4.
    seen, unseen = [9 * MS] * 40, [0] * 40
    got = ks(seen, unseen) if where == "reference" else ks(unseen, seen)
    assert min(got.n0[0], got.n1[0]) == 0
    assert np.isnan(got.p[0])
    assert not got.changed[0]


# Edges by name, critical or not, in every category


def test_places_of_one_name_are_one_sample():
    # r → a → b → a → b → end: a → b stands twice. Five requests a period: alone each place has
    # 25/10.0001 = 2.5 and is not tested; both together have 10 and 10 values, 100/20.0001 = 5.0, and are.
    before, after = [[1, 1, 1, 1, 1]] * 5, [[1, 3, 1, 3, 1]] * 5
    rows = [[[ms * MS for ms in row] for row in part] for part in (before, after)]
    c = chain(("r", "a", "b", "a", "b", "end"), *rows)
    got = named_edge_tests(c, edge_latency_ns(c), RELEASED)
    assert got.n0.tolist() == [5, 10, 5, 10, 5]
    assert got.n1.tolist() == [5, 10, 5, 10, 5]
    assert got.changed.tolist() == [False, True, False, True, False]
    # n = 10·10/20 = 5, root 2.2361; D = 1: λ = 2.2361 + 0.12 + 0.11/2.2361 = 2.4053; p = exp(-2·5.7853)
    assert got.p[1] == got.p[3] == pytest.approx(9.42e-6, rel=5e-3)


def test_a_place_that_got_faster_hides_one_that_got_slower():
    # 20 requests: the first a → b goes from 1 to 3 ms, the second from 3 to 1 ms. Pooled, both periods have
    # twenty values of 1 and twenty of 3 ms: D = 0. Alone, the first place would have D = 1.
    before, after = [[1, 1, 1, 3, 1]] * 20, [[1, 3, 1, 1, 1]] * 20
    rows = [[[ms * MS for ms in row] for row in part] for part in (before, after)]
    c = chain(("r", "a", "b", "a", "b", "end"), *rows)
    got = named_edge_tests(c, edge_latency_ns(c), RELEASED)
    assert got.d.tolist() == [0, 0, 0, 0, 0]
    assert not got.changed.any()


def fork(slow_ms: int) -> Category:
    """r → a → end, r → b → end, 30 + 30 requests: end waits for a, 20 ms; b takes 1 ms, `slow_ms` after."""
    g = graph(("r", "a", "b", "end"), [(0, 1), (0, 2), (1, 3), (2, 3)])
    times = np.array([[0, 20, 1, 21]] * 30 + [[0, 20, slow_ms, 21]] * 30) * MS
    return category(g, times, np.repeat([0, 1], 30))


def test_an_edge_off_the_critical_path_is_tested():
    c = fork(5)
    edges = [(c.graph.labels[s], c.graph.labels[d]) for s, d in c.graph.edges.tolist()]
    assert not critical_path(c)[:, edges.index(("r", "b"))].any()
    got = named_edge_tests(c, edge_latency_ns(c), RELEASED)
    # r → b went from 1 to 5 ms; b → end from 20 to 16 ms, which is faster and so is nothing.
    assert [edge for edge, red in zip(edges, got.changed.tolist(), strict=True) if red] == [("r", "b")]


def test_edges_are_painted_in_a_category_that_is_no_mutation():
    # Every response is 21 ms in both periods: no mutation of either kind. r → b is painted all the same.
    found = run(fork(5))
    assert found.mutations == ()
    (painted,) = found.painted
    assert painted.changed.tolist().count(True) == 1
    assert paper_run(population(fork(5)), PaperSettings()).painted == ()


def test_the_table_has_the_edges_of_every_category():
    # `fork` is no mutation; the places of a → a in the other are one sample.
    rows = [[[1 * MS] * 3] * 20, [[1 * MS, 4 * MS, 4 * MS]] * 20]
    p = population(fork(5), chain(("q", "a", "a", "a"), *rows))
    table = painted_table(paper_run(p, RELEASED), p)
    assert table.schema.equals(arrow_schema(PAINTED), check_metadata=True)
    assert [
        (row["src_label"], row["dst_label"], row["ks_n0"], row["changed"]) for row in table.to_pylist()
    ] == [
        ("q", "a", 20, False),
        ("a", "a", 40, True),
        ("a", "a", 40, True),
        ("r", "a", 30, False),
        ("r", "b", 30, True),
        ("a", "end", 30, False),
        ("b", "end", 30, False),
    ]
    assert painted_table(paper_run(p, PaperSettings()), p) == arrow_schema(PAINTED).empty_table()
    few = population(chain(("q", "a"), [[1 * MS]] * 3, [[9 * MS]] * 3))
    assert painted_table(paper_run(few, RELEASED), few)["ks_p"].to_pylist() == [None]


def test_the_edges_of_a_mutation_are_those_painted():
    rows = [[[1 * MS, 2 * MS]] * 20, [[1 * MS, 8 * MS]] * 20]
    found = run(chain(("r", "a", "b"), *rows))
    (m,) = found.mutations
    assert m.kind == "response-time"
    assert m.edges is not None
    assert m.edges.tests is found.painted[0]
    assert m.edges.tests.changed.tolist() == [False, True]


# Edit distance over the edge sequence, divided by the longer


@pytest.mark.parametrize(
    ("left", "right", "edits", "normalized"),
    [
        # a→b→c is a b b c, a→c is a c: drop both b. 2 of 4. (By nodes: 1 of 3.)
        (graph("abc"), graph("ac"), 2, 2 / 4),
        # a→b→c→d is a b b c c d, a→b→x→d is a b b x x d: two substitutions of 6. (By nodes: 1 of 4.)
        (graph("abcd"), graph("abxd"), 2, 2 / 6),
        # The same nodes, other edges. Fork: a b a c b d c d. Chain: a b b c c d. The second a becomes b, and
        # the b d before the last c d goes: 3 of 8. (By nodes: nothing.)
        (graph("abcd", [(0, 1), (0, 2), (1, 3), (2, 3)]), graph("abcd"), 3, 3 / 8),
        # Loops stay unfolded: (ab)(ab)(ab) is a b b a a b b a a b, once is a b: eight more tokens of ten.
        (graph("ababab"), graph("ab"), 8, 8 / 10),
        # Nothing in common: all of the longer.
        (graph("ab"), graph("xyz"), 4, 4 / 4),
        # A lone node has no edge.
        (graph("a"), graph("ab"), 2, 2 / 2),
    ],
)
def test_distance_over_edges(left, right, edits: int, normalized: float):
    texts = as_texts([edge_sequence(left), edge_sequence(right)])
    got = distances(texts, np.array([0]), np.array([1]))
    assert got.edits.tolist() == [[edits]]
    assert got.normalized[0, 0] == pytest.approx(normalized)


# Structural mutations

CALM = constant_chain(("read", "calm", "done"), 100, 100, 1000, 1000)


def test_cost_of_a_structural_mutation():
    # Gained 60 (5 → 65), at 5 ms. Lost: near (100 → 20) at 2 ms, far (100 → 30) at 9 ms, 60 or more each.
    #   mutation: read→disk→retry→done   read disk disk retry retry done
    #   near:     read→disk→done         read disk disk done            2 edits of 6: 1/3, weight 3
    #   far:      read→net→done          read net net done              4 edits of 6: 2/3, weight 1.5
    # Against (3·2 + 1.5·9)/4.5 = 4.3333 ms: 60·(5 - 4.3333) ms = 40 ms.
    found = run(
        CALM,
        constant_chain(("read", "disk", "retry", "done"), 5, 65, 5000, 5000),
        constant_chain(("read", "disk", "done"), 100, 20, 2000, 2000),
        constant_chain(("read", "net", "done"), 100, 30, 9000, 9000),
    )
    (m,) = found.mutations
    assert m.candidates is not None
    assert m.candidates.edits.tolist() == [2, 4]
    assert m.candidates.distance.tolist() == pytest.approx([1 / 3, 2 / 3])
    assert m.candidates.weight.tolist() == pytest.approx([2 / 3, 1 / 3])
    assert m.baseline_mean_us == pytest.approx(13_000 / 3)
    assert m.contribution_us == pytest.approx(60 * (5000 - 13_000 / 3)) == pytest.approx(40_000)
    assert m.contribution_nsdi_us == m.contribution_tr_us == m.contribution_us


def test_a_precursors_mean_is_of_the_problem_period_or_of_the_other_if_empty():
    # kept: 2 ms before, 3 ms after → 3 ms counts. 90·(5 - 3) ms = 180 ms.
    # gone: 2 ms before, none after → 2 ms counts. 90·(5 - 2) ms = 270 ms.
    gained = constant_chain(("read", "disk", "retry", "done"), 0, 90, 0, 5000)
    for left, cost in ((2, 180_000), (0, 270_000)):
        found = run(gained, constant_chain(("read", "disk", "done"), 100, left, 2000, 3000))
        assert [m.contribution_us for m in found.mutations if m.kind == "structural"] == [cost]


@pytest.mark.parametrize(("gained", "lost", "mutations", "precursors"), [(50, 51, 0, 1), (51, 50, 1, 0)])
def test_thresholds_are_strict(gained: int, lost: int, mutations: int, precursors: int):
    # A change of 50 is not more than 50.
    found = run(
        constant_chain(("read", "disk", "done"), 100, 100 - lost, 2000, 2000),
        constant_chain(("read", "retry", "done"), 0, gained, 0, 5000),
    )
    assert (len(found.sets.mutations), len(found.sets.precursors)) == (mutations, precursors)


def test_one_to_n_without_a_candidate_costs_nothing():
    # Gained 180; each of three lost 60, none as many as 180: `text` takes all three, `released` none.
    lost = [constant_chain(("read", f"disk{i}", "done"), 60, 0, 4000, 0) for i in range(3)]
    gained = constant_chain(("read", "done"), 10, 190, 100, 100)
    (m,) = run(*lost, gained).mutations
    assert m.contribution_us == 0
    assert m.baseline_mean_us == 100
    assert m.candidates is not None
    assert m.candidates.category.tolist() == []
    assert not m.candidates.relaxed
    # Without 1:N all are candidates: 180·(0.1 - 4) ms.
    (m,) = run(*lost, gained, one_to_n=False).mutations
    assert m.contribution_us == pytest.approx(180 * (100 - 4000))


def test_equal_numbers_pass_one_to_n():
    # The rule drops a precursor if the mutation gained more than it lost: 60 > 60 is false.
    found = run(
        constant_chain(("read", "disk", "done"), 100, 40, 2000, 2000),
        constant_chain(("read", "retry", "done"), 0, 60, 0, 5000),
    )
    assert [m.contribution_us for m in found.mutations] == [60 * 3000]


# One list by signed cost


def several() -> tuple[Category, ...]:
    """Four roots, each with one change, in request·ms: +180, 0 (no candidate), -240 and +120."""
    return (
        constant_chain(("w", "old", "done"), 80, 20, 2000, 2000),
        constant_chain(("w", "worse", "done"), 0, 60, 0, 5000),  # 60·(5 - 2) = 180
        constant_chain(("x", "alone", "done"), 0, 70, 0, 9000),  # nothing lost: 0
        constant_chain(("y", "old", "done"), 80, 20, 5000, 5000),
        constant_chain(("y", "better", "done"), 0, 60, 0, 1000),  # 60·(1 - 5) = -240
        constant_chain(("z", "slower", "done"), 30, 30, 2000, 6000),  # 30·(6 - 2) = 120
    )


def test_one_list_by_signed_cost():
    found = run(*several())
    assert found.signed
    assert [name_of(found, m, *several()) for m in found.mutations] == ["worse", "slower", "alone", "better"]
    assert [m.contribution_us for m in found.mutations] == pytest.approx([180_000, 120_000, 0, -240_000])


def test_the_papers_keep_two_lists():
    # `text`: `alone` is held against its root's mean after, its own: 0, and goes with the mean, which rose:
    # before (160 + 400 + 60)/190 = 3.3 ms, after (340 + 630 + 160 + 180)/260 = 5.0 ms.
    found = paper_run(population(*several()), PaperSettings())
    assert not found.signed
    named = [(name_of(found, m, *several()), m.direction) for m in found.mutations]
    more = [(name, "increase") for name in ("worse", "slower", "alone")]
    assert named == [*more, ("better", "decrease")]


def test_nothing_found_has_no_list():
    assert run(CALM).mutations == ()
    section = mutations_section(run(CALM), population(CALM), ReportLimits())
    assert (section.lists, section.mutations) == ((), ())


def test_response_time_cost_is_signed_by_the_means():
    # 20 requests of 2 ms and 20 of 40 ms before; after, 20 of 3 ms, 18 of 30 and 2 of 60: one-sided D is at
    # the low end, F0(2) - F1(2) = 0.5: flagged, though the mean fell, 21 → (60 + 540 + 120)/40 = 18 ms.
    before, after = [2] * 20 + [40] * 20, [3] * 20 + [30] * 18 + [60] * 2
    c = chain(("r", "s"), [[ms * MS] for ms in before], [[ms * MS] for ms in after])
    (m,) = run(c).mutations
    assert m.contribution_us == pytest.approx(40 * (18_000 - 21_000))
    assert not math.isnan(m.baseline_mean_us)
