"""`flowdiff up`: one tree of processes, from its start to the end of each part."""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from oracles import fork_server
from oracles.sent_spans import CALLS, nodes_by_request, post, traces
from oracles.waiting import PATIENCE_S, wait_until

import flowdiff
from flowdiff.__main__ import main

FREE = ("--otlp", "127.0.0.1:0", "--otlp-grpc", "127.0.0.1:0", "--listen", "127.0.0.1:0")
"""Ports that nobody else has, now."""


def kept_ports() -> tuple[str, ...]:
    """Options with ports that are free, and that no client of another test gets while a part is away."""
    found = []
    while len(found) < 3:
        port = random.randrange(20_000, 32_000)  # below those that the system gives to clients
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found.append(f"127.0.0.1:{port}")
    return ("--otlp", found[0], "--otlp-grpc", found[1], "--listen", found[2])


class Up:
    """The process, and what it wrote."""

    def __init__(self, folder: Path, *options: str, is_forked: bool = True) -> None:
        self.lake, self._log = folder / "lake", folder / "log"
        start = fork_server.Popen if is_forked else subprocess.Popen
        with self._log.open("wb") as file:
            self.process: subprocess.Popen[bytes] = start(
                [sys.executable, "-m", "flowdiff", "up", "--lake", str(self.lake), *options],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )

    @property
    def text(self) -> str:
        return self._log.read_text()

    def wait_for(self, pattern: str) -> re.Match[str]:
        """First match in what it wrote, perhaps not yet."""

        def found() -> re.Match[str] | None:
            has_ended = self.process.poll() is not None
            match = re.search(pattern, self.text, re.MULTILINE)
            assert match or not has_ended, self.text
            return match

        return wait_until(found, lambda: f"no '{pattern}' in:\n{self.text}")

    def children(self) -> list[int]:
        """Processes that it started, or that fork for it."""
        found: list[int] = []
        for thread in Path(f"/proc/{self.process.pid}/task").glob("*/children"):
            with suppress(OSError):
                found += map(int, thread.read_text().split())
        return found

    def parts(self) -> dict[str, int]:
        """Processes of its parts by name, where they are not forked."""
        found = {}
        for entry in Path("/proc").iterdir():
            try:
                words = (entry / "cmdline").read_bytes().decode().split("\0")
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError):
                continue
            if "flowdiff.live.part" in words and str(self.lake) in words:
                found[words[words.index("flowdiff.live.part") + 2]] = int(entry.name)
                assert parent in (self.process.pid, 1)
        return found


@contextmanager
def started(folder: Path, *options: str, is_forked: bool = True) -> Iterator[tuple[Up, str]]:
    """It runs, and its address of OTLP over HTTP."""
    run = Up(folder, *options, is_forked=is_forked)
    parts: list[int] = []
    try:
        address = run.wait_for(r"^Send spans to +http://(\S+) ")[1]
        parts += run.children()
        yield run, address
    finally:
        parts += run.children()
        run.process.kill()
        run.process.wait()
        # They end with it, however it ends.
        wait_until(lambda: not [*filter(is_running, parts), *run.parts()], every_s=0.1)


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_spans_that_are_sent_are_seen(tmp_path: Path) -> None:
    with started(tmp_path, *FREE) as (run, address):
        run.wait_for(f"^Kept in +{run.lake}$")
        lines = [line for line in run.text.splitlines() if not line.startswith("flowdiff: ")]
        assert len(lines) == 3
        look = run.wait_for(r"^Look at +(http://\S+)$")[1]
        with urllib.request.urlopen(look, timeout=30) as page:
            assert page.status == 200
        sent = traces(20)
        for trace in sent:
            assert post(address, trace.protobuf())[0] == 200
        windows = wait_until(
            lambda: flowdiff.open(str(run.lake)).windows()["requests"], lambda: run.text, every_s=0.5
        )
        assert sum(windows) > 0
        run.process.send_signal(signal.SIGTERM)
        assert run.process.wait(PATIENCE_S) == 0, run.text
    assert set(nodes_by_request(run.lake).values()) == {2 * (CALLS + 1)}


def test_a_part_that_dies_is_started_again(tmp_path: Path) -> None:
    with started(tmp_path, *kept_ports(), is_forked=False) as (run, address):
        run.wait_for("^Kept in")
        for name in ("ingest", "watch", "serve"):
            before = run.parts()[name]
            os.kill(before, signal.SIGKILL)
            run.wait_for(f"{name} ended with code -9: starting it again")
            wait_until(lambda: run.parts().get(name) not in (None, before))  # noqa: B023 - called at once

        def is_taken() -> bool:
            with suppress(OSError):
                return post(address, traces(1)[0].protobuf())[0] == 200
            return False

        wait_until(is_taken, lambda: run.text)  # under the same address
        run.process.send_signal(signal.SIGINT)
        assert run.process.wait(PATIENCE_S) == 0, run.text


def test_a_part_that_dies_again_and_again_ends_all(tmp_path: Path) -> None:
    with started(tmp_path, *FREE, is_forked=False) as (run, _):
        run.wait_for("^Kept in")
        deadline = time.monotonic() + PATIENCE_S
        while run.process.poll() is None:
            assert time.monotonic() < deadline, run.text
            if "watch" in (parts := run.parts()):
                os.kill(parts["watch"], signal.SIGKILL)
            time.sleep(0.1)
        assert run.process.returncode == 2
        assert "watch ended 4 times in a few minutes, last with code -9" in run.text


def test_parts_end_with_a_killed_starter(tmp_path: Path) -> None:
    with started(tmp_path, *FREE) as (run, address):
        run.wait_for("^Kept in")
        sent = traces(5)
        for trace in sent:
            assert post(address, trace.protobuf())[0] == 200
        assert len(run.children()) >= 3
        run.process.kill()  # the fixture waits for its parts


def test_an_address_that_is_taken_is_said_in_one_line(tmp_path: Path) -> None:
    with started(tmp_path, *FREE) as (_, address):
        other = tmp_path / "other"
        other.mkdir()
        second = Up(other, "--otlp", address, *FREE[2:])
        assert second.process.wait(PATIENCE_S) == 2
        assert f"otlp '{address}' cannot be listened on: Address already in use." in second.text
        assert "Traceback" not in second.text


@pytest.mark.parametrize("lake", ["s3://bucket/lake", "gs://bucket"])
def test_a_lake_elsewhere_is_no_folder(
    lake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["up", "--lake", lake, "--listen", "nowhere"])
    assert ended.value.code == 2
    assert lake in capsys.readouterr().err
    assert [*tmp_path.iterdir()] == []


def test_a_demo_that_is_ended_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    with started(tmp_path, *FREE, "--demo") as (run, _):
        run.wait_for("^demo: a simulated web shop sends")
        wait_until(lambda: [*run.lake.glob("spool/otlp-json/*.spool")])  # it has sent
        run.process.send_signal(signal.SIGTERM)
        assert run.process.wait(PATIENCE_S) == 0, run.text
    assert [*temporary.iterdir()] == []


@pytest.mark.chaos
def test_the_demo_opens_an_incident_within_five_minutes(tmp_path: Path) -> None:
    began = time.monotonic()
    with started(tmp_path, *FREE, "--demo") as (run, _):
        while " opened " not in run.text:
            assert time.monotonic() < began + 300, run.text
            assert run.process.poll() is None, run.text
            time.sleep(1)
        run.process.send_signal(signal.SIGTERM)
        assert run.process.wait(PATIENCE_S) == 0, run.text
