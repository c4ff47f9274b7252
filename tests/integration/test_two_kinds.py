"""One request id with spans and with records: two flows, each with its own window, parameters and names."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from oracles.quiet_import import Quiet

from analyze.export.events import own_id
from analyze.export.flows import AskedFlows, Exported, export_native, export_otlp
from analyze.load import read_flows
from analyze.scope import LakePeriod, resolve
from analyze.sql.browse import find_flow
from analyze.sql.session import open_session
from schemas.lake import RECORDS, SPANS
from schemas.periods import parse_period
from stitch.drivers.batch import ImportSettings, ImportSummary, import_into
from stitch.lake.fsck import check
from stitch.lake.store import LocalStore

TRACE = "00000000000000000000000000000abc"
AT = 1_763_600_000_000_000_000
LATER = AT + 3_600_000_000_000
"""The records come an hour, and so a window, after the spans."""


def put(lake: Path, *files: Path) -> ImportSummary:
    summary = import_into(
        lake,
        [str(file) for file in files],
        ImportSettings(),
        owner="test",
        created_by="flowdiff test",
        stdin=io.BytesIO(),
        progress=Quiet(),
    )
    assert check(LocalStore.at(lake)) == []
    assert summary.counters.balanced
    return summary


def write(folder: Path, *, order: int) -> list[Path]:
    """Spans and records of TRACE and of another request; `order` makes other files of the same content."""
    spans, records = folder / f"spans{order}.jsonl", folder / f"records{order}.ndjson"
    one = {
        "traceId": TRACE,
        "spanId": "00000000000000aa",
        "name": "GET",
        "startTimeUnixNano": str(AT),
        "endTimeUnixNano": str(AT + 9),
        "attributes": [
            {"key": "made", "value": {"stringValue": "of spans"}},
            {"key": "size", "value": {"intValue": "1"}},
        ],
    }
    service = {"key": "service.name", "value": {"stringValue": "shop"}}
    document = {"resourceSpans": [{"resource": {"attributes": [service]}, "scopeSpans": [{"spans": [one]}]}]}
    spans.write_text(json.dumps(document) + "\n" * (1 + order))
    lines = [
        {
            "ts": LATER + at,
            "request_id": name,
            "breadcrumb": "b",
            "component": "app",
            "point": f"p{at}",
            "params": params,
        }
        for name in (TRACE, "alone")
        for at, params in ((0, {"made": "of records", "size": 2}), (5, {}))
    ]
    records.write_text("".join(json.dumps(line) + "\n" for line in lines) + "\n" * order)
    return [spans, records]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    put(tmp_path / "lake", *write(tmp_path, order=0))
    return tmp_path / "lake"


def rows(lake: Path, query: str) -> list[dict[str, Any]]:
    with open_session(resolve(parse_period("all", now_ns=0), default_lake=str(lake))) as session:
        found: list[dict[str, Any]] = session.query(query).to_pylist()
    return found


def flows(lake: Path) -> set[tuple[str, str, int]]:
    found = rows(lake, "SELECT request_id, kind, start_ns FROM requests")
    return {(row["request_id"], row["kind"], row["start_ns"]) for row in found}


def test_both_are_requests_and_parameters_stay_with_their_own(lake: Path) -> None:
    assert flows(lake) == {(TRACE, SPANS, AT), (TRACE, RECORDS, LATER), ("alone", RECORDS, LATER)}
    joined = rows(
        lake,
        "SELECT DISTINCT request_id, kind, num, start_ns FROM params JOIN requests USING (request_id, kind)"
        f" WHERE key = 'size' AND request_id = '{TRACE}' ORDER BY num",
    )
    assert [(row["kind"], row["num"], row["start_ns"]) for row in joined] == [
        (SPANS, 1, AT),
        (RECORDS, 2, LATER),
    ]
    windows = rows(lake, "SELECT window_start, requests FROM windows ORDER BY window_start")
    assert [row["requests"] for row in windows] == [1, 2]


def test_a_filter_by_parameter_keeps_one(lake: Path) -> None:
    period = parse_period("all", now_ns=0, where="made = 'of spans'")
    found = read_flows(resolve(period, default_lake=str(lake)))
    assert found["start_ns"].to_pylist() == [AT]


def test_one_is_found_by_its_kind(lake: Path) -> None:
    with open_session(resolve(parse_period("all", now_ns=0), default_lake=str(lake))) as session:
        for kind, start, size in ((None, AT, 1), (SPANS, AT, 1), (RECORDS, LATER, 2)):
            found = find_flow(session, TRACE[:-1], kind)
            assert found.flow["start_ns"] == start
            assert [p["num"] for p in found.params if p["key"] == "size"] == [size]


def test_both_again_are_duplicates(lake: Path, tmp_path: Path) -> None:
    counters = put(lake, *write(tmp_path, order=1)).counters
    assert (counters.flows_duplicate, counters.flows_late, counters.flows) == (3, 0, 0)


@pytest.mark.parametrize(
    ("export", "crossed", "at"), [(export_native, SPANS, AT), (export_otlp, RECORDS, LATER)]
)
def test_an_export_in_one_form_keeps_them_apart(
    lake: Path,
    tmp_path: Path,
    export: Callable[[LakePeriod, AskedFlows, BinaryIO], Exported],
    crossed: str,
    at: int,
) -> None:
    out = io.BytesIO()
    exported = export(resolve(parse_period("all", now_ns=0), default_lake=str(lake)), AskedFlows(), out)
    assert exported.flows == 3
    file = tmp_path / "exported"
    file.write_bytes(out.getvalue())
    put(tmp_path / "again", file)
    alone = "alone" if export is export_native else own_id("alone", RECORDS)  # no trace id
    found = {(name, start) for name, _, start in flows(tmp_path / "again")}
    assert found == {(own_id(TRACE, crossed), at), (TRACE, AT + LATER - at), (alone, LATER)}
