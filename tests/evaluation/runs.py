"""Simulated runs, decoded and stitched, kept on disk: an evaluation after a change of the analyzer costs the
analysis only.

A kept run is found by all it depends on: what was simulated, how it was told, and the sources of simulator,
codecs and kernel. Runs of other sources are removed when the first of the present ones is kept.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from evaluation.store import fingerprint
from evaluation.truth import KnownRun, Truth, TruthSummary, run

from ingest.formats import codec_for
from schemas.config import DecodeConfig, StitchConfig
from schemas.events import concat_events
from schemas.windows import NS_PER_DAY
from simulator.faults import find_fault, plan_causes
from simulator.output import Run, RunFormat
from simulator.run import RunPlan
from stitch.kernel import stitch
from stitch.structures import StructureMemo

ROOT = Path(__file__).resolve().parents[2]
KEPT = Path(os.environ.get("SIMULATED_CACHE") or ROOT / "build" / "evaluation" / "runs")
"""A folder for each state of the sources."""
SOURCES = (
    *("simulator", "ingest/codecs", "tests/evaluation/truth.py"),
    *("stitch/columnar", "stitch/graph", "stitch/records", "stitch/spans", "stitch/kernel.py"),
    *("stitch/closing.py", "stitch/flow_rows.py", "stitch/structures.py"),
    *("schemas/config.py", "schemas/events.py", "schemas/lake.py"),
)
"""Folders and files that the bytes of a run depend on, and what is made of them."""

EPOCH_NS = 20_458 * NS_PER_DAY
"""2026-01-05; each window of a trial is a run on a day of its own."""
SEEDS_A_TRIAL = 1_000
CHUNKS_A_BATCH = 16
"""Chunks of lines that are decoded and stitched together: about 60 MB of text."""
TABLES = ("flows", "structures", "params")


@dataclass(frozen=True, slots=True)
class Simulated:
    """All that a run depends on."""

    workload: str
    fault: str
    severity: float | None
    traced: int
    """Requests that reach a trace, about."""
    sample: float
    seed: int
    told_as: RunFormat = RunFormat.NATIVE
    with_truth: bool = True

    @property
    def name(self) -> str:
        """Unique, usable as a folder's name."""
        severity = "" if self.severity is None else f"_x{self.severity:g}"
        truth = "" if self.with_truth else "_untold"
        return (
            f"{self.workload}_{self.fault}{severity}_n{self.traced}_p{self.sample:g}_s{self.seed}"
            f"_{self.told_as.value}{truth}"
        )


@dataclass(frozen=True, slots=True)
class Period:
    """One side of a comparison, stitched."""

    flows: pa.Table
    structures: pa.Table
    params: pa.Table
    truths: tuple[Truth, ...]
    start_ns: int
    end_ns: int
    """Half open."""
    ranges: tuple[tuple[int, int], ...] = ()
    """Of several runs: each."""


@lru_cache(maxsize=1)
def sources() -> str:
    """Fingerprint of what a run depends on."""
    return fingerprint(ROOT, SOURCES)


@lru_cache(maxsize=4)
def period_of(wanted: Simulated) -> Period:
    """A period of one run, through the real codec and kernel; read where it is kept, else made and kept."""
    make_run(wanted)
    return _read(_folder(wanted), wanted.with_truth)


def is_kept(wanted: Simulated) -> bool:
    """Whether the run is on disk, of the present sources."""
    return _folder(wanted).is_dir()


def make_run(wanted: Simulated) -> str:
    """Make and keep a run that is not there yet; its name."""
    if not is_kept(wanted):
        _keep(_made(wanted), _folder(wanted))
    return wanted.name


def _folder(wanted: Simulated) -> Path:
    return KEPT / sources() / wanted.name


def forget_runs() -> None:
    """Give back the memory of the runs that were read."""
    period_of.cache_clear()
    _simulated.cache_clear()


def joined(periods: Sequence[Period]) -> Period:
    """Several runs as one period of as many ranges."""
    if len(periods) == 1:
        return periods[0]
    flows, structures, params = (pa.concat_tables([getattr(p, name) for p in periods]) for name in TABLES)
    return Period(
        flows,
        structures,
        params,
        tuple(t for p in periods for t in p.truths),
        min(p.start_ns for p in periods),
        max(p.end_ns for p in periods),
        tuple(sorted((p.start_ns, p.end_ns) for p in periods)),
    )


@lru_cache(maxsize=2)
def _simulated(
    workload: str, fault: str, severity: float | None, traced: int, sample: float, seed: int, with_truth: bool
) -> KnownRun:
    """A run; the last two are kept for the other format."""
    causes = tuple(plan_causes([(find_fault(fault), severity, 0.0)]))
    plan = RunPlan(workload, round(traced / sample), seed, sample, causes)
    return run(plan, EPOCH_NS + seed % SEEDS_A_TRIAL * NS_PER_DAY, with_truth=with_truth)


def _made(wanted: Simulated) -> Period:
    source = _simulated(
        wanted.workload,
        wanted.fault,
        wanted.severity,
        wanted.traced,
        wanted.sample,
        wanted.seed,
        wanted.with_truth,
    )
    start_ns = source.recording.start_ns
    # The last request may end later than the last one begins; a period holds what begins in it.
    end_ns = start_ns + round(max(t.end_ns for t in source.traces)) + 1
    truths = () if source.truth is None else (source.truth,)
    return Period(*stitch_lines(source, wanted.told_as), truths, start_ns, end_ns)


def stitch_lines(source: Run, told_as: RunFormat) -> tuple[pa.Table, pa.Table, pa.Table]:
    """A run told in bytes, decoded and stitched: flows, structures and params."""
    memo = StructureMemo()
    parts: dict[str, list[pa.Table]] = {name: [] for name in TABLES}
    batch: list[pa.Table] = []

    def flush() -> None:
        # Chunks hold whole requests, so a batch of them is closed by itself.
        made = stitch(concat_events(batch), StitchConfig(), memo=memo)
        for name in TABLES:
            parts[name].append(getattr(made, name))
        batch.clear()

    for chunk in source.lines(told_as):
        payloads = [chunk] if told_as is RunFormat.NATIVE else chunk.splitlines()
        batch.append(codec_for(told_as.value).decode(payloads, DecodeConfig()).events)
        if len(batch) == CHUNKS_A_BATCH:
            flush()
    if batch:
        flush()
    flows, structures, params = (pa.concat_tables(parts[name]) for name in TABLES)
    return flows, structures, params


def _keep(period: Period, folder: Path) -> None:
    """Write a run; its folder is whole or not there. Another process may have kept it meanwhile."""
    if not folder.parent.is_dir():
        for older in KEPT.glob("*"):
            shutil.rmtree(older)
    part = folder.with_name(f".{folder.name}-{os.getpid()}")
    part.mkdir(parents=True)
    for name in TABLES:
        table = getattr(period, name).unify_dictionaries()
        pq.write_table(table, part / f"{name}.parquet", compression="zstd")
    (part / "times").write_text(f"{period.start_ns} {period.end_ns}", encoding="utf-8")
    for truth in period.truths:
        truth.write(part / "truth.json")
    try:
        part.rename(folder)
    except OSError:
        shutil.rmtree(part)
        if not folder.is_dir():
            raise


def _read(folder: Path, with_truth: bool) -> Period:
    start_ns, end_ns = map(int, (folder / "times").read_text(encoding="utf-8").split())
    truths: tuple[Truth, ...] = ()
    if with_truth:
        summary = TruthSummary.model_validate_json((folder / "truth.json").read_bytes())
        truths = (Truth(summary, pq.read_table(folder / "truth.parquet")),)
    flows, structures, params = (pq.read_table(folder / f"{name}.parquet") for name in TABLES)
    return Period(flows, structures, params, truths, start_ns, end_ns)
