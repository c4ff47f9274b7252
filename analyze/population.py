"""The population a comparison works on: per category one graph and a request-by-node matrix.

`analyze.refine` makes it from the lake's rows; critical path, attribution, mutations and reports read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

I8 = npt.NDArray[np.int64]
I4 = npt.NDArray[np.int32]
F8 = npt.NDArray[np.float64]
B1 = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Graph:
    """A refined structure: labelled DAG over canonical positions, without times.

    Positions are a topological order (src < dst); 0 is the root. `labels[i]` is the whole display label of
    node i after the label policy (`[host/]component/point[/label]`, span sides as `…>` and `…<`).
    """

    key: str
    """32 hex digits; equal iff labels, edges and responses are equal."""
    root: str
    """Root type, `component/point`."""
    labels: tuple[str, ...]
    components: tuple[str, ...]
    """[nodes] component of each node."""
    edges: I4
    """[edges, 2] (src, dst), sorted by (dst, src)."""
    responses: I4
    """Positions at which the response may leave."""
    canonical: str
    """Canonical text, for people."""
    tokens: tuple[str, ...]
    """Canonical token sequence at level L1, for the edit distance (C.5)."""

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.labels)


@dataclass(frozen=True, slots=True)
class Category:
    """All requests of one refined structure in both periods, requests sorted by (period, start, id)."""

    graph: Graph
    offset_ns: I8
    """[requests, nodes] ns since start, C order; clamped and skew-corrected by the refinement, so that along
    every edge dst >= src."""
    response_ns: I8
    """[requests] response time."""
    start_ns: I8
    """[requests] ns since the epoch."""
    weight: F8
    """[requests] inverse sampling probability."""
    period: npt.NDArray[np.uint8]
    """[requests] 0 reference, 1 problem."""
    request_id: pa.StringArray
    """[requests]"""
    stored: Sequence[str]
    """Keys of the stored structures that were merged into this category."""
    skewed_edges: B1
    """[edges] whether a skew correction or a clamp changed the edge in any request."""


@dataclass(frozen=True, slots=True)
class Population:
    """Categories of both periods, sorted by (root, key), and what the refinement noticed."""

    categories: tuple[Category, ...]
    excluded: dict[str, tuple[int, int]]
    """Quality flag name -> flows left out (reference, problem)."""
    notes: tuple[str, ...]
    """Sentences for the data-quality section, for example skew between two hosts."""
