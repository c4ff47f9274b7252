"""What is no fault of the service is no finding, and a fault beside it still is: small simulated runs.

Everything is real from the simulator's lines on: codec, stitching, refinement, tests. Nothing here is a name.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import lru_cache
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

from analyze.methods.robust.changes import Change
from analyze.methods.robust.confounders.lost_records import LostRecords
from analyze.methods.robust.robust_run import RobustRun, robust_run
from analyze.methods.robust.settings import RobustSettings
from analyze.population import Population, Sample
from analyze.profile.names import SiteKind
from analyze.refine.pipeline import refine
from analyze.refine.settings import RefineSettings
from analyze.report.wording import counted
from ingest.formats import codec_for
from schemas.config import DecodeConfig, StitchConfig
from schemas.events import concat_events
from schemas.report.findings import ChangeKind
from schemas.windows import NS_PER_DAY
from simulator.faults import find_fault, plan_causes
from simulator.output import RunFormat
from simulator.output import run as simulate
from simulator.run import RunPlan
from stitch.kernel import stitch

EPOCH_NS = 20_458 * NS_PER_DAY
REQUESTS = 1_200
SETTINGS = RobustSettings(explained=0, paths=False)
LOSS, SKEW, RENAME = ("N5-span-loss", 0.03), ("N4-clock-skew", 5.0), ("N6-rename", 1.0)
LOAD, SPIN = ("N2-load", 0.5), ("F5-spin", 500.0)
SPIN_ENDS = "STORAGE_NODE_RPC_REPLY"
"""Where the simulator spins: before this point."""

Faults = tuple[tuple[str, float], ...]


@lru_cache(maxsize=4)
def period(faults: Faults, seed: int) -> tuple[pa.Table, pa.Table, int, int]:
    """(flows, structures, start, end) of a run."""
    causes = tuple(plan_causes([(find_fault(name), severity, 0.0) for name, severity in faults]))
    source = simulate(RunPlan("sfs97", REQUESTS, seed, 1.0, causes), EPOCH_NS + seed * NS_PER_DAY)
    lines = [
        codec_for("native").decode([chunk], DecodeConfig()).events for chunk in source.lines(RunFormat.NATIVE)
    ]
    made = stitch(concat_events(lines), StitchConfig())
    end_ns = source.recording.start_ns + round(max(trace.end_ns for trace in source.traces)) + 1
    return made.flows, made.structures, source.recording.start_ns, end_ns


def compared(*faults: tuple[str, float]) -> Population:
    """A quiet run against one with these faults."""
    sides = period((), 1), period(faults, 2)
    flows = [
        side[0].append_column("sample", pa.array(np.full(side[0].num_rows, at, dtype=np.uint8)))
        for at, side in enumerate(sides)
    ]
    samples = tuple(
        Sample(name, "", side[2], side[3]) for name, side in zip(("reference", "problem"), sides, strict=True)
    )
    return refine(
        pa.concat_tables(flows).unify_dictionaries(),
        pa.concat_tables([side[1] for side in sides]),
        RefineSettings(),
        samples,
    )


@lru_cache(maxsize=4)  # the four negatives: tests that look at one twice stand together
def run(*faults: tuple[str, float]) -> RobustRun:
    return robust_run(compared(*faults), None, SETTINGS)


def at(found: RobustRun) -> list[str]:
    """Point at which the leading change of each group is."""
    return [found.profile.names.operation(group.lead.site).point for group in found.causes]


@pytest.mark.parametrize(
    ("fault", "reason"),
    [(LOSS, "lost-records"), (RENAME, "renamed-operations"), (SKEW, None), (LOAD, None)],
    ids=lambda v: str(v),
)
def test_a_negative_is_no_finding(fault: tuple[str, float], reason: str | None) -> None:
    found = run(fault)
    assert at(found) == []
    if reason is not None:
        assert found.confounded.text(reason)


def test_lost_records_are_measured() -> None:
    found = run(LOSS)
    told = found.confounded.text("lost-records")
    changes = found.confounded.changes("lost-records")
    assert len(changes) == len(found.tested.changes) > 0
    assert found.confounded.hidden_paths == pytest.approx(1.5 * 0.03, rel=0.3)
    assert counted(len(changes), "change") in told


def test_a_step_over_a_lost_point_has_no_time_of_its_own() -> None:
    """Longer ways whose middle is lost join the few requests that took a step directly."""
    found = run(LOSS)
    names, calls = found.profile.names, (found.view.before.calls, found.view.after.calls)
    steps = [site for site, name in enumerate(names.sites) if name.kind is SiteKind.STEP]
    ways = {(names.sites[site].caller, names.sites[site].operation): site for site in steps}
    slower = [
        Change(ChangeKind.SLOWER, site, 0.0, 9.0, "us", 0.0, 28.0, 10.0, 40.0, 6, 9, 1.0) for site in steps
    ]
    told = LostRecords().explains(slower, found)
    assert told is not None
    over_lost = {change.site for change in told.changes}
    usual = {way for way, site in ways.items() if calls[0][site]}
    skipped = {(one, last) for one, near in usual for also, last in usual if near == also != last != one}
    begun: Counter[int] = Counter()
    for (first, _), site in ways.items():
        begun[first] += calls[1][site]
    # A step that nobody takes unless something is lost; and one that many take, whatever lies between.
    rare = {
        site
        for way, site in ways.items()
        if way in skipped - usual and calls[1][site] <= 0.03 * begun[way[0]]
    }
    often = {site for way, site in ways.items() if calls[1][site] > 0.1 * begun[way[0]]}
    assert len(rare) > 5
    assert len(rare - over_lost) < 0.1 * len(rare), "one or two calls may take long by chance"
    assert often
    assert not often & over_lost
    assert not {site for way, site in ways.items() if way not in skipped} & over_lost
    # No loss makes a step longer than the ways around it.
    longer = replace(found.view.after, critical_ns=1e6 * found.view.after.critical_ns)
    with patch.object(found.view, "after", longer):
        told = LostRecords().explains(slower, found)
    assert told is not None
    waited = {site for site in rare & over_lost if found.view.after.critical_ns[site]}
    assert len(waited) > 5
    assert not {change.site for change in told.changes} & waited


def test_a_clock_that_was_set_is_set_back() -> None:
    """The step between two machines takes what it took, but for what the network varies by."""
    population = run(SKEW).population
    assert population.clock_moves
    assert {abs((move.by_ns or 0) / 1e6 - 5) < 0.2 for move in population.clock_moves if move.by_ns} == {True}
    assert any("ms ahead" in note for note in population.skew_notes)
    assert compared().clock_moves == ()


@pytest.mark.parametrize("beside", [LOSS, RENAME, SKEW, LOAD], ids=lambda v: v[0])
def test_a_fault_beside_it_is_found(beside: tuple[str, float]) -> None:
    found = run(SPIN, beside)
    assert at(found)
    assert set(at(found)) == {SPIN_ENDS}
