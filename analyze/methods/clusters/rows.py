"""Rows of clusters and overlays for the report, and the complete tables beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from analyze.methods.clusters.calling_tree import ROOT
from analyze.methods.clusters.cluster_overlays import NONE, ClusterOverlay
from analyze.methods.clusters.clusters_run import ClustersRun
from analyze.methods.clusters.settings import ClustersSettings
from analyze.methods.clusters.shown_overlay import shown_nodes
from analyze.population import Population
from schemas.arrays import F8, I8
from schemas.report.clusters import ClusterCategory, ClusterRow, TreeOverlayRow
from schemas.report.columns import arrow_columns, arrow_table, stored

_CLUSTERS: Final = (
    stored("cluster", "place", "number, from 1 by size"),
    stored("root", "text", "root type of most of its requests"),
    stored("sample", "text", "sample"),
    stored("requests", "count", "recorded requests"),
    stored("share", "share", "of all requests of the sample"),
    stored("of_root", "share", "of the requests of its root type", null=True),
    stored("mean_us", "us", "mean response time, µs", null=True),
    stored("z", "number", "change of of_root over its standard error; two samples only", null=True),
    stored("p", "p", "its p-value", null=True),
    stored("q", "p", "p corrected for the number of tests", null=True),
    stored("changed", "flag", "significant"),
    stored("nearest", "place", "nearest other cluster of the root type", null=True),
    stored("nearest_distance", "number", "distance of the centres", null=True),
    stored("origin", "place", "nearest cluster of the root type that shrank", null=True),
    stored("jaccard", "share", "mean overlap when the clustering is done again", null=True),
    stored("categories", "count", "categories (level L1)", null=True),
    stored("rare_categories", "count", "those of at most 10 requests"),
    stored("rare_requests", "count", "their requests"),
)
_TREE: Final = (
    stored("node", "count", "number of the node"),
    stored("above", "count", "its caller, or the step before; null: a root", null=True),
    stored("component", "text", "component"),
    stored("name", "text", "what happens there"),
    stored("cluster", "place", "number, from 1 by size"),
    stored("sample", "text", "sample"),
    stored("requests", "number", "recorded requests"),
    stored("visits", "number", "visits, weighted"),
    stored("time_us", "us", "time of all visits without what they call, µs"),
)


def clusters_tables(
    population: Population, run: ClustersRun, rows: Sequence[ClusterRow], blocks: int
) -> dict[str, pa.Table]:
    """Make the tables of a run.

    `clusters`: one row per cluster and sample; `clusters_requests`, `clusters_categories`: members of the
    clusters; `clusters_distances`: distances between centres; `clusters_trees`: calling-context trees with
    weighted sums by cluster and sample.
    """
    samples = [sample.name for sample in population.samples]
    lines = [(row, number) for row in rows for number in range(len(samples))]
    return {
        "clusters": arrow_table(
            _CLUSTERS,
            [row for row, _ in lines],
            cluster=[row.number for row, _ in lines],
            sample=samples * len(rows),
            requests=[row.requests[number] for row, number in lines],
            share=[row.shares[number] for row, number in lines],
            of_root=[row.of_root[number] for row, number in lines],
            mean_us=[row.mean_us[number] for row, number in lines],
            categories=[row.categories_total for row, _ in lines],
            rare_categories=[row.rare for row, _ in lines],
        ),
        "clusters_requests": _requests(population, run, samples),
        "clusters_categories": _categories(population, run, samples),
        "clusters_distances": _distances(run),
        "clusters_trees": _trees(run, samples, blocks),
    }


def _named(codes: np.ndarray[Any, Any], words: Sequence[str]) -> pa.Array:
    return pa.array(words, pa.string()).take(pa.array(codes.astype(np.int64)))


def _requests(population: Population, run: ClustersRun, samples: Sequence[str]) -> pa.Table:
    categories = population.categories
    return pa.table(
        {
            "request_id": pa.concat_arrays([category.request_id for category in categories]),
            "sample": _named(np.concatenate([category.sample for category in categories]), samples),
            "category": _named(
                np.repeat(np.arange(len(categories)), [category.n_requests for category in categories]),
                [category.graph.key for category in categories],
            ),
            "cluster": pa.array((np.concatenate(run.clustered.label) + 1).astype(np.int32)),
        }
    )


def _categories(population: Population, run: ClustersRun, samples: Sequence[str]) -> pa.Table:
    count = run.clustered.count
    category, cluster, sample = np.nonzero(count)
    graphs = [one.graph for one in population.categories]
    folded = run.agreement.category[category]
    return pa.table(
        {
            "category": _named(category, [graph.key for graph in graphs]),
            "root": _named(category, [graph.root for graph in graphs]),
            "folded": _named(folded, run.agreement.key),
            "rare": pa.array(run.agreement.rare[folded]),
            "cluster": pa.array((cluster + 1).astype(np.int32)),
            "sample": _named(sample, samples),
            "requests": pa.array(count[category, cluster, sample]),
        }
    )


def _distances(run: ClustersRun) -> pa.Table:
    n = len(run.apart)
    cluster, other = np.divmod(np.arange(n * n), n)
    return pa.table(
        {
            "cluster": pa.array((cluster + 1).astype(np.int32)),
            "other": pa.array((other + 1).astype(np.int32)),
            "distance": pa.array(run.apart.reshape(-1)),
        }
    )


def _trees(run: ClustersRun, samples: Sequence[str], blocks: int) -> pa.Table:
    tree = run.tree
    into = np.arange(tree.visits.shape[1]) // blocks
    n = int(into[-1]) + 1
    through, visits, time_us = (
        tree.summed_groups(matrix, into, n) for matrix in (tree.through, tree.visits, tree.time_us)
    )
    node, group = np.nonzero(visits)
    above = tree.above[node]
    return arrow_columns(
        _TREE,
        node=node,
        above=pa.array(above, mask=above == ROOT),
        component=_named(node, [name.where for name in tree.names]),
        name=_named(node, [name.what for name in tree.names]),
        cluster=group // len(samples) + 1,
        sample=_named(group % len(samples), samples),
        requests=through[node, group],
        visits=visits[node, group],
        time_us=time_us[node, group],
    )


_MOST_CATEGORIES: Final = 8


def cluster_rows(run: ClustersRun, settings: ClustersSettings) -> list[ClusterRow]:
    """Make one row for each cluster, in order of index.

    In `run.tree`, each group must be a time block of one cluster in one sample.
    """
    groups = np.repeat(np.arange(run.partition.n_clusters), run.clustered.n_samples * settings.blocks)
    through = run.tree.summed_groups(run.tree.through, groups, run.partition.n_clusters)
    requests = np.bincount(groups, run.tree.requests, run.partition.n_clusters).astype(np.float64)
    dominant = run.clustered.dominant()
    rows = []
    for cluster in range(run.partition.n_clusters):
        alike = np.flatnonzero(dominant == dominant[cluster])
        marks = _cluster_marks(through, requests, cluster, alike[alike != cluster], settings.mark_share)
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


def overlay_row(run: ClustersRun, held: ClusterOverlay, samples: Sequence[str]) -> TreeOverlayRow:
    """Make the row of one overlay, with only the nodes to show. samples: names of the samples."""
    clustered = run.clustered
    first, last = {"samples": (0, 1), "origin": (0, 1)}.get(held.kind, (None, None))
    nodes, most = shown_nodes(run.tree, held.overlay)

    def described(cluster: int, sample: int | None) -> tuple[str, int, float]:
        which = slice(None) if sample is None else slice(sample, sample + 1)
        weight = clustered.weight[:, cluster, which].sum()
        mean = clustered.response_us[:, cluster, which].sum() / max(weight, 1e-300)
        text = f"cluster {cluster + 1}" + ("" if sample is None else f", {samples[sample]}")
        return text, int(clustered.count[:, cluster, which].sum()), float(mean)

    (a, requests_a, mean_a), (b, requests_b, mean_b) = (
        described(held.other, first),
        described(held.cluster, last),
    )
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


def _cluster_marks(through: F8, requests: F8, cluster: int, rest: I8, least: float) -> tuple[int, int]:
    """Find the two nodes that distinguish a cluster best: (node passed mostly in this cluster, node passed
    mostly in the other clusters), -1 for none.

    through: float64[nodes, clusters] requests that pass; requests: float64[clusters]; rest: indices of the
    other clusters of the root type; least: minimum difference of shares. Of equally distinctive nodes the
    topmost is chosen.
    """
    others = float(requests[rest].sum())
    if others <= 0 or requests[cluster] <= 0:
        return ROOT, ROOT
    apart = through[:, cluster] / requests[cluster] - through[:, rest].sum(axis=1) / others
    has, lacks = int(np.argmax(apart)), int(np.argmin(apart))
    return has if apart[has] >= least else ROOT, lacks if apart[lacks] <= -least else ROOT
