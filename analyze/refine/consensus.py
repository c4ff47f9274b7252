"""Count the votes of requests on yes-no questions, and decide by consensus over all samples.

An example of a question is: does `auth` end before `load` starts? Every request of a structure that has both
calls votes, with its weight. An *entry* is one question in one structure; votes of entries with the same
question (equal keys) are pooled over structures. Answers are flat arrays with one cell per (entry, request).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from analyze.cache_blocks import FEW_CELLS, blocks, uneven_blocks
from analyze.refine.settings import RefineSettings
from analyze.refine.stored import StoredCategory
from analyze.stats.sums import numbered, totals
from schemas.arrays import B1, F8, I8
from stitch.columnar.runs import ranges

_ALIKE: Final = 1.25
"""Structures share a batch if the largest has at most this many times the requests of the smallest, so that
at most a fifth of a batch is empty."""


@dataclass(frozen=True, slots=True)
class FlowBatch:
    """Batch of requests of structures with about equally many requests, as matrices with a request a column.

    A structure with fewer requests than the batch is wide leaves its last columns empty: they hold 0, and
    have no weight. A row of a matrix is copied as one piece, so no index is computed for each cell.
    """

    structures: I8
    """int64[k]: numbers of the batch's structures, ascending."""
    rows: tuple[slice, ...]
    """[k]: requests of each structure that are in the batch."""
    sample: I8
    """int64[k, requests]: index of each request's sample, ascending in each row; -1 in empty columns."""
    weight: F8
    """float64[k, requests]: weight of each request; 0 in empty columns."""
    first_node: I8
    """int64[k]: row in `times` of each structure's first stored node."""
    times: I8
    """int64[stored nodes of the structures, requests]: time of the node, ns since the request's start; 0 in
    empty columns."""

    def place(self, structure: I8) -> I8:
        """int64[n]: index in `structures` of each of `structure`, int64[n]."""
        return self.structures.searchsorted(structure)

    def at(self, structure: I8, column: I8) -> I8:
        """int64[n, requests]: times of stored node `column[i]` of `structure[i]`, ns since the request's
        start. structure, column: int64[n]."""
        found: I8 = self.times[self.first_node[self.place(structure)] + column]
        return found

    def part(self, structure: I8) -> I8:
        """int64[n]: indices i, ascending, for which `structure[i]` is in the batch. structure: ascending."""
        first = structure.searchsorted(self.structures)
        return ranges(first, structure.searchsorted(self.structures, side="right") - first)


def flow_batches(categories: Sequence[StoredCategory], asked: I8, cells: int) -> Iterator[FlowBatch]:
    """Yield all requests of the structures in `asked`, in batches of about `cells` array cells, few requests
    first.

    asked: int64[n], number of the structure that each row of the caller's arrays, a cell a request, is of.
    """
    n_asked = np.bincount(asked, minlength=len(categories))
    size = np.array([one.n_requests for one in categories], dtype=np.int64)
    width = n_asked + np.array([len(one.node_ns) for one in categories], dtype=np.int64)
    order = np.argsort(size, kind="stable")
    order = order[n_asked[order] > 0]
    large = (size * width > cells)[order]
    small = order[~large]
    small_size = size[small]
    for part in uneven_blocks(small_size * width[small], cells):
        start = part.start
        while start < part.stop:
            past = int(small_size.searchsorted(small_size[start] * _ALIKE, side="right"))
            chosen = np.sort(small[start : min(past, part.stop)])
            yield _batch(categories, chosen, [slice(0, n) for n in size[chosen].tolist()])
            start = past
    for number in order[large].tolist():
        for rows in blocks(int(size[number]), int(width[number]), cells):
            yield _batch(categories, np.array([number]), [rows])


def _batch(categories: Sequence[StoredCategory], structures: I8, rows: Sequence[slice]) -> FlowBatch:
    chosen = [categories[number] for number in structures.tolist()]
    n_nodes = np.array([len(one.node_ns) for one in chosen])
    first_node = np.cumsum(n_nodes) - n_nodes
    shape = len(chosen), max(cut.stop - cut.start for cut in rows)
    times = np.zeros((int(n_nodes.sum()), shape[1]), dtype=np.int64)
    sample, weight = np.full(shape, -1, dtype=np.int64), np.zeros(shape)
    for at, (one, cut, node) in enumerate(zip(chosen, rows, first_node.tolist(), strict=True)):
        n = cut.stop - cut.start
        times[node : node + len(one.node_ns), :n] = one.node_ns[:, cut]
        sample[at, :n], weight[at, :n] = one.sample[cut], one.weight[cut]
    return FlowBatch(structures, tuple(rows), sample, weight, first_node, times)


def disordered(categories: Sequence[StoredCategory], structure: I8, earlier: I8, later: I8) -> B1:
    """bool[pairs]: True if in any request stored node `earlier` of the structure is later than `later`.

    structure, earlier, later: int64[pairs], `structure` ascending. O(requests · pairs)."""
    found = np.zeros(len(structure), dtype=np.bool_)
    for batch in flow_batches(categories, structure, FEW_CELLS):
        mine = batch.part(structure)
        of = structure[mine]
        found[mine] |= (batch.at(of, earlier[mine]) > batch.at(of, later[mine])).any(axis=1)
    return found


class Asked(NamedTuple):
    """Questions to be answered by the requests of structures: one entry per (structure, question)."""

    structure: I8
    """int64[entries]: number of the structure whose requests vote, ascending."""
    key: I8
    """int64[entries, columns]: the question; entries with equal rows ask the same and are pooled."""


Answer = Callable[[FlowBatch, I8], Sequence[B1]]
"""Function of (batch, int64[n] entries whose structures are in the batch). Returns, for each possible answer,
bool[n, requests]: True if the request gives that answer; any value in empty columns."""


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
    for batch in flow_batches(categories, asked.structure, cells):
        mine = batch.part(asked.structure)
        place = batch.place(asked.structure[mine])
        sample = np.minimum(batch.sample, n_apart)
        n_of = np.stack([(sample == number).sum(axis=1) for number in range(n_samples)])
        # Requests of a structure are ordered by sample.
        begin = np.cumsum(n_of, axis=0) - n_of
        requests[:, mine] += n_of[:, place]
        weight[0][:, mine] += _sums(batch.weight, begin, n_of)[:, place]
        of_request = batch.weight[place]
        for number, holds in enumerate(answer(batch, mine), start=1):
            weight[number][:, mine] += _sums(of_request * holds, begin[:, place], n_of[:, place])
    return Answers(asked.key, requests, weight)


def _sums(values: F8, begin: I8, size: I8) -> F8:
    """float64[samples, rows]: sums of `values`, [rows, requests], over the requests of each sample. begin,
    size: int64[samples, rows], first request of the sample in the row, and number of its requests."""
    first = (begin + np.arange(len(values)) * values.shape[1]).T.ravel()
    some = size.T.ravel() > 0
    sums = np.zeros(len(first))
    sums[some] = np.add.reduceat(values.ravel(), first[some])
    return sums.reshape(len(values), -1).T
