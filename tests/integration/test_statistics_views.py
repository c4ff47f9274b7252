"""Views of statistics are what the traces say, kept or not; and any engine reads the same from the files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from shutil import rmtree
from typing import Any

import duckdb
import pytest
from oracles.call_site_times import call_patterns, call_sites, made_traces, otlp_lines
from oracles.quiet_import import Quiet
from oracles.traffic import write_native

from analyze.profile import encoding
from analyze.profile.stored import ProfileTally, keep_profiles, keep_quarters
from analyze.refine.settings import RefineSettings
from analyze.scope import LakePeriod, resolve
from analyze.sql.session import open_session
from flowdiff.__main__ import main
from schemas.periods import parse_period
from schemas.windows import NS_PER_MINUTE
from stitch.drivers.batch import ImportSettings, import_into

WINDOW_NS = 5 * NS_PER_MINUTE
VIEWS = ("call_sites", "call_patterns", "responses", "segments")
Rows = dict[str, list[dict[str, Any]]]


def imported(folder: Path, *files: Path) -> LakePeriod:
    for file in files:
        import_into(
            folder,
            [str(file)],
            ImportSettings(window_length_ns=WINDOW_NS),
            owner="test",
            created_by="test",
            stdin=BytesIO(),
            progress=Quiet(),
        )
    return resolve(parse_period("all", now_ns=0), default_lake=str(folder))


def views(found: LakePeriod, threads: int = 2) -> Rows:
    with open_session(found, threads=threads) as session:
        return {name: session.query(f"FROM {name} ORDER BY ALL").to_pylist() for name in VIEWS}


def summarized(found: LakePeriod) -> ProfileTally:
    tally = ProfileTally()
    keep_profiles([found], RefineSettings(), tally=tally, watch=lambda *_: None)
    return tally


def place_of(row: Mapping[str, Any]) -> tuple[int, str | None, str]:
    start = int(row["window_start"].timestamp()) * 10**9
    return start, row["caller"], f"{row['component']}/{row['operation']}"


@pytest.mark.parametrize("seed", range(6))
def test_call_sites_are_what_the_traces_say(seed: int, tmp_path: Path) -> None:
    traces = made_traces(seed, 150, 900)
    (tmp_path / "spans.jsonl").write_text("".join(f"{line}\n" for line in otlp_lines(traces)))
    found = imported(tmp_path / "lake", tmp_path / "spans.jsonl")
    rows = views(found)
    expected = call_sites(traces, WINDOW_NS)
    seen = {place_of(row): row for row in rows["call_sites"]}
    assert seen.keys() == expected.keys()
    for place, one in expected.items():
        row = seen[place]
        assert row["requests"] == one.requests
        assert row["calls"] == pytest.approx(one.calls, rel=1e-12)
        assert row["failing"] == pytest.approx(one.failing, rel=1e-12)
        for what, times in (("own", one.own_us), ("duration", one.duration_us)):
            said = [row[f"{what}_{q}_us"] for q in ("p50", "p95", "p99")]
            assert said == pytest.approx(times, rel=1e-12), (place, what)
    patterns = {
        (place_of(row), tuple(sorted(row["children"]))): [row["requests"], row["share"], row["calls"]]
        for row in rows["call_patterns"]
    }
    known = call_patterns(traces, WINDOW_NS)
    assert patterns.keys() == known.keys()
    for one, told in known.items():
        assert patterns[one] == pytest.approx([*told], rel=1e-12), one
    # The critical work of all call sites is the response time.
    for start in {place[0] for place in expected}:
        mine = [t for t in traces if t.root.start_ns // WINDOW_NS * WINDOW_NS == start]
        work = sum(
            row["critical_us"] * sum(t.weight for t in mine if touches(t.root, None, *place[1:]))
            for place, row in seen.items()
            if place[0] == start
        )
        assert work == pytest.approx(sum(t.weight * t.root.duration_ns for t in mine) / 1e3, rel=1e-9)
        responses = [
            row for row in rows["responses"] if int(row["window_start"].timestamp()) * 10**9 == start
        ]
        assert sum(row["requests"] for row in responses) == len(mine)
        assert sum(row["weighted"] for row in responses) == sum(t.weight for t in mine)


def touches(call: Any, above: str | None, caller: str | None, operation: str) -> bool:
    own = "/".join(call.operation)
    return (above, own) == (caller, operation) or any(
        touches(child, own, caller, operation) for child in call.children
    )


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> LakePeriod:
    """Spans and records in one lake, without statistics."""
    folder = tmp_path_factory.mktemp("mixed")
    traces = made_traces(7, 120, 900)
    (folder / "spans.jsonl").write_text("".join(f"{line}\n" for line in otlp_lines(traces)))
    write_native(folder / "records.ndjson", 60, seconds=500)
    return imported(folder / "lake", folder / "spans.jsonl", folder / "records.ndjson")


def test_views_are_the_same_with_and_without_statistics(mixed: LakePeriod) -> None:
    made = views(mixed)
    assert all(made.values())
    assert {row["kind"] for row in made["call_sites"]} == {"call", "step", "point"}
    assert views(mixed, threads=1) == made
    tally = summarized(mixed)
    assert tally.made == tally.kept == len(mixed.windows)
    assert views(mixed) == made
    path = next((mixed.root / "stats").glob("window=*/*.parquet"))
    data = path.read_bytes()
    path.write_bytes(data[:-9] + b"\0" * 9)  # what is damaged is made again
    assert views(mixed) == made
    path.write_bytes(data)


def test_a_period_within_windows_is_made_of_its_requests(mixed: LakePeriod) -> None:
    summarized(mixed)
    period = parse_period("2026-11-01T00:01/2026-11-01T00:06", now_ns=0)
    part = resolve(period, default_lake=str(mixed.root))
    with open_session(part) as session:
        of_views = session.query("SELECT sum(requests) FROM responses").to_pylist()
        of_requests = session.query("SELECT count(*) FROM requests").to_pylist()
    assert [*of_views[0].values()] == [*of_requests[0].values()]


ENGINES = """
import glob, json, math, os, sys
import duckdb, pandas, polars

files, site = sys.argv[1], int(sys.argv[2])

def p95(bins):
    target, below = 0.95 * sum(bins.values()), 0.0
    for at in sorted(bins):
        if below + bins[at] >= target:
            return 2 ** ((at + min(1, max(0, (target - below) / bins[at]))) / 32) / 1e3
        below += bins[at]

def by_window(rows):
    found = {}
    for start, bin_, w in rows:
        found.setdefault(int(start), {}).setdefault(int(bin_), 0.0)
        found[int(start)][int(bin_)] += float(w)
    return {start: p95(bins) for start, bins in found.items()}

assert duckdb.__version__ == "1.5.5", duckdb.__version__
of_duckdb = duckdb.execute(
    "WITH v AS (SELECT start_ns, unnest(votes, recursive := true)"
    " FROM read_parquet(?, hive_partitioning = false)),"
    " b AS (SELECT start_ns, unnest(bins) AS bin, unnest(coalesce(w, n::DOUBLE[])) AS w FROM v"
    " WHERE measure = 'own' AND site = ?)"
    " SELECT start_ns, bin, sum(w) FROM b GROUP BY ALL", [files, site]).fetchall()
votes = polars.read_parquet(files, hive_partitioning=False).select("start_ns", "votes")
votes = votes.explode("votes").unnest("votes")
votes = votes.filter((polars.col("measure") == "own") & (polars.col("site") == site))
weights = polars.coalesce(polars.col("w"), polars.col("n").cast(polars.List(polars.Float64)))
of_polars = votes.with_columns(w=weights).select("start_ns", "bins", "w").explode("bins", "w").rows()
names = sorted(glob.glob(files))
frames = [pandas.read_parquet(name, columns=["start_ns", "votes"], partitioning=None) for name in names]
votes = pandas.concat(frames).explode("votes")
of_pandas = [
    (start, bin_, w)
    for start, vote in zip(votes.start_ns, votes.votes)
    if vote["measure"] == "own" and vote["site"] == site
    for bin_, w in zip(vote["bins"], vote["n"] if vote["w"] is None else vote["w"])
]
print(json.dumps([by_window(rows) for rows in (of_duckdb, of_polars, of_pandas)]))
sys.stdout.flush()
os._exit(0)  # threads of an engine abort now and then where the interpreter ends beside them
"""


@pytest.fixture(scope="module")
def engines(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """Environment variables of a Python with engines of others: DuckDB 1.5.5, and none of ours."""
    folder = tmp_path_factory.mktemp("engines")
    # By uv: it links what it has fetched once, and compiles nothing.
    install = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", sys.executable]
    wanted = ("duckdb==1.5.5", "pandas==3.0.0", "python-dateutil", "six")
    subprocess.run(
        [*install, "--target", str(folder), "--no-deps", *wanted],
        env={**os.environ, "UV_CACHE_DIR": str(repository / ".cache" / "uv")},
        check=True,
    )
    return {**os.environ, "PYTHONPATH": str(folder)}


def test_any_engine_reads_the_percentiles_of_a_call_site(
    mixed: LakePeriod, engines: Mapping[str, str], tmp_path: Path
) -> None:
    summarized(mixed)
    with open_session(mixed) as session:
        rows = session.query(
            "SELECT site, epoch_ns(window_start) AS start, own_p95_us FROM call_sites WHERE kind = 'call'"
        ).to_pylist()
    most = max({row["site"] for row in rows}, key=lambda site: sum(row["site"] == site for row in rows))
    expected = {row["start"]: row["own_p95_us"] for row in rows if row["site"] == most}
    assert len(expected) >= 2
    files = str(mixed.root / "stats" / "window=*" / "*.parquet")
    done = subprocess.run(
        [sys.executable, "-c", ENGINES, files, str(most)],
        env=engines,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for found in json.loads(done.stdout):
        assert {int(start): value for start, value in found.items()} == pytest.approx(expected, rel=1e-12)


def test_rows_of_windows_add_up_by_key_to_the_quarter_of_a_day(mixed: LakePeriod) -> None:
    summarized(mixed)
    assert keep_quarters([mixed], RefineSettings(), tally=ProfileTally()) >= 2
    add_up = """
        SELECT site, sum(n), sum(w), sum(calls), sum(critical_ns), sum(failing) FROM (
            SELECT unnest(visits, recursive := true) FROM read_parquet(?, hive_partitioning = false)
        ) GROUP BY ALL ORDER BY ALL
    """
    by_bin = """
        SELECT measure, site, pattern, bin, sum(n) FROM (
            SELECT measure, site, pattern, unnest(bins) AS bin, unnest(n) AS n FROM (
                SELECT unnest(votes, recursive := true) FROM read_parquet(?, hive_partitioning = false)
            )
        ) GROUP BY ALL ORDER BY ALL
    """
    for query in (add_up, by_bin):
        windows, quarters = (
            duckdb.execute(query, [str(mixed.root / "stats" / f"{span}=*" / "*.parquet")]).fetchall()
            for span in ("window", "quarter")
        )
        assert len(windows) == len(quarters) > 0
        for one, other in zip(windows, quarters, strict=True):
            assert one[:4] == other[:4]
            assert one[4:] == pytest.approx(other[4:], rel=1e-12)


def test_statistics_of_another_version_are_made_anew_and_reported(
    mixed: LakePeriod, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = views(mixed)
    for folder in (mixed.root / "stats").glob("quarter=*"):  # which would do instead
        rmtree(folder)
    monkeypatch.setattr(encoding, "STORED_VERSION", encoding.STORED_VERSION - 1)
    summarized(mixed)
    monkeypatch.undo()
    n = len(mixed.windows)
    files = sorted((mixed.root / "stats").glob("window=*/*.parquet"))
    assert views(mixed) == made
    with pytest.raises(SystemExit):
        main(("summarize", "--lake", str(mixed.root)))
    assert f"{n} worked out ({n} of them anew: an earlier version kept them)" in capsys.readouterr().out
    now = sorted((mixed.root / "stats").glob("window=*/*.parquet"))
    assert len(now) == n
    assert not {*now} & {*files}
