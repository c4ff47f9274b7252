"""Run the shards, in this process or in a pool, with and without the causes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import accumulate, combinations, pairwise

from ingest.simulate.faults import TRACING_ONLY, Cause
from ingest.simulate.parameters import Parameters
from ingest.simulate.shard import ShardPlan, run_shard
from ingest.simulate.trace import Trace
from ingest.simulate.workloads import SFS_LEVELS, WORKLOADS
from schemas.errors import ConfigError

Subset = frozenset[int]
"""Numbers of the causes that are at work in one variant of a run."""

Progress = Callable[[int, int], None]
"""(requests simulated so far, requests to simulate)."""


@dataclass(frozen=True, slots=True)
class RunPlan:
    """All that a run depends on."""

    workload: str
    n_requests: int
    """Requests simulated (sampled ones are `sample` of them)."""
    seed: int
    sample: float
    causes: tuple[Cause, ...] = ()
    parameters: Parameters | None = None
    """Other than the workload's own (tuning and tests)."""

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
        """The causes that change what happens (not only how it is told)."""
        return frozenset(i for i, c in enumerate(self.causes) if c.injection.mechanism not in TRACING_ONLY)


def shard_plans(plan: RunPlan, causes: Subset) -> list[ShardPlan]:
    """The shards of one variant of a run, in order of time."""
    workload = WORKLOADS[plan.workload]
    injections = tuple(c.injection for i, c in enumerate(plan.causes) if i in causes)
    shards: list[ShardPlan] = []
    first, offset_ns = 0, 0.0
    bounds = [round(plan.n_requests * share) for share in accumulate(workload.shares, initial=0.0)]
    for number, (low, high) in enumerate(pairwise(bounds)):
        shards.append(
            ShardPlan(
                workload=plan.workload,
                shard=number,
                n_requests=high - low,
                first_index=first,
                offset_ns=offset_ns,
                seed=plan.seed,
                sample=plan.sample,
                injections=injections,
                parameters=plan.parameters or workload.parameters,
            )
        )
        first += high - low
        if len(workload.shares) > 1:
            offset_ns += (high - low) / SFS_LEVELS[number] * 1e9
    return [s for s in shards if s.n_requests]


def variants(plan: RunPlan) -> list[Subset]:
    """Every subset of the run's causes: what truth compares. The whole set first, the empty one last."""
    causes = sorted(plan.simulated_causes)
    return [frozenset(c) for size in range(len(causes), -1, -1) for c in combinations(causes, size)]


def simulate(
    plan: RunPlan, subsets: Sequence[Subset], *, workers: int = 1, progress: Progress | None = None
) -> dict[Subset, list[Trace]]:
    """Simulate the run once for every subset of causes; traces by subset, in order of shards.

    With several workers the shards run in other processes (spawned, so that no lock of this one is copied);
    the result does not depend on how many.
    """
    tasks = [(subset, shard) for subset in subsets for shard in shard_plans(plan, subset)]
    total = sum(shard.n_requests for _, shard in tasks)
    done = 0
    results: dict[tuple[Subset, int], Trace] = {}

    def keep(subset: Subset, shard: ShardPlan, trace: Trace) -> None:
        nonlocal done
        results[subset, shard.shard] = trace
        done += shard.n_requests
        if progress is not None:
            progress(done, total)

    if workers == 1 or len(tasks) == 1:
        for subset, shard in tasks:
            keep(subset, shard, run_shard(shard))
    else:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(min(workers, len(tasks)), mp_context=context) as pool:
            # The longest first: the last shard of SFS97 is a quarter of the run.
            order = sorted(tasks, key=lambda task: -task[1].n_requests)
            futures = {pool.submit(run_shard, shard): (subset, shard) for subset, shard in order}
            for future in as_completed(futures):
                subset, shard = futures[future]
                keep(subset, shard, future.result())
    return {
        subset: [results[subset, shard.shard] for shard in shard_plans(plan, subset)] for subset in subsets
    }
