"""Cut what the kernel made into windows of event time, each standing alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.arrays import I8
from schemas.windows import Window
from stitch.columnar.runs import count_values
from stitch.lake.merging import flow_names


@dataclass(frozen=True, slots=True)
class WindowPart:
    """The rows of one window, in the order of the lake's contract."""

    window: Window
    flows: pa.Table
    structures: pa.Table
    params: pa.Table


def starts_of(ts_ns: pa.ChunkedArray, length_ns: int) -> I8:
    """Starts of the windows that hold some times, ascending; nulls lie in none."""
    return count_values(ts_ns.drop_null().to_numpy() // length_ns)[0] * length_ns


def cut(flows: pa.Table, structures: pa.Table, params: pa.Table, length_ns: int) -> Iterator[WindowPart]:
    """One part a window, by the start of the flow, in order of time; order of rows is kept.

    O(rows), and O(structures) a window.
    """
    start_ns = flows["start_ns"].to_numpy()
    codes, windows = _codes(start_ns - start_ns % length_ns)
    param_codes = codes[_flow_of_param(params, flows)]
    flow_parts = _deal(flows, codes, len(windows))
    param_parts = _deal(params, param_codes, len(windows))
    for start, own_flows, own_params in zip(windows.tolist(), flow_parts, param_parts, strict=True):
        seen = pc.unique(own_flows["category"].cast(pa.string()))
        own_structures = (
            structures
            if len(windows) == 1
            else structures.filter(pc.is_in(structures["category"], value_set=seen))
        )
        yield WindowPart(Window(start, length_ns), own_flows, own_structures, own_params)


def _codes(starts_ns: I8) -> tuple[I8, I8]:
    """[flows] place of its window in the sorted distinct starts, and those."""
    windows, codes = np.unique(starts_ns, return_inverse=True)
    return codes.astype(np.int64), windows


def _deal(table: pa.Table, codes: I8, n: int) -> Iterator[pa.Table]:
    """`n` parts by code. Rows are moved once."""
    if n == 1:
        yield table
        return
    dealt = table.take(pa.array(np.argsort(codes, kind="stable")))
    ends = np.cumsum(np.bincount(codes, minlength=n))
    for part in range(n):
        start = int(ends[part - 1]) if part else 0
        yield dealt.slice(start, int(ends[part]) - start)


def _flow_of_param(params: pa.Table, flows: pa.Table) -> I8:
    """[params] row of its flow. Params of a flow are a run, so only the first of each is looked up."""
    n = params.num_rows
    if n == 0:
        return np.zeros(0, dtype=np.int64)
    ids, kinds = params["request_id"].combine_chunks(), params["kind"].combine_chunks().indices
    changes = pc.or_(
        pc.not_equal(ids.slice(1), ids.slice(0, n - 1)), pc.not_equal(kinds.slice(1), kinds.slice(0, n - 1))
    ).to_numpy(zero_copy_only=False)
    first = np.concatenate((np.zeros(1, dtype=np.int64), np.flatnonzero(changes) + 1))
    found = pc.index_in(flow_names(params.take(pa.array(first))), value_set=flow_names(flows))
    return np.repeat(found.to_numpy().astype(np.int64), np.diff(np.append(first, n)))
