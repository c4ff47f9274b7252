"""One suite for the real disk and the one in memory: what holds on one holds on the other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from oracles.memory_disk import MemoryDisk

from schemas.errors import TRY_AGAIN, BusyLakeError
from stitch.lake.disk import MAPPED_FROM, LocalDisk, exclusive_lock


@pytest.fixture(params=["local", "memory"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> LocalDisk:
    return LocalDisk(tmp_path) if request.param == "local" else MemoryDisk()


def test_a_file_is_read_as_it_was_written(disk: LocalDisk) -> None:
    disk.make_folder("a")
    disk.create("a/x", b"content")
    disk.create("a/empty", b"")
    assert (disk.read("a/x").to_pybytes(), disk.read("a/empty").to_pybytes()) == (b"content", b"")
    assert disk.names("a") == ["empty", "x"]
    assert disk.names("missing") == []
    assert (disk.size("a") is None, disk.size("a/x"), disk.size("a/y")) == (False, 7, None)


def test_a_large_file_is_read_as_it_was_written(disk: LocalDisk) -> None:
    for size in (MAPPED_FROM - 1, MAPPED_FROM, 2**21 + 1):
        disk.create(f"{size}", data := os.urandom(size))
        assert disk.read(f"{size}").to_pybytes() == data


def test_what_the_disk_does_not_give_is_an_error_and_no_end_of_the_process(tmp_path: Path) -> None:
    """Linux reads no byte of this at its beginning: EIO, as of a sector that is gone."""
    (tmp_path / "bad").symlink_to("/proc/self/mem")
    with pytest.raises(OSError, match=r"Input/output error: '.*/bad'"):
        LocalDisk(tmp_path).read("bad")


def test_nothing_is_overwritten(disk: LocalDisk) -> None:
    disk.create("x", b"1")
    disk.create("y", b"2")
    with pytest.raises(FileExistsError):
        disk.create("x", b"3")
    with pytest.raises(FileExistsError):
        disk.link("y", "x")
    assert disk.read("x").to_pybytes() == b"1"


def test_link_and_rename_keep_the_content(disk: LocalDisk) -> None:
    disk.make_folder("a")
    disk.create("x", b"1")
    disk.link("x", "a/second")
    disk.rename("x", "a/third")
    disk.sync_file("a/third")
    disk.sync_folder("a")
    disk.sync_folder("")
    assert disk.names("") == ["a"]
    assert disk.read("a/second") == disk.read("a/third")


def test_what_is_missing_is_told(disk: LocalDisk) -> None:
    for operation in (
        lambda: disk.read("x"),
        lambda: disk.rename("x", "y"),
        lambda: disk.link("x", "y"),
        lambda: disk.sync_file("x"),
        lambda: disk.sync_folder("x"),
        lambda: disk.create("no/x", b""),
        lambda: disk.make_folder("no/folder"),
    ):
        with pytest.raises(FileNotFoundError):
            operation()


def test_remove_takes_files_and_trees_and_nothing(disk: LocalDisk) -> None:
    disk.make_folder("a")
    disk.make_folder("a/b")
    disk.create("a/b/x", b"1")
    disk.create("a-file", b"1")
    disk.remove("a")
    disk.remove("a")
    assert disk.names("") == ["a-file"]
    disk.remove("a-file")
    disk.make_folder("a")
    disk.make_folder("a")
    assert disk.names("a") == []


def test_one_writer_at_a_time_and_the_system_frees_the_lock(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from stitch.lake.disk import exclusive_lock\n"
        "with exclusive_lock(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    )
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        cwd=root,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with (
            pytest.raises(BusyLakeError, match="Another process is writing") as refused,
            exclusive_lock(tmp_path),
        ):
            pass
        assert refused.value.exit_code == TRY_AGAIN
        other.kill()
    with exclusive_lock(tmp_path):
        pass


def test_folders_move_with_what_they_hold(disk: LocalDisk) -> None:
    disk.make_folder("a")
    disk.create("a/x", b"1")
    disk.make_folder("b")
    disk.rename("a", "b/a")
    assert disk.read("b/a/x").to_pybytes() == b"1"
    assert disk.names("") == ["b"]


def test_a_lake_is_its_owners_alone_whatever_the_umask_says(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        disk = LocalDisk(tmp_path)
        disk.make_folder("a")
        disk.create("a/x", b"1")
    finally:
        os.umask(before)
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("a", "a/x")] == [0o700, 0o600]
