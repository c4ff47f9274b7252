"""Cost of the watch's fast lane: 2,000 series, windows of five minutes in ticks of fifteen seconds; and of
cutting a window of 100,000 requests and about as many series, once and as it is kept.

    python tests/bench/bench_watch.py [SERIES]

The baseline, "every past value", finds the ranks of a window's values by comparing each with all 2,016 past
ones, as the fast lane did at first.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from oracles.stored_flows import stored_spans
from oracles.stored_lake import write_lake
from oracles.watched_series import EVENT_SD, MONDAY, names_of

from analyze.refine.settings import RefineSettings
from analyze.scope import Lakes
from analyze.watch.decide import UNCHANGED, Decision
from analyze.watch.series import Cut, Name, WindowTicks, rows_of, window_ticks
from analyze.watch.settings import WatchSettings
from analyze.watch.watcher import State, Watcher
from schemas.periods import Period
from schemas.windows import NS_PER_MINUTE, NS_PER_SECOND, Window

TICK_NS, TICKS = 15 * NS_PER_SECOND, 20
LEARNED, DECIDED = 2016, 11
"""Windows: a week is known, and the baseline is learned once."""
A_WEEK = 2016
EVENTS = 20.0


def window(rng: np.random.Generator, names: tuple[Name, ...], number: int) -> WindowTicks:
    series = np.tile(np.arange(len(names)), TICKS)
    tick = np.repeat(np.arange(TICKS), len(names))
    mean = 9 + rng.normal(0, 0.05, len(series))
    n = np.full(len(series), EVENTS)
    start = MONDAY + number * TICKS * TICK_NS
    squares = EVENTS * (mean**2 + EVENT_SD**2)
    requests = np.full(TICKS, 1000.0)
    return WindowTicks(
        start,
        TICK_NS,
        TICKS,
        names,
        rows_of(series, tick, n, n * mean, squares),
        requests,
    )


def every_past_value(rng: np.random.Generator, n_series: int) -> float:
    """CPU seconds a window for ranks alone, by the baseline."""
    past = np.sort(rng.normal(size=(n_series, WatchSettings().baseline_ticks)), axis=1)
    value = rng.normal(size=(n_series, TICKS))
    began = time.process_time()
    for tick in range(TICKS):
        (past >= value[:, tick, None]).sum(axis=1)
    return time.process_time() - began


REQUESTS, CATEGORIES, SPANS = 100_000, 20, 15
"""Of a window that is cut, and spans of a request."""


def cut_a_window() -> None:
    """Cut a window of a lake in a process of its own, which made none of it, and print what that cost."""
    with TemporaryDirectory() as home:
        lake, length = Path(home) / "lake", 10 * NS_PER_MINUTE
        flows, structures = stored_spans(1, REQUESTS, CATEGORIES, SPANS)
        write_lake(lake, flows.drop_columns(["sample"]), structures, window_ns=length)
        del flows, structures
        if not (child := os.fork()):
            (here,) = Lakes(str(lake)).listed([(Period(None, 0, length), [Window(0, length)])])
            took = []
            for _ in range(2):
                began = time.process_time()
                made = window_ticks(here, Cut(RefineSettings(), TICK_NS, WatchSettings().most_instances))
                took.append(time.process_time() - began)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            assert made is not None
            print(f"{REQUESTS:,} requests, {len(made.names):,} series, {made.n_ticks} ticks; CPU seconds")
            print(f"cut a window            {took[0]:.2f}, as it is kept {took[1]:.2f}")
            print(f"peak memory             {peak} MB", flush=True)
            os._exit(0)
        os.waitpid(child, 0)


def main() -> None:
    cut_a_window()
    n_series = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    rng, names = np.random.default_rng(1), names_of(n_series)
    state = State(lake_id="x", tick_ns=TICK_NS, through_ns=MONDAY)
    watcher = Watcher(state, WatchSettings(), lambda *_, **__: Decision(UNCHANGED, "unchanged"))
    learning, deciding = 0.0, list[float]()
    for number in range(LEARNED + DECIDED):
        made = window(rng, names, number)
        began = time.process_time()
        if number < LEARNED:
            watcher.learn(made)
            learning += time.process_time() - began
        else:
            watcher.decide(made)
            deciding.append(time.process_time() - began)
    between, mean = float(np.median(deciding)), float(np.mean(deciding[1:]))
    baseline = every_past_value(rng, n_series)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{n_series:,} series, {TICKS} ticks a window; CPU seconds")
    print(f"learn a window          {learning / LEARNED:.3f}")
    print(f"decide a window         {between:.3f}, every past value (ranks alone) {baseline:.3f}:", end=" ")
    print(f"{baseline / between:.0f} times")
    print(f"and learn the baseline  {max(deciding):.2f}")
    print(f"a week's replay         {mean * A_WEEK:.0f}, without comparisons")
    print(f"peak memory             {peak} MB")


if __name__ == "__main__":
    main()
