"""Record a run: ids, epoch, sampling rate, and the faults of the tracing itself (N3 to N6).

A format makes one template per structure, and fills it with each request's times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from schemas.arrays import B1, I8
from simulator.faults import FaultMechanism, injected
from simulator.points import HOSTS, MDS_HOST, POINTS, Point
from simulator.run import SAMPLING, RunPlan
from simulator.streams import mix, request_keys, unit_interval
from simulator.trace import Structure, Trace, decode

RENAMED = {"DISPATCH": "REQUEST_DISPATCH"}
"""Old -> new name of the metadata server's trace points that the negative `N6-rename` renames."""
_LOSS, _TRACE_ID = 11, 12
"""Purposes of request keys (`request_keys`): (loss of records, trace ids)."""
_CHUNK_REQUESTS = 500
"""Number of requests per chunk of lines: about 4 MB."""
ID, ID_BEGIN = "\x01", "\x02"
"""Placeholders in a template: (for a request's id, for the first 12 digits of the id)."""

Filled = Callable[[Trace, int, list[int], list[bool] | None], str]
"""Function (trace, row, times of the request's steps, [steps] True for lost records) -> text of the request,
with ID in place of its id.
"""
Template = Callable[[Structure, bool, float], Filled]
"""Function (structure, True if points have their new names, sampling rate) -> function that writes requests
of the structure.
"""


@dataclass(frozen=True, slots=True)
class RecordedRequests:
    """Requests of one shard that are recorded, sorted by start."""

    rows: I8
    """[requests] row of the request in the trace."""
    request_id: list[str]
    trace_id: list[str]
    start_ns: I8
    """[requests] start of the request by the entry host's clock, ns since the epoch."""
    sample_rate: npt.NDArray[np.float64]
    renamed: B1


class Recording:
    """Conversion of the simulator's times and numbers to records of a tracing system."""

    def __init__(self, plan: RunPlan, start_ns: int) -> None:
        """start_ns: start of the run, ns since the epoch."""
        self.plan, self.start_ns = plan, start_ns
        name = (
            f"{plan.workload} {plan.seed} {start_ns} {[(c.name, c.injection.severity) for c in plan.causes]}"
        )
        self.tag = blake2b(name.encode(), digest_size=4).hexdigest()
        injections = {c.injection.mechanism: c.injection for c in plan.causes}
        self._sampling = injected(injections, FaultMechanism.SAMPLING)
        self._skew = injected(injections, FaultMechanism.CLOCK_SKEW)
        self._loss = injected(injections, FaultMechanism.SPAN_LOSS)
        self._rename = injected(injections, FaultMechanism.RENAME)

    def recorded(self, trace: Trace) -> RecordedRequests:
        """Requests of a trace that are recorded, with ids, sampling rates, and names of points."""
        begin = trace.time_ns[trace.first_step[:-1]]
        rate = np.full(len(trace), self.plan.sample)
        kept = np.ones(len(trace), dtype=bool)
        if self._sampling.severity:
            rate[self._sampling.acts_at(begin)] /= max(1.0, self._sampling.severity)
            kept = unit_interval(request_keys(self.plan.seed, trace.uid, SAMPLING)) < rate
        rows = np.flatnonzero(kept)
        rows = rows[np.argsort(begin[rows], kind="stable")]
        uids = trace.uid[rows]
        salt = int(self.tag, 16)
        high, low = (request_keys(self.plan.seed, uids, _TRACE_ID + salt + i).tolist() for i in range(2))
        return RecordedRequests(
            rows=rows,
            request_id=[f"{self.tag}-{uid:x}" for uid in uids.tolist()],
            trace_id=[f"{h:016x}{low_:016x}" for h, low_ in zip(high, low, strict=True)],
            start_ns=begin[rows] + self.start_ns,
            sample_rate=rate[rows],
            renamed=self._rename.acts_at(begin[rows]),
        )

    def recorded_times(self, trace: Trace, structures: Sequence[Structure]) -> I8:
        """[steps] time of each step by the clock of the host that records it, ns since the epoch."""
        times = trace.time_ns + self.start_ns
        if self._skew.severity == 0.0 or len(trace) == 0:
            return times
        ahead = {host: round(self._skew.severity * 1e6) if host == MDS_HOST else 0 for host in HOSTS}
        offsets = [
            np.array([ahead[POINTS[s.code].host] for strand in structure.strands for s in strand])
            for structure in structures
        ]
        added = np.concatenate([offsets[s] for s in trace.structure.tolist()])
        return np.where(self._skew.acts_at(trace.time_ns), times + added, times)

    def lost(self, trace: Trace) -> B1 | None:
        """[steps] True where the step's record is lost; None: no record is."""
        if self._loss.severity == 0.0:
            return None
        keys = np.repeat(
            request_keys(self.plan.seed, trace.uid, _LOSS), np.diff(trace.first_step).astype(np.int64)
        )
        step = np.arange(len(keys), dtype=np.uint64)
        unlucky = unit_interval(mix(keys + step)) < self._loss.severity
        return unlucky & self._loss.acts_at(trace.time_ns)


def request_lines(
    recording: Recording,
    traces: Sequence[Trace],
    template: Template,
    ids: Callable[[RecordedRequests], list[str]],
) -> Iterator[bytes]:
    """Yield chunks of whole lines: requests by start, shard by shard."""
    pending: list[str] = []
    for trace in traces:
        structures = [decode(raw) for raw in trace.structures]
        times, lost = recording.recorded_times(trace, structures), recording.lost(trace)
        recorded = recording.recorded(trace)
        filled: dict[tuple[int, bool, float], Filled] = {}
        kinds = zip(recorded.renamed.tolist(), recorded.sample_rate.tolist(), strict=True)
        for row, id_, kind in zip(recorded.rows.tolist(), ids(recorded), kinds, strict=True):
            key = int(trace.structure[row]), *kind
            if key not in filled:
                filled[key] = template(structures[key[0]], *kind)
            steps = slice(int(trace.first_step[row]), int(trace.first_step[row + 1]))
            gone = None if lost is None else lost[steps].tolist()
            text = filled[key](trace, row, times[steps].tolist(), gone)
            pending.append(text.replace(ID, id_).replace(ID_BEGIN, id_[:12]))
            if len(pending) == _CHUNK_REQUESTS:
                yield "".join(pending).encode()
                pending = []
    if pending:
        yield "".join(pending).encode()


def recorded_point(code: int, renamed: bool) -> Point:
    """Trace point as recorded: with its new name if `renamed`, i.e. after the deployment of the negative
    `N6-rename`."""
    point = POINTS[code]
    if renamed and point.host == MDS_HOST and point.name in RENAMED:
        return replace(point, name=RENAMED[point.name])
    return point
