"""Edit distances between categories (ALGORITHMS B.1b, C.5, C.7): Levenshtein on sequences of names.

`text` compares canonical tokens, `released` the names of its edges' ends. Names are turned into one character
each, so that the distance runs on strings. Every candidate's distance enters the weighted mean of a
mutation's precursors, hence no score cutoff: a cut distance would change the published formula. Equal
sequences (in `text`, categories that differ in loop counts only) are computed once.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist

from analyze.population import Graph

I4 = npt.NDArray[np.int32]
F8 = npt.NDArray[np.float64]
INDEX = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Distances:
    """[mutations, precursors] edit distances."""

    edits: I4
    """Levenshtein distance d."""
    normalized: F8
    """d over the longer sequence, in [0, 1]."""


def edge_sequence(graph: Graph) -> tuple[Hashable, ...]:
    """Names of the ends of every edge, (src, dst, src, dst, …), loops unfolded, in the order of `edges`.

    What the released tool compares. a → b → c is (a, b, b, c); a graph of one node is empty.
    """
    return tuple(graph.nodes[end] for end in graph.edges.reshape(-1).tolist())


class TokenTexts:
    """Sequences as strings over a private alphabet, one character a distinct token."""

    def __init__(self, sequences: Sequence[tuple[Hashable, ...]]) -> None:
        tokens = dict.fromkeys(token for sequence in sequences for token in sequence)
        alphabet = {token: chr(i) for i, token in enumerate(tokens)}
        self.texts = tuple("".join(alphabet[t] for t in s) for s in sequences)

    def distances(self, rows: INDEX, columns: INDEX) -> Distances:
        """Distances between the sequences `rows` and `columns`. O(Σ n·m / 64)."""
        left, back_left = _distinct([self.texts[i] for i in rows])
        right, back_right = _distinct([self.texts[i] for i in columns])
        edits = cdist(left, right, scorer=Levenshtein.distance, dtype=np.int32)[np.ix_(back_left, back_right)]
        longer = np.maximum(
            np.array([len(self.texts[i]) for i in rows])[:, None],
            np.array([len(self.texts[i]) for i in columns])[None, :],
        )
        return Distances(edits, edits / np.maximum(longer, 1))


def _distinct(texts: list[str]) -> tuple[list[str], INDEX]:
    """Distinct texts, and for each input its place among them."""
    place = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    return list(place), np.array([place[text] for text in texts], dtype=np.intp)
