"""Samples of a population put together in another way: what was loaded once serves many comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from analyze.population import Category, Codes, Population, RecordedFailures, Sample


def regroup(population: Population, groups: Sequence[Sequence[int]], names: Sequence[str]) -> Population:
    """A population whose sample g holds the requests of the old samples `groups[g]`, named `names[g]`.

    No old sample may be in two groups. Rows of a sample keep the old order (by old sample, start, id).
    Graphs and keys stay; categories without a row are left out. A new sample spans its old ones in time.
    """
    flat = [old for group in groups for old in group]
    if len(set(flat)) != len(flat):
        raise ValueError("a sample is in two groups")
    new_of = np.full(len(population.samples), -1, dtype=np.int64)
    for new, group in enumerate(groups):
        new_of[list(group)] = new

    def params(
        sample: int,
        /,
        *,
        keys: Sequence[str] | None = None,
        requests: pa.Array | None = None,
        as_codes: bool = False,
    ) -> pa.Table:
        return pa.concat_tables(
            [
                population.params(old, keys=keys, requests=requests, as_codes=as_codes)
                for old in groups[sample]
            ]
        )

    return replace(
        population,
        categories=tuple(
            found for category in population.categories if (found := _rows(category, new_of)) is not None
        ),
        excluded={
            flag: tuple(sum(counts[old] for old in group) for group in groups)
            for flag, counts in population.excluded.items()
        },
        samples=tuple(
            _spanning([population.samples[old] for old in group], name)
            for group, name in zip(groups, names, strict=True)
        ),
        params=params,
    )


def _hosts(host: Codes, rows: np.ndarray) -> Codes:
    """Some requests of a host matrix; a repeated row stays one."""
    if host.strides[1] == 0:
        return np.broadcast_to(host[:, :1], (len(host), len(rows)))
    return np.ascontiguousarray(host[:, rows])


def _spanning(samples: Sequence[Sample], name: str) -> Sample:
    return Sample(
        name,
        ", ".join(sample.text for sample in samples),
        min(sample.start_ns for sample in samples),
        max(sample.end_ns for sample in samples),
        ranges=tuple(sorted(part for s in samples for part in (s.ranges or ((s.start_ns, s.end_ns),))))
        if len(samples) > 1
        else samples[0].ranges,
        recorded=samples[0].recorded if len(samples) == 1 else (),
    )


def _rows(category: Category, new_of: np.ndarray) -> Category | None:
    """The category with the rows of the new samples; None where there is none."""
    new = new_of[category.sample]
    rows = np.flatnonzero(new >= 0)
    if not len(rows):
        return None
    rows = rows[np.argsort(new[rows], kind="stable")]
    failures = category.failures
    if len(failures.row):
        place = np.full(category.n_requests, -1, dtype=np.int64)
        place[rows] = np.arange(len(rows))
        row = place[failures.row]
        order = np.flatnonzero(row >= 0)
        order = order[np.lexsort((failures.position[order], row[order]))]
        failures = RecordedFailures(
            row[order].astype(np.int32), failures.position[order], failures.error[order]
        )
    return replace(
        category,
        node_ns=np.ascontiguousarray(category.node_ns[:, rows]),
        response_ns=category.response_ns[rows],
        start_ns=category.start_ns[rows],
        weight=category.weight[rows],
        sample=new[rows].astype(np.uint8),
        status=category.status[rows],
        request_id=category.request_id.take(pa.array(rows)),
        host=None if category.host is None else _hosts(category.host, rows),
        failures=failures,
        origin=None if category.origin is None else category.origin[rows],
    )
