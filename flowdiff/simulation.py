"""Simulate a storage service or a web shop from Python, as `flowdiff simulate` does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from flowdiff.cli.output import open_output
from flowdiff.times import Moment, instant_text
from ingest.codecs.spans.spans_to_events import EARLIEST_NS, LATEST_NS
from schemas.errors import ConfigError
from simulator.faults import Fault, find_fault, plan_causes
from simulator.output import RunFormat, run, write_lines
from simulator.run import RunPlan
from simulator.shop import SHOP, SLOW_MS, SLOW_STOCK, ShopPlan, shop_lines


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

    workload `web-shop`: traces of a shop, as otlp-json; some arguments do not apply. The same seed gives the
    same bytes. fault: names, or unambiguous prefixes. fault_start, fault_end: seconds of the run at which
    faults begin and are repaired. format: None is native for the storage service. Raises ConfigError,
    InputError.
    """
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
    """Yield OTLP/JSON of a web shop, one request per line, by start; a slow version runs from `deployed_s` to
    `rolled_back_s`, in seconds since the start of the run."""
    requests = round(seconds * per_second)
    return shop_lines(ShopPlan(requests, 1, start_ns, per_second, deployed_s, rolled_back_s, SLOW_MS))


def shop_plan(
    requests: int,
    seed: int,
    start_ns: int,
    faults: Sequence[str] = (),
    severities: Sequence[float] = (),
    starts: Sequence[float] = (),
    sample: float = 1.0,
    format_: str | None = None,
    end: float | None = None,
) -> ShopPlan:
    """Plan of a web-shop run. Raises ConfigError for an unknown fault, or an unsupported sample share or
    format."""
    if sample != 1:
        raise ConfigError(f"{SHOP} traces every request.", remedy="Leave out sample.")
    if format_ not in (None, RunFormat.OTLP_JSON):
        raise ConfigError(f"{SHOP} is written as {RunFormat.OTLP_JSON}.", remedy="Leave out format.")
    if requests < 1:
        raise ConfigError("there is nothing to simulate.", remedy="Give --requests 1 or more.")
    _refuse_more(faults, severities, starts)
    if not faults:
        if end is not None:
            raise ConfigError("there is no fault that ends.", remedy="Name one, or leave out the end.")
        return ShopPlan(requests, seed, start_ns)
    if len(faults) > 1 or not SLOW_STOCK.lower().startswith(faults[0].lower()):
        raise ConfigError(f"{SHOP} has no fault {', '.join(faults)}.", remedy=f"It has one: {SLOW_STOCK}.")
    deployed_s = starts[0] if starts else 0.0
    if end is not None and not deployed_s < end:
        raise ConfigError(f"{SLOW_STOCK} begins at {deployed_s:g} s and ends at {end:g} s.")
    return ShopPlan(
        requests,
        seed,
        start_ns,
        deployed_s=deployed_s,
        rolled_back_s=end,
        slow_ms=severities[0] if severities else SLOW_MS,
    )


def _refuse_more(faults: Sequence[str], severities: Sequence[float], starts: Sequence[float]) -> None:
    """Raise ConfigError if there are more severities, or more starts, than faults."""
    if len(severities) > len(faults) or len(starts) > len(faults):
        raise ConfigError(
            "there are more severities or starts than faults.", remedy="Give one for each fault."
        )


def chosen_faults(
    names: Sequence[str], severities: Sequence[float] = (), starts: Sequence[float] = ()
) -> list[tuple[Fault, float | None, float]]:
    """(Fault, severity or None for its default, start in seconds of the run) for each name. Raises
    ConfigError.
    """
    _refuse_more(names, severities, starts)
    padded = [*severities, *[None] * (len(names) - len(severities))]
    begun = [*starts, *[0.0] * (len(names) - len(starts))]
    return [(find_fault(n), level, at) for n, level, at in zip(names, padded, begun, strict=True)]


def epoch_ns(text: str) -> int:
    """Parse the start of a run, ISO 8601, to ns since the epoch. Raises ConfigError."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"{text!r} is not a time.", remedy="Write 2026-01-05T00:00:00Z.") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    start_ns = int(moment.timestamp()) * 1_000_000_000 + moment.microsecond * 1_000
    if not EARLIEST_NS <= start_ns < LATEST_NS:
        raise ConfigError(f"--start {text} lies outside 1990 to 2200, which nothing imports.")
    return start_ns
