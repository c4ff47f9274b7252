"""Pool what requests say about the calls in them, and decide by consensus over all samples (S5, S7).

A question is asked of every request, for example whether one call is over before another one starts. The
calls that it is asked about are rows of a table, of all structures together, so answers are columns: a cell a
call and request. They are weighed, and added up where the same is asked of many structures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from analyze.cache_blocks import FEW_CELLS, uneven_blocks
from analyze.ragged import Ragged
from analyze.refine.settings import RefineSettings
from analyze.refine.stored import StoredCategory
from analyze.stats.sums import numbered, totals
from schemas.arrays import B1, F8, I8


@dataclass(frozen=True, slots=True)
class FlowBatch:
    """Requests of some neighbouring structures, their times laid flat."""

    first: int
    """The first of the structures."""
    past: int
    n_of: I8
    """[structures] requests."""
    sample: I8
    """[requests] structure after structure."""
    weight: F8
    node: Ragged
    """A row a stored node of each structure, a cell a request."""
    first_node: I8
    """[structures]"""
    times: I8
    """[cells of nodes]"""

    def layout(self, structure: I8) -> Ragged:
        """Layout of rows of some structures [rows], a cell a request."""
        return Ragged.of(self.n_of[structure - self.first])

    def at(self, structure: I8, column: I8) -> I8:
        """[cells of rows] times of stored nodes; structure, column: [rows]."""
        node = self.first_node[structure - self.first] + column
        return self.times[self.layout(structure).at(self.node.first[node])]

    def requests(self, structure: I8) -> I8:
        """[cells of rows] request of each cell of `layout`."""
        return self.layout(structure).at((np.cumsum(self.n_of) - self.n_of)[structure - self.first])

    def part(self, structure: I8) -> slice:
        """Rows of the batch among rows of all structures, ascending [rows]."""
        first, past = np.searchsorted(structure, (self.first, self.past)).tolist()
        return slice(first, past)


def flow_batches(
    categories: Sequence[StoredCategory], times: Sequence[I8], width: I8, cells: int
) -> Iterator[FlowBatch]:
    """Yield all requests with the times given, in parts of about `cells` cells.

    width: [structures] cells of a request.
    """
    size = np.array([one.n_requests for one in categories], dtype=np.int64)
    first_of = np.cumsum(size) - size
    structure = np.repeat(np.arange(len(size)), size)
    for part in uneven_blocks(width[structure], cells):
        first, past = int(structure[part.start]), int(structure[part.stop - 1]) + 1
        rows = [slice(max(part.start - at, 0), part.stop - at) for at in first_of[first:past].tolist()]
        mine = categories[first:past]
        matrices = [matrix[:, cut] for matrix, cut in zip(times[first:past], rows, strict=True)]
        n_of = np.array([matrix.shape[1] for matrix in matrices])
        n_nodes = np.array([len(matrix) for matrix in matrices])
        yield FlowBatch(
            first,
            past,
            n_of,
            np.concatenate([one.sample[cut] for one, cut in zip(mine, rows, strict=True)]).astype(np.int64),
            np.concatenate([one.weight[cut] for one, cut in zip(mine, rows, strict=True)]),
            Ragged.of(np.repeat(n_of, n_nodes)),
            np.cumsum(n_nodes) - n_nodes,
            np.concatenate([matrix.ravel() for matrix in matrices]),
        )


class Asked(NamedTuple):
    """Entries that are asked about; a row an entry, by structure."""

    structure: I8
    """[entries] ascending."""
    key: I8
    """[entries, columns] question; pooling adds up entries of equal rows."""


Answer = Callable[[FlowBatch, slice], Sequence[B1]]
"""Requests, and the entries of their structures -> [cells of entries] whether each answer holds."""


@dataclass(frozen=True, slots=True)
class Answers:
    """Votes of requests on some questions, one an entry."""

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


def ask(
    categories: Sequence[StoredCategory],
    times: Sequence[I8],
    asked: Asked,
    n_apart: int,
    n_answers: int,
    answer: Answer,
    cells: int = FEW_CELLS,
) -> Answers:
    """Ask all requests. n_apart: samples whose votes are kept apart; those of all later ones are one more
    sample. cells: those of a batch. O(cells)."""
    n_samples, n_entries = n_apart + 1, len(asked.structure)
    weight = np.zeros((1 + n_answers, n_samples, n_entries))
    requests = np.zeros((n_samples, n_entries))
    n_asked = np.bincount(asked.structure, minlength=len(categories))
    width = n_asked + np.array([len(matrix) for matrix in times], dtype=np.int64)
    for batch in flow_batches(categories, times, width, cells) if n_entries else ():
        mine = batch.part(asked.structure)
        structure = asked.structure[mine]
        if not len(structure):
            continue
        request = batch.requests(structure)
        entry = batch.layout(structure).spread(np.arange(len(structure)))
        place = entry * n_samples + np.minimum(batch.sample, n_apart)[request]
        of_request = batch.weight[request]

        def sums(values: F8, place: I8 = place, n: int = len(structure)) -> F8:
            return totals(place, values, n * n_samples).reshape(n, n_samples).T

        requests[:, mine] += sums(np.ones(len(place)))
        weight[0][:, mine] += sums(of_request)
        for number, holds in enumerate(answer(batch, mine), start=1):
            weight[number][:, mine] += sums(of_request * holds)
    return Answers(asked.key, requests, weight)
