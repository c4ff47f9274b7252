"""Folders for temporary files: they go with their owners, and those of killed ones with the next."""

import errno
import fcntl
import os
import signal
import sys
import tempfile
from pathlib import Path

import pytest
from oracles import fork_server

from stitch.scratch import Scratch


def test_nobody_stops_at_what_others_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Only the folder of one that was killed goes: what is no folder was none of ours."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "theirs").mkdir()
    (tmp_path / "flowdiff-scratch-file").write_text("x")
    (tmp_path / "flowdiff-scratch-link").symlink_to("theirs")
    (tmp_path / "flowdiff-scratch-loop").symlink_to("flowdiff-scratch-loop")
    os.mkfifo(tmp_path / "flowdiff-scratch-pipe")
    (tmp_path / "flowdiff-scratch-killed" / "deep").mkdir(parents=True)
    scratch = Scratch()
    mine = scratch.folder.name
    assert {path.name for path in tmp_path.iterdir()} == {
        "theirs",
        *(f"flowdiff-scratch-{kind}" for kind in ("file", "link", "loop", "pipe")),
        mine,
    }


def test_without_locks_a_folder_has_a_name_that_nobody_removes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuses(*_: object) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(fcntl, "flock", refuses)
    left = tmp_path / "flowdiff-scratch-left"
    left.mkdir()
    scratch = Scratch()
    assert not scratch.folder.name.startswith("flowdiff-scratch-")
    assert left.exists()


def test_a_folder_goes_at_the_end_of_its_block(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Scratch():
        pass
    with Scratch() as scratch, Scratch() as other:
        (scratch.folder / "file").write_text("x")
        assert {scratch.folder, other.folder} == {*tmp_path.iterdir()}
    assert [*tmp_path.iterdir()] == []


def test_a_folder_that_was_cleaned_away_is_made_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Scratch() as scratch:
        scratch.folder.rmdir()
        (scratch.folder / "file").write_text("x")
        assert [scratch.folder] == [*tmp_path.iterdir()]
    assert [*tmp_path.iterdir()] == []


_KILLED = """
import os, signal
from types import SimpleNamespace
from flowdiff.cli.options import provisional_folder
from stitch.drivers.sharded.exchange import RemoteStage
at_end = []
provisional = provisional_folder(SimpleNamespace(call_on_close=at_end.append))
with RemoteStage("s3://lakes/lake", "stage").folder() as task:
    for folder in (provisional, task):
        (folder / "file").write_text("x")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_next_removes_what_a_killed_one_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    killed = fork_server.run([sys.executable, "-c", _KILLED], env={**os.environ, "TMPDIR": str(tmp_path)})
    assert killed.returncode == -signal.SIGKILL
    assert len({*tmp_path.glob("*/file")}) == 2
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Scratch() as next_one:
        assert [next_one.folder] == [*tmp_path.iterdir()]
