"""Requests of a comparison in flat columns, with the outcomes that segments are tested for: failing, and
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
from stitch.graph.placed import POINT

NOWHERE = -1
"""Component of a request without a failure."""
NO_LIMIT: Final = np.iinfo(np.int64).max
"""Threshold that no response time exceeds."""
_REFERENCE, _HISTORY = 0, 2
"""Number of the first compared sample, and of the history's first sample."""


@dataclass(frozen=True, slots=True)
class FlatRequests:
    """All requests, category after category; arrays are [requests] unless said otherwise."""

    category: I8
    """Number of the graph, the same in all samples."""
    row: I8
    """Row within the population's category."""
    sample: I8
    """0 for the reference, 1 for the problem, then the history's samples."""
    ids: RequestIds
    response_ns: I8
    start_ns: I8
    origin: I8
    """Component where the first failure began; NOWHERE for none."""
    origin_position: I8
    """Position of the first failure in the graph; -1 for none."""
    root: I8
    """[graphs] index into `roots`."""
    passes: B1
    """[graphs, components] True if the graph has a node of the component."""
    components: tuple[str, ...]
    roots: tuple[str, ...]
    """Root types."""

    def limit_ns(self, quantile: float, least: int) -> I8:
        """[requests] quantile of the reference's response times in the request's graph; in its root type if
        the graph has fewer than `least` reference requests; NO_LIMIT if that has fewer, too."""
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
    """Flatten the requests of both periods and of the history. O(requests + failures)."""
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
    """[requests] position of the innermost failing span, for records of the first failure; -1 for none."""
    failures = category.failures
    found = np.full(category.n_requests, -1, dtype=np.int64)
    if len(failures.row):
        records = all(node.side == POINT for node in category.graph.nodes)
        position = failures.position.astype(np.int64)
        order = np.lexsort((-position if records else position, failures.row))
        found[failures.row[order]] = position[order]  # the last one of a row stays
    return found
