"""Rows of the `params` table: parameters of events at the canonical position of their node."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from schemas.lake import PARAMS_SCHEMA
from stitch.columnar.chunks import whole
from stitch.columnar.runs import ranges
from stitch.flow_rows import FlowOrder, canonical_words, flow_kinds
from stitch.graph.placed import END, PlacedFlows

I8 = npt.NDArray[np.int64]


def params_table(placed: PlacedFlows, events: pa.Table, order: FlowOrder) -> pa.Table:
    """Rows of PARAMS_SCHEMA, in the order of the flows, then position, then key. O(nodes + params).

    A span's parameters stand at its start. Those of a partial report stand at the span it was merged into;
    where both tell a key, the span's own value counts.
    """
    lists = whole(events["params"])
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    if not lengths.any():
        return PARAMS_SCHEMA.empty_table()
    event, flow, position = _bearers(placed, order)
    bears = lengths[event] > 0
    event, flow, position = event[bears], flow[bears], position[bears]
    if not len(event):
        return PARAMS_SCHEMA.empty_table()
    starts = lists.offsets.to_numpy()[:-1].astype(np.int64)
    n_params = lengths[event]
    value = ranges(starts[event], n_params)
    flow, position = np.repeat(flow, n_params), np.repeat(position, n_params)
    keys = pc.struct_field(lists.values, "key").dictionary_encode()
    key = keys.indices.to_numpy(zero_copy_only=False)[value]
    words: list[str] = keys.dictionary.to_pylist()
    if placed.merged is not None and len(placed.merged[0]):
        kept = _first_of_key(placed, event, n_params, flow, position, key, words)
        value, flow, position, key = value[kept], flow[kept], position[kept], key[kept]
    taken = pa.array(value)
    names = placed.request_names
    assert names is not None, "the builders name the requests"
    columns = {
        "request_id": names.take(pa.array(placed.request[order.flow[flow]])),
        "kind": flow_kinds(placed, order.flow[flow]),
        "position": pa.array(position.astype(np.int32)),
        "key": canonical_words(key, words),
        "num": pc.struct_field(lists.values, "num").take(taken),
        "text": pc.struct_field(lists.values, "text").take(taken),
    }
    return pa.table([columns[f.name].cast(f.type) for f in PARAMS_SCHEMA], schema=PARAMS_SCHEMA)


def _bearers(placed: PlacedFlows, order: FlowOrder) -> tuple[I8, I8, I8]:
    """Event rows with a node, in output order: row, place of the flow in the output, position.

    Rows of merged partial reports follow the row they were merged into.
    """
    node = order.node
    first = (placed.side[node] != END) & (placed.point_code[node] < 0) & (placed.event[node] >= 0)
    place = np.flatnonzero(first)
    ends = np.cumsum(order.n_nodes)
    flow = np.searchsorted(ends, place, side="right")
    position = place - (ends - order.n_nodes)[flow]
    event = placed.event[node[place]]
    if placed.merged is None or not len(placed.merged[0]):
        return event, flow, position
    partial, into = placed.merged
    index_of = np.full(int(max(event.max(), into.max())) + 1, -1, dtype=np.int64)
    index_of[event] = np.arange(len(event))
    index = index_of[into]
    partial, index = partial[index >= 0], index[index >= 0]
    after = np.argsort(np.concatenate((np.arange(len(event)), index)), kind="stable")
    event = np.concatenate((event, partial))[after]
    return event, np.append(flow, flow[index])[after], np.append(position, position[index])[after]


def _first_of_key(
    placed: PlacedFlows,
    event: I8,
    n_params: I8,
    flow: I8,
    position: I8,
    key: npt.NDArray[np.integer],
    words: list[str],
) -> I8:
    """Indices of the parameters, in order of key, of which each (node, key) has its first: the span's own."""
    ordered = sorted(range(len(words)), key=words.__getitem__)
    rank = np.empty(len(words), dtype=np.int64)
    rank[ordered] = np.arange(len(words))
    assert placed.merged is not None
    borrowed = np.repeat(np.isin(event, placed.merged[0]), n_params)
    order = np.lexsort((borrowed, rank[key], position, flow))
    flow, position, key = flow[order], position[order], key[order]
    repeated = (np.diff(flow) == 0) & (np.diff(position) == 0) & (np.diff(key) == 0)
    # A span's own list may repeat a key (two attributes cut to one name): those rows stay.
    drop = np.concatenate(([False], repeated & borrowed[order][1:]))
    result: I8 = order[~drop]
    return result
