"""Which trees are laid on which: a cluster's samples, or it and where it may come from (HOT §2.3).

The nearest cluster of the same root type is the one a cluster is best told apart from; where the cluster
grew, the nearest of those that shrank is its suspected origin.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from analyze.methods.clusters.calling_tree import CallingTree
from analyze.methods.clusters.cluster_shares import ShareTests
from analyze.methods.clusters.clustered_requests import ClusteredRequests
from analyze.methods.clusters.clusters_settings import ClustersSettings
from analyze.methods.clusters.tree_overlay import Gates, TreeOverlay, overlaid
from schemas.arrays import B1, F8, I8

NONE: Final = -1
LEAST_REQUESTS: Final = 10
"""Requests of either side for an overlay."""

Kind = Literal["samples", "origin", "nearest", "alone"]


@dataclass(frozen=True, slots=True)
class HeldAgainst:
    """One overlay."""

    kind: Kind
    cluster: int
    """Whose tree B is."""
    other: int
    """Whose tree A is; the same cluster where the two samples are held against each other."""
    overlay: TreeOverlay
    weight: float
    """Share of all requests of the second sample (or the only one) that it is about."""

    @property
    def score_us(self) -> float:
        """What the most coloured node adds to the mean response time of all requests."""
        colour = self.overlay.colour_us
        return self.weight * float(colour.max(initial=0.0))


def nearest_of_root(apart: F8, dominant: I8, wanted: B1 | None = None) -> I8:
    """[clusters] nearest other cluster of the same dominant root type, of those wanted; NONE without one."""
    distance = np.where(dominant[:, None] == dominant[None, :], apart, np.inf)
    np.fill_diagonal(distance, np.inf)
    if wanted is not None:
        distance[:, ~wanted] = np.inf
    nearest = distance.argmin(axis=1)
    found = np.isfinite(distance[np.arange(len(apart)), nearest])
    return np.where(found, nearest, NONE).astype(np.int64)


def origins(apart: F8, dominant: I8, tests: ShareTests) -> I8:
    """[clusters] of those that grew: nearest cluster of the same root type that shrank; else NONE."""
    shrank = tests.after < tests.before
    origin = nearest_of_root(apart, dominant, shrank)
    return np.where(tests.changed & (tests.after > tests.before), origin, NONE).astype(np.int64)


def held_against(
    tree: CallingTree,
    clustered: ClusteredRequests,
    nearest: I8,
    origin: I8,
    settings: ClustersSettings,
    *,
    cold: bool,
) -> list[HeldAgainst]:
    """All overlays, by what their most coloured node adds; then by requests.

    cold: the first sample is too short to tell how far ordinary times differ.
    """
    found = list(_all(tree, clustered, nearest, origin, settings, cold=cold))
    found.sort(key=lambda one: (-one.score_us, -one.weight, one.cluster, one.kind))
    return found


def _all(
    tree: CallingTree,
    clustered: ClusteredRequests,
    nearest: I8,
    origin: I8,
    settings: ClustersSettings,
    *,
    cold: bool,
) -> Iterator[HeldAgainst]:
    samples = clustered.n_samples
    last = clustered.weight[:, :, -1].sum(axis=0)
    share = last / max(last.sum(), 1e-300)
    count = clustered.count.sum(axis=0)
    floors = (settings.share_floor, settings.new_floor)
    gates = within = Gates(settings.q, settings.min_z, settings.time_floor, *floors)
    if samples == 2:
        tau = settings.cold_tau if cold else settings.min_tau
        moved = max(settings.time_floor, math.expm1(settings.min_z * tau))
        gates = Gates(settings.q, settings.min_z, moved, *floors, phi=settings.cold_phi if cold else 1.0)

    def side(cluster: int, sample: int) -> range:
        first = (cluster * samples + sample) * settings.blocks
        return range(first, first + settings.blocks)

    for cluster in range(clustered.n_clusters):
        every = [*side(cluster, 0), *side(cluster, samples - 1)] if samples == 2 else side(cluster, 0)
        told = False
        if samples == 2 and (count[cluster] >= LEAST_REQUESTS).all():
            both = overlaid(tree, side(cluster, 0), side(cluster, 1), gates)
            told = True
            yield HeldAgainst("samples", cluster, cluster, both, float(share[cluster]))
        other = int(origin[cluster])
        if other != NONE and count[other, 0] >= LEAST_REQUESTS and count[cluster, 1] >= LEAST_REQUESTS:
            both = overlaid(tree, side(other, 0), side(cluster, 1), gates)
            told = True
            yield HeldAgainst("origin", cluster, other, both, float(share[cluster]))
        other = int(nearest[cluster])
        if samples == 1 and other != NONE and min(count[cluster, 0], count[other, 0]) >= LEAST_REQUESTS:
            both = overlaid(tree, side(other, 0), side(cluster, 0), gates)
            told = True
            yield HeldAgainst("nearest", cluster, other, both, float(share[cluster]))
        if not told:
            itself = overlaid(tree, every, every, within)
            yield HeldAgainst("alone", cluster, cluster, itself, float(share[cluster]))
