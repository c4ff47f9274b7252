"""Clusters against the slow way: features, K-means, agreement, trees and overlays."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, assume, given
from hypothesis import strategies as st
from oracles.clusterings import features, lloyd, requests_of, ways
from oracles.examples import examples
from oracles.site_populations import record_populations, span_populations
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score, completeness_score, homogeneity_score

from analyze.methods.clusters.calling_tree import ROOT, CallingTree, calling_tree
from analyze.methods.clusters.features import FeatureSet, feature_rows
from analyze.methods.clusters.kmeans import (
    adjusted_rand,
    best_jaccard,
    contingency,
    partition,
    purity,
    simplified_silhouette,
)
from analyze.methods.clusters.settings import ClustersSettings
from analyze.methods.clusters.shown_overlay import shown_nodes
from analyze.methods.clusters.tree_overlay import overlaid
from analyze.population import Population

POPULATIONS = st.one_of(span_populations(), record_populations())
FEW = examples(25, suppress_health_check=list(HealthCheck))
DEFAULTS = ClustersSettings()


@FEW
@given(POPULATIONS, st.sets(st.sampled_from(FeatureSet), min_size=1))
def test_rows_are_those_of_each_request(population: Population, sets: set[FeatureSet]) -> None:
    wanted = tuple(kind for kind in FeatureSet if kind in sets)
    rows = feature_rows(population, wanted)
    matrix = rows.matrix.toarray()
    if FeatureSet.LATENCIES not in sets:
        assert len({row.tobytes() for row in matrix}) == rows.n_rows
    held = np.zeros(rows.n_rows)
    for number, at, category in requests_of(population):
        mine = matrix[rows.row_of[number][at]]
        found = {(rows.sets[c].value, rows.names[c]): value for c, value in enumerate(mine.tolist()) if value}
        told = {key: value for key, value in features(category, at).items() if key[0] in sets}
        assert found.keys() == told.keys()
        assert all(np.isclose(found[key], told[key], rtol=1e-12) for key in told)
        held[rows.row_of[number][at]] += category.weight[at]
    assert np.array_equal(held, rows.weight)


@st.composite
def weighted_points(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(4, 40))
    centres = rng.normal(0, 10, (draw(st.integers(1, 4)), 3))
    points = centres[rng.integers(len(centres), size=n)] + rng.normal(0, 1, (n, 3))
    return points, rng.integers(1, 6, n).astype(np.float64)


@FEW
@given(weighted_points(), st.integers(1, 4), st.sampled_from(["robust", "paper"]))
def test_clusters_are_those_of_the_library_and_of_loops(
    made: tuple[np.ndarray, np.ndarray], k: int, style: str
) -> None:
    """The same labels and sums as scikit-learn's; a weight is so many equal rows; loops move nothing."""
    points, weight = made
    found = partition(points, weight, k, ClustersSettings(style=style), seed=3, starts=4)
    told = KMeans(
        k,
        n_init=4,
        random_state=3,
        init="random" if style == "paper" else "k-means++",
        tol=0.0 if style == "paper" else 1e-4,
    ).fit(points, sample_weight=weight)
    assert adjusted_rand_score(found.label, told.labels_) == 1.0
    assert np.isclose(found.inertia, told.inertia_)
    held = np.bincount(found.label, weight)
    assert (np.diff(held) <= 0).all()
    again = np.repeat(np.arange(len(points)), weight.astype(int))
    from_there = KMeans(found.n_clusters, n_init=1, init=found.centre, tol=0.0).fit(points[again])
    label, centre = lloyd(points, weight, found.centre)
    assert np.array_equal(label[again], from_there.labels_)
    assert np.allclose(centre, from_there.cluster_centers_)
    if style == "paper":  # it goes on until no row moves
        assert np.array_equal(label, found.label)
        assert np.allclose(centre, found.centre)


@FEW
@given(weighted_points(), st.integers(2, 4))
def test_simplified_silhouettes_are_those_of_loops(made: tuple[np.ndarray, np.ndarray], k: int) -> None:
    points, weight = made
    found = partition(points, weight, k, ClustersSettings(), seed=0, starts=1)
    assume(found.n_clusters > 1)
    value = simplified_silhouette(found.distances(points), found.label)
    for point, mine, told in zip(points, found.label, value, strict=True):
        apart = sorted((float(np.linalg.norm(point - c)), i != mine) for i, c in enumerate(found.centre))
        own = next(d for d, other in apart if not other)
        near = next(d for d, other in apart if other)
        assert np.isclose(told, (near - own) / max(near, own), atol=1e-6)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 5)), min_size=1, max_size=30))
def test_agreement_is_that_of_the_library_on_repeated_rows(rows: list[tuple[int, int, int]]) -> None:
    first, second, times = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    table = contingency(first, second, times.astype(np.float64))
    a, b = np.repeat(first, times), np.repeat(second, times)
    assert np.isclose(adjusted_rand(table), adjusted_rand_score(a, b))
    assert np.isclose(purity(table).homogeneity, homogeneity_score(a, b))
    assert np.isclose(purity(table).completeness, completeness_score(a, b))
    for group, found in enumerate(best_jaccard(table).tolist()):
        mine = {i for i, value in enumerate(a.tolist()) if value == group}
        others = [{i for i, value in enumerate(b.tolist()) if value == other} for other in set(b.tolist())]
        assert np.isclose(found, max(len(mine & o) / len(mine | o) for o in others))


def way_of(tree: CallingTree, node: int) -> tuple[tuple[str, str], ...]:
    """Names from the root."""
    names = []
    while node != ROOT:
        names.append(tuple(tree.names[node]))
        node = int(tree.above[node])
    return tuple(reversed(names))


@FEW
@given(POPULATIONS, st.integers(1, 3), st.integers(0, 99))
def test_trees_hold_the_ways_that_requests_took(population: Population, n: int, seed: int) -> None:
    """Every way and no other, with its requests, visits and times; so do overlays, and what is shown."""
    rng = np.random.default_rng(seed)
    group = [rng.integers(n, size=category.n_requests) for category in population.categories]
    tree = calling_tree(population, group, n)
    told = {(names[:], g): way for (names, g), way in _without_callees(ways(population, group)).items()}
    through, visits, time_us = (m.toarray() for m in (tree.through, tree.visits, tree.time_us))
    found = {
        (_plain(way_of(tree, node)), g): (through[node, g], visits[node, g], time_us[node, g])
        for node, g in zip(*np.nonzero(visits), strict=True)
    }
    if len({_plain(way_of(tree, node)) for node in range(tree.n_nodes)}) < tree.n_nodes:
        return  # two calls that differ by whom they call only: names here are without it
    assert found.keys() == told.keys()
    for key, (passed, visited, spent) in found.items():
        assert np.isclose(passed, told[key].through)
        assert np.isclose(visited, told[key].visits)
        assert np.isclose(spent, told[key].time_us, atol=1e-6)
    both = overlaid(tree, [0], [n - 1], DEFAULTS)
    taken = {names for names, g in told if g in (0, n - 1)}
    assert {_plain(way_of(tree, int(node))) for node in both.node} == taken
    for place, kind in enumerate(both.kind):
        one, other = ((_plain(way_of(tree, int(both.node[place]))), g) in told for g in (0, n - 1))
        assert (kind == "only-a") == (one and not other)
        assert (kind == "only-b") == (other and not one)
    rows, _ = shown_nodes(tree, both)
    for row in rows:
        above = rows[row.above] if row.above >= 0 else None
        ends = [w for w in taken if w[-1] == (row.where, row.what.split(" -> ")[0])]
        assert ends
        if above is not None:
            assert any((above.where, above.what.split(" -> ")[0]) in w[:-1] for w in ends)


def _plain(way: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    return tuple((where, what.split(" -> ")[0]) for where, what in way)


def _without_callees(found: dict) -> dict:
    return {(_plain(names), g): way for (names, g), way in found.items()}
