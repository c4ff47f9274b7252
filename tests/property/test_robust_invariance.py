"""What robust mode tells must not depend on names, load, order of the periods or what is beside the point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from oracles.refined import T0, Call, population

from analyze.methods.robust.robust_run import RobustRun, robust_run
from analyze.methods.robust.settings import RobustSettings
from analyze.population import Population, Sample
from analyze.refine.settings import RefineSettings
from schemas.events import EventKind

HOUR_NS = 3600 * 10**9
N = 120
SETTINGS = RefineSettings(host_policy="none", correct_skew=False)


def traffic(rng: np.random.Generator, *, slow: float, broken: float) -> list[Call]:
    """Shop requests: a page asks the catalogue, sometimes several times, and the cart; own times in µs."""
    made = []
    for _ in range(N):
        at, below = 100.0, []
        for _ in range(int(rng.integers(1, 4))):
            took = float(rng.lognormal(np.log(400), 0.2)) * slow
            below.append(_remote("catalog", at, at + took, rng))
            at += took + 20
        if rng.random() >= broken:
            took = float(rng.lognormal(np.log(300), 0.2))
            below.append(_remote("cart", at, at + took, rng))
            at += took
        end = at + float(rng.lognormal(np.log(200), 0.2))
        made.append(Call("web/page", 0, end, tuple(below), None, EventKind.SPAN_SERVER))
    return made


def _remote(to: str, start: float, end: float, rng: np.random.Generator) -> Call:
    inner = Call(f"{to}/get", start + 5, end - 5, (), None, EventKind.SPAN_SERVER)
    del rng
    return Call("web/GET", start, end, (inner,), None, EventKind.SPAN_CLIENT)


def analysed(
    reference: list[Call], problem: list[Call], change: Callable[[Call], Call] = lambda c: c
) -> RobustRun:
    return run_of(population([change(c) for c in reference], [change(c) for c in problem], SETTINGS))


def run_of(found: Population) -> RobustRun:
    samples = tuple(
        Sample(name, name, T0 + place * HOUR_NS, T0 + place * HOUR_NS + N * 10**9)
        for place, name in enumerate(("reference", "problem"))
    )
    return robust_run(replace(found, samples=samples), None, RobustSettings())


Told = list[tuple[str, str, frozenset[tuple[str, str, str]]]]


def told(run: RobustRun, back: Callable[[str], str] = lambda name: name) -> Told:
    """Causes as (kind, component, changes as (kind, component/point, callee)), by names that `back` gives."""
    names = run.profile.names
    found = []
    for group in run.causes:
        changes = frozenset(
            (
                change.kind.value,
                back(names.operation(change.site).component) + "/" + names.operation(change.site).point,
                back(names.operation(change.site).callee),
            )
            for change in group.changes
        )
        found.append((group.lead.kind.value, back(group.component), changes))
    return found


def renamed(call: Call, names: dict[str, str]) -> Call:
    component, point = call.name.split("/")
    return replace(
        call, name=f"{names[component]}/{point}", calls=tuple(renamed(below, names) for below in call.calls)
    )


FAULTS = pytest.mark.parametrize(("slow", "broken"), [(1.0, 0.0), (2.0, 0.0), (1.0, 0.5), (2.0, 0.5)])


def periods(slow: float, broken: float) -> tuple[list[Call], list[Call]]:
    rng = np.random.default_rng(7)
    return traffic(rng, slow=1, broken=0), traffic(rng, slow=slow, broken=broken)


@FAULTS
def test_names_do_not_matter(slow: float, broken: float) -> None:
    reference, problem = periods(slow, broken)
    plain = analysed(reference, problem)
    names = {"web": "zebra", "catalog": "mouse", "cart": "ant"}
    back = {new: old for old, new in names.items()} | {"": ""}
    other = analysed(reference, problem, lambda call: renamed(call, names))
    assert told(other, back.__getitem__) == told(plain)
    assert [g.score for g in other.causes] == pytest.approx([g.score for g in plain.causes])
    assert bool(plain.causes) == (slow > 1 or broken > 0)


@FAULTS
def test_the_other_way_round_what_grew_shrinks(slow: float, broken: float) -> None:
    reference, problem = periods(slow, broken)
    there, back = analysed(reference, problem), analysed(problem, reference)

    def times(run: RobustRun, sign: int) -> dict[str, tuple[str, float]]:
        names, opposite = run.profile.names, {"slower": "faster", "faster": "slower"}
        return {
            names.operation(change.site).text: (
                change.kind.value if sign > 0 else opposite[change.kind.value],
                sign * change.contribution_ns,
            )
            for change in run.tested.changes
            if change.kind.value in opposite
        }

    one, other = times(there, 1), times(back, -1)
    assert one.keys() == other.keys()
    for place, (kind, part) in one.items():
        assert other[place] == (kind, pytest.approx(part, rel=1e-9))


@FAULTS
def test_load_does_not_matter(slow: float, broken: float) -> None:
    """Requests of the problem at twice their weight: twice the load, no more evidence."""
    reference, problem = periods(slow, broken)
    found = population(reference, problem, SETTINGS)
    heavier = replace(
        found,
        categories=tuple(
            replace(c, weight=np.where(c.sample == 1, 2.0, 1.0) * c.weight) for c in found.categories
        ),
    )
    one, other = run_of(found), run_of(heavier)
    assert told(one) == told(other)
    for first, second in zip(one.causes, other.causes, strict=True):
        assert second.lead.after == pytest.approx(first.lead.after, rel=1e-6)
        assert second.lead.before == pytest.approx(first.lead.before, rel=1e-6)
        assert second.lead.z == pytest.approx(first.lead.z, rel=1e-6)
        assert second.lead.p == pytest.approx(first.lead.p, rel=1e-6)


@FAULTS
def test_a_sampled_request_counts_once(slow: float, broken: float) -> None:
    """All requests at four times their weight: one in four was kept, and what was kept shows as much."""
    reference, problem = periods(slow, broken)
    found = population(reference, problem, SETTINGS)
    sampled = replace(found, categories=tuple(replace(c, weight=4 * c.weight) for c in found.categories))
    one, other = run_of(found), run_of(sampled)
    assert told(one) == told(other)
    assert len(one.tested.changes) == len(other.tested.changes)
    for first, second in zip(one.tested.changes, other.tested.changes, strict=True):
        for figure in ("z", "p", "q", "n0", "n1", "before", "after", "contribution_ns", "weight"):
            assert getattr(second, figure) == pytest.approx(getattr(first, figure), rel=1e-6), figure


@FAULTS
def test_a_category_split_by_chance_changes_no_finding(slow: float, broken: float) -> None:
    """A mark in the page of every second request: twice the categories, the same findings."""
    reference, problem = periods(slow, broken)
    rng = np.random.default_rng(3)

    def marked(call: Call) -> Call:
        return replace(call, marks=(1.0,)) if rng.random() < 0.5 else call

    plain, split = analysed(reference, problem), analysed(reference, problem, marked)
    assert len(split.population.categories) > len(plain.population.categories)
    assert [(kind, component) for kind, component, _ in told(split)] == [
        (kind, component) for kind, component, _ in told(plain)
    ]
