"""One pod of several that gets slower or fails is an incident that names it, and a rollout is none."""

from __future__ import annotations

import io
import json
import math
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from oracles.quiet_import import Quiet
from oracles.watched_shop import START_NS, Pods, write_minutes

from analyze.refine.settings import RefineSettings
from analyze.scope import Lakes
from analyze.watch.candidates import Decided
from analyze.watch.series import INSTANCE, INSTANCE_FAIL, INSTANCES, Cut, Name, WindowTicks, window_ticks
from analyze.watch.settings import WatchSettings
from analyze.watch.watching import LakeWatch
from schemas.periods import Period
from schemas.windows import NS_PER_MINUTE, NS_PER_SECOND, Window
from stitch.drivers.batch import import_into
from stitch.drivers.import_settings import ImportSettings

LEARNED, ILL, PAST = 18, 30, 36
"""Minutes: the watch begins, one pod is ill, the end."""
TICK_NS = 15 * NS_PER_SECOND


def lake_of(home: Path, minutes: int, pods: Pods, window_ns: int = NS_PER_MINUTE) -> Path:
    """A lake of the shop's minutes."""
    file, lake = home / "spans.otlp.jsonl", home / "lake"
    write_minutes(file, 0, minutes, pods=pods)
    settings = ImportSettings(window_length_ns=window_ns)
    import_into(
        str(lake),
        [str(file)],
        settings,
        owner="test",
        created_by="test",
        stdin=io.BytesIO(),
        progress=Quiet(),
    )
    return lake


def watched(lake: Path, settings: WatchSettings) -> list[Decided]:
    """What a watch says of it, minute by minute."""
    watch = LakeWatch(str(lake), settings, RefineSettings(), "test", "test")
    return [*watch.replay(Period(None, START_NS + LEARNED * NS_PER_MINUTE, 2**63 - 1))]


@pytest.mark.parametrize(
    ("ill", "says"),
    [
        ({"slower": 3.0}, "its own time is 5.65"),
        ({"failing": 0.4}, "Cart/Get fails in "),
    ],
)
def test_one_pod_of_five_that_is_ill_behind_a_rollout_is_one_incident_that_names_it(
    ill: dict[str, float], says: str, tmp_path: Path
) -> None:
    pods = Pods(minutes=range(ILL, PAST), rollouts=(LEARNED + 2,), **ill)
    lake = lake_of(tmp_path, PAST, pods)
    decided = watched(lake, WatchSettings())
    (opened,) = (event for one in decided for event in one.events if event.kind == "opened")
    incident = opened.incident
    assert (incident.component, incident.host) == ("cart", "cart-1-2")
    assert says in incident.headline
    assert "(on 1 of 5 instances: cart-1-2)" in incident.headline
    assert START_NS + ILL * NS_PER_MINUTE < opened.at_ns <= START_NS + (ILL + 5) * NS_PER_MINUTE
    assert not [p for one in decided for p in one.change_points if p.at_ns <= START_NS + ILL * NS_PER_MINUTE]
    # All pods together hide that one is slower, and not that one fails where none did.
    alone = [p for one in watched(lake, WatchSettings(most_instances=0)) for p in one.change_points]
    assert bool(alone) == ("failing" in ill)


def test_an_instance_is_held_against_its_siblings_in_the_same_tick(tmp_path: Path) -> None:
    pods = Pods(many=4, minutes=range(5), slower=2.0, failing=0.3)
    made = ticks_of(lake_of(tmp_path, 5, pods, 5 * NS_PER_MINUTE), most=50)
    logs, fails = visits(tmp_path / "spans.otlp.jsonl")
    told = {
        (
            made.names[row["series"]].of.rpartition(" ")[2],
            int(row["tick"]),
            made.names[row["series"]].kind,
        ): row
        for row in made.rows
        if made.names[row["series"]].kind in INSTANCES
    }
    n_told = 0
    for tick in range(made.n_ticks):
        here = {pod for pod, at in logs if at == tick}
        for pod in here:
            mine, others = (
                [
                    value
                    for (p, at), values in logs.items()
                    if at == tick and (p == pod) is own
                    for value in values
                ]
                for own in (True, False)
            )
            row = told[pod, tick, INSTANCE]
            assert row["den"] == pytest.approx(1 / (1 / len(mine) + 1 / len(others)), rel=1e-5)
            assert row["num"] / row["den"] == pytest.approx(np.mean(mine) - np.mean(others), abs=1e-3)
            share = sum(fails[pod, tick]) / len(mine) - sum(sum(fails[p, tick]) for p in here - {pod}) / len(
                others
            )
            failing = told.get((pod, tick, INSTANCE_FAIL))
            assert (0.0 if failing is None else failing["num"] / row["den"]) == pytest.approx(share, abs=1e-5)
            n_told += 1
    assert n_told > made.n_ticks


def test_instances_that_are_too_many_are_counted(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, 5, Pods(many=7), 5 * NS_PER_MINUTE)
    few, every = ticks_of(lake, most=3), ticks_of(lake, most=50)
    assert (few.folded, every.folded) == (4, 0)
    mine = {name for name in few.names if name.kind in INSTANCES}
    assert len(mine) == 3
    # Those with most visits, and they are still held against all of the others.
    n: dict[str, int] = defaultdict(int)
    for (pod, _), values in visits(tmp_path / "spans.otlp.jsonl")[0].items():
        n[f"cart on {pod}"] += len(values)
    assert {name.of for name in mine} == set(sorted(n, key=lambda of: (-n[of], of))[:3])
    assert held(few, mine) == pytest.approx(held(every, mine))


def held(made: WindowTicks, names: set[Name]) -> float:
    """Events of some series."""
    return sum(float(row["den"]) for row in made.rows if made.names[row["series"]] in names)


def ticks_of(lake: Path, most: int) -> WindowTicks:
    """The ticks of its first window."""
    window = Window(START_NS, 5 * NS_PER_MINUTE)
    (here,) = Lakes(str(lake)).listed([(Period(None, window.start_ns, window.end_ns), [window])])
    found = window_ticks(here, Cut(RefineSettings(), TICK_NS, most))
    assert found is not None
    return found


def visits(
    file: Path,
) -> tuple[dict[tuple[str, int], list[float]], dict[tuple[str, int], list[bool]]]:
    """By pod and tick: logs of the cart's own times, and whether visits failed."""
    spans: dict[str, dict[str, tuple[int, int, str, bool]]] = defaultdict(dict)
    for line in file.read_text().splitlines():
        for resource in json.loads(line)["resourceSpans"]:
            words = {a["key"]: a["value"]["stringValue"] for a in resource["resource"]["attributes"]}
            for span in resource["scopeSpans"][0]["spans"]:
                begun, ended = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
                told = (begun, ended, words.get("host.name", ""), "status" in span)
                spans[span["traceId"]][words["service.name"]] = told
    logs: dict[tuple[str, int], list[float]] = defaultdict(list)
    fails: dict[tuple[str, int], list[bool]] = defaultdict(list)
    for request in spans.values():
        begun, ended, pod, failed = request["cart"]
        key = pod, (request["shop"][0] - START_NS) // TICK_NS
        logs[key].append(math.log(ended - begun - (request["store"][1] - request["store"][0])))
        fails[key].append(failed)
    return logs, fails
