"""Find structural mutations, and their candidate precursors (TR §5.2, NSDI §5.2-5.3).

Categories that gained requests are found by a threshold on raw counts, the origin of these requests by edit
distance between categories, and their cost by the formulas of both papers (TR §5.3, NSDI §5.4).

Distance is Levenshtein on sequences of names: `text` compares canonical tokens, `released` the names of its
edges' ends. Names are encoded as one character each, so that the distance runs on strings. Every candidate's
distance enters the weighted mean of a mutation's precursors, so there is no score cutoff: a cut distance
would change the published formula. The distance of equal sequences (in `text`, categories that differ in loop
counts only) is computed once.
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
    """Categories that gained or lost requests: indices into the population's categories, ascending."""

    mutations: _INDEX
    precursors: _INDEX


def structural_sets(count: I8, settings: PaperSettings) -> StructuralSets:
    """Find categories that gained, or lost, at least the threshold in requests.

    count: [2, categories] raw counts. `text`: gained >= threshold; `released`: strictly more.
    """
    gained = count[1] - count[0]
    least = settings.sm_threshold + (1 if settings.variant == "released" else 0)
    return StructuralSets(np.flatnonzero(gained >= least), np.flatnonzero(-gained >= least))


def candidates(mutation: int, precursors: _INDEX, count: I8) -> _INDEX:
    """Precursor candidates: those of the mutation's root type that lost at least the requests it gained (NSDI
    §5.3: 1:N)."""
    lost = count[0, precursors] - count[1, precursors]
    chosen: _INDEX = precursors[lost >= count[1, mutation] - count[0, mutation]]
    return chosen


@dataclass(frozen=True, slots=True)
class Distances:
    """Edit distances; arrays are [mutations, precursors]."""

    edits: I4
    """[mutations, precursors] Levenshtein distance d."""
    normalized: F8
    """[mutations, precursors] d over the longer sequence, 0 to 1."""


def edge_sequence(graph: Graph) -> tuple[Hashable, ...]:
    """Names of the ends of every edge, (src, dst, src, dst, …), loops unfolded, in the order of `edges`.

    The released tool compares these sequences. a → b → c is (a, b, b, c); a graph of one node is empty.
    """
    return tuple(graph.nodes[end] for end in graph.edges.reshape(-1).tolist())


def distances(texts: Sequence[str], rows: _INDEX, columns: _INDEX) -> Distances:
    """Edit distances between `texts[rows]` and `texts[columns]`, texts of one character for each name
    (`as_texts`). O(Σ n·m / 64)."""
    left, back_left = _distinct([texts[i] for i in rows])
    right, back_right = _distinct([texts[i] for i in columns])
    edits = cdist(left, right, scorer=Levenshtein.distance, dtype=np.int32)[np.ix_(back_left, back_right)]
    length = np.array([len(text) for text in texts])
    longer = np.maximum(length[rows][:, None], length[columns][None, :])
    return Distances(edits, edits / np.maximum(longer, 1))


def _distinct(texts: list[str]) -> tuple[list[str], _INDEX]:
    """(distinct texts, index of each input among them)."""
    place = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    return list(place), np.array([place[text] for text in texts], dtype=np.intp)


def similarity_weights(edits: I4, normalized: F8, distance: Distance, settings: PaperSettings) -> F8:
    """Weights of a mutation's candidates, summing to 1.

    `text`: s = 1/(1+d) on the raw distance, 1 - d on the normalized one. `released`: 1/d on either; a
    candidate at distance 0 then takes all (the limit), several share it.
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
    """Contribution: requests gained times the excess of the problem-period mean over the precursors' mean,
    requests·µs."""
    return gained * (mean1_us - baseline_us)


@dataclass(frozen=True, slots=True)
class MutationCandidates:
    """Candidate precursors of one structural mutation, most likely first."""

    category: _INDEX
    edits: I4
    distance: F8
    weight: F8
    """Weights in the baseline mean; they sum to 1."""
    relaxed: bool
    """True in `text` if the 1:N heuristic left no candidate, so these are the candidates without it: many
    categories may have given requests to one. The papers leave the case open; an empty `category` then means
    that nothing of the root type lost the threshold. `released` relaxes no rule: an empty `category` means
    that nothing passed it."""
