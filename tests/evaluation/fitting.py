"""The simulator at the papers' size against NSDI Table 1 and Figure 6, counted twice."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa
from evaluation.cases import PAPER_SIZE
from evaluation.paper_figures import PAPER, fit
from evaluation.runs import EPOCH_NS, stitch_lines

from analyze.refine.pipeline import refine
from analyze.refine.settings import RefineSettings
from simulator.output import RunFormat, run
from simulator.run import RunPlan

FITTED = tuple(PAPER)
"""Workloads with published figures."""
SAMPLE = 0.1


def measure_fit(workload: str, seed: int) -> dict[str, Any]:
    """Figures by the simulator's own signatures, and the number of categories that the analyzer sees."""
    began = time.process_time()
    plan = RunPlan(workload, round(PAPER_SIZE[workload] / SAMPLE), seed, SAMPLE)
    source = run(plan, EPOCH_NS)
    simulated_s = time.process_time() - began
    flows, structures, _ = stitch_lines(source, RunFormat.NATIVE)
    flows = flows.append_column("sample", pa.array(np.zeros(flows.num_rows, dtype=np.uint8)))
    settings = RefineSettings(host_policy="full", keep_deferred=True)
    population = refine(flows.unify_dictionaries(), structures, settings)
    return {
        "workload": workload,
        "seed": seed,
        "simulated": plan.n_requests,
        "simulate_seconds": round(simulated_s, 1),
        "measured": asdict(fit(source.traces)),
        "paper": asdict(PAPER[workload]),
        "kernel_categories": len(population.categories),
    }
