"""Input in a bucket: the lake of the same files on a disk."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

import pytest
from oracles.bucket_server import BucketServer
from oracles.mixed_input import mixed, tree

from flowdiff.__main__ import main
from stitch.drivers import batch
from stitch.drivers.inputs import RemoteFile
from stitch.lake.layout import WINDOW_TABLES
from stitch.lake.manifest import open_manifest
from stitch.lake.place import open_store, remote_store


def exit_code_of(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["import", *words])
    return int(ended.value.code or 0)


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    return mixed(tmp_path / "in")


@pytest.fixture
def there(files: list[Path], bucket_server: BucketServer, bucket_environ: dict[str, str]) -> str:
    """Where the files are in a bucket, beside one that is none of them."""
    folder = bucket_server.new_lake()
    store = remote_store(folder)
    names = [f"day=1/{file.name}" for file in files]
    for file, name in zip(files, names, strict=True):
        store.put(name, file.read_bytes())
    store.put("day=1/deeper/other.ndjson", b"{}")
    store.persist([*names, "day=1/deeper/other.ndjson"])
    return folder


def test_files_of_a_bucket_make_the_lake_of_the_same_files(
    files: list[Path],
    there: str,
    bucket_server: BucketServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, two, job = tmp_path / "one", tmp_path / "two", bucket_server.new_lake()
    assert exit_code_of(*map(str, files), "--lake", str(one)) == 0
    monkeypatch.setattr(batch, "PROCESSES_FROM_BYTES", 0)
    assert exit_code_of(f"{there}/day=*/*", "--lake", str(two), "--workers", "3") == 0
    mine, theirs = tree(two), tree(one)
    assert mine.pop("flowdiff.json")
    assert theirs.pop("flowdiff.json")
    assert {name for name in mine if not name.startswith("dead_letters")} == {
        name for name in theirs if not name.startswith("dead_letters")
    }
    for name, data in theirs.items():
        if not name.startswith("dead_letters"):
            assert mine[name] == data
    # Known by content, wherever they lie.
    assert exit_code_of(*map(str, files), "--lake", str(two)) == 0
    assert tree(two).keys() == {*mine, "flowdiff.json"}

    workers = [(f"{there}/day=1/*", "--lake", job, "--job", "a", "--worker", f"{k}/2") for k in (1, 0)]
    with ThreadPoolExecutor(2) as pool:
        assert [*pool.map(lambda words: exit_code_of(*words), workers)] == [0, 0]
    of_job, of_one = (
        [file for table in WINDOW_TABLES for file in open_manifest(open_store(lake)).files(table)]
        for lake in (job, str(one))
    )
    assert of_job == of_one


def test_what_is_not_there_is_refused(there: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, told in (
        (f"{there}/day=2/*.pb", "No file matches"),
        (f"{there}/day=1/none.pb", "cannot be read"),
        ("s3://", "names no lake in a bucket"),
    ):
        assert exit_code_of(name, "--lake", str(tmp_path / "lake")) == 2
        assert told in " ".join(capsys.readouterr().err.split())


def test_a_file_that_changes_after_it_was_hashed_is_refused(
    there: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = RemoteFile.copy

    def changing(file: RemoteFile, out: IO[bytes] | None = None) -> tuple[str, int]:
        if out is not None:
            store = remote_store(file.folder)
            store.remove(file.name)
            store.put(file.name, b"something else")
            store.persist([file.name])
        return copy(file, out)

    monkeypatch.setattr(RemoteFile, "copy", changing)
    assert exit_code_of(f"{there}/day=1/spans.pb", "--lake", str(tmp_path / "lake")) == 2
    assert "changed while it was read" in " ".join(capsys.readouterr().err.split())
    assert not list((tmp_path / "lake").rglob("*.parquet"))
