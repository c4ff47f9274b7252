"""Find structural mutations, and their candidate precursors (TR §5.2, NSDI §5.2-5.3).

Categories that gained requests are found by a threshold on raw counts, the origin of these requests by edit
distance between categories, and their cost by the formulas of both papers (TR §5.3, NSDI §5.4).

The distance is Levenshtein's on sequences of names: variant `text` compares canonical tokens, variant
`released` the names of the ends of edges. Names are encoded as one character each, so that the distance runs
on strings. Every candidate's distance enters the weighted mean of a mutation's precursors, so distances are
computed in full: a cutoff would change the published formula. The distance of equal sequences (in `text`,
categories that differ in loop counts only) is computed once.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist

from analyze.methods.paper.settings import Distance, PaperSettings
from analyze.population import Graph
from schemas.arrays import F8, I4, I8

_INDEX = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class StructuralSets:
    """Categories that gained or lost requests, as ascending indices in the population."""

    mutations: _INDEX
    precursors: _INDEX


def structural_sets(count: I8, settings: PaperSettings) -> StructuralSets:
    """Find categories that gained, or lost, at least the threshold in requests.

    count: int64[2, categories] raw counts. By variant `text` the change must be >= threshold, by `released`
    strictly more.
    """
    gained = count[1] - count[0]
    least = settings.sm_threshold + (1 if settings.variant == "released" else 0)
    return StructuralSets(np.flatnonzero(gained >= least), np.flatnonzero(-gained >= least))


def candidates(mutation: int, precursors: _INDEX, count: I8) -> _INDEX:
    """Select the candidate precursors of a mutation: categories that lost at least as many requests as the
    mutation gained (NSDI §5.3: 1:N).

    mutation: index of the category; precursors: indices of categories with the same root type that lost
    requests; count: int64[2, categories] numbers of requests.
    """
    lost = count[0, precursors] - count[1, precursors]
    chosen: _INDEX = precursors[lost >= count[1, mutation] - count[0, mutation]]
    return chosen


@dataclass(frozen=True, slots=True)
class Distances:
    """Edit distances between mutations and precursors; arrays are [mutations, precursors]."""

    edits: I4
    """Levenshtein distance d, int32[mutations, precursors]."""
    normalized: F8
    """Levenshtein distance over the length of the longer sequence, float64[mutations, precursors], in [0,
    1]."""


def edge_sequence(graph: Graph) -> tuple[Hashable, ...]:
    """Names of the ends of each edge, (src, dst, src, dst, …), in the order of the graph's `edges`; loops are
    unfolded.

    The released tool compares these sequences. For a → b → c it is (a, b, b, c), for a graph of one node
    empty.
    """
    return tuple(graph.nodes[end] for end in graph.edges.reshape(-1).tolist())


def distances(texts: Sequence[str], rows: _INDEX, columns: _INDEX) -> Distances:
    """Compute the edit distances between `texts[rows]` and `texts[columns]`; texts have one character per
    name (`as_texts`). O(Σ n·m / 64)."""
    left, back_left = _distinct([texts[i] for i in rows])
    right, back_right = _distinct([texts[i] for i in columns])
    edits = cdist(left, right, scorer=Levenshtein.distance, dtype=np.int32)[np.ix_(back_left, back_right)]
    length = np.array([len(text) for text in texts])
    longer = np.maximum(length[rows][:, None], length[columns][None, :])
    return Distances(edits, edits / np.maximum(longer, 1))


def _distinct(texts: list[str]) -> tuple[list[str], _INDEX]:
    """Distinct texts in order of first occurrence, and the index among them of each input text."""
    place = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    return list(place), np.array([place[text] for text in texts], dtype=np.intp)


def similarity_weights(edits: I4, normalized: F8, distance: Distance, settings: PaperSettings) -> F8:
    """Weights of a mutation's candidates by similarity; they sum to 1.

    Variant `text`: 1/(1+d) for the raw distance d, 1 - d for the normalized distance. Variant `released`: 1/d
    for either distance; candidates at distance 0 share all weight (the limit).
    """
    d = edits.astype(np.float64) if distance == "raw" else normalized
    if settings.variant == "released":
        s = np.where(d == 0, 1.0, 0.0) if (d == 0).any() else 1.0 / d
    else:
        s = 1.0 / (1.0 + d) if distance == "raw" else 1.0 - d
    total = s.sum()
    # No token in common with any candidate: similarity is undefined, so weights are equal.
    return s / total if total > 0 else np.full(len(s), 1.0 / len(s))


def structural_contribution(gained: int, mean1_us: float, baseline_us: float) -> float:
    """Contribution of a structural mutation, requests·µs: requests gained times (problem's mean - mean of the
    precursors)."""
    return gained * (mean1_us - baseline_us)


@dataclass(frozen=True, slots=True)
class MutationCandidates:
    """Candidate precursors of one structural mutation, the most likely first; arrays are [candidates]."""

    category: _INDEX
    """Index of the candidate in the population."""
    edits: I4
    """Edit distance between candidate and mutation, not normalized."""
    distance: F8
    """Edit distance by which candidates are ranked: normalized, or not, as by the setting `distance`."""
    weight: F8
    """Weight of each candidate in the baseline mean; the weights sum to 1."""
    relaxed: bool
    """True if the rule that a candidate lost as many requests as the mutation gained (1:N) left none, and was
    dropped; by variant `text` only.

    Many categories may have given requests to one: the papers leave the case open. If `category` is empty all
    the same, no category of the root type lost the threshold. Variant `released` never drops the rule: an
    empty `category` means that no candidate passed it.
    """
