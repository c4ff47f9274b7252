"""Pages of `flowdiff serve` that ask the lake: SQL and timelines."""

from __future__ import annotations

import io
import json
import re
import socket
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pyarrow.parquet as pq
import pytest
from fixtures.served_site import Got, Served, serving, simulated_lake
from oracles.waiting import wait_until
from oracles.watched_shop import Pods, write_minutes

import flowdiff
from flowdiff.serve.recipes import RECIPES

DOCS = Path(__file__).parents[2] / "docs" / "internals"
DEPLOY = Path(__file__).parents[2] / "deploy"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> str:
    return simulated_lake(tmp_path_factory.mktemp("pages"))


@pytest.fixture(scope="module")
def site(lake: str) -> Iterator[Served]:
    with serving(lake, "--set", "query_seconds=20", "--set", "shown_rows=5") as served:
        yield served


ROOTS = "SELECT root, count(*) AS n FROM requests GROUP BY root ORDER BY root"


def of_sql(query: str, **more: str) -> str:
    return f"/sql?{urlencode({'q': query, **more})}"


def test_a_result_is_a_table_and_a_file(site: Served, lake: str) -> None:
    rows = flowdiff.open(lake).sql(ROOTS).arrow().to_pylist()
    page = site.get(of_sql(ROOTS)).text.replace("<wbr>", "")
    assert all(row["root"] in page for row in rows[:5])
    assert "as CSV" in page
    table = pq.read_table(io.BytesIO(site.get(of_sql(ROOTS, format="parquet")).body))
    assert table.to_pylist() == rows
    got = site.get(of_sql(ROOTS, format="csv"))
    assert got.headers["content-disposition"] == 'attachment; filename="flowdiff.csv"'
    assert got.text.splitlines()[1] == f"{rows[0]['root']},{rows[0]['n']}"
    assert site.get(of_sql(ROOTS, format="json")).json == rows


def result_of(served: Served, query: str) -> Got:
    """Ask until there is room: a result that was sent leaves its place only after its last byte arrived."""

    def result() -> Got | None:
        got = served.get(of_sql(query, format="csv"))
        return None if got.status == 503 else got

    return wait_until(result)


def test_readers_that_take_nothing_are_cut_off_and_hold_no_memory(lake: str) -> None:
    big = "SELECT repeat('x', 1000) || i AS text FROM range(40000) AS r(i)"
    with serving(lake, "--set", "send_seconds=2", "--set", "results_sent=2") as served:
        assert len(result_of(served, "SELECT 1 AS one").body) == len("one\r\n1\r\n") - 2
        for _ in range(2):  # what making it takes is not given back
            assert len(result_of(served, big).body) > 40_000_000
        before = memory_mb(served, "VmHWM")
        slow = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(2)]
        try:
            for one in slow:
                request = f"GET {of_sql(big, format='csv')} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
                one.sendall(request.encode())
                assert one.recv(12) == b"HTTP/1.1 200"
            assert memory_mb(served, "VmRSS") - before < 40  # of twice 40 MB
            refused = served.get(of_sql("SELECT 1 AS one", format="csv"))
            assert refused.status in (200, 503)  # 200: they are cut off by now
            assert result_of(served, "SELECT 1 AS one").status == 200
        finally:
            for one in slow:
                one.close()
        assert len(result_of(served, big).body) > 40_000_000  # a reader that reads gets all


def memory_mb(served: Served, field: str) -> float:
    """Memory of the server itself: now (VmRSS), or the most so far (VmHWM)."""
    status = (Path("/proc") / str(served.process.pid) / "status").read_text()
    return int(re.findall(rf"{field}:\s+(\d+)", status)[0]) / 1024


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("COPY requests TO '/tmp/x.csv'", "Only statements that read"),
        ("SELECT * FROM read_text('/etc/passwd')", "failed"),
        ("SELECT * FROM '/etc/passwd'", "failed"),
        ("ATTACH '/tmp/x.db'", "Only statements that read"),
        ("SET memory_limit = '100GB'", "Only statements that read"),
        ("INSTALL httpfs", "Only statements that read"),
        ("SELECT 1; SELECT 2", "2 statements"),
        ("SELECT * FROM nothing", "no table"),
    ],
)
def test_a_statement_reads_this_lake_and_nothing_else(site: Served, query: str, told: str) -> None:
    assert told in site.get(of_sql(query)).text
    assert site.get(of_sql(query, format="json")).status == 400


def test_other_lakes_are_not_read(site: Served, lake: str) -> None:
    assert site.get(of_sql(ROOTS, period=f"{lake}@all", format="json")).status == 400


def test_a_query_that_never_ends_is_ended(lake: str) -> None:
    with serving(lake, "--set", "query_seconds=1") as served:
        got = served.get(of_sql("SELECT count(*) FROM range(1000000000) a, range(1000000) b"))
        assert "computed for more than 1 s" in got.text
        # On a busy machine this may take a second, too.
        wait_until(lambda: served.get(of_sql("SELECT 41 + 1 AS n", format="json")).json == [{"n": 42}])


def test_a_result_is_bounded(lake: str) -> None:
    with serving(lake, "--set", "most_result_bytes=20000") as served:
        got = served.get(of_sql("SELECT * FROM range(100000)", format="csv"))
        assert got.status == 400
        assert "larger than 20000 bytes" in got.text


def test_a_link_from_another_site_runs_nothing(site: Served) -> None:
    got = site.get(of_sql(ROOTS), {"Sec-Fetch-Site": "cross-site"})
    assert "came from another site" in got.text
    assert "as CSV" not in got.text
    file = site.get(of_sql(ROOTS, format="csv"), {"Sec-Fetch-Site": "cross-site"})
    assert "text/html" in file.headers["content-type"]


@pytest.mark.parametrize("of", ["by=host", "by=version", "host=nobody", "component=a&version=1"])
def test_a_link_from_another_site_reads_no_spans(site: Served, of: str) -> None:
    path = f"/timeline?span=1h&{of}"
    got = site.get(path, {"Sec-Fetch-Site": "cross-site"})
    assert (got.status, "came from another site" in got.text) == (200, True)
    (link,) = re.findall(r'href="(/timeline[^"]*)">Read the spans', got.text)
    own = site.get(unescape(link), {"Sec-Fetch-Site": "same-origin"})
    assert "came from another site" not in own.text
    assert own.status == (404 if "nobody" in of or "version=1" in of else 200)


def test_a_hostile_name_is_text(site: Served) -> None:
    hostile = "<script>alert(1)</script><img src=x onerror=alert(1)>"
    quoted = hostile.replace("'", "''")
    got = site.get(of_sql(f"SELECT '{quoted}' AS \"<b>x</b>\""))
    assert "<script>alert" not in got.text
    assert "<img" not in got.text
    assert "<b>x</b>" not in got.text
    for path in (
        f"/timeline?root={quote(hostile)}",
        f"/reports?q={quote(hostile)}",
        f"/?span={quote(hostile)}",
    ):
        assert "<script>alert" not in site.get(path).text


def test_the_queries_to_begin_with_are_those_of_the_documentation(site: Served) -> None:
    text = (DOCS / "recipes.md").read_text()
    for recipe in RECIPES:
        assert f". {recipe.title}\n" in text
        assert recipe.query in text
        assert site.get(of_sql(recipe.query, format="json")).status == 200


def windows_of(site: Served, path: str) -> list[dict[str, object]]:
    """Windows of a timeline, once they are read."""
    return list(wait_until(lambda: site.get(f"{path}&format=json").json["windows"], every_s=0.2))


def test_the_timeline_of_a_root_is_what_the_view_says(site: Served, lake: str) -> None:
    (row,) = flowdiff.open(lake).sql("SELECT root FROM responses LIMIT 1").arrow().to_pylist()
    found = windows_of(site, f"/timeline?root={quote(row['root'])}")
    same = flowdiff.open(lake).sql(
        "SELECT requests, mean_us FROM responses WHERE root = :root ORDER BY window_start", root=row["root"]
    )
    assert [(one["requests"], one["mean_us"]) for one in found] == [
        (one["requests"], one["mean_us"]) for one in same.arrow().to_pylist()
    ]
    page = site.get(f"/timeline?root={quote(row['root'])}").text
    (address,) = set(re.findall(r'href="(/sql\?[^"]+)"', page))
    assert len(site.get(f"{address.replace('&amp;', '&')}&format=json").json) == len(found)


def test_the_timeline_of_a_call_site(site: Served) -> None:

    def sites() -> list[dict[str, Any]] | None:
        got = site.get("/timeline?format=json").json
        return None if got["windows_not_read"] else got["sites"]

    listed = wait_until(sites)
    assert listed == sorted(listed, key=lambda one: -one["requests"] * one["critical_us"])
    path = f"/timeline?site={listed[0]['site']}"
    found = windows_of(site, path)
    assert sum(one["requests"] for one in found) == listed[0]["requests"]  # type: ignore[misc]
    assert listed[0]["operation"] in site.get(path).text.replace("<wbr>", "")
    page = site.get(path).text
    (address,) = set(re.findall(r'href="(/sql\?[^"]+)"', page))
    same = site.get(f"{address.replace('&amp;', '&')}&format=json").json
    numbers = ("start_ns", "requests", "calls", "mean_us", "p95_us", "failing", "share")
    assert [[one[name] for name in numbers] for one in same] == [
        [one[name] for name in numbers] for one in found
    ]


def test_the_timeline_of_a_host_and_of_a_version_are_sums_over_spans(tmp_path: Path) -> None:
    traces = tmp_path / "shop.otlp.jsonl"
    write_minutes(traces, 0, 4, versions={2: "v2"}, pods=Pods())
    lake = flowdiff.open(str(tmp_path / "lake"), create=True)
    lake.import_(traces)
    with serving(lake.name) as served:
        for by in ("host", "version"):
            listed = served.get(f"/timeline?by={by}&format=json").json[f"{by}s"]
            assert len(listed) >= 2
            page = served.get(f"/timeline?by={by}").text
            assert all(one["value"] in page for one in listed[:5])
            first = listed[0]
            given = {"host": first["value"]} if by == "host" else {"version": first["value"]}
            asked = urlencode({**given, "component": first["component"]})
            found = served.get(f"/timeline?{asked}&format=json").json["windows"]
            where = f"{by} = :value AND component = :component"
            query = f"SELECT count(*) AS n, avg(duration_us) AS mean_us FROM spans WHERE {where}"
            (row,) = lake.sql(query, value=first["value"], component=first["component"]).arrow().to_pylist()
            assert first["spans"] == row["n"]
            if by == "version":
                assert sum(one["requests"] for one in found) == row["n"]
                mean = sum(one["requests"] * one["mean_us"] for one in found) / row["n"]
                assert mean == pytest.approx(row["mean_us"])
            page = served.get(f"/timeline?{asked}").text
            (address,) = set(re.findall(r'href="(/sql\?[^"]+)"', page))
            assert served.get(f"{address.replace('&amp;', '&')}&format=json").json == found
        assert served.get("/timeline?host=none").status == 404


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/timeline?site=abc", 400),
        ("/timeline?site=1", 404),
        (f"/timeline?site={'1' * 5000}", 400),
        ("/timeline?root=none", 404),
        (f"/incidents?from={'0' * 20}{'9' * 5000}", 400),
        (f"/incidents?from={'0' * 18}{'9' * 40}", 400),
    ],
)
def test_what_is_not_there_is_said(site: Served, path: str, status: int) -> None:
    windows_of(site, "/timeline?root=nfs%2FWRITE_CALL")
    wait_until(lambda: not site.get("/timeline?format=json").json["windows_not_read"])
    assert site.get(path).status == status


def grafana_targets() -> dict[str, dict[str, Any]]:
    dashboard = json.loads((DEPLOY / "grafana" / "lake" / "dashboard.json").read_text())
    variables = dashboard["templating"]["list"]
    asked = {one["name"]: one["query"]["infinityQuery"] for one in variables if one["type"] == "query"}
    return asked | {one["title"]: target for one in dashboard["panels"] for target in one["targets"]}


@pytest.fixture(scope="module")
def quoted_roots(lake: str) -> str:
    rows = flowdiff.open(lake).sql("SELECT DISTINCT root FROM requests").arrow().to_pylist()
    return ",".join("'" + row["root"].replace("'", "''") + "'" for row in rows)


@pytest.mark.parametrize("name", grafana_targets())
def test_grafana_gets_the_rows_of_its_panels(site: Served, lake: str, quoted_roots: str, name: str) -> None:
    first, last = 0, 4_000_000_000_000
    target = grafana_targets()[name]
    given = {one["key"]: one["value"] for one in target["url_options"]["params"]}
    query = given["q"].replace("${root:singlequote}", quoted_roots)
    query = query.replace("${__from}", f"{first}").replace("${__to}", f"{last}")
    assert "${" not in query
    rows = site.get(f"{target['url']}?{urlencode(given | {'q': query})}").json
    assert rows
    columns = flowdiff.open(lake).sql(query).arrow().schema
    kinds = {one.name: "string" if str(one.type) == "string" else "number" for one in columns}
    known = {"timestamp_epoch": "number", "number": "number", "string": "string"}
    assert [one["selector"] for one in target["columns"]] == [*kinds]
    assert all(kinds[one["selector"]] == known[one["type"]] for one in target["columns"])
