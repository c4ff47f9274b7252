"""Events dealt out by request: each once, requests whole, groups within the limit, names as the kernel's."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from schemas.events import EVENT_SCHEMA, EventKind, concat_events
from stitch.drivers import spill as spill_module
from stitch.drivers.partition import bucket_of, hash_texts, payload_bytes, share_of
from stitch.drivers.spill import Buckets, EventSpill
from stitch.records.components import assign_requests


def record(request: str | None, ts_ns: int, **fields: object) -> dict[str, object]:
    return {
        "kind": EventKind.EVENT,
        "request_id": request,
        "breadcrumb": request,
        "ts_ns": ts_ns,
        "component": "shop",
        "point": f"p{ts_ns % 7}",
        "shared": False,
        "status": "ok",
        "params": [{"key": "k", "num": float(ts_ns), "text": None}],
        **fields,
    }


def table(rows: list[dict[str, object]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=EVENT_SCHEMA)


def batches(n_requests: int, events_each: int, seed: int = 1) -> list[pa.Table]:
    rows = [record(f"r{r}", r * 1000 + e) for r in range(n_requests) for e in range(events_each)]
    order = np.random.default_rng(seed).permutation(len(rows))
    return [table([rows[i] for i in part]) for part in np.array_split(order, 7)]


def loaded(spill: EventSpill) -> list[pa.Table]:
    """Each group's events, which are on disk no longer."""
    tables = []
    for group in spill.groups():
        tables.append(group.load())
        group.forget()
    return tables


def as_multiset(tables: list[pa.Table]) -> Counter[str]:
    return Counter(repr(row) for each in tables for row in each.to_pylist())


@pytest.mark.parametrize(("n_requests", "limit_bytes"), [(100, 5_000), (400, 100_000), (400, 10**9)])
def test_every_event_once_and_every_request_whole(tmp_path: Path, n_requests: int, limit_bytes: int) -> None:
    given = batches(n_requests, 9)
    spill = EventSpill(tmp_path, limit_bytes)
    for batch in given:
        spill.add(batch)
    groups = loaded(spill)
    assert spill.spilled == (limit_bytes < 10**9)
    assert as_multiset(groups) == as_multiset(given)
    seen = Counter(request for group in groups for request in set(group["request_id"].to_pylist()))
    assert set(seen.values()) == {1}
    assert all(payload_bytes(group) <= limit_bytes // 2 for group in groups)
    assert not list(tmp_path.rglob("*.arrows"))


@pytest.mark.parametrize(("part", "n_groups"), [(0.4, 2), (0.6, 4), (1.5, 8)])
def test_groups_are_even(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: float, n_groups: int) -> None:
    """`part`: of the most that a group may have, a quarter of the events."""
    monkeypatch.setattr(spill_module, "_SMALL_BYTES", 1000)
    given = batches(4_000, 1)
    size = sum(map(payload_bytes, given))
    spill = EventSpill(tmp_path, round(size / (2 * part)))
    for each in given:
        spill.add(each)
    sizes = [payload_bytes(group) for group in loaded(spill)]
    assert len(sizes) == n_groups
    assert max(sizes) < 1.3 * min(sizes)


def test_a_single_large_request_is_kept_whole(tmp_path: Path) -> None:
    spill = EventSpill(tmp_path, 2_000)
    for batch in [*batches(20, 2), table([record("big", t) for t in range(500)])]:
        spill.add(batch)
    sizes = [Counter(group["request_id"].to_pylist())["big"] for group in loaded(spill)]
    assert [n for n in sizes if n] == [500]


def test_groups_do_not_depend_on_the_order_of_events(tmp_path: Path) -> None:
    found = []
    for seed in (1, 2):
        spill = EventSpill(tmp_path / str(seed), 20_000)
        for batch in batches(300, 5, seed):
            spill.add(batch)
        found.append([as_multiset([group]) for group in loaded(spill)])
    assert found[0] == found[1]
    assert len(found[0]) > 3


@pytest.mark.parametrize("limit_bytes", [1_500, 10**9])
def test_records_without_request_id_are_named_as_the_kernel_names_them(
    tmp_path: Path, limit_bytes: int
) -> None:
    rows = [record(f"r{r}", r * 100 + e) for r in range(30) for e in range(3)]
    for n in range(20):  # strand a<n> splits b<n>, which joins it again
        rows += [
            record(None, n, breadcrumb=f"a{n}", kind=EventKind.SPLIT, links=[f"b{n}"]),
            record(None, n + 1, breadcrumb=f"b{n}"),
            record(None, n + 2, breadcrumb=f"a{n}", kind=EventKind.JOIN, links=[f"b{n}"]),
        ]
    rows += [
        record(None, 7, breadcrumb="r3"),  # lies on a strand of request r3
        record("r4", 8, kind=EventKind.SPLIT, links=["lost-strand"]),
        record(None, 9, breadcrumb="lost-strand"),
        record(None, 10, breadcrumb=None),
        record(None, 11, breadcrumb=None, id="x"),
        record("r5", 12, parents=["x"]),
    ]
    order = np.random.default_rng(3).permutation(len(rows))
    given = [table([rows[i] for i in part]) for part in np.array_split(order, 5)]
    spill = EventSpill(tmp_path, limit_bytes)
    for batch in given:
        spill.add(batch)
    groups = loaded(spill)
    assert spill.spilled == (limit_bytes < 10**9)
    whole = concat_events(given)
    requests = assign_requests(whole)
    index = whole.schema.get_field_index("request_id")
    named = whole.set_column(index, EVENT_SCHEMA.field(index), requests.names.take(pa.array(requests.code)))
    assert as_multiset(groups) == as_multiset([named])
    seen = Counter(request for group in groups for request in set(group["request_id"].to_pylist()))
    assert {"~a0", "~"} <= set(seen)
    assert set(seen.values()) == {1}


def test_long_dictionaries_are_not_written_with_every_piece(tmp_path: Path) -> None:
    rows = [record(f"r{n}", n, point=f"point number {n:05d}") for n in range(1_000)]
    buckets = Buckets(tmp_path / "events", 0, on_disk=True)
    buckets.add(table(rows))
    pieces = [*buckets.batches()]
    assert all(len(piece["point"].chunk(0).dictionary) == piece.num_rows for piece in pieces)
    assert as_multiset(pieces) == as_multiset([table(rows)])


def test_hashes_are_stable_and_spread() -> None:
    texts = pa.array([f"{i:032x}" for i in range(20_000)] + ["", "a", "é" * 100])
    hashes = hash_texts(texts)
    assert len(np.unique(hashes)) == len(texts)
    assert (hash_texts(texts.slice(10, 5)) == hashes[10:15]).all()
    assert hash_texts(pa.array(["a"]))[0] == hashes[-2]
    for level in range(4):
        counts = np.bincount(bucket_of(hashes, level), minlength=32)
        assert abs(counts / counts.mean() - 1).max() < 0.2
    assert share_of(hashes, 0.25).mean() == pytest.approx(0.25, abs=0.02)
    assert share_of(hashes, 1.0).all()
    assert not share_of(hashes, 0.0).any()


def test_payload_bytes_adds_up_over_any_cut() -> None:
    whole = concat_events(batches(50, 4))
    assert payload_bytes(whole) == sum(payload_bytes(whole.slice(i, 13)) for i in range(0, 200, 13))
