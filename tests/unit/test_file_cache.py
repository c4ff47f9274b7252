"""The cache of files: bounded, whole or not there, and nobody loses a file in use."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from schemas.errors import ConfigError, LakeError
from stitch.lake.copies import FileCache, cache_at


def key_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def is_whole(path: Path) -> bool:
    return hashlib.sha256(path.read_bytes()).hexdigest() == path.name.partition(".")[0]


def add(cache: FileCache, data: bytes) -> Path:
    """A file of the session, named by its content."""
    target = cache.session / key_of(data)
    assert cache.add(key_of(data), target, lambda out: out.write(data) and None, is_whole)
    return target


def take(cache: FileCache, data: bytes) -> Path | None:
    target = cache.session / key_of(data)
    return target if cache.take(key_of(data), target, is_whole) else None


def objects(folder: Path) -> list[Path]:
    return sorted(folder.glob("objects/*/*"))


def test_a_file_is_kept_for_the_next_process(tmp_path: Path) -> None:
    first = FileCache(tmp_path)
    add(first, b"content")
    first.close()
    assert [path.name for path in objects(tmp_path)] == [key_of(b"content")]
    second = FileCache(tmp_path)
    found = take(second, b"content")
    assert found is not None
    assert found.read_bytes() == b"content"
    assert take(second, b"other") is None
    assert found.stat().st_mode & 0o077 == 0


def test_what_is_not_whole_is_neither_kept_nor_given(tmp_path: Path) -> None:
    cache = FileCache(tmp_path)
    target = cache.session / key_of(b"content")
    assert not cache.add(key_of(b"content"), target, lambda out: out.write(b"cont") and None, is_whole)
    assert objects(tmp_path) == []
    assert [*cache.session.iterdir()] == []

    def fails(out: object) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        cache.add(key_of(b"content"), target, fails, is_whole)
    assert [*cache.session.iterdir()] == []
    add(cache, b"rots")
    cache.close()
    objects(tmp_path)[0].write_bytes(b"rotten")
    assert take(FileCache(tmp_path), b"rots") is None
    assert objects(tmp_path) == []


def test_the_longest_unused_go_first_and_those_in_use_stay_readable(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, limit_bytes=300)
    contents = [bytes([n]) * 100 for n in range(5)]
    paths = [add(cache, data) for data in contents]
    for age, data in enumerate(contents):
        os.utime(tmp_path / "objects" / key_of(data)[:2] / key_of(data), ns=(age, age))
    other = FileCache(tmp_path, limit_bytes=300)
    assert take(other, contents[0]) is not None  # used now, so it is the youngest
    other.evict()
    kept = {path.name for path in objects(tmp_path)}
    assert kept == {key_of(contents[n]) for n in (0, 3, 4)}
    assert [path.read_bytes() for path in paths] == contents


def test_a_session_goes_with_its_process_or_is_swept(tmp_path: Path) -> None:
    code = (
        "import sys, os; from pathlib import Path; from stitch.lake.copies import FileCache\n"
        "cache = FileCache(Path(sys.argv[1])); (cache.session / 'file').write_bytes(b'1')\n"
        "os._exit(9) if sys.argv[2] == 'dies' else None"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path), "ends"], check=True)
    assert [*(tmp_path / "sessions").iterdir()] == []
    subprocess.run([sys.executable, "-c", code, str(tmp_path), "dies"], check=False)
    (left,) = (tmp_path / "sessions").iterdir()
    mine = FileCache(tmp_path)
    assert [*(tmp_path / "sessions").iterdir()] == [mine.session] != [left]
    assert FileCache(tmp_path).session.exists()
    assert mine.session.exists(), "that of a living one is not swept"


def test_many_writers_and_readers_at_once(tmp_path: Path) -> None:
    """Caches as of several processes fetch, take and evict the same files: each reads what it should."""
    caches = [FileCache(tmp_path, limit_bytes=2_000) for _ in range(4)]
    contents = [bytes([n]) * 200 for n in range(20)]

    def work(turn: int) -> bool:
        cache, data = caches[turn % 4], contents[(turn * 7) % 20]
        target = cache.session / f"{key_of(data)}.{turn}"
        if not cache.take(key_of(data), target, is_whole):
            assert cache.add(key_of(data), target, lambda out: out.write(data) and None, is_whole)
        cache.evict()
        return target.read_bytes() == data

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(400)))
    caches[0].evict()
    assert sum(path.stat().st_size for path in objects(tmp_path)) <= 2_000


def test_where_the_cache_is(tmp_path: Path) -> None:
    def place(**environ: str) -> Path:
        return cache_at(environ).session.parent.parent

    assert place(FLOWDIFF_CACHE=str(tmp_path / "a"), XDG_CACHE_HOME="/nowhere") == tmp_path / "a"
    assert place(XDG_CACHE_HOME=str(tmp_path)) == tmp_path / "flowdiff"
    with pytest.raises(ConfigError, match="FLOWDIFF_CACHE_SIZE=1MB is no size"):
        cache_at({"FLOWDIFF_CACHE": str(tmp_path), "FLOWDIFF_CACHE_SIZE": "1MB"})
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(LakeError, match=r"cannot be used: Not a directory\. Set FLOWDIFF_CACHE"):
        cache_at({"FLOWDIFF_CACHE": str(tmp_path / "file")})
