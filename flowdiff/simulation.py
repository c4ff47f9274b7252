"""Simulate a storage service or a web shop from Python, as `flowdiff simulate` does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    fault_end: float | None = None,
    seed: int = 0,
    start: str | Moment = "2026-01-05T00:00:00Z",
    sample: float = 1.0,
    workers: int = 1,
    format: Literal["native", "otlp-json"] | None = None,
) -> Path:
    """Write traces of a simulated storage service to a file, gzipped if it ends in .gz; returns its path.

    workload `web-shop`: of a shop, as otlp-json, with the arguments that it has. The same seed gives the same
    bytes. fault: names, or unambiguous prefixes. fault_start, fault_end: seconds of the run at which they
    begin and are repaired. format: None is native for the storage service. Raises ConfigError, InputError.
    """
    from flowdiff.cli.output import open_output
    from flowdiff.commands.simulate import chosen_faults, epoch_ns, shop_plan
    from flowdiff.times import instant_text
    from simulator.faults import plan_causes
    from simulator.output import RunFormat, run, write_lines
    from simulator.run import RunPlan
    from simulator.shop import SHOP, shop_lines

    names = [fault] if isinstance(fault, str) else [*fault]
    start_ns = epoch_ns(start if isinstance(start, str) else instant_text(start))
    path = Path(out)
    if workload == SHOP:
        shop_run = shop_plan(
            requests, seed, start_ns, names, (), [fault_start] * len(names), sample, format, fault_end
        )
        with open_output(path) as file:
            write_lines(file, shop_lines(shop_run), packed=path.suffix == ".gz")
        return path
    plan = RunPlan(
        workload,
        requests,
        seed,
        sample,
        tuple(plan_causes(chosen_faults(names, (), [fault_start] * len(names)), fault_end)),
    )
    result = run(plan, start_ns, workers=workers)
    with open_output(path) as file:
        write_lines(file, result.lines(RunFormat(format or RunFormat.NATIVE)), packed=path.suffix == ".gz")
    return path


def shop(
    start_ns: int, *, seconds: float, per_second: float, deployed_s: float, rolled_back_s: float
) -> Iterator[bytes]:
    """OTLP/JSON of a web shop, a request a line in order of their start, with a slow version between two
    seconds of the run."""
    from simulator.shop import SLOW_MS, ShopPlan, shop_lines

    requests = round(seconds * per_second)
    return shop_lines(ShopPlan(requests, 1, start_ns, per_second, deployed_s, rolled_back_s, SLOW_MS))
