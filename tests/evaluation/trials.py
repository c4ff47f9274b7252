"""One trial: simulate, tell, decode, stitch, refine, analyse by every mode, score. Pure but for run times."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from evaluation.cases import CREATES, Case, case_of
from evaluation.edges import EdgeMatcher
from evaluation.modes import MODES, Mode, Subject
from evaluation.reference_modes import cheat
from evaluation.scoring import Evidence, gather, score
from evaluation.truths import RULES, RequestTruth, cause_edges, path_facts, request_truth

from analyze.population import Population
from analyze.refine.pipeline import refine
from analyze.refine.settings import RefineSettings
from ingest.formats import codec_for
from ingest.simulate.faults import find_fault, plan_causes
from ingest.simulate.output import Format, Run, run
from ingest.simulate.run import RunPlan
from ingest.simulate.truth import Truth
from schemas.config import DecodeConfig, StitchConfig
from schemas.events import concat_events
from schemas.windows import NS_PER_DAY
from stitch.kernel import stitch
from stitch.structures import StructureMemo

EPOCH_NS = 20_458 * NS_PER_DAY
"""2026-01-05; each window of a trial is a run on a day of its own."""
PROBLEM_SEED, SEEDS_A_TRIAL = 500, 1_000
"""Trial s simulates its reference windows with seeds 1000·s, 1000·s + 1, …, its problem with 1000·s + 500."""
CHUNKS_A_BATCH = 16
"""Chunks of lines that are decoded and stitched together: about 60 MB of text."""
CEILING = "ceiling"
"""Mode name of the cheating reference in the rows."""


@dataclass(frozen=True, slots=True)
class Trial:
    """All that a trial depends on."""

    case: str
    seed: int
    traced: int
    """Requests of each run that reach a trace, about."""
    sample: float
    told_as: Format = Format.NATIVE
    windows: int = 1
    """Reference windows."""

    @property
    def name(self) -> str:
        """Unique, usable as a file name."""
        case = self.case.replace("/", "")
        share = f"{self.sample:g}"
        return f"{case}_{self.told_as.value}_n{self.traced}_p{share}_w{self.windows}_s{self.seed}"

    @property
    def runs(self) -> tuple[object, ...]:
        """Trials with equal ones share simulated runs, so they are best done by one process in a row."""
        case = case_of(self.case)
        return (case.workload, self.traced, self.sample, self.seed, case.simulation or case.key)


@dataclass(frozen=True, slots=True)
class Period:
    """One side of the comparison, stitched."""

    flows: pa.Table
    structures: pa.Table
    truths: list[Truth]


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything that modes and scores need."""

    case: Case
    subject: Subject
    evidence: Evidence
    truths1: list[Truth]
    n_creates: int


@lru_cache(maxsize=4)
def simulated(
    workload: str, fault: str, severity: float | None, traced: int, sample: float, seed: int
) -> Run:
    """A run with truth; the last few are kept for the trials that share them."""
    causes = tuple(plan_causes([(find_fault(fault), severity, 0.0)]))
    day = seed % SEEDS_A_TRIAL
    plan = RunPlan(workload, round(traced / sample), seed, sample, causes)
    return run(plan, EPOCH_NS + day * NS_PER_DAY, with_truth=True)


@lru_cache(maxsize=4)
def stitched(
    workload: str, fault: str, severity: float | None, traced: int, sample: float, seed: int, told_as: Format
) -> Period:
    """A period of one run, through the real codec and kernel."""
    source = simulated(workload, fault, severity, traced, sample, seed)
    assert source.truth is not None, "the harness always asks for it"
    return Period(*stitch_lines(source, told_as), [source.truth])


def forget_runs() -> None:
    """Give back the memory of the runs that were kept."""
    simulated.cache_clear()
    stitched.cache_clear()


def stitch_lines(source: Run, told_as: Format) -> tuple[pa.Table, pa.Table]:
    """A run told in bytes, decoded and stitched: flows and structures."""
    memo = StructureMemo()
    flows: list[pa.Table] = []
    structures: list[pa.Table] = []
    batch: list[pa.Table] = []

    def flush() -> None:
        # Chunks hold whole requests, so a batch of them is closed by itself.
        made = stitch(concat_events(batch), StitchConfig(), memo=memo)
        flows.append(made.flows)
        structures.append(made.structures)
        batch.clear()

    for chunk in source.lines(told_as):
        payloads = [chunk] if told_as is Format.NATIVE else chunk.splitlines()
        batch.append(codec_for(told_as.value).decode(payloads, DecodeConfig()).events)
        if len(batch) == CHUNKS_A_BATCH:
            flush()
    if batch:
        flush()
    return pa.concat_tables(flows), pa.concat_tables(structures)


def _joined(periods: Sequence[Period]) -> Period:
    return Period(
        pa.concat_tables([p.flows for p in periods]),
        pa.concat_tables([p.structures for p in periods]),
        [t for p in periods for t in p.truths],
    )


def prepare(trial: Trial) -> Prepared:
    """Both periods of a trial, refined, with their truth."""
    case = case_of(trial.case)
    first = trial.seed * SEEDS_A_TRIAL
    size = (trial.traced, trial.sample)
    problem = stitched(case.workload, case.fault, case.severity, *size, first + PROBLEM_SEED, trial.told_as)
    if case.split == "creates":
        reference = problem
    else:
        quiet = ("N1-same", None) if case.base_severity is None else (case.fault, case.base_severity)
        reference = _joined(
            [stitched(case.workload, *quiet, *size, first + w, trial.told_as) for w in range(trial.windows)]
        )
    facts = path_facts([*reference.truths, *problem.truths])
    truth0 = request_truth(reference.truths, trial.told_as, facts)
    truth1 = request_truth(problem.truths, trial.told_as, facts)
    n_creates = 0
    if case.split == "creates":
        n_creates, truth0, truth1 = _first_and_last_creates(truth1)
    population = _population(case, reference, problem, truth0, truth1)
    matcher = EdgeMatcher(
        [edge for t in problem.truths for edge in cause_edges(t)], zoomed=case.level == "L3"
    )
    evidence = gather(population, RULES[case.rule], truth0, truth1, matcher)
    return Prepared(case, Subject(population), evidence, problem.truths, n_creates)


def _first_and_last_creates(truth: RequestTruth) -> tuple[int, RequestTruth, RequestTruth]:
    creates = np.flatnonzero(truth.op == "CREATE")
    creates = creates[np.argsort(truth.start_ns[creates], kind="stable")]
    n = min(CREATES, len(creates) // 3)
    return n, truth.take(np.sort(creates[:n])), truth.take(np.sort(creates[len(creates) - n :]))


def _population(
    case: Case, reference: Period, problem: Period, truth0: RequestTruth, truth1: RequestTruth
) -> Population:
    tables = []
    for number, (period, truth) in enumerate(((reference, truth0), (problem, truth1))):
        flows = period.flows
        if case.split == "creates":
            flows = flows.filter(pc.is_in(flows["request_id"], value_set=truth.names))
        marks = pa.array(np.full(flows.num_rows, number, dtype=np.uint8))
        tables.append(flows.append_column("sample", marks))
    # The papers' node labels include the machine's name.
    settings = RefineSettings(host_policy="full", level=case.level)
    structures = pa.concat_tables([reference.structures, problem.structures])
    return refine(pa.concat_tables(tables).unify_dictionaries(), structures, settings)


def thresholds(case: Case, traced: int, n_creates: int) -> dict[str, int]:
    """Structural thresholds to try, by name: the papers' 10 and 50, and the row's own scaled to the size."""
    scale = n_creates / CREATES if case.split == "creates" else traced / case.paper_size
    return {"10": 10, "50": 50, "scaled": max(2, round(case.threshold * scale))}


def perform(trial: Trial, modes: Sequence[Mode] = MODES) -> dict[str, Any]:
    """The rows of a trial, JSON-ready: the truth's figures, the ceiling, and each mode at each threshold."""
    began = time.process_time()
    ready = prepare(trial)
    prepared_s = time.process_time() - began
    change = ready.truths1[0].summary.change
    split = ready.case.split == "creates"
    share_us = None if split else sum(c.share_ns for c in ready.truths1[0].summary.causes) / 1e3
    change_us = None if split else (change.mean_ns - change.base_mean_ns) / 1e3
    evidence, population = ready.evidence, ready.subject.population
    best = score(cheat(population, evidence), evidence, share_us, change_us)
    rows = [{"mode": CEILING, "sm": "scaled", "threshold": 0, "seconds": 0.0, **asdict(best)}]
    for mode in modes:
        known: dict[int, dict[str, Any]] = {}
        for label, wanted in thresholds(ready.case, trial.traced, ready.n_creates).items():
            threshold = wanted if mode.has_threshold else 0
            if threshold not in known:
                began = time.process_time()
                results = mode.analyse(ready.subject, threshold)
                seconds = time.process_time() - began
                scores = score(results, evidence, share_us, change_us)
                known[threshold] = {"seconds": round(seconds, 3), **asdict(scores)}
            rows.append({"mode": mode.name, "sm": label, "threshold": threshold, **known[threshold]})
    return {
        "trial": trial.name,
        **asdict(trial),
        "rule": ready.case.rule,
        "traced_problem": len(evidence.concerned),
        "concerned": int(evidence.concerned.sum()),
        "categories": len(population.categories),
        "categories_relevant": best.results,
        "excluded": {k: list(v) for k, v in population.excluded.items()},
        "true_change_us": change_us,
        "true_share_us": share_us,
        "prepare_seconds": round(prepared_s, 3),
        "rows": rows,
    }
