"""`flowdiff import` and `flowdiff compare` on real traces, as a user runs them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import analyze.load
import analyze.report.page
import analyze.scope
from analyze.scope import resolve
from analyze.sql.session import open_session
from flowdiff.__main__ import main
from schemas.periods import parse_period

BEFORE = ("--reference", "2022-08-23T16:55/10m")
PAPER = ("--method", "paper")
RETURNED = (*BEFORE, "--problem", "2022-08-23T12:10/5m", *PAPER)
DELAYED = (*BEFORE, "--problem", "2022-08-23T15:10/5m", *PAPER)


def settings(*texts: str) -> tuple[str, ...]:
    """Options that set each of them."""
    return tuple(word for text in texts for word in ("--set", text))


def run(*arguments: str) -> int:
    """Exit code of the command line."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    code = ended.value.code
    assert code is None or isinstance(code, int)
    return code or 0


def section(report: dict[str, Any], tag: str) -> dict[str, Any]:
    """The section of a report in JSON."""
    (found,) = [section for section in report["sections"] if section["section"] == tag]
    return found


@pytest.fixture(scope="module")
def lake(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compare") / "lake"
    assert run("import", str(shared_data / "online-boutique" / "*.jsonl.gz"), "--lake", str(folder)) == 0
    return folder


def test_report_is_printed_and_kept(lake: Path, capsys: pytest.CaptureFixture[str]):
    assert run("compare", "--lake", str(lake), *RETURNED) == 1
    out = capsys.readouterr().out
    page = Path(out.rsplit("Report: ", 1)[1].strip())
    assert page.parent.parent == lake / "reports"
    assert "structural mutation" in out
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    found = json.loads((page.parent / "report.json").read_text(encoding="utf-8"))
    assert found["id"] == page.parent.name
    assert section(found, "mutations")["mutations"][0]["kind"] == "structural"
    assert [sample["requests"] for sample in found["samples"]] == [502, 1071]


def test_a_lake_that_takes_no_report_costs_nothing_else(
    lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    shut = shutil.copytree(lake, tmp_path / "lake", ignore=shutil.ignore_patterns("reports"))
    (shut / "reports").write_bytes(b"in the way")
    files = {"--json": tmp_path / "o.json", "--html": tmp_path / "o.html"}
    asked = [str(part) for option in files.items() for part in option]
    capsys.readouterr()
    assert run("compare", "--lake", str(shut), *RETURNED, *asked) == 1
    out, error = capsys.readouterr()
    assert error.count("\n") == 1
    assert "cannot be written: Not a directory" in error
    assert out.endswith(f"Report: {files['--html']}\n")
    assert json.loads(files["--json"].read_text(encoding="utf-8"))["samples"]
    assert files["--html"].read_text(encoding="utf-8").startswith("<!doctype html>")
    assert run("compare", "--lake", str(shut), *RETURNED) == 1
    out, error = capsys.readouterr()
    assert "structural mutation" in out
    assert "Report:" not in out
    assert "or use --no-save, and --json and --html to write it elsewhere" in error


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_read(
    lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    asked = ("--no-save", "--json", str(tmp_path / "no" / "o.json"), "--html", str(tmp_path / "o.html"))
    assert run("compare", "--lake", str(lake / "none"), *RETURNED, *asked) == 2
    out, error = capsys.readouterr()
    assert not out
    assert "o.json' cannot be written" in error
    assert not (tmp_path / "o.html").exists()


def test_a_file_that_fills_the_disk_costs_nothing_else(
    lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    asked = ("--no-save", "--json", "/dev/full", "--html", str(tmp_path / "o.html"))
    assert run("compare", "--lake", str(lake), *RETURNED, *asked) == 2
    out, error = capsys.readouterr()
    assert "structural mutation" in out
    assert "'/dev/full' cannot be written" in error
    assert (tmp_path / "o.html").exists()


def test_the_page_draws_example_requests_and_links_them(lake: Path, tmp_path: Path):
    mine = shutil.copytree(lake, tmp_path / "lake", ignore=shutil.ignore_patterns("reports"))
    page = tmp_path / "page.html"
    asked = ("compare", "--lake", str(mine), "--no-save", "--html", str(page), *DEFAULT)
    assert run(*asked, "--trace-url", "https://one.example/{trace_id}") == 1
    text = page.read_text(encoding="utf-8")
    assert text.count('class="stretched train"') >= 2
    assert text.count('<a href="https://one.example/') >= 2
    # A setting of the lake; the option counts before it.
    info = json.loads((mine / "flowdiff.json").read_text())
    (mine / "flowdiff.json").write_text(json.dumps({**info, "trace_url": "https://two.example/{trace_id}"}))
    assert run(*asked) == 1
    assert '<a href="https://two.example/' in page.read_text(encoding="utf-8")
    assert run(*asked, "--trace-url", "https://no.example/") == 2


def test_swapped_periods_are_remarked(lake: Path, capsys: pytest.CaptureFixture[str]):
    remark = "The reference is later than the problem period"
    first, second = ("--reference", "2022-08-23T12:10/5m"), ("--problem", "2022-08-23T16:55/10m")
    assert run("compare", "--lake", str(lake), "--no-save", *RETURNED) == 1
    assert remark in capsys.readouterr().out
    assert run("compare", "--lake", str(lake), "--no-save", *PAPER, *first, *second) in (0, 1)
    assert remark not in capsys.readouterr().out


def test_a_report_is_kept_in_the_lake_that_was_looked_at(
    lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """`--lake` is for periods that name none; here all name one."""
    mine = shutil.copytree(lake, tmp_path / "lake", ignore=shutil.ignore_patterns("reports"))
    periods = ("--reference", f"{mine}@2022-08-23T16:55/10m", "--problem", f"{mine}@2022-08-23T12:10/5m")
    asked = ("--lake", str(tmp_path / "none"), *periods)
    for command, code in ((("compare", *PAPER), 1), (("variance",), 0)):
        assert run(*command, *asked) == code
        page = Path(capsys.readouterr().out.rsplit("Report: ", 1)[1].strip())
        assert page.parent.parent == mine / "reports"
    assert list(tmp_path.iterdir()) == [mine]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--set", "host_roles=(x=web"), "refine.host_roles cannot be '(x=web': '(x' is no regular"),
        (("--set", "min_z=inf"), "robust.min_z cannot be 'inf': input should be a finite number"),
        (("--set", "assumed-phi=nan"), "robust.assumed_phi"),
    ],
)
def test_settings_that_cannot_be_are_one_line(
    lake: Path, options: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
):
    assert run("compare", "--lake", str(lake), *RETURNED[:4], "--no-save", *options) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1


def test_mutations_join_back_to_their_requests(lake: Path):
    """By rank and sample, the view has as many requests as the report says, of that mean."""
    assert run("compare", "--lake", str(lake), *RETURNED) == 1
    (folder,) = (path.parent for path in lake.glob("reports/*/report.json") if is_of(path, "12:10"))
    listed = section(json.loads((folder / "report.json").read_text(encoding="utf-8")), "mutations")
    asked = (
        "SELECT rank, category, sample, kind, count(*) AS n, count(DISTINCT request_id) AS ids,"
        " sum(weight * response_us) / sum(weight) AS mean_us, list(DISTINCT stored_category) AS stored"
        " FROM mutation_requests WHERE report = ? AND role = ? GROUP BY ALL"
    )
    with open_session(resolve(parse_period("all", now_ns=0), default_lake=str(lake))) as session:
        found = session.query(asked, [folder.name, "mutation"]).to_pylist()
        before = session.query(asked, [folder.name, "precursor"]).to_pylist()
    rows = {(row["rank"], row["sample"]): row for row in found}
    sides = {
        (m["rank"], sample): (m, m[side])
        for m in listed["mutations"]
        for sample, side in (("reference", "before"), ("problem", "after"))
        if m[side]["count"]
    }
    assert rows.keys() == sides.keys()
    for key, (mutation, side) in sides.items():
        row = rows[key]
        assert (row["category"], row["kind"]) == (mutation["category"], "spans")
        assert row["n"] == row["ids"] == side["count"]
        assert row["mean_us"] == pytest.approx(side["mean_us"])
        assert set(row["stored"]) <= set(mutation["stored"])
    counts: dict[tuple[str, str], int] = {}
    for m in listed["mutations"]:
        for candidate in m["precursors"]:
            for sample, side in (("reference", "before"), ("problem", "after")):
                if candidate[side]["count"]:
                    counts[candidate["category"], sample] = candidate[side]["count"]
    assert counts
    assert {(row["category"], row["sample"]): row["n"] for row in before} == counts


def is_of(report: Path, problem: str) -> bool:
    """Whether a report's problem period begins at that time, and it is not filtered."""
    sample = json.loads(report.read_text(encoding="utf-8"))["samples"][1]
    return problem in sample["text"].split("/")[0] and not sample["where"]


def test_one_run_does_everything_once(lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The lake is opened once; flows are refined once, the page rendered once, however it is kept."""
    done: list[str] = []

    def counted(module: ModuleType, name: str) -> None:
        plain = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *given, **how: done.append(name) or plain(*given, **how))

    counted(analyze.scope, "open_manifest")
    counted(analyze.load, "refine")
    counted(analyze.load, "read_flows")
    counted(analyze.report.page, "render_html")
    assert run("compare", "--lake", str(lake), *DELAYED, "--html", str(tmp_path / "page.html")) == 1
    pages = ["render_html"] * 2  # the kept one links the list of reports beside it
    assert sorted(done) == ["open_manifest", "read_flows", "read_flows", "refine", *pages]


def test_a_reference_of_ranges_is_the_reference_of_their_union(
    lake: Path, capsys: pytest.CaptureFixture[str]
):
    problem = DELAYED[2:]
    ranges = ("--reference", "2022-08-23T16:55/2m,2022-08-23T16:56/6m", "--reference", "2022-08-23T17:00/5m")
    outputs = []
    for reference in (DELAYED[:2], ranges):
        run("compare", "--lake", str(lake), *reference, *problem, "--no-save", "--json", "-")
        outputs.append(capsys.readouterr().out)
    assert json.loads(outputs[0])["samples"][0]["text"] == "2022-08-23T16:55Z/2022-08-23T17:05Z"
    assert outputs[0] == outputs[1]


def test_same_comparison_twice_is_the_same_report(lake: Path, capsys: pytest.CaptureFixture[str]):
    outputs = []
    for _ in range(2):
        run("compare", "--lake", str(lake), *DELAYED, "--json", "-")
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]
    assert section(json.loads(outputs[0]), "mutations")["response_time_total"] > 0


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ((), 1),
        (("--fail-on", "structural"), 0),
        (("--fail-on", "response-time"), 1),
        (("--fail-on", "never"), 0),
        (("--min-contribution", "1h"), 0),
        (("--min-contribution", "1%"), 1),
        (("--set", "level=L3"), 1),
        (("--fail-on", "structural", "--fail-on", "response-time"), 1),
        (("--set", "host_policy=role", "--set", "host_roles=recommendationservice-.*=advice"), 1),
        (settings("variant=released", "ranking=tr", "one_to_n=false", "distance=raw"), 1),
        (settings("alpha=0", "sm_threshold=100000"), 0),
    ],
)
def test_exit_code_says_what_was_found(lake: Path, options: tuple[str, ...], code: int):
    assert run("compare", "--lake", str(lake), *DELAYED, "--no-save", *options) == code


DEFAULT = (*BEFORE, "--problem", "2022-08-23T15:10/5m")


def test_robust_mode_is_the_default_and_names_the_operation(lake: Path, capsys: pytest.CaptureFixture[str]):
    """The recommendation service waits 500 ms in this recording."""
    assert run("compare", "-v", "--lake", str(lake), *DEFAULT) == 1
    out = capsys.readouterr().out
    assert "ListRecommendations" in out.partition("\nmean ")[0]
    assert "ListRecommendations" in out.split("\n1. ")[1].split("\n2. ")[0]
    # Whole on its line, to be copied: where the report is, and the command that looks further.
    fitting = [line for line in out.splitlines() if not line.startswith(("Report: ", "   flowdiff "))]
    assert not [line for line in fitting if len(line) > 80]
    folder = Path(out.rsplit("Report: ", 1)[1].strip()).parent
    found = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert [method["name"] for method in found["methods"]] == ["robust"]
    (first, *_) = section(found, "findings")["findings"]
    assert first["kind"] == "slower"
    assert "ListRecommendations" in first["site"]["operation"]
    mean = section(found, "account")["accounts"][0]
    parts = (mean["mix"], mean["calls"], mean["structure"], mean["slower"])
    assert sum(parts) == pytest.approx(mean["after"] - mean["before"], rel=1e-9)
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert 'id="f1"' in page
    assert 'id="sure"' in page
    query = "SELECT kind, component FROM findings WHERE report = ? ORDER BY rank"
    with open_session(resolve(parse_period("all", now_ns=0), default_lake=str(lake))) as session:
        rows = session.query(query, [folder.name]).to_pylist()
    assert rows[0] == {"kind": "slower", "component": first["site"]["component"]}


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--fail-on", "any"), 1),
        (("--fail-on", "findings"), 1),
        (("--fail-on", "worse"), 1),
        (("--only", "worse"), 1),
        (("--only", "better"), 2),
        (("--fail-on", "mutations"), 1),
        (("--fail-on", "response-time"), 1),
        (("--fail-on", "errors"), 0),
        (("--fail-on", "errors", "--fail-on", "response-time"), 1),
        (("--fail-on", "never"), 0),
        (("--min-contribution", "1%"), 1),
        (("--fail-on", "sometimes"), 2),
        (("--fail-on", "never", "--fail-on", "errors"), 2),
    ],
)
def test_exit_code_of_robust_mode(lake: Path, options: tuple[str, ...], code: int):
    assert run("compare", "--lake", str(lake), *DEFAULT, "--no-save", *options) == code


@pytest.mark.parametrize("problem", ["2022-08-23T16:55/10m", "2022-08-23T17:00/1h", "all"])
def test_overlapping_periods_are_refused(lake: Path, capsys: pytest.CaptureFixture[str], problem: str):
    assert run("compare", "--lake", str(lake), *BEFORE, "--problem", problem, "--no-save") == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "overlap" in error
    other = str(lake.parent / "." / "lake")
    periods = (*BEFORE, "--problem", f"{other}@{problem}")
    assert run("compare", "--lake", str(lake), *periods, "--no-save") == 2


def test_filters_that_differ_may_overlap_in_time(lake: Path):
    sides = ("--reference-where", "component = cartservice", "--problem-where", "component != cartservice")
    assert run("compare", "--lake", str(lake), *BEFORE, "--problem", BEFORE[1], "--no-save", *sides) < 2
    same = ("--where", "component = cartservice")
    assert run("compare", "--lake", str(lake), *BEFORE, "--problem", BEFORE[1], "--no-save", *same) == 2


def test_lake_in_the_period_and_files_elsewhere(lake: Path, tmp_path: Path):
    page, data = tmp_path / "page.html", tmp_path / "data.json"
    reports = sorted(lake.glob("reports/*"))
    code = run(
        "compare",
        *("--reference", f"{lake}@2022-08-23T16:55/10m", "--problem", f"{lake}@2022-08-23T15:10/5m"),
        *("--no-save", "--json", str(data), "--html", str(page)),
    )
    assert code == 1
    assert json.loads(data.read_text(encoding="utf-8"))["id"] in page.read_text(encoding="utf-8")
    assert sorted(lake.glob("reports/*")) == reports


def test_filter_is_named_in_the_report(lake: Path, capsys: pytest.CaptureFixture[str]):
    where = "root = 'frontend/hipstershop.Frontend/Recv.'"
    run("compare", "--lake", str(lake), *DELAYED, "--no-save", "--where", where, "--json", "-")
    found = json.loads(capsys.readouterr().out)
    assert [sample["where"] for sample in found["samples"]] == [where, where]


@pytest.mark.parametrize(
    ("arguments", "slug"),
    [
        (("--reference", "2001-01-01", "--problem", "2022-08-23"), "period"),
        (("--reference", "soon", "--problem", "2022-08-23"), "period"),
        ((*DELAYED, "--where", "root ="), "period"),
        ((*DELAYED, "--min-contribution", "some"), "config"),
        ((*DELAYED, "--no-save", "--html", "/nowhere/at/all.html"), "input"),
    ],
)
def test_errors_are_one_line_and_code_two(
    lake: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], slug: str
):
    assert run("compare", "--lake", str(lake), *arguments) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.rstrip().endswith(f"[{slug}]")


def test_without_a_lake_the_error_says_so(capsys: pytest.CaptureFixture[str]):
    assert run("compare", *DELAYED) == 2
    assert "--lake" in capsys.readouterr().err
