"""Benchmark of the simulator: CPU time a request, and of a draw beside numpy's counter-based generator.

Run: `python tests/bench/bench_simulate.py [REQUESTS]`, or `make bench`. The seed is fixed; times are CPU
times of this process. Recording (native, OTLP) is measured apart, per sampled request.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2])]

import numpy as np  # noqa: E402 (the path comes first: a script)
import pytest  # noqa: E402

from simulator.engine import SimulatedFlow, Strand  # noqa: E402
from simulator.output import RunFormat, run  # noqa: E402
from simulator.run import RunPlan  # noqa: E402
from simulator.streams import StreamSpec, build_streams  # noqa: E402
from simulator.workloads import WORKLOADS  # noqa: E402

START_NS = 1_767_571_200_000_000_000
SFS_SAMPLED = WORKLOADS["sfs97"].paper_requests


def compare_draws(n: int) -> None:
    """A draw keyed by (request, visit): ours, and the baseline, a Philox generator keyed anew for each."""
    streams = build_streams([StreamSpec("work", "nfs", 100, 0.3)])
    strand = Strand(SimulatedFlow(0), 0, 12345, 0.0, 1)
    begin = time.process_time()
    for _ in range(n):
        strand.draw(streams["work"])
    ours = (time.process_time() - begin) / n
    begin = time.process_time()
    for visit in range(n // 20):
        np.random.Generator(np.random.Philox(key=[12345, visit])).lognormal(0.0, 0.5)
    baseline = (time.process_time() - begin) / (n // 20)
    print(f"a draw: {ours * 1e6:.2f} µs; keyed Philox: {baseline * 1e6:.1f} µs ({baseline / ours:.0f}x)")


def measure(workload: str, n: int) -> None:
    begin = time.process_time()
    result = run(RunPlan(workload, n, 1, 0.1), START_NS)
    simulated = time.process_time() - begin
    steps = sum(len(t.time_ns) for t in result.traces)
    traced = sum(len(t) for t in result.traces)
    told = {}
    for format_ in RunFormat:
        begin = time.process_time()
        size = sum(map(len, result.lines(format_)))
        told[format_] = (time.process_time() - begin, size)
    per_request = simulated / n
    native, otlp = told[RunFormat.NATIVE], told[RunFormat.OTLP_JSON]
    print(
        f"{workload:17} {per_request * 1e6:6.1f} µs/request ({n / simulated:7,.0f}/s), "
        f"{steps / traced:5.1f} records/request; native {native[0] / traced * 1e6:.0f} µs, "
        f"OTLP {otlp[0] / traced * 1e6:.0f} µs a sampled request"
    )
    if workload == "sfs97":
        whole = per_request * SFS_SAMPLED / 0.1 + native[0] / traced * SFS_SAMPLED
        print(f"{'':17} paper size ({SFS_SAMPLED:,} sampled at 10 %): {whole:.0f} s of CPU")


@pytest.mark.bench
def test_simulator() -> None:
    main(10_000)


def main(n: int) -> None:
    compare_draws(200_000)
    for workload in WORKLOADS:
        measure(workload, n)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 30_000)
