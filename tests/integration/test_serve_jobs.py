"""Comparisons that `flowdiff serve` runs: asked, awaited, answered, cancelled, killed, refused."""

from __future__ import annotations

import html
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from fixtures.served_site import PROBLEM, REFERENCE, Served, serving, simulated_lake
from oracles.waiting import wait_until

import flowdiff
from stitch.scratch import Scratch

DAYS = {"reference": REFERENCE, "problem": PROBLEM}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> str:
    return simulated_lake(tmp_path_factory.mktemp("jobs"), summarized=False)


@pytest.fixture(scope="module")
def site(lake: str) -> Iterator[Served]:
    with serving(lake) as served:
        yield served


def asked(site: Served, **fields: str) -> str:
    """Address of a question that is asked."""
    got = site.post("/compare", fields)
    assert got.status == 303, got.text
    return got.headers["location"]


def settled(site: Served, address: str) -> dict[str, Any]:
    """JSON of a question's address once it is neither waiting nor running."""

    def found() -> dict[str, Any] | None:
        told: dict[str, Any] = site.get(f"{address}&format=json").json
        return None if told.get("state") in ("waiting", "running") else told

    return wait_until(found, every_s=0.1)


def test_an_address_is_a_question_then_its_report(site: Served, lake: str) -> None:
    address = f"/compare?reference={REFERENCE}&problem={PROBLEM}"
    assert site.get(f"{address}&format=json").json["state"] == "not-asked"
    moved = asked(site, **DAYS)
    found = settled(site, moved)
    same = flowdiff.open(lake).compare(REFERENCE, PROBLEM).report
    assert found["id"] == same.id
    page = site.get(address)
    assert page.status == 200
    assert same.headline.sentence.split()[0] in page.text.replace("<wbr>", "")
    assert asked(site, **DAYS) == moved  # answered at once from what is kept
    assert site.get(f"{moved}&format=json").json["id"] == same.id


def test_relative_periods_are_resolved_when_asked(site: Served) -> None:
    address = asked(site, reference="same-weekday", problem=PROBLEM)
    assert f"reference={quote('2026-11-12/2026-11-13', safe='')}" in address
    assert "holds no window" in settled(site, address)["error"]


def test_a_finding_leads_to_a_request_and_its_twin(site: Served) -> None:
    address = asked(site, **DAYS)
    report = settled(site, address)
    findings = next(one for one in report["sections"] if one["section"] == "findings")["findings"]
    examples = {one["sample"]: one["request_id"] for one in findings[0]["examples"]}
    page = site.get(address).text
    links = set(re.findall(rf'href="(/requests/{examples["problem"]}\?[^"]+)"', page))
    assert len(links) == 1
    got = site.get(f"{links.pop()}&format=json").json
    assert got["request"]["request_id"] == examples["problem"]
    assert got["twin"]["request_id"] in {
        one["request_id"] for one in findings[0]["examples"] if one["sample"] == "reference"
    }
    waited = sum(bar["waited_us"] for bar in got["request"]["bars"])
    assert waited == pytest.approx(got["request"]["response_us"], rel=1e-6)


def test_a_finding_has_an_address_that_leads_to_requests_of_both_sides(site: Served) -> None:
    address = asked(site, **DAYS)
    report = settled(site, address)
    findings = next(one for one in report["sections"] if one["section"] == "findings")["findings"]
    own = f"/compare/finding/1?{address.partition('?')[2]}"
    assert own in html.unescape(site.get(address).text)  # the title of its card
    got = site.get(f"{own}&format=json").json
    assert got["finding"]["title"] == findings[0]["title"]
    for side, affected in (("reference", "affected0"), ("problem", "affected1")):
        listed = got["requests"][side]
        assert listed["total"] == findings[0][affected]
        times = [one["response_us"] for one in listed["slowest"]]
        assert times == sorted(times, reverse=True)
    page = html.unescape(site.get(own).text)
    slowest = got["requests"]["problem"]["slowest"][0]
    (link,) = set(re.findall(rf'href="(/requests/{slowest["request_id"]}\?[^"]*beside=[^"]+)"', page))
    pair = site.get(f"{link}&format=json").json
    assert pair["request"]["response_us"] == pytest.approx(slowest["response_us"])
    assert pair["twin"] is not None
    assert site.get("/compare/finding/99?" + address.partition("?")[2]).status == 404
    assert site.get("/compare/finding/0?" + address.partition("?")[2]).status == 404
    assert site.get("/compare/finding/0000000019?" + address.partition("?")[2]).status == 404  # 19, not 1
    assert site.get(f"{own}&method=paths").status == 200  # a part of the same result


def test_a_finding_of_a_question_that_nobody_asked_is_its_form(site: Served) -> None:
    got = site.get(f"/compare/finding/1?reference={PROBLEM}&problem={REFERENCE}")
    assert got.status == 303
    assert got.headers["location"].startswith("/compare?reference=")
    assert site.get("/compare/finding/1").status == 400


def test_whole_paths_are_a_page_of_the_same_result(site: Served) -> None:
    moved = asked(site, **DAYS)
    report = settled(site, moved)
    paths = asked(site, method="paths", **DAYS)
    assert "method=paths" in paths
    section = next(one for one in report["sections"] if one["section"] == "paths")
    assert site.get(f"{paths}&format=json").json == section  # at once: nothing is computed for it
    page = site.get(paths).text.replace("<wbr>", "")
    assert "Whole paths" in page
    assert f"{section['paths_total']} paths" in page
    assert html.escape(moved) in page


def test_a_finding_of_a_kept_report(site: Served) -> None:
    kept = site.get("/reports?format=json").json["reports"][0]["id"]
    got = site.get(f"/compare/finding/1?report={kept}&format=json").json
    assert got["report"] == kept
    assert got["requests"]["problem"]["total"] > 0


@pytest.mark.parametrize("content", [b"", b"PAR1 and more", None])
def test_a_finding_beside_a_damaged_table_of_requests_shows_its_examples(
    site: Served, lake: str, content: bytes | None
) -> None:
    kept = site.get("/reports?format=json").json["reports"][0]["id"]
    table = Path(lake, "reports", kept, "requests.parquet")
    whole = table.read_bytes()
    try:
        table.unlink()
        if content is not None:
            table.write_bytes(content)
        got = site.get(f"/compare/finding/1?report={kept}&format=json")
    finally:
        table.unlink(missing_ok=True)
        table.write_bytes(whole)
    assert got.status == 200
    examples = {one["request_id"] for one in got.json["finding"]["examples"]}
    assert {one["request_id"] for one in got.json["requests"]["problem"]["slowest"]} <= examples


def test_sql_compares_periods_as_flowdiff_sql_does(site: Served, lake: str) -> None:
    query = f"SELECT rank, title, requests1 FROM compare('{REFERENCE}', '{PROBLEM}') ORDER BY rank"
    got = site.get(f"/sql?format=json&q={quote(query)}")
    assert got.status == 200, got.text
    assert got.json == flowdiff.open(lake).sql(query).arrow().to_pylist()
    page = site.get(f"/sql?q={quote(query)}")
    assert str(got.json[0]["requests1"]) in page.text.replace(",", "")
    wrong = site.get(f"/sql?q={quote(query.replace(PROBLEM, '2031-01-01'))}")
    assert "2031-01-01" in wrong.text
    variance = "SELECT * FROM compare('2026-11-18', '2026-11-19', method := 'variance')"
    assert "gives no findings" in site.get(f"/sql?q={quote(variance)}").text


def test_queries_that_wait_for_comparisons_leave_room_for_others(lake: str) -> None:
    """Four of them stopped the page of SQL, and timelines of hosts, for a quarter of an hour."""
    pairs = ((REFERENCE, PROBLEM), (PROBLEM, REFERENCE))
    queries = [f"SELECT rank FROM compare('{before}', '{after}')" for before, after in pairs]
    addresses = [f"/sql?format=json&q={quote(query)}" for query in queries]
    with serving(lake, "--set", "jobs=1", "--set", "comparing_queries=1") as served:
        asked(served, **DAYS)
        running(served)
        with ThreadPoolExecutor() as pool:
            first, second = answers = list(pool.map(served.get, addresses))
        assert served.get(f"/sql?format=json&q={quote('SELECT 1 AS one')}").json == [{"one": 1}]
    assert sorted("Too many queries wait" in answer.text for answer in answers) == [False, True]
    assert first.status != second.status


def test_a_request_without_a_report_has_a_twin_of_its_root(site: Served, lake: str) -> None:
    slowest = "SELECT request_id, root FROM requests ORDER BY response_us DESC LIMIT 1"
    (row,) = flowdiff.open(lake).sql(slowest, PROBLEM).arrow().to_pylist()
    got = site.get(f"/requests/{row['request_id']}?format=json").json
    assert got["twin"]["root"] == row["root"]
    assert got["twin"]["request_id"] != row["request_id"]
    assert got["twin"]["start_ns"] < got["request"]["start_ns"]


@pytest.mark.parametrize("method", ["browse", "variance", "distalyze", "clusters", "paper"])
def test_every_method_has_its_report(site: Served, method: str) -> None:
    fields = {"period": PROBLEM} if method == "browse" else DAYS
    address = asked(site, method=method, **fields)
    found = settled(site, address)
    assert found["methods"][0]["name"] == method
    assert site.get(address).status == 200


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, "Name the periods"),
        ({"reference": REFERENCE}, "'problem' is missing"),
        ({"reference": "/etc@all", "problem": PROBLEM}, "other lakes"),
        ({"reference": "soon", "problem": PROBLEM}, "soon"),
        ({**DAYS, "where": "colour ~ red"}, "cannot read"),
        ({**DAYS, "method": "magic"}, "is one of"),
        ({**DAYS, "where": "x" * 3000}, "at most"),
    ],
)
def test_what_cannot_be_asked_is_refused(site: Served, fields: dict[str, str], told: str) -> None:
    got = site.post("/compare?format=json", fields)
    assert got.status == 400
    assert told in got.text


def children(site: Served) -> list[int]:
    """Processes of jobs, which are called by the end of their module's name."""
    command = ["pgrep", "-P", str(site.process.pid), "-x", "ve.jobs.process"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return [int(word) for word in done.stdout.split()]


def running(site: Served) -> int:
    """The process of a job, once it runs."""
    return wait_until(lambda: children(site))[0]


def test_a_killed_job_is_a_page_and_can_be_asked_again(lake: str) -> None:
    with serving(lake, "--set", "jobs=1") as served:
        address = asked(served, **DAYS)
        os.kill(running(served), signal.SIGKILL)
        found = settled(served, address)
        assert found["state"] == "failed"
        assert "SIGKILL" in found["error"]
        assert "SIGKILL" in served.get(address).text
        assert served.get("/healthz").status == 200
        assert "sections" in settled(served, asked(served, **DAYS))


def test_a_job_is_cancelled_and_the_queue_is_bounded(lake: str) -> None:
    with serving(lake, "--set", "jobs=1", "--set", "queued_jobs=1") as served:
        first = asked(served, **DAYS)
        os.kill(running(served), signal.SIGSTOP)  # it does not end before it is cancelled
        second = asked(served, method="variance", **DAYS)
        refused = served.post("/compare", {**DAYS, "method": "paper"})
        assert refused.status == 503
        assert refused.headers["retry-after"]
        for address in (second, first):
            job = served.get(f"{address}&format=json").json["job"]
            assert served.post(f"/jobs/{job}/cancel", {}).status == 303
            assert served.get(f"{address}&format=json").json["state"] in ("cancelled", "running")
        assert settled(served, first)["state"] == "cancelled"
        assert not children(served)


@pytest.mark.parametrize(
    ("limit", "told"),
    [("job_seconds=0.2", "longer than 0.2 s"), ("job_memory=10MB", "more than 10MB of memory")],
)
def test_a_job_is_bounded(lake: str, limit: str, told: str) -> None:
    with serving(lake, "--set", limit, "--set", "job_check_seconds=0.02") as served:
        found = settled(served, asked(served, **DAYS))
        assert found["state"] == "failed"
        assert found["error"]
        assert told in found["error"]
        assert served.get("/healthz").status == 200


def test_jobs_end_with_a_server_that_is_killed(lake: str) -> None:
    before = {*Path(tempfile.gettempdir()).glob("flowdiff-scratch-*")}
    with serving(lake) as served:
        asked(served, **DAYS)
        job = running(served)
        served.process.kill()
        served.process.wait()
        wait_until(lambda: not Path(f"/proc/{job}").exists())
    left = {*Path(tempfile.gettempdir()).glob("flowdiff-scratch-*")} - before
    assert left
    with Scratch() as scratch:  # of a process that begins later
        assert scratch.folder.exists()
    assert not any(folder.exists() for folder in left)


def test_results_outlive_a_server_with_a_cache(lake: str, tmp_path: Path) -> None:
    for _ in range(2):
        with serving(lake, "--cache", str(tmp_path / "cache")) as served:
            found = settled(served, asked(served, **DAYS))
            assert "sections" in found
    assert len([*(tmp_path / "cache").rglob("report.json")]) == 1


def test_two_lakes_that_share_a_cache_have_results_of_their_own(lake: str, tmp_path: Path) -> None:
    """The same windows, flows and sizes: only the place differs."""
    copy = shutil.copytree(lake, tmp_path / "copy")
    cache = ("--cache", str(tmp_path / "cache"))
    with serving(lake, *cache) as one, serving(str(copy), *cache) as other:
        address = asked(one, **DAYS)
        settled(one, address)
        assert other.get(f"{address}&format=json").json["state"] == "not-asked"
        for path in (tmp_path / "cache").rglob("report.json"):
            assert one.get(f"/results/{path.parent.name}").status == 200
            assert other.get(f"/results/{path.parent.name}").status == 404


def test_the_oldest_result_gives_way(lake: str, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with serving(lake, "--cache", str(cache), "--set", "kept_jobs_bytes=1024") as served:
        first = asked(served, **DAYS)
        settled(served, first)
        before = {path.parent.name for path in cache.rglob("report.json")}
        settled(served, asked(served, method="variance", period=PROBLEM))

        def is_done() -> bool:
            jobs = served.get("/compare?format=json").json["jobs"]
            return all(one["state"] == "done" for one in jobs)

        wait_until(is_done)  # the report is there before its process has ended
        after = {path.parent.name for path in cache.rglob("report.json")}
        assert served.get(f"{first}&format=json").json["state"] == "not-asked"
    assert len(before) == len(after) == 1
    assert before != after


def test_the_proposed_pairs_can_be_asked(site: Served) -> None:
    for one in site.get("/compare?format=json").json["proposed"]:
        assert site.post("/compare", {name: one[name] for name in ("reference", "problem")}).status == 303
