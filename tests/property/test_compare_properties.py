"""What must hold of every comparison, whatever the population."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.edit_distance import levenshtein
from oracles.examples import examples
from oracles.paper_report import SECTIONS, PaperReport, paper_report
from oracles.populations import category, graph, population
from scipy import stats

from analyze.methods.paper.structural import distances
from analyze.paths.moves import as_texts
from analyze.population import Category, Population
from analyze.report.drawing.graph import difference, folded_steps, graph_view
from analyze.stats.ks import ks_columns
from schemas.report.mutations import MutationKind
from schemas.report.report import from_json, to_json

sequences = st.lists(st.sampled_from("abcde"), max_size=12).map(tuple)


@st.composite
def populations(draw: st.DrawFn) -> Population:
    """A few chains over two roots, sizes and latencies of their own, weights 1 or not; no period is empty."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    weighted = draw(st.booleans())
    categories = {}
    for number in range(draw(st.integers(1, 6))):
        labels = [f"r{number % 2}", *draw(st.lists(st.sampled_from("abc"), max_size=4)), f"end{number % 3}"]
        g = graph(labels)
        n0, n1 = (draw(st.integers(int(number == 0), 40)) for _ in range(2))
        latency = rng.integers(0, 10**7, (n0 + n1, len(labels) - 1))
        latency[n0:] += draw(st.sampled_from([0, 0, 3 * 10**6]))
        offsets = np.concatenate([np.zeros((n0 + n1, 1), np.int64), latency.cumsum(axis=1)], axis=1)
        weight = rng.uniform(1, 20, n0 + n1) if weighted else None
        categories[g.key] = category(g, offsets, np.repeat([0, 1], [n0, n1]), weight)
    return population(*categories.values())


def run(p: Population, **options: object) -> PaperReport:
    return paper_report(p, **{"sm_threshold": 10, **options})


def swapped(p: Population) -> Population:
    """The same with the periods exchanged."""
    return population(*(category(c.graph, c.node_ns.T, 1 - c.sample, c.weight) for c in p.categories))


def shuffled(c: Category, rng: np.random.Generator) -> Category:
    order = rng.permutation(len(c.response_ns))
    return category(c.graph, c.node_ns.T[order], c.sample[order], c.weight[order])


@examples(60)
@given(populations())
def test_exact_sums_are_the_total_change(p: Population):
    found = run(p)
    s = found.sums
    scale = abs(found.reference.total_us) + abs(found.problem.total_us) + 1e-9
    assert abs(s.structural_exact_us + s.response_time_exact_us - s.total_change_us) <= 1e-9 * scale
    assert abs(found.change.total_change_us - s.total_change_us) <= 1e-9 * scale


@examples(60)
@given(populations())
def test_attribution_adds_up_to_the_change_of_the_mean(p: Population):
    for m in run(p).mutations:
        if m.kind is MutationKind.RESPONSE_TIME:
            assert m.before.mean_us is not None
            assert m.after.mean_us is not None
            change = m.after.mean_us - m.before.mean_us
            total = sum(e.attribution_us for e in m.edges)
            assert total == pytest.approx(change, abs=1e-9 * (m.before.mean_us + m.after.mean_us))


@examples(40)
@given(populations())
def test_swapping_periods_keeps_timing_tests_and_flips_the_change(p: Population):
    there, back = run(p), run(swapped(p))
    tests = {c.category: c.ks for c in there.categories}
    for c in back.categories:
        assert (c.ks.n1, c.ks.n0) == (tests[c.category].n0, tests[c.category].n1)
        assert c.ks.d == pytest.approx(tests[c.category].d)
        assert c.ks.p == pytest.approx(tests[c.category].p)
    assert back.sums.total_change_us == pytest.approx(-there.sums.total_change_us)
    assert back.ranked.response_time_total == there.ranked.response_time_total
    assert back.ranked.structural_total == there.ranked.precursors_total


@examples(40)
@given(populations(), st.sampled_from(["text", "released"]), st.sampled_from(["nsdi", "tr"]), st.booleans())
def test_model_survives_json_and_bounds_hold(p: Population, variant: str, ranking: str, one_to_n: bool):
    found = run(p, variant=variant, ranking=ranking, one_to_n=one_to_n)
    assert from_json(to_json(found.report), SECTIONS) == found.report
    assert sum(m.share_of_listed for m in found.mutations) == pytest.approx(
        1 if any(m.contribution_us for m in found.mutations) else 0
    )
    for m in found.mutations:
        if m.kind is MutationKind.STRUCTURAL:
            gained = m.after.count - m.before.count
            assert gained >= 10
            assert sum(x.share for x in m.precursors) == pytest.approx(1 if m.precursors else 0)
            assert all(x.root == m.root for x in m.precursors)
            if one_to_n and not m.one_to_n_relaxed:
                assert all(x.before.count - x.after.count >= gained for x in m.precursors)


@examples(30)
@given(populations(), st.integers(0, 2**32 - 1))
def test_order_of_requests_does_not_matter_to_the_tests(p: Population, seed: int):
    rng = np.random.default_rng(seed)
    other = run(population(*(shuffled(c, rng) for c in p.categories)))
    found = run(p)
    assert [c.ks for c in other.categories] == [c.ks for c in found.categories]
    assert [m.category for m in other.mutations] == [m.category for m in found.mutations]


@examples(100)
@given(st.lists(sequences, min_size=1, max_size=5), st.lists(sequences, min_size=1, max_size=5))
def test_edit_distance_agrees_with_its_definition(left: list[tuple[str, ...]], right: list[tuple[str, ...]]):
    texts = as_texts([*left, *right])
    got = distances(texts, np.arange(len(left)), len(left) + np.arange(len(right)))
    for i, a in enumerate(left):
        for j, b in enumerate(right):
            assert got.edits[i, j] == levenshtein(a, b)
            assert got.normalized[i, j] == levenshtein(a, b) / max(len(a), len(b), 1)


@examples(100)
@given(st.data())
def test_ks_statistic_agrees_with_scipy(data: st.DataObject):
    n0, n1 = data.draw(st.integers(1, 25)), data.draw(st.integers(1, 25))
    spread = data.draw(st.sampled_from([2, 10, 2**60]))
    values = np.array(
        data.draw(st.lists(st.integers(-spread, spread), min_size=n0 + n1, max_size=n0 + n1)), np.int64
    )
    include = np.array(data.draw(st.lists(st.booleans(), min_size=n0 + n1, max_size=n0 + n1)))
    problem = np.repeat([False, True], [n0, n1])
    got = ks_columns(values[:, None], problem, include[:, None])
    a, b = values[include & ~problem], values[include & problem]
    if len(a) == 0 or len(b) == 0:
        assert np.isnan(got.d[0])
        return
    assert got.d[0] == pytest.approx(stats.ks_2samp(a, b).statistic, abs=1e-14)
    slower = stats.ks_2samp(a, b, alternative="greater").statistic
    assert got.d_slower[0] == pytest.approx(slower, abs=1e-14)


@examples(60)
@given(sequences.filter(len), sequences.filter(len))
def test_unmatched_nodes_leave_equal_label_sequences(left: tuple[str, ...], right: tuple[str, ...]):
    views = [
        graph_view(category(graph(labels), np.zeros((1, len(labels)), np.int64), np.array([0])), 100)
        for labels in (left, right)
    ]
    got = difference(*views)
    common_left = [label for i, label in enumerate(left) if i not in got.only_mutation]
    common_right = [label for i, label in enumerate(right) if i not in got.only_precursor]
    assert common_left == common_right


@examples(60)
@given(st.integers(2, 40), st.integers(0, 2**32 - 1))
def test_folding_keeps_every_position_and_every_marked_edge(n: int, seed: int):
    rng = np.random.default_rng(seed)
    edges = sorted({(int(rng.integers(max(0, d - 4), d)), d) for d in range(1, n) for _ in range(2)})
    g = graph([f"n{i}" for i in range(n)], edges)
    view = graph_view(category(g, np.zeros((1, n), np.int64), np.array([0])), 100)
    changed = {edges[i] for i in rng.integers(0, len(edges), 2)}
    steps = folded_steps(view, frozenset(rng.integers(0, n, 3).tolist()), frozenset(changed))
    assert sorted(p for s in steps.steps for p in s.members) == list(range(n))
    assert changed <= set(steps.arrows.values())
    assert all(a < b for a, b in steps.arrows)
