"""Counter-based draws: right laws, reproducible, and independent of the order of events."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.engine import SimulatedFlow, Strand
from simulator.parameters import STATIONS
from simulator.streams import (
    Law,
    StreamSpec,
    Weather,
    build_streams,
    quantile_table,
    request_key,
    request_keys,
    unit_interval,
)


@pytest.mark.parametrize(
    ("law", "c2", "mean", "measured_c2"),
    [
        (Law.LOGNORMAL, 0.3, 1.0, 0.3),
        (Law.LOGNORMAL, 4.0, 1.0, 4.0),
        (Law.EXPONENTIAL, 0.0, 1.0, 1.0),
        (Law.UNIFORM, 0.0, 0.5, 1 / 3),
        (Law.NORMAL, 0.09, 1.0, 0.09),
    ],
)
def test_table_has_the_law_it_names(law: Law, c2: float, mean: float, measured_c2: float) -> None:
    table = np.array(quantile_table(law, c2))
    assert table.mean() == pytest.approx(mean, rel=0.01)
    # The tail beyond 1/2^19 is missing from a finite table: a few per cent of a heavy law's variance.
    assert table.var() / table.mean() ** 2 == pytest.approx(measured_c2, rel=0.06)


def test_one_key_at_a_time_equals_all_at_once() -> None:
    uids = np.array([0, 1, 2, 63, 64, 10**9, 2**40 + 7])
    for seed in (0, 1, 123456789012345):
        for purpose in (0, 2):
            keys = request_keys(seed, uids, purpose).tolist()
            assert keys == [request_key(seed, int(u), purpose) for u in uids]


def test_keys_differ_between_seeds_purposes_and_requests() -> None:
    uids = np.arange(50_000) << 6
    keys = np.concatenate([request_keys(s, uids, p) for s in (0, 1) for p in (0, 1)])
    assert len(np.unique(keys)) == len(keys)
    assert unit_interval(keys).mean() == pytest.approx(0.5, abs=0.005)


def _strand(key: int, n_streams: int) -> Strand:
    return Strand(SimulatedFlow(0), 0, key, 0.0, n_streams)


def test_a_visit_costs_the_same_whatever_happened_at_other_stations() -> None:
    streams = build_streams([StreamSpec("a", "nfs", 10, 0.3), StreamSpec("b", "mds", 10, 1.0)])
    key = request_key(1, 77, 0)
    alone, mingled = _strand(key, 2), _strand(key, 2)
    expected = [alone.draw(streams["a"]) for _ in range(5)]
    got = []
    for _ in range(5):
        mingled.draw(streams["b"])
        got.append(mingled.draw(streams["a"]))
    assert got == expected
    assert len(set(expected)) == 5


def test_draws_of_requests_are_independent() -> None:
    streams = build_streams([StreamSpec("u", "", 1e-3, law=Law.UNIFORM)])
    keys = request_keys(3, np.arange(4_000) << 6, 0).tolist()
    draws = np.array([[s.draw(streams["u"]) for _ in range(6)] for s in (_strand(k, 1) for k in keys)])
    correlation = np.corrcoef(draws.T) - np.eye(6)
    assert np.abs(correlation).max() < 0.06
    # Neither do three draws of a strand lie on planes: the second difference is not concentrated.
    second = (draws[:, 0] - 2 * draws[:, 1] + draws[:, 2]) % 1.0
    counts = np.histogram(second, bins=20, range=(0, 1))[0]
    assert counts.max() < 1.3 * counts.mean()


def test_weather_is_shared_noise_of_the_size_asked_for() -> None:
    logs = []
    for seed in range(400):
        weather = Weather(seed, 0, STATIONS, 0.03, 0.05, 0.6)
        for _ in range(3):
            weather.next_minute()
        logs.append([np.log(weather.factor(s)) for s in STATIONS])
    spread = np.std(logs)
    assert spread == pytest.approx(np.hypot(0.03, 0.05), rel=0.1)
    assert Weather(5, 0, STATIONS, 0.03, 0.05, 0.6).factor("mds") == Weather(
        5, 0, STATIONS, 0.03, 0.05, 0.6
    ).factor("mds")


def test_weather_between_runs_is_common_to_the_shards() -> None:
    one, other = (Weather(9, shard, STATIONS, 0.03, 0.0, 0.6) for shard in (0, 4))
    assert [one.factor(s) for s in STATIONS] == [other.factor(s) for s in STATIONS]
