"""Exports of what a report found: requests by refined category, and DOT over many files of a lake."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from oracles.dot_reader import read_dot, read_label
from typer.testing import CliRunner

from analyze.load import load_population
from analyze.methods.spectroscope.paper import Ranked, paper_mutations
from analyze.methods.spectroscope.paper_settings import PaperSettings
from analyze.population import Category, Population
from analyze.refine.settings import RefineSettings
from flowdiff.__main__ import build_app
from schemas.errors import FlowdiffError
from schemas.periods import parse_period

NOON_S = 1_795_262_400  # 2026-11-21T12:00Z
REFERENCE, PROBLEM = "2026-11-21T12:00/1h", "2026-11-21T13:00/1h"
REQUESTS_SCHEMA = pa.schema(
    [
        ("rank", pa.int32()),
        ("role", pa.string()),
        ("category", pa.string()),
        ("sample", pa.string()),
        ("request_id", pa.string()),
        ("kind", pa.string()),
    ]
)


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
class Compared:
    """A lake with a report whose mutation and precursor have the same stored key."""

    lake: str
    report: str
    population: Population
    mutation: Category
    precursor: Category
    unchanged: Category


def listed(found: Ranked, rank: int, population: Population) -> Iterator[dict[str, object]]:
    """Rows of a report's `requests` for one mutation: its own, and those of its precursors."""
    roles = [("mutation", found.category)]
    if found.candidates is not None:
        roles += [("precursor", int(index)) for index in found.candidates.category]
    for role, index in roles:
        category = population.categories[index]
        for request_id, sample in zip(category.request_id.to_pylist(), category.sample.tolist(), strict=True):
            yield {
                "rank": rank,
                "role": role,
                "category": category.graph.key,
                "sample": population.samples[sample].name,
                "request_id": request_id,
                "kind": found.kind.value,
            }


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


def traffic() -> list[str]:
    """Two hours: 40 of 50 reads moved from host s1 to s2, writes stayed; several windows each."""
    lines: list[str] = []
    for hour, (on_first, on_second) in enumerate(((40, 10), (10, 40))):
        plan = [("read", "s1")] * on_first + [("read", "s2")] * on_second + [("write/all", "s1")] * 20
        for place, (point, host) in enumerate(plan):
            start_ns = (NOON_S + hour * 3600 + place * 9) * 10**9
            lines += records(100 * hour + place, start_ns, 1_000_000 + place, point, host)
    return lines


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    folder = tmp_path_factory.mktemp("export")
    lake, file = str(folder / "lake"), folder / "records.ndjson"
    file.write_text("\n".join(traffic()))
    run("import", str(file), "--lake", lake, "--window", "1m")
    options = ("--hosts", "full", "--sm-threshold", "20", "--fail-on", "never", "--json", "-")
    periods = ("--reference", REFERENCE, "--problem", PROBLEM)
    out, _ = run("compare", "--lake", lake, *periods, *options)
    report = json.loads(out)["id"]
    reference, problem = (parse_period(text, now_ns=0) for text in (REFERENCE, PROBLEM))
    population = load_population(reference, problem, RefineSettings(host_policy="full"), default_lake=lake)
    (found,) = paper_mutations(population, PaperSettings(sm_threshold=20)).mutations
    table = pa.Table.from_pylist(list(listed(found, 1, population)), schema=REQUESTS_SCHEMA)
    pq.write_table(table, Path(lake) / "reports" / report / "requests.parquet")
    assert found.candidates is not None
    (index,) = found.candidates.category.tolist()
    (rest,) = {*range(len(population.categories))} - {found.category, index}
    mutation, precursor, unchanged = (population.categories[i] for i in (found.category, index, rest))
    return Compared(lake, report, population, mutation, precursor, unchanged)


def exported(lake: str, *options: str) -> list[str]:
    """Ids of the exported requests, sorted."""
    out, _ = run("export", "--lake", lake, "--format", "native", *options)
    return sorted({json.loads(line)["request_id"] for line in out.splitlines()})


def ids(category: Category, *samples: int) -> list[str]:
    rows = zip(category.request_id.to_pylist(), category.sample.tolist(), strict=True)
    return sorted(request_id for request_id, sample in rows if sample in samples)


def test_mutation_and_precursor_of_one_stored_key_export_their_own_requests(compared: Compared):
    assert set(compared.mutation.stored) & set(compared.precursor.stored)
    for category in (compared.mutation, compared.precursor):
        for options in ((), ("--report", compared.report), ("--report", compared.report[:5])):
            found = exported(compared.lake, "--category", category.graph.key, *options)
            assert found == ids(category, 0, 1)
    both = {*ids(compared.mutation, 0, 1), *ids(compared.precursor, 0, 1)}
    (stored, *_) = set(compared.mutation.stored) & set(compared.precursor.stored)
    assert both <= set(exported(compared.lake, "--category", stored))
    assert not {*ids(compared.mutation, 0, 1)} & {*ids(compared.precursor, 0, 1)}


def test_samples_of_a_report_are_exported_apart(compared: Compared):
    key = compared.precursor.graph.key
    options = ("--report", compared.report, "--category", key[:12])
    for number, (sample, requests) in enumerate((("reference", 40), ("problem", 10))):
        found = exported(compared.lake, *options, "--sample", sample)
        assert found == ids(compared.precursor, number)
        assert len(found) == requests


def test_a_whole_report_is_exported(compared: Compared):
    folder = Path(compared.lake) / "reports" / compared.report
    wanted = set(pq.read_table(folder / "requests.parquet")["request_id"].to_pylist())
    assert exported(compared.lake, "--report", compared.report) == sorted(wanted)
    assert exported(compared.lake, "--report", str(folder)) == sorted(wanted)


def test_requests_outside_the_period_are_counted(compared: Compared):
    def told(period: str) -> tuple[int, str]:
        options = ("--report", compared.report, "--category", compared.precursor.graph.key)
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
        told = refused("--category", unchanged.graph.key, *report)
        assert "neither a mutation nor a precursor" in told
        assert sorted(unchanged.stored)[0] in told
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
    told = str(refusal("export", "--lake", str(lake), "--format", "dot", "--report", "ab"))
    assert "2 reports begin with 'ab': ab1, ab2." in told
    told = str(refusal("export", "--lake", str(lake), "--format", "dot", "--report", "ab1"))
    assert "No request is listed of report 'ab1'" in told


def test_dot_of_many_files_is_one_file_to_the_original(compared: Compared):
    out, told = run("export", "--lake", compared.lake, "--format", "dot")
    files = sorted((Path(compared.lake) / "flows").glob("*/*.parquet"))
    assert len(files) > 2
    flows = pa.concat_tables([pq.read_table(f, partitioning=None) for f in files]).to_pylist()
    structures = {
        row["category"]: row
        for path in (Path(compared.lake) / "structures").glob("*/*.parquet")
        for row in pq.read_table(path, partitioning=None).to_pylist()
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
