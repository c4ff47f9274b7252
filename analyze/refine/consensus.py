"""Count the votes of requests on yes-no questions, and decide by consensus over all samples.

An example of a question is: does `auth` end before `load` starts? Every request of a structure that has both
calls votes, with its weight. An *entry* is one question in one structure; votes of entries with the same
question (equal keys) are pooled over structures. Answers are flat arrays with one cell per (entry, request).
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
    """Batch of requests of consecutive structures; the times of all their nodes are in one flat array."""

    first: int
    """Number of the batch's first structure."""
    past: int
    """Number of the batch's last structure + 1."""
    n_of: I8
    """int64[past - first]: number of requests in the batch, by structure."""
    sample: I8
    """int64[requests]: index of each request's sample; requests are ordered by structure."""
    weight: F8
    """float64[requests]: weight of each request; requests are ordered by structure."""
    node: Ragged
    """Layout of `times`: one row per stored node of each structure, one cell per request."""
    first_node: I8
    """int64[past - first]: row in `node` of each structure's first stored node."""
    times: I8
    """int64[cells of `node`]: time of a stored node in a request, ns since the request's start."""

    def layout(self, structure: I8) -> Ragged:
        """Layout with one row per entry of `structure` and one cell per request of that structure.

        structure: int64[rows], numbers of structures in the batch."""
        return Ragged.of(self.n_of[structure - self.first])

    def at(self, structure: I8, column: I8) -> I8:
        """int64[cells of `layout(structure)`]: times of stored node `column[i]` of `structure[i]` in each
        request of the batch, ns since the request's start. structure, column: int64[rows]."""
        node = self.first_node[structure - self.first] + column
        return self.times[self.layout(structure).at(self.node.first[node])]

    def requests(self, structure: I8) -> I8:
        """int64[cells of `layout(structure)`]: index of each cell's request in `sample` and `weight`."""
        return self.layout(structure).at((np.cumsum(self.n_of) - self.n_of)[structure - self.first])

    def part(self, structure: I8) -> slice:
        """Range of the indices i for which `structure[i]` is in the batch. structure: int64[n], ascending."""
        first, past = np.searchsorted(structure, (self.first, self.past)).tolist()
        return slice(first, past)


def flow_batches(categories: Sequence[StoredCategory], width: I8, cells: int) -> Iterator[FlowBatch]:
    """Yield all requests of `categories` in batches of about `cells` array cells.

    width: int64[structures], number of cells that the caller needs per request of a structure.
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
    """Questions to be answered by the requests of structures: one entry per (structure, question)."""

    structure: I8
    """int64[entries]: number of the structure whose requests vote, ascending."""
    key: I8
    """int64[entries, columns]: the question; entries with equal rows ask the same and are pooled."""


Answer = Callable[[FlowBatch, slice], Sequence[B1]]
"""Function of (batch, range of the entries whose structures are in the batch). Returns, for each possible
answer, bool[cells]: True if the request gives that answer; cells are (entry, request)."""


@dataclass(frozen=True, slots=True)
class Answers:
    """Counted answers of requests to questions: one entry per question (and per structure, until pooled)."""

    key: I8
    """int64[entries, columns]: the question of each entry; rows are unique after `pooled`."""
    requests: F8
    """float64[samples, entries]: number of requests that voted."""
    weight: F8
    """float64[1 + answers, samples, entries]: [0] summed weight of all requests that voted; [1 + i] summed
    weight of the requests that gave answer i."""

    def pooled(self, key: I8) -> tuple[Answers, I8]:
        """Add up the votes of entries with equal keys.

        key: int64[entries, columns], may be coarser than `self.key`. Returns (pooled votes, int64[entries]
        index into the pooled entries of each old entry)."""
        entry, first = numbered(key.T)
        counts = np.concatenate([self.requests[None], self.weight])
        sums = np.zeros((*counts.shape[:2], len(first)))
        for place in np.ndindex(counts.shape[:2]):
            sums[place] = totals(entry, counts[place], len(first))
        return Answers(key[first], sums[0], sums[1:]), entry

    def of_first(self, n_samples: int) -> Answers:
        """Votes of the first `n_samples` samples only."""
        return Answers(self.key, self.requests[:n_samples], self.weight[:, :n_samples])

    def shares(self) -> F8:
        """float64[answers, samples, entries]: weighted share in [0, 1] of the requests that gave the answer;
        NaN if no request voted."""
        every = np.where(self.weight[0] > 0, self.weight[0], np.nan)
        shares: F8 = self.weight[1:] / every
        return shares

    def agreed(self, share: float) -> B1:
        """bool[answers, entries]: True if the answer has at least `share` (in [0, 1]) of the votes, over all
        samples."""
        every, *answers = self.weight.sum(axis=1)
        agreed: B1 = np.array(answers) >= share * every
        return agreed

    def enough(self, settings: RefineSettings) -> B1:
        """bool[entries]: True if at least `min_traces` requests voted, or at least `min_unanimous` that all
        gave the same answer."""
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
    """Count the votes of all requests, one entry of `asked` at a time. O(cells).

    n_apart: number of first samples that are counted separately; the remaining samples are added up in one
    last row. n_answers: number of arrays that `answer` returns. cells: array cells per batch.
    """
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
