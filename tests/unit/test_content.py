"""The content hash of event rows sees every column, and only content."""

from __future__ import annotations

from typing import Any

import pytest
from oracles.span_events import T0, batch, span

from stitch.columnar.hashing import hash_rows

BASE = span("a", "p q", (1, 2), host="h", label="l", peer="s", sample_rate=0.5, params={"k": 1, "m": "x"})
BASE |= {"links": ["t/s"], "follows": ["f"], "seq": 3, "breadcrumb": "c"}
BASE |= {"marks": [{"ts_ns": T0, "name": "m"}, {"ts_ns": T0 + 1, "name": "n"}]}

CHANGES: list[dict[str, Any]] = [
    {"kind": 18},
    {"request_id": "t2"},
    {"breadcrumb": None},
    {"breadcrumb": ""},
    {"id": "b"},
    {"parents": BASE["parents"][::-1]},
    {"parents": BASE["parents"][:1]},
    {"parents": None},
    {"parents": []},
    {"follows": [None]},
    {"follows": [""]},
    {"links": ["t/s", "t/s"]},
    {"seq": None},
    {"seq": 0},
    {"ts_ns": T0},
    {"end_ns": None},
    {"component": "other"},
    {"point": "b"},
    {"label": None},
    {"label": ""},
    {"host": "g"},
    {"peer": None},
    {"shared": True},
    {"status": "error"},
    {"sample_rate": None},
    {"sample_rate": 0.25},
    {"marks": BASE["marks"][::-1]},
    {"marks": [{"ts_ns": None, "name": "m"}, {"ts_ns": T0 + 1, "name": "n"}]},
    {"params": BASE["params"][:1]},
    {"params": [{"key": "k", "num": 2.0, "text": None}, BASE["params"][1]]},
    {"params": [{"key": "k", "num": None, "text": None}, BASE["params"][1]]},
    {"params": [BASE["params"][0], {"key": "m", "num": None, "text": "y"}]},
]


@pytest.mark.parametrize("change", CHANGES, ids=[str(change)[:40] for change in CHANGES])
def test_every_column_counts(change: dict[str, Any]) -> None:
    before, after = hash_rows(batch(BASE, BASE | change)).tolist()
    assert before != after


def test_all_changes_differ_from_one_another() -> None:
    hashes = hash_rows(batch(BASE, *(BASE | change for change in CHANGES))).tolist()
    assert len(set(hashes)) == len(hashes)


def test_place_and_neighbours_do_not_count() -> None:
    rows = [BASE | change for change in CHANGES]
    together = hash_rows(batch(*rows)).tolist()
    assert hash_rows(batch(*rows[::-1])).tolist() == together[::-1]
    assert [int(hash_rows(batch(row))[0]) for row in rows] == together


def test_slices_hash_as_their_rows_do() -> None:
    table = batch(*(BASE | change for change in CHANGES))
    assert hash_rows(table.slice(3, 5)).tolist() == hash_rows(table).tolist()[3:8]
