"""A front end in two periods: in the second a cache misses more, or a disk takes longer (HOT §1, §2.2).

The paper's two kinds of change. READs hit a cache or go to a disk; WRITEs go to a disk of their own.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from oracles.populations import category, graph, population

from analyze.population import Category, Population, Sample

HIT = ("nfs/READ", "cache/HIT", "nfs/READ_DONE")
MISS = ("nfs/READ", "cache/MISS", "sn/CALL", "sn/DISK", "nfs/READ_DONE")
WRITE = ("nfs/WRITE", "log/APPEND", "log/SYNC", "nfs/WRITE_DONE")
HIT_US, MISS_US, WRITE_US = (20, 30), (25, 60, 8_000, 40), (30, 200, 100)
SECOND_NS = 10**9
DAY_NS = 86_400 * SECOND_NS


def two_changes(
    seed: int = 0,
    n: int = 400,
    *,
    misses: tuple[float, float] = (0.1, 0.1),
    sync: float = 1.0,
    samples: int = 2,
) -> Population:
    """n READs and n WRITEs a period; misses: share of READs that miss by period; sync: how much longer
    log/SYNC takes in the second."""
    rng = np.random.default_rng(seed)
    sample = np.repeat(np.arange(samples), n)
    place = np.tile(np.arange(n), samples)
    missed = rng.random(len(sample)) < np.array(misses)[sample]
    longer = np.where(sample == 1, sync, 1.0)
    made = [
        _made(rng, HIT, HIT_US, sample[~missed], place[~missed], np.ones((~missed).sum())),
        _made(rng, MISS, MISS_US, sample[missed], place[missed], np.ones(missed.sum())),
        _made(rng, WRITE, WRITE_US, sample, place, longer),
    ]
    names = ("reference", "problem")[:samples]
    return population(
        *(one for one in made if one.n_requests),
        samples=tuple(Sample(name, "", i * DAY_NS, (i + 1) * DAY_NS) for i, name in enumerate(names)),
        statuses=("ok",),
    )


def _made(
    rng: np.random.Generator,
    points: tuple[str, ...],
    mean_us: tuple[int, ...],
    sample: np.ndarray,
    place: np.ndarray,
    longer: np.ndarray,
) -> Category:
    us = rng.lognormal(0, 0.3, (len(sample), len(mean_us))) * np.array(mean_us)
    us[:, 1] *= longer
    at = np.concatenate([np.zeros((len(sample), 1)), us.cumsum(axis=1)], axis=1)
    one = category(graph(points), (at * 1e3).astype(np.int64), sample)
    return replace(one, start_ns=(np.sort(sample).astype(np.int64) * 86_400 + place) * SECOND_NS)
