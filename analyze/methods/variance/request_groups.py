"""Group requests that should take equally long: by category, the rare ones of a root type together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from analyze.population import Population
from analyze.stats.moments import LARGE
from analyze.stats.sums import totals
from analyze.stats.time_blocks import BLOCKS, equal_count_blocks
from schemas.arrays import F8, I8

NOWHERE: Final = -1


@dataclass(frozen=True, slots=True)
class RequestGroups:
    """One sample's requests, category by category and in groups.

    A category of more than LARGE requests is a group; smaller ones, in which a variance cannot be estimated,
    are one group a root type, so that none of the variance is lost.
    """

    sample: int
    n_blocks: int
    rows: tuple[slice, ...]
    """[categories] where the sample's requests lie."""
    weight: tuple[F8, ...]
    """[categories] of [requests]."""
    block: tuple[I8, ...]
    """[categories] of [requests]: block of time, ascending; blocks hold equally many requests."""
    group: I8
    """[categories] group; NOWHERE without a request."""
    root: I8
    """[groups] index into `roots`."""
    category: I8
    """[groups] the category that it is; NOWHERE where it is the rare ones of a root type."""
    roots: tuple[str, ...]

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return len(self.root)

    def members(self, group: int) -> list[int]:
        """Categories of a group."""
        found: list[int] = np.flatnonzero(self.group == group).tolist()
        return found


def request_groups(population: Population, sample: int) -> RequestGroups:
    """The groups of a sample. O(requests log requests)."""
    categories = population.categories
    rows = tuple(category.rows(sample) for category in categories)
    sizes = np.array([part.stop - part.start for part in rows], dtype=np.int64)
    roots = tuple(sorted({category.graph.root for category in categories}))
    root_of = np.array([roots.index(category.graph.root) for category in categories], dtype=np.int64)
    large = sizes > LARGE
    group = np.full(len(categories), NOWHERE, dtype=np.int64)
    group[large] = np.arange(int(large.sum()))
    rare = (sizes > 0) & ~large
    rare_roots, place = np.unique(root_of[rare], return_inverse=True)
    group[rare] = int(large.sum()) + place
    blocks, n_blocks = _blocks(
        [category.start_ns[part] for category, part in zip(categories, rows, strict=True)]
    )
    return RequestGroups(
        sample=sample,
        n_blocks=n_blocks,
        rows=rows,
        weight=tuple(category.weight[part] for category, part in zip(categories, rows, strict=True)),
        block=blocks,
        group=group,
        root=np.concatenate([root_of[large], rare_roots]).astype(np.int64),
        category=np.concatenate([np.flatnonzero(large), np.full(len(rare_roots), NOWHERE)]).astype(np.int64),
        roots=roots,
    )


def _blocks(starts: Sequence[I8]) -> tuple[tuple[I8, ...], int]:
    """Block of every request of every category, and how many blocks there are."""
    ends = np.cumsum([len(part) for part in starts]).tolist() if starts else []
    when = np.concatenate([np.zeros(0, np.int64), *starts])
    n_blocks = max(1, min(BLOCKS, len(when)))
    block = equal_count_blocks(when, n_blocks)
    # Equal starts are dealt in the order of categories: within one, blocks still ascend.
    return tuple(block[end - len(part) : end] for part, end in zip(starts, ends, strict=True)), n_blocks


@dataclass(frozen=True, slots=True)
class Levels:
    """Weights and weighted means of a value at every level of a sample; the value of one is [requests]."""

    value: tuple[F8, ...]
    """[categories] of [requests]."""
    weight: float
    mean: float
    group_weight: F8
    group_mean: F8
    """[groups]"""
    root_weight: F8
    root_mean: F8
    """[roots]; 0 without a request."""


def levels(groups: RequestGroups, value: tuple[F8, ...]) -> Levels:
    """Means of a value of each request of a sample. Raises ValueError without a request of weight."""
    weights = np.array([part.sum() for part in groups.weight])
    sums = np.array([w @ part for w, part in zip(groups.weight, value, strict=True)])
    used = groups.group != NOWHERE
    group_weight = totals(groups.group[used], weights[used], groups.n_groups)
    group_sum = totals(groups.group[used], sums[used], groups.n_groups)
    root_weight = totals(groups.root, group_weight, len(groups.roots))
    root_sum = totals(groups.root, group_sum, len(groups.roots))
    weight = float(group_weight.sum())
    if not weight > 0:
        raise ValueError("a sample without a request has no variance")
    with np.errstate(invalid="ignore", divide="ignore"):
        root_mean = np.nan_to_num(root_sum / root_weight)
    return Levels(
        value,
        weight,
        float(group_sum.sum()) / weight,
        group_weight,
        group_sum / group_weight,
        root_weight,
        root_mean,
    )
