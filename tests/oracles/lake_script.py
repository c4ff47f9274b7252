"""A small history of a lake: two imports, told as data, run through the real writer on any disk."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache, lru_cache

import pyarrow as pa

from schemas.commits import CommitBody, CommitRecord, Counters, InputFile
from schemas.lake import FLOWS_SCHEMA, STRUCTURES_SCHEMA
from schemas.rejects import Reason, Reject, rejects_table
from schemas.windows import Window
from stitch.lake.encoding import decode
from stitch.lake.lane import Lane
from stitch.lake.layout import LAKE_FILE, SIDE_TABLES, WINDOW_TABLES, ensure_lake
from stitch.lake.manifest import open_manifest
from stitch.lake.staging import Staging
from stitch.lake.store import Store

MINUTE_NS = 60 * 10**9
WINDOW_NS = 5 * MINUTE_NS

Content = Counter[tuple[str, str, str]]
"""(table, window, row) -> times."""


@dataclass(frozen=True)
class Import:
    """One import: its file's name (also its content) and the requests it holds, by start minute."""

    name: str
    requests: dict[str, int]
    garbage: int = 0

    @property
    def file(self) -> InputFile:
        data = self.name.encode()
        return InputFile(name=self.name, sha256=hashlib.sha256(data).hexdigest(), size=len(data))


HISTORY = (
    Import("monday", {"a": 1, "b": 2, "c": 7}, garbage=1),
    Import("tuesday", {"d": 2, "e": 12}),
)


@dataclass
class Acknowledged:
    """What a caller was told, and what a reader has seen, before the crash."""

    imports: list[str] = field(default_factory=list)


def flows_table(ids: Iterable[str], start_ns: Iterable[int], category: str = "c" * 32) -> pa.Table:
    """Flows of one node each, in the schema of the lake."""
    return _flows(tuple(ids), tuple(start_ns), category)


@lru_cache(maxsize=256)
def _flows(ids: tuple[str, ...], start_ns: tuple[int, ...], category: str) -> pa.Table:
    rows = [
        {
            "request_id": request,
            "kind": "spans",
            "root": "shop/GET",
            "start_ns": start,
            "response_ns": 5,
            "category": category,
            "offset_ns": [0, 5],
            "host": ["h1", None],
            "weight": 1.0,
            "weight_known": False,
            "status": "ok",
            "error_position": [],
            "error_class": [],
            "quality": 0,
            "n_nodes": 2,
            "lane": 0,
        }
        for request, start in zip(ids, start_ns, strict=True)
    ]
    return pa.Table.from_pylist(rows, schema=FLOWS_SCHEMA)


@cache
def structures_table(category: str = "c" * 32) -> pa.Table:
    """One structure of two nodes."""
    node = {
        "component": "shop",
        "point": "GET",
        "label": None,
        "kind": 18,
        "side": 1,
        "mate": 1,
        "parent": -1,
        "deferred": False,
    }
    row = {
        "category": category,
        "root": "shop/GET",
        "n_nodes": 2,
        "nodes": [node, {**node, "side": 2, "mate": 0}],
        "in_edges": [{"src": 0, "dst": 1}],
        "responses": [1],
    }
    return pa.Table.from_pylist([row], schema=STRUCTURES_SCHEMA)


def open_lane(store: Store, owner: str = "test") -> Lane:
    """The production lane, at rest."""
    info = ensure_lake(store, WINDOW_NS, WINDOW_NS, "flowdiff test")
    return Lane(store, info, owner=owner, created_by="flowdiff test")


def stage(staging: Staging, step: Import) -> Counters:
    """Stage the files of one import."""
    by_window: dict[Window, list[str]] = {}
    for request, minute in step.requests.items():
        by_window.setdefault(Window.of(minute * MINUTE_NS, WINDOW_NS), []).append(request)
    for window, ids in by_window.items():
        flows = flows_table(ids, [step.requests[request] * MINUTE_NS for request in ids])
        staging.add_window("flows", window, 0, flows)
        staging.add_window("structures", window, 0, structures_table())
    rejects = [Reject(Reason.BAD_JSON, "no", b"{", 0, n) for n in range(step.garbage)]
    staging.add_side("dead_letters", 0, rejects_table(rejects, step.name, [0]))
    n = len(step.requests)
    refused = {"bad-json": step.garbage} if step.garbage else {}
    return Counters(events_read=n, events_published=n, flows=n, rejects=refused)


def make(lane: Lane, step: Import) -> CommitRecord:
    """Stage and commit one import."""
    with lane.stage() as staging:
        counters = stage(staging, step)
        return lane.commit(staging, CommitBody(kind="import", inputs=(step.file,), counters=counters))


def run(store: Store, told: Acknowledged, history: tuple[Import, ...] = HISTORY) -> None:
    """Make the imports that the lake does not have yet."""
    for step in history:
        lane = open_lane(store)
        if step.file.sha256 in lane.known_inputs():
            continue
        make(lane, step)
        told.imports.append(step.name)


def content(store: Store) -> Content:
    """Every row that readers are led to."""
    rows: Content = Counter()
    if store.size(LAKE_FILE) is None:
        return rows
    manifest = open_manifest(store)
    for table in (*WINDOW_TABLES, *SIDE_TABLES):
        for entry in manifest.files(table):
            for row in _rows(table, store.read(entry.name).to_pybytes()):
                rows[table, entry.window.name if entry.window else "", row] += 1
    return rows


@lru_cache(maxsize=256)
def _rows(table: str, data: bytes) -> tuple[str, ...]:
    """Thousands of schedules read the same few files."""
    return tuple(repr(row) for row in decode(table, pa.py_buffer(data)).to_pylist())
