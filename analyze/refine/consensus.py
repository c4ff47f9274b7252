"""What the evidence of `siblings` says: which children of a parent run one after the other (A.6 S5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from analyze.refine.settings import RefineSettings
from analyze.refine.siblings import ChildKey, Evidence, Relation
from schemas.arrays import B1, F8, I8


@dataclass(frozen=True, slots=True)
class Consensus:
    """What the evidence says, for each entry in the order it was given."""

    relation: npt.NDArray[np.int8]
    notes: tuple[str, ...]


def decide_order(
    evidence: Sequence[Evidence],
    children: Sequence[ChildKey],
    settings: RefineSettings,
    samples: Sequence[str],
) -> Consensus:
    """Pool the evidence and decide every relation (S5). O(entries log entries).

    Asked in turn, until one has enough requests: parents of the same operation *with the same child keys*
    (an operation like `GET` stands for many programs, its set of calls tells them apart), all parents of the
    operation, all pairs of the same two components, the request itself. `children` are the keys by code.
    Notes tell of pairs whose share differs between the first of the `samples` (names of those compared, the
    first of the evidence's) and another one.
    """
    if not evidence:
        return Consensus(np.zeros(0, dtype=np.int8), ())
    key = np.concatenate([part.key for part in evidence])
    counts = np.concatenate(
        [
            np.concatenate([part.traces, part.weight, part.first_second, part.second_first])
            for part in evidence
        ],
        axis=1,
    )
    families_, entry = _group(key, counts)
    relation, decided = _decide(families_, settings, unanimous=True)
    operations, of_family = _group(families_.key[:, 1:], families_.counts)
    by_operation, operation_decided = _decide(operations, settings, unanimous=False)
    by_component = _component_relation(operations, _components(children), settings)
    fallback = np.where(operation_decided, by_operation, by_component)
    relation = np.where(decided, relation, fallback[of_family])
    return Consensus(relation[entry], _shift_notes(families_, children, settings, samples))


def _components(children: Sequence[ChildKey]) -> I8:
    """[keys] a number for the component of each child."""
    words: dict[str, int] = {}
    codes = [words.setdefault(child.operation.component, len(words)) for child in children]
    return np.array(codes, dtype=np.int64)


def _decide(groups: _Groups, settings: RefineSettings, *, unanimous: bool) -> tuple[npt.NDArray[np.int8], B1]:
    """(relation, whether the group has requests enough to say it) of each group."""
    n, weight, before, after = _by_kind(groups.counts).sum(axis=1)
    relation = np.full(len(n), Relation.PARALLEL, dtype=np.int8)
    relation[before >= settings.sequential_share * weight] = Relation.FIRST_SECOND
    relation[after >= settings.sequential_share * weight] = Relation.SECOND_FIRST
    decided = n >= settings.min_traces
    if unanimous:
        decided |= (n >= settings.min_unanimous) & ((before == weight) | (after == weight))
    return relation, decided


def _component_relation(
    operations: _Groups, component_of: I8, settings: RefineSettings
) -> npt.NDArray[np.int8]:
    """Relation by the pair of components, for operations too rare to say themselves."""
    n, weight, before, after = _by_kind(operations.counts).sum(axis=1)
    pair = np.sort(component_of[operations.key[:, 1:]], axis=1)
    pooled, of_operation = _group(pair, np.stack((n, weight, before + after)))
    pooled_n, pooled_weight, ordered = pooled.counts
    relation = np.where(
        ordered >= settings.sequential_share * pooled_weight,
        np.int8(Relation.SEQUENTIAL),
        np.int8(Relation.PARALLEL),
    )
    relation[pooled_n < settings.min_traces] = Relation.BY_TRACE
    return relation[of_operation]


@dataclass(frozen=True, slots=True)
class _Groups:
    key: I8
    counts: F8


def _by_kind(counts: F8) -> F8:
    """[4, samples, groups]: traces, weight, first before second, second before first."""
    return counts.reshape(4, -1, counts.shape[1])


def _group(key: I8, counts: F8) -> tuple[_Groups, I8]:
    """Sum `counts` [rows, entries] over equal keys [entries, columns]."""
    distinct, entry = np.unique(key, axis=0, return_inverse=True)
    entry = entry.reshape(-1)
    sums: F8 = np.stack([np.bincount(entry, weights=row, minlength=len(distinct)) for row in counts])
    return _Groups(distinct, sums), entry


_MOVED = 0.2
"""Difference of the share between the reference and another sample that is worth a note."""

_MAX_NOTES = 5


def _shift_notes(
    groups: _Groups, children: Sequence[ChildKey], settings: RefineSettings, samples: Sequence[str]
) -> tuple[str, ...]:
    """Sentences on pairs whose order moved from the first sample to another (Bonferroni p < 0.05)."""
    traces, weight, before, after = _by_kind(groups.counts)[:, : len(samples)]
    # Both directions: the smaller key need not be the one that comes first.
    pairs = np.concatenate((groups.key[:, 2:], groups.key[:, :1:-1]))
    n, total = np.tile(traces, 2), np.tile(weight, 2)
    ordered = np.concatenate((before, after), axis=1)
    enough = n >= settings.min_traces
    later, at = np.nonzero(enough[1:] & enough[0])
    later += 1
    n_0, n_1 = n[0, at], n[later, at]
    old, new = ordered[0, at] / total[0, at], ordered[later, at] / total[later, at]
    pooled = (old * n_0 + new * n_1) / (n_0 + n_1)
    spread = np.sqrt(np.maximum(pooled * (1 - pooled), 1e-12) * (1 / n_0 + 1 / n_1))
    p = 2 * ndtr(-np.abs(new - old) / spread)
    notes = []
    for test in np.flatnonzero((np.abs(new - old) > _MOVED) & (p * len(p) < 0.05)).tolist():
        first, second = (children[key].text for key in pairs[at[test]])
        notes.append(
            f"{first} is over before {second} starts in {old[test]:.0%} of the {samples[0]} and "
            f"{new[test]:.0%} of the {samples[later[test]]} requests that have both; one order is laid over "
            f"{'both' if len(samples) == 2 else 'all'}."
        )
    if len(notes) > _MAX_NOTES:
        return (*notes[:_MAX_NOTES], f"The order of {len(notes) - _MAX_NOTES} more pairs of siblings moved.")
    return tuple(notes)
