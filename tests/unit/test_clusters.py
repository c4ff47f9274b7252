"""Clusters as a method: the paper's two kinds of change, choices, styles, tables, quiet periods."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from oracles.hbase import hbase, split_at_random
from oracles.populations import constant_chain, population
from oracles.striped_reads import reads
from oracles.two_changes import two_changes

from analyze.methods.clusters.calling_tree import ROOT
from analyze.methods.clusters.cluster_overlays import NONE, nearest_of_root
from analyze.methods.clusters.cluster_shares import share_tests
from analyze.methods.clusters.clusters_run import ClustersRun, clusters_run
from analyze.methods.clusters.method import analyse
from analyze.methods.clusters.rows import _cluster_marks
from analyze.methods.clusters.settings import ClustersSettings
from analyze.methods.clusters.shown_overlay import shade
from analyze.methods.port import Result
from analyze.population import Population, Sample
from analyze.profile.samples import samples_of
from analyze.report.limits import ReportLimits
from schemas.report.clusters import ClustersSection, OverlayNode, TreeOverlayRow

QUICK = ClustersSettings(refits=1, starts=3)


def result(found: Population, settings: ClustersSettings = QUICK) -> Result:
    return analyse(samples_of(found), None, settings, ReportLimits())


def section(found: Population, settings: ClustersSettings = QUICK) -> ClustersSection:
    (one,) = result(found, settings).sections
    assert isinstance(one, ClustersSection)
    return one


def most(row: TreeOverlayRow) -> OverlayNode:
    assert row.first is not None
    return row.nodes[row.first]


@pytest.mark.parametrize("seed", range(3))
def test_the_same_path_slower(seed: int) -> None:
    """HOT §2.2, the hash table: the changed node alone is coloured, however the clusters lie."""
    told = section(two_changes(seed, sync=4.0))
    top = told.overlays[0]
    node = most(top)
    assert (node.where, node.what, node.shade) == ("log", "SYNC", 4)
    assert node.kind in ("slower", "more", "only-b")
    coloured = {
        (node.where, node.what) for row in told.overlays for node in row.nodes if node.shade and row.score_us
    }
    assert coloured == {("log", "SYNC")}


@pytest.mark.parametrize("seed", range(3))
def test_another_path(seed: int) -> None:
    """HOT §1, cache misses injected: READs that miss grow, from those that hit; ways part at the cache."""
    found = result(two_changes(seed, misses=(0.02, 0.5)), QUICK)
    (told,) = found.sections
    assert isinstance(told, ClustersSection)
    node = most(told.overlays[0])
    assert (node.where, node.what, node.kind) == ("cache", "MISS", "only-b")
    grown = [row for row in told.clusters if row.origin is not None]
    assert len(grown) == 1
    (origin,) = (row for row in told.clusters if row.number == grown[0].origin)
    assert origin.root == grown[0].root == "nfs/READ"
    assert origin.changed
    assert origin.of_root[1] < 0.6 < origin.of_root[0]  # type: ignore[operator]
    assert found.verdict.outcome == "clusters-changed"
    assert "cache/MISS" in found.verdict.text
    assert [row for row in told.clusters if row.root == "nfs/WRITE" and row.changed] == []


@pytest.mark.parametrize("n", [1, 2, 3, 4, 6])
def test_a_handful_of_requests_has_clusters(n: int) -> None:
    """Halves of so few are often empty, and nothing can be refitted there."""
    for seed in range(8):
        found = population(constant_chain(["a", "b"], n, 0, 10, 10), samples=(Sample("all"),))
        told = section(found, ClustersSettings(refits=3, starts=3, seed=seed))
        assert told.requests == n
        assert len(told.reseeded) == 3
        assert len(told.halved) <= (3 if n > 1 else 0)


def test_nothing_is_told_of_requests_dealt_at_random() -> None:
    """A/A, size: of 12 splits of one period none has a share that changed or a node with a colour."""
    for seed in range(6):
        for part in (0.5, 0.2):
            run = clusters_run(
                split_at_random(hbase(seed, 600), seed, part), replace_of(refits=0, clusters=6)
            )
            assert run.shares is not None
            assert not run.shares.changed.any()
            assert all(held.score_us == 0 for held in run.overlays)


def replace_of(**fields: object) -> ClustersSettings:
    return ClustersSettings(**{"starts": 2, **fields})


def test_share_tests_keep_their_size_and_have_power() -> None:
    """Under binomial shares 1,000 null tests give next to nothing; 25 points more show in most."""
    rng = np.random.default_rng(0)
    m, n, blocks = 1_000, 400, 8
    settings = ClustersSettings()
    share = rng.uniform(0.05, 0.5, m)
    parts = rng.binomial(n // blocks, share[:, None], (m, blocks)).astype(float)
    asked = np.full((m, 2), float(n))
    for moved, low, high in ((0.0, 0, 3), (0.25, 900, m)):
        after = rng.binomial(n, np.minimum(share + moved, 1.0)).astype(float)
        held = np.stack([parts.sum(axis=1), after], axis=1)
        tests = share_tests(
            held, asked, parts, np.full((m, blocks), n / blocks), settings, noise_assumed=False
        )
        assert low <= int(tests.changed.sum()) <= high
    # Shares that swing between blocks are no news where they swing again.
    swing = rng.uniform(0.0, 0.6, (200, blocks))
    parts = rng.binomial(50, swing).astype(float)
    after = rng.binomial(50, rng.uniform(0.0, 0.6, (200, blocks))).sum(axis=1)
    held = np.stack([parts.sum(axis=1), after], axis=1)
    told = share_tests(
        held, np.full((200, 2), 400.0), parts, np.full((200, blocks), 50.0), settings, noise_assumed=True
    )
    blind = share_tests(
        held, np.full((200, 2), 400.0), held[:, :1], held[:, :1], settings, noise_assumed=False
    )
    assert told.changed.sum() <= 1
    assert blind.changed.sum() >= 20


def test_one_period_is_told_by_nearest_clusters() -> None:
    found = result(reads(), QUICK)
    (told,) = found.sections
    assert isinstance(told, ClustersSection)
    assert found.verdict.outcome == "clustered"
    assert {row.kind for row in told.overlays} <= {"nearest", "alone"}
    for row in told.clusters:
        assert row.p is None
        assert not row.changed
        assert row.shares == pytest.approx((sum(row.requests) / told.requests,))
    hit = next(row for row in told.overlays if row.kind == "nearest" and row.score_us > 0)
    assert most(hit).where == "nfs"


def test_clusters_of_fewer_requests_than_asked_for_are_laid_on_no_other() -> None:
    kinds = [
        {row.kind for row in section(reads(), replace_of(refits=0, overlay_requests=least)).overlays}
        for least in (1, 1_000_000)
    ]
    assert "nearest" in kinds[0]
    assert kinds[1] == {"alone"}


@pytest.mark.parametrize(("least", "marks"), [(0.3, (1, 2)), (0.5, (1, ROOT)), (0.9, (ROOT, ROOT))])
def test_a_node_marks_the_cluster_that_passes_it_so_much_more_often(
    least: float, marks: tuple[int, int]
) -> None:
    """Of its requests 90 % pass the first node and 20 % the second, of the others 20 % and 60 %."""
    through = np.array([[100.0, 50.0], [90.0, 10.0], [20.0, 30.0]])
    assert _cluster_marks(through, np.array([100.0, 50.0]), 0, np.array([1]), least) == marks


@pytest.mark.parametrize("features", ["combined", "points", "latencies", "counts"])
@pytest.mark.parametrize("style", ["robust", "paper"])
def test_feature_sets_and_styles(features: str, style: str) -> None:
    """Points and counts have a row a path; raw latencies follow the longest times; all say the same twice."""
    told = result(
        two_changes(1, 120, misses=(0.3, 0.3)), replace_of(features=features, style=style, refits=1)
    )
    again = result(
        two_changes(1, 120, misses=(0.3, 0.3)), replace_of(features=features, style=style, refits=1)
    )
    (one,), (other,) = told.sections, again.sections
    assert isinstance(one, ClustersSection)
    assert one == other
    assert one.rows == (3 if features in ("points", "counts") else 480)
    assert one.style == style
    assert sum(sum(row.requests) for row in one.clusters) == one.requests == 480
    if features in ("points", "counts"):
        assert one.rand_categories == 1.0
        assert (one.homogeneity, one.completeness) == (1.0, 1.0)
        assert all(row.jaccard == 1.0 for row in one.clusters)


def test_the_number_of_clusters_is_asked_for_or_the_smallest_good_one() -> None:
    found = two_changes(2, 150)
    assert section(found, replace_of(clusters=5, refits=0)).clusters_total == 5
    assert section(found, replace_of(clusters=5, refits=0)).curve == ()
    chosen = section(found, replace_of(refits=0))
    best = max(chosen.curve, key=lambda point: point.score)
    taken = next(point for point in chosen.curve if point.k == chosen.clusters_total)
    assert taken.score >= best.score - best.se
    assert all(point.score < best.score - best.se for point in chosen.curve if point.k < taken.k)
    assert section(found, replace_of(style="paper", refits=0)).chosen == "curve"


def test_rows_that_are_equal_are_one_cluster() -> None:
    told = section(population(constant_chain(("a/x", "a/y", "a/z"), 40, 40, 100, 100)))
    assert told.clusters_total == told.rows == 1
    assert told.clusters[0].shares == (1.0, 1.0)
    assert [row.kind for row in told.overlays] == ["samples"]
    assert told.overlays[0].first is None
    empty = result(population())
    assert (empty.verdict.outcome, empty.sections) == ("too-few", ())


def test_batches_find_what_the_whole_finds() -> None:
    """More rows than are clustered at once, and than are drawn."""
    found = two_changes(3, 400, misses=(0.3, 0.3))
    whole = clusters_run(found, replace_of(clusters=3, refits=0))
    batches = clusters_run(found, replace_of(clusters=3, refits=1, whole_rows=100, tried_rows=200))
    assert batches.agreement.adjusted_rand == pytest.approx(whole.agreement.adjusted_rand, abs=0.01)
    assert np.array_equal(whole.clustered.count, batches.clustered.count)


def test_rare_categories_are_told_merged() -> None:
    """Ten READs that miss are in a cluster with others, and counted there; every category is in the table."""
    found = two_changes(4, 300, misses=(0.01, 0.0))
    found_all = result(found, replace_of(clusters=2, refits=0))
    (told,) = found_all.sections
    assert isinstance(told, ClustersSection)
    rare = sum(row.rare_requests for row in told.clusters)
    assert rare == sum(category.n_requests for category in found.categories if category.n_requests <= 10) > 0
    table = found_all.tables["clusters_categories"]
    assert set(table["category"].to_pylist()) == {category.graph.key for category in found.categories}
    assert sum(table["requests"].to_pylist()) == told.requests


def test_tables_are_whole() -> None:
    found = two_changes(5, 200, misses=(0.1, 0.4))
    tables = result(found).tables
    (told,) = result(found).sections
    assert isinstance(told, ClustersSection)
    requests = tables["clusters_requests"]
    assert requests.num_rows == told.requests
    for row in told.clusters:
        for sample, name in enumerate(told.samples):
            mine = [
                cluster == row.number and one == name
                for cluster, one in zip(
                    requests["cluster"].to_pylist(), requests["sample"].to_pylist(), strict=True
                )
            ]
            assert sum(mine) == row.requests[sample]
    assert tables["clusters"].num_rows == 2 * told.clusters_total
    assert tables["clusters_distances"].num_rows == told.clusters_total**2
    trees = tables["clusters_trees"].to_pylist()
    roots = [line for line in trees if line["above"] is None]
    assert sum(line["requests"] for line in roots) == told.requests
    total_us = sum((category.response_ns * category.weight).sum() / 1e3 for category in found.categories)
    # Chains: the steps of a request add up to its response time.
    assert sum(line["time_us"] for line in trees) == pytest.approx(total_us)


def test_nearest_of_the_same_root_type() -> None:
    apart = np.array([[0, 1, 5, 2], [1, 0, 5, 3], [5, 5, 0, 1], [2, 3, 1, 0]], dtype=np.float64)
    root = np.array([0, 1, 1, 0])
    assert nearest_of_root(apart, root).tolist() == [3, 2, 1, 0]
    assert nearest_of_root(apart, np.arange(4)).tolist() == [NONE] * 4
    wanted = np.array([False, True, True, True])
    assert nearest_of_root(apart, np.zeros(4, np.int64), wanted).tolist() == [1, 3, 3, 2]


def test_shades_go_by_the_largest() -> None:
    assert [shade(x, 100.0) for x in (0.0, 0.1, 7.0, -30.0, 100.0)] == [0, 1, 2, 3, 4]
    assert shade(5.0, 0.0) == 0


def run_of(found: Population) -> ClustersRun:
    return clusters_run(found, replace_of(refits=0, clusters=4))


def test_weights_count() -> None:
    """A weight of 2 is the same request twice: shares, means and trees."""
    once = two_changes(6, 100, misses=(0.2, 0.4))
    twice = replace(
        once,
        categories=tuple(replace(one, weight=np.full(one.n_requests, 2.0)) for one in once.categories),
    )
    a, b = run_of(once), run_of(twice)
    assert np.allclose(a.clustered.weight * 2, b.clustered.weight)
    assert np.allclose(a.tree.time_us.toarray() * 2, b.tree.time_us.toarray())
    assert a.partition.inertia * 2 == pytest.approx(b.partition.inertia)


def test_swapped_periods_swap_the_colours() -> None:
    found = two_changes(7, 200, sync=5.0)
    back = replace(
        found,
        categories=tuple(
            replace(
                one,
                sample=np.concatenate([np.zeros(n1, np.uint8), np.ones(n0, np.uint8)]),
                node_ns=np.concatenate([one.node_ns[:, n0:], one.node_ns[:, :n0]], axis=1),
                response_ns=np.concatenate([one.response_ns[n0:], one.response_ns[:n0]]),
            )
            for one in found.categories
            for n0, n1 in [(int((one.sample == 0).sum()), int((one.sample == 1).sum()))]
        ),
        samples=(Sample("reference"), Sample("problem")),
    )
    one, other = (clusters_run(made, replace_of(refits=0, clusters=2)) for made in (found, back))
    first, second = one.overlays[0].overlay, other.overlays[0].overlay
    assert first.kind[first.first] == "slower"
    assert second.kind[second.first] == "faster"
    assert first.by_time_us.max() == pytest.approx(-second.by_time_us.min())


def test_sampled_requests_show_as_much_as_were_kept() -> None:
    """All weights fourfold: one in four was kept. The tests of shares see the requests that there are."""
    once = two_changes(6, 100, misses=(0.2, 0.4))
    kept = replace(once, categories=tuple(replace(one, weight=4 * one.weight) for one in once.categories))
    a, b = run_of(once).shares, run_of(kept).shares
    assert a is not None
    assert b is not None
    for figure in ("before", "after", "z", "p", "q", "changed"):
        assert np.allclose(getattr(a, figure), getattr(b, figure)), figure
