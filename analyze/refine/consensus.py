"""Pool what requests say about the calls in them, and decide by consensus over all samples (S5, S7).

A question is asked of every request, for example whether one call is over before another one starts. Its
answers are weighed, and added up where the same is asked of many categories.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from analyze.cache_blocks import FEW_CELLS, blocks
from analyze.refine.settings import RefineSettings
from analyze.refine.stored import StoredCategory
from analyze.stats.sums import numbered, totals
from schemas.arrays import B1, F8, I8

Ask = Callable[[slice], Sequence[B1]]
"""Some requests -> [entries, requests] whether each answer holds, one array an answer."""


@dataclass(frozen=True, slots=True)
class Answers:
    """How requests answer some questions by their votes, one an entry."""

    key: I8
    """[entries, columns] what is asked about; equal ones are one question once they are pooled."""
    requests: F8
    """[samples, entries]"""
    weight: F8
    """[1 + answers, samples, entries] of all votes, then of those for each answer."""

    def pooled(self, key: I8) -> tuple[Answers, I8]:
        """Votes of equal keys ([entries, columns], perhaps coarser ones) added up, and [entries] which."""
        entry, first = numbered(key.T)
        counts = np.concatenate([self.requests[None], self.weight])
        sums = np.zeros((*counts.shape[:2], len(first)))
        for place in np.ndindex(counts.shape[:2]):
            sums[place] = totals(entry, counts[place], len(first))
        return Answers(key[first], sums[0], sums[1:]), entry

    def of_first(self, n_samples: int) -> Answers:
        """The votes of the first samples only."""
        return Answers(self.key, self.requests[:n_samples], self.weight[:, :n_samples])

    def shares(self) -> F8:
        """[answers, samples, entries] share of the votes for each answer; NaN where there is none."""
        every = np.where(self.weight[0] > 0, self.weight[0], np.nan)
        shares: F8 = self.weight[1:] / every
        return shares

    def agreed(self, share: float) -> B1:
        """[answers, entries] whether at least `share` of the votes of all samples are for an answer."""
        every, *answers = self.weight.sum(axis=1)
        agreed: B1 = np.array(answers) >= share * every
        return agreed

    def enough(self, settings: RefineSettings) -> B1:
        """[entries] whether requests are enough: `min_traces`, or `min_unanimous` without exception."""
        n = self.requests.sum(axis=0)
        unanimous = self.agreed(1.0).any(axis=0) & (n >= settings.min_unanimous)
        enough: B1 = unanimous | (n >= settings.min_traces)
        return enough


def answers_of(category: StoredCategory, key: I8, n_apart: int, width: int, ask: Ask) -> Answers:
    """Ask the requests of a category, in blocks. n_apart: samples whose votes are kept apart; those of all
    later ones are one more sample. width: cells that a request takes meanwhile. O(cells)."""
    weight = np.zeros(0)
    for rows in blocks(category.n_requests, width, FEW_CELLS):
        sample = category.sample[rows]
        bounds = [*np.searchsorted(sample, np.arange(n_apart + 1)).tolist(), len(sample)]
        answers = ask(rows)
        every = np.ones((len(key), len(category.weight[rows])), dtype=np.bool_)
        block = np.array([_weighed(mask, category.weight[rows], bounds) for mask in (every, *answers)])
        weight = weight + block if len(weight) else block
    requests = np.bincount(np.minimum(category.sample, n_apart), minlength=n_apart + 1).astype(np.float64)
    return Answers(key, np.repeat(requests[:, None], len(key), axis=1), weight)


def all_answers(parts: Sequence[Answers]) -> Answers:
    """Votes of several categories (at least one), one after the other."""
    return Answers(
        np.concatenate([part.key for part in parts]),
        np.concatenate([part.requests for part in parts], axis=1),
        np.concatenate([part.weight for part in parts], axis=2),
    )


def _weighed(mask: B1, weight: F8, bounds: Sequence[int]) -> F8:
    """[samples, entries] sum of weights where the mask [entries, requests] is set, of sorted samples."""
    sums = np.empty((len(bounds) - 1, len(mask)))
    uniform = bool((weight == weight[0]).all())
    for row, part in enumerate(slice(start, end) for start, end in pairwise(bounds)):
        if uniform:
            sums[row] = np.add.reduce(mask[:, part], axis=1, dtype=np.int64) * weight[0]
        else:
            sums[row] = (mask[:, part] * weight[part]).sum(axis=1)
    return sums
