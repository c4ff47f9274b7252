"""What the system will not let fsck read is told, one line a file, and the rest is checked all the same."""

from __future__ import annotations

import errno
from pathlib import Path

import pyarrow as pa
import pytest
from oracles.lake_script import Acknowledged, run

from stitch.lake.disk import LocalDisk
from stitch.lake.fsck import check
from stitch.lake.layout import commit_name
from stitch.lake.store import LocalStore
from stitch.lake.sums import SUMS, write_sums


class GuardedDisk(LocalDisk):
    """A disk that refuses to read some files and folders; root would not be refused by their modes."""

    def __init__(self, root: Path, refused: set[str]) -> None:
        super().__init__(root)
        self._refused = refused

    def _look(self, name: str) -> None:
        if name in self._refused:
            raise PermissionError(errno.EACCES, "Permission denied", str(self.path(name)))

    def read(self, name: str) -> pa.Buffer:
        self._look(name)
        return super().read(name)

    def names(self, folder: str) -> list[str]:
        self._look(folder)
        return super().names(folder)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    run(LocalStore.at(tmp_path), Acknowledged())
    (tmp_path / "reports" / "abc").mkdir(parents=True)
    (tmp_path / "reports" / "abc" / "report.json").write_text("{}")
    (tmp_path / "reports" / "abc" / SUMS).write_bytes(write_sums({"report.json": b'{"a":1}'}))
    return tmp_path


def told(lake: Path, *refused: str) -> list[str]:
    return [f"{f.invariant} {f.detail}" for f in check(LocalStore(GuardedDisk(lake, {*refused})))]


BROKEN = "report 'reports/abc/report.json' is not what was written: repeat the comparison"


def test_every_data_file_that_is_refused_is_told(lake: Path) -> None:
    files = sorted(str(path.relative_to(lake)) for path in lake.glob("*/window=*/*.parquet"))
    lost = lake / files[2]
    lost.unlink()
    found = told(lake, files[0], files[4])
    assert sorted(found) == sorted(
        [
            f"I3 '{files[0]}' cannot be read: permission denied",
            f"I3 '{files[2]}' was committed and is not there",
            f"I3 '{files[4]}' cannot be read: permission denied",
            BROKEN,
        ]
    )


@pytest.mark.parametrize(
    ("refused", "finding"),
    [
        ("flowdiff.json", "layout 'flowdiff.json' cannot be read: permission denied"),
        ("control/commits", "I6 'control/commits' cannot be read: permission denied"),
        ("reports/abc", "report 'reports/abc' cannot be read: permission denied"),
        ("reports/abc/report.json", "report 'reports/abc/report.json' cannot be read: permission denied"),
        ("reports", "report 'reports' cannot be read: permission denied"),
    ],
)
def test_a_place_that_is_refused_is_told(lake: Path, refused: str, finding: str) -> None:
    found = told(lake, refused)
    assert found[0] == finding
    assert (BROKEN in found) == ("reports" not in refused)


def test_of_a_chain_the_record_is_named_and_reports_are_read(lake: Path) -> None:
    name = commit_name(0, 2)
    assert told(lake, name) == [f"I6 '{lake / name}' cannot be read: permission denied", BROKEN]


def test_a_folder_of_data_that_cannot_be_listed_is_told(lake: Path) -> None:
    folder = next(str(path.relative_to(lake)) for path in lake.glob("flows/window=*"))
    assert told(lake, folder) == [f"I2 '{lake / folder}' cannot be read: permission denied", BROKEN]
