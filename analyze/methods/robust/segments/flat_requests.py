"""Requests of a comparison in one row of columns, with what a segment is tested for: failing, and slow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from analyze.methods.robust.roles import PROBLEM, REFERENCE
from analyze.methods.robust.segments.attribute_values import RequestIds, request_ids
from analyze.numbering import Numbering
from analyze.population import Category, Population
from schemas.arrays import B1, I8
from schemas.lake import SPANS
from stitch.graph.placed import POINT

NOWHERE = -1
"""Component of a request without a failure."""


@dataclass(frozen=True, slots=True)
class FlatRequests:
    """Requests category after category; arrays are [requests] unless said otherwise."""

    category: I8
    """Number of the graph, the same of all samples."""
    row: I8
    """Row of the population's category."""
    sample: I8
    """REFERENCE, PROBLEM, then the history's samples."""
    ids: RequestIds
    response_ns: I8
    start_ns: I8
    origin: I8
    """Component at which the first failure began; NOWHERE for none."""
    origin_position: I8
    """Position of that failure in the graph; -1 for none."""
    root: I8
    """[graphs] root type."""
    passes: B1
    """[graphs, components] whether a graph has a node of a component."""
    components: tuple[str, ...]

    def slow(self, quantile: float, least: int) -> B1:
        """Mark requests over a quantile of the reference: of their graph, or of their root type where the
        graph has fewer than `least` requests of the reference; none where that has fewer."""
        slow = np.zeros(len(self.row), dtype=np.bool_)
        reference = self.sample == REFERENCE
        for key in (self.root[self.category], self.category):  # what is nearer overrules
            order = np.lexsort((self.response_ns, key))
            order = order[reference[order]]
            numbers, first, size = np.unique(key[order], return_index=True, return_counts=True)
            at = first + np.minimum((size * quantile).astype(np.int64), size - 1)
            limit = np.full(int(key.max(initial=0)) + 1, np.iinfo(np.int64).max)
            limit[numbers[size >= least]] = self.response_ns[order][at[size >= least]]
            known = limit[key] < np.iinfo(np.int64).max
            slow[known] = (self.response_ns > limit[key])[known]
        return slow


def flat_requests(population: Population, history: Population | None) -> FlatRequests:
    """Put the requests of both periods and of a history beside each other. O(requests + failures)."""
    graphs, roots, components = Numbering[str](), Numbering[str](), Numbering[str]()
    root_of: list[int] = []
    passing: list[list[int]] = []
    parts: list[tuple[I8, ...]] = []
    ids: list[pa.Array] = []
    for source, first in ((population, REFERENCE), (history, PROBLEM + 1)):
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
    )


def _first_failure(category: Category) -> I8:
    """Give [requests] the position of the innermost failing span, of records of the first; -1 for none."""
    failures = category.failures
    found = np.full(category.n_requests, -1, dtype=np.int64)
    if len(failures.row):
        records = all(node.side == POINT for node in category.graph.nodes)
        position = failures.position.astype(np.int64)
        order = np.lexsort((-position if records else position, failures.row))
        found[failures.row[order]] = position[order]  # the last one of a row stays
    return found
