"""Properties of simulated runs that hold for any seed, fault and severity."""

from __future__ import annotations

import random

import numpy as np
import pytest
from evaluation.truth import run, signature
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from oracles.examples import examples

from simulator.faults import FAULTS, TRACING_ONLY, plan_causes
from simulator.run import RunPlan
from simulator.trace import STRAND_BREAK, RawStructure, decode

START_NS = 1_767_571_200_000_000_000
SIMULATED = [f for f in FAULTS.values() if f.parts and f.parts[0][0] not in TRACING_ONLY]
LIGHT = examples(8, suppress_health_check=[HealthCheck.too_slow])


@LIGHT
@given(
    st.sampled_from(SIMULATED),
    st.integers(0, 2**40),
    st.floats(0.0, 2.0),
    st.sampled_from(["linux-build", "ursa-minor-build", "iozone"]),
)
def test_the_change_is_decomposed_exactly(fault, seed: int, scale: float, workload: str) -> None:
    severity = min(fault.severity * scale, 1.0 if fault.severity <= 1.0 else np.inf)
    causes = tuple(plan_causes([(fault, severity, 0.0)]))
    truth = run(RunPlan(workload, 300, seed, 1.0, causes), START_NS, with_truth=True).truth
    assert truth is not None
    change = truth.summary.change
    total = change.mean_ns - change.base_mean_ns
    parts = change.affected_ns + change.knock_on_ns + change.rest_ns + change.mix_ns
    assert parts == pytest.approx(total, rel=1e-9, abs=1e-3)
    assert sum(c.share_ns for c in truth.summary.causes) == pytest.approx(total, rel=1e-9, abs=1e-3)
    paired = truth.requests["base_response_ns"].drop_null()
    assert len(paired) <= change.n_base
    assert sum(p.n for p in truth.summary.paths) == truth.requests.num_rows
    assert sum(p.n_base for p in truth.summary.paths) == change.n_base


@LIGHT
@given(st.integers(0, 2**40), st.randoms(use_true_random=False))
def test_signature_ignores_the_order_of_parallel_strands(seed: int, shuffle: random.Random) -> None:
    result = run(RunPlan("sfs97", 350, seed, 1.0), START_NS, with_truth=False)
    forked = [raw for trace in result.traces for raw in trace.structures if STRAND_BREAK in raw]
    for raw in forked[:40]:
        assert signature(decode(_permuted(raw, shuffle)), True) == signature(decode(raw), True)


def _permuted(raw: RawStructure, shuffle: random.Random) -> RawStructure:
    """The same structure with the strands of every join in another order."""
    structure = decode(raw)
    strands: list[list[int]] = [[]]
    for item in raw:
        if item == STRAND_BREAK:
            strands.append([])
        else:
            strands[-1].append(item)
    for strand in structure.strands:
        for step in strand:
            if len(step.strands) > 1:
                order = list(step.strands)
                shuffle.shuffle(order)
                bodies = [strands[i] for i in order]
                for place, body in zip(step.strands, bodies, strict=True):
                    strands[place] = body
    flat: list[int] = []
    for number, strand in enumerate(strands):
        flat += ([STRAND_BREAK] if number else []) + strand
    return tuple(flat)


@LIGHT
@given(st.integers(0, 2**40))
def test_same_seed_same_run_other_seed_other_run(seed: int) -> None:
    one, again, other = (
        run(RunPlan("linux-build", 200, s, 1.0), START_NS, with_truth=False).traces[0]
        for s in (seed, seed, seed + 1)
    )
    assert one.time_ns.tobytes() == again.time_ns.tobytes()
    assert one.structures == again.structures
    assert one.time_ns.tobytes() != other.time_ns.tobytes()
