"""One pod of five: slower, or failing; told with its own values against its siblings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from oracles.refined import Call, call, population
from oracles.span_events import T0

from analyze.methods.robust.calls_by_instance import _levels_of
from analyze.methods.robust.robust_run import RobustRun, robust_run
from analyze.methods.robust.settings import RobustSettings
from analyze.methods.robust.titles import title, where
from analyze.population import Population, Sample

HOUR_NS = 3_600 * 10**9
PODS, N = 5, 400


def requests(
    seed: int,
    ms: Callable[[int], float],
    fails: Callable[[int, float], bool] = lambda *_: False,
    n: int = N,
    pods: int = PODS,
    sigma: float = 0.4,
) -> list[Call]:
    """Pages that ask one of some pods; how long a pod takes, and whether it fails, by its number."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(n):
        pod = int(rng.integers(pods))
        own_us = 1_000 * ms(pod) * rng.lognormal(0, sigma)
        status = "x" if fails(pod, float(rng.random())) else "ok"
        asked = call("api/get", 500, 500 + own_us, host=f"pod-{pod}", status=status)
        found.append(call("web/page", 0, 1_000 + own_us + rng.random() * 200, asked, host="web-0"))
    return found


def run(before: list[Call], after: list[Call], without: tuple[str, ...] = ()) -> RobustRun:
    samples = tuple(
        Sample(name, "", T0 + at * HOUR_NS, T0 + at * HOUR_NS + N * 10**9)
        for at, name in enumerate(("reference", "problem"))
    )
    settings = RobustSettings(paths=False, without=without)
    return robust_run(replace(population(before, after), samples=samples), None, settings)


def said(found: RobustRun) -> list[str]:
    names = found.profile.names
    return [title(c.lead, c.changes, names) + where(c) for c in found.causes]


def even(_: int) -> float:
    return 5


def test_a_slower_pod_is_named_with_its_own_values() -> None:
    found = run(requests(1, even), requests(2, lambda pod: 10 if pod == 3 else 5))
    (text,) = said(found)
    assert text.startswith("api/get")
    assert text.endswith("(on 1 of 5 instances: pod-3)")
    lead = found.causes[0].lead
    assert lead.before == pytest.approx(5_000, rel=0.15)
    assert lead.after == pytest.approx(10_000, rel=0.15)
    assert lead.low < 5_000 < lead.high
    assert not any(
        "pod-3" in text
        for text in said(
            run(
                requests(1, even),
                requests(2, lambda pod: 10 if pod == 3 else 5),
                ("slower-instance",),
            )
        )
    ), "the rule pays its rent"


def test_one_pod_of_three_that_is_twice_as_slow_is_found_in_forty_requests() -> None:
    """What medians of so few tell is too little in half of these."""
    found = [
        said(
            run(
                requests(2 * seed, even, n=120, pods=3, sigma=0.5),
                requests(2 * seed + 1, lambda pod: 10 if pod == 2 else 5, n=120, pods=3, sigma=0.5),
            )
        )
        for seed in range(10)
    ]
    assert sum(len(texts) == 1 and texts[0].endswith("instances: pod-2)") for texts in found) >= 8


def test_a_pod_that_fails_in_a_tenth_of_its_calls_is_named() -> None:
    before = requests(1, even)
    after = requests(2, even, lambda pod, u: pod == 2 and u < 0.1)
    found = run(before, after)
    (text,) = said(found)
    assert "pod-2" in text
    assert found.causes[0].lead.after == pytest.approx(0.1, abs=0.06), "of that pod's calls, not of all"
    assert said(run(before, after, ("failing-instance",))) == [], "the rule pays its rent"


@pytest.mark.parametrize(
    "ms", [even, lambda pod: 10 if pod == 3 else 5], ids=["all alike", "one was slower before, too"]
)
def test_what_was_so_before_is_no_finding(ms: Callable[[int], float]) -> None:
    assert said(run(requests(1, ms), requests(2, ms))) == []


def test_what_all_pods_do_is_no_instance() -> None:
    (text,) = said(run(requests(1, even), requests(2, lambda _: 10)))
    assert "instances" not in text


def test_a_pod_that_is_slower_yet_than_its_slower_siblings_is_not_what_happened() -> None:
    """All take twice as long, one three times: its siblings are not spared."""
    found = run(requests(1, even), requests(2, lambda pod: 15 if pod == 3 else 10))
    assert "instances" not in said(found)[0]


def test_pods_that_only_the_problem_has_are_compared_with_each_other() -> None:
    def renamed(of: list[Call]) -> list[Call]:
        return [replace(r, calls=tuple(replace(c, host=f"new-{c.host}") for c in r.calls)) for r in of]

    before = requests(1, even)
    assert said(run(before, renamed(requests(2, even)))) == []
    (text,) = said(run(before, renamed(requests(2, lambda pod: 10 if pod == 3 else 5))))
    assert text.endswith("(on 1 of 5 instances: new-pod-3)")


def test_an_attribute_that_parts_instances_as_their_hosts_do_adds_no_tests() -> None:
    """Every pod has an id of its own: the host's name says as much. Two versions are another cut."""
    pods = cast(Population, SimpleNamespace(hosts=("pod-0", "pod-1", "pod-2")))
    said = {
        (0, "service.instance.id"): {0: "a", 1: "b", 2: "c"},
        (0, "service.version"): {0: "v1", 1: "v1", 2: "v2"},
        (0, "zone"): {0: "east", 1: "east", 2: "west"},
        (0, "cluster"): {0: "x", 1: "x", 2: "x"},
    }
    found = [(level.attribute, level.value) for level in _levels_of([0, 1, 2], 0, pods, said)]
    assert found == [
        *(("host", pod) for pod in pods.hosts),
        ("service.version", "v1"),
        ("service.version", "v2"),
    ]
