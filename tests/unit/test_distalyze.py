"""DISTALYZER as a method: the paper's HBase case, classes, tails, trivial variables, A/A."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from oracles.hbase import BACKOFF_MS, LOOKUP, POINTS, hbase, split_at_random
from oracles.populations import category, graph, population
from oracles.refined import Call, call
from oracles.refined import population as refined

from analyze.methods.distalyze.dependency_network import trivial
from analyze.methods.distalyze.distalyze_run import DistalyzeRun, distalyze_run
from analyze.methods.distalyze.divergence import tail_of, tail_weights
from analyze.methods.distalyze.features import FeatureType
from analyze.methods.distalyze.method import analyse
from analyze.methods.distalyze.settings import DistalyzeSettings
from analyze.population import Population, Sample
from analyze.profile.samples import samples_of
from analyze.report.limits import ReportLimits
from schemas.errors import ConfigError
from schemas.events import EventKind
from schemas.report.networks import DistalyzeSection, NetworkComponent

REACHED = f"{LOOKUP} reached"
SETTINGS = DistalyzeSettings()


def top_event(run: DistalyzeRun) -> NetworkComponent:
    return next(row for row in run.components if row.log_type == "event")


@pytest.mark.parametrize("seed", range(10))
def test_the_papers_stale_location(seed: int) -> None:
    """DIST §5.2.1: the lookup is in the top event component and begins its chain, after HTable.get."""
    run = distalyze_run(hbase(seed, 3_000), SETTINGS)
    top = top_event(run)
    names = [variable.text for variable in top.variables]
    assert REACHED in names
    assert top.variables[top.chain[0]].what == "response time"
    assert names[top.chain[-1]] == REACHED
    assert top.after == f"{POINTS[0]} reached"
    # The last event is P itself: told, but no part of the network.
    assert f"{POINTS[-1]} reached" not in names
    absolute = any("Absolute" in type_ for type_ in top.feature_types)
    assert (f"{POINTS[-1]} reached" in top.trivial) == absolute
    # All requests follow one path: what is drawn has a direction.
    assert all(edge.directed for edge in top.edges)
    state = next(row for row in run.components if row.log_type == "state")
    assert f"{LOOKUP} after {POINTS[0]}" in [variable.text for variable in state.variables]


def test_a_tail_of_costly_requests_is_weighed() -> None:
    run = distalyze_run(hbase(1, 3_000, stale=0.015), SETTINGS)
    (one,) = run.tested
    assert one.tail.heavy
    assert one.weighted
    plain = distalyze_run(hbase(1, 3_000, stale=0.015), DistalyzeSettings(tail_weights="off"))
    assert not plain.tested[0].weighted

    def found(run: DistalyzeRun) -> float:
        """Mean of the lookup's first time in the slow class."""
        tests = run.tested[0].logs[0].tests
        place = [name.text for name in tests.names].index(REACHED)
        return float(tests.mean1[tests.types.index(FeatureType.FIRST), place])

    # The slow class is a fifth back-offs and four fifths disk; what costs a second counts for its cost.
    assert found(run) > 0.8 * BACKOFF_MS * 1e3 > found(plain)


def test_tail_weights_are_the_papers() -> None:
    p = np.array([10e3, 149e3, 150e3, 299e3, 300e3, 1e6, 1e9])
    tail = replace(tail_of(p, np.ones(7)), half_us=150e3)
    assert tail_weights(p, tail).tolist() == [1, 1, 2, 3, 4, 101, 1000]
    rng = np.random.default_rng(0)
    assert not tail_of(rng.normal(100, 5, 20_000), np.ones(20_000)).heavy
    assert tail_of(rng.lognormal(0, 1, 20_000), np.ones(20_000)).heavy


def test_nothing_diverges_where_requests_are_dealt_at_random() -> None:
    """A/A: of 20 splits at most one may show a component (a hundred: docs/internals/evaluation.md)."""
    shown = sum(
        bool(distalyze_run(split_at_random(hbase(seed, 250), seed, part), SETTINGS).components)
        for seed in range(10)
        for part in (0.5, 0.1)
    )
    assert shown <= 1


def two_periods(seed: int = 0, n: int = 200, more_ns: int = 20_000_000) -> Population:
    """A front end that calls two services; in the problem one of them takes 20 ms longer."""
    rng = np.random.default_rng(seed)
    steps = rng.lognormal(0, 0.4, (2 * n, 4)) * np.array([1e6, 8e6, 5e6, 1e6])
    problem = np.repeat([0, 1], n)
    steps[:, 2] += problem * more_ns
    times = np.concatenate([np.zeros((2 * n, 1)), np.cumsum(steps, axis=1)], axis=1)
    made = category(graph(("web/get", "cart/call", "ads/call", "ads/reply", "web/done")), times, problem)
    return population(made, samples=(Sample("reference"), Sample("problem")), statuses=("ok",))


def test_one_period_against_another() -> None:
    """A delay of all requests alike hangs together with nothing inside its period: both are looked at."""
    run = distalyze_run(two_periods(), SETTINGS)
    state = next(row for row in run.components if row.log_type == "state")
    assert state.variables[state.chain[-1]].text == "ads/reply after ads/call"
    event = top_event(run)
    assert event.variables[event.chain[-1]].text == "ads/reply reached"
    assert event.after == "ads/call reached"
    assert run.contrast.names == ("reference", "problem")


def asking_twice(seed: int, n: int, slow_us: float) -> list[Call]:
    """Requests of a page that asks two services, `GET` both times; the second takes longer."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(n):
        a, b, c, d = np.cumsum(rng.lognormal(0, 0.3, 4) * 5.0 + [0.0, 0.0, slow_us, 0.0])
        cart = call("cart/get", a * 0.9, a, kind=EventKind.SPAN_SERVER)
        ads = call("ads/get", b + 0.9 * (c - b), c, kind=EventKind.SPAN_SERVER)
        found.append(
            call(
                "web/page",
                0.0,
                d,
                call("web/GET", a * 0.8, a * 1.01, cart, kind=EventKind.SPAN_CLIENT),
                call("web/GET", b, c * 1.01, ads, kind=EventKind.SPAN_CLIENT),
                kind=EventKind.SPAN_SERVER,
            )
        )
    return found


def test_an_event_of_a_caller_tells_whom_it_calls() -> None:
    """What takes longer on the way to a service shows at its callers, who call `GET` wherever they go."""
    run = distalyze_run(refined(asking_twice(0, 60, 0.0), asking_twice(1, 60, 40.0)), SETTINGS)
    top = top_event(run)
    begins = top.variables[top.chain[-1]]
    assert (begins.component, begins.what, begins.measure) in (
        ("ads", "get", "starts"),
        ("web", "GET -> ads", "ends"),
    )
    told = {name.text for log in run.tested[0].logs for name in log.tests.names}
    assert {"web/GET -> cart starts", "web/GET -> ads ends"} < told
    assert not any(text.startswith("web/GET ") and "->" not in text for text in told)


def test_a_feature_counts_once_however_many_types_have_its_value() -> None:
    """Bonferroni divides by what can differ: a step that occurs once has one own time, not ten."""
    run = distalyze_run(two_periods(), SETTINGS)
    features, tests = run.features, [log.tests for log in run.tested[0].logs]
    assert features == sum(int(one.distinct.sum()) for one in tests)
    values = set()
    for one in tests:
        for place, name in enumerate(one.names):
            for t, p in zip(one.t[:, place], one.p[:, place], strict=True):
                if not np.isnan(p):
                    values.add((name.text, float(t), float(p)))
    # Nothing that differs is left out: every value of (t, p) of a variable is one of a distinct test.
    distinct = {
        (one.names[place].text, float(one.t[row, place]), float(one.p[row, place]))
        for one in tests
        for row, place in np.argwhere(one.distinct).tolist()
    }
    assert distinct == values
    assert run.level == SETTINGS.alpha / features
    # What is the same in all requests (the first point is at 0, each step occurs once) is no test.
    assert not any(
        "Count" in one.types[row] for one in tests for row, _ in np.argwhere(one.distinct).tolist()
    )


def test_a_host_against_the_rest() -> None:
    made = two_periods(more_ns=0)
    (one,) = made.categories
    rng = np.random.default_rng(1)
    bad = rng.random(one.n_requests) < 0.3
    times = one.node_ns.copy()
    times[3:, bad] += 30_000_000
    host = np.zeros(times.shape, np.int8)
    host[2:4] = np.where(bad, 2, 1)
    slow = replace(one, node_ns=times, response_ns=times[-1], host=host)
    hosted = replace(made, categories=(slow,), hosts=("w", "a1", "a2"), samples=(Sample("all"),))
    hosted = replace(hosted, categories=(replace(slow, sample=np.zeros_like(slow.sample)),))
    run = distalyze_run(hosted, DistalyzeSettings(host="a2"))
    assert run.contrast.names == ("the rest", "a2")
    state = next(row for row in run.components if row.log_type == "state")
    assert state.variables[state.chain[-1]].text == "ads/reply after ads/call"
    with pytest.raises(ConfigError, match="a9"):
        distalyze_run(hosted, DistalyzeSettings(host="a9"))


def in_windows(n: int = 2_000) -> Population:
    """60 windows of a minute, the second half slow on one host."""
    made = two_periods(n=n)
    (one,) = made.categories
    start = np.linspace(0, 60 * 60e9 - 1, one.n_requests).astype(np.int64)
    host = np.zeros(one.node_ns.shape, np.int8)
    host[1] = 1
    host[2:4] = 2
    return replace(
        made,
        categories=(replace(one, start_ns=start, host=host),),
        hosts=("w", "c", "a"),
        window_ns=60_000_000_000,
    )


def test_windows_as_instances() -> None:
    run = distalyze_run(in_windows(), DistalyzeSettings(instances="window"))
    (one,) = run.tested
    assert len(one.study.instances) == 60
    assert one.study.instances.performance_us[:30].mean() < one.study.instances.performance_us[30:].mean()
    text = {v.text for row in run.components for v in row.variables}
    assert "requests in flight" in text


def test_hosts_in_windows_as_instances() -> None:
    run = distalyze_run(in_windows(), DistalyzeSettings(instances="host"))
    (one,) = run.tested
    assert len(one.study.instances) == 180
    host = distalyze_run(in_windows(), DistalyzeSettings(instances="host", host="a"))
    assert int(host.tested[0].study.instances.problem.sum()) == 60


def test_what_cannot_be_held_against_each_other() -> None:
    whole = hbase(0, 300)
    for refused in (
        DistalyzeSettings(contrast="samples"),
        DistalyzeSettings(instances="window"),
        DistalyzeSettings(root=("no/such",)),
    ):
        with pytest.raises(ConfigError):
            distalyze_run(whole, refused)
    few = analyse(samples_of(hbase(0, 60)), None, SETTINGS, ReportLimits())
    assert few.verdict.outcome == "too-few"
    assert [weighed.sure for weighed in few.weighed] == [False]


def test_trivial_variables() -> None:
    rng = np.random.default_rng(3)
    p = rng.lognormal(3, 1, 200)
    problem = np.arange(200) % 2 == 0
    values = np.stack([p, p**2 + 5, -p, p * rng.lognormal(0, 0.5, 200), np.where(problem, p, 1.0)])
    values[0, :3] = np.nan
    assert trivial(values, p, problem).tolist() == [True, True, True, False, False]


def test_the_section_says_what_was_found() -> None:
    result = analyse(samples_of(hbase(2, 3_000)), None, SETTINGS, ReportLimits())
    (section,) = result.sections
    assert isinstance(section, DistalyzeSection)
    assert result.verdict.outcome == "divergence"
    assert LOOKUP in result.verdict.text
    assert section.significant <= section.significant_bh <= section.features
    assert section.variables[0].strength >= section.variables[-1].strength
    for component in section.components:
        assert 0 < len(component.variables) <= component.variables_total
        for variable in component.variables[1:]:
            told = variable.distribution
            assert told is not None
            assert sum(told.counts0) + told.absent0 == section.studies[0].instances0
            assert sum(told.counts1) + told.absent1 == section.studies[0].instances1
    features = result.tables["distalyze_features"]
    assert features.num_rows == section.features
    assert sum(features["significant"].to_pylist()) == section.significant


def test_the_same_again() -> None:
    one = analyse(samples_of(hbase(4, 1_500)), None, SETTINGS, ReportLimits())
    other = analyse(samples_of(hbase(4, 1_500)), None, SETTINGS, ReportLimits())
    assert one.sections == other.sections
    assert all(one.tables[name].equals(other.tables[name]) for name in one.tables)


def test_more_variables_than_a_network_has_room_for() -> None:
    """All are tested, those that diverge most are in the network."""
    run = distalyze_run(hbase(5, 1_500), DistalyzeSettings(network_variables=3, network_instances=100))
    assert all(row.variables_total <= 4 for row in run.components)
    assert run.features == distalyze_run(hbase(5, 1_500), SETTINGS).features
