"""How much slower requests that pass a place may be: checked against plain loops, and against the truth."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from oracles.refined import Call, call, population
from oracles.span_events import T0
from scipy import stats

from analyze.compare import compare
from analyze.methods.port import Chosen
from analyze.methods.robust.method import METHOD
from analyze.methods.robust.robust_run import RobustRun, robust_run
from analyze.methods.robust.sections import verdict
from analyze.methods.robust.settings import RobustSettings
from analyze.methods.robust.verdict.outcome import VerdictReached, Word
from analyze.population import Sample
from schemas.report.accounts import Reason, ReasonKind, VerdictSection

SETTINGS = RobustSettings(explained=0, paths=False)
HOUR_NS = 3_600 * 10**9


def requests(n: int, seed: int, scale: float = 1.0) -> list[Call]:
    """Half of the reads wait ten times as long: two modes."""
    rng = np.random.default_rng(seed)
    took = 200 * scale * np.where(rng.random(n) < 0.5, 10, 1) * np.exp(rng.normal(0, 0.2, n))
    return [call("web/get", 0, 400 + t, call("db/read", 100, 100 + t)) for t in took.tolist()]


def run(before: list[Call], after: list[Call]) -> RobustRun:
    samples = tuple(
        Sample(name, "", T0 + at * HOUR_NS, T0 + at * HOUR_NS + len(made) * 10**9)
        for at, (name, made) in enumerate((("reference", before), ("problem", after)))
    )
    return robust_run(replace(population(before, after), samples=samples), None, SETTINGS)


def plainly(found: RobustRun, site: int) -> float:
    """The largest change of a visit to a site, a row at a time."""
    windows: dict[int, list[float]] = {}
    before, after = [0.0] * 4, [0.0] * 4
    for row in found.profile.visits.to_pylist():
        if row["site"] != site:
            continue
        values = [row["n"], row["w"], row["critical_ns"], row["response_ns"]]
        slot = row["slot"]
        for side, inside in ((before, found.roles.ordinary[slot]), (after, found.roles.problem[slot])):
            if inside:
                side[:] = [a + b for a, b in zip(side, values, strict=True)]
        if (number := int(found.roles.noise[slot])) >= 0:
            known = windows.setdefault(number, [0.0] * 4)
            known[:] = [a + b for a, b in zip(known, values, strict=True)]
    told = [window for window in windows.values() if window[1] > 0]
    if len(told) < 5:
        return math.inf
    n_windows, total = len(told), sum(w for _, w, _, _ in told)
    mean = sum(ns for _, _, ns, _ in told) / total
    variance = sum((ns - mean * w) ** 2 for _, w, ns, _ in told) * n_windows / (n_windows - 1) / total**2
    fewer = max(sum(n for n, *_ in told) / n_windows / after[0], 1.0)
    error = math.sqrt(variance * (n_windows * fewer + 1)) / mean
    reach = stats.t.ppf(0.975, n_windows - 1) * error
    change = math.log(after[2] / after[1] / mean)
    return max(1 - math.exp(change - reach), math.exp(change + reach) - 1)


@pytest.mark.parametrize("n", [20, 90])
def test_sizes_are_those_of_plain_loops(n: int) -> None:
    found = run(requests(90, 1), requests(n, 2))
    sizes = found.tested.seen.site_times.visit.largest_ratio()
    assert np.isfinite(sizes).any()
    for site, size in enumerate(sizes.tolist()):
        assert (size if size < 1e9 else math.inf) == pytest.approx(plainly(found, site), nan_ok=True)


def largest(found: RobustRun) -> float:
    return found.tested.seen.site_times.largest(SETTINGS)


@pytest.mark.parametrize("scale", [1.0, 1.5])
def test_the_true_change_is_seldom_larger(scale: float) -> None:
    """Requests take 400 us and the read, 1,120 us on average."""
    true = (scale - 1) * 1_120 / 1_520
    sizes = [largest(run(requests(300, 2 * seed), requests(60, 2 * seed + 1, scale))) for seed in range(20)]
    assert sum(size < true for size in sizes) <= 3
    assert np.median(sizes) < true + 0.8, "two modes hide no more than that"


@pytest.mark.parametrize(
    ("outcome", "by_load", "is_named"),
    [
        ("not-explained", False, True),
        ("not-explained", True, False),
        ("changed", False, False),
        ("partly-explained", False, False),
    ],
)
def test_a_likely_place_is_named_only_where_nothing_else_explains(
    monkeypatch: pytest.MonkeyPatch, outcome: Word, by_load: bool, is_named: bool
) -> None:
    """Load has no place, and where findings stand they are the places."""
    decided = VerdictReached(outcome, (Reason(kind=ReasonKind.NO_FINDING, text="."),), by_load=by_load)
    monkeypatch.setattr(verdict, "reached", lambda *_: decided)
    samples = tuple(
        Sample(name, "", T0 + at * HOUR_NS, T0 + at * HOUR_NS + 200 * 10**9)
        for at, name in enumerate(("reference", "problem"))
    )
    found = replace(population(requests(200, 1), requests(200, 2, 4.0)), samples=samples)
    report = compare(found, [Chosen(METHOD, SETTINGS)]).report
    section = report.section(VerdictSection)
    assert section is not None
    assert any(reason.kind is ReasonKind.LIKELY_PLACE for reason in section.reasons) == is_named
