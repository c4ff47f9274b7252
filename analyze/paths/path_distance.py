"""How unlike two paths are, and which paths may have given requests to which (ALGORITHMS C.5, C.6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import Levenshtein, Prefix

from schemas.arrays import F8, I8

_EDIT, _PREFIX = 0.7, 0.3
"""Weights of the normalised edit distance and of the prefix that is not shared: paths that part late are
likely to be the same requests (TR §5.2: both share the path up to the point of impact)."""


@dataclass(frozen=True, slots=True)
class CandidatePairs:
    """Pairs that may exchange requests; [pairs], sorted by (target, source)."""

    source: I8
    target: I8
    cost: F8
    """0 to 1."""


def path_cost(left: str, right: str) -> float:
    """0.7·d/longer + 0.3·(1 - common prefix/shorter), 0 for equal texts, at most 1."""
    longer, shorter = max(len(left), len(right)), min(len(left), len(right))
    if longer == 0:
        return 0.0
    edits = Levenshtein.distance(left, right) / longer
    prefix = Prefix.similarity(left, right) / shorter if shorter else 0.0
    return _EDIT * edits + _PREFIX * (1 - prefix)


def as_texts(sequences: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Sequences of tokens as texts of one character a token, so that distances run on text."""
    alphabet = {token: chr(i) for i, token in enumerate(dict.fromkeys(t for s in sequences for t in s))}
    return tuple("".join(alphabet[token] for token in sequence) for sequence in sequences)


def candidate_pairs(
    sequences: Mapping[int, tuple[str, ...]], root: I8, sources: I8, targets: I8, most: int
) -> CandidatePairs:
    """For each target its `most` nearest sources of the same root.

    sources, targets: categories; sequences: their tokens. Where a root has more sources, those with the
    most alike bags of tokens (cosine) are kept before the edit distances are computed; ties by index.
    """
    used = np.union1d(sources, targets).tolist()
    texts = dict(zip(used, as_texts([sequences[i] for i in used]), strict=True))
    found: list[tuple[int, int, float]] = []
    costs: dict[tuple[str, str], float] = {}
    for r in np.unique(root[targets]).tolist():
        givers, takers = sources[root[sources] == r], targets[root[targets] == r]
        if len(givers) == 0:
            continue
        near = _nearest([texts[i] for i in takers.tolist()], [texts[i] for i in givers.tolist()], most)
        for target, chosen in zip(takers.tolist(), near, strict=True):
            for source in givers[chosen].tolist():
                pair = texts[source], texts[target]
                if pair not in costs:
                    costs[pair] = path_cost(*pair)
                found.append((target, source, costs[pair]))
    found.sort()
    return CandidatePairs(
        np.array([f[1] for f in found], np.int64),
        np.array([f[0] for f in found], np.int64),
        np.array([f[2] for f in found], np.float64),
    )


def _nearest(takers: Sequence[str], givers: Sequence[str], most: int) -> list[npt.NDArray[np.intp]]:
    """For each taker the givers with the most alike bags of tokens, at most `most`, ascending."""
    if len(givers) <= most:
        return [np.arange(len(givers))] * len(takers)
    left, right = _bags(takers, givers)
    alike = np.einsum("ik,jk->ij", left, right)
    order = np.argsort(-np.round(alike, 12), axis=1, kind="stable")[:, :most]
    return [np.sort(row) for row in order]


def _bags(takers: Sequence[str], givers: Sequence[str]) -> tuple[F8, F8]:
    """Token counts of unit length, [texts, tokens]."""
    place = {token: i for i, token in enumerate(sorted(set("".join([*takers, *givers]))))}

    def of(texts: Sequence[str]) -> F8:
        bags = np.zeros((len(texts), len(place)))
        for row, text in zip(bags, texts, strict=True):
            tokens = np.array([place[t] for t in text], np.int64)
            row += np.bincount(tokens, minlength=len(place))
        norm = np.sqrt((bags**2).sum(axis=1, keepdims=True))
        unit: F8 = bags / np.where(norm > 0, norm, 1.0)
        return unit

    return of(takers), of(givers)
