"""Merge the files of one window into one a table: the same rows, in the order of the lake's contract."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stitch.columnar.hashing import hash_rows

_FLOW_ORDER = ("root", "category", "start_ns", "request_id", "kind", "lane")


def merged_flows(tables: list[pa.Table]) -> pa.Table:
    """Flows of several files, sorted by (root, category, start, id), ties by kind and lane. O(n log n)."""
    flows = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
    keys = pa.table({name: _plain(flows[name]) for name in _FLOW_ORDER})
    order = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in _FLOW_ORDER])
    return flows.take(order).combine_chunks()


def merged_structures(tables: list[pa.Table]) -> pa.Table:
    """Structures of several files, each category once, sorted by (root, category)."""
    structures = pa.concat_tables(tables).combine_chunks()
    _, first = np.unique(structures["category"].to_numpy(zero_copy_only=False), return_index=True)
    kept = structures.take(pa.array(first))
    return kept.sort_by([("root", "ascending"), ("category", "ascending")]).combine_chunks()


def merged_params(tables: list[pa.Table], flows: pa.Table) -> pa.Table:
    """Parameters of several files, in the order of `flows`, then by position; then as they were."""
    params = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
    rank = pc.index_in(flow_names(params), value_set=flow_names(flows)).fill_null(-1).to_numpy()
    order = np.lexsort((params["position"].to_numpy(), rank))
    return params.take(pa.array(order)).combine_chunks()


def same_rows(before: list[pa.Table], after: pa.Table, *, distinct: bool = False) -> bool:
    """Whether a table has the rows of others, each as often (`distinct`: each once), in any order.

    By a 64-bit hash of every row over all columns.
    """
    told = np.concatenate([hash_rows(table) for table in before])
    found = np.sort(hash_rows(after))
    return np.array_equal(np.unique(told) if distinct else np.sort(told), found)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column


def flow_names(rows: pa.Table, *, with_lane: bool = False) -> pa.Array:
    """[rows] the name of each row's flow: kind and id in one, and the lane where it tells flows apart."""
    parts = [rows["kind"].cast(pa.string()), rows["request_id"]]
    if with_lane:
        parts.insert(0, rows["lane"].cast(pa.string()))
    return pc.binary_join_element_wise(*parts, " ").combine_chunks()
