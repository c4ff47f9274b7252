"""Dead letters of an import: all counted, a bounded number kept, memory given back as they come."""

from __future__ import annotations

from pathlib import Path

import pytest
from oracles.lake_script import open_lane

from schemas.rejects import Reason, Reject, rejects_table
from stitch.drivers import refusals
from stitch.drivers.refusals import DeadLetters
from stitch.lake.encoding import decode
from stitch.lake.store import LocalStore


def letters(n: int, raw: bytes = b"{}", first: int = 0) -> list[Reject]:
    return [Reject(Reason.BAD_JSON, "no", raw, 0, first + item) for item in range(n)]


def test_all_are_counted_and_the_first_of_each_file_are_kept(tmp_path: Path) -> None:
    store = LocalStore.at(tmp_path)
    with open_lane(store).stage() as staging:
        kept = DeadLetters(staging, max_per_file=5)
        for first in (0, 3):
            table = rejects_table(letters(3, first=first), "spool-1", [0])
            kept.add(table, "one", {"bad-json": table.num_rows})
        kept.add(rejects_table(letters(2), "spool-2", [0]), "two", {"bad-json": 2, "too-deep": 40})
        kept.add(rejects_table([], "spool-3", [0]), "three", {})
        kept.flush()
        (item,) = staging.items()
        rows = decode("dead_letters", store.read(item.stage)).to_pylist()
    assert [(row["source"], row["item"]) for row in rows] == [
        ("one", 0), ("one", 1), ("one", 2), ("one", 3), ("one", 4), ("two", 0), ("two", 1),
    ]  # fmt: skip
    assert kept.counts == {"bad-json": 8, "too-deep": 40}
    assert kept.not_kept == 41


@pytest.mark.parametrize(("limit", "value"), [("FLUSH_ROWS", 10), ("FLUSH_BYTES", 10_000)])
def test_they_are_written_before_they_are_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    monkeypatch.setattr(refusals, limit, value)
    with open_lane(LocalStore.at(tmp_path)).stage() as staging:
        kept = DeadLetters(staging, max_per_file=1_000)
        for first in range(0, 60, 6):
            table = rejects_table(letters(6, b"x" * 600, first), "a", [0])
            kept.add(table, "a", {"bad-json": table.num_rows})
            assert sum(part.num_rows for part in kept._held) <= 18
        kept.flush()
        assert len(staging.items()) >= 3
        assert sum(item.rows for item in staging.items()) == 60
