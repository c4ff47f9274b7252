"""A method is added as one folder: no other file knows it, and the command line, report and lake have it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from oracles.method_folders import COUNTING, install
from oracles.paper_report import paper_outcome
from oracles.populations import constant_chain, population

import analyze.methods
from analyze.methods.registry import method_names, method_of
from analyze.profile.samples import samples_of
from flowdiff.__main__ import main
from schemas.report.report import from_json, to_json

METHOD = '''
"""The slowest requests of a period, each with its root type."""

from typing import Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from analyze.methods.port import Method, Result, SampleCount
from analyze.report.blocks import Column, Grid, Part
from analyze.report.gate import Weighed
from analyze.report.section_view import SectionView
from schemas.config import Config
from schemas.report.parts import Frozen
from schemas.report.report import Verdict
from schemas.report.parts import Section


class SlowestSettings(Config):
    """What is listed."""

    top: int = Field(default=10, ge=1, description="Requests listed.")
    alpha: float = Field(default=0.5, description="A name that paper mode has, too.")


class SlowRequest(Frozen):
    request_id: str
    root: str
    response_us: float


class SlowestSection(Section):
    section: Literal["slowest-roots"] = "slowest-roots"
    slowest: tuple[SlowRequest, ...]


def analyse(compared, history, settings, limits):
    rows = [
        SlowRequest(request_id=name, root=category.graph.root, response_us=ns / 1e3)
        for category in compared.population.categories
        for name, ns in zip(category.request_id.to_pylist(), category.response_ns.tolist())
    ]
    rows.sort(key=lambda row: (-row.response_us, row.request_id))
    section = SlowestSection(slowest=tuple(rows[: settings.top]))
    return Result(
        settings=settings,
        verdict=Verdict(outcome="listed", text=f"{len(section.slowest)} requests listed."),
        sections=(section,),
        tables={"slowest": pa.Table.from_pylist([row.model_dump() for row in rows])},
        weighed=[Weighed("slow", row.response_us) for row in rows],
    )


COLUMNS = (
    Column("root", "Root type", "name"),
    Column("request_id", "Request"),
    Column("response_us", "Response time", "us"),
)


def slowest(section):
    return (Part("Slowest", (Grid("Slowest requests", COLUMNS, section.slowest),), anchor="slow"),)


METHOD = Method(
    name="slowest-roots",
    title="Slowest roots",
    settings=SlowestSettings,
    samples=SampleCount(1, None),
    analyse=analyse,
    sections=(SectionView(SlowestSection, slowest, style=".slowest { color: red; }"),),
)
'''
PERIODS = ("--reference", "2022-08-23T16:55/10m", "--problem", "2022-08-23T15:10/5m")


@pytest.fixture
def slowest_roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    install(tmp_path, monkeypatch, "slowest_roots", METHOD)
    yield
    for name in [name for name in sys.modules if name.startswith("analyze.methods.slowest_roots")]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def lake(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("method") / "lake"
    traces = [str(shared_data / "online-boutique" / f"{name}.otlp.jsonl.gz") for name in TRACES]
    assert run("import", *traces, "--lake", str(folder)) == 0
    return folder


TRACES = ("before", "after-recommendation-delay")


def run(*arguments: str) -> int:
    """Exit code of the command line."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    code = ended.value.code
    assert code is None or isinstance(code, int)
    return code or 0


@pytest.mark.usefixtures("slowest_roots")
def test_one_folder_is_a_method(lake: Path, capsys: pytest.CaptureFixture[str]):
    asked = ("compare", "--lake", str(lake), *PERIODS, "--method", "slowest-roots", "--set", "top=4")
    assert run(*asked) == 1  # something was found, and the gate asks for anything
    out = capsys.readouterr().out
    folder = Path(out.rsplit("Report: ", 1)[1].strip()).parent
    found = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert [section["section"] for section in found["sections"]] == ["slowest-roots"]
    rows = found["sections"][0]["slowest"]
    assert len(rows) == 4
    assert [method["settings"] for method in found["methods"]] == [{"top": 4, "alpha": 0.5}]
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert ".slowest { color: red; }" in page
    for row in rows:
        assert row["request_id"] in out
        assert f"{row['request_id']}</td>" in page
    assert sorted(path.name.partition("-")[0] for path in folder.iterdir()) == [
        "SHA256SUMS",
        "report.html",
        "report.json",
        "slowest.parquet",
    ]
    assert pq.read_table(folder / "slowest.parquet").num_rows == 1011


@pytest.mark.usefixtures("slowest_roots")
def test_two_methods_share_a_report(lake: Path, capsys: pytest.CaptureFixture[str]):
    methods = ("--method", "paper", "--method=slowest-roots")
    options = ("--set", "paper.alpha=0.01", "--set", "slowest-roots.alpha=0.25", "--fail-on", "never")
    assert run("compare", "--lake", str(lake), *PERIODS, *methods, *options, "--no-save", "--json", "-") == 0
    found = json.loads(capsys.readouterr().out)
    assert [method["name"] for method in found["methods"]] == ["paper", "slowest-roots"]
    assert [method["settings"]["alpha"] for method in found["methods"]] == [0.01, 0.25]
    assert {section["method"] for section in found["sections"][:-1]} == {"paper"}
    assert found["sections"][-1]["method"] == "slowest-roots"


TWIN = """
from dataclasses import replace

from analyze.methods.paper.method import METHOD as PAPER

METHOD = replace(PAPER, name="twin", title="The same again")
"""


def test_two_methods_share_tables_views_and_export(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    install(tmp_path, monkeypatch, "twin", TWIN)
    methods = ("--method", "twin", "--method", "paper", "--fail-on", "never")
    assert run("compare", "--lake", str(lake), *PERIODS, *methods) == 0
    report = Path(capsys.readouterr().out.rsplit("Report: ", 1)[1].strip()).parent.name
    query = (
        "SELECT m.method, count(DISTINCT m.rank) AS n, count(*) AS rows FROM mutations AS m"
        f" JOIN mutation_requests AS r USING (report, method, rank) WHERE report = '{report}' GROUP BY ALL"
    )
    assert run("sql", "--lake", str(lake), "--format", "json", "-c", query) == 0
    counted = {row.pop("method"): row for row in json.loads(capsys.readouterr().out)}
    assert counted.keys() == {"paper", "twin"}
    assert counted["paper"] == counted["twin"]
    assert counted["paper"]["n"] > 0
    asked = ("export", "--lake", str(lake), "--format", "dot", "--report", report)
    assert run(*asked) == 0
    listed = "SELECT count(DISTINCT request_id) AS n FROM mutation_requests WHERE report = "
    graphs = capsys.readouterr().out.count("Digraph")
    assert run("sql", "--lake", str(lake), "--format", "json", "-c", f"{listed}'{report}'") == 0
    assert json.loads(capsys.readouterr().out) == [{"n": graphs}]


MINUTES = ("2022-08-23T16:55/5m", "2022-08-23T17:00/5m", "2022-08-23T15:10/5m")


@pytest.mark.parametrize("n", [1, 3])
def test_methods_of_one_and_of_three_samples_are_run(
    n: int,
    lake: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    install(tmp_path, monkeypatch, "count", COUNTING.format(least=n, most=n))
    samples = [f"--sample=s{at}={period}" for at, period in enumerate(MINUTES[:n])]
    usual = [f"--history={period}" for period in MINUTES[n:]]
    compare = ("compare", "--lake", str(lake), "--method", "count")
    assert run(*compare, *samples, *usual, "--json", "-", "--no-save") == 0
    found = json.loads(capsys.readouterr().out)
    assert [sample["name"] for sample in found["samples"]] == [f"s{at}" for at in range(n)]
    names = [f"s{at}" for at in range(n)] + [f"history {at}" for at in range(1, 4 - n)]
    (section,) = found["sections"]
    assert list(section["requests"]) == names
    assert sum(section["requests"].values()) == 1011
    assert all(section["requests"].values())
    # Told before anything is looked for: there is no such lake.
    assert run("compare", "--lake", str(tmp_path / "none"), "--method", "count", *PERIODS) == 2
    assert f"takes {n} sample{'s'[: n - 1]}, and 2 given" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((), "takes 2 samples: --reference and --problem missing"),
        (PERIODS[:2], "takes 2 samples: --problem missing"),
        ((*PERIODS, "--sample", "a=all"), "not both"),
        (("--sample", "a=all"), "takes 2 samples, and 1 given"),
        (("--sample", "all"), "write NAME=PERIOD"),
        (("--sample", "a=all", "--sample", "b=all", "--problem-where", "x=1"), "no --problem"),
    ],
)
def test_what_is_missing_is_named(given: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]):
    assert run("compare", "--lake", "/none", *given) == 2
    assert words in capsys.readouterr().err


@pytest.mark.usefixtures("slowest_roots")
def test_help_lists_the_settings_of_every_method(capsys: pytest.CaptureFixture[str]):
    assert run("compare", "--help") == 0
    assert "min_z" not in capsys.readouterr().out
    assert run("compare", "--help-all") == 0
    listed = capsys.readouterr().out
    for line in (
        "slowest-roots.top = 10",
        "robust.min_z = 3.0",
        'refine.level = "L0"',
        "robust.causes.flooded = 3.0",
    ):
        assert f"{line}\n" in listed


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("top=4", "there is no such setting"),
        ("robust.tme_floor=1", "Did you mean robust.time_floor?"),
        ("q", "write NAME=VALUE"),
        ("min_requests=5", "Write robust.min_requests or paper.min_requests"),
    ],
)
def test_a_setting_that_is_not_there_is_refused(given: str, words: str, capsys: pytest.CaptureFixture[str]):
    methods = ("--method", "robust", "--method", "paper")
    assert run("compare", *PERIODS, *methods, "--set", given) == 2
    assert words in capsys.readouterr().err


@pytest.mark.usefixtures("slowest_roots")
def test_settings_stand_in_a_configuration_and_what_is_typed_wins(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "flowdiff.toml"
    monkeypatch.setenv("FLOWDIFF_CONFIG", str(file))
    file.write_text("lake = 'x'\n[slowest-roots]\ntop = 3\nalpha = 0.25\n", encoding="utf-8")
    asked = ("compare", "--lake", str(lake), *PERIODS, "--method", "slowest-roots", "--fail-on", "never")
    assert run(*asked, "--set", "top=2", "--no-save", "--json", "-") == 0
    found = json.loads(capsys.readouterr().out)
    assert [method["settings"] for method in found["methods"]] == [{"top": 2, "alpha": 0.25}]
    for text, words in (
        ("tip = 3", "no key 'slowest-roots.tip'. Did you mean"),
        ("top = 0", "cannot be '0'"),
    ):
        file.write_text(f"[slowest-roots]\n{text}\n", encoding="utf-8")
        assert run(*asked) == 2
        error = capsys.readouterr().err
        assert words in error
        assert str(file) in error


def test_an_unknown_method_is_named(capsys: pytest.CaptureFixture[str]):
    assert run("compare", *PERIODS, "--method", "robuts") == 2
    error = capsys.readouterr().err
    assert "'robuts'" in error
    assert "paper" in error
    assert error.count("\n") == 1


@pytest.mark.usefixtures("slowest_roots")
def test_a_section_is_read_where_its_method_is_and_kept_where_it_is_not():
    method = method_of("slowest-roots")
    asked = samples_of(population(constant_chain(("a", "b"), 3, 3, 5, 9)))
    result = method.analyse(asked, None, method.settings(), None)
    report = paper_outcome(population(constant_chain(("a", "b"), 3, 3, 5, 9))).report
    report = report.model_copy(update={"sections": result.sections})
    text = to_json(report)
    assert from_json(text, [view.model for view in method.sections]) == report
    assert to_json(from_json(text, [])) == text


def test_a_folder_that_is_no_method_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    before = method_names()
    (tmp_path / "shared_words").mkdir()
    (tmp_path / "shared_words" / "__init__.py").touch()
    monkeypatch.setattr(analyze.methods, "__path__", [*analyze.methods.__path__, str(tmp_path)])
    assert method_names() == before
    (tmp_path / "shared_words" / "method.py").write_text("THING = 1", encoding="utf-8")
    with pytest.raises(TypeError, match="has no METHOD"):
        method_of("shared-words")
    del sys.modules["analyze.methods.shared_words.method"], sys.modules["analyze.methods.shared_words"]
