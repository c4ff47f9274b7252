"""Benchmark of the stitch kernel: spans/s and records/s, CPU of one core, beside the plain-Python oracle.

Run: `python tests/bench/bench_kernel.py [SPANS]`. Seeds are fixed; the best of several runs counts.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parents[1])]

from bench.heap import keep_freed_memory  # noqa: E402
from oracles.stitcher import read_events, stitch_plainly  # noqa: E402 (the path comes first: a script)

from schemas.config import StitchConfig  # noqa: E402
from schemas.events import EVENT_SCHEMA, PARAM_TYPE, EventKind  # noqa: E402
from stitch.kernel import stitch  # noqa: E402
from stitch.structures import StructureMemo  # noqa: E402

SPANS_PER_TRACE = 48
SPAN_STRUCTURES = 100
RECORDS_PER_REQUEST = 30
RECORD_STRUCTURES = 1_600
ORACLE_EVENTS = 30_000
START_NS = 1_763_600_000_000_000_000


def span_batch(n_spans: int, *, seed: int = 1) -> pa.Table:
    """About `n_spans` spans, 48 a trace, 100 structures drawn by a Zipf law, in the order of their ends.

    Ids are random hexadecimal digits; 20 traces a second overlap, so that neighbours in the batch belong to
    different traces, as on a topic.
    """
    rng = np.random.default_rng(seed)
    n_traces = max(1, n_spans // SPANS_PER_TRACE)
    structure = np.minimum(rng.zipf(1.4, n_traces) - 1, SPAN_STRUCTURES - 1)
    m = SPANS_PER_TRACE
    parent = np.zeros((SPAN_STRUCTURES, m), dtype=np.int64)
    operation = np.zeros((SPAN_STRUCTURES, m), dtype=np.int64)
    for s in range(SPAN_STRUCTURES):
        for v in range(1, m):
            parent[s, v] = rng.integers(max(0, v - 8), v)
            operation[s, v] = operation[s, v - 1] if rng.random() < 0.3 else rng.integers(0, 120)
    shape_parent, shape_operation = parent[structure], operation[structure]
    begin = START_NS + np.sort(rng.integers(0, n_traces * 50_000_000, n_traces))
    start = np.zeros((n_traces, m), dtype=np.int64)
    length = np.zeros((n_traces, m), dtype=np.int64)
    start[:, 0], length[:, 0] = begin, rng.integers(50_000_000, 900_000_000, n_traces)
    rows = np.arange(n_traces)
    for v in range(1, m):
        p = shape_parent[:, v]
        share = rng.random((2, n_traces)) * 0.45
        start[:, v] = start[rows, p] + (length[rows, p] * share[0]).astype(np.int64)
        length[:, v] = (length[rows, p] * (0.1 + share[1])).astype(np.int64) + 1
    trace = np.array([f"{x:016x}{y:016x}" for x, y in rng.integers(0, 2**63, (n_traces, 2)).tolist()])
    ids = np.array([x.to_bytes(8, "big") for x in rng.integers(0, 2**63, n_traces * m).tolist()], object)
    ids = ids.reshape(n_traces, m)
    order = np.argsort((start + length).ravel(), kind="stable")
    n = len(order)
    parent_id = ids[rows[:, None], shape_parent].ravel()[order]
    is_root = (np.arange(n_traces * m) % m == 0)[order]
    offsets = np.concatenate(([0], np.cumsum(~is_root))).astype(np.int32)
    operations = shape_operation.ravel()[order]
    columns: dict[str, pa.Array] = {
        "kind": pa.array(
            np.where(operations % 3, EventKind.SPAN_SERVER, EventKind.SPAN_CLIENT).astype(np.uint8)
        ),
        "request_id": pa.array(np.repeat(trace, m)[order]),
        "id": pa.array(ids.ravel()[order]),
        "parents": pa.ListArray.from_arrays(pa.array(offsets), pa.array(parent_id[~is_root])),
        "ts_ns": pa.array(start.ravel()[order]),
        "end_ns": pa.array((start + length).ravel()[order]),
        "component": _words(operations // 12, [f"service-{i}" for i in range(10)]),
        "point": _words(operations, [f"operation/{i}" for i in range(120)]),
        "host": _words(operations // 12, [f"pod-{i}" for i in range(10)]),
        "shared": pa.array(np.zeros(n, dtype=np.bool_)),
        "status": _words(np.zeros(n, dtype=np.int64), ["ok"]),
    }
    return _event_table(columns, n)


def record_batch(n_records: int, *, seed: int = 1, each_its_own: bool = False) -> pa.Table:
    """About `n_records` records, 30 a request, 1,600 structures of splits and joins drawn by a Zipf law, in
    the order of their times; 20 requests a second overlap. each_its_own: no two requests share a structure.
    """
    rng = np.random.default_rng(seed)
    m = RECORDS_PER_REQUEST
    n_requests = max(1, n_records // m)
    programs = [_program(rng) for _ in range(n_requests if each_its_own else RECORD_STRUCTURES)]
    which = (
        np.arange(n_requests)
        if each_its_own
        else np.minimum(rng.zipf(1.15, n_requests) - 1, RECORD_STRUCTURES - 1)
    )
    begin = START_NS + np.sort(rng.integers(0, n_requests * 50_000_000, n_requests))
    strand, kind, point = (
        np.array([[getattr(step, name) for step in program] for program in programs])[which]
        for name in ("strand", "kind", "point")
    )
    step_ns = rng.integers(1_000, 10_000_000, (n_requests, m))
    ts = begin[:, None] + np.cumsum(step_ns, axis=1)
    order = np.argsort(ts.ravel(), kind="stable")
    request = np.array([f"{x:016x}" for x in rng.integers(0, 2**63, n_requests).tolist()])
    request_of_row = np.repeat(request, m)
    crumb = np.char.add(np.char.add(request_of_row, "-"), strand.ravel().astype(str))
    # One split starts two strands and one join ends one: links are lists of 0, 1 or 2 names.
    link_lists = [[step.links for step in program] for program in programs]
    n_links = np.array([[len(links) for links in lists] for lists in link_lists])[which].ravel()
    flat = [np.array([link for links in lists for link in links], dtype=np.int64) for lists in link_lists]
    per_request = np.array([len(f) for f in flat])[which]
    names = np.char.add(
        np.char.add(np.repeat(request, per_request), "-"),
        np.concatenate([flat[w] for w in which.tolist()]).astype(str),
    )
    lists = pa.ListArray.from_arrays(
        pa.array(np.concatenate(([0], np.cumsum(n_links))).astype(np.int32)), pa.array(names)
    )
    points = point.ravel()[order]
    columns: dict[str, pa.Array] = {
        "kind": pa.array(kind.ravel()[order].astype(np.uint8)),
        "request_id": pa.array(request_of_row[order]),
        "breadcrumb": pa.array(crumb[order]),
        "links": lists.take(pa.array(order)),
        "ts_ns": pa.array(ts.ravel()[order]),
        "component": _words(points // 8, [f"component-{i}" for i in range(10)]),
        "point": _words(points, [f"point-{i}" for i in range(80)]),
        "host": _words(points // 8, [f"host-{i}" for i in range(10)]),
        "shared": pa.array(np.zeros(len(order), dtype=np.bool_)),
        "status": _words(np.zeros(len(order), dtype=np.int64), ["ok"]),
    }
    return _event_table(columns, len(order))


class _Step(NamedTuple):
    strand: int
    kind: int
    point: int
    links: tuple[int, ...]


def _program(rng: np.random.Generator) -> list[_Step]:
    """30 steps: work on live strands, splits into two more, joins of one; the first strand ends it."""
    live, spare, steps = [0], 1, []
    for left in range(RECORDS_PER_REQUEST, 0, -1):
        point = int(rng.integers(0, 80))
        if left == 1:
            steps.append(_Step(0, EventKind.END, point, ()))
        elif left <= len(live):
            steps.append(_Step(0, EventKind.JOIN, point, (live.pop(),)))
        elif rng.random() < 0.12 and left > len(live) + 3:
            strand = live[int(rng.integers(0, len(live)))]
            steps.append(_Step(strand, EventKind.SPLIT, point, (spare, spare + 1)))
            live += [spare, spare + 1]
            spare += 2
        else:
            steps.append(_Step(live[int(rng.integers(0, len(live)))], EventKind.EVENT, point, ()))
    return steps


def _event_table(columns: dict[str, pa.Array], n: int) -> pa.Table:
    arrays = [
        columns[field.name].cast(field.type) if field.name in columns else pa.nulls(n, field.type)
        for field in EVENT_SCHEMA
    ]
    return pa.table(arrays, schema=EVENT_SCHEMA)


def _words(codes: np.ndarray, words: list[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(words))


def cpu_seconds(run: Callable[[], object], repeats: int) -> float:
    """Least CPU time of `repeats` runs."""
    best = float("inf")
    for _ in range(repeats):
        begin = time.process_time()
        run()
        best = min(best, time.process_time() - begin)
    return best


def with_params(events: pa.Table) -> pa.Table:
    """The events, each with seven parameters: four texts and three numbers."""
    n = events.num_rows
    keys = pa.array([f"key.{i}" for i in range(7)])
    number = np.arange(7 * n, dtype=np.float64)
    is_text = np.arange(7 * n) % 7 < 4
    texts = pa.array([f"value-{i}" for i in range(1000)]).take(pa.array(np.arange(7 * n) * 31 % 1000))
    values = pa.StructArray.from_arrays(
        [
            keys.take(pa.array(np.arange(7 * n) % 7)),
            pa.array(number, mask=is_text),
            pc.if_else(pa.array(is_text), texts, None),
        ],
        fields=list(PARAM_TYPE),
    )
    lists = pa.ListArray.from_arrays(pa.array(np.arange(0, 7 * n + 1, 7, dtype=np.int32)), values)
    place = events.schema.get_field_index("params")
    return events.set_column(place, events.schema.field(place), lists)


def measure(name: str, events: pa.Table) -> float:
    """Print and return events a CPU second where every structure is known; print the rate where none is."""
    config, memo = StitchConfig(), StructureMemo()
    result = stitch(events, config, memo=memo)
    warm = cold = float("inf")
    for _ in range(4):  # in turn, so that a slow minute of the machine meets both
        warm = min(warm, cpu_seconds(lambda: stitch(events, config, memo=memo), 1))
        cold = min(cold, cpu_seconds(lambda: stitch(events, config, memo=StructureMemo()), 1))
    n_nodes = pc.sum(result.structures["n_nodes"]).as_py()
    print(
        f"{name}: {events.num_rows:,} events, {result.flows.num_rows:,} flows, "
        f"{result.structures.num_rows:,} structures, {result.params.num_rows:,} params: "
        f"{events.num_rows / warm / 1e6:.2f} M/s; cold {events.num_rows / cold / 1e6:.2f} M/s, "
        f"{(cold - warm) / n_nodes * 1e6:.1f} µs a node of a new structure"
    )
    return events.num_rows / warm


def oracle_rate(events: pa.Table) -> float:
    """Events a CPU second of the plain-Python stitcher, categories included, reading the rows not."""
    rows, config = read_events(events), StitchConfig()
    seconds = cpu_seconds(lambda: {flow.category() for flow in stitch_plainly(rows, config).flows}, 2)
    return events.num_rows / seconds


def main() -> None:
    """Measure spans and records, with and without the allocator's help, and the oracle."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    pa.set_cpu_count(1)
    batches = {"spans": span_batch(n), "records": record_batch(n)}
    for name, events in batches.items():
        measure(f"{name}, allocator as it comes", events)
    print("keep_freed_memory:", keep_freed_memory())
    rates = {name: measure(name, events) for name, events in batches.items()}
    measure("spans with params", with_params(batches["spans"]))
    measure("records, few", record_batch(min(n, 50_000)))
    measure("records, no structure twice", record_batch(min(n, 50_000), each_its_own=True))
    for name, make in (("spans", span_batch), ("records", record_batch)):
        plain = oracle_rate(make(ORACLE_EVENTS))
        times = rates[name] / plain
        print(f"plain Python, {name}: {plain / 1e6:.3f} M/s; the kernel is {times:.0f} times as fast")


if __name__ == "__main__":
    main()
