"""What a watch finds: quiet weeks, known steps, and labelled recordings as streams.

    python -m evaluation.watched quiet --weeks 24
    python -m evaluation.watched steps --sd 4
    python -m evaluation.watched recordings DIR --slot 10 --setting false_alarms='1 a day'

Series are made (`oracles.watched_series`), so quiet weeks and steps judge the fast lane alone: each candidate
of a quiet week is one that a comparison would have to drop. Recordings are decided by comparisons,
window by window, with nothing of the future.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from evaluation.recordings.kept_lakes import lake_of
from evaluation.recordings.labelled import read_recordings
from oracles.watched_series import MONDAY, TICK_NS, WEEK, levels, windows
from scipy import stats

from analyze.refine.settings import RefineSettings
from analyze.watch.decide import UNCHANGED, Decision
from analyze.watch.settings import WatchSettings
from analyze.watch.watcher import State, Watcher
from analyze.watch.watching import LakeWatch
from schemas.incidents import IncidentEvent
from schemas.periods import parse_period
from schemas.watch_tables import ChangePoint
from schemas.windows import NS_PER_SECOND

LEARNED = 2 * WEEK
HOUR, DAY = 12, 288
"""Ticks."""
SD = 0.2


def candidates(logs: np.ndarray, settings: WatchSettings, learned: int = LEARNED) -> list[ChangePoint]:
    """What the fast lane asks a comparison for, where none finds anything."""
    state = State(lake_id="x", tick_ns=TICK_NS, through_ns=MONDAY)
    watcher = Watcher(state, settings, lambda *_, **__: Decision(UNCHANGED, "unchanged"))
    found: list[ChangePoint] = []
    for number, window in enumerate(windows(logs)):
        if number < learned:
            watcher.learn(window)
        else:
            found += watcher.decide(window).change_points
    return found


def quiet(seed: int, weeks: int, series: int, settings: WatchSettings, day: float) -> dict[str, Any]:
    """Weeks of seasons, autocorrelation, heavy tails, levels of days and odd ticks, each of its own seed with
    nothing known at its start: candidates, and alarming windows of the naive rule."""
    began = time.process_time()
    found, naive = [], []
    for each in range(seed, seed + weeks):
        made = levels(np.random.default_rng(each), series, WEEK, sd=SD, day=day, blips=2)
        found.append(candidates(made, settings, learned=0))
        naive.append(alarming(made))
    first = sum(_tick(one.at_ns) < DAY for points in found for one in points)
    return {
        "weeks": weeks,
        "candidates": [len(points) for points in found],
        "of the first day": first,
        "naive": [int(each) for each in naive],
        "cpu_s": time.process_time() - began,
    }


def alarming(logs: np.ndarray) -> int:
    """Windows in which some series differs from its last hour (Student's t, Benjamini and Hochberg, 5 %)."""
    past = np.lib.stride_tricks.sliding_window_view(logs, HOUR, axis=1)[:, :-1]
    t = (logs[:, HOUR:] - past.mean(axis=2)) / (past.std(axis=2, ddof=1) * np.sqrt(1 + 1 / HOUR))
    p = np.sort(stats.t.sf(np.abs(t), HOUR - 1) * 2, axis=0)
    return int((p <= 0.05 * np.arange(1, len(p) + 1)[:, None] / len(p)).any(axis=0).sum())


def steps(seed: int, sd: float, series: int, settings: WatchSettings) -> dict[str, Any]:
    """Twenty steps of a known size in a week, an hour and a half each."""
    rng = np.random.default_rng(seed)
    made = levels(rng, series, LEARNED + WEEK, sd=SD)
    truth = {place: LEARNED + 50 + 95 * place for place in range(20)}
    for place, at in truth.items():
        made[place, at : at + 18] += sd * SD
    found = candidates(made, settings)
    delays, near, false = [], 0, 0
    for place, at in truth.items():
        mine = [one for one in found if at <= _tick(one.at_ns) < at + 24 and f"/op-{place} <" in one.series]
        if mine:
            delays.append(_tick(mine[0].at_ns) - at)
            near += abs(_tick(mine[0].onset_ns) + 1 - at) <= 1
    false = sum(not any(at <= _tick(one.at_ns) < at + 30 for at in truth.values()) for one in found)
    middle = median(delays) if delays else None
    return {
        "seed": seed,
        "sd": sd,
        "found": len(delays),
        "of": 20,
        "delay": middle,
        "near": near,
        "others": false,
    }


def _tick(ns: int) -> int:
    return (ns - MONDAY) // TICK_NS - 1


def recordings(folder: Path, root: Path, settings: WatchSettings) -> list[dict[str, Any]]:
    """Each recording as a stream, judged by its labels."""
    rows = []
    entries = json.loads((folder / "cases.json").read_text())
    for entry, recording in zip(entries, read_recordings(folder), strict=True):
        lake = lake_of(recording, root)
        began = time.process_time()
        watch = LakeWatch(str(lake), settings, RefineSettings(), "evaluation", "evaluation")
        decided = list(watch.replay(parse_period("all", now_ns=0)))
        points = [point for one in decided for point in one.change_points]
        events = [event for one in decided for event in one.events]
        assert watch.watcher is not None
        rows.append(
            {
                "recording": recording.name,
                **judged(entry["cases"], points, events, watch.watcher.tick_ns),
                "comparisons": sum(one.run.comparisons for one in decided if one.run is not None),
                "cpu_s": time.process_time() - began,
            }
        )
    return rows


def judged(
    cases: Sequence[dict[str, Any]], points: Sequence[ChangePoint], events: Sequence[IncidentEvent], tick: int
) -> dict[str, Any]:
    """Candidates that became incidents, held against the labels.

    A fault is found where a candidate was confirmed while it was there (or began there); covered where an
    incident of its service was open meanwhile; right first where the comparison's first finding names its
    service.
    """
    faults = [{**case, "a": _ns(case["injected"]), "b": _ns(case["problem"].split("/")[1])} for case in cases]
    found: dict[str, list[tuple[float, float, bool]]] = {}
    false = []
    for point in points:
        if not point.incident:
            continue
        fault = _fault_of(faults, point, tick)
        if fault is None:
            false.append(point.headline)
            continue
        told = (
            (point.at_ns - fault["a"]) / 1e9,
            abs(point.onset_ns - fault["a"]),
            fault["service"] in point.places,
        )
        found.setdefault(fault["id"], []).append(told)
    visible = [fault for fault in faults if fault["visible"]]
    mine = [found[fault["id"]][0] for fault in visible if fault["id"] in found]
    opened = sum(event.kind == "opened" for event in events)
    return {
        "visible": len(visible),
        "found": len(mine),
        "covered": sum(_is_covered(f, events) for f in visible if f["id"] not in found),
        "first": sum(right for _, _, right in mine),
        "delay_s": median(delay for delay, _, _ in mine) if mine else None,
        "onset_in_a_tick": sum(off <= tick for _, off, _ in mine),
        "incidents": opened,
        "false": false,
        "invisible": sum(fault["visible"] is False and fault["id"] in found for fault in faults),
    }


def _fault_of(faults: Sequence[dict[str, Any]], point: ChangePoint, tick: int) -> dict[str, Any] | None:
    there = [f for f in faults if f["a"] < point.at_ns <= f["b"] + tick]
    began = [f for f in faults if f["a"] - tick <= point.onset_ns < f["b"] and point.at_ns > f["a"]]
    return next(iter((*there, *began)), None)


def _is_covered(fault: dict[str, Any], events: Sequence[IncidentEvent]) -> bool:
    """Whether an incident of its service was open half a minute after it began, or later in it."""
    going: dict[str, int] = {}
    for event in events:
        if event.kind == "opened" and event.incident.component == fault["service"]:
            going[event.incident_id] = event.at_ns
        elif event.kind == "resolved":
            since = going.pop(event.incident_id, fault["b"])
            if since < fault["b"] and event.at_ns > fault["a"] + 30 * NS_PER_SECOND:
                return True
    return any(at < fault["b"] for at in going.values())


def _ns(text: str) -> int:
    return int(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()) * NS_PER_SECOND


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=("quiet", "steps", "recordings"))
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--weeks", type=int, default=20)
    parser.add_argument("--series", type=int, default=100)
    parser.add_argument("--sd", type=float, default=4.0)
    parser.add_argument(
        "--day", type=float, default=0.3, help="Spread of levels of days, in standard deviations."
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--slot", type=int, default=0, help="Seconds; 0: windows as they are.")
    parser.add_argument("--setting", action="append", default=[], metavar="NAME=VALUE")
    given = parser.parse_args()
    told = dict(text.split("=", 1) for text in given.setting)
    settings = WatchSettings.model_validate({"slot_ns": given.slot * NS_PER_SECOND, **told})
    runs: dict[str, Callable[[], Any]] = {
        "quiet": lambda: quiet(given.seed, given.weeks, given.series, settings, given.day * SD),
        "steps": lambda: steps(given.seed, given.sd, given.series, settings),
        "recordings": lambda: recordings(given.folder, Path(__file__).parents[2], settings),
    }
    print(json.dumps(runs[given.what](), indent=1))


if __name__ == "__main__":
    main()
