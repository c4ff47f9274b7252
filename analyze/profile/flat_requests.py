"""Requests of a comparison as flat columns, with the two outcomes that segments are tested for: failed, and
slow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from analyze.numbering import Numbering
from analyze.population import Category, Population
from analyze.profile.attribute_values import RequestIds, request_ids
from schemas.arrays import B1, I8
from schemas.lake import SPANS
from stitch.columnar.runs import run_starts

NOWHERE = -1
"""Component number that stands for none, for requests without a failure."""
NO_LIMIT: Final = np.iinfo(np.int64).max
"""Threshold that no response time exceeds, ns."""
_REFERENCE, _HISTORY = 0, 2
"""Sample number of the reference, and of the first sample of the history."""


@dataclass(frozen=True, slots=True)
class FlatRequests:
    """All requests of a comparison as flat columns, category after category."""

    category: I8
    """int64[requests]: number of the request's graph; equal graphs have one number in all samples."""
    row: I8
    """int64[requests]: row in the request's category."""
    sample: I8
    """int64[requests]: 0 for the reference, 1 for the problem, from 2 on the samples of the history."""
    ids: RequestIds
    response_ns: I8
    """int64[requests]: response time, ns."""
    start_ns: I8
    """int64[requests]: start, Unix ns."""
    origin: I8
    """int64[requests]: number of the component where the request's first failure began; NOWHERE (-1) for
    none."""
    origin_position: I8
    """int64[requests]: node of the graph where the request's first failure began; -1 for none."""
    root: I8
    """int64[graphs]: index into `roots`."""
    passes: B1
    """bool[graphs, components]: True if the graph has a node of the component."""
    components: tuple[str, ...]
    roots: tuple[str, ...]
    """Root types."""

    def limit_ns(self, quantile: float, least: int) -> I8:
        """int64[requests]: response time above which the request is slow, ns.

        This is the quantile (in [0, 1]) of the response times of the reference's requests with the same graph
        or, if there are fewer than `least`, with the same root type; NO_LIMIT if there are fewer than
        `least`, too."""
        found = np.full(len(self.row), NO_LIMIT)
        reference = np.flatnonzero(self.sample == _REFERENCE)
        for key in (self.root[self.category], self.category):  # what is nearer overrules
            order = reference[np.lexsort((self.response_ns[reference], key[reference]))]
            first = np.flatnonzero(run_starts(key[order]))
            numbers, size = key[order[first]], np.diff(first, append=len(order))
            at = first + np.minimum((size * quantile).astype(np.int64), size - 1)
            limit = np.full(int(key.max(initial=0)) + 1, NO_LIMIT)
            limit[numbers[size >= least]] = self.response_ns[order][at[size >= least]]
            known = limit[key] < NO_LIMIT
            found[known] = limit[key][known]
        return found


def flat_requests(population: Population, history: Population | None) -> FlatRequests:
    """Flatten the requests of both samples and of the history (None: no history). O(requests + failures)."""
    graphs, roots, components = Numbering[str](), Numbering[str](), Numbering[str]()
    root_of: list[int] = []
    passing: list[list[int]] = []
    parts: list[tuple[I8, ...]] = []
    ids: list[pa.Array] = []
    for source, first in ((population, _REFERENCE), (history, _HISTORY)):
        for category in () if source is None else source.categories:
            number = graphs[category.graph.key]
            nodes = [components[node.component] for node in category.graph.nodes]
            if number == len(root_of):
                root_of.append(roots[category.graph.root])
                passing.append(sorted(set(nodes)))
            n = category.n_requests
            position = _first_failure(category)
            origin = np.where(position < 0, NOWHERE, np.array(nodes, dtype=np.int64)[position])
            parts.append(
                (
                    np.full(n, number),
                    np.arange(n),
                    category.sample.astype(np.int64) + first,
                    category.response_ns,
                    category.start_ns,
                    origin,
                    position,
                    np.full(n, category.graph.kind == SPANS),
                )
            )
            ids.append(category.request_id)
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    passes = np.zeros((len(passing), len(components)), dtype=np.bool_)
    for number, mine in enumerate(passing):
        passes[number, mine] = True
    category_, row, sample, response_ns, start_ns, origin, position, of_spans = columns
    return FlatRequests(
        category_,
        row,
        sample,
        request_ids(pa.concat_arrays(ids), of_spans),
        response_ns,
        start_ns,
        origin,
        position,
        np.array(root_of, dtype=np.int64),
        passes,
        tuple(components),
        tuple(roots),
    )


def _first_failure(category: Category) -> I8:
    """int64[requests]: node of the innermost failed span, or of the first failed activity record; -1 for
    none."""
    failures = category.failures
    found = np.full(category.n_requests, -1, dtype=np.int64)
    if len(failures.row):
        position = failures.position.astype(np.int64)
        order = np.lexsort((position if category.graph.kind == SPANS else -position, failures.row))
        found[failures.row[order]] = position[order]  # the last one of a row stays
    return found
