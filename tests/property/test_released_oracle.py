"""The `released` variant against a slow reading of its rules: graphs with forks and repeated names."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.examples import examples
from oracles.populations import category, graph, population
from oracles.released import Released, released

from analyze.methods.paper.paper_run import PaperRun, paper_run
from analyze.methods.paper.settings import PaperSettings
from analyze.population import Category, Population

THRESHOLD = 5


def forked(number: int, rng: np.random.Generator) -> Category:
    """A DAG over few names; latencies of 0 to 12 ms, slower after or not, some of them 0."""
    n_nodes = int(rng.integers(2, 7))
    labels = [f"r{number % 2}", *rng.choice(list("abc"), n_nodes - 2), f"end{number % 3}"]
    edges = {(int(rng.integers(max(0, dst - 3), dst)), dst) for dst in range(1, n_nodes) for _ in range(2)}
    g = graph([str(label) for label in labels], sorted(edges))
    n0, n1 = (
        int(n) for n in rng.choice([[0, 9], [8, 0], [3, 3], [8, 8], [8, 9], [15, 30], [30, 15], [30, 30]])
    )
    own = rng.integers(0, rng.choice([800_000, 12 * 10**6]), (n0 + n1, len(g.edges)))
    own[rng.random(own.shape) < 0.2] = 0
    own[n0:] += int(rng.choice([0, 0, 700_000, 3 * 10**6]))
    times = np.zeros((n0 + n1, n_nodes), np.int64)
    for edge, (src, dst) in enumerate(g.edges.tolist()):
        times[:, dst] = np.maximum(times[:, dst], times[:, src] + own[:, edge])
    times[:, -1] = times.max(axis=1)
    return category(g, times, np.repeat([0, 1], [n0, n1]))


def drawn(seed: int, n_categories: int) -> Population:
    rng = np.random.default_rng(seed)
    made = [forked(number, rng) for number in range(n_categories)]
    # Categories differ in their edges, as in the tool, which knows a structure by them.
    distinct = {tuple(c.graph.labels[end] for end in c.graph.edges.reshape(-1)): c for c in made}
    return population(*distinct.values())


def agree(found: PaperRun, wanted: Released, p: Population) -> None:
    keys = [c.graph.key for c in p.categories]
    assert [m.contribution_us for m in found.mutations] == pytest.approx([r.cost_us for r in wanted.ranked])
    assert {(m.kind.value, keys[m.category]) for m in found.mutations} == {
        (r.kind, r.category) for r in wanted.ranked
    }
    rows = {(r.kind, r.category): r for r in wanted.ranked}
    for m in found.mutations:
        row = rows[m.kind.value, keys[m.category]]
        assert m.contribution_us == pytest.approx(row.cost_us, abs=1e-6)
        if m.candidates is not None:
            names = [keys[i] for i in m.candidates.category]
            assert dict(zip(names, m.candidates.weight, strict=True)) == pytest.approx(row.weights)
    for c, tests in zip(p.categories, found.painted, strict=True):
        for edge, (src, dst) in enumerate(c.graph.edges.tolist()):
            answer = wanted.edges[c.graph.key][c.graph.labels[src], c.graph.labels[dst]]
            assert (tests.n0[edge], tests.n1[edge]) == (answer.n0, answer.n1)
            assert tests.changed[edge] == answer.changed
            if answer.p is None:
                assert np.isnan(tests.p[edge])
            else:
                assert tests.p[edge] == pytest.approx(answer.p, rel=1e-9)


@examples(60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 7), st.booleans())
def test_released_is_what_its_rules_say(seed: int, n_categories: int, one_to_n: bool) -> None:
    p = drawn(seed, n_categories)
    options = PaperSettings(variant="released", sm_threshold=THRESHOLD, one_to_n=one_to_n)
    agree(paper_run(p, options), released(p, THRESHOLD, one_to_n=one_to_n), p)


def test_the_populations_have_what_the_rules_are_about() -> None:
    """Mutations of both kinds, with and without candidates; painted edges of categories that are none."""
    found = [
        paper_run(drawn(seed, 7), PaperSettings(variant="released", sm_threshold=5)) for seed in range(60)
    ]
    structural = [m.candidates for r in found for m in r.mutations if m.candidates is not None]
    assert {len(candidates.category) for candidates in structural} >= {0, 1}
    assert sum(m.edges is not None for r in found for m in r.mutations) > 20
    unmoved = [
        tests.changed.any()
        for r in found
        for index, tests in enumerate(r.painted)
        if index not in {m.category for m in r.mutations}
    ]
    assert sum(unmoved) > 5
