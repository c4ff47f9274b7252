"""Windows that go on, read by who asks for them: from the log of lanes."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from oracles.bucket_server import BucketServer
from oracles.logged_lake import BuiltLake, LoggingLane, made_lake
from oracles.span_events import T0, batch, span
from oracles.traffic import write_native

import flowdiff.__main__
from analyze.profile.history import n_flows
from analyze.scope import resolve
from schemas.config import StitchConfig
from schemas.errors import LakeError, PeriodError
from schemas.periods import Period, format_instant, parse_period
from schemas.windows import NS_PER_MINUTE, NS_PER_SECOND, Window
from stitch.drivers.build.build_settings import BuildSettings
from stitch.drivers.live.live_settings import LiveSettings
from stitch.lake.layout import segment_folder
from stitch.lake.manifest import open_manifest
from stitch.lake.place import open_store
from stitch.lake.store import LocalStore

S = NS_PER_SECOND
START = T0 - T0 % NS_PER_MINUTE
SETTINGS = LiveSettings(stitch=StitchConfig(idle_ns=5 * S), lateness_ns=S)
ALL = parse_period("all", now_ns=0)


def request(number: int) -> pa.Table:
    """A request of a second, seven seconds after the one before."""
    begin = START - T0 + 7 * number * S
    name = f"t{number:02d}"
    root = span("a", at=(begin, begin + S + number), trace=name, params={"k": number})
    return batch(root, span("b", "a", (begin + 1, begin + 2), trace=name))


def log(lane: LoggingLane, number: int) -> None:
    """Log one request, a second later than the lateness."""
    lane.polls.append((request(number), START + 7 * number * S + SETTINGS.lateness_ns + S))
    lane.take()
    lane.commit()


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sealed: t00 to t08. Of the second window t09 to t17 are in the log."""
    folder = tmp_path_factory.mktemp("unsealed") / "lake"
    folder.mkdir()
    store = made_lake(LocalStore.at(folder))
    lane = LoggingLane(store, 1, SETTINGS)
    built = BuiltLake(store, tmp_path_factory.mktemp("scratch"), BuildSettings(), store)
    for number in range(18):
        log(lane, number)
        built.step()
    return folder


def names(lake: Path, period: Period, scratch: Path | None) -> list[str]:
    found = resolve(period, default_lake=str(lake), provisional=scratch)
    rows = [name for path in found.flows for name in pq.read_table(path)["request_id"].to_pylist()]
    assert len(rows) == sum(found.n_flows)
    return sorted(rows)


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        flowdiff.__main__.main(arguments)
    code = ended.value.code
    assert code is None or isinstance(code, int)
    return code or 0


def test_requests_of_all_lanes_are_counted(tmp_path: Path) -> None:
    folder = tmp_path / "lake"
    folder.mkdir()
    store = LocalStore.at(folder)
    made_lake(store)
    for number in (1, 2):
        lane = LoggingLane(store, number, SETTINGS)
        for place in range(number, 6, 2):
            log(lane, place)
    (tmp_path / "scratch").mkdir()
    assert names(folder, ALL, tmp_path / "scratch") == [f"t{i:02d}" for i in range(1, 6)]


def test_files_are_matched_with_windows_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not each with every other: a lake has thousands of both."""
    n_windows, compared = 40, Counter[str]()
    write_native(tmp_path / "a.ndjson", 2 * n_windows, seconds=60 * n_windows)
    run("import", str(tmp_path / "a.ndjson"), "--lake", str(tmp_path / "lake"), "--window", "1m")

    def equal(one: Window, other: object) -> bool:
        compared["=="] += 1
        return isinstance(other, Window) and (one.start_ns, one.length_ns) == (
            other.start_ns,
            other.length_ns,
        )

    monkeypatch.setattr(Window, "__eq__", equal)
    found = resolve(ALL, default_lake=str(tmp_path / "lake"))
    assert len(found.windows) >= n_windows
    assert sum(found.n_flows) == n_flows([("all", (found,))]) == 2 * n_windows
    assert compared["=="] <= 10 * len(found.windows)


def test_all_means_what_is_sealed_unless_more_is_asked_for(lake: Path, tmp_path: Path) -> None:
    assert names(lake, ALL, None) == [f"t{i:02d}" for i in range(9)]
    assert names(lake, ALL, tmp_path) == [f"t{i:02d}" for i in range(18)]
    found = resolve(ALL, default_lake=str(lake), provisional=tmp_path)
    assert (found.unsealed, len(found.windows)) == (1, 2)
    assert open_manifest(LocalStore.at(lake)).sealed_to_ns == START + NS_PER_MINUTE


def test_a_period_that_touches_an_open_window_says_what_takes_it(lake: Path, tmp_path: Path) -> None:
    second = Period(None, START + NS_PER_MINUTE, START + 2 * NS_PER_MINUTE)
    with pytest.raises(PeriodError, match="--unsealed"):
        resolve(second, default_lake=str(lake))
    assert names(lake, second, tmp_path) == [f"t{i:02d}" for i in range(9, 18)]


def test_queries_take_them_and_say_so(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query = "SELECT count(*) AS n, count(DISTINCT request_id) AS ids, (SELECT count(*) FROM params) AS p"
    for option, n in (((), 9), (("--unsealed",), 18)):
        assert (
            run("sql", "--lake", str(lake), *option, "--format", "json", "-c", f"{query} FROM requests") == 0
        )
        told = capsys.readouterr()
        assert json.loads(told.out) == [{"n": n, "ids": n, "p": n}]
        assert ("provisional" in told.err) == bool(option)
    assert run("windows", "--lake", str(lake), "--unsealed") == 0
    assert [*Path(tempfile.gettempdir()).glob("flowdiff-scratch-*")] == []
    assert len([line for line in capsys.readouterr().out.splitlines() if ":" in line and "-" in line]) >= 2


def test_queries_take_them_from_a_bucket(
    lake: Path,
    bucket_server: BucketServer,
    bucket_environ: dict[str, str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert bucket_environ
    there = bucket_server.new_lake()
    store = open_store(there)
    names = [path.relative_to(lake).as_posix() for path in lake.rglob("*") if path.is_file()]
    for name in names:
        store.put(name, (lake / name).read_bytes())
    store.persist(names)
    query = "SELECT count(*) AS n, count(DISTINCT request_id) AS ids FROM requests"
    for option, n in (((), 9), (("--unsealed",), 18)):
        assert run("sql", "--lake", there, *option, "--format", "json", "-c", query) == 0
        told = capsys.readouterr()
        assert json.loads(told.out) == [{"n": n, "ids": n}]
        assert ("provisional" in told.err) == bool(option)


def test_a_report_says_that_a_period_was_provisional(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = (f"{format_instant(START + n * NS_PER_MINUTE)}/1m" for n in (0, 1))
    periods = ("--reference", first, "--problem", second)
    assert run("compare", "--lake", str(lake), *periods) == 2
    assert "--unsealed" in capsys.readouterr().err
    assert run("compare", "--lake", str(lake), *periods, "--unsealed", "--json", "-", "--no-save") in (
        0,
        1,
        3,
    )
    out = capsys.readouterr().out
    assert "not sealed: provisional" in json.dumps(json.loads(out))


def test_a_segment_that_is_gone_is_an_error_after_some_tries(lake: Path, tmp_path: Path) -> None:
    segment = max((lake / segment_folder(1)).iterdir())
    kept = segment.read_bytes()
    segment.unlink()
    try:
        with pytest.raises(LakeError, match="is missing"):
            resolve(ALL, default_lake=str(lake), provisional=tmp_path)
    finally:
        segment.write_bytes(kept)
