"""Ingest and import over a disk whose calls fail: what passes is waited for, all else is one line."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fixtures.ingest_process import NS_PER_SECOND, ingesting, records
from fixtures.kafka_bench import KafkaBench

from schemas.errors import HaltedError
from stitch.lake.chain import read_chain
from stitch.lake.fsck import check
from stitch.lake.manifest import open_manifest
from stitch.lake.store import LocalStore

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler"),
]
SOURCE = Path(__file__).parents[1] / "fixtures" / "failing_disk.c"


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("shim") / "failing_disk.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", made, SOURCE, "-ldl"], check=True)
    return made


@pytest.fixture
def env(shim: Path, tmp_path: Path) -> dict[str, str]:
    return {
        "LD_PRELOAD": str(shim),
        "DISK_ROOT": str(tmp_path / "lake"),
        "DISK_CONTROL": str(tmp_path / "control"),
    }


def test_a_full_disk_is_waited_for_and_a_broken_one_halts_the_lane(
    kafka: KafkaBench, tmp_path: Path, env: dict[str, str]
) -> None:
    topic, lake, control = kafka.topic(), tmp_path / "lake", tmp_path / "control"
    options = (
        *("--bootstrap", ",".join(kafka.broker.bootstrap), "--topics", topic, "--lake", lake),
        *("--default-format", "native", "--commit-interval", "1s", "--window-length", "1m"),
    )
    began = time.time_ns() - 3600 * NS_PER_SECOND
    kafka.fill(topic, records(20, began, name="a"))
    with ingesting(tmp_path, *options, "--log-level", "debug", **env) as run:
        run.wait_for("commit")
        control.write_text(f"{errno.ENOSPC} w")
        kafka.fill(topic, records(20, began + 60 * NS_PER_SECOND, name="b"))
        assert run.wait_for("lane waiting")["why"] == "Writing the lake failed: No space left on device."
        control.unlink()
        run.wait_for("lane running")
        control.write_text(f"{errno.EIO} s")
        kafka.fill(topic, records(20, began + 120 * NS_PER_SECOND, name="c"))
        assert run.wait_for("lane halted")["why"] == "Writing the lake failed: Input/output error."
        assert run.ended() == HaltedError.exit_code, run.text
        assert "Traceback" not in run.text
    control.unlink()
    with ingesting(tmp_path, *options, "--until-end") as run:
        assert run.ended() == 0, run.text
    assert check(LocalStore.at(lake)) == []
    counters = [link.record.counters for link in read_chain(LocalStore.at(lake), 1)]
    assert sum(each.events_logged for each in counters) == 180
    assert sum(entry.flows for entry in open_manifest(LocalStore.at(lake)).windows()) == 60


@pytest.mark.parametrize("call", "wsl")
def test_an_import_over_a_failing_disk_is_one_line_and_can_be_done_again(
    tmp_path: Path, env: dict[str, str], call: str
) -> None:
    traffic, control = tmp_path / "traffic.ndjson", tmp_path / "control"
    traffic.write_bytes(b"\n".join(records(20, 1_763_600_000 * NS_PER_SECOND)))
    command = [
        sys.executable,
        "-m",
        "flowdiff",
        "import",
        str(traffic),
        "--any-time",
        "--lake",
        env["DISK_ROOT"],
    ]

    def imported() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, env={**os.environ, **env}, capture_output=True, text=True, timeout=60, check=False
        )

    control.write_text(f"{errno.EIO} {call}")
    failed = imported()
    assert failed.returncode == 2
    assert failed.stderr.count("\n") == 1
    assert "Input/output error" in failed.stderr
    control.unlink()
    assert imported().returncode == 0
    assert check(LocalStore.at(tmp_path / "lake")) == []


def test_what_cannot_be_read_is_one_line_and_a_finding(tmp_path: Path, env: dict[str, str]) -> None:
    """Nothing of a lake is mapped before it was read: a page that the disk does not give ends a process."""
    traffic, lake = tmp_path / "traffic.ndjson", env["DISK_ROOT"]
    traffic.write_bytes(b"\n".join(records(20, 1_763_600_000 * NS_PER_SECOND)))

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "flowdiff", *arguments]
        return subprocess.run(
            command, env={**os.environ, **env}, capture_output=True, text=True, timeout=60, check=False
        )

    assert run("import", str(traffic), "--any-time", "--lake", lake).returncode == 0
    (tmp_path / "control").write_text(f"{errno.EIO} r")
    found = run("fsck", lake)
    assert (found.returncode, found.stderr) == (1, "")
    assert "flowdiff.json' cannot be read: input/output error" in found.stdout
    told = run("windows", "--lake", lake)
    assert (told.returncode, told.stderr) == (
        2,
        f"flowdiff: '{lake}/flowdiff.json': input/output error. [input]\n",
    )
