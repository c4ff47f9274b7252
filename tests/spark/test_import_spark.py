"""`flowdiff import --engine spark` on a real cluster: the bytes of one process, whatever dies on the way."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from fixtures.kafka_bench import KafkaBench
from fixtures.kafka_broker import started
from oracles.bucket_server import BucketServer, chosen_server
from oracles.mixed_input import mixed, tree
from oracles.traffic import native_lines
from oracles.troubled_tasks import TROUBLE

from stitch.lake.fsck import check
from stitch.lake.layout import WINDOW_TABLES
from stitch.lake.manifest import open_manifest
from stitch.lake.place import open_store

pytestmark = pytest.mark.spark
PATIENCE_S = 600.0
SPARK = (
    *("--engine", "spark", "--master", "local-cluster[2,1,512]"),
    *("--conf", "spark.executor.memory=512m", "--conf", "spark.driver.memory=512m"),
    *("--conf", "spark.ui.enabled=false"),
)
SCRIPT = """
import os, sys
from oracles import troubled_tasks
from flowdiff.__main__ import main
from stitch.drivers.sharded import engines
from stitch.lake.lane import Lane

for name in filter(None, sys.argv[1].split(",")):
    if name == "killed after the commit":
        # Opening a lane publishes what its last commit left; here it left nothing.
        Lane._publish = lambda _, items: os.kill(os.getpid(), 9) if [*items] else None
    elif name == "waits":
        engines.write_window_files = troubled_tasks.note_and_wait
    else:
        setattr(engines, name, getattr(troubled_tasks, name))
main(["import", "--json", *sys.argv[2:]])
"""
TASKS = ("deal_file", "stitch_group", "write_window_files")
TROUBLES = {f"{task} {how}" for task in TASKS for how in ("killed", "raised")}


def command(lake: Path | str, files: Sequence[Path | str], *options: str, patches: str = "") -> list[str]:
    return [sys.executable, "-c", SCRIPT, patches, *map(str, files), "--lake", str(lake), *options]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "SPARK_LOCAL_IP": "127.0.0.1", **more}


def put(
    lake: Path | str, files: Sequence[Path | str], *options: str, patches: str = "", **more: str
) -> dict[str, object]:
    """Import files; the summary."""
    done = subprocess.run(
        command(lake, files, *options, patches=patches),
        env=environment(**more),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    summary: dict[str, object] = json.loads(done.stdout)
    return summary


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return mixed(tmp_path_factory.mktemp("given") / "in")


@pytest.fixture(scope="module")
def here(files: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lake of one process."""
    lake = tmp_path_factory.mktemp("here") / "lake"
    put(lake, files)
    return lake


def is_like(lake: Path, here: Path) -> None:
    assert check(open_store(str(lake))) == []
    mine, theirs = tree(lake), tree(here)
    for each in (mine, theirs):
        each.pop("flowdiff.json")
    assert mine == theirs
    assert {name.split("/")[0] for name in mine} >= {"flows", "structures", "dead_letters"}


def test_executors_that_die_tasks_that_raise_and_tasks_done_twice(
    files: list[Path], here: Path, tmp_path: Path
) -> None:
    noted = tmp_path / "noted"
    noted.mkdir()
    put(tmp_path / "lake", files, *SPARK, patches=",".join(TASKS), TROUBLE=str(noted))
    assert {path.name for path in noted.iterdir()} == TROUBLES
    is_like(tmp_path / "lake", here)


def test_known_files_and_requests_that_come_again(files: list[Path], tmp_path: Path) -> None:
    again = tmp_path / "again.ndjson"
    again.write_text("\n".join(list(native_lines(360, seconds=3000))[10:2000:3]))
    first, more = files[:2], [*files[1:], again]
    lakes = tmp_path / "1", tmp_path / "2"
    for lake, options in zip(lakes, ((), SPARK), strict=True):
        put(lake, first)
        summary = put(lake, more, *options)
        assert summary["files_known"] == [str(files[1])]
    is_like(lakes[1], lakes[0])


def test_executors_read_messages_of_a_topic(tmp_path: Path) -> None:
    lines, home = tmp_path / "lines.ndjson", tmp_path / "broker"
    lines.write_text("\n".join(native_lines(300)))
    put(tmp_path / "1", [lines])
    home.mkdir()
    with started(home) as broker, KafkaBench(broker) as kafka:
        topic = kafka.topic(2)
        for number in range(2):
            kafka.fill(topic, lines.read_bytes().splitlines()[number::2], number)
        put(tmp_path / "2", [f"kafka://{broker.bootstrap[0]}/{topic}"], "--format", "native", *SPARK)
    mine, theirs = tree(tmp_path / "2"), tree(tmp_path / "1")
    for each in (mine, theirs):
        each.pop("flowdiff.json")
    assert mine == theirs


def test_a_driver_that_is_killed_before_its_commit_leaves_the_lake_as_it_was(
    files: list[Path], here: Path, tmp_path: Path
) -> None:
    lake, noted = tmp_path / "lake", tmp_path / "noted"
    noted.mkdir()
    told = environment(**{TROUBLE: str(noted)})
    with subprocess.Popen(command(lake, files, *SPARK, patches="waits"), env=told) as driver:
        begin = time.monotonic()
        while not list(noted.iterdir()):
            assert driver.poll() is None
            assert time.monotonic() - begin < PATIENCE_S
            time.sleep(0.1)
        driver.send_signal(signal.SIGKILL)
    (worker, *_) = (int(path.name) for path in noted.iterdir())
    begin = time.monotonic()
    while Path(f"/proc/{worker}").exists():
        assert time.monotonic() - begin < PATIENCE_S
        time.sleep(0.1)
    assert any(name.startswith("stage/") for name in tree(lake))
    assert not any(name.startswith(("flows/", "structures/", "params/")) for name in tree(lake))
    put(lake, files)
    is_like(lake, here)


def test_a_driver_that_is_killed_after_its_commit_has_imported(
    files: list[Path], here: Path, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    patched = command(lake, files, *SPARK, patches="killed after the commit")
    done = subprocess.run(patched, env=environment(), check=False, timeout=PATIENCE_S)
    assert done.returncode == -signal.SIGKILL
    summary = put(lake, files)  # publishes what was committed
    assert len(summary["files_known"]) == len(files)  # type: ignore[arg-type]
    is_like(lake, here)


@pytest.fixture(scope="module")
def bucket_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BucketServer]:
    with chosen_server(tmp_path_factory.mktemp("bucket-server")) as server:
        yield server


def test_a_lake_in_a_bucket(
    files: list[Path],
    here: Path,
    bucket_server: BucketServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lake, noted = bucket_server.new_lake(), tmp_path / "noted"
    noted.mkdir()
    for name, value in {**bucket_server.environ, "FLOWDIFF_CACHE": str(tmp_path / "cache")}.items():
        monkeypatch.setenv(name, value)
    put(lake, files, *SPARK, patches=",".join(TASKS), TROUBLE=str(noted))
    assert {path.name for path in noted.iterdir()} == TROUBLES
    store = open_store(lake)
    assert check(store) == []
    assert not store.names("stage/lane=0")
    mine, theirs = (
        [file for table in WINDOW_TABLES for file in open_manifest(open_store(name)).files(table)]
        for name in (lake, str(here))
    )
    assert mine == theirs  # by name, size and SHA-256


def test_statistics_are_made_by_executors(here: Path, tmp_path: Path) -> None:
    lakes = tmp_path / "1", tmp_path / "2"
    for lake, options in zip(lakes, (("--workers", "1"), SPARK), strict=True):
        shutil.copytree(here, lake)
        done = subprocess.run(
            [sys.executable, "-m", "flowdiff", "summarize", "--json", "--lake", lake.name, *options],
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, done.stderr
        summary = json.loads(done.stdout)
        assert summary["made"] == summary["windows"] > 6
    mine, theirs = (
        {name: data for name, data in tree(lake).items() if name.startswith("stats/")} for lake in lakes
    )
    assert len(mine) > 6
    assert mine == theirs


def test_a_master_that_is_none(files: list[Path], tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    options = ("--engine", "spark", "--master", "nowhere")
    done = subprocess.run(
        command(lake, files, *options),
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 2
    assert "Spark at 'nowhere' did not start" in done.stderr
    assert not (lake / "flows").exists()
