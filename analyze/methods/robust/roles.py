"""Roles of a profile's slots: which ones are compared with each other, and which ones show the noise."""

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
"""REFERENCE, PROBLEM: sample numbers in a comparison."""


@dataclass(frozen=True, slots=True)
class Roles:
    """Role of each slot (interval of time) in a comparison; arrays are [slots].

    problem: True for slots of the problem.
    """

    ordinary: B1
    """True for slots of the baseline that the problem is tested against: reference and history."""
    reference: B1
    """True for slots of the reference: the `before` of the breakdown. A change must also show against it
    alone."""
    problem: B1
    noise: I8
    """int64[slots]: number of the noise block that a slot of the baseline belongs to; -1 for none."""
    noise_assumed: bool
    """True if the noise blocks are pieces of one short stretch, and therefore underestimate the noise."""

    @property
    def side(self) -> I8:
        """int64[slots]: 0 for the baseline, 1 for the problem, -1 for neither."""
        return np.where(self.problem, 1, np.where(self.ordinary, 0, -1)).astype(np.int64)

    @property
    def own(self) -> I8:
        """Numbers of the noise blocks that belong to the reference."""
        return np.unique(self.noise[self.reference & (self.noise >= 0)])

    @property
    def history(self) -> I8:
        """Numbers of the noise blocks that belong to the history; empty without a history."""
        return np.setdiff1d(self.noise[self.noise >= 0], self.own)

    @property
    def n_noise(self) -> int:
        """Number of noise blocks of the baseline."""
        return int(self.noise.max(initial=-1)) + 1


def slots_of(
    samples: Sequence[Sample],
    history: Sequence[Sample],
    blocks: int,
    *,
    kept: Sequence[Slot] | None = None,
    kept_history: Sequence[Slot] | None = None,
) -> tuple[list[Slot], Roles]:
    """Lay out slots of reference, problem and history samples; the history's samples are numbered from 2.

    With a history, each of its samples is a noise block, and the reference is cut into blocks of about their
    length. Without a history, the reference is cut into `blocks` blocks, or into more if blocks as long as
    the problem allow. Stored statistics come with slots: `kept` of reference and problem, in this order,
    `kept_history` of the history, with sample numbers from 0.
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
    """Cut a sample into n blocks of equal recorded time, each a list of one or several (start, end) ranges,
    ns."""
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
