"""Run of clustering: features, K-means, shares, calling trees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analyze.methods.clusters.calling_tree import CallingTree, calling_tree
from analyze.methods.clusters.cluster_overlays import (
    NONE,
    ClusterOverlay,
    cluster_overlays,
    nearest_of_root,
    origins,
)
from analyze.methods.clusters.cluster_shares import (
    ClusteredRequests,
    ClusterShareTests,
    clustered_requests,
    noise_is_assumed,
    tested_shares,
    time_blocks,
)
from analyze.methods.clusters.features import (
    FeatureRows,
    FeatureSet,
    FeatureSpace,
    drawn_rows,
    feature_rows,
    feature_space,
)
from analyze.methods.clusters.kmeans import (
    Partition,
    PathAgreement,
    Stability,
    number_of_clusters,
    partition,
    path_agreement,
    stability,
)
from analyze.methods.clusters.settings import ClustersSettings
from analyze.population import Population
from schemas.arrays import F8, I8
from schemas.report.clusters import CurvePoint


@dataclass(frozen=True, slots=True)
class ClustersRun:
    """Results of clustering a population."""

    rows: FeatureRows
    """Distinct rows of features of the requests."""
    space: FeatureSpace
    """Coordinates of the rows in the reduced space that K-means uses."""
    curve: tuple[CurvePoint, ...]
    """Silhouette for each tried number of clusters; empty if the settings fix the number."""
    partition: Partition
    stability: Stability
    clustered: ClusteredRequests
    agreement: PathAgreement
    """Requests by cluster and category (level L1)."""
    apart: F8
    """Distance between the centres of each pair of clusters, float64[clusters, clusters]."""
    nearest: I8
    """Index of the nearest other cluster of the same root type, int64[clusters]; NONE without one."""
    origin: I8
    """Index of the cluster from which a grown cluster's requests probably came, int64[clusters]; NONE without
    one."""
    shares: ClusterShareTests | None
    """Tests of the clusters' shares; None for a single sample."""
    tree: CallingTree
    overlays: tuple[ClusterOverlay, ...]
    """Overlays of calling trees, sorted by score."""


def clusters_run(population: Population, settings: ClustersSettings) -> ClustersRun:
    """Cluster the requests of all samples together, then compare the samples' shares (HotAC 2007 §1, §2.1).

    Deterministic in its arguments. Raises ValueError if there are no requests.
    """
    sets = tuple(FeatureSet) if settings.features == "combined" else (FeatureSet(settings.features),)
    rows = feature_rows(population, sets)
    if not rows.n_rows:
        raise ValueError("no requests to cluster")
    space = feature_space(rows, settings)
    drawn, weight = drawn_rows(rows.weight, settings.tried_rows, settings.seed)
    points = space.points[drawn]
    n_requests = min(settings.tried_rows, sum(category.n_requests for category in population.categories))
    k, curve = number_of_clusters(points, weight, n_requests, settings)
    found = partition(space.points, rows.weight, k, settings, seed=settings.seed, starts=settings.starts)
    label = [found.label[row] for row in rows.row_of]
    clustered = clustered_requests(population, label, found.n_clusters)
    two = len(population.samples) == 2
    blocks = settings.blocks
    block_of = time_blocks(population, blocks)
    shares = tested_shares(population, clustered, block_of, settings) if two else None
    apart, dominant = found.apart(), clustered.dominant()
    nearest = nearest_of_root(apart, dominant)
    origin = np.full(found.n_clusters, NONE) if shares is None else origins(apart, dominant, shares)
    n_samples = len(population.samples)
    tree = calling_tree(
        population,
        [
            (mine * n_samples + category.sample) * blocks + block
            for mine, category, block in zip(label, population.categories, block_of, strict=True)
        ],
        found.n_clusters * n_samples * blocks,
    )
    return ClustersRun(
        rows,
        space,
        curve,
        found,
        stability(found, found.label[drawn], points, weight, settings),
        clustered,
        path_agreement(population, clustered),
        apart,
        nearest,
        origin,
        shares,
        tree,
        tuple(
            cluster_overlays(
                tree,
                clustered,
                nearest,
                origin,
                settings,
                noise_assumed=two and noise_is_assumed(population, settings),
            )
        ),
    )
