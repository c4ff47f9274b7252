"""Simulate the shards of a run, in this process or in a pool, with and without the causes of faults.

A shard is a service, its clients and their event loop; it depends on its `ShardPlan` only.
"""

from __future__ import annotations

import multiprocessing
from array import array
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

import numpy as np

from schemas.errors import ConfigError
from simulator.engine import Loop, Process, SimulatedFlow, Strand
from simulator.faults import TRACING_ONLY, FaultCause, FaultMechanism, Injection, Injections, injected
from simulator.metadata import MetadataServer
from simulator.nfs import BLOCK_BITS, NfsServer
from simulator.parameters import STATIONS, Parameters, broad, stream_specs
from simulator.points import DATA_HOST, DATA_NODE, META_HOST, META_NODE
from simulator.storage import StorageNode
from simulator.streams import (
    WORKLOAD,
    Weather,
    build_streams,
    generator,
    request_key,
    request_keys,
    unit_interval,
)
from simulator.trace import STRAND_BREAK, RawStructure, Touches, Trace
from simulator.workloads import (
    BLOCK_BYTES,
    OP,
    REVALIDATION,
    SFS_LEVELS,
    SUB_BITS,
    WORKLOADS,
    OfferedLoad,
)

MINUTE_NS = 60e9
PAUSE_EVERY_NS = 0.5e9
"""Fault `F6-client-pause`: interval between pauses of the client machine, ns; a pause lasts `severity` times
as long.
"""
NOISES, SAMPLING, BACKGROUND = 0, 1, 2
"""Purposes of request keys (`request_keys`): (noises, sampling, background work)."""


def run_shard(plan: ShardPlan) -> Trace:
    """Simulate every request of the shard; returns the sampled ones."""
    injections = {
        i.mechanism: replace(i, start_ns=i.start_ns - plan.offset_ns, end_ns=i.end_ns - plan.offset_ns)
        for i in plan.injections
    }
    is_broad = injected(injections, FaultMechanism.SPIN).mode == "broad"
    parameters = broad(plan.parameters) if is_broad else plan.parameters
    rng = generator(plan.run.seed, WORKLOAD, plan.shard)
    load = WORKLOADS[plan.run.workload].generate(plan.n_requests, plan.shard, rng, parameters)
    return _Run(plan, parameters, injections, load).trace()


class _Run:
    """State of one shard while it is simulated."""

    def __init__(
        self, plan: ShardPlan, parameters: Parameters, injections: Injections, load: OfferedLoad
    ) -> None:
        self._plan, self._injections, self._load = plan, injections, load
        self._loop = Loop()
        self._streams = build_streams(stream_specs(parameters))
        self._n_streams = len(self._streams)
        nodes = (
            StorageNode(META_HOST, META_NODE, parameters.sn_meta_blocks, self._streams, injections),
            StorageNode(DATA_HOST, DATA_NODE, parameters.sn_blocks, self._streams, injections),
        )
        self._mds = MetadataServer(self._loop, parameters, self._streams, nodes, injections, load.n_creates)
        self._nfs = NfsServer(
            self._loop,
            parameters,
            self._streams,
            load.requests,
            self._mds,
            nodes[1],
            injections,
            self._complete,
        )
        self._warm(load, nodes[1])
        uid = load.requests.uid + (plan.first_index << SUB_BITS)
        self._uid: list[int] = uid.tolist()
        self._keys: list[int] = request_keys(plan.run.seed, uid, NOISES).tolist()
        kept = unit_interval(request_keys(plan.run.seed, uid, SAMPLING)) < plan.run.sample
        self._kept: list[bool] = kept.tolist()
        self._client: list[int] = load.requests.client.tolist()
        self._gap: list[float] = load.requests.gap_ns.tolist()
        self._open_requests = [len(load.requests)]
        self._end = 0.0
        self._times = array("d")
        self._lengths, self._rows = array("q"), array("q")
        self._structure = array("q")
        self._known: dict[RawStructure, int] = {}
        self._touches: list[tuple[int, int, int, float]] = []

    def _warm(self, load: OfferedLoad, data_node: StorageNode) -> None:
        files, n_blocks = load.warm_files, load.warm_blocks
        self._nfs.attributes.fill(files[::-1])
        self._mds.warm(files[::-1])
        first = np.cumsum(n_blocks) - n_blocks
        index = np.arange(int(n_blocks.sum())) - np.repeat(first, n_blocks)
        blocks = (np.repeat(files << BLOCK_BITS, n_blocks) + index)[::-1]
        self._nfs.blocks.fill(blocks)
        data_node.cache.fill(blocks)

    def trace(self) -> Trace:
        """Run the shard to its end; returns its trace."""
        if self._load.open_loop:
            self._loop.start(0.0, self._arrivals())
        else:
            clients = self._load.requests.client
            for client in range(self._load.clients):
                rows = np.flatnonzero(clients == client).tolist()
                if rows:
                    self._loop.start(0.0, self._closed_client(rows))
        self._loop.start(0.0, self._change_weather())
        self._loop.start(0.0, self._mds.checkpoints(self._background_strand, self._open_requests))
        self._loop.run()
        return self._collect()

    def _background_strand(self, number: int, t: float) -> Strand:
        # Shards share no background draws: the shard number lies above every checkpoint's number.
        key = request_key(self._plan.run.seed, (self._plan.shard << 40) + number, BACKGROUND)
        return Strand(SimulatedFlow(-1), 0, key, t, self._n_streams)

    def _change_weather(self) -> Process:
        """Process that changes the slow noise (`Weather`): it sets the mean of every stream once a minute,
        and when a noisy neighbour of the data node starts or stops."""
        plan = self._plan
        weather = Weather(
            plan.run.seed,
            plan.shard,
            STATIONS,
            plan.parameters.run_sd,
            plan.parameters.minute_sd,
            plan.parameters.minute_rho,
        )
        noisy = injected(self._injections, FaultMechanism.NOISY_HOST)
        t, next_minute = 0.0, MINUTE_NS
        while self._open_requests[0]:
            for stream in self._streams.values():
                factor = weather.factor(stream.station) if stream.station else 1.0
                if noisy.acts(t) and stream.station == "data":
                    factor *= 1.0 + noisy.severity
                stream.mean_ns = stream.base_ns * factor
            t = min(bound for bound in (noisy.start_ns, noisy.end_ns, next_minute) if bound > t)
            yield t
            if t >= next_minute:
                weather.next_minute()
                next_minute += MINUTE_NS

    def _arrivals(self) -> Process:
        """Process of an open loop: starts requests at the gaps of the workload, without waiting for earlier
        requests."""
        more = injected(self._injections, FaultMechanism.LOAD)
        t = 0.0
        for row, gap in enumerate(self._gap):
            if more.acts(t):
                gap /= 1.0 + more.severity
            t += gap
            yield t
            self._loop.start(t, self._serve(self._open(row, t)))

    def _serve(self, s: Strand) -> Process:
        """Issue a request, and wait for the reply."""
        row = s.flow.row
        if row >= len(self._load.requests):
            self._note_extra(s, row)
        yield from self._nfs.serve(s, row)
        yield s.t
        self._nfs.close_strand(s.flow)

    def _closed_client(self, rows: list[int]) -> Process:
        """Process of a client in a closed loop: think, issue a request, wait for the reply."""
        more = injected(self._injections, FaultMechanism.LOAD)
        pauses = injected(self._injections, FaultMechanism.PAUSES)
        small = injected(self._injections, FaultMechanism.SMALL_IO)
        t = 0.0
        next_pause = max(0.0, pauses.start_ns) + PAUSE_EVERY_NS
        for row in rows:
            gap = self._gap[row]
            if more.acts(t):
                gap /= 1.0 + more.severity
            t += gap
            todo = [row]
            if pauses.acts(t) and t >= next_pause:
                t += PAUSE_EVERY_NS * pauses.severity
                next_pause = t + PAUSE_EVERY_NS
                todo = [self._extra(row, REVALIDATION, OP["GETATTR"], 0, 0), row]
            yield t
            if small.acts(t) and small.severity > 1.0:
                todo[-1:] = self._parts(row, small.severity)
            for each in todo:
                s = self._open(each, t)
                yield from self._serve(s)
                t = s.t

    def _note_extra(self, s: Strand, row: int) -> None:
        revalidates = self._uid[row] & REVALIDATION == REVALIDATION
        fault = self._injections[FaultMechanism.PAUSES if revalidates else FaultMechanism.SMALL_IO]
        s.touch(fault.cause, 0.0)

    def _extra(self, row: int, part: int, op: int, offset: int, count: int) -> int:
        new = self._nfs.add_row(row, op, offset, count)
        uid = self._uid[row] + part
        self._uid.append(uid)
        self._keys.append(request_key(self._plan.run.seed, uid, NOISES))
        share = request_key(self._plan.run.seed, uid, SAMPLING) / 2.0**64
        self._kept.append(share < self._plan.run.sample)
        self._client.append(self._client[row])
        self._open_requests[0] += 1
        return new

    def _parts(self, row: int, factor: float) -> list[int]:
        """Split a READ or WRITE into parts of 16 KB / factor (fault `F2-small-io`); returns their rows.

        The first part keeps the request's id.
        """
        op, _, offset, count = self._nfs.describe(row)
        size = max(512, int(BLOCK_BYTES / factor))
        if op not in (OP["READ"], OP["WRITE"]) or count <= size:
            return [row]
        pieces = [(at, min(size, count - at)) for at in range(0, count, size)][:REVALIDATION]
        rows = [
            self._extra(row, part, op, offset + at, length)
            for part, (at, length) in enumerate(pieces)
            if part
        ]
        self._nfs.shorten(row, pieces[0][1])
        return [row, *rows]

    def _open(self, row: int, t: float) -> Strand:
        flow = SimulatedFlow(row)
        s = Strand(flow, 0, self._keys[row], t, self._n_streams)
        flow.strands.append(s)
        return s

    def _complete(self, flow: SimulatedFlow) -> None:
        self._open_requests[0] -= 1
        strands = flow.strands
        end = max(s.t for s in strands)
        if end > self._end:
            self._end = end
        if not self._kept[flow.row]:
            return
        raw = tuple(strands[0].codes)
        starts = [0]
        self._times.extend(strands[0].times)
        for s in strands[1:]:
            starts.append(starts[-1] + len(strands[len(starts) - 1].codes))
            raw += (STRAND_BREAK, *s.codes)
            self._times.extend(s.times)
        request = len(self._rows)
        self._rows.append(flow.row)
        self._lengths.append(sum(len(s.codes) for s in strands))
        self._structure.append(self._known.setdefault(raw, len(self._known)))
        for cause, strand, step, added_ns in flow.touches:
            self._touches.append((request, cause, starts[strand] + step, added_ns))

    def _collect(self) -> Trace:
        times = np.rint(np.frombuffer(self._times, dtype=np.float64)).astype(np.int64)
        times += round(self._plan.offset_ns)
        lengths = np.array(self._lengths, dtype=np.int64)
        first = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        structures = tuple(self._known)
        structure = np.array(self._structure, dtype=np.int64)
        main = np.array([_main_length(raw) for raw in structures], dtype=np.int64)
        response = times[first[:-1] + main[structure] - 1] - times[first[:-1]]
        rows = np.array(self._rows, dtype=np.int64)
        described = np.array([self._nfs.describe(r) for r in rows.tolist()], dtype=np.int64).reshape(-1, 4)
        request, cause, step, added = (
            np.array([t[i] for t in self._touches], dtype=np.float64) for i in range(4)
        )
        return Trace(
            shard=self._plan.shard,
            uid=np.array(self._uid, dtype=np.int64)[rows],
            structure=structure,
            first_step=first,
            time_ns=times,
            response_ns=response,
            op=described[:, 0],
            file=described[:, 1],
            offset=described[:, 2],
            count=described[:, 3],
            client=np.array(self._client, dtype=np.int64)[rows],
            structures=structures,
            touches=Touches(request.astype(np.int64), cause.astype(np.int64), step.astype(np.int64), added),
            n_simulated=len(self._uid),
            end_ns=self._end + self._plan.offset_ns,
        )


def _main_length(raw: RawStructure) -> int:
    return raw.index(STRAND_BREAK) if STRAND_BREAK in raw else len(raw)


Subset = frozenset[int]
"""Numbers of the causes active in one variant of a run."""

Progress = Callable[[int, int], None]
"""Callback (requests simulated so far, total number of requests)."""


@dataclass(frozen=True, slots=True)
class RunPlan:
    """Inputs that determine a run."""

    workload: str
    n_requests: int
    """Number of requests simulated, of which a share `sample` is sampled."""
    seed: int
    sample: float
    causes: tuple[FaultCause, ...] = ()
    parameters: Parameters | None = None
    """Parameters that replace those of the workload (for tuning and tests); None: the workload's are used."""

    def __post_init__(self) -> None:
        if self.workload not in WORKLOADS:
            raise ConfigError(
                f"no workload is called {self.workload!r}.", remedy=f"Choose one of {', '.join(WORKLOADS)}."
            )
        if not 0.0 < self.sample <= 1.0:
            raise ConfigError(f"a sampling rate of {self.sample} is not in (0, 1].")
        if self.n_requests < 1:
            raise ConfigError(f"{self.n_requests} requests cannot be simulated.")
        if not 0 <= self.seed < 1 << 62:
            raise ConfigError(f"the seed {self.seed} is not in [0, 2^62).")

    @property
    def simulated_causes(self) -> Subset:
        """Numbers of the causes that change the simulation; causes that only change how it is recorded are
        left out."""
        return frozenset(i for i, c in enumerate(self.causes) if c.injection.mechanism not in TRACING_ONLY)


@dataclass(frozen=True, slots=True)
class ShardPlan:
    """Inputs that determine a shard. Picklable: shards run in other processes."""

    run: RunPlan
    shard: int
    n_requests: int
    first_index: int
    """Number of requests in earlier shards."""
    offset_ns: float
    """Start of the shard, ns since the start of the run."""
    injections: tuple[Injection, ...]

    @property
    def parameters(self) -> Parameters:
        """Parameters of the simulated installation: those of the run if it has any, else those of the
        workload."""
        return self.run.parameters or WORKLOADS[self.run.workload].parameters


def shard_plans(plan: RunPlan, causes: Subset) -> list[ShardPlan]:
    """Shards of one variant of a run, in time order."""
    workload = WORKLOADS[plan.workload]
    injections = tuple(c.injection for i, c in enumerate(plan.causes) if i in causes)
    shards: list[ShardPlan] = []
    first, offset_ns = 0, 0.0
    bounds = [round(plan.n_requests * share) for share in accumulate(workload.shares, initial=0.0)]
    for number, (low, high) in enumerate(pairwise(bounds)):
        shards.append(ShardPlan(plan, number, high - low, first, offset_ns, injections))
        first += high - low
        if len(workload.shares) > 1:
            offset_ns += (high - low) / SFS_LEVELS[number] * 1e9
    return [s for s in shards if s.n_requests]


def simulate(
    plan: RunPlan, causes: Subset, *, workers: int = 1, progress: Progress | None = None
) -> list[Trace]:
    """Simulate the run with `causes` active; returns a trace per shard, in order.

    With several workers the shards run in other processes (spawned, so that no lock of this one is copied);
    the result does not depend on the number of workers.
    """
    shards = shard_plans(plan, causes)
    done = 0
    traces: dict[int, Trace] = {}

    def keep(shard: ShardPlan, trace: Trace) -> None:
        nonlocal done
        traces[shard.shard] = trace
        done += shard.n_requests
        if progress is not None:
            progress(done, plan.n_requests)

    if workers == 1 or len(shards) == 1:
        for shard in shards:
            keep(shard, run_shard(shard))
    else:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(min(workers, len(shards)), mp_context=context) as pool:
            # The longest first: the last shard of SFS97 is a quarter of the run.
            order = sorted(shards, key=lambda shard: -shard.n_requests)
            futures = {pool.submit(run_shard, shard): shard for shard in order}
            for future in as_completed(futures):
                keep(futures[future], future.result())
    return [traces[shard.shard] for shard in shards]
