"""The example of the VarianceFinder paper: striped READs of a storage service (VF Figures 1 and 2).

An NFS server answers READs out of its cache, or asks two storage nodes at once. A storage node's request
waits in a queue, which is long where its disk is slow; the disk's time is of two kinds, which the trace does
not tell apart but for a parameter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from oracles.populations import category, graph, population

from analyze.population import PARAMS_AS_TEXT, Category, Population, Sample

HIT = ("nfs/READ_CALL", "nfs/CACHE_HIT", "nfs/READ_REPLY")
MISS = (
    "nfs/READ_CALL",
    "nfs/CACHE_MISS",
    "sn1/READ_CALL",
    "sn1/DISK_DONE",
    "sn2/READ_CALL",
    "sn2/DISK_DONE",
    "nfs/READ_REPLY",
)
MISS_EDGES = ((0, 1), (1, 2), (2, 3), (3, 6), (1, 4), (4, 5), (5, 6))
QUEUE, DISK = "nfs/CACHE_MISS -> sn1/READ_CALL", "sn1/READ_CALL -> sn1/DISK_DONE"
SECOND_NS = 10**9


def reads(
    n: int = 240, *, seed: int = 1, samples: int = 1, wilder: float = 1.0, told: bool = True
) -> Population:
    """READs of one sample or two; in the second the slow kind of disk time is `wilder` times as slow.

    told: each READ that misses has the parameter `zone`, which tells the kind of disk time.
    """
    rng = np.random.default_rng(seed)
    zones: dict[str, str] = {}
    hits = _hits(rng, n, samples)
    misses, slow = _misses(rng, n, samples, wilder)
    for name, is_slow in zip(misses.request_id.to_pylist(), slow.tolist(), strict=True):
        zones[name] = "inner" if is_slow else "outer"

    def params(
        _sample: int,
        /,
        *,
        keys: Sequence[str] | None = None,
        requests: pa.Array | None = None,
        as_codes: bool = False,
    ) -> pa.Table:
        del keys, as_codes
        wanted = zones if requests is None else [name for name in requests.to_pylist() if name in zones]
        rows = [
            {"request_id": r, "kind": "records", "position": 3, "key": "zone", "num": None, "text": zones[r]}
            for r in (wanted if told else ())
        ]
        return pa.Table.from_pylist(rows, schema=PARAMS_AS_TEXT)

    day = 86_400 * SECOND_NS
    named = ("period",) if samples == 1 else ("reference", "problem")
    return population(
        hits,
        misses,
        samples=tuple(Sample(name, f"day {i}", i * day, (i + 1) * day) for i, name in enumerate(named)),
        params=params,
        statuses=("ok",),
    )


def _hits(rng: np.random.Generator, n: int, samples: int) -> Category:
    sample = np.repeat(np.arange(samples), n)
    us = np.stack([rng.lognormal(2, 0.2, len(sample)), rng.lognormal(2, 0.2, len(sample))], axis=1)
    offsets = np.concatenate([np.zeros((len(sample), 1)), us.cumsum(axis=1)], axis=1)
    return _spread(category(graph(HIT), (offsets * 1e3).astype(np.int64), sample), n)


def _misses(rng: np.random.Generator, n: int, samples: int, wilder: float) -> tuple[Category, np.ndarray]:
    sample = np.repeat(np.arange(samples), n)
    m = len(sample)
    slow = rng.random(m) < 0.3
    scale = np.where(sample == 1, wilder, 1.0)
    disk = np.where(slow, 9_000.0 * scale, 900.0) * rng.lognormal(0, 0.15, m)
    queue = 0.4 * disk * rng.lognormal(0, 0.15, m)
    other = rng.lognormal(5, 0.2, m)
    call, split = rng.lognormal(2, 0.2, m), rng.lognormal(3, 0.2, m)
    at = np.zeros((m, 7))
    at[:, 1] = call
    at[:, 2] = at[:, 1] + queue
    at[:, 3] = at[:, 2] + disk
    at[:, 4] = at[:, 1] + split
    at[:, 5] = at[:, 4] + other
    at[:, 6] = np.maximum(at[:, 3], at[:, 5]) + 20
    made = category(graph(MISS, MISS_EDGES), (at * 1e3).astype(np.int64), sample)
    return _spread(made, n), slow


def _spread(made: Category, n: int) -> Category:
    """One request a second of its own day."""
    place = np.arange(made.n_requests) % n
    start = (made.sample.astype(np.int64) * 86_400 + place) * SECOND_NS
    return replace(made, start_ns=start)
