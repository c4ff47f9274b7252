"""What a watch finds: quiet weeks, known steps, and labelled recordings as streams.

    python -m evaluation.watched quiet --weeks 24
    python -m evaluation.watched steps --sd 4
    python -m evaluation.watched weeks --learned 4 --days 4
    python -m evaluation.watched days --learned 14 --days 3
    python -m evaluation.watched deployments --many 100
    python -m evaluation.watched recordings DIR --slot 10 --setting false_alarms='1 a day'

`quiet` and `steps` have made series (`oracles.watched_series`) and judge the fast lane alone: each candidate
of a quiet week is one that a comparison would have to drop. The others go through a lake and are decided by
comparisons, window by window, with nothing of the future.
"""

from __future__ import annotations

import argparse
import io
import json
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from evaluation.recordings.kept_lakes import lake_of
from evaluation.recordings.labelled import read_recordings
from evaluation.seen_daily import is_reported, seen_daily
from oracles.quiet_import import Quiet
from oracles.watched_series import MONDAY, WEEK, WINDOW_NS, levels, windows
from oracles.watched_shop import write_minutes
from oracles.watched_week import OWN_MS, REQUESTS, WINDOWS_A_DAY, Change, write_days
from scipy import stats

from analyze.refine.settings import RefineSettings
from analyze.watch.baseline import usable, values
from analyze.watch.decide import CHANGED, UNCHANGED, Comparer, Decision, Range
from analyze.watch.incidents import place_of
from analyze.watch.series import tick_length
from analyze.watch.settings import WatchSettings
from analyze.watch.slow_lane import compared_day
from analyze.watch.watcher import State, Watcher
from analyze.watch.watching import LakeWatch
from schemas.incidents import IncidentEvent, LaneName
from schemas.periods import Period, parse_period
from schemas.watch_tables import ChangePoint
from schemas.windows import NS_PER_DAY, NS_PER_MINUTE, NS_PER_SECOND
from stitch.drivers.batch import import_into
from stitch.drivers.import_settings import ImportSettings

LEARNED = 2 * WEEK
"""Before the steps."""
HOUR, DAY = 12, 288
"""Ticks."""
EFFECTS = 31
"""Windows from the beginning of a step until what it left in the sums is gone."""
SD = 0.2


def candidates(
    logs: np.ndarray, ticks: int, settings: WatchSettings, learned: int, changes: Iterable[int] = ()
) -> list[ChangePoint]:
    """What the fast lane asks a comparison for, which refutes what does not end in a change; `ticks` in a
    window, a change for so long as its effects."""
    began = MONDAY + learned * WINDOW_NS
    state = State(lake_id="x", tick_ns=WINDOW_NS // ticks, through_ns=began, began_ns=began)

    def decide(reference: object, problem: Sequence[Range], history: object, **_: object) -> Decision:
        at = _window(problem[-1][1])
        is_change = any(first < at <= first + EFFECTS for first in changes)
        return Decision(CHANGED, "changed") if is_change else Decision(UNCHANGED, "unchanged")

    watcher = Watcher(state, settings, decide)
    found: list[ChangePoint] = []
    for number, window in enumerate(windows(logs, ticks=ticks)):
        if number < learned:
            watcher.learn(window)
        else:
            found += watcher.decide(window).change_points
    return found


def quiet(seed: int, weeks: int, series: int, settings: WatchSettings, day: float) -> dict[str, Any]:
    """Weeks of seasons, autocorrelation, heavy tails, levels of days and odd ticks, each of its own seed with
    nothing known at its start: candidates, and alarming windows of the naive rule."""
    began = time.process_time()
    ticks = WINDOW_NS // tick_length(WINDOW_NS, settings.slot_ns)
    found, naive = [], []
    for each in range(seed, seed + weeks):
        made = levels(np.random.default_rng(each), series, WEEK, ticks=ticks, sd=SD, day=day, blips=2)
        found.append(candidates(made, ticks, settings, learned=0))
        naive.append(alarming(made.reshape(series, WEEK, ticks).mean(axis=2)).sum())
    first = sum(_window(one.at_ns) < DAY for points in found for one in points)
    return {
        "weeks": weeks,
        "candidates": [len(points) for points in found],
        "of the first day": first,
        "naive": [int(each) for each in naive],
        "cpu_s": time.process_time() - began,
    }


def alarming(logs: np.ndarray) -> np.ndarray:
    """[ticks behind the first HOUR] whether some series differs from its HOUR ticks before (Student's t,
    Benjamini and Hochberg, 5 %): the naive rule."""
    past = np.lib.stride_tricks.sliding_window_view(logs, HOUR, axis=1)[:, :-1]
    spread = past.std(axis=2, ddof=1) * np.sqrt(1 + 1 / HOUR)
    t: np.ndarray = (logs[:, HOUR:] - past.mean(axis=2)) / np.where(spread > 0, spread, np.nan)
    p = np.sort(np.nan_to_num(stats.t.sf(np.abs(t), HOUR - 1) * 2, nan=1.0), axis=0)
    found: np.ndarray = np.any(p <= 0.05 * np.arange(1, len(p) + 1)[:, None] / len(p), axis=0)
    return found


def steps(seed: int, sd: float, series: int, settings: WatchSettings) -> dict[str, Any]:
    """Twenty steps of a known size in a week, an hour and a half each; delays in windows. A week before is
    learned, and one behind it is decided."""
    rng, began = np.random.default_rng(seed), time.process_time()
    ticks = WINDOW_NS // tick_length(WINDOW_NS, settings.slot_ns)
    made = levels(rng, series, LEARNED + WEEK, ticks=ticks, sd=SD)
    truth = {place: LEARNED + 50 + 95 * place for place in range(20)}
    for place, at in truth.items():
        made[place, at * ticks : (at + 18) * ticks] += sd * SD
    every = candidates(made, ticks, settings, WEEK, truth.values())
    found = [one for one in every if _window(one.at_ns) > LEARNED]
    delays, near = [], 0
    for place, at in truth.items():
        mine = [one for one in found if at < _window(one.at_ns) <= at + 25 and f"/op-{place} <" in one.series]
        if mine:
            delays.append(_window(mine[0].at_ns) - at)
            near += abs(_window(mine[0].onset_ns) - at) <= 1
    false = sum(not any(at < _window(one.at_ns) <= at + EFFECTS for at in truth.values()) for one in found)
    return {
        "seed": seed,
        "sd": sd,
        "found": len(delays),
        "of": 20,
        "delay": median(delays) if delays else None,
        "near": near,
        "others": false,
        "of the week before": len(every) - len(found),
        "cpu_s": time.process_time() - began,
    }


LARGE, SMALL = (1.5, 2.0), 1.2
"""Factors of own times: an hour and a half, and a day."""


def changes_of(first: int, days: int) -> list[Change]:
    """Five a day: four of an hour and a half (a service half as slow again, twice as slow, or failing a tenth
    of its calls), and one of the whole day that is small."""
    services, found = [*OWN_MS][1:], list[Change]()
    for day in range(first, first + days):
        midnight = day * WINDOWS_A_DAY
        for number in range(4):
            at = midnight + 20 + number * 66
            service = services[(day + number) % len(services)]
            sizes = ({"slower": LARGE[0]}, {"slower": LARGE[1]}, {"failing": 0.1}, {"slower": LARGE[0]})
            found.append(Change(service, at, at + 18, **sizes[number]))
        found.append(
            Change(services[(day + 4) % len(services)], midnight, midnight + WINDOWS_A_DAY, slower=SMALL)
        )
    return found


def weeks(seed: int, learned: int, days: int, is_quiet: bool, lakes: Path) -> dict[str, Any]:
    """Days of a made system (60 requests in a window of five minutes, six services) through a lake: imported,
    watched with default settings, decided by comparisons, the daily lane too. The lake is kept in `lakes`."""
    changes, began = [] if is_quiet else changes_of(learned, days), time.process_time()
    lake = lakes / f"{'quiet' if is_quiet else 'changed'}-{seed}-{learned}-{days}"
    make_days(lake, seed, learned + days + 1, changes, WINDOW_NS, REQUESTS)
    made_s, began = time.process_time() - began, time.process_time()
    watch = LakeWatch(str(lake), WatchSettings(), RefineSettings(), "evaluation", "evaluation")
    decided = list(watch.replay(Period(None, MONDAY + learned * WINDOWS_A_DAY * WINDOW_NS, 2**63 - 1)))
    events = [event for one in decided for event in one.events]
    points = [point for one in decided for point in one.change_points]
    runs = [one.run for one in decided if one.run is not None]
    return {
        "seed": seed,
        "days": days,
        **judged_changes(changes, events, seen_daily(changes, seed, learned, days, REQUESTS)),
        "outcomes of missed": outcomes(changes, events, points),
        "candidates": sum(run.candidates for run in runs),
        "comparisons": sum(run.comparisons for run in runs),
        "cpu_s": {"lake": made_s, "watch": time.process_time() - began},
    }


def days(
    seed: int, learned: int, n: int, is_quiet: bool, lakes: Path, least_noise: float | None
) -> dict[str, Any]:
    """The daily comparison alone, of days behind those that are learned, without short changes: the system
    of `weeks` with 20 requests in five minutes, in windows of an hour."""
    changes, began = [] if is_quiet else changes_of(learned, n), time.process_time()
    lake = lakes / f"{'quiet' if is_quiet else 'changed'}-days-{seed}-{learned}-{n}"
    length = HOUR * WINDOW_NS
    requests = 20
    make_days(lake, seed, learned + n, changes, length, requests)
    long = [change for change in changes if change.past - change.first >= WINDOWS_A_DAY]

    def windows_of(start: int, end: int) -> list[Range]:
        return [(at, at + length) for at in range(max(start, MONDAY), end, length)]

    def quiet_ones(ranges: Sequence[Range], *, small: Collection[LaneName] = ()) -> list[Range]:
        loud = [change for change in changes if small or change not in long]
        return [(a, b) for a, b in ranges if all(b <= c.start_ns or a >= c.end_ns for c in loud)]

    decide = Comparer.of(str(lake), RefineSettings())
    rows: list[dict[str, Any]] = []
    if least_noise is not None:
        decided_by = decide.chosen.settings.model_copy(update={"min_tau": least_noise})
        decide.chosen = replace(decide.chosen, settings=decided_by)
    for day in range(learned, learned + n):
        at = (MONDAY + day * WINDOWS_A_DAY * WINDOW_NS) // NS_PER_DAY
        found = compared_day(at, windows_of, quiet_ones, decide)
        assert found is not None
        rows.append(
            {
                "day": day,
                "slower": [change.service for change in long if change.day == day],
                "outcome": found.outcome,
                "found": [finding.title for finding in found.findings],
                "places": [place_of(finding) for finding in found.findings if not finding.is_better],
            }
        )
    alone = [change for change in changes if change in long]
    seen = seen_daily(alone, seed, learned, n, requests)
    found_at = {(row["day"], place) for row in rows for place in row["places"]}
    return {
        "seed": seed,
        "rows": rows,
        "could be seen": [f"{change.service} on day {change.day}" for change in seen],
        "of these found": sum((change.day, change.service) in found_at for change in seen),
        "cpu_s": time.process_time() - began,
    }


def make_days(
    lake: Path, seed: int, n: int, changes: Sequence[Change], window_ns: int, requests: int
) -> None:
    """Make a lake of days, which are imported one by one, unless it is there."""
    if lake.exists():
        return
    lake.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=lake.parent) as home:
        for day in range(n):
            file = Path(home) / "day.otlp.jsonl"
            write_days(file, seed, day, day + 1, changes, requests)
            imported(Path(home) / "lake", file, window_ns)
        (Path(home) / "lake").rename(lake)


def outcomes(
    changes: Sequence[Change], events: Sequence[IncidentEvent], points: Sequence[ChangePoint]
) -> list[str]:
    """What comparisons said during each change that opened no incident."""
    found = {event.incident.component for event in events}
    told = []
    for change in changes:
        mine = [p for p in points if change.start_ns < p.at_ns <= change.end_ns + WINDOW_NS]
        if any(p.incident for p in mine) and change.service in found:
            continue
        text = [f"{p.outcome} {(p.at_ns - change.start_ns) // NS_PER_MINUTE} {p.series[:40]}" for p in mine]
        told.append(f"{change.service} x{change.slower} +{change.failing}: {'; '.join(text[:8]) or 'none'}")
    return told


def judged_changes(
    changes: Sequence[Change], events: Sequence[IncidentEvent], seen: Collection[Change]
) -> dict[str, Any]:
    """Incidents beside the changes: an incident is of the change of its component that went on when it was
    opened, or on its day. seen: those that a daily comparison could see."""
    opened = [event for event in events if event.kind == "opened"]
    of: dict[int, list[IncidentEvent]] = {}
    false = []
    for event in opened:
        one, slack = event.incident, WINDOWS_A_DAY if event.incident.lane != "fast" else 1
        mine = [
            number
            for number, change in enumerate(changes)
            if change.service == one.component
            and change.start_ns < event.at_ns <= change.end_ns + slack * WINDOW_NS
        ]
        if mine:
            of.setdefault(mine[0], []).append(event)
        else:
            at_window = (event.at_ns - MONDAY) / WINDOW_NS
            false.append(f"{one.lane} in window {at_window:.1f} {one.headline}")
    short = [number for number, change in enumerate(changes) if change.past - change.first < WINDOWS_A_DAY]
    fast = [(changes[n], of[n][0]) for n in short if n in of]
    delays = [(event.at_ns - change.start_ns) / WINDOW_NS for change, event in fast]
    onsets = [abs(event.incident.began_to_ns - change.start_ns) / WINDOW_NS for change, event in fast]
    return {
        "changes": len(changes),
        "short": len(short),
        "short found": len(fast),
        "of a day found": sum(n in of for n in range(len(changes)) if n not in short),
        "a day could see": len(seen),
        "of these found": sum(change in seen for n, change in enumerate(changes) if n in of),
        "and a comparison reports so much": sum(is_reported(change) for change in seen),
        "of those found": sum(
            change in seen and is_reported(change) for n, change in enumerate(changes) if n in of
        ),
        "missed": [f"{c.service} x{c.slower} +{c.failing}" for n, c in enumerate(changes) if n not in of],
        "delay in windows": median(delays) if delays else None,
        "onset within a window": sum(onset <= 1 for onset in onsets),
        "one incident": sum(len({event.incident_id for event in found}) == 1 for found in of.values()),
        "false": false,
    }


ROLLOUTS: dict[str, tuple[float, dict[int, str]]] = {
    "canary of 10 %": (0.1, {21: "v2"}),
    "canary of 30 %": (0.3, {21: "v2"}),
    "rolling, 40, 64, 78 %": (0.4, {21: "v2", 24: "v2", 27: "v2"}),
    "all at once": (1.0, {21: "v2"}),
}
"""Share of the requests that each step gives to the new version, and the minutes of the steps."""


def deployments(seed: int, many: int, extra_ms: float) -> dict[str, Any]:
    """New versions of the cart in a shop of a request a second, twenty minutes known, each way of rolling out
    in turn: `many` that change nothing, and a tenth of them that take `extra_ms` more (the cart: 2 ms)."""
    rows = []
    for number in range(many + many // 10):
        share, versions = [*ROLLOUTS.values()][number % len(ROLLOUTS)]
        slow = "v2" if number >= many else ""
        with TemporaryDirectory() as home:
            events = rollout(Path(home), seed + number, share, versions, slow, extra_ms)
        incidents = {event.incident_id: event.incident for event in events}
        rows.append((number >= many, [*incidents.values()]))
    quiet_ones = [found for is_slow, found in rows if not is_slow]
    slow_ones = [found for is_slow, found in rows if is_slow]
    return {
        "quiet": len(quiet_ones),
        "silent": sum(not found for found in quiet_ones),
        "slow": len(slow_ones),
        "found": sum(bool(found) for found in slow_ones),
        "named": sum(any(one.version == "v2" and one.component == "cart" for one in f) for f in slow_ones),
        "incidents": sum(len(found) for found in slow_ones),
        "false": [one.headline for found in quiet_ones for one in found],
    }


def rollout(
    home: Path, seed: int, share: float, versions: dict[int, str], slow: str, extra_ms: float
) -> list[IncidentEvent]:
    """What a watch says of one deployment, with its default settings; windows are minutes."""
    lake, events = home / "lake", list[IncidentEvent]()
    for first, past in ((0, 20), (20, 38)):
        file = home / f"{first}.otlp.jsonl"
        write_minutes(
            file,
            first,
            past,
            versions=versions,
            slow_version=slow,
            share_of_new=share,
            extra_ms=extra_ms,
            seed=seed,
        )
        imported(lake, file, NS_PER_MINUTE)
        watch = LakeWatch(str(lake), WatchSettings(), RefineSettings(), "evaluation", "evaluation")
        watch.resume()
        events += [event for decided in watch.poll() for event in decided.events]
    return events


def imported(lake: Path, file: Path, window_ns: int) -> None:
    """Import a file."""
    import_into(
        str(lake),
        [str(file)],
        ImportSettings(window_length_ns=window_ns),
        owner="evaluation",
        created_by="evaluation",
        stdin=io.BytesIO(),
        progress=Quiet(),
    )


def _window(ns: int) -> float:
    """Windows since the beginning of made series."""
    return (ns - MONDAY) / WINDOW_NS


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
                "naive": naive(watch.watcher, entry["cases"]),
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
    service, and in an incident where one of those of the comparison does.
    """
    faults = faults_of(cases)
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
        "in an incident": sum(any(right for _, _, right in found.get(f["id"], ())) for f in visible),
        "delay_s": median(delay for delay, _, _ in mine) if mine else None,
        "onset_in_a_tick": sum(off <= tick for _, off, _ in mine),
        "incidents": opened,
        "false": false,
        "invisible": sum(fault["visible"] is False and fault["id"] in found for fault in faults),
    }


def naive(watcher: Watcher, cases: Sequence[dict[str, Any]]) -> dict[str, int]:
    """What the naive rule says of the same ticks: visible faults with an alarming tick, and those in none."""
    ring, faults = watcher.detector.ring, faults_of(cases)
    kinds = [name.kind for name in ring.names]
    logs = values(
        ring.sums(np.arange(len(kinds)), slice(0, len(ring.at))), kinds, watcher.settings.least_events
    )
    at_ns = (ring.at[HOUR:][alarming(logs[usable(ring.names)])] + 1) * ring.tick_ns
    within = [[fault["a"] < at <= fault["b"] + ring.tick_ns for fault in faults] for at in at_ns]
    return {
        "alarming": len(at_ns),
        "found": sum(any(row[n] for row in within) for n, fault in enumerate(faults) if fault["visible"]),
        "false": sum(not any(row) for row in within),
    }


def faults_of(cases: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Labels with their times in ns."""
    return [{**case, "a": _ns(case["injected"]), "b": _ns(case["problem"].split("/")[1])} for case in cases]


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
    parser.add_argument(
        "what",
        choices=("quiet", "steps", "recordings", "deployments", "weeks", "quiet-weeks", "days", "quiet-days"),
    )
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--weeks", type=int, default=20)
    parser.add_argument("--series", type=int, default=100)
    parser.add_argument("--sd", type=float, default=4.0)
    parser.add_argument(
        "--day", type=float, default=0.3, help="Spread of levels of days, in standard deviations."
    )
    parser.add_argument("--learned", type=int, default=4, help="Days.")
    parser.add_argument("--days", type=int, default=4)
    parser.add_argument("--lakes", type=Path, default=Path(".cache/watch-lakes"), help="Kept between runs.")
    parser.add_argument("--least-noise", type=float, help="robust.min_tau of the daily comparison alone.")
    parser.add_argument("--many", type=int, default=100)
    parser.add_argument("--extra-ms", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--slot", type=int, default=0, help="Seconds; 0: windows as they are.")
    parser.add_argument("--setting", action="append", default=[], metavar="NAME=VALUE")
    given = parser.parse_args()
    told = dict(text.split("=", 1) for text in given.setting)
    settings = WatchSettings.model_validate({"slot_ns": given.slot * NS_PER_SECOND, **told})
    runs: dict[str, Callable[[], Any]] = {
        "quiet": lambda: quiet(given.seed, given.weeks, given.series, settings, given.day * SD),
        "steps": lambda: steps(given.seed, given.sd, given.series, settings),
        "deployments": lambda: deployments(given.seed, given.many, given.extra_ms),
        "weeks": lambda: weeks(given.seed, given.learned, given.days, False, given.lakes),
        "quiet-weeks": lambda: weeks(given.seed, given.learned, given.days, True, given.lakes),
        "days": lambda: days(given.seed, given.learned, given.days, False, given.lakes, given.least_noise),
        "quiet-days": lambda: days(
            given.seed, given.learned, given.days, True, given.lakes, given.least_noise
        ),
        "recordings": lambda: recordings(given.folder, Path(__file__).parents[2], settings),
    }
    print(json.dumps(runs[given.what](), indent=1))


if __name__ == "__main__":
    main()
