"""Exports of what a report found: requests by refined category, and DOT over many files of a lake."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from oracles.dot_reader import read_dot, read_label
from typer.testing import CliRunner

from analyze.export.flows import SelectedFlows
from analyze.report.store import JSON_FILE
from flowdiff.__main__ import build_app
from schemas.errors import FlowdiffError
from stitch.lake.encoding import read_structures

NOON_S = 1_795_262_400  # 2026-11-21T12:00Z
REFERENCE, PROBLEM = "2026-11-21T12:00/1h", "2026-11-21T13:00/1h"


def run(*arguments: str) -> tuple[str, str]:
    """(standard output, standard error) of a command that succeeds."""
    app = build_app(["import", "compare", "export"])
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout, result.stderr


def refusal(*arguments: str) -> FlowdiffError:
    result = CliRunner().invoke(build_app(["export"]), list(arguments))
    assert isinstance(result.exception, FlowdiffError), result.output
    return result.exception


@dataclass(frozen=True)
class Refined:
    """A category of the report, and its requests: those of the reference, those of the problem period."""

    key: str
    stored: list[str]
    requests: tuple[list[str], list[str]]

    @property
    def ids(self) -> list[str]:
        return sorted([*self.requests[0], *self.requests[1]])


@dataclass(frozen=True)
class Compared:
    """A lake with a report whose mutation and precursor have the same stored key."""

    lake: str
    report: str
    mutation: Refined
    precursor: Refined
    unchanged: Refined


def records(number: int, start_ns: int, step_ns: int, point: str, host: str) -> list[str]:
    """One request: front → `point` on `host` → front again."""
    steps = [("front", "in", "web", "event"), ("store", point, host, "event"), ("front", "out", "web", "end")]
    return [
        json.dumps(
            {
                "request_id": f"r{number:04}",
                "breadcrumb": f"b{number:04}",
                "ts": start_ns + place * step_ns,
                "component": component,
                "point": name,
                "host": where,
                "kind": kind,
            }
        )
        for place, (component, name, where, kind) in enumerate(steps)
    ]


PLANS = tuple(
    [("read", "s1")] * on_first + [("read", "s2")] * on_second + [("write/all", "s1")] * 20
    for on_first, on_second in ((40, 10), (10, 40))
)
"""Two hours: 30 of 50 reads moved from host s1 to s2, writes stayed."""


def traffic() -> list[str]:
    """One request every nine seconds, so that an hour has several windows."""
    return [
        line
        for hour, plan in enumerate(PLANS)
        for place, step in enumerate(plan)
        for line in records(
            100 * hour + place, (NOON_S + hour * 3600 + place * 9) * 10**9, 1_000_000 + place, *step
        )
    ]


def refined(row: dict, point: str, host: str) -> Refined:
    before, after = (
        [f"r{100 * hour + place:04}" for place, step in enumerate(plan) if step == (point, host)]
        for hour, plan in enumerate(PLANS)
    )
    assert (row["count0"], row["count1"]) == (len(before), len(after))
    return Refined(row["category"], row["stored"], (before, after))


def rows_of(category: Refined, role: str) -> list[dict[str, object]]:
    """Rows of a report's `requests`."""
    named = zip(("reference", "problem"), category.requests, strict=True)
    row = {"rank": 1, "role": role, "category": category.key, "kind": "records"}
    return [
        row | {"sample": sample, "request_id": name, "response_us": response_us(name)}
        for sample, names in named
        for name in names
    ]


def response_us(request_id: str) -> float:
    """Two steps of a request of `traffic`."""
    return 2 * (1_000_000 + int(request_id[1:]) % 100) / 1_000


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    folder = tmp_path_factory.mktemp("export")
    lake, file = folder / "lake", folder / "records.ndjson"
    file.write_text("\n".join(traffic()))
    run("import", str(file), "--lake", str(lake), "--window", "1m")
    options = (
        "--method",
        "paper",
        "--set",
        "host_policy=full",
        "--set",
        "sm_threshold=20",
        "--fail-on",
        "never",
    )
    run("compare", "--lake", str(lake), "--reference", REFERENCE, "--problem", PROBLEM, *options)
    (report,) = (place for place in (lake / "reports").iterdir() if place.is_dir())
    found = {row["count0"]: row for row in pq.read_table(report / "categories.parquet").to_pylist()}
    precursor, mutation = refined(found[40], "read", "s1"), refined(found[10], "read", "s2")
    unchanged = refined(found[20], "write/all", "s1")
    assert pq.read_table(report / "mutations.parquet")["category"].to_pylist() == [mutation.key]
    assert pq.read_table(report / "precursors.parquet")["category"].to_pylist() == [precursor.key]
    rows = rows_of(mutation, "mutation") + rows_of(precursor, "precursor")
    listed = pq.read_table(report / "requests.parquet").to_pylist()
    assert {row.pop("method") for row in listed} == {"paper"}
    assert sorted(map(repr, map(sorted, map(dict.items, listed)))) == sorted(
        map(repr, map(sorted, map(dict.items, rows)))
    )
    return Compared(str(lake), report.name, mutation, precursor, unchanged)


def exported(lake: str, *options: str) -> list[str]:
    """Ids of the exported requests, sorted."""
    out, _ = run("export", "--lake", lake, "--format", "native", *options)
    return sorted({json.loads(line)["request_id"] for line in out.splitlines()})


def test_mutation_and_precursor_of_one_stored_key_export_their_own_requests(compared: Compared):
    assert compared.mutation.stored == compared.precursor.stored
    for category in (compared.mutation, compared.precursor):
        for options in ((), ("--report", compared.report), ("--report", compared.report[:5])):
            assert exported(compared.lake, "--category", category.key, *options) == category.ids
            assert exported(compared.lake, "--category", category.key[:12], *options) == category.ids
    (stored,) = compared.mutation.stored
    both = sorted(compared.mutation.ids + compared.precursor.ids)
    assert exported(compared.lake, "--category", stored) == both


def test_samples_of_a_report_are_exported_apart(compared: Compared):
    options = ("--report", compared.report, "--category", compared.precursor.key)
    for sample, requests in zip(("reference", "problem"), compared.precursor.requests, strict=True):
        assert exported(compared.lake, *options, "--sample", sample) == requests


def test_a_whole_report_is_exported(compared: Compared):
    folder = Path(compared.lake) / "reports" / compared.report
    both = sorted(compared.mutation.ids + compared.precursor.ids)
    assert exported(compared.lake, "--report", compared.report) == both
    assert exported(compared.lake, "--report", str(folder)) == both


def test_requests_outside_the_period_are_counted(compared: Compared):
    def told(period: str) -> tuple[int, str]:
        options = ("--report", compared.report, "--category", compared.precursor.key)
        dot = ("export", "--lake", compared.lake, "--format", "dot", "--period", period, *options)
        out, message = run(*dot)
        return len(read_dot(out.encode())), message

    # The precursor's requests: 40 of the reference, one every 9 seconds, and 10 of the problem period.
    assert told("all") == (50, "50 flows exported.\n")
    more = "more that the report lists are not in this lake and period.\n"
    assert told(REFERENCE) == (40, f"40 flows exported. 10 {more}")
    assert told("2026-11-21T12:00/1m") == (7, f"7 flows exported. 43 {more}")


def test_what_a_report_does_not_list_is_said(compared: Compared):
    def refused(*options: str) -> str:
        return str(refusal("export", "--lake", compared.lake, "--format", "dot", *options))

    unchanged = compared.unchanged
    for report in ((), ("--report", compared.report)):
        told = refused("--category", unchanged.key, *report)
        assert "neither a mutation nor a precursor" in told
        assert unchanged.stored[0] in told
    assert "No category 'zz' in report" in refused("--category", "zz", "--report", compared.report)
    assert "nor in a report of this lake" in refused("--category", "zz")
    assert "No report 'nope'" in refused("--report", "nope")
    assert "The report is empty" in refused("--report", "")
    assert "The category is empty" in refused("--category", "")
    assert "Give --report, too" in refused("--sample", "problem")
    told = refused("--report", compared.report, "--sample", "later")
    assert "Samples are: problem, reference." in told


def test_an_ambiguous_report_is_refused(compared: Compared, tmp_path: Path):
    lake = tmp_path / "lake"
    lake.mkdir()
    for part in Path(compared.lake).iterdir():
        (lake / part.name).symlink_to(part)
    (lake / "reports").unlink()
    for name in ("ab1", "ab2"):
        (lake / "reports" / name).mkdir(parents=True)
        (lake / "reports" / name / JSON_FILE).touch()
    told = str(refusal("export", "--lake", str(lake), "--format", "dot", "--report", "ab"))
    assert "2 reports begin with 'ab': ab1, ab2." in told
    told = str(refusal("export", "--lake", str(lake), "--format", "dot", "--report", "ab1"))
    assert "No request is listed of report 'ab1'" in told


def test_a_request_id_of_both_kinds_is_told_apart():
    flows = pa.table({"request_id": ["a", "a", "b", "c"], "kind": ["spans", "records", "records", "spans"]})
    wanted = SelectedFlows("", requests={"spans": pa.array(["a"]), "records": pa.array(["b", "c"])})
    assert wanted.of(flows).to_pylist() == [flows.to_pylist()[0], flows.to_pylist()[2]]
    assert wanted.named == 3


def test_dot_of_many_files_is_one_file_to_the_original(compared: Compared):
    out, told = run("export", "--lake", compared.lake, "--format", "dot")
    files = sorted((Path(compared.lake) / "flows").glob("*/*.parquet"))
    assert len(files) > 2
    flows = pa.concat_tables([pq.read_table(f, partitioning=None) for f in files]).to_pylist()
    structures = {
        row["category"]: row
        for path in (Path(compared.lake) / "structures").glob("*/*.parquet")
        for row in read_structures(path, lake=compared.lake).to_pylist()
    }
    graphs = read_dot(out.encode())
    assert [graph.number for graph in graphs] == list(range(1, len(flows) + 1))
    assert told == f"{len(flows):,} flows exported.\n"

    def wanted(flow: dict) -> tuple:
        structure, times = structures[flow["category"]], flow["offset_ns"]
        names = [
            (host, node["component"], node["point"], node["label"], ["", ">", "<"][node["side"]])
            for host, node in zip(flow["host"], structure["nodes"], strict=True)
        ]
        edges = [
            (names[e["src"]], names[e["dst"]], max(times[e["dst"]] - times[e["src"]], 0) / 1e3)
            for e in structure["in_edges"]
        ]
        return flow["response_ns"] / 1e3, tuple(edges)

    def read(graph) -> tuple:
        edges = [(read_label(src), read_label(dst), us) for src, dst, us in graph.named_edges()]
        return graph.response_us, tuple(edges)

    assert sorted(map(repr, map(read, graphs))) == sorted(map(repr, map(wanted, flows)))
