"""What the simulator writes: native records and spans of the same requests."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from io import BytesIO
from itertools import pairwise
from typing import Any

import pytest
from evaluation.truth import KnownRun as Run
from evaluation.truth import run

from ingest.codecs.otlp.encode_otlp import threshold
from ingest.formats import codec_for
from schemas.config import DecodeConfig, StitchConfig
from simulator.faults import find_fault, plan_causes
from simulator.output import RunFormat, write_lines
from simulator.run import RunPlan
from stitch.kernel import stitch

START_NS = 1_767_571_200_000_000_000
Record = dict[str, Any]


def simulated(
    fault: str = "N1",
    severity: float | None = None,
    sample: float = 1.0,
    workload: str = "sfs97",
    n: int = 700,
) -> Run:
    causes = tuple(plan_causes([(find_fault(fault), severity, 0.0)]))
    return run(RunPlan(workload, n, 4, sample, causes), START_NS, with_truth=True)


@pytest.fixture(scope="module")
def calm() -> Run:
    return simulated()


def records(result: Run) -> dict[str, list[Record]]:
    by_request: dict[str, list[Record]] = defaultdict(list)
    for line in b"".join(result.lines(RunFormat.NATIVE)).splitlines():
        record = json.loads(line)
        by_request[record["request_id"]].append(record)
    return by_request


def spans(result: Run) -> dict[str, list[Record]]:
    by_trace: dict[str, list[Record]] = defaultdict(list)
    for line in b"".join(result.lines(RunFormat.OTLP_JSON)).splitlines():
        for resource in json.loads(line)["resourceSpans"]:
            attributes = {a["key"]: a["value"]["stringValue"] for a in resource["resource"]["attributes"]}
            for span in resource["scopeSpans"][0]["spans"]:
                by_trace[span["traceId"]].append(span | {"host": attributes["host.name"]})
    return by_trace


def test_strands_split_join_and_end_as_the_contract_says(calm: Run) -> None:
    by_request = records(calm)
    assert len(by_request) == 700
    kinds = {r.get("kind", "event") for rs in by_request.values() for r in rs}
    assert kinds == {"event", "split", "join", "end"}
    for request, rows in by_request.items():
        strands: dict[str, list[Record]] = defaultdict(list)
        for r in rows:
            strands[r["breadcrumb"]].append(r)
        started = [link for r in rows if r.get("kind") == "split" for link in r["links"]]
        joined = [link for r in rows if r.get("kind") == "join" for link in r["links"]]
        assert sorted([*started, f"{request}.0"]) == sorted(strands)
        assert set(joined) <= set(started)
        for name, steps in strands.items():
            assert [s["seq"] for s in steps] == list(range(len(steps)))
            assert all(a["ts"] <= b["ts"] for a, b in pairwise(steps))
            assert (steps[-1].get("kind") == "end") is (name not in joined)
            assert all(s.get("kind") != "end" for s in steps[:-1])


def test_truth_names_the_requests_and_their_times(calm: Run) -> None:
    assert calm.truth is not None
    by_request = records(calm)
    for row in calm.truth.requests.to_pylist():
        entry = [r for r in by_request[row["request_id"]] if r["breadcrumb"].endswith(".0")]
        assert entry[0]["ts"] == row["start_ns"]
        assert entry[-1]["ts"] - entry[0]["ts"] == row["response_ns"]
        assert entry[0]["point"] == f"{row['op']}_CALL"


def test_spans_tell_the_same_requests(calm: Run) -> None:
    assert calm.truth is not None
    by_trace, by_request = spans(calm), records(calm)
    assert len(by_trace) == 700
    for row in calm.truth.requests.to_pylist():
        told = by_trace[row["trace_id"]]
        ids = {s["spanId"]: s for s in told}
        assert len(ids) == len(told)
        (root,) = [s for s in told if "parentSpanId" not in s]
        assert int(root["startTimeUnixNano"]) == row["start_ns"]
        assert int(root["endTimeUnixNano"]) - int(root["startTimeUnixNano"]) == row["response_ns"]
        for span in told:
            assert int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])
            if span is root:
                continue
            parent = ids[span["parentSpanId"]]
            assert int(span["startTimeUnixNano"]) >= int(parent["startTimeUnixNano"])
            if span["kind"] != 5:  # a CONSUMER may outlive what caused it
                assert int(span["endTimeUnixNano"]) <= int(parent["endTimeUnixNano"])
        splits = sum(r.get("kind") == "split" for r in by_request[row["request_id"]])
        joins = sum(r.get("kind") == "join" for r in by_request[row["request_id"]])
        assert sum(s["kind"] == 5 for s in told) == splits - joins


def test_codecs_take_every_record_and_the_kernel_finds_the_simulators_categories(calm: Run) -> None:
    assert calm.truth is not None
    decoded = codec_for("native").decode([b"".join(calm.lines(RunFormat.NATIVE))], DecodeConfig())
    assert decoded.rejects == []
    assert not decoded.oddities
    result = stitch(decoded.events, StitchConfig())
    flows = {f["request_id"]: f for f in result.flows.to_pylist()}
    rows = calm.truth.requests.to_pylist()
    assert all(flows[r["request_id"]]["response_ns"] == r["response_ns"] for r in rows)
    assert all(flows[r["request_id"]]["quality"] == 0 for r in rows)
    pairs = {(flows[r["request_id"]]["category"], r["kernel_path"]) for r in rows}
    assert len({c for c, _ in pairs}) == len({k for _, k in pairs}) == len(pairs) > 50


def test_kernel_finds_as_many_categories_in_the_spans(calm: Run) -> None:
    assert calm.truth is not None
    decoded = codec_for("otlp-json").decode([b"".join(calm.lines(RunFormat.OTLP_JSON))], DecodeConfig())
    assert decoded.rejects == []
    result = stitch(decoded.events, StitchConfig())
    flows = {f["request_id"]: f for f in result.flows.to_pylist()}
    rows = calm.truth.requests.to_pylist()
    assert all(flows[r["trace_id"]]["response_ns"] == r["response_ns"] for r in rows)
    # Spans do not order siblings, so they can tell fewer structures apart, never more.
    kernel_path: dict[str, set[str]] = defaultdict(set)
    for r in rows:
        kernel_path[r["kernel_path"]].add(flows[r["trace_id"]]["category"])
    assert all(len(categories) == 1 for categories in kernel_path.values())


def test_sampling_rate_is_told_in_both_forms() -> None:
    result = simulated(sample=0.25, n=1_400)
    rates = {r["sample_rate"] for rs in records(result).values() for r in rs}
    assert rates == {0.25}
    states = {s["traceState"] for ss in spans(result).values() for s in ss}
    assert states == {"ot=th:c"}
    assert threshold(0.1) == "e6666666666666"
    assert threshold(1.0) == "0"


def test_negatives_change_the_telling_only(calm: Run) -> None:
    assert calm.truth is not None
    base = calm.truth.requests["response_ns"].to_pylist()
    for name in ("N4", "N5", "N6"):
        told = simulated(name)
        assert told.truth is not None
        assert told.truth.requests["response_ns"].to_pylist() == base
        assert not any(told.truth.requests["affected"].to_pylist())


def test_clock_skew_moves_one_host() -> None:
    straight, skewed = simulated(), simulated("N4", 5.0)
    moved: dict[str, set[int]] = defaultdict(set)
    for a, b in zip(records(straight).values(), records(skewed).values(), strict=True):
        for x, y in zip(a, b, strict=True):
            moved[x["host"]].add(y["ts"] - x["ts"])
    assert moved.pop("mds-a") == {5_000_000}
    assert all(deltas == {0} for deltas in moved.values())


def test_record_loss_loses_the_share_asked_for(calm: Run) -> None:
    lossy = simulated("N5", 0.03)
    whole = sum(map(len, records(calm).values()))
    kept = sum(map(len, records(lossy).values()))
    assert 0.02 < 1 - kept / whole < 0.04
    whole_spans, kept_spans = (sum(map(len, spans(r).values())) for r in (calm, lossy))
    assert 0.015 < 1 - kept_spans / whole_spans < 0.045


def test_rename_and_lower_sampling() -> None:
    renamed = simulated("N6")
    points = {r["point"] for rs in records(renamed).values() for r in rs if r["host"] == "mds-a"}
    assert "REQUEST_DISPATCH" in points
    assert "DISPATCH" not in points
    thinned = simulated("N3", 2.0)
    assert 250 < len(records(thinned)) < 450
    assert {r["sample_rate"] for rs in records(thinned).values() for r in rs} == {0.5}
    assert thinned.truth is not None
    assert set(thinned.truth.requests["request_id"].to_pylist()) == set(records(thinned))


def test_errors_are_told_as_errors() -> None:
    result = simulated("F13", 0.9, n=1_400)
    status = [r["status"] for rs in records(result).values() for r in rs if "status" in r]
    assert status
    assert set(status) == {"io-error"}
    failed = [s for ss in spans(result).values() for s in ss if s.get("status", {}).get("code") == 2]
    assert len(failed) == len(status)


def test_gzip_gives_the_same_bytes_again(calm: Run) -> None:
    plain, packed, again = BytesIO(), BytesIO(), BytesIO()
    n = write_lines(plain, calm.lines(RunFormat.NATIVE), packed=False)
    for out in (packed, again):
        assert write_lines(out, calm.lines(RunFormat.NATIVE), packed=True) == n
    assert len(plain.getvalue()) == n
    assert gzip.decompress(packed.getvalue()) == plain.getvalue()
    assert packed.getvalue() == again.getvalue()
