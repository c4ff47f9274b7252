"""Counter-based random draws: a draw is a pure function of (seed, request, station, visit).

A run with a fault and the run without it therefore share their noise (common random numbers), however much
the fault reorders events: the *n*-th visit of a request to a station costs the same draw in both. A numpy
generator per draw would cost microseconds; here a draw is one multiplication and one table look-up.

How: every strand has two 30-bit numbers (a, b), hashed from the seed and the request's id; draw number k of
the strand is entry `(a + k·b) mod 2^18` of a table of quantiles in random order. For two strands to share
more than a draw or two both a and b must agree modulo 2^18, so requests are as good as independent, and the
random order of the table breaks the linear relation between one strand's draws.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

TABLE_BITS = 18
MASK = (1 << TABLE_BITS) - 1
VISITS_PER_STREAM = 1 << 12
"""Number of draws that one strand can make from one stream before they repeat draws from the next stream."""
_SPREAD = 0x9E3779B97F4A7C15
_ALL = (1 << 64) - 1


class Law(Enum):
    """Distribution of a service time, scaled to mean 1."""

    LOGNORMAL = "lognormal"
    EXPONENTIAL = "exponential"
    NORMAL = "normal"
    """Normal with the given squared coefficient of variation (C²), truncated below at 4 % of the mean."""
    UNIFORM = "uniform"
    """Uniform on (0, 1): mean 1/2, for random decisions."""


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """Specification of a source of randomness: a kind of work at a station.

    A stream whose `station` is empty has no slow noise (`Weather`).
    """

    name: str
    station: str
    mean_us: float
    c2: float = 0.0
    law: Law = Law.LOGNORMAL


class Stream:
    """Source of randomness at run time.

    `mean_ns` changes with the slow noise (`Weather`) of its station; `table` has mean 1.
    """

    __slots__ = ("base_ns", "key", "mean_ns", "number", "station", "table")

    def __init__(self, number: int, spec: StreamSpec, table: list[float]) -> None:
        self.number = number
        self.key = number * VISITS_PER_STREAM
        self.station = spec.station
        self.base_ns = spec.mean_us * 1e3
        self.mean_ns = self.base_ns
        self.table = table


@cache
def quantile_table(law: Law, c2: float) -> list[float]:
    """Quantiles of a distribution at (i + ½)/2^18, mean 1 (uniform: mean ½), in a fixed random order.

    c2: squared coefficient of variation, for LOGNORMAL and NORMAL.
    """
    size = 1 << TABLE_BITS
    uniform = (np.random.Generator(np.random.Philox(key=TABLE_BITS)).permutation(size) + 0.5) / size
    if law is Law.UNIFORM:
        values = uniform
    elif law is Law.EXPONENTIAL:
        values = -np.log(uniform)
    elif law is Law.NORMAL:
        values = np.maximum(0.04, 1.0 + math.sqrt(c2) * ndtri(uniform))
    else:
        sigma = math.sqrt(math.log1p(c2))
        values = np.exp(sigma * ndtri(uniform) - sigma * sigma / 2.0)
    table: list[float] = values.tolist()
    return table


def build_streams(specs: Sequence[StreamSpec]) -> dict[str, Stream]:
    """Name -> stream, numbered in the given order; streams of one shape share a table. Names must be
    unique."""
    if len({spec.name for spec in specs}) < len(specs):
        raise ValueError("two streams have one name")
    return {
        spec.name: Stream(number, spec, quantile_table(spec.law, spec.c2))
        for number, spec in enumerate(specs)
    }


def mix(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Splitmix64 finaliser, elementwise: a bijection of 64-bit numbers that scatters neighbours."""
    x = values.astype(np.uint64)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def request_keys(seed: int, uids: npt.NDArray[np.int64], purpose: int) -> npt.NDArray[np.uint64]:
    """[requests] 64-bit key of each request id, independent between seeds and purposes."""
    salt = np.uint64((seed * 0xD1B54A32D192ED03 + (purpose + 1) * _SPREAD) % (1 << 64))
    # Two rounds: were the salt a mere shift of the id, seeds would share keys of other requests.
    return mix(mix(uids.astype(np.uint64) * np.uint64(_SPREAD) + salt) ^ salt)


def request_key(seed: int, uid: int, purpose: int) -> int:
    """`request_keys` for one request, in plain Python: for requests that only exist under a fault."""
    salt = (seed * 0xD1B54A32D192ED03 + (purpose + 1) * _SPREAD) & _ALL
    return mix_one(mix_one((uid * _SPREAD + salt) & _ALL) ^ salt)


def mix_one(x: int) -> int:
    """`mix` for one number below 2^64, in plain Python."""
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & _ALL
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & _ALL
    return x ^ (x >> 31)


def unit_interval(keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.float64]:
    """Keys as float64 numbers in [0, 1)."""
    return (keys >> np.uint64(11)).astype(np.float64) * 2.0**-53


WORKLOAD, RUN_WEATHER, MINUTE_WEATHER = 0, 1, 2
"""Purposes of numpy generators (`generator`): (workload, slow noise of a run, slow noise of a minute)."""


def generator(seed: int, purpose: int, *words: int) -> np.random.Generator:
    """Numpy generator for bulk draws, independent between seeds, purposes and words."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, purpose, *words])))


class Weather:
    """Slow noise, shared by the requests at a station, by which two otherwise equal runs differ.

    Per station one factor for the run (log-sd `run_sd`) times an AR(1) over minutes (`rho`, stationary log-sd
    `minute_sd`). A function of (seed, shard, station, minute) only; the run factor is shared by the shards.
    """

    def __init__(
        self, seed: int, shard: int, stations: Sequence[str], run_sd: float, minute_sd: float, rho: float
    ) -> None:
        self._rho, self._innovation_sd = rho, minute_sd * math.sqrt(1.0 - rho * rho)
        self._run: dict[str, float] = {}
        self._level: dict[str, float] = {}
        self._source: dict[str, np.random.Generator] = {}
        for i, station in enumerate(stations):
            self._run[station] = run_sd * float(generator(seed, RUN_WEATHER, i).standard_normal())
            source = generator(seed, MINUTE_WEATHER, shard, i)
            self._source[station] = source
            self._level[station] = minute_sd * float(source.standard_normal())

    def factor(self, station: str) -> float:
        """Factor on the station's service times in the current minute."""
        return math.exp(self._run[station] + self._level[station])

    def next_minute(self) -> None:
        """Advance every station's AR(1) by one minute."""
        for station, source in self._source.items():
            step = self._innovation_sd * float(source.standard_normal())
            self._level[station] = self._rho * self._level[station] + step
