"""Simulate a storage service from Python, as `flowdiff simulate` does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from flowdiff.times import Moment


def simulate(
    out: str | Path,
    *,
    requests: int = 4_000,
    workload: str = "postmark-large",
    fault: str | Sequence[str] = (),
    fault_start: float = 0.0,
    seed: int = 0,
    start: str | Moment = "2026-01-05T00:00:00Z",
    sample: float = 1.0,
    workers: int = 1,
    format: Literal["native", "otlp-json"] = "native",
) -> Path:
    """Write traces of a simulated storage service to a file, gzipped if it ends in .gz; returns its path.

    The same seed gives the same bytes. fault: names, or unambiguous prefixes. fault_start: second of the run
    at which they begin. Raises ConfigError, InputError.
    """
    from flowdiff.cli.output import open_output
    from flowdiff.commands.simulate import chosen_faults, epoch_ns
    from flowdiff.times import instant_text
    from simulator.faults import plan_causes
    from simulator.output import RunFormat, run, write_lines
    from simulator.run import RunPlan

    names = [fault] if isinstance(fault, str) else [*fault]
    plan = RunPlan(
        workload,
        requests,
        seed,
        sample,
        tuple(plan_causes(chosen_faults(names, (), [fault_start] * len(names)))),
    )
    start_ns = epoch_ns(start if isinstance(start, str) else instant_text(start))
    result = run(plan, start_ns, workers=workers)
    path = Path(out)
    with open_output(path) as file:
        write_lines(file, result.lines(RunFormat(format)), packed=path.suffix == ".gz")
    return path
