"""Record described systems: a lake for each seed, and which of its periods hold what."""

from __future__ import annotations

import io
import os
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from evaluation.segments.described import Scenario, scenarios_of, system_of
from evaluation.segments.played import REQUESTS, WINDOW_NS, Playing
from evaluation.store import fingerprint
from oracles.quiet_import import Quiet

from schemas.windows import NS_PER_DAY, NS_PER_SECOND
from stitch.drivers.batch import import_into
from stitch.drivers.import_settings import ImportSettings

T0: Final = 20_758 * NS_PER_DAY
QUIET: Final = 10
"""Windows without a fault, one after another."""
LONG: Final = 4
"""Of them, the last, are the reference of a long period; the last one is that of a short."""
_SOURCES: Final = (
    *(f"tests/evaluation/segments/{name}.py" for name in ("described", "played", "recorded")),
    *("schemas", "ingest", "stitch"),
)
"""What a lake depends on."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Periods to compare, as ISO ranges."""

    scenario: Scenario
    reference: str
    problem: str
    history: tuple[str, ...]


def recorded(root: Path, seed: int) -> tuple[Path, list[Pair]]:
    """Give the lake of a seed, kept under `.cache/segments` while generator and importer are the same, and
    what to compare in it: the scenarios, then quiet windows with the one before."""
    lake = root / ".cache" / "segments" / f"{fingerprint(root, _SOURCES)}-{seed}"
    if not lake.is_dir():
        _record(lake, seed)
    return lake, _pairs(seed)


def _pairs(seed: int) -> list[Pair]:
    quiet = [period(at, 1) for at in range(QUIET)]
    found, at = [], QUIET
    for scenario in scenarios_of(system_of(seed)):
        n = scenario.requests // REQUESTS
        long = n > 1
        reference = period(QUIET - LONG, LONG) if long else quiet[-1]
        history = quiet[: QUIET - LONG] if long else quiet[:-1]
        found.append(Pair(scenario, reference, period(at, n), tuple(history)))
        at += n
    ordinary = Scenario("quiet")
    for first in range(QUIET - 1):
        others = tuple(text for number, text in enumerate(quiet) if number not in (first, first + 1))
        found.append(Pair(ordinary, quiet[first], quiet[first + 1], others))
    return found


def _record(lake: Path, seed: int) -> None:
    part = lake.with_name(f".{lake.name}-{os.getpid()}")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    system = system_of(seed)
    windows = [Scenario("quiet")] * QUIET
    for scenario in scenarios_of(system):
        windows += [scenario] * (scenario.requests // REQUESTS)
    files = []
    for at, scenario in enumerate(windows):
        files.append(part / f"{at:02}.jsonl")
        with files[-1].open("w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in Playing(system, scenario, at, begin_ns(at)).lines())
    import_into(
        part / "lake",
        [str(file) for file in files],
        ImportSettings(window_length_ns=WINDOW_NS),
        owner=f"evaluation-{os.getpid()}",
        created_by="evaluation",
        stdin=io.BytesIO(),
        progress=Quiet(),
    )
    (part / "lake").rename(lake)
    shutil.rmtree(part)


def begin_ns(window: int) -> int:
    """Give the start of a window."""
    return T0 + window * WINDOW_NS


def period(first: int, n: int) -> str:
    """Give n windows as an ISO range."""
    sides = (datetime.fromtimestamp(begin_ns(at) // NS_PER_SECOND, UTC) for at in (first, first + n))
    return "/".join(f"{side:%Y-%m-%dT%H:%M:%SZ}" for side in sides)
