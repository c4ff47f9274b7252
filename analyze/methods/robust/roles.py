"""Roles of a profile's time slots: slots of the reference, of the problem, and of the blocks that show the
noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from analyze.population import Sample
from analyze.profile.gathering import blocks_of_slots
from analyze.profile.history import MOST_OF_REFERENCE, reference_blocks
from analyze.profile.profile import Slot
from schemas.arrays import B1, I8

REFERENCE, PROBLEM = 0, 1
"""Indices of the samples in a comparison: 0 for the reference, 1 for the problem."""


@dataclass(frozen=True, slots=True)
class Roles:
    """Role of each time slot (interval of time) in a comparison; arrays are [slots]."""

    ordinary: B1
    """True for time slots of the baseline, i.e. of the reference or the history; the problem is tested
    against them."""
    reference: B1
    """True for time slots of the reference, which supplies the values before; a change from the baseline must
    also show against the reference alone."""
    problem: B1
    """True for time slots of the problem."""
    noise: I8
    """int64[slots]: index of the baseline block that each time slot belongs to; -1 for slots of the problem
    and for outlying windows."""
    noise_assumed: bool
    """True if all baseline blocks are pieces of one short stretch of time, so that they underestimate the
    noise between periods."""

    @property
    def side(self) -> I8:
        """int64[slots]: 0 for slots of the baseline, 1 for slots of the problem, -1 for all others."""
        return np.where(self.problem, 1, np.where(self.ordinary, 0, -1)).astype(np.int64)

    @property
    def own(self) -> I8:
        """Indices of the baseline blocks that belong to the reference."""
        return np.unique(self.noise[self.reference & (self.noise >= 0)])

    @property
    def history(self) -> I8:
        """Indices of the baseline blocks that belong to the history; empty without a history."""
        return np.setdiff1d(self.noise[self.noise >= 0], self.own)

    @property
    def n_noise(self) -> int:
        """Number of baseline blocks."""
        return int(self.noise.max(initial=-1)) + 1


def slots_of(
    samples: Sequence[Sample],
    history: Sequence[Sample],
    blocks: int,
    *,
    kept: Sequence[Slot] | None = None,
    kept_history: Sequence[Slot] | None = None,
) -> tuple[list[Slot], Roles]:
    """Divide the samples into time slots: reference, problem, then the history, whose samples are numbered
    from 2.

    With a history, each of its samples is a baseline block, and the reference is cut into blocks of about the
    same length. Without a history, the reference is cut into `blocks` blocks, or into more if it is long
    enough for blocks as long as the problem. Stored statistics come with slots: `kept` of the reference, then
    the problem; `kept_history` of the history, with samples numbered from 0.
    """
    reference, problem = samples
    length = reference.length_ns
    if history:
        n_blocks = reference_blocks(reference, history)
        noise_assumed = False
    else:
        n_blocks = max(blocks, min(MOST_OF_REFERENCE, length // max(problem.length_ns, 1)))
        noise_assumed = length < blocks * problem.length_ns
    slots: list[Slot] = []
    noise: list[int] = []
    if kept is None:
        for number, pieces in enumerate(_cut(reference, n_blocks)):
            slots += [Slot(REFERENCE, start, end) for start, end in pieces]
            noise += [number] * len(pieces)
        for pieces in _cut(problem, blocks):
            slots += [Slot(PROBLEM, start, end) for start, end in pieces]
            noise += [-1] * len(pieces)
    else:
        slots += kept
        n_reference = sum(slot.sample == REFERENCE for slot in kept)
        n_blocks = max(1, min(n_blocks, n_reference))
        noise += blocks_of_slots(n_reference, n_blocks).tolist()
        noise += [-1] * (len(kept) - n_reference)
    if kept_history is None:
        cut = [_cut(sample, 1)[0] for sample in history]
        kept_history = [Slot(number, *piece) for number, pieces in enumerate(cut) for piece in pieces]
    slots += [replace(slot, sample=PROBLEM + 1 + slot.sample) for slot in kept_history]
    noise += [n_blocks + slot.sample for slot in kept_history]
    sample_of = np.array([slot.sample for slot in slots])
    in_problem = sample_of == PROBLEM
    return slots, Roles(
        ~in_problem, sample_of == REFERENCE, in_problem, np.array(noise, dtype=np.int64), noise_assumed
    )


def _cut(sample: Sample, n: int) -> list[list[tuple[int, int]]]:
    """Cut a sample into n blocks of equal recorded time; each block is a list of (start, end) ranges, ns."""
    ranges = sample.ranges or ((sample.start_ns, sample.end_ns),)
    whole = sum(end - start for start, end in ranges)
    ends = [whole * (block + 1) // n for block in range(n)]
    blocks: list[list[tuple[int, int]]] = [[] for _ in range(n)]
    gone = block = 0
    for start, end in ranges:
        at = start
        while at < end:
            step = min(end - at, ends[block] - gone)
            if step:
                blocks[block].append((at, at + step))
            at, gone = at + step, gone + step
            if gone == ends[block] and block < n - 1:
                block += 1
            elif not step:
                break
    return blocks
