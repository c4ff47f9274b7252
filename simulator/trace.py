"""Result of a run: the sampled requests as columns, and their distinct structures.

A raw structure is what the service wrote while it ran. Decoded, it has strands with splits and joins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from schemas.arrays import F8, I8
from simulator import points as p
from simulator.engine import CHILD_SHIFT, CODE_MASK, COUNT_MASK, COUNT_SHIFT

STRAND_BREAK = -1
"""Separator in a raw structure: the next strand's steps follow."""

RawStructure = tuple[int, ...]
"""Steps of strand 0, STRAND_BREAK, steps of strand 1, …; `simulator.engine.COUNT_MASK` describes the code of
a step."""


@dataclass(frozen=True, slots=True)
class Touches:
    """Effects of faults on sampled requests; arrays are [touches], one element per effect."""

    request: I8
    """[touches] row of the request in the trace."""
    cause: I8
    """[touches] number of the cause."""
    step: I8
    """[touches] index of the step in the request's flat list of steps."""
    added_ns: F8
    """[touches] work, ns, that the fault added on the edge into the step; 0 if it acts in another way."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Sampled requests of one shard, in order of completion."""

    shard: int
    uid: I8
    """[requests] id of the request in the run, the same with and without faults."""
    structure: I8
    """[requests] index of the request's structure in `structures`."""
    first_step: I8
    """[requests + 1] offsets into `time_ns`."""
    time_ns: I8
    """[steps] time of each step, ns since the start of the run, in the order of the raw structure."""
    response_ns: I8
    """[requests] time from call to reply, ns."""
    op: I8
    file: I8
    offset: I8
    count: I8
    client: I8
    structures: tuple[RawStructure, ...]
    touches: Touches
    n_simulated: int
    end_ns: float
    """Time of the last completion, ns since the start of the run."""

    def __len__(self) -> int:
        return len(self.uid)


class TraceStep(NamedTuple):
    """Step of a strand: its code, the strands that it starts or merges, its index in the flat list of steps.

    A tuple, because a run has millions.
    """

    code: int
    strands: tuple[int, ...]
    position: int


@dataclass(frozen=True, slots=True)
class Structure:
    """Decoded raw structure. `strands[0]` begins with the call and ends with the reply."""

    strands: tuple[tuple[TraceStep, ...], ...]
    joined: frozenset[int]
    """Numbers of the strands that the response waits for; all others except 0 are deferred."""


def decode(raw: RawStructure) -> Structure:
    """Decode a raw structure to strands of steps."""
    strands: list[list[TraceStep]] = [[]]
    joined: set[int] = set()
    position = 0
    for item in raw:
        if item == STRAND_BREAK:
            strands.append([])
            continue
        code, n, first = item & CODE_MASK, item >> COUNT_SHIFT & COUNT_MASK, item >> CHILD_SHIFT
        named = tuple(range(first, first + n)) if n else ()
        if n and p.POINTS[code].kind == "join":
            joined.update(named)
        strands[-1].append(TraceStep(code, named, position))
        position += 1
    return Structure(tuple(tuple(s) for s in strands), frozenset(joined))
