"""One change on several hosts is one finding, and a host that is spared is told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from oracles.refined import T0, Call, call, population

from analyze.compare import compare
from analyze.methods.port import Chosen
from analyze.methods.robust.causes.context import hosts_in
from analyze.methods.robust.method import METHOD
from analyze.methods.robust.settings import RobustSettings
from analyze.population import Population, Sample
from analyze.refine.settings import RefineSettings
from schemas.report.findings import Finding, FindingsSection

HOUR_NS = 3_600 * 10**9
N = 60
HOSTS = ("store-1", "store-2", "store-3")


def reads(
    rng: np.random.Generator, slow: dict[str, float], failing: frozenset[str] = frozenset()
) -> list[Call]:
    """Pages that read from each host in turn; own times in µs."""
    made = []
    for at in range(N):
        host = HOSTS[at % len(HOSTS)]
        took = float(rng.lognormal(np.log(400), 0.1)) * slow.get(host, 1.0)
        status = "timeout" if host in failing and at % 2 else "ok"
        read = call("db/read", 50, 50 + took, host=host, status=status)
        made.append(call("web/get", 0, 100 + took, read, host="front", status=status))
    return made


def compared(before: list[Call], after: list[Call]) -> tuple[Population, tuple[Finding, ...]]:
    found = population(before, after, RefineSettings(host_policy="full", correct_skew=False))
    samples = tuple(
        Sample(name, "", T0 + at * HOUR_NS, T0 + at * HOUR_NS + N * 10**9)
        for at, name in enumerate(("reference", "problem"))
    )
    found = replace(found, samples=samples)
    report = compare(found, [Chosen(METHOD, RobustSettings())]).report
    section = report.section(FindingsSection)
    assert section is not None
    return found, section.findings


@pytest.mark.parametrize(
    ("slow", "where"),
    [
        (HOSTS, "on all hosts"),
        (HOSTS[:2], "on store-1, store-2, not on store-3"),
        (HOSTS[1:2], "on store-2 only"),
    ],
)
def test_a_slow_step_is_one_finding_however_many_hosts_have_it(slow: tuple[str, ...], where: str) -> None:
    rng = np.random.default_rng(3)
    found, findings = compared(reads(rng, {}), reads(rng, dict.fromkeys(slow, 3.0)))
    (finding,) = findings
    assert where in finding.title or sorted(slow) == sorted(HOSTS)
    assert all(host in finding.title for host in slow)
    # All of the hosts' requests are affected, and their time is claimed.
    assert finding.affected1 == N * len(slow) // len(HOSTS)
    assert finding.contribution_us == pytest.approx(800 * len(slow) / len(HOSTS), rel=0.2)
    assert hosts_in(c.graph for c in found.categories)["store-1/db"] == ("store-1", "db")


def test_errors_of_two_hosts_are_one_finding() -> None:
    rng = np.random.default_rng(4)
    _, findings = compared(reads(rng, {}), reads(rng, {}, frozenset(HOSTS[:2])))
    assert len(findings) == 1
    assert findings[0].site.operation == "read"
    assert "not on store-3" in findings[0].title


def test_other_directions_on_other_hosts_are_two_findings() -> None:
    rng = np.random.default_rng(5)
    slow = {HOSTS[0]: 3.0, HOSTS[1]: 1 / 3}
    _, findings = compared(reads(rng, {}), reads(rng, slow))
    assert {finding.kind.value for finding in findings} == {"slower", "faster"}
    assert findings[0].kind.value == "slower"  # what got better does not lead
