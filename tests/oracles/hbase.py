"""The paper's HBase case as requests: ten events of the read path, some of which find a stale location.

DIST §5.2: a YCSB client reads rows; 1 % of the requests hold a stale region location, and the client backs
off for a second before it looks the region up again; a few per cent wait for the disk. One path for all.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from oracles.populations import category, graph

from analyze.population import Population, Sample

POINTS = (
    "client/HTable.get",
    "client/HTable.get_lookup",
    "client/HBaseClient.call",
    "regionserver/HRegionServer.get",
    "regionserver/HRegion.get",
    "regionserver/StoreScanner_seek",
    "regionserver/StoreScanner_seek_end",
    "regionserver/HRegion.get_results",
    "regionserver/HRegionServer.get_end",
    "client/HBaseClient.post_get",
)
"""In the order of the path; the last is P."""
LOOKUP = "client/HTable.get_lookup"
MEAN_MS = (0.05, 0.2, 0.4, 0.2, 0.1, 0.6, 0.1, 0.1, 0.4)
"""Of the step before each point but the first."""
BACKOFF_MS = 1_000.0
DISK_MS = 60.0


def hbase(seed: int, n: int = 6_000, *, stale: float = 0.01, disk: float = 0.02) -> Population:
    """One period; `stale` of the requests pay the back-off before the lookup is done, `disk` a seek."""
    rng = np.random.default_rng(seed)
    steps = rng.lognormal(0.0, 0.5, (n, len(MEAN_MS))) * np.array(MEAN_MS)
    steps[rng.random(n) < stale, POINTS.index(LOOKUP) - 1] += BACKOFF_MS
    seek = POINTS.index("regionserver/StoreScanner_seek_end") - 1
    steps[:, seek] += (rng.random(n) < disk) * rng.lognormal(0.0, 0.4, n) * DISK_MS
    times = np.concatenate([np.zeros((n, 1)), np.cumsum(steps, axis=1)], axis=1) * 1e6
    made = category(graph(POINTS), times.astype(np.int64), np.zeros(n, np.int64))
    made = replace(made, start_ns=np.arange(n, dtype=np.int64) * 10_000_000)
    return Population((made,), {}, (), samples=(Sample("all"),), statuses=("ok",))


def split_at_random(whole: Population, seed: int, part: float = 0.5) -> Population:
    """An A/A comparison: requests of one period dealt into two samples."""
    rng = np.random.default_rng(seed)
    (one,) = whole.categories
    late = rng.random(one.n_requests) < part
    order = np.argsort(late, kind="stable")
    dealt = replace(
        one,
        node_ns=np.ascontiguousarray(one.node_ns[:, order]),
        response_ns=one.response_ns[order],
        start_ns=one.start_ns[order],
        sample=late[order].astype(np.uint8),
    )
    return replace(whole, categories=(dealt,), samples=(Sample("reference"), Sample("problem")))
