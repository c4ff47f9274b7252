"""Choose the pairs of calling trees to overlay.

For two samples, the trees of a cluster in both; for one sample, the trees of a cluster and of the nearest
cluster with the same root type. For a cluster that grew, the nearest cluster that shrank is its suspected
origin.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from analyze.methods.clusters.calling_tree import CallingTree
from analyze.methods.clusters.cluster_shares import ClusteredRequests, ClusterShareTests
from analyze.methods.clusters.settings import ClustersSettings
from analyze.methods.clusters.tree_overlay import TreeOverlay, overlaid
from schemas.arrays import B1, F8, I8
from schemas.report.clusters import OverlayKind

NONE: Final = -1


@dataclass(frozen=True, slots=True)
class ClusterOverlay:
    """Overlay of the trees of two clusters, or of a cluster's two samples."""

    kind: OverlayKind
    cluster: int
    """Index of the cluster of tree B."""
    other: int
    """Index of the cluster of tree A; equal to `cluster` if its two samples are compared."""
    overlay: TreeOverlay
    weight: float
    """Share of cluster B in the requests of the second (or only) sample, in [0, 1]."""

    @property
    def score_us(self) -> float:
        """Time that the most strongly coloured node adds to the mean response time of all requests, µs."""
        colour = self.overlay.colour_us
        return self.weight * float(colour.max(initial=0.0))


def nearest_of_root(apart: F8, dominant: I8, wanted: B1 | None = None) -> I8:
    """Index of the nearest other cluster with the same dominant root type, int64[clusters]; NONE if there is
    none.

    apart: float64[clusters, clusters] distances; dominant: [clusters] root type; wanted: bool[clusters]
    candidates.
    """
    distance = np.where(dominant[:, None] == dominant[None, :], apart, np.inf)
    np.fill_diagonal(distance, np.inf)
    if wanted is not None:
        distance[:, ~wanted] = np.inf
    nearest = distance.argmin(axis=1)
    found = np.isfinite(distance[np.arange(len(apart)), nearest])
    return np.where(found, nearest, NONE).astype(np.int64)


def origins(apart: F8, dominant: I8, tests: ClusterShareTests) -> I8:
    """Suspected origin of each cluster that grew: index of the nearest cluster that shrank with the same root
    type, int64[clusters]; NONE for clusters that did not grow."""
    shrank = tests.after < tests.before
    origin = nearest_of_root(apart, dominant, shrank)
    return np.where(tests.changed & (tests.after > tests.before), origin, NONE).astype(np.int64)


def cluster_overlays(
    tree: CallingTree,
    clustered: ClusteredRequests,
    nearest: I8,
    origin: I8,
    settings: ClustersSettings,
    *,
    noise_assumed: bool,
) -> list[ClusterOverlay]:
    """Make all overlays, sorted by the time that their most strongly coloured node adds, then by requests.

    noise_assumed: the first sample is too short to estimate the difference between normal times.
    """
    samples = clustered.n_samples
    last = clustered.weight[:, :, -1].sum(axis=0)
    share = last / max(last.sum(), 1e-300)
    enough = clustered.count.sum(axis=0) >= settings.overlay_requests
    asked, phi = settings, 1.0
    if samples == 2:
        tau = settings.assumed_tau if noise_assumed else settings.min_tau
        moved = max(settings.time_floor, math.expm1(settings.min_z * tau))
        asked = settings.model_copy(update={"time_floor": moved})
        phi = settings.assumed_phi if noise_assumed else 1.0

    def groups(cluster: int, sample: int) -> range:
        first = (cluster * samples + sample) * settings.blocks
        return range(first, first + settings.blocks)

    def pairs(cluster: int) -> Iterator[tuple[OverlayKind, int, int]]:
        """Yield the trees to compare with cluster B in its last sample: (kind of overlay, index of cluster A,
        sample of A)."""
        if samples == 2:
            if enough[cluster].all():
                yield "samples", cluster, 0
            if (other := int(origin[cluster])) != NONE and enough[other, 0] and enough[cluster, 1]:
                yield "origin", other, 0
        elif (other := int(nearest[cluster])) != NONE and enough[other, 0] and enough[cluster, 0]:
            yield "nearest", other, 0

    found = []
    for cluster in range(clustered.n_clusters):
        weight = float(share[cluster])
        mine = groups(cluster, samples - 1)
        overlays = [
            ClusterOverlay(
                kind, cluster, other, overlaid(tree, groups(other, sample), mine, asked, phi=phi), weight
            )
            for kind, other, sample in pairs(cluster)
        ]
        if not overlays:
            every = [group for sample in range(samples) for group in groups(cluster, sample)]
            itself = overlaid(tree, every, every, settings)
            overlays = [ClusterOverlay("alone", cluster, cluster, itself, weight)]
        found += overlays
    found.sort(key=lambda one: (-one.score_us, -one.weight, one.cluster, one.kind))
    return found
