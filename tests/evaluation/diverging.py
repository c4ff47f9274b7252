"""How often DISTALYZER's first component holds what was injected: simulated back-offs, labelled recordings.

    PYTHONPATH=tests python -m evaluation.diverging --seeds 10
    PYTHONPATH=tests python -m evaluation.diverging --recordings DIR [--lakes DIR]
    PYTHONPATH=tests python -m evaluation.diverging --splits 100 [--recordings DIR]

--splits: A/A instead, requests dealt at random into two classes, so that whatever is shown is false: so many
made cases of each size, and the quiet stretches of the recordings until there are as many of them.

The lakes of the recordings are made where they are missing; DIR may hold imported ones, `<recording>.lake`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from evaluation.recordings.kept_lakes import lake_of
from evaluation.recordings.labelled import Fault, Recording, read_recordings
from oracles.hbase import hbase, split_at_random

from analyze.load import load_population
from analyze.methods.distalyze.distalyze_run import DistalyzeRun, distalyze_run
from analyze.methods.distalyze.settings import DistalyzeSettings
from analyze.population import NO_FAILURES, Population
from analyze.refine.settings import RefineSettings
from analyze.scope import resolve
from flowdiff.samples import find_samples
from schemas.periods import parse_period
from schemas.report.networks import NetworkComponent

ROOT = Path(__file__).resolve().parents[2]
LOOKUPS = ("SN_READ_CALL", "READ_FORK")
"""What the simulated client does right after the back-off."""
TYPES = ("network_delay", "cpu_contention")


def stale_case(seed: int, requests: int, folder: Path) -> DistalyzeRun:
    """Fault F10 on SFS97: 1 % of the reads that go to a storage node wait for a second before they ask."""
    lines, lake = folder / f"{seed}.ndjson.gz", folder / f"{seed}.lake"
    told = ("--workload", "sfs97", "--fault", "F10", "--requests", str(requests), "--seed", str(seed))
    for command in (
        ("simulate", *told, "--workers", "1", "--out", str(lines)),
        ("import", str(lines), "--lake", str(lake)),
    ):
        subprocess.run([sys.executable, "-m", "flowdiff", *command], check=True, capture_output=True)
    period = resolve(parse_period("2026-01-05/1d", now_ns=0), default_lake=str(lake))
    population = load_population([("all", period)], RefineSettings()).population
    return distalyze_run(population, DistalyzeSettings(root=("nfs/READ_CALL",)))


def first_of(run: DistalyzeRun, log_type: str | None = None) -> NetworkComponent | None:
    """The first component, of all or of one log."""
    return next((row for row in run.components if log_type in (None, row.log_type)), None)


def begins_with(row: NetworkComponent | None) -> str:
    """The variable that its chain begins with; empty without one."""
    return "" if row is None or not row.chain else row.variables[row.chain[-1]].text


def holds(row: NetworkComponent | None, words: tuple[str, ...], *, named: bool = True) -> bool:
    """Whether a shown variable that diverges is at a place; named: in its text, else by component."""
    return row is not None and any(
        v.divergence > 0 and any(word in (v.text if named else v.component) for word in words)
        for v in row.variables
    )


def simulated(seeds: int, requests: int) -> Iterator[str]:
    """A line a seed, and the total."""
    hits = began = 0
    with tempfile.TemporaryDirectory() as name:
        for seed in range(seeds):
            run = stale_case(seed, requests, Path(name))
            row = first_of(run, "event")
            hit, start = holds(row, LOOKUPS), any(word in begins_with(row) for word in LOOKUPS)
            hits, began = hits + hit, began + start
            told = "in" if hit else "NOT in"
            yield f"seed {seed}: {told} the top event component; it begins with {begins_with(row)}"
    yield f"lookup in the top event component {hits} of {seeds}, begins the chain {began} of {seeds}"


def compared(recording: Recording, lake: Path, fault: Fault) -> Population:
    """Problem against reference, or against the quiet stretches where there is none."""
    reference = recording.history(fault.problem) if fault.reference is None else [fault.reference]
    texts = {"reference": reference, "problem": [fault.problem]}
    found = find_samples(texts, (), now_ns=0, lake=str(lake))
    return load_population(found.compared, RefineSettings()).population


def recorded(folder: Path, lakes: Path | None, types: tuple[str, ...]) -> Iterator[str]:
    """A line a fault, and totals a recording."""
    for recording in read_recordings(folder):
        lake = lake_of(recording, ROOT) if lakes is None else lakes / f"{recording.name}.lake"
        counts = dict.fromkeys(("faults", "of the service", "at the service", "begins there"), 0)
        shares: list[float] = []
        for fault in (fault for fault in recording.faults if fault.type in types):
            run = distalyze_run(compared(recording, lake, fault), DistalyzeSettings())
            row, service = first_of(run), (fault.service,)
            start = begins_with(row)
            counts["faults"] += 1
            counts["of the service"] += holds(row, service, named=False)
            counts["at the service"] += holds(row, service)
            counts["begins there"] += fault.service in start
            named = set() if row is None else {v.component for v in row.variables if v.divergence > 0}
            everyone = {n.component for one in run.tested for log in one.logs for n in log.tests.names}
            shares.append(len(named) / max(len(everyone), 1))
            hit = "at" if holds(row, service) else "MISSED"
            yield f"{fault.id} ({fault.visible}): {hit}; begins with {start or 'nothing'}"
        told = ", ".join(f"{name} {n}" for name, n in counts.items())
        mean = sum(shares) / max(len(shares), 1)
        yield f"{recording.name}: {told}; a first component names {mean:.0%} of the components"


def made_splits(splits: int) -> Iterator[str]:
    """A line a size of classes."""
    for n, part in ((2_000, 0.5), (1_000, 0.05), (120, 0.5), (200, 0.1)):
        shown = [
            bool(distalyze_run(split_at_random(hbase(seed, n), seed, part), DistalyzeSettings()).components)
            for seed in range(splits)
        ]
        yield f"made, {n} requests, {part:.0%} in one class: {sum(shown)} of {splits} show a component"


def dealt(twice: Population, rng: np.random.Generator) -> Population:
    """Each request in one of two samples, of a population that has all of them in both."""
    categories = []
    for one in twice.categories:
        here, there = (np.arange(one.n_requests)[one.rows(sample)] for sample in (0, 1))
        if not one.request_id.take(here).equals(one.request_id.take(there)):
            raise ValueError("the samples are not the same requests")
        coin = rng.random(len(here)) < 0.5
        rows = np.concatenate([here[~coin], there[coin]])
        kept = replace(
            one,
            node_ns=np.ascontiguousarray(one.node_ns[:, rows]),
            response_ns=one.response_ns[rows],
            start_ns=one.start_ns[rows],
            weight=one.weight[rows],
            sample=one.sample[rows],
            status=one.status[rows],
            request_id=one.request_id.take(rows),
            host=None if one.host is None else one.host[:, rows],
            failures=NO_FAILURES,
            origin=None if one.origin is None else one.origin[rows],
        )
        categories.append(kept)
    return replace(twice, categories=tuple(categories))


def recorded_splits(folder: Path, lakes: Path | None, splits: int) -> Iterator[str]:
    """A line a recording: its quiet stretches in turn, each dealt anew, until there are enough."""
    for recording in read_recordings(folder):
        lake = lake_of(recording, ROOT) if lakes is None else lakes / f"{recording.name}.lake"
        shown = tested = 0
        for place, stretch in enumerate(recording.quiet):
            period = resolve(parse_period(stretch, now_ns=0), default_lake=str(lake))
            both = [("reference", period), ("problem", period)]
            twice = load_population(both, RefineSettings()).population
            for seed in range(place, splits, len(recording.quiet)):
                run = distalyze_run(dealt(twice, np.random.default_rng(seed)), DistalyzeSettings())
                shown += bool(run.components)
                tested += bool(run.features)
        yield f"{recording.name}, quiet: {shown} of {splits} show a component ({tested} had enough requests)"


def main() -> None:
    """Print the lines that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=0)
    parser.add_argument("--splits", type=int, default=0)
    parser.add_argument("--requests", type=int, default=8_000)
    parser.add_argument("--recordings", type=Path)
    parser.add_argument("--lakes", type=Path)
    parser.add_argument("--types", nargs="*", default=list(TYPES))
    asked = parser.parse_args()
    if asked.seeds:
        for line in simulated(asked.seeds, asked.requests):
            print(line, flush=True)
    if asked.splits:
        for line in made_splits(asked.splits):
            print(line, flush=True)
    if asked.recordings and asked.splits:
        for line in recorded_splits(asked.recordings, asked.lakes, asked.splits):
            print(line, flush=True)
    elif asked.recordings:
        for line in recorded(asked.recordings, asked.lakes, tuple(asked.types)):
            print(line, flush=True)


if __name__ == "__main__":
    main()
