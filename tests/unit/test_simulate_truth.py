"""The simulator's truth is exact: common random numbers, the affected set, shares that add up."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, permutations
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from evaluation.truth import KnownRun as Run
from evaluation.truth import TruthSummary, facts, run, shapley

from schemas.errors import ConfigError
from simulator.faults import FAULTS, TRACING_ONLY, FaultMechanism, find_fault, plan_causes
from simulator.output import RunFormat
from simulator.run import RunPlan, simulate
from simulator.trace import decode
from simulator.workloads import SUB_BITS

START_NS = 1_767_571_200_000_000_000
N = {"sfs97": 1_050, "linux-build": 1_500, "postmark-large": 800, "iozone": 1_000, "ursa-minor-build": 1_500}


def _run(
    *faults: str,
    severity: float | None = None,
    start_s: float = 0.0,
    workload: str = "linux-build",
    **changes: int,
) -> Run:
    causes = tuple(plan_causes([(find_fault(f), severity, start_s) for f in faults]))
    plan = replace(RunPlan(workload, N[workload], 5, 1.0, causes), **changes)
    return run(plan, START_NS, with_truth=True)


SIMULATED = [f for f in FAULTS.values() if f.parts and f.parts[0][0] not in TRACING_ONLY]


@pytest.mark.parametrize("fault", SIMULATED, ids=lambda f: f.name)
def test_severity_zero_is_no_fault(fault) -> None:
    workload = "linux-build"
    still = tuple(
        replace(cause, injection=replace(cause.injection, severity=0.0))
        for cause in plan_causes([(fault, None, 0.0)])
    )
    plan = RunPlan(workload, 600, 3, 1.0, still)
    result = run(plan, START_NS, with_truth=True)
    assert result.truth is not None
    if fault.name != "F5-spin-broad":  # a reference of its own: the broad edge is there at severity 0
        delta = result.truth.requests["delta_ns"].to_numpy()
        assert not delta.any()
        assert result.truth.summary.flows == []
        assert result.truth.summary.change.mean_ns == result.truth.summary.change.base_mean_ns
    assert not any(c.touched for c in result.truth.summary.causes)


def test_a_fault_ends() -> None:
    causes = tuple(plan_causes([(find_fault("F5-spin"), None, 0.5)], 1.0))
    (trace,) = run(RunPlan("linux-build", 1_500, 5, 1.0, causes), START_NS, with_truth=True).traces
    places = trace.first_step[trace.touches.request] + trace.touches.step
    touched_s = trace.time_ns[places] / 1e9
    assert trace.end_ns > 1.5e9
    assert touched_s.min() >= 0.5
    assert 0.8 < touched_s.max() < 1.1  # the step after the spin of the last request that met it
    with pytest.raises(ConfigError, match="begins at 5 s and ends at 2 s"):
        plan_causes([(find_fault("F9"), None, 5.0)], 2.0)


@pytest.mark.parametrize(
    ("name", "workload"),
    [(f.name, f.workload) for f in SIMULATED if f.name not in ("F12-load", "N2-load", "F5-spin-absorbed")],
)
def test_every_fault_acts_where_it_should(name: str, workload: str) -> None:
    # One read in a hundred is too rare for a run this short.
    result = _run(name, workload=workload, severity=0.3 if name.startswith("F10") else None)
    assert result.truth is not None
    causes, table = result.truth.summary.causes, result.truth.requests
    for number, cause in enumerate(causes):
        touched = np.asarray(table[f"touched_{number}"])
        assert 0 < touched.sum() == cause.touched
        assert cause.affected <= cause.touched
        assert cause.affected > 0
    affected = np.asarray(table["affected"])
    knock_on = np.asarray(table["knock_on"])
    assert not (affected & knock_on).any()
    alone = table["base_response_ns"].is_null().to_numpy()
    any_touch = np.any([np.asarray(table[f"touched_{i}"]) for i in range(len(causes))], axis=0)
    assert not (affected & ~any_touch).any(), "nothing is affected without a touch"
    changed = pc.fill_null(pc.not_equal(table["path"], table["base_path"]), True)
    differs = changed.to_numpy() | (pc.fill_null(table["delta_ns"], 1).to_numpy() != 0) | alone
    assert (affected == (any_touch & differs)).all()


def test_nothing_differs_before_the_fault_begins() -> None:
    result = _run("F5-spin", start_s=1.0, workload="linux-build")
    assert result.truth is not None
    table = result.truth.requests
    end = table["start_ns"].to_numpy() + table["response_ns"].to_numpy()
    early = end < START_NS + 1_000_000_000
    assert early.sum() > 100
    assert not table["delta_ns"].to_numpy()[early].any()
    assert table["delta_ns"].to_numpy()[~early].any()
    assert not np.asarray(table["touched_0"])[early].any()


def test_a_spin_adds_exactly_itself_to_lone_writes() -> None:
    """On an idle service (no contention) a request's delta is its spins, to the nanosecond."""
    causes = tuple(plan_causes([(find_fault("F5-spin"), 300.0, 0.0)]))
    plan = RunPlan("sfs97", 350, 8, 1.0, causes)
    result = run(plan, START_NS, with_truth=True)
    assert result.truth is not None
    table = result.truth.requests
    rows = [
        (d, a)
        for d, a, path, base in zip(
            table["delta_ns"].to_pylist(),
            table["added_ns"].to_pylist(),
            table["path"].to_pylist(),
            table["base_path"].to_pylist(),
            strict=True,
        )
        if a > 0 and path == base
    ]
    exact = [d for d, a in rows if abs(d - a) <= 2]
    assert len(rows) > 10
    assert len(exact) > 0.6 * len(rows), "most WRITEs meet no queue and no parallel branch"
    assert {e.dst.rsplit("/", 1)[1] for e in result.truth.summary.causes[0].edges} == {
        "STORAGE_NODE_RPC_REPLY"
    }


def test_shares_add_up_to_the_change() -> None:
    result = _run("F15", workload="postmark-large")
    assert result.truth is not None
    summary = result.truth.summary
    change = summary.change
    assert len(summary.causes) == 2
    total = change.mean_ns - change.base_mean_ns
    assert sum(c.share_ns for c in summary.causes) == pytest.approx(total, rel=1e-9)
    assert change.affected_ns + change.knock_on_ns + change.rest_ns + change.mix_ns == pytest.approx(
        total, rel=1e-9
    )
    delta = result.truth.requests["delta_ns"].to_numpy()
    assert delta.mean() == pytest.approx(total, rel=1e-9)


@pytest.mark.parametrize(("name", "workload"), [("F2", "iozone"), ("F6", "ursa-minor-build")])
def test_change_adds_up_with_requests_that_exist_in_one_run_only(name: str, workload: str) -> None:
    result = _run(name, workload=workload)
    assert result.truth is not None
    change = result.truth.summary.change
    assert change.n > change.n_base
    total = change.mean_ns - change.base_mean_ns
    parts = change.affected_ns + change.knock_on_ns + change.rest_ns + change.mix_ns
    assert parts == pytest.approx(total, rel=1e-9, abs=1e-3)
    extra = result.truth.requests.filter(result.truth.requests["base_response_ns"].is_null())
    assert extra.num_rows == change.n - change.n_base


def test_shapley_against_all_orders() -> None:
    rng = np.random.default_rng(4)
    values = {frozenset(s): float(rng.normal()) for size in range(4) for s in combinations(range(3), size)}
    expected = dict.fromkeys(range(3), 0.0)
    for order in permutations(range(3)):
        have: frozenset[int] = frozenset()
        for cause in order:
            expected[cause] += (values[have | {cause}] - values[have]) / 6
            have |= {cause}
    assert shapley(values, [0, 1, 2]) == pytest.approx(expected)


def test_config_fault_moves_metadata_writes_to_the_data_node() -> None:
    result = _run("F1", workload="postmark-large")
    assert result.truth is not None
    by_path = {p.path: p.facts for p in result.truth.summary.paths}
    for flow in result.truth.summary.flows:
        if flow.affected == flow.n:
            assert by_path[flow.path]["metadata_writes_on_data_node"] > 0
            assert by_path[flow.base_path]["metadata_writes_on_data_node"] == 0
            assert by_path[flow.base_path]["metadata_writes_on_metadata_node"] > 0
    assert any(flow.affected for flow in result.truth.summary.flows)


def test_small_io_makes_read_modify_writes() -> None:
    result = _run("F2", workload="iozone")
    assert result.truth is not None
    base = {p.path: p for p in result.truth.summary.paths}
    assert any(p.facts["partial_modifies"] and p.n and not p.n_base for p in base.values())
    assert not any(p.facts["partial_modifies"] and p.n_base for p in base.values())


def test_sequential_read_has_no_parallel_branches_left() -> None:
    result = _run("F14", workload="sfs97")
    kinds = [facts(decode(raw)) for trace in result.traces for raw in trace.structures]
    reads_in_parallel = [k for k in kinds if k["parallel_branches"] and not k["storage_writes"]]
    assert reads_in_parallel == []
    assert any(k["serial_reads"] > 1 for k in kinds)


def test_sampling_is_chosen_before_and_independent_of_what_happens() -> None:
    causes = tuple(plan_causes([(find_fault("F5-spin"), None, 0.0)]))
    whole = RunPlan("sfs97", 1_400, 2, 1.0, causes)
    some = replace(whole, sample=0.25)
    full = frozenset({0})
    everything = {
        int(u): int(r) for t in simulate(whole, full) for u, r in zip(t.uid, t.response_ns, strict=True)
    }
    sampled = {
        int(u): int(r) for t in simulate(some, full) for u, r in zip(t.uid, t.response_ns, strict=True)
    }
    assert 250 < len(sampled) < 450
    assert sampled.items() <= everything.items()
    assert len(everything) == 1_400
    assert sorted(u >> SUB_BITS for u in everything) == list(range(1_400))


def test_result_does_not_depend_on_the_number_of_processes() -> None:
    causes = tuple(plan_causes([(find_fault("F9"), None, 0.0)]))
    plan = RunPlan("sfs97", 280, 2, 1.0, causes)
    one, two = (run(plan, START_NS, with_truth=True, workers=w) for w in (1, 2))
    assert b"".join(one.lines(RunFormat.NATIVE)) == b"".join(two.lines(RunFormat.NATIVE))
    assert one.truth is not None
    assert two.truth is not None
    assert one.truth.requests.equals(two.truth.requests)
    assert one.truth.summary == two.truth.summary


def test_truth_files_round_trip(tmp_path: Path) -> None:
    result = _run("F1", workload="postmark-large", n_requests=200)
    assert result.truth is not None
    beside = result.truth.write(tmp_path / "truth.json")
    assert pq.read_table(beside).equals(result.truth.requests)
    assert TruthSummary.model_validate_json((tmp_path / "truth.json").read_text()) == result.truth.summary


def test_bad_plans_are_refused() -> None:
    with pytest.raises(ConfigError, match="no workload"):
        RunPlan("tpc-c", 10, 0, 1.0)
    with pytest.raises(ConfigError, match="sampling rate"):
        RunPlan("sfs97", 10, 0, 0.0)
    with pytest.raises(ConfigError, match="no fault"):
        find_fault("F99")
    with pytest.raises(ConfigError, match="same mechanism"):
        plan_causes([(find_fault("F5-spin"), None, 0.0), (find_fault("F5-spin-broad"), None, 0.0)])
    with pytest.raises(ConfigError, match="below"):
        plan_causes([(find_fault("F1"), -1.0, 0.0)])
    assert plan_causes([(find_fault("N2"), -0.3, 0.0)])[0].injection.mechanism is FaultMechanism.LOAD
