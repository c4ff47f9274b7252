"""The list of a lake's reports is what its folders hold, whatever became of the list."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest
from oracles.kept_reports import kept, kept_in
from oracles.object_store import ObjectStore
from oracles.page_reader import Reader
from oracles.robust_report import robust_outcome
from oracles.shop import shop_outcome

from analyze.report import index
from analyze.report.gate import Outcome
from analyze.report.index import (
    INDEX_PAGE,
    INDEX_ROWS,
    KeptReport,
    index_page,
    kept_reports,
    outcome_words,
)
from analyze.report.store import put_same
from schemas.report.accounts import AccountSection
from stitch.lake.fsck import check
from stitch.lake.layout import ensure_lake
from stitch.lake.place import LakePlace, open_place
from stitch.lake.store import Store
from stitch.lake.upkeep.retention import _aged_reports


def other(outcome: Outcome, name: str) -> Outcome:
    """The same report under another id."""
    return dataclasses.replace(outcome, report=outcome.report.model_copy(update={"id": name}))


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    folder = tmp_path / "lake"
    folder.mkdir()
    ensure_lake(open_place(str(folder)).store, 300 * 10**9, 300 * 10**9, "test")
    return folder


def ids(place: LakePlace) -> set[str]:
    return {row.id for row in kept_reports(place)}


def test_reports_are_listed_with_what_they_found_and_where_they_are(lake: Path) -> None:
    outcome = shop_outcome()
    folder = kept(lake, outcome, "page")
    (row,) = kept_reports(open_place(str(lake)))
    assert row.outcome == outcome.report.verdict.outcome
    assert row.headline == outcome.report.headline.sentence
    assert row.kept_ns == (folder / "report.json").stat().st_mtime_ns
    assert (lake / row.path) == folder / "report.html"
    seen = Reader((lake / INDEX_PAGE).read_text())
    assert [attrs["href"] for tag, attrs in seen.tags if tag == "a"] == [f"{outcome.report.id}/report.html"]


@pytest.mark.parametrize(
    ("changed", "words"),
    [(True, "+3.0\xa0%"), (False, "not significant (+3.0\xa0%)"), (None, "+3.0\xa0% (not tested)")],
)
def test_a_mean_is_said_to_have_changed_where_a_test_supports_it(
    lake: Path, changed: bool | None, words: str
) -> None:
    """The first finding may be of something faster beside it."""
    outcome = robust_outcome()
    report = outcome.report
    assert report.headline.change is not None
    change = report.headline.change.model_copy(update={"delta_share": 0.03})
    sections = []
    for section in report.sections:
        if isinstance(section, AccountSection):
            if changed is None:
                continue
            accounts = [a.model_copy(update={"changed": changed}) for a in section.accounts]
            section = section.model_copy(update={"accounts": tuple(accounts)})
        sections.append(section)
    headline = report.headline.model_copy(update={"change": change})
    report = report.model_copy(update={"headline": headline, "sections": tuple(sections)})
    kept(lake, dataclasses.replace(outcome, report=report), "page")
    (row,) = kept_reports(open_place(str(lake)))
    assert row.mean == words
    assert words in (lake / INDEX_PAGE).read_text()


def test_the_list_follows_the_folders_whatever_became_of_it(lake: Path) -> None:
    place = open_place(str(lake))
    for name in ("1" * 16, "2" * 16, "3" * 16):
        kept(lake, other(shop_outcome(), name), "page")
    assert ids(place) == {"1" * 16, "2" * 16, "3" * 16}
    shutil.rmtree(lake / "reports" / ("2" * 16))
    (lake / "reports" / ("3" * 16) / "report.json").write_text("{")
    (lake / "reports" / ".staged-x").mkdir()
    (lake / INDEX_ROWS).write_text("[{")
    assert ids(place) == {"1" * 16}
    assert "2" * 16 not in (lake / INDEX_PAGE).read_text()
    (lake / INDEX_PAGE).unlink()
    assert ids(place) == {"1" * 16}
    assert "1" * 16 in (lake / INDEX_PAGE).read_text()


def test_upkeep_takes_the_list_for_no_report(lake: Path) -> None:
    kept(lake, shop_outcome(), "page")
    place = open_place(str(lake))
    kept_reports(place)
    assert not check(place.store, str(lake))
    assert _aged_reports(place.store, 2**62) == [f"reports/{shop_outcome().report.id}"]


def test_a_bucket_has_the_same_list_and_reads_each_report_once(tmp_path: Path) -> None:
    store = ObjectStore()
    outcome = shop_outcome()
    kept_in(store, outcome, "page")
    place = LakePlace("s3://lakes/shop", store, tmp_path)
    (first,) = kept_reports(place)
    store.objects[f"reports/{outcome.report.id}/report.json"] = b"not read"
    assert kept_reports(place) == [first]
    del store.objects[f"reports/{outcome.report.id}/report.json"]
    assert kept_reports(place) == []


def test_who_may_not_write_sees_the_list(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept(lake, shop_outcome(), "page")
    place = open_place(str(lake))

    def refuses(_self: Store, *_: object) -> None:
        raise PermissionError(13, "no")

    monkeypatch.setattr(type(place.store), "put_if_absent", refuses)
    assert len(kept_reports(place)) == 1
    assert not (lake / INDEX_PAGE).exists()


def test_a_list_of_which_only_the_page_was_written_is_mended(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = shop_outcome(), other(shop_outcome(), "another")
    kept(lake, first, "page")
    place = open_place(str(lake))
    kept_reports(place)
    written: list[str] = []

    def killed(store: Store, name: str, data: bytes, stage: str) -> None:
        if written:
            raise OSError(5, "killed")
        written.append(name)
        put_same(store, name, data, stage)

    with monkeypatch.context() as patched:
        patched.setattr(index, "put_same", killed)
        kept(lake, second, "page")
        kept_reports(place)
    assert len(written) == 1
    for each in kept_reports(place):
        assert each.id in (lake / INDEX_PAGE).read_text()
    assert {row["id"] for row in json.loads((lake / INDEX_ROWS).read_text())["rows"]} == {
        first.report.id,
        "another",
    }


def test_a_page_of_another_writer_at_the_same_time_is_mended(lake: Path) -> None:
    kept(lake, shop_outcome(), "page")
    place = open_place(str(lake))
    kept_reports(place)
    page = (lake / INDEX_PAGE).read_bytes()
    kept(lake, other(shop_outcome(), "another"), "page")
    kept_reports(place)
    (lake / INDEX_PAGE).write_bytes(page)  # who listed one report was the slower of two
    kept_reports(place)
    assert "another" in (lake / INDEX_PAGE).read_text()


def listed(periods: str, outcome: str, finding: str) -> KeptReport:
    """Make a row of the list."""
    return KeptReport(
        id="0" * 16,
        kept_ns=0,
        periods=periods,
        method="robust",
        outcome=outcome,
        verdict="",
        headline="",
        mean="",
        finding=finding,
        findings=1,
    )


def test_a_date_stays_on_its_line() -> None:
    """A period breaks after the slash, where a browser broke it after `2026-11-`."""
    row = listed("2026-11-18T09:00Z/2026-11-18T10:00Z", "not-explained", "")
    page = index_page([row], "lake")
    whole = '<span class="whole">2026-11-18T{}:00Z</span>'
    assert f"{whole.format('09')}/<wbr>{whole.format('10')}" in page
    assert "not explained" in page


@pytest.mark.parametrize(("outcome", "words"), [("shown", "overview"), ("mutations", "changed (paper)")])
def test_outcomes_of_other_methods_are_words_beside_changed(outcome: str, words: str) -> None:
    assert outcome_words(listed("a", outcome, "")) == words


def test_a_title_from_outside_is_text() -> None:
    hostile = listed("<script>", "changed", "</td><img src=x onerror=y>\x1b")
    seen = Reader(index_page([hostile], "<b>"))
    assert not {"script", "img", "b"} & {tag for tag, _ in seen.tags}
