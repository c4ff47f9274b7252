"""Faults in generated flows: a step takes longer for some requests, and a parameter says which."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.lake import PARAMS_SCHEMA


def slow_plans(
    flows: pa.Table, n_nodes: int, n_categories: int, *, seed: int = 0, add_ns: int = 3_000_000
) -> tuple[pa.Table, pa.Table]:
    """(flows with `n_categories` slower ones, params): half of the requests have the plan `gold`.

    Of those, in the second sample, what comes after one node takes `add_ns` longer; categories are the
    largest but for the first. A second parameter says nothing. Every flow is of spans, `n_nodes` nodes.
    """
    rng = np.random.default_rng(seed)
    category = flows["category"].combine_chunks()
    if isinstance(category, pa.ChunkedArray):
        category = category.chunk(0)
    codes = category.indices.to_numpy()
    largest = np.argsort(-np.bincount(codes), kind="stable")[1 : n_categories + 1]
    gold = rng.random(flows.num_rows) < 0.5
    slow = gold & np.isin(codes, largest) & (flows["sample"].to_numpy() == 1)
    lists = flows["offset_ns"].combine_chunks()
    lists = lists.chunk(0) if isinstance(lists, pa.ChunkedArray) else lists
    times = lists.flatten().to_numpy().reshape(-1, n_nodes).copy()
    at = times[:, n_nodes // 3 : n_nodes // 3 + 1]
    times += (times > at) * np.where(slow, add_ns, 0)[:, None]
    late = pa.ListArray.from_arrays(lists.offsets, times.reshape(-1))
    response = pa.array(flows["response_ns"].to_numpy() + np.where(slow, add_ns, 0))
    kind = pa.array(["spans"] * flows.num_rows).dictionary_encode()
    for name, column in (("offset_ns", late), ("response_ns", response), ("kind", kind)):
        flows = flows.set_column(flows.column_names.index(name), name, column)
    return flows, _params(flows, gold, rng.integers(1, 50, flows.num_rows))


def _params(flows: pa.Table, gold: np.ndarray, size: np.ndarray) -> pa.Table:
    n = flows.num_rows
    rows = np.repeat(np.arange(n), 2)
    is_plan = pa.array(np.tile([True, False], n))
    plan = pa.array(np.where(gold, "gold", "free"))
    table = pa.table(
        {
            "request_id": flows["request_id"].take(pa.array(rows)),
            "kind": flows["kind"].take(pa.array(rows)),
            "position": pa.array(np.zeros(2 * n, np.int32)),
            "key": pa.array(np.tile(["plan", "size"], n)),
            "num": pc.if_else(is_plan, None, pa.array(np.repeat(size, 2).astype(np.float64))),
            "text": pc.if_else(is_plan, plan.take(pa.array(rows)), None),
        }
    )
    return table.cast(PARAMS_SCHEMA)
