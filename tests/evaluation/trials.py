"""One trial: simulate, tell, decode, stitch, refine, analyse by every mode, score. Pure but for run times."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from evaluation.cases import CREATES, Case, case_of
from evaluation.causes import cause_sites
from evaluation.drift import drift_us
from evaluation.edges import EdgeMatcher
from evaluation.modes import ROBUST, Mode, Subject, modes
from evaluation.reference_modes import cheat
from evaluation.runs import SEEDS_A_TRIAL, Period, Simulated, joined, period_of
from evaluation.scoring import Evidence, gather, score
from evaluation.truth import Truth
from evaluation.truths import RULES, RequestTruth, cause_edges, path_facts, request_truth

from analyze.population import PARAMS_AS_TEXT, Population, Sample
from analyze.refine.pipeline import refine
from analyze.refine.settings import RefineSettings
from simulator.output import RunFormat

PROBLEM_SEED = 500
"""Trial s simulates its reference windows with seeds 1000·s, 1000·s + 1, …, its problem with 1000·s + 500."""
NOTHING = "nothing"
"""Rule of cases in which no result is right."""
TITLES = 5
"""Findings whose titles are kept with a row."""
FLOORED = ("10", "scaled")
"""Thresholds of which floors are kept."""
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
    told_as: RunFormat = RunFormat.NATIVE
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
class Prepared:
    """Everything that modes and scores need."""

    case: Case
    subject: Subject
    evidence: Evidence
    truths1: Sequence[Truth]
    n_creates: int
    without_fault: Callable[[], Population] | None = None
    """Makes the problem's run as it would have been, one sample; None where there is no such run."""


def prepare(trial: Trial) -> Prepared:
    """Both periods of a trial, refined, with their truth."""
    case = case_of(trial.case)
    quiet, broken = _periods(trial)
    problem = period_of(broken)
    reference = joined([period_of(run) for run in quiet]) if quiet else problem
    facts = path_facts([*reference.truths, *problem.truths])
    truth0 = request_truth(reference.truths, trial.told_as, facts)
    truth1 = request_truth(problem.truths, trial.told_as, facts)
    n_creates = 0
    if case.split == "creates":
        n_creates, truth0, truth1 = _first_and_last_creates(truth1)
    population = _population(case, reference, problem, truth0, truth1)
    zoomed = case.level == "L3"
    matcher = EdgeMatcher([edge for t in problem.truths for edge in cause_edges(t)], zoomed=zoomed)
    injected = [] if case.rule == NOTHING else [c for t in problem.truths for c in t.summary.causes]
    causes = cause_sites([(c.mechanism, EdgeMatcher(c.edges, zoomed=zoomed)) for c in injected])
    evidence = gather(population, RULES[case.rule], truth0, truth1, matcher, causes)
    without = partial(_without_fault, trial) if injected and case.split == "runs" else None
    return Prepared(case, Subject(population), evidence, problem.truths, n_creates, without)


def _without_fault(trial: Trial) -> Population:
    case = case_of(trial.case)
    period = period_of(_counterfactual(trial))
    marks = pa.array(np.zeros(period.flows.num_rows, dtype=np.uint8))
    sample = Sample("quiet", "", period.start_ns, period.end_ns)
    settings = RefineSettings(host_policy="full", level=case.level)
    return refine(period.flows.append_column("sample", marks), period.structures, settings, (sample,))


def _counterfactual(trial: Trial) -> Simulated:
    """The problem's run without its fault, on the same random numbers."""
    return _run(trial, *_before(case_of(trial.case)), trial.seed * SEEDS_A_TRIAL + PROBLEM_SEED)


def _before(case: Case) -> tuple[str, float | None]:
    """Fault and severity of runs before the change."""
    return ("N1-same", None) if case.base_severity is None else (case.fault, case.base_severity)


def _run(trial: Trial, fault: str, severity: float | None, seed: int) -> Simulated:
    workload = case_of(trial.case).workload
    return Simulated(workload, fault, severity, trial.traced, trial.sample, seed, trial.told_as)


def runs_of(trial: Trial) -> list[Simulated]:
    """The runs that a trial needs, for who wants to have them made before."""
    case = case_of(trial.case)
    first = trial.seed * SEEDS_A_TRIAL
    problem = _run(trial, case.fault, case.severity, first + PROBLEM_SEED)
    if case.split == "creates":
        return [problem]
    without = [] if case.rule == NOTHING else [_counterfactual(trial)]
    return [*(_run(trial, *_before(case), first + w) for w in range(trial.windows)), *without, problem]


def _periods(trial: Trial) -> tuple[list[Simulated], Simulated]:
    """Runs of the reference and the problem."""
    *quiet, broken = runs_of(trial)
    return [run for run in quiet if run != _counterfactual(trial)], broken


def _first_and_last_creates(truth: RequestTruth) -> tuple[int, RequestTruth, RequestTruth]:
    creates = np.flatnonzero(truth.op == "CREATE")
    creates = creates[np.argsort(truth.start_ns[creates], kind="stable")]
    n = min(CREATES, len(creates) // 3)
    return n, truth.take(np.sort(creates[:n])), truth.take(np.sort(creates[len(creates) - n :]))


def _population(
    case: Case, reference: Period, problem: Period, truth0: RequestTruth, truth1: RequestTruth
) -> Population:
    tables = []
    samples = []
    for number, (name, period, truth) in enumerate(
        (("reference", reference, truth0), ("problem", problem, truth1))
    ):
        flows, bounds = period.flows, (period.start_ns, period.end_ns)
        if case.split == "creates":
            flows = flows.filter(pc.is_in(flows["request_id"], value_set=truth.names))
            bounds = (int(truth.start_ns.min()), int(truth.start_ns.max()) + 1)
        marks = pa.array(np.full(flows.num_rows, number, dtype=np.uint8))
        tables.append(flows.append_column("sample", marks))
        samples.append(Sample(name, case.fault if number else "", *bounds, ranges=period.ranges))
    # The papers' node labels include the machine's name.
    settings = RefineSettings(host_policy="full", level=case.level)
    structures = pa.concat_tables([reference.structures, problem.structures])
    refined = refine(pa.concat_tables(tables).unify_dictionaries(), structures, settings, tuple(samples))
    return replace(refined, params=ParamsOf((reference.params, problem.params)))


@dataclass(frozen=True, slots=True)
class ParamsOf:
    """`ReadParams` of periods that are in memory."""

    tables: tuple[pa.Table, ...]

    def __call__(
        self,
        sample: int,
        /,
        *,
        keys: Sequence[str] | None = None,
        requests: pa.Array | None = None,
        as_codes: bool = False,
    ) -> pa.Table:
        """See `ReadParams`."""
        del as_codes
        found = self.tables[sample]
        for name, wanted in (
            ("key", None if keys is None else pa.array(keys, pa.string())),
            ("request_id", requests),
        ):
            if wanted is not None:
                found = found.filter(pc.is_in(found[name].cast(pa.string()), value_set=wanted))
        return found.select(PARAMS_AS_TEXT.names).cast(PARAMS_AS_TEXT)


def thresholds(case: Case, traced: int, n_creates: int) -> dict[str, int]:
    """Structural thresholds to try, by name: the papers' 10 and 50, and the row's own scaled to the size."""
    scale = n_creates / CREATES if case.split == "creates" else traced / case.paper_size
    return {"10": 10, "50": 50, "scaled": max(2, round(case.threshold * scale))}


def _drift(ready: Prepared, mode: Mode) -> Sequence[float] | None:
    if mode.name != ROBUST or ready.without_fault is None:
        return None
    return drift_us(ready.subject.population, ready.without_fault())


def _true_us(trial: Trial, ready: Prepared) -> tuple[float, float]:
    """(what the causes did to the mean, change of the mean), us: against what the reference is without them.

    Where the reference has the fault at another severity, less what it does there.
    """
    summaries = [ready.truths1[0].summary]
    if ready.case.base_severity is not None:
        summaries.append(period_of(_counterfactual(trial)).truths[0].summary)
    shares = [sum(cause.share_ns for cause in summary.causes) for summary in summaries]
    changes = [summary.change.mean_ns - summary.change.base_mean_ns for summary in summaries]
    share, change = ((first - sum(rest)) / 1e3 for first, *rest in (shares, changes))
    return share, change


def perform(trial: Trial, chosen: Sequence[Mode] | None = None, *, brief: bool = False) -> dict[str, Any]:
    """The rows of a trial, JSON-ready: the truth's figures, the ceiling, and each mode at each threshold.

    brief: what floors look at, half of the work: without the threshold 50, and shares with what drifted.
    """
    began = time.process_time()
    ready = prepare(trial)
    prepared_s = time.process_time() - began
    change = ready.truths1[0].summary.change
    split = ready.case.split == "creates"
    share_us, change_us = (None, None) if split else _true_us(trial, ready)
    evidence, population = ready.evidence, ready.subject.population
    best = score(cheat(population, evidence), evidence, share_us, change_us)
    rows = [{"mode": CEILING, "sm": "scaled", "threshold": 0, "seconds": 0.0, **asdict(best)}]
    for mode in modes() if chosen is None else chosen:
        known: dict[int, dict[str, Any]] = {}
        for label, wanted in thresholds(ready.case, trial.traced, ready.n_creates).items():
            if brief and label not in FLOORED:
                continue
            threshold = wanted if mode.has_threshold else 0
            if threshold not in known:
                began = time.process_time()
                shown = mode.analyse(ready.subject, threshold)
                seconds = time.process_time() - began
                moved = _drift(ready, mode) if shown.results and not brief else None
                scores = score(
                    shown.results,
                    evidence,
                    share_us,
                    change_us,
                    drift_us=moved,
                    base_mean_us=change.base_mean_ns / 1e3,
                )
                known[threshold] = {
                    "seconds": round(seconds, 3),
                    "outcome": shown.outcome,
                    "exit_code": shown.exit_code,
                    "external": shown.external,
                    **asdict(scores),
                    "titles": [r.finding.title for r in shown.results[:TITLES] if r.finding is not None],
                }
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
