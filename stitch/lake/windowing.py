"""Split the kernel's output by windows of event time, and merge the files of one window."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.arrays import I8
from schemas.lake import PARAMS_SCHEMA
from schemas.windows import Window
from stitch.columnar.hashing import hash_rows
from stitch.columnar.runs import count_values, deal, run_starts, whole

_FLOW_ORDER = ("root", "category", "start_ns", "request_id", "kind", "lane")


def merged_flows(tables: list[pa.Table]) -> pa.Table:
    """Merge the flows of several files, sorted by (root, category, start, id), then kind and lane. O(n log
    n)."""
    flows = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
    keys = flows.select(_FLOW_ORDER)
    for place, column in enumerate(keys.columns):
        if pa.types.is_dictionary(column.type):  # not by its codes
            keys = keys.set_column(place, _FLOW_ORDER[place], column.cast(pa.string()))
    order = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in _FLOW_ORDER])
    return flows.take(order).combine_chunks()


def merged_structures(tables: list[pa.Table]) -> pa.Table:
    """Merge the structures of several files, each category once, sorted by (root, category)."""
    structures = pa.concat_tables(tables).combine_chunks()
    _, first = np.unique(structures["category"].to_numpy(zero_copy_only=False), return_index=True)
    kept = structures.take(pa.array(first))
    return kept.sort_by([("root", "ascending"), ("category", "ascending")]).combine_chunks()


def merged_params(tables: list[pa.Table], flows: pa.Table) -> pa.Table:
    """Merge the parameters of several files, sorted by their flow's row in `flows`, then position; otherwise
    in the given order."""
    params = pa.concat_tables([PARAMS_SCHEMA.empty_table(), *tables]).unify_dictionaries().combine_chunks()
    rank = pc.index_in(flow_names(params), value_set=flow_names(flows)).fill_null(-1).to_numpy()
    order = np.lexsort((params["position"].to_numpy(), rank))
    return params.take(pa.array(order)).combine_chunks()


def same_rows(before: list[pa.Table], after: pa.Table, *, distinct: bool = False) -> bool:
    """True if `after` has exactly the rows of the tables `before`, in any order and equally often
    (`distinct`: each once).

    Compares a 64-bit hash of every row over all columns.
    """
    expected = np.concatenate([hash_rows(table) for table in before])
    found = np.sort(hash_rows(after))
    return np.array_equal(np.unique(expected) if distinct else np.sort(expected), found)


def flow_names(rows: pa.Table) -> pa.Array:
    """[rows] name of each row's flow: kind and request id, separated by a blank."""
    kind, request_id = rows["kind"].cast(pa.string()), rows["request_id"].cast(pa.string())
    return pc.binary_join_element_wise(kind, request_id, " ").combine_chunks()


@dataclass(frozen=True, slots=True)
class WindowPart:
    """Rows of one window in the tables `flows`, `structures` and `params`, sorted as the lake stores them."""

    window: Window
    flows: pa.Table
    structures: pa.Table
    params: pa.Table

    @property
    def nbytes(self) -> int:
        """Bytes of the three tables in memory."""
        return int(self.flows.nbytes + self.structures.nbytes + self.params.nbytes)


def starts_of(ts_ns: pa.ChunkedArray, length_ns: int) -> I8:
    """Starts of the windows that contain the times `ts_ns`, ns, ascending; nulls are ignored."""
    return count_values(ts_ns.drop_null().to_numpy() // length_ns)[0] * length_ns


def cut(flows: pa.Table, structures: pa.Table, params: pa.Table, length_ns: int) -> Iterator[WindowPart]:
    """Split tables by the window in which each flow starts: yield a part per window, in order of time, with
    rows in the given order.

    O(rows log rows), however many windows there are.
    """
    start_ns = flows["start_ns"].to_numpy()
    windows, codes = np.unique(start_ns - start_ns % length_ns, return_inverse=True)
    param_codes = codes[_flow_of_param(params, flows)]
    flow_parts = deal(flows, codes, len(windows))
    param_parts = deal(params, param_codes, len(windows))
    bounds, rows = _structures_of_windows(flows["category"], structures["category"], codes, len(windows))
    for at, (own_flows, own_params) in enumerate(zip(flow_parts, param_parts, strict=True)):
        own = rows[bounds[at] : bounds[at + 1]]
        own_structures = structures if len(windows) == 1 else structures.take(pa.array(own))
        yield WindowPart(Window(int(windows[at]), length_ns), own_flows, own_structures, own_params)


def _structures_of_windows(
    categories: pa.ChunkedArray, known: pa.ChunkedArray, windows: I8, n_windows: int
) -> tuple[I8, I8]:
    """Find the structures that each window's flows use: `(rows, [windows + 1] offsets)`. rows: row of the
    structure in `known`, ascending in each window.

    categories: [flows] category; windows: [flows] index of the window. known: [structures] categories, each
    once.
    """
    found = pc.index_in(categories.cast(pa.string()), value_set=whole(known.cast(pa.string())))
    n_known = max(len(known), 1)
    pairs = np.unique(windows * n_known + found.to_numpy().astype(np.int64))
    bounds = np.searchsorted(pairs, np.arange(n_windows + 1) * n_known)
    return bounds.astype(np.int64), pairs % n_known


def _flow_of_param(params: pa.Table, flows: pa.Table) -> I8:
    """[params] row in `flows` of each parameter's flow.

    Parameters of a flow are consecutive, so only the first one is looked up.
    """
    n = params.num_rows
    if n == 0:
        return np.zeros(0, dtype=np.int64)
    named = (whole(params[name].unify_dictionaries()).indices.to_numpy() for name in ("request_id", "kind"))
    first = np.flatnonzero(run_starts(*named))
    found = pc.index_in(flow_names(params.take(pa.array(first))), value_set=flow_names(flows))
    return np.repeat(found.to_numpy().astype(np.int64), np.diff(np.append(first, n)))
