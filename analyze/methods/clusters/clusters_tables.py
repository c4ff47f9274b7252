"""Tables of the method `clusters`, complete: clusters, their members, distances, trees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from analyze.methods.clusters.calling_tree import ROOT
from analyze.methods.clusters.pipeline import ClustersRun
from analyze.population import Population
from schemas.report.clusters import ClusterRow
from schemas.report.columns import arrow_schema, stored

CLUSTERS: Final = (
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
    stored("origin", "place", "where it grew: nearest cluster of the root type that shrank", null=True),
    stored("jaccard", "share", "mean overlap when the clustering is done again", null=True),
    stored("categories", "count", "categories (level L1)", null=True),
    stored("rare_categories", "count", "those of at most 10 requests"),
    stored("rare_requests", "count", "their requests"),
)
TREE: Final = (
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
    """`clusters` a row a cluster and sample; `clusters_requests`, `clusters_categories` who is in which;
    `clusters_distances`; `clusters_trees`: calling-context trees, weighted sums of each cluster and sample.
    """
    samples = [sample.name for sample in population.samples]
    return {
        "clusters": pa.Table.from_pylist(
            [line for row in rows for line in _lines(row, samples)], schema=arrow_schema(CLUSTERS)
        ),
        "clusters_requests": _requests(population, run, samples),
        "clusters_categories": _categories(population, run, samples),
        "clusters_distances": _distances(run),
        "clusters_trees": _trees(run, samples, blocks),
    }


def _lines(row: ClusterRow, samples: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {
            **row.model_dump(include={"root", "z", "p", "q", "changed", "nearest", "nearest_distance"}),
            "cluster": row.number,
            "sample": name,
            "requests": row.requests[sample],
            "share": row.shares[sample],
            "of_root": row.of_root[sample],
            "mean_us": row.mean_us[sample],
            "origin": row.origin,
            "jaccard": row.jaccard,
            "categories": row.categories_total,
            "rare_categories": row.rare,
            "rare_requests": row.rare_requests,
        }
        for sample, name in enumerate(samples)
    ]


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
    return pa.table(
        {
            "node": pa.array(node.astype(np.int64)),
            "above": pa.array(above, mask=above == ROOT),
            "component": _named(node, [name.where for name in tree.names]),
            "name": _named(node, [name.what for name in tree.names]),
            "cluster": pa.array((group // len(samples) + 1).astype(np.int32)),
            "sample": _named(group % len(samples), samples),
            "requests": pa.array(through[node, group]),
            "visits": pa.array(visits[node, group]),
            "time_us": pa.array(time_us[node, group]),
        },
        schema=arrow_schema(TREE),
    )
