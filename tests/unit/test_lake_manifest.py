"""Opening lakes: what is refused, what readers are shown, what fsck finds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from oracles.lake_script import HISTORY, WINDOW_NS, Acknowledged, open_writer, run, stage
from oracles.memory_disk import CrashError, MemoryDisk

from schemas.errors import LakeError
from schemas.windows import Window
from stitch.lake.commits import Counters
from stitch.lake.fsck import check
from stitch.lake.layout import ensure_lake, read_info
from stitch.lake.manifest import open_manifest
from stitch.lake.store import LocalDisk


@pytest.fixture
def lake(tmp_path: Path) -> LocalDisk:
    disk = LocalDisk(tmp_path)
    run(disk, Acknowledged())
    return disk


def test_the_manifest_lists_windows_and_files(lake: LocalDisk) -> None:
    manifest = open_manifest(lake)
    windows = manifest.windows()
    assert [(w.window.start_ns // WINDOW_NS, w.flows, w.sealed) for w in windows] == [
        (0, 3, True),
        (1, 1, True),
        (2, 1, True),
    ]
    assert manifest.pending == 0
    assert [entry.rows for entry in manifest.files("flows", [Window(0, WINDOW_NS)])] == [2, 1]
    assert [entry.rows for entry in manifest.files("flows")] == [2, 1, 1, 1]
    assert [entry.rows for entry in manifest.files("dead_letters")] == [1]
    on_disk = sorted(path.relative_to(lake.root).as_posix() for path in lake.root.glob("flows/*/*"))
    assert [entry.name for entry in manifest.files("flows")] == on_disk


def test_a_commit_counts_once_all_its_files_are_visible() -> None:
    disk = MemoryDisk()
    run(disk, Acknowledged(), HISTORY[:1])
    seen = open_manifest(disk).entries
    _die_at_the_second_rename(disk)
    manifest = open_manifest(disk)
    assert manifest.entries == seen
    assert manifest.pending == 1
    open_writer(disk)  # recovery finishes it
    assert open_manifest(disk).pending == 0
    assert len(open_manifest(disk).entries) > len(seen)


def test_a_file_of_the_last_commit_that_is_lost_is_not_taken_for_one_to_come(lake: LocalDisk) -> None:
    last = open_manifest(lake).commits[-1].record
    (lake.root / last.publish[0].final).unlink()
    with pytest.raises(LakeError, match=r"last commit is missing\. Run `flowdiff fsck L`"):
        open_manifest(lake, "L")


def _die_at_the_second_rename(disk: MemoryDisk) -> None:
    """Run the second import half way through its publishing."""
    writer = open_writer(disk)
    counters = stage(writer, HISTORY[1])
    renames = 0
    real = disk.rename

    def rename(source: str, target: str) -> None:
        nonlocal renames
        renames += 1
        if renames == 2:
            raise CrashError
        real(source, target)

    disk.rename = rename  # type: ignore[method-assign]
    with pytest.raises(CrashError):
        writer.commit((HISTORY[1].file,), counters, {})
    disk.rename = real  # type: ignore[method-assign]


def test_a_missing_lake_and_a_foreign_folder_are_refused(tmp_path: Path) -> None:
    disk = LocalDisk(tmp_path)
    with pytest.raises(LakeError, match="no lake at '/some/where'"):
        open_manifest(disk, "/some/where")
    (tmp_path / "flows").mkdir()
    with pytest.raises(LakeError, match="yet the folder holds 'flows'"):
        ensure_lake(disk, None, WINDOW_NS, "test")


def test_another_layout_or_window_length_is_refused(lake: LocalDisk) -> None:
    with pytest.raises(LakeError, match="windows of 300 s, not 60 s"):
        ensure_lake(lake, 60 * 10**9, WINDOW_NS, "test")
    assert ensure_lake(lake, None, 60 * 10**9, "test").window_length_ns == WINDOW_NS
    path = lake.root / "flowdiff.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "layout_version": 99}))
    with pytest.raises(LakeError, match="layout version 99"):
        read_info(lake)
    path.write_text("{")
    with pytest.raises(LakeError, match="not what flowdiff writes"):
        read_info(lake)


@pytest.mark.parametrize("harm", ["remove", "edit", "reorder"])
def test_a_broken_chain_is_refused(lake: LocalDisk, harm: str) -> None:
    folder = lake.root / "control/commits/lane=0"
    first, second = sorted(folder.iterdir())
    if harm == "remove":
        first.unlink()
    elif harm == "edit":
        first.write_text(first.read_text().replace("monday", "sunday"))
    else:
        content = first.read_bytes()
        first.write_bytes(second.read_bytes())
        second.write_bytes(content)
    with pytest.raises(LakeError, match="commit chain is broken"):
        open_manifest(lake)
    assert [finding.invariant for finding in check(lake)] == ["I6"]


def test_fsck_finds_every_kind_of_harm(lake: LocalDisk) -> None:
    assert check(lake) == []
    flows = sorted(lake.root.glob("flows/*/*.parquet"))
    stray = flows[0].with_name("stray.parquet")
    stray.write_bytes(flows[0].read_bytes())
    assert [f.invariant for f in check(lake)] == ["I2"]
    stray.unlink()
    content = flows[0].read_bytes()
    flows[0].write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert [f.invariant for f in check(lake)] == ["I2"]
    flows[0].unlink()
    assert [f.invariant for f in check(lake)] == ["I3"]


def test_fsck_finds_a_request_that_is_there_twice(tmp_path: Path) -> None:
    disk = LocalDisk(tmp_path)
    for name in ("one", "two"):
        writer = open_writer(disk)
        counters = stage(writer, HISTORY[0])
        writer.commit((HISTORY[0].file.model_copy(update={"name": name}),), counters, {})
    assert [f.invariant for f in check(disk)] == ["I5"] * 3


def test_a_ledger_that_does_not_balance_is_not_committed(tmp_path: Path) -> None:
    disk = LocalDisk(tmp_path)
    writer = open_writer(disk)
    stage(writer, HISTORY[0])
    with pytest.raises(LakeError, match="does not balance"):
        writer.commit((HISTORY[0].file,), Counters(events_read=4, events_published=3), {})
    assert open_manifest(disk).entries == ()
