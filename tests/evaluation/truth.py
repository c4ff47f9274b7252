"""Find what really happened: a run compared, request by request, with the same run without its causes.

Both share their noise, so the difference of a request's response time is the effect of the causes and nothing
else. Definitions:

* *touched*: a cause's own code acted on the request;
* *affected*: touched, and its path or its response time differs from the counterfactual's (by 1 ns or more),
  or the request exists only because of a cause;
* *knock-on*: not touched, but its path differs, or its response time by more than max(50 µs, 5 %): queues,
  locks and caches pass a cause on to others;
* *share* of a cause: its Shapley value in the change of the mean response time over every subset of the
  causes, so that shares add up to the change exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from itertools import combinations, pairwise
from math import factorial
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict

from schemas.arrays import B1, F8, I8
from simulator import points as p
from simulator.output import Run
from simulator.output import run as run_alone
from simulator.recording import Recording
from simulator.run import RunPlan, Subset, simulate
from simulator.trace import RawStructure, Structure, Trace, decode

TRUTH_VERSION = 1


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class EdgeTruth(_Frozen):
    """An edge on which a cause acted: labels of its two nodes, how often, and the work added each time."""

    src: str
    dst: str
    touches: int
    added_ns_mean: float


class CauseTruth(_Frozen):
    """One cause of the run."""

    name: str
    mechanism: str
    severity: float
    start_ns: int
    """Since the epoch."""
    touched: int
    """Sampled requests that its code acted on."""
    affected: int
    share_ns: float
    """Its Shapley value of the change of the mean response time."""
    edges: list[EdgeTruth]
    """Most touched first."""


class PathTruth(_Frozen):
    """A path (category with hosts) and what requests on it do."""

    path: str
    kernel_path: str
    """The same without hosts: what the stitch kernel distinguishes."""
    op: str
    n_nodes: int
    n: int
    """RecordedRequests requests on it."""
    n_base: int
    """Requests on it in the counterfactual."""
    facts: dict[str, int]


class FlowTruth(_Frozen):
    """Requests that went from one path to another because of the causes: true precursor and mutation."""

    base_path: str
    path: str
    n: int
    affected: int
    delta_ns_sum: int


class Decomposition(_Frozen):
    """The change of the mean response time over the requests that started after the first cause did, in ns.

    `mean_ns - base_mean_ns = affected_ns + knock_on_ns + rest_ns + mix_ns`, exactly (up to rounding of sums).
    """

    n: int
    n_base: int
    mean_ns: float
    base_mean_ns: float
    affected_ns: float
    """Requests that causes touched."""
    knock_on_ns: float
    rest_ns: float
    """Differences too small to call knock-on."""
    mix_ns: float
    """Requests that exist in one of the two runs only."""
    changed_path_ns: float
    """Part of the first three that comes from requests whose path changed."""


class TruthSummary(_Frozen):
    """Everything about a run but the requests themselves."""

    version: int = TRUTH_VERSION
    workload: str
    seed: int
    tag: str
    """Every request id of the run begins with it."""
    sample: float
    n_simulated: int
    start_ns: int
    end_ns: int
    causes: list[CauseTruth]
    change: Decomposition
    paths: list[PathTruth]
    flows: list[FlowTruth]


decoded = lru_cache(maxsize=4096)(decode)
"""Variants of a run have most structures in common."""

ABSENT = -1
"""Row or path of a request that a run does not have."""


@dataclass(frozen=True, slots=True)
class VariantRequests:
    """Every sampled request of one variant, sorted by uid."""

    uid: I8
    start_ns: I8
    response_ns: I8
    path: I8
    kernel_path: I8
    op: I8


class PathsTaken:
    """Paths met in any variant, numbered."""

    def __init__(self) -> None:
        self.known: dict[RawStructure, int] = {}
        self.number: dict[str, int] = {}
        self.kernel_number: dict[str, int] = {}
        self.kernel_of: list[int] = []
        self.structure: list[Structure] = []

    def add(self, raw: RawStructure) -> int:
        """Number of the structure's path."""
        if raw not in self.known:
            structure = decoded(raw)
            name = signature(structure, True)
            if name not in self.number:
                kernel = signature(structure, False)
                self.number[name] = len(self.number)
                self.kernel_of.append(self.kernel_number.setdefault(kernel, len(self.kernel_number)))
                self.structure.append(structure)
            self.known[raw] = self.number[name]
        return self.known[raw]


def find_outcome(traces: Sequence[Trace], paths: PathsTaken) -> VariantRequests:
    """Gather a variant's requests; their paths are numbered in `paths`."""
    path = [np.array([paths.add(raw) for raw in t.structures], dtype=np.int64)[t.structure] for t in traces]
    uid = np.concatenate([t.uid for t in traces])
    order = np.argsort(uid)
    number = np.concatenate(path)[order]
    return VariantRequests(
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
class TouchedRequests:
    """[requests of the full variant, by uid order]."""

    any: B1
    by_cause: Mapping[int, B1]
    added_ns: F8


def find_touched(traces: Sequence[Trace], uid: I8, n_causes: int) -> TouchedRequests:
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
    return TouchedRequests(touched, by_cause, added)


KNOCK_ON_NS, KNOCK_ON_SHARE = 50_000, 0.05


@dataclass(frozen=True, slots=True)
class Truth:
    """`summary`, and `requests`: one row a reported request."""

    summary: TruthSummary
    requests: pa.Table

    def write(self, path: Path) -> Path:
        """Write the summary as JSON to `path` and the requests as Parquet beside it; the latter's name."""
        beside = path.with_suffix(".parquet")
        with path.open("wb") as summary, beside.open("wb") as requests:
            self.write_summary(summary)
            self.write_requests(requests)
        return beside

    def write_summary(self, out: BinaryIO) -> None:
        """Write the summary as JSON."""
        out.write(f"{self.summary.model_dump_json(indent=1)}\n".encode())

    def write_requests(self, out: BinaryIO) -> None:
        """Write the requests as Parquet."""
        pq.write_table(self.requests, out, compression="zstd")


def shapley(values: Mapping[Subset, float], causes: Sequence[int]) -> dict[int, float]:
    """Shapley value of every cause, from the value of every subset. They add up to v(all) - v(none)."""
    n = len(causes)
    shares = dict.fromkeys(causes, 0.0)
    for cause in causes:
        others = [c for c in causes if c != cause]
        for size in range(n):
            weight = factorial(size) * factorial(n - size - 1) / factorial(n)
            for subset in combinations(others, size):
                without = frozenset(subset)
                shares[cause] += weight * (values[without | {cause}] - values[without])
    return shares


def find_truth(plan: RunPlan, recording: Recording, runs: Mapping[Subset, Sequence[Trace]]) -> Truth:
    """Compare the run with all its causes to the one without, and to those between for the shares.

    `runs` holds the traces of every subset of `plan.simulated_causes`.
    """
    paths = PathsTaken()
    full = plan.simulated_causes
    outcomes = {subset: find_outcome(traces, paths) for subset, traces in runs.items()}
    after, base = outcomes[full], outcomes[frozenset()]
    touched = find_touched(runs[full], after.uid, len(plan.causes))
    at = place(after.uid, base.uid)
    paired = at != ABSENT
    base_response = np.where(paired, base.response_ns[at], 0)
    base_path = np.where(paired, base.path[at], ABSENT)
    delta = np.where(paired, after.response_ns - base_response, 0)
    moved = paired & (base_path != after.path)
    noticeable = np.abs(delta) > np.maximum(KNOCK_ON_NS, KNOCK_ON_SHARE * base_response)
    affected = ~paired | (touched.any & (moved | (delta != 0)))
    knock_on = ~affected & ~touched.any & (moved | noticeable)
    begin_ns = min((plan.causes[c].injection.start_ns for c in full), default=0.0)
    flags = _Flags(paired, affected, knock_on, moved, delta)
    told = _told_rows(recording, runs[full], after.uid)
    summary = TruthSummary(
        workload=plan.workload,
        seed=plan.seed,
        tag=recording.tag,
        sample=plan.sample,
        n_simulated=sum(t.n_simulated for t in runs[full]),
        start_ns=recording.start_ns,
        end_ns=recording.start_ns + round(max(t.end_ns for t in runs[full])),
        causes=_causes(plan, recording, runs[full], touched, affected, _shares(outcomes, full, begin_ns)),
        change=_decompose(after, base, flags, begin_ns),
        paths=_path_rows(paths, after, base, told.row),
        flows=_flow_rows(paths, after, base_path, flags),
    )
    return Truth(summary, _request_table(plan, paths, after, base_response, base_path, flags, touched, told))


@dataclass(frozen=True, slots=True)
class _Flags:
    """[requests of the full variant, by uid order]."""

    paired: B1
    affected: B1
    knock_on: B1
    moved: B1
    delta: I8


@dataclass(frozen=True, slots=True)
class _ToldRows:
    """The requests that reach a trace: their row by uid order, ids, time."""

    row: I8
    request_id: list[str]
    trace_id: list[str]
    start_ns: I8


def _told_rows(recording: Recording, traces: Sequence[Trace], uid: I8) -> _ToldRows:
    told = [recording.recorded(trace) for trace in traces]
    return _ToldRows(
        row=np.concatenate([place(t.uid[o.rows], uid) for t, o in zip(traces, told, strict=True)]),
        request_id=[r for o in told for r in o.request_id],
        trace_id=[r for o in told for r in o.trace_id],
        start_ns=np.concatenate([o.start_ns for o in told]),
    )


def _shares(outcomes: Mapping[Subset, VariantRequests], full: Subset, begin_ns: float) -> dict[int, float]:
    means = {
        subset: _mean(outcome.response_ns[outcome.start_ns >= begin_ns])
        for subset, outcome in outcomes.items()
    }
    return shapley(means, sorted(full))


def _mean(values: I8) -> float:
    return float(values.mean()) if len(values) else 0.0


def _decompose(
    after: VariantRequests, base: VariantRequests, flags: _Flags, begin_ns: float
) -> Decomposition:
    late, base_late = after.start_ns >= begin_ns, base.start_ns >= begin_ns
    mean, base_mean = _mean(after.response_ns[late]), _mean(base.response_ns[base_late])
    n = int(np.count_nonzero(late))
    # A request counts as paired here if it started late in both runs.
    at = place(base.uid, after.uid)
    in_both = np.zeros(len(after.uid), dtype=bool)
    both_rows = at[base_late & (at != ABSENT)]
    in_both[both_rows] = True
    in_both &= late
    missing = base_late & ((at == ABSENT) | ~in_both[at])
    extra = late & ~in_both
    mix = float((after.response_ns[extra] - base_mean).sum() - (base.response_ns[missing] - base_mean).sum())

    def part(which: B1) -> float:
        return float(flags.delta[which & in_both].sum()) / n if n else 0.0

    rest = ~flags.affected & ~flags.knock_on
    return Decomposition(
        n=n,
        n_base=int(np.count_nonzero(base_late)),
        mean_ns=mean,
        base_mean_ns=base_mean,
        affected_ns=part(flags.affected),
        knock_on_ns=part(flags.knock_on),
        rest_ns=part(rest),
        mix_ns=mix / n if n else 0.0,
        changed_path_ns=part(flags.moved),
    )


def _causes(
    plan: RunPlan,
    recording: Recording,
    traces: Sequence[Trace],
    touched: TouchedRequests,
    affected: B1,
    shares: Mapping[int, float],
) -> list[CauseTruth]:
    return [
        CauseTruth(
            name=cause.name,
            mechanism=cause.injection.mechanism.name.lower(),
            severity=cause.injection.severity,
            start_ns=recording.start_ns + round(cause.injection.start_ns),
            touched=int(np.count_nonzero(touched.by_cause[number])),
            affected=int(np.count_nonzero(touched.by_cause[number] & affected)),
            share_ns=shares.get(number, 0.0),
            edges=_edges(traces, number),
        )
        for number, cause in enumerate(plan.causes)
    ]


def _edges(traces: Sequence[Trace], cause: int) -> list[EdgeTruth]:
    """Edges into the touched steps, by the labels of their nodes."""
    total: dict[tuple[str, str], tuple[int, float]] = {}
    for trace in traces:
        of_cause = trace.touches.cause == cause
        structure = trace.structure[trace.touches.request[of_cause]]
        key = structure * (1 << 32) + trace.touches.step[of_cause]
        keys, index = np.unique(key, return_inverse=True)
        count = np.bincount(index, minlength=len(keys))
        added = np.bincount(index, trace.touches.added_ns[of_cause], len(keys))
        for k, n, ns in zip(keys.tolist(), count.tolist(), added.tolist(), strict=True):
            edge = _edge_labels(decoded(trace.structures[k >> 32]), k & ((1 << 32) - 1))
            if edge is not None:
                before = total.get(edge, (0, 0.0))
                total[edge] = (before[0] + n, before[1] + ns)
    return [
        EdgeTruth(src=src, dst=dst, touches=n, added_ns_mean=ns / n)
        for (src, dst), (n, ns) in sorted(total.items(), key=lambda item: (-item[1][0], item[0]))
    ]


def _edge_labels(structure: Structure, position: int) -> tuple[str, str] | None:
    """Labels of the edge into a step of a strand; None where the step begins its strand."""
    for strand in structure.strands:
        for before, step in pairwise(strand):
            if step.position == position:
                return node_text(before.code, True), node_text(step.code, True)
    return None


def _path_rows(
    paths: PathsTaken, after: VariantRequests, base: VariantRequests, told_row: I8
) -> list[PathTruth]:
    n = np.bincount(after.path[told_row], minlength=len(paths.number))
    n_base = np.bincount(base.path, minlength=len(paths.number))
    kernel = list(paths.kernel_number)
    rows = []
    for name, number in paths.number.items():
        if n[number] == 0 and n_base[number] == 0:
            continue
        structure = paths.structure[number]
        rows.append(
            PathTruth(
                path=name,
                kernel_path=kernel[paths.kernel_of[number]],
                op=node_text(structure.strands[0][0].code, False),
                n_nodes=sum(len(strand) for strand in structure.strands),
                n=int(n[number]),
                n_base=int(n_base[number]),
                facts=facts(structure),
            )
        )
    return sorted(rows, key=lambda r: (-r.n, -r.n_base, r.path))


def _flow_rows(paths: PathsTaken, after: VariantRequests, base_path: I8, flags: _Flags) -> list[FlowTruth]:
    names = list(paths.number)
    moved = np.flatnonzero(flags.moved)
    key = base_path[moved] * len(names) + after.path[moved]
    keys, index = np.unique(key, return_inverse=True)
    n = np.bincount(index, minlength=len(keys))
    affected = np.bincount(index, flags.affected[moved], len(keys))
    delta = np.bincount(index, flags.delta[moved], len(keys))
    rows = [
        FlowTruth(
            base_path=names[k // len(names)],
            path=names[k % len(names)],
            n=int(n[i]),
            affected=int(affected[i]),
            delta_ns_sum=round(delta[i]),
        )
        for i, k in enumerate(keys.tolist())
    ]
    return sorted(rows, key=lambda r: (-r.n, r.base_path, r.path))


def _request_table(
    plan: RunPlan,
    paths: PathsTaken,
    after: VariantRequests,
    base_response: I8,
    base_path: I8,
    flags: _Flags,
    touched: TouchedRequests,
    told: _ToldRows,
) -> pa.Table:
    names = pa.array(list(paths.number))
    kernel = pa.array(list(paths.kernel_number))
    row = told.row
    unpaired = ~flags.paired[row]
    base_at = np.where(unpaired, 0, base_path[row])
    columns: dict[str, pa.Array] = {
        "request_id": pa.array(told.request_id, pa.string()),
        "trace_id": pa.array(told.trace_id, pa.string()),
        "start_ns": pa.array(told.start_ns, pa.int64()),
        "op": pa.array(p.OPERATIONS).take(pa.array(after.op[row])),
        "response_ns": pa.array(after.response_ns[row]),
        "base_response_ns": pa.array(base_response[row], mask=unpaired),
        "delta_ns": pa.array(flags.delta[row], mask=unpaired),
        "path": names.take(pa.array(after.path[row])),
        "base_path": names.take(pa.array(base_at, mask=unpaired)),
        "kernel_path": kernel.take(pa.array(after.kernel_path[row])),
        "affected": pa.array(flags.affected[row]),
        "knock_on": pa.array(flags.knock_on[row]),
        "added_ns": pa.array(touched.added_ns[row]),
    }
    for number in range(len(plan.causes)):
        columns[f"touched_{number}"] = pa.array(touched.by_cause[number][row])
    return pa.table(columns)


def variants(plan: RunPlan) -> list[Subset]:
    """Every subset of the run's causes: what truth compares. The whole set first, the empty one last."""
    causes = sorted(plan.simulated_causes)
    return [frozenset(c) for size in range(len(causes), -1, -1) for c in combinations(causes, size)]


@dataclass(frozen=True, slots=True)
class KnownRun(Run):
    """A run and, if asked for, its truth."""

    truth: Truth | None


@lru_cache(maxsize=5)
def _undisturbed(plan: RunPlan, workers: int) -> list[Trace]:
    """The run without its causes: what many faults are compared with."""
    return simulate(plan, frozenset(), workers=workers)


def run(plan: RunPlan, start_ns: int, *, with_truth: bool, workers: int = 1) -> KnownRun:
    """Simulate a run; with truth also its counterfactuals (one more run for one cause, 2^k - 1 for k)."""
    if not with_truth:
        made = run_alone(plan, start_ns, workers=workers)
        return KnownRun(plan, made.recording, made.traces, None)
    runs = {
        subset: simulate(plan, subset, workers=workers)
        if subset
        else _undisturbed(replace(plan, causes=()), workers)
        for subset in variants(plan)
    }
    recording = Recording(plan, start_ns)
    return KnownRun(plan, recording, runs[plan.simulated_causes], find_truth(plan, recording, runs))


def node_text(code: int, with_host: bool) -> str:
    """The label of a node, as the papers write it: machine, component, trace point, semantic label."""
    point = p.POINTS[code]
    where = f"{point.host}/{point.component}" if with_host else point.component
    return f"{where}/{point.name}/{point.label}" if point.label else f"{where}/{point.name}"


def signature(structure: Structure, with_host: bool) -> str:
    """16 hex digits, equal for flows that did the same in whatever order parallel strands interleaved.

    With hosts this is the papers' category (a node's label includes its machine); without, it is what the
    stitch kernel sees.
    """

    def text(strand: int) -> str:
        parts = []
        for step in structure.strands[strand]:
            word = node_text(step.code, with_host)
            if step.strands and p.POINTS[step.code].kind == "split":
                word += "{" + "|".join(sorted(text(child) for child in step.strands)) + "}"
            parts.append(word)
        return " ".join(parts)

    return blake2b(text(0).encode(), digest_size=8).hexdigest()


FACTS = (
    "metadata_writes_on_data_node",
    "metadata_writes_on_metadata_node",
    "partial_modifies",
    "lock_pairs",
    "lock_retries",
    "mds_calls",
    "tree_iterations",
    "storage_writes",
    "storage_retries",
    "directory_entries",
    "parallel_branches",
    "serial_reads",
)
"""Counts of what the strands that the response waits for did: the inputs of the relevance rules."""

_MDS_CALLS = frozenset(p.MDS_CALL.values())
_ENTRIES = frozenset((p.ENTRY, p.ENTRY_HIT, p.ENTRY_MISS))
_WRITES = frozenset((p.META_NODE.write, p.DATA_NODE.write))
_PAGES = frozenset((p.TREE_NODE, p.TREE_NODE_MISS))
_RETRIES = frozenset((p.NFS_CALLER.retry, p.MDS_CALLER.retry))


def facts(structure: Structure) -> dict[str, int]:
    """Count what the request did, from the simulator's own record. Keys: FACTS."""
    count = dict.fromkeys(FACTS, 0)
    for strand, steps in enumerate(structure.strands):
        if strand and strand not in structure.joined:
            continue
        codes = [s.code for s in steps]
        for before, code in zip([-1, *codes], codes, strict=False):
            if before == p.MDS_CALLER.write_call:
                count["metadata_writes_on_data_node"] += code == p.DATA_NODE.write
                count["metadata_writes_on_metadata_node"] += code == p.META_NODE.write
            count["partial_modifies"] += code == p.MODIFY_PART
            count["lock_pairs"] += code == p.LOCK_ACQUIRE
            count["lock_retries"] += code == p.LOCK_RETRY
            count["mds_calls"] += code in _MDS_CALLS
            count["tree_iterations"] += code in _PAGES
            count["storage_writes"] += code in _WRITES
            count["storage_retries"] += code in _RETRIES
            count["directory_entries"] += code in _ENTRIES
            count["serial_reads"] += strand == 0 and code == p.NFS_CALLER.read_call
        count["parallel_branches"] += sum(len(s.strands) for s in steps if p.POINTS[s.code].kind == "join")
    return count
