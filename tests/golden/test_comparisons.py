"""Reports of many comparisons, field by field: what no rebuilding may change unless it says why."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from functools import cache
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from bench.walk import STAGES, calls_of, of_the_product, stages
from golden.comparisons import CASES, Case
from golden.lakes import lake_of
from golden.report_json import differences, kept, only_words_differ, written
from oracles.contradictions import contradictions

from flowdiff.__main__ import main
from schemas.report.accounts import ReasonKind

SHOWN = 40
"""Differences told of one report."""
WIDTH = 90
REFUSED = 2
CHANGED = "shop-contention"
"""A comparison whose mean rose significantly by something slower."""


def flowdiff(*arguments: object) -> tuple[int, str]:
    """The command line in this process: exit code, and what it printed."""
    out = StringIO()
    with redirect_stdout(out), redirect_stderr(out), pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return int(ended.value.code or 0), out.getvalue()


def report(case: Case, lake: Path | str, path: Path) -> tuple[dict[str, Any], str]:
    """Return (fields of the report that are kept, or the reason of a refused comparison; printed text)."""
    code, said = flowdiff(*case.arguments, "--lake", lake, "--no-save", "--json", path)
    if code == REFUSED:
        return {"exit_code": code, "error": said}, said
    return {"exit_code": code, **kept(json.loads(path.read_bytes()))}, said


@pytest.fixture(scope="session")
def lake(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Name -> a copy of the kept lake, in which no comparison before this session left its statistics."""
    folder = tmp_path_factory.mktemp("lakes")

    @cache
    def copied(name: str) -> Path:
        return Path(shutil.copytree(lake_of(name, repository, flowdiff), folder / name))

    return copied


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_report(
    case: Case,
    lake: Callable[[str], Path],
    tmp_path: Path,
    expected_folder: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The report, and of some comparisons the first screen, which is printed with it."""
    monkeypatch.setenv("COLUMNS", str(SCREEN_COLUMNS))
    monkeypatch.chdir(lake(case.lake).parent)  # where lines break must not hang on a path
    found, said = report(case, case.lake, tmp_path / "report.json")
    rewrites = request.config.getoption("--rewrite-golden")
    if case.name in SCREENS:
        _assert_screen(case.name, said, expected_folder / "screens" / f"{case.name}.txt", rewrites)
    golden = expected_folder / "comparisons" / f"{case.name}.json"
    known = json.loads(golden.read_bytes()) if golden.is_file() else None
    lines = [
        f"{at}: expected {_short(old)}, found {_short(new)}" for at, old, new in differences(known, found)
    ]
    if not lines:
        return
    numbers = "names and sentences only" if only_words_differ(known, found) else "NUMBERS differ"
    if rewrites:
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(written(found) + "\n", encoding="utf-8")
        pytest.skip(f"rewrote {golden.name}: {len(lines)} fields, {numbers}")
    shown = "\n".join(islice(lines, SHOWN))
    pytest.fail(
        f"{case.name}: {len(lines)} fields differ, {numbers} (see tests/golden/README.md)\n{shown}",
        pytrace=False,
    )


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= WIDTH else f"{text[:WIDTH]}…"


SCREENS = {
    "simulated-8.2-mds-config": ("SLOWER", "92 %", "flowdiff flow"),
    "simulated-8.2-repaired": ("FASTER", "for the better"),
    "simulated-F13-error-burst": ("FAILING", "flowdiff flow"),
    "simulated-AA-history": ("? FASTER", "suspect"),
    "boutique-delay": ("SLOWER", "recommendationservice"),
    "shop-exception": ("OTHER PATHS", "paymentservice", "flowdiff flow"),
    "shop-payment-delay": ("SLOWER", "paymentservice"),
    "shop-contention": ("SLOWER", "adservice", "flowdiff flow"),
    "shop-quiet": ("UNCHANGED", "may have changed unseen"),
    "tickets-contention": ("SLOWER", "ts-contacts-service"),
    "made-canary-the-canary-is-slower": ("SLOWER", "search-3"),
    "shop-few-requests": ("OTHER PATHS", "39 %"),
}
"""Comparisons whose first screens are kept, and what each must say."""
SCREEN_LINES, SCREEN_COLUMNS = 14, 100


def _assert_screen(name: str, said: str, golden: Path, rewrites: bool) -> None:
    if rewrites:
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(said, encoding="utf-8")
    lines = said.splitlines()
    assert len(lines) <= SCREEN_LINES
    assert max(map(len, lines)) <= SCREEN_COLUMNS
    plain = said.replace("\N{NO-BREAK SPACE}", " ")
    assert [words for words in SCREENS[name] if words not in plain] == []
    assert lines[0][0] in "✗✓?"
    assert any(line.startswith("gate: ") for line in lines[-3:])
    assert any(line.startswith("before ") for line in lines)
    assert said == golden.read_text(encoding="utf-8")


def test_every_screen_has_its_comparison(expected_folder: Path) -> None:
    assert SCREENS.keys() <= {case.name for case in CASES}
    assert {path.stem for path in (expected_folder / "screens").iterdir()} == SCREENS.keys()


def test_every_golden_has_its_comparison(expected_folder: Path) -> None:
    assert not [name for name, times in Counter(case.name for case in CASES).items() if times > 1]
    assert {path.stem for path in (expected_folder / "comparisons").iterdir()} == {
        case.name for case in CASES
    }


def test_no_gate_passes_beside_a_significant_row(expected_folder: Path) -> None:
    """Of none of the comparisons; only where asked for what is worse, a row for the better passes."""
    passed = []
    for case in CASES:
        known = json.loads((expected_folder / "comparisons" / f"{case.name}.json").read_bytes())
        sections = {section["section"]: section for section in known.get("sections", ())}
        if known["exit_code"] or "account" not in sections:
            continue
        passed += [
            (case.name, row["measure"])
            for row in sections["account"]["accounts"]
            if row["changed"] and not ("worse" in case.arguments and row["after"] < row["before"])
        ]
    assert not passed


def test_no_report_contradicts_itself(expected_folder: Path) -> None:
    found = {}
    for case in CASES:
        known = json.loads((expected_folder / "comparisons" / f"{case.name}.json").read_bytes())
        if {"verdict", "findings", "account"} <= {
            section["section"] for section in known.get("sections", ())
        }:
            found[case.name] = contradictions(known, known["exit_code"])
    assert len(found) > 50
    assert not {name: said for name, said in found.items() if said}


def test_each_stage_of_a_comparison_is_entered_once(lake: Callable[[str], Path], tmp_path: Path) -> None:
    case = next(case for case in CASES if case.name == CHANGED)
    page = tmp_path / "page.html"
    calls = calls_of(
        lambda: flowdiff(*case.arguments, "--lake", lake(case.lake), "--no-save", "--html", page)
    )
    assert page.stat().st_size
    assert stages(of_the_product(calls)) == dict.fromkeys(STAGES, 1)


def test_the_guard_against_contradictions_acts_in_no_kept_comparison(expected_folder: Path) -> None:
    """What it counts is in the report: a reason of this kind (`verdict.assertions.checked`)."""
    kinds = Counter(
        reason["kind"]
        for case in CASES
        for section in json.loads((expected_folder / "comparisons" / f"{case.name}.json").read_bytes()).get(
            "sections", ()
        )
        if section["section"] == "verdict"
        for reason in section.get("reasons", ())
    )
    assert kinds.total() > 100
    assert kinds[ReasonKind.CONTRADICTION] == 0


@pytest.mark.parametrize(
    ("what", "key", "value"),
    [
        ("finding", "before", 1e9),
        ("finding", "is_better", True),
        ("finding", "change", {"low": -1e9, "high": 1e9}),
        ("finding", "title", "a/b: its own time is 3.1\xa0ms, was 3.1\xa0ms"),
        ("findings", "better_total", 9),
        ("findings", "insignificant_mean", {"low": 1.0, "high": 2.0}),
        ("verdict", "outcome", "unchanged"),
        (
            "verdict",
            "reasons",
            [{"text": "The change of the mean response time is not significant (1 → 2): chance."}],
        ),
        ("verdict", "missing_requests", 5),
        ("verdict", "reasons", [{"text": "Likely at web: 80 % of the change of the mean lies there."}]),
        ("verdict", "reasons", [{"text": "About 5 more problem requests would tell."}]),
        ("mean", "changed", False),
        ("mean", "rows", [{"finding": 99}]),
        ("tail", "changed", False),
        ("headline", "sentence", "Mean response time fell from 28.6\xa0ms to 40.8\xa0ms."),
        ("report", "exit_code", 3),
    ],
)
def test_what_contradicts_is_seen(expected_folder: Path, what: str, key: str, value: object) -> None:
    known = json.loads((expected_folder / "comparisons" / f"{CHANGED}.json").read_bytes())
    sections = {section["section"]: section for section in known["sections"]}
    parts = {
        **{"report": known, "headline": known["headline"], **sections},
        **{
            "finding": sections["findings"]["findings"][0],
            **dict(zip(("mean", "tail"), sections["account"]["accounts"], strict=False)),
        },
    }
    assert contradictions(known, known["exit_code"]) == []
    parts[what][key] = value
    assert contradictions(known, known["exit_code"])


WINDOWS = (
    "a period of one or two windows shows no scatter of its own, so it is assumed, and the mean is less sure"
)
ONE_REQUEST = "what single requests record (the instance, a call without a span) is not kept"
SAME_REQUESTS = "of known paths that the same requests take, which is the nearest is told by the requests"
UNLIKE = {
    "simulated-8.2-repaired": SAME_REQUESTS,
    "simulated-8.6-spin-history": WINDOWS,
    "boutique-better": WINDOWS,
    "shop-quiet": WINDOWS,
    "shop-few-requests": WINDOWS,
    "made-zipkin-unrecorded-orders-db-fails-in-35": ONE_REQUEST,
    "made-canary-the-canary-is-slower": ONE_REQUEST,
}
"""Comparisons of which statistics cannot say what requests say, and why."""
assert UNLIKE.keys() <= {case.name for case in CASES}


def _answer(report: dict[str, Any]) -> tuple[int, str, list[tuple[object, ...]]]:
    """Exit code, outcome, and the findings in their order: at which site, of which kind, whom they name."""
    if "error" in report:
        return report["exit_code"], "", []
    sections = {section["section"]: section for section in report["sections"]}
    findings = [
        (f["site"]["component"], f["site"]["operation"], f["kind"], f.get("suspect", ""))
        for f in sections["findings"].get("findings", ())
    ]
    return report["exit_code"], sections["verdict"]["outcome"], findings


def _load(report: dict[str, Any]) -> list[float]:
    """Requests a second of either period; of a comparison that is refused none."""
    sections = [section for section in report.get("sections", ()) if section["section"] == "account"]
    return [section[rate] for section in sections for rate in ("rate0", "rate1")]


@pytest.mark.parametrize(
    "case",
    [c for c in CASES if c.arguments[0] == "compare" and not {"--statistics", "paper"} & {*c.arguments}],
    ids=lambda case: case.name,
)
def test_statistics_find_what_requests_find(
    case: Case, lake: Callable[[str], Path], tmp_path: Path, expected_folder: Path
) -> None:
    """Of all comparisons but those named above; the load is one number in all of them."""
    known = json.loads((expected_folder / "comparisons" / f"{case.name}.json").read_bytes())
    arguments = (*case.arguments, "--statistics", "all", "--set", "robust.explained=0")
    found, _ = report(replace(case, arguments=arguments), lake(case.lake), tmp_path / "report.json")
    assert _load(found) == pytest.approx(_load(known), rel=1e-6)
    if case.name not in UNLIKE:
        assert _answer(found) == _answer(known)
    else:
        assert _answer(found) != _answer(known), "it agrees by now: its row goes"
