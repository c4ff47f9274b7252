"""The simulator's record of a run as arrays, by request; the only thing that scores and rules read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from evaluation.truth import FACTS, EdgeTruth, Truth

from simulator.output import RunFormat

B1 = npt.NDArray[np.bool_]
F8 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PathFacts:
    """What requests on each path do (evaluation.truth.FACTS), by number of the path."""

    number: dict[str, int]
    counts: dict[str, I8]
    """Fact -> [paths + 1]; the last entry stands for no path (number -1) and is 0."""


@dataclass(frozen=True, slots=True)
class RequestTruth:
    """[requests] told requests of one or more runs, in the order of their truth tables."""

    names: pa.Array
    """Ids as the flows carry them: request ids of records, trace ids of spans."""
    op: npt.NDArray[np.object_]
    start_ns: I8
    affected: B1
    path: I8
    """Number of the path; the same path has the same number in both periods of a trial."""
    base_path: I8
    """Of the path in the counterfactual; -1 for a request that it does not have."""
    facts: PathFacts

    @property
    def moved(self) -> B1:
        """On another path than in the counterfactual, or not in the counterfactual at all."""
        different: B1 = self.path != self.base_path
        return different

    def fact(self, key: str) -> I8:
        """[requests] how often the request did `key`."""
        return self.facts.counts[key][self.path]

    def base_fact(self, key: str) -> I8:
        """The same in the counterfactual; 0 for a request that it does not have."""
        return self.facts.counts[key][self.base_path]

    def __len__(self) -> int:
        return len(self.path)

    def take(self, rows: I8) -> RequestTruth:
        """The requests at `rows`."""
        return RequestTruth(
            self.names.take(pa.array(rows)),
            self.op[rows],
            self.start_ns[rows],
            self.affected[rows],
            self.path[rows],
            self.base_path[rows],
            self.facts,
        )

    def rows(self, names: pa.Array) -> I8:
        """Row of every id of `names`. Raises LookupError for one that no run told."""
        at = pc.index_in(names, value_set=self.names)
        if at.null_count:
            raise LookupError(f"{at.null_count} requests of the population are in no truth table")
        found: I8 = at.to_numpy(zero_copy_only=False).astype(np.int64)
        return found


def path_facts(truths: Sequence[Truth]) -> PathFacts:
    """Every path of any of the runs."""
    by_path = {p.path: p.facts for t in truths for p in t.summary.paths}
    counts = {key: np.array([f[key] for f in by_path.values()] + [0], dtype=np.int64) for key in FACTS}
    return PathFacts({path: i for i, path in enumerate(by_path)}, counts)


def request_truth(truths: Sequence[Truth], told_as: RunFormat, facts: PathFacts) -> RequestTruth:
    """The requests of several runs (the windows of one period) in one."""
    column = "request_id" if told_as is RunFormat.NATIVE else "trace_id"
    table = pa.concat_tables(
        [t.requests.select([column, "op", "start_ns", "affected", "path", "base_path"]) for t in truths]
    ).combine_chunks()
    numbers = pa.array(list(facts.number))

    def number_of(name: str) -> I8:
        numbered = pc.fill_null(pc.index_in(table[name], value_set=numbers), -1)
        found: I8 = numbered.to_numpy().astype(np.int64)
        return found

    return RequestTruth(
        names=table[column].combine_chunks(),
        op=table["op"].to_numpy(),
        start_ns=table["start_ns"].to_numpy(),
        affected=table["affected"].to_numpy(),
        path=number_of("path"),
        base_path=number_of("base_path"),
        facts=facts,
    )


@dataclass(frozen=True, slots=True)
class Rule:
    """Which results are right, in terms of what the simulator did."""

    about: str
    affected: Callable[[RequestTruth], B1]
    """[requests of the problem period] those that the cause of this case concerns."""
    structural: bool = True
    """Structural results may be right: enough of their requests are concerned and changed path."""
    response_time: bool = False
    """Response-time results may be right: enough of their requests are concerned, and an edge that they flag
    is one on which the simulator's fault acted."""
    least_share: float = 0.5
    """Weighted share of a result's problem-period requests that must be concerned."""
    precursor: Callable[[RequestTruth, RequestTruth], bool] | None = None
    """(requests of the result, reference requests of its best precursor) -> the precursor is a right one."""


def _majority(mask: B1) -> bool:
    return bool(len(mask)) and float(mask.mean()) >= 0.5


def _mean(values: I8) -> float:
    return float(values.mean()) if len(values) else 0.0


RULES = {
    "mds-config": Rule(
        "requests moved to a path on which metadata is written to the data node; best precursor: most of its "
        "requests write metadata to the metadata node only",
        lambda r: r.affected & r.moved & (r.fact("metadata_writes_on_data_node") > 0),
        precursor=lambda result, before: _majority(
            (before.fact("metadata_writes_on_metadata_node") > 0)
            & (before.fact("metadata_writes_on_data_node") == 0)
        ),
    ),
    "read-modify-write": Rule(
        "requests that modify part of a block; best precursor: most of its requests do not",
        lambda r: r.affected & r.moved & (r.fact("partial_modifies") > 0),
        precursor=lambda result, before: _majority(before.fact("partial_modifies") == 0),
    ),
    "prefetch": Rule(
        "requests with at least 30 more lock acquire/release pairs than without the fault",
        lambda r: r.affected & (r.fact("lock_pairs") - r.base_fact("lock_pairs") >= 30),
    ),
    "create": Rule(
        "CREATEs with more B-tree iterations than with a tree that does not grow; more of them on average "
        "than in the best precursor",
        lambda r: r.affected & (r.fact("tree_iterations") > r.base_fact("tree_iterations")),
        precursor=lambda result, before: (
            _mean(result.fact("tree_iterations")) > _mean(before.fact("tree_iterations"))
        ),
    ),
    "spin": Rule(
        "requests that the spin made slower; a response-time result that flags an edge on which it acted",
        lambda r: r.affected,
        structural=False,
        response_time=True,
    ),
    "any": Rule(
        "affected requests: on another path (structural results), or with a flagged edge on which the fault "
        "acted (response-time results)",
        lambda r: r.affected,
        response_time=True,
    ),
    "tail": Rule(
        "affected requests, a few of every category (0.5 % are enough); a response-time result that flags an "
        "edge on which the fault acted",
        lambda r: r.affected,
        structural=False,
        response_time=True,
        least_share=0.005,
    ),
    "extra-requests": Rule(
        "requests that exist only because the client paused",
        lambda r: r.affected,
    ),
    "nothing": Rule("nothing happened: no result is right", lambda r: np.zeros(len(r.affected), dtype=bool)),
}


def cause_edges(truth: Truth) -> tuple[EdgeTruth, ...]:
    """Edges on which any cause of the run acted."""
    return tuple(edge for cause in truth.summary.causes for edge in cause.edges)
