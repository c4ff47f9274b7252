"""A lake in which names hold ids: folded before graphs are made, alike from requests and from statistics."""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest
from fixtures.timed_command import timed
from oracles.quiet_import import Quiet
from oracles.sample_profiles import sample_profile
from oracles.traffic import START_NS

from analyze.load import load_population
from analyze.methods.robust.settings import VerdictSettings
from analyze.methods.robust.verdict.data_quality import label_rows
from analyze.population import Population
from analyze.profile.build import profile_of
from analyze.profile.history import read_samples
from analyze.profile.profile import Profile
from analyze.refine.settings import RefineSettings
from analyze.scope import LakePeriod, Lakes
from schemas.ranges import parse_ranges
from schemas.windows import NS_PER_MINUTE, NS_PER_SECOND
from stitch.drivers.batch import ImportSettings, import_into

WINDOW_NS = 5 * NS_PER_MINUTE
MINUTES = 30
SETTINGS = RefineSettings(max_names=100)
LIBRARIES_MB, SPARE_MB = 180, 64
"""Of a process that imports, and what libraries take on their first real work (performance.md)."""


def lines(n: int, names: int, *, few_after: int | None = None) -> Iterator[str]:
    """Requests of three records, each root of a directory; `few_after`: later ones are of ten only."""
    for at in range(n):
        ns = START_NS + at * MINUTES * 60 * NS_PER_SECOND // n
        name = at * 7919 % names if few_after is None or at < few_after else at % 10
        for after, component, point, more in (
            (0, "User", f"fs -mkdir dir_{name}", f',"params":{{"size":{at}}}'),
            (100_000 + at % 777, "nn", "mkdirs", ""),
            (250_000 + at * 7919 % 50_000, "User", "done", ',"kind":"end"'),
        ):
            yield (
                f'{{"request_id":"r{at}","breadcrumb":"r{at}","ts":{ns + after},"component":"{component}",'
                f'"point":"{point}","host":"h"{more}}}\n'
            )


def lake_of(folder: Path, rows: Iterator[str]) -> Path:
    (folder / "in.ndjson").write_text("".join(rows))
    import_into(
        folder / "lake",
        [str(folder / "in.ndjson")],
        ImportSettings(window_length_ns=WINDOW_NS),
        owner="test",
        created_by="test",
        stdin=BytesIO(),
        progress=Quiet(),
    )
    return folder / "lake"


def found(lake: Path, text: str = "all") -> tuple[LakePeriod, ...]:
    return Lakes(str(lake)).ranges(parse_ranges([text], now_ns=0))


def loaded(lake: Path, settings: RefineSettings = SETTINGS) -> Population:
    return load_population([("all", found(lake))], settings).population


def sums(profile: Profile) -> dict[str, list[float]]:
    """Of each table all that is summed."""
    return {
        name: [round(sum(table[column].to_pylist()), 3) for column in table.column_names if column in "nw"]
        for name, table in profile.tables().items()
    }


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lake_of(tmp_path_factory.mktemp("names"), lines(3000, 1000))


def test_names_are_folded_before_graphs_are_made(lake: Path) -> None:
    population = loaded(lake)
    (category,) = population.categories
    assert category.graph.root == "User/fs -mkdir dir_#"
    assert category.n_requests == 3000
    assert len(category.stored) == 1
    (fold,) = population.folded
    assert (fold.component, fold.left) == ("User", 2)
    assert fold.example == ("User/fs -mkdir dir_0", "User/fs -mkdir dir_#")
    # The params of a request are found by the operation that it is shown with.
    assert population.stored_operations(category.stored)[category.stored[0]][0] == "User/fs -mkdir dir_#"
    apart = loaded(lake, RefineSettings(max_names=1001))
    assert len(apart.categories) == 1000
    assert apart.folded == ()


def test_names_that_are_too_few_to_be_folded_are_folded_as_the_report_advises(tmp_path: Path) -> None:
    lake, settings = lake_of(tmp_path, lines(400, 300)), VerdictSettings()
    (row,) = label_rows(loaded(lake, RefineSettings()), settings)
    assert row.severe
    assert row.text.startswith("300 root types in 400 traces: names hold ids")
    said = re.search(r"A smaller refine.max_names, say (\d+), folds", row.text)
    assert said is not None
    folded = loaded(lake, RefineSettings(max_names=int(said[1])))
    assert {category.graph.root for category in folded.categories} == {"User/fs -mkdir dir_#"}
    assert not [*label_rows(folded, settings)]


def test_statistics_say_the_same(lake: Path, tmp_path: Path) -> None:
    population = loaded(lake)
    profile = sample_profile([found(lake)], SETTINGS)
    assert profile.folded == population.folded
    again = sample_profile([found(lake)], SETTINGS)
    assert again == profile
    made = profile_of(population, profile.slots).profile
    assert made.names == profile.names
    assert sums(made) == sums(profile)
    # Of a time in which names were few no window folds any by itself.
    other = lake_of(tmp_path, lines(3000, 1000, few_after=1500))
    mixed = sample_profile([found(other)], SETTINGS)
    assert mixed.names == profile.names
    assert sums(mixed) == sums(profile_of(loaded(other), mixed.slots).profile)
    assert mixed.responses.num_rows < 200


def test_a_history_of_statistics_and_requests_are_folded_alike(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, lines(3000, 1000, few_after=2000))
    past, now = ("2025-11-20T00:50/2025-11-20T01:10", "2025-11-20T01:15/2025-11-20T01:20")
    read = read_samples(
        [("reference", found(lake, past)), ("problem", found(lake, now))],
        [("history", found(lake, past))],
        SETTINGS,
        use="history",
    )
    assert read.compared.kept is None
    assert {category.graph.root for category in read.compared.population.categories} == {
        "User/fs -mkdir dir_#"
    }


def test_a_report_says_what_was_folded_and_memory_is_bounded(tmp_path: Path) -> None:
    """50,000 root types, each of one request: memory goes by the budget and by requests, not by names."""
    (tmp_path / "in.ndjson").write_text("".join(lines(50_000, 50_000)))
    page, brief, printed = (tmp_path / name for name in ("page.html", "brief.md", "printed.txt"))
    lake = ("--lake", str(tmp_path / "lake"))
    took = timed("import", str(tmp_path / "in.ndjson"), *lake, "--memory", "128MB")
    assert took.peak_gb * 1024 < 128 + LIBRARIES_MB + SPARE_MB
    periods = ("2025-11-20T01:00/2025-11-20T01:15", "2025-11-20T01:15/2025-11-20T01:30")
    files = ("--html", str(page), "--markdown", str(brief))
    words = (*lake, "--no-save", *files, "--reference", periods[0], "--problem", periods[1])
    took = timed("compare", *words, output=printed)
    assert took.peak_gb < 0.35
    for told in (page, brief, printed):
        text = " ".join(told.read_text().replace("\\", "").split())
        assert "Operations of User have more names than can be compared one by one" in text
        assert "User/fs -mkdir dir_#), which leaves 2." in text
