"""What became of every sampled request in one variant of a run: time, path, touches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ingest.simulate.trace import Structure, Trace, decode, signature
from schemas.arrays import B1, F8, I8

ABSENT = -1
"""Row or path of a request that a run does not have."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Every sampled request of one variant, sorted by uid."""

    uid: I8
    start_ns: I8
    response_ns: I8
    path: I8
    kernel_path: I8
    op: I8


class Paths:
    """Paths met in any variant, numbered."""

    def __init__(self) -> None:
        self.number: dict[str, int] = {}
        self.kernel_number: dict[str, int] = {}
        self.kernel_of: list[int] = []
        self.structure: list[Structure] = []

    def add(self, structure: Structure) -> int:
        """Number of the structure's path."""
        name = signature(structure, True)
        if name not in self.number:
            kernel = signature(structure, False)
            self.number[name] = len(self.number)
            self.kernel_of.append(self.kernel_number.setdefault(kernel, len(self.kernel_number)))
            self.structure.append(structure)
        return self.number[name]


def find_outcome(traces: Sequence[Trace], paths: Paths) -> Outcome:
    """Gather a variant's requests; their paths are numbered in `paths`."""
    path = [
        np.array([paths.add(decode(raw)) for raw in t.structures], dtype=np.int64)[t.structure]
        for t in traces
    ]
    uid = np.concatenate([t.uid for t in traces])
    order = np.argsort(uid)
    number = np.concatenate(path)[order]
    return Outcome(
        uid=uid[order],
        start_ns=np.concatenate([t.time_ns[t.first_step[:-1]] for t in traces])[order],
        response_ns=np.concatenate([t.response_ns for t in traces])[order],
        path=number,
        kernel_path=np.array(paths.kernel_of, dtype=np.int64)[number],
        op=np.concatenate([t.op for t in traces])[order],
    )


def place(wanted: I8, uid: I8) -> I8:
    """Row of every wanted uid in the sorted ones, or ABSENT."""
    if len(uid) == 0:
        return np.full(len(wanted), ABSENT, dtype=np.int64)
    at = np.minimum(np.searchsorted(uid, wanted), len(uid) - 1)
    return np.where(uid[at] == wanted, at, ABSENT)


@dataclass(frozen=True, slots=True)
class Touched:
    """[requests of the full variant, by uid order]."""

    any: B1
    by_cause: Mapping[int, B1]
    added_ns: F8


def find_touched(traces: Sequence[Trace], uid: I8, n_causes: int) -> Touched:
    """Which requests each cause touched; `uid` is sorted."""
    by_cause = {c: np.zeros(len(uid), dtype=bool) for c in range(n_causes)}
    added = np.zeros(len(uid))
    for trace in traces:
        row = place(trace.uid, uid)[trace.touches.request]
        np.add.at(added, row, trace.touches.added_ns)
        for cause, flags in by_cause.items():
            flags[row[trace.touches.cause == cause]] = True
    touched = np.zeros(len(uid), dtype=bool)
    for flags in by_cause.values():
        touched |= flags
    return Touched(touched, by_cause, added)
