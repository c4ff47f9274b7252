"""A watch of a lake and its receivers together: what is found arrives, once, whoever dies or is away."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from oracles import fork_server
from oracles.incidents import receiver
from oracles.quiet_import import Quiet
from oracles.waiting import wait_until
from oracles.watched_shop import write_minutes

from schemas.windows import NS_PER_MINUTE
from stitch.drivers.batch import import_into
from stitch.drivers.import_settings import ImportSettings
from stitch.lake.fsck import check
from stitch.lake.store import LocalStore

SECRET = "key-of-the-signature"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake that a watch has learned from, and in which more was sealed since, with a fault that is over."""
    home = tmp_path_factory.mktemp("told")
    write_minutes(home / "before.jsonl", 0, 36)
    write_minutes(home / "after.jsonl", 36, 48, slow=range(38, 42))
    add(home / "lake", home / "before.jsonl")
    assert watch(home / "lake", "--once").returncode in (0, 3)
    add(home / "lake", home / "after.jsonl")
    return home / "lake"


def add(lake: Path, file: Path) -> None:
    import_into(
        lake,
        [str(file)],
        ImportSettings(window_length_ns=NS_PER_MINUTE),
        owner="test",
        created_by="test",
        stdin=io.BytesIO(),
        progress=Quiet(),
    )


def words(lake: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "flowdiff", "watch", str(lake), "--slot", "15s", "--versions", "", *options]


def page(address: str, name: str) -> str:
    with urllib.request.urlopen(f"http://{address}/{name}", timeout=10) as answer:
        return str(answer.read().decode())


def watch(lake: Path, *options: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return fork_server.run(
        words(lake, *options),
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_incidents_arrive_once_and_are_served(lake: Path, tmp_path: Path) -> None:
    with receiver() as hook:
        environ = {"FLOWDIFF_NOTIFY_WEBHOOK_URL": hook.url, "FLOWDIFF_NOTIFY_WEBHOOK_SECRET": SECRET}
        # Its receiver refuses everything, and it ends: what it found waits in the lake.
        hook.answers = [503] * 1000
        done = watch(lake, "--once", **environ)
        assert done.returncode in (0, 1), done.stderr
        assert "opened" in done.stdout
        assert "answered 503" in done.stderr
        for secret in (SECRET, "SECRET-PATH"):
            assert secret not in done.stdout + done.stderr
        hook.answers = []
        hook.requests.clear()
        log = tmp_path / "log"
        with log.open("w") as out:
            process = fork_server.Popen(
                words(lake, "--serve-watch-address", "127.0.0.1:0"),
                env={**os.environ, **environ},
                stdout=out,
                stderr=out,
            )
        try:
            wait_until(lambda: "metrics at" in log.read_text())
            wait_until(lambda: any(b"resolved.v1" in body for _, body in hook.requests))
            address = log.read_text().partition("metrics at ")[2].split()[0].rstrip(".")
            wait_until(lambda: 'flowdiff_notify_pending{receiver="webhook"} 0.0' in page(address, "metrics"))
            assert "flowdiff_watch_delay_seconds" in page(address, "metrics")
            assert page(address, "readyz") == "ready\n"
            # Its windows are of last year: nothing is sealed any more, which is said once.
            wait_until(lambda: 'flowdiff_watch_suspended{reason="silent"} 1.0' in page(address, "metrics"))
            wait_until(lambda: log.read_text().count("No window was sealed since 2025-11-20T01:48Z") == 1)
        finally:
            process.kill()  # no orderly end
            process.wait()
        told = [json.loads(body) for _, body in hook.requests]
        again = watch(lake, "--once", **environ)
        assert again.returncode == 0, again.stderr
        assert len(hook.requests) == len(told)
    ids = [event["id"] for event in told]
    assert len({*ids}) == len(ids)
    assert told[0]["type"] == "io.flowdiff.incident.opened.v1"
    assert {event["data"]["component"] for event in told} == {"cart"}
    assert check(LocalStore.at(lake)) == []
    assert SECRET not in "".join(
        path.read_text(errors="replace") for path in (lake / "watch").rglob("*.json")
    )


def test_a_damaged_lake_is_trouble_that_probes_see(lake: Path, tmp_path: Path) -> None:
    damaged, log = tmp_path / "lake", tmp_path / "log"
    shutil.copytree(lake, damaged)
    last = max((damaged / "watch/commits").iterdir())
    last.chmod(0o600)
    last.write_bytes(last.read_bytes()[:-1])
    with log.open("w") as out:
        process = fork_server.Popen(
            words(damaged, "--serve-watch-address", "127.0.0.1:0"), stdout=out, stderr=out
        )
    try:
        wait_until(lambda: "is not what was written" in log.read_text())
        address = log.read_text().partition("metrics at ")[2].split()[0].rstrip(".")

        def answer() -> int:
            try:
                return int(urllib.request.urlopen(f"http://{address}/readyz", timeout=10).status)
            except urllib.error.HTTPError as error:
                return error.code

        wait_until(lambda: answer() == 503)
    finally:
        process.kill()
        process.wait()
    assert log.read_text().count("is not what was written") == 1
