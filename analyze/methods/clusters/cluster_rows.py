"""Put clusters and overlays into the report's model.

A cluster is marked by a node that it has, or lacks, and the other requests of its root type do not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from analyze.methods.clusters.calling_tree import ROOT
from analyze.methods.clusters.pipeline import ClustersRun
from analyze.methods.clusters.tree_overlay import NONE, HeldAgainst, shown_nodes
from schemas.arrays import F8, I8
from schemas.report.clusters import ClusterCategory, ClusterRow, TreeOverlayRow

_MOST_CATEGORIES: Final = 8
_LEAST: Final = 0.3
"""A node marks a cluster where the shares of requests that pass it are so far apart."""


def cluster_rows(run: ClustersRun, blocks: int) -> list[ClusterRow]:
    """All clusters; `blocks` of time are the tree's groups of a cluster and sample."""
    groups = np.repeat(np.arange(run.partition.n_clusters), run.clustered.n_samples * blocks)
    through = run.tree.summed_groups(run.tree.through, groups, run.partition.n_clusters)
    requests = np.bincount(groups, run.tree.requests, run.partition.n_clusters).astype(np.float64)
    dominant = run.clustered.dominant()
    rows = []
    for cluster in range(run.partition.n_clusters):
        alike = np.flatnonzero(dominant == dominant[cluster])
        marks = _cluster_marks(through, requests, cluster, alike[alike != cluster])
        has, lacks = ("" if node == ROOT else "/".join(run.tree.names[node]) for node in marks)
        rows.append(_row(run, cluster, has, lacks))
    return rows


def _row(run: ClustersRun, cluster: int, has: str, lacks: str) -> ClusterRow:
    clustered, tests = run.clustered, run.shares
    weight = clustered.weight.sum(axis=0)
    dominant = int(clustered.dominant()[cluster])
    by_root = clustered.by_root()
    mine = by_root[:, cluster].sum(axis=1)
    asked = by_root[dominant].sum(axis=0)
    members = run.agreement.members(cluster)
    rare = [one for one in members if run.agreement.rare[one]]
    nearest, origin = int(run.nearest[cluster]), int(run.origin[cluster])
    jaccard = float(run.stability.jaccard[cluster])
    response = clustered.response_us[:, cluster].sum(axis=0)
    samples = range(clustered.n_samples)
    return ClusterRow(
        number=cluster + 1,
        root=clustered.roots[dominant],
        root_part=float(mine[dominant] / mine.sum()),
        roots=int((mine > 0).sum()),
        has=has,
        lacks=lacks,
        requests=tuple(int(n) for n in clustered.count[:, cluster].sum(axis=0)),
        shares=tuple(float(weight[cluster, s] / max(weight[:, s].sum(), 1e-300)) for s in samples),
        of_root=tuple(
            float(by_root[dominant, cluster, s] / asked[s]) if asked[s] > 0 else None for s in samples
        ),
        mean_us=tuple(
            float(response[s] / weight[cluster, s]) if weight[cluster, s] > 0 else None for s in samples
        ),
        z=None if tests is None else float(tests.z[cluster]),
        p=None if tests is None else float(tests.p[cluster]),
        q=None if tests is None else float(tests.q[cluster]),
        changed=tests is not None and bool(tests.changed[cluster]),
        nearest=None if nearest == NONE else nearest + 1,
        nearest_distance=None if nearest == NONE else float(run.apart[cluster, nearest]),
        origin=None if origin == NONE else origin + 1,
        jaccard=jaccard if math.isfinite(jaccard) else None,
        categories=tuple(_category(run, one, cluster) for one in members[:_MOST_CATEGORIES]),
        categories_total=len(members),
        rare=len(rare),
        rare_requests=int(run.agreement.count[rare, cluster].sum()),
    )


def _category(run: ClustersRun, one: int, cluster: int) -> ClusterCategory:
    return ClusterCategory(
        key=run.agreement.key[one],
        requests=tuple(int(n) for n in run.agreement.count[one, cluster]),
    )


def overlay_row(run: ClustersRun, held: HeldAgainst, samples: Sequence[str]) -> TreeOverlayRow:
    """One overlay, cut to what is shown."""
    clustered = run.clustered
    first, last = {"samples": (0, 1), "origin": (0, 1)}.get(held.kind, (None, None))
    nodes, most = shown_nodes(run.tree, held.overlay)

    def told(cluster: int, sample: int | None) -> tuple[str, int, float]:
        which = slice(None) if sample is None else slice(sample, sample + 1)
        weight = clustered.weight[:, cluster, which].sum()
        mean = clustered.response_us[:, cluster, which].sum() / max(weight, 1e-300)
        text = f"cluster {cluster + 1}" + ("" if sample is None else f", {samples[sample]}")
        return text, int(clustered.count[:, cluster, which].sum()), float(mean)

    (a, requests_a, mean_a), (b, requests_b, mean_b) = told(held.other, first), told(held.cluster, last)
    return TreeOverlayRow(
        kind=held.kind,
        cluster=held.cluster + 1,
        other=held.other + 1,
        a=a,
        b=b,
        requests_a=requests_a,
        requests_b=requests_b,
        mean_a_us=mean_a,
        mean_b_us=mean_b,
        score_us=held.score_us,
        calls=run.tree.calls,
        nodes=tuple(nodes),
        nodes_total=len(held.overlay.node),
        first=most,
    )


def _cluster_marks(through: F8, requests: F8, cluster: int, rest: I8) -> tuple[int, int]:
    """(node that the cluster has and the rest lacks, node that it lacks), -1 for none.

    through: [nodes, clusters] requests that pass; requests: [clusters]; rest: the root type's other clusters.
    Of equally telling nodes the topmost: what follows a parting tells no more.
    """
    others = float(requests[rest].sum())
    if others <= 0 or requests[cluster] <= 0:
        return ROOT, ROOT
    apart = through[:, cluster] / requests[cluster] - through[:, rest].sum(axis=1) / others
    has, lacks = int(np.argmax(apart)), int(np.argmin(apart))
    return has if apart[has] >= _LEAST else ROOT, lacks if apart[lacks] <= -_LEAST else ROOT
