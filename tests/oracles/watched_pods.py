"""Windows of components whose instances come and go, without a lake, and of one call site beside them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from oracles.watched_series import EVENT_SD, MONDAY, WINDOW_NS, levels, names_of
from scipy.signal import lfilter

from analyze.watch.series import FAIL, INSTANCE, INSTANCE_FAIL, Name, WindowTicks, rows_of

FAILING = 0.002
"""Share of visits that fail anyway."""


def pod_windows(
    rng: np.random.Generator,
    n_windows: int,
    *,
    components: int = 4,
    pods: int = 5,
    ticks: int = 20,
    events: float = 10.0,
    apart: float = 0.05,
    drift: float = 0.05,
    rho: float = 0.6,
    rollouts: int = 0,
    slow: tuple[int, int, float] = (0, 0, 0.0),
) -> Iterator[WindowTicks]:
    """Give windows of pods, and of one call site beside them.

    events: visits of a pod in a tick, on average. Logs of own times are off for good (`apart`), and move by
    themselves (`drift`, from window to window by `rho`). rollouts: windows until all pods are other ones, one
    pod of each component a window. slow: first window, window past, and by how much (log) the third pod of
    the first component is slower meanwhile.
    """
    n, step = components * pods, rho ** (1 / ticks)
    noise = rng.standard_t(5, (n, n_windows * ticks)) * drift / np.sqrt(5 / 3) * np.sqrt(1 - step**2)
    moves = lfilter([1.0], [1.0, -step], noise, axis=1).reshape(n, n_windows, ticks)
    one_site = levels(rng, 1, n_windows, ticks=ticks)
    off = rng.normal(0, apart, n)
    names = [f"pod-{pod}-0" for pod in range(n)]
    for window in range(n_windows):
        replaced = window % rollouts if rollouts and window >= rollouts else n
        for one in range(n):
            if one % pods == replaced:
                names[one] = f"pod-{one}-{window}"
                off[one] = rng.normal(0, apart)
        mean = off[:, None] + moves[:, window]
        if slow[0] <= window < slow[1]:
            mean[2] += slow[2]
        visits = np.maximum(rng.poisson(events, mean.shape), 1).reshape(components, pods, ticks)
        mean = mean.reshape(visits.shape) + rng.normal(0, EVENT_SD, visits.shape) / np.sqrt(visits)
        fails = rng.binomial(visits, FAILING).astype(np.float64)
        every = visits.sum(axis=1, keepdims=True)
        den = visits * (every - visits) / every
        beyond = visits * (mean - (visits * mean).sum(axis=1, keepdims=True) / every)
        failing = fails - visits * fails.sum(axis=1, keepdims=True) / every
        named = [
            Name(kind, f"component-{pod // pods}", "", f"component-{pod // pods} on {names[pod]}")
            for kind in (INSTANCE, INSTANCE_FAIL)
            for pod in range(n)
        ]
        pod, tick = np.divmod(np.arange(n * ticks), ticks)
        den, beyond, failing = (part.reshape(-1) for part in (den, beyond, failing))
        told = failing != 0
        logs = one_site[0, window * ticks : (window + 1) * ticks]
        many = np.full(ticks, 10.0)
        rows = [
            rows_of(pod, tick, den, beyond, den * EVENT_SD**2 + beyond**2 / den),
            rows_of(n + pod[told], tick[told], 1.0, failing[told]),
            rows_of(
                np.full(ticks, 2 * n), np.arange(ticks), many, many * logs, many * (logs**2 + EVENT_SD**2)
            ),
        ]
        yield WindowTicks(
            MONDAY + window * WINDOW_NS,
            WINDOW_NS // ticks,
            ticks,
            (*named, *names_of(1)),
            np.concatenate(rows),
            np.full(ticks, 1000.0 / ticks),
        )


def rare_windows(
    rng: np.random.Generator,
    n_windows: int,
    *,
    visits: float,
    pods: int = 10,
    ticks: int = 4,
    first: int = 0,
    without: str = "",
    slow: tuple[str, int, float] = ("", 0, 0.0),
) -> Iterator[WindowTicks]:
    """Give windows of one component whose pods have few visits a tick, the first one a number.

    without: a pod that has none. slow: a pod, the window from which it is slower, and by how much (log).
    """
    site = Name(FAIL, "rare", "get", "rare/get < -")
    instances = [Name(INSTANCE, "rare", "", f"rare on pod-{pod}") for pod in range(pods)]
    for window in range(first, first + n_windows):
        n = rng.poisson(visits, (pods, ticks)).astype(np.float64)
        n[[one.of == without for one in instances]] = 0
        every = n.sum(axis=0)
        den = n * (every - n) / np.maximum(every, 1)
        off = rng.normal(0, EVENT_SD, n.shape) / np.sqrt(np.maximum(den, 0.1))
        off[[one.of == slow[0] and window >= slow[1] for one in instances]] += slow[2]
        there = np.flatnonzero(n.any(axis=1))
        pod, tick = np.nonzero(den[there] > 0)
        mine, x = den[there][pod, tick], off[there][pod, tick]
        at = np.flatnonzero(every)
        rows = [
            rows_of(pod, tick, mine, mine * x, mine * (EVENT_SD**2 + x * x)),
            rows_of(np.full(len(at), len(there)), at, every[at], np.zeros(len(at))),
        ]
        names = (*(instances[pod] for pod in there.tolist()), site)
        begin = MONDAY + window * WINDOW_NS
        yield WindowTicks(begin, WINDOW_NS // ticks, ticks, names, np.concatenate(rows), every)
