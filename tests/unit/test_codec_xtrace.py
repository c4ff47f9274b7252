"""X-Trace reports: tasks, events, edges, and the finer times of process counters."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest

from ingest.codecs.xtrace.xtrace import refine_times
from ingest.formats import codec_for
from schemas.config import DecodeConfig
from schemas.events import EventKind, with_text_ids
from schemas.rejects import Reason

CONFIG = DecodeConfig()
TASK, EVENT, BEFORE = "57C1C4A67A6A88FD", "47B4E72042F9B7FF", "E1EE63892841C3EB"


def report(**fields: object) -> dict[str, object]:
    return {
        "X-Trace": ["19" + TASK + EVENT],
        "Edge": [BEFORE],
        "Host": ["manny"],
        "Agent": ["Shell-7 init"],
        "Label": ["Reading block blk_-311 from /tmp/a.txt"],
        "Timestamp": ["1384989800278"],
        "version": "X-Trace Report ver 1.0",
    } | {name.replace("_", "-"): value for name, value in fields.items()}


def payload(*reports: object) -> bytes:
    return json.dumps([{"id": "x", "reports": reports}]).encode()


@pytest.mark.parametrize(
    ("name", "reports", "requests"),
    [
        ("download", 839, 1),
        ("gc", 31, 8),
        ("large", 1_187, 1),
        ("medium", 849, 1),
        ("small", 166, 1),
        ("upload", 2_483, 1),
    ],
)
def test_real_graphs_lose_no_event_and_no_edge(
    shared_data: Path, name: str, reports: int, requests: int
) -> None:
    data = gzip.decompress((shared_data / f"xtrace/{name}.json.gz").read_bytes())
    decoded = codec_for("xtrace").decode([data], CONFIG)
    assert not decoded.rejects
    events = decoded.events
    assert events.num_rows == reports
    assert len(events["request_id"].unique()) == requests
    source = [r for task in json.loads(data) for r in task["reports"]]
    assert [r["X-Trace"][0][18:].lower() for r in source] == with_text_ids(events)["id"].to_pylist()
    edges = [[e.lower() for e in r.get("Edge", []) if e.strip("0")] or None for r in source]
    assert with_text_ids(events)["parents"].to_pylist() == edges
    assert "?" not in events["component"].to_pylist()
    assert "?" not in events["point"].to_pylist()
    stamps = [r["Timestamp"][0] for r in source]
    ms = [int(s) if "." not in s else round(float(s) * 1000) for s in stamps]
    assert (events["ts_ns"].to_numpy() // 10**6).tolist() == ms


def test_a_report() -> None:
    decoded = codec_for("xtrace").decode([payload(report(HRT=["17"], Cycles=["5"]))], CONFIG)
    (row,) = with_text_ids(decoded.events).to_pylist()
    assert row["kind"] == EventKind.EVENT
    assert (row["request_id"], row["id"], row["parents"]) == (TASK.lower(), EVENT.lower(), [BEFORE.lower()])
    assert (row["component"], row["host"]) == ("Shell-{n} init", "manny")
    assert row["point"] == "Reading block {id} from {path}"
    assert row["breadcrumb"] is None
    params = {p["key"]: p["text"] if p["num"] is None else p["num"] for p in row["params"]}
    assert params["Label"] == "Reading block blk_-311 from /tmp/a.txt"
    assert (params["HRT"], params["Cycles"]) == (17.0, 5.0)


def test_seconds_and_milliseconds() -> None:
    stamps = ["1384989800278", "1384989800.278", "1384989800.2785"]
    decoded = codec_for("xtrace").decode([payload(*(report(Timestamp=[s]) for s in stamps))], CONFIG)
    expected = [1_384_989_800_278_000_000, 1_384_989_800_278_000_000, 1_384_989_800_278_500_000]
    assert decoded.events["ts_ns"].to_pylist() == expected


def test_an_edge_of_zeros_is_no_parent_and_one_named_twice_is_one() -> None:
    decoded = codec_for("xtrace").decode(
        [payload(report(Edge=["0" * 16]), report(Edge=[BEFORE] * 2))], CONFIG
    )
    assert with_text_ids(decoded.events)["parents"].to_pylist() == [None, [BEFORE.lower()]]


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (report(X_Trace=[]), Reason.MISSING_FIELD),
        (report(X_Trace=["19" + TASK]), Reason.BAD_ID),
        (report(X_Trace=["zz"]), Reason.BAD_ID),
        (report(X_Trace=["19" + "0" * 32]), Reason.BAD_ID),
        (report(Edge=["zz"]), Reason.BAD_ID),
        (report(Edge="x"), Reason.WRONG_SHAPE),
        (report(Timestamp=["soon"]), Reason.BAD_TYPE),
        (report(Timestamp=["5"]), Reason.BAD_TIME),
        (report(Timestamp=None), Reason.MISSING_FIELD),
        (7, Reason.WRONG_SHAPE),
    ],
)
def test_a_wrong_report_is_refused_and_its_neighbours_are_not(wrong: object, reason: Reason) -> None:
    decoded = codec_for("xtrace").decode([payload(report(), wrong, report())], CONFIG)
    assert decoded.events.num_rows == 2
    assert [(r.reason, r.item) for r in decoded.rejects] == [(reason, 1)]


def test_many_garbage_keys_are_bounded() -> None:
    garbage = {f"<property>{i}": ["x"] for i in range(1_000)}
    decoded = codec_for("xtrace").decode([payload(report(**garbage))], CONFIG)
    assert pc.list_value_length(decoded.events["params"]).to_pylist() == [CONFIG.max_params_per_event]
    assert decoded.oddities["params-dropped"] > 800


def test_counters_place_events_inside_their_millisecond() -> None:
    rng = np.random.default_rng(1)
    true = 10**18 + np.sort(rng.integers(0, 10**9, 300))
    process = rng.integers(0, 3, 300)
    counter = true - np.array([5, 77_777, 123_456_789])[process]
    stamps = true // 10**6 * 10**6
    refined = refine_times(stamps, counter.tolist(), process.tolist())
    assert (refined // 10**6 * 10**6 == stamps).all()
    for one in range(3):
        assert len(set((true - refined)[process == one].tolist())) == 1
    assert abs(true - refined).max() < 100_000


def test_a_clock_that_was_set_leaves_the_stamps() -> None:
    stamps = np.array([1_000_000, 9_000_000, 3_000_000])
    assert (refine_times(stamps, [0, 1, 2], ["p"] * 3) == stamps).all()
    assert (refine_times(stamps, [None] * 3, ["p"] * 3) == stamps).all()
