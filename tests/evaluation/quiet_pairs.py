"""Pairs of simulated periods in which nothing happened: every finding is false.

Stations drift between runs and over minutes (AR(1)), load differs by 30 %, the sampling rate is halved. Runs
are shared between pairs, so pairs are not independent: a wild run shows in several. A workload's runs are
refined together once (activity records bring their own order, so that changes no graph), and each pair is
compared with the others of the workload's plain runs as history (mode a), and alone (mode b).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
from evaluation.recordings.comparing import Mode, Settings, chosen_of, tell
from evaluation.recordings.regroup import regroup
from evaluation.runs import Simulated, forget_runs, period_of

from analyze.population import Population, Sample
from analyze.refine.pipeline import refine
from analyze.refine.settings import RefineSettings

TRACED, SAMPLE = 6_000, 0.5
WORKLOADS = ("sfs97", "postmark-large", "linux-build")
FIRST_SEED = 950_000
"""Seeds that no trial uses, and that nothing was tuned on."""
PLAIN = ("N1-same", None)
CHANGED: dict[str, tuple[str, float | None]] = {
    "load +30 %": ("N2-load", 0.3),
    "load -30 %": ("N2-load", -0.3),
    "sampling halved": ("N3-sampling", 2.0),
}
"""Scenario -> (fault that is none, severity)."""
SAME = "same load"
MOST_HISTORY = 8
BASES = 3
"""Plain runs that a changed one is held against."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class QuietPair:
    """Two runs of a workload, by their place in `runs_of_workload`."""

    workload: str
    scenario: str
    reference: int
    problem: int


@dataclass(frozen=True, slots=True)
class Plan:
    """How many runs of a workload there are."""

    plain: int
    changed: int
    """Of each scenario."""

    @staticmethod
    def of(pairs: int) -> Plan:
        """The fewest runs that give `pairs` pairs over all workloads: half of them with the same load."""
        each = -(-pairs // len(WORKLOADS))
        plain = 2
        while plain * (plain - 1) // 2 < each - each // 2:
            plain += 1
        return Plan(max(plain, BASES), -(-(each // 2) // (len(CHANGED) * BASES)))


def runs_of_workload(workload: str, plan: Plan) -> list[Simulated]:
    """Plain runs first, then those of each scenario."""
    wanted = [PLAIN] * plan.plain + [fault for fault in CHANGED.values() for _ in range(plan.changed)]
    return [
        Simulated(workload, fault, severity, TRACED, SAMPLE, FIRST_SEED + at, with_truth=False)
        for at, (fault, severity) in enumerate(wanted)
    ]


def pairs_of_workload(workload: str, plan: Plan) -> list[QuietPair]:
    """All pairs of plain runs, and each changed run against BASES plain ones in turn."""
    found = [QuietPair(workload, SAME, i, j) for i, j in combinations(range(plan.plain), 2)]
    at = plan.plain
    for scenario in CHANGED:
        for _ in range(plan.changed):
            found += [QuietPair(workload, scenario, (at + n) % plan.plain, at) for n in range(BASES)]
            at += 1
    return found


@dataclass(frozen=True, slots=True)
class How:
    """By what pairs are compared."""

    methods: tuple[str, ...]
    modes: tuple[Mode, ...]
    settings: Settings
    """Of the methods, where they differ from the defaults."""


def perform_pairs(workload: str, plan: Plan, pairs: Sequence[QuietPair], how: How) -> list[Row]:
    """A row a pair, mode and method."""
    every = _population(workload, plan)
    rows = []
    for pair in pairs:
        asked = (pair.reference, pair.problem)
        two = regroup(every, [[asked[0]], [asked[1]]], ["reference", "problem"])
        others = [at for at in range(plan.plain) if at not in asked][:MOST_HISTORY]
        names = [every.samples[at].name for at in others]
        for mode in how.modes:
            history = regroup(every, [[at] for at in others], names) if mode == "a" and others else None
            for name in how.methods:
                told = tell(two, history, chosen_of(name, how.settings))
                rows.append(
                    {
                        "workload": workload,
                        "scenario": pair.scenario,
                        "pair": [every.samples[at].name for at in asked],
                        "method": name,
                        "mode": mode,
                        "results": told.total,
                        "outcome": told.outcome,
                        "exit_code": told.exit_code,
                        "titles": [result.text for result in told.results[:5]],
                    }
                )
    return rows


@lru_cache(maxsize=1)
def _population(workload: str, plan: Plan) -> Population:
    tables, structures, samples = [], [], []
    for number, run in enumerate(runs_of_workload(workload, plan)):
        period = period_of(run)
        marks = pa.array(np.full(period.flows.num_rows, number, dtype=np.uint8))
        tables.append(period.flows.append_column("sample", marks))
        structures.append(period.structures)
        samples.append(Sample(run.name, run.name, period.start_ns, period.end_ns))
    forget_runs()
    settings = RefineSettings(host_policy="full")
    flows = pa.concat_tables(tables).unify_dictionaries()
    return refine(flows, pa.concat_tables(structures), settings, tuple(samples))


def quiet_totals(rows: Iterable[Row]) -> list[Row]:
    """Results a pair by method, mode and scenario; the scenario `all` holds every pair."""
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        for scenario in (row["scenario"], "all"):
            groups.setdefault((row["method"], row["mode"], scenario), []).append(row)
    return [
        {
            "method": method,
            "mode": mode,
            "scenario": scenario,
            "pairs": len(group),
            "results_a_pair": round(sum(row["results"] for row in group) / len(group), 3),
            "with_any": sum(row["results"] > 0 for row in group),
            "not_exit_0": sum(row["exit_code"] != 0 for row in group),
        }
        for (method, mode, scenario), group in sorted(groups.items())
    ]
