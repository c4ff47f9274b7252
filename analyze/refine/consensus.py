"""Pool the votes of requests on yes-no questions, and decide by consensus over all samples (S5, S7).

A question is put to every request, for example whether one call ends before another starts. The calls in
question are rows of a table over all structures, so answers are columns with a cell a call and request. They
are weighted, and added up over equal questions in different structures.
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
    """Requests of neighbouring structures, their times in one flat array."""

    first: int
    """first, past: range of structures [first, past)."""
    past: int
    n_of: I8
    """[structures] number of requests."""
    sample: I8
    """sample, weight: [requests] structure after structure."""
    weight: F8
    node: Ragged
    """Layout: a row a stored node of each structure, a cell a request."""
    first_node: I8
    """[structures] row in `node` of the first node."""
    times: I8
    """[cells of nodes] ns."""

    def layout(self, structure: I8) -> Ragged:
        """Layout with a row for each entry of `structure`, a cell a request. structure: [rows]."""
        return Ragged.of(self.n_of[structure - self.first])

    def at(self, structure: I8, column: I8) -> I8:
        """[cells of rows] times of stored nodes; structure, column: [rows]."""
        node = self.first_node[structure - self.first] + column
        return self.times[self.layout(structure).at(self.node.first[node])]

    def requests(self, structure: I8) -> I8:
        """[cells of `layout(structure)`] index of each cell's request in `sample` and `weight`."""
        return self.layout(structure).at((np.cumsum(self.n_of) - self.n_of)[structure - self.first])

    def part(self, structure: I8) -> slice:
        """Range of the batch's entries in `structure`, [rows] ascending."""
        first, past = np.searchsorted(structure, (self.first, self.past)).tolist()
        return slice(first, past)


def flow_batches(categories: Sequence[StoredCategory], width: I8, cells: int) -> Iterator[FlowBatch]:
    """Yield all requests in batches of about `cells` cells.

    width: [structures] cells per request.
    """
    size = np.array([one.n_requests for one in categories], dtype=np.int64)
    first_of = np.cumsum(size) - size
    structure = np.repeat(np.arange(len(size)), size)
    for part in uneven_blocks(width[structure], cells):
        first, past = int(structure[part.start]), int(structure[part.stop - 1]) + 1
        rows = [slice(max(part.start - at, 0), part.stop - at) for at in first_of[first:past].tolist()]
        mine = categories[first:past]
        matrices = [one.node_ns[:, cut] for one, cut in zip(mine, rows, strict=True)]
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
    """Entries in question, ordered by structure."""

    structure: I8
    """[entries] structure, ascending."""
    key: I8
    """[entries, columns] question; pooling adds up entries of equal rows."""


Answer = Callable[[FlowBatch, slice], Sequence[B1]]
"""(batch, entries of its structures) -> for each answer [cells of entries] True where it holds."""


@dataclass(frozen=True, slots=True)
class Answers:
    """Votes of requests on questions, one an entry."""

    key: I8
    """[entries, columns] question; unique once pooled."""
    requests: F8
    """[samples, entries] number of requests."""
    weight: F8
    """[1 + answers, samples, entries] weight of all votes, then of those for each answer."""

    def pooled(self, key: I8) -> tuple[Answers, I8]:
        """Add up votes of equal keys. key: [entries, columns], may be coarser than `self.key`. Returns
        (pooled votes, [entries] index of each old entry in them)."""
        entry, first = numbered(key.T)
        counts = np.concatenate([self.requests[None], self.weight])
        sums = np.zeros((*counts.shape[:2], len(first)))
        for place in np.ndindex(counts.shape[:2]):
            sums[place] = totals(entry, counts[place], len(first))
        return Answers(key[first], sums[0], sums[1:]), entry

    def of_first(self, n_samples: int) -> Answers:
        """Answers of only the first `n_samples` samples."""
        return Answers(self.key, self.requests[:n_samples], self.weight[:, :n_samples])

    def shares(self) -> F8:
        """[answers, samples, entries] share of the votes for each answer; NaN without votes."""
        every = np.where(self.weight[0] > 0, self.weight[0], np.nan)
        shares: F8 = self.weight[1:] / every
        return shares

    def agreed(self, share: float) -> B1:
        """[answers, entries] True if at least `share` of the votes, over all samples, are for the answer."""
        every, *answers = self.weight.sum(axis=1)
        agreed: B1 = np.array(answers) >= share * every
        return agreed

    def enough(self, settings: RefineSettings) -> B1:
        """[entries] True if requests suffice: `min_traces`, or `min_unanimous` without exception."""
        n = self.requests.sum(axis=0)
        unanimous = self.agreed(1.0).any(axis=0) & (n >= settings.min_unanimous)
        enough: B1 = unanimous | (n >= settings.min_traces)
        return enough


def ask(
    categories: Sequence[StoredCategory],
    asked: Asked,
    n_apart: int,
    n_answers: int,
    answer: Answer,
    cells: int = FEW_CELLS,
) -> Answers:
    """Count the votes of all requests. n_apart: number of samples counted separately; all later ones are
    added up to one more. cells: per batch. O(cells)."""
    n_samples, n_entries = n_apart + 1, len(asked.structure)
    weight = np.zeros((1 + n_answers, n_samples, n_entries))
    requests = np.zeros((n_samples, n_entries))
    n_asked = np.bincount(asked.structure, minlength=len(categories))
    width = n_asked + np.array([len(one.node_ns) for one in categories], dtype=np.int64)
    for batch in flow_batches(categories, width, cells) if n_entries else ():
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
