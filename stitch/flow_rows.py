"""Make the rows of the lake's tables `flows`, `structures` and `params` from placed flows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from schemas.arrays import B1, F8, I4, I8
from schemas.events import SMALLEST_RATE
from schemas.lake import FLOWS_SCHEMA, PARAMS_SCHEMA, RECORDS, SPANS
from schemas.quality import Quality
from stitch.columnar.runs import in_long_runs, inverse, list_lengths, ranges, run_starts, sorted_words, whole
from stitch.graph.placed import END, LabelCodes, PlacedFlows
from stitch.graph.template import fingerprint_flows
from stitch.structures import StructureMemo, structures_of

_NAMING: Final = ["request_id", "kind"]
_FINE: Final = 0
"""Code of the status `ok` in the result of `_event_status`."""


@dataclass(frozen=True, slots=True)
class Categorised:
    """Distinct structures of the flows of a batch, and the structure of each flow."""

    structures: pa.Table
    """Table with STRUCTURES_SCHEMA, one row per category, sorted by (root, category)."""
    of_flow: I8
    """[flows] row of the flow's structure in `structures`."""


@dataclass(frozen=True, slots=True)
class FlowOrder:
    """Order in which the lake stores a batch's flows and their nodes: by (root, category, start_ns,
    request_id)."""

    flow: I8
    """[flows] int64 index in `PlacedFlows` of the flow at each position of the new order."""
    node: I8
    """[nodes] int64 index in `PlacedFlows` of the node at each position, flow by flow in the new order."""
    n_nodes: I8
    """[flows] int64 number of nodes of the flow at each position of the new order."""


def categorise(placed: PlacedFlows, labels: LabelCodes, memo: StructureMemo) -> Categorised:
    """Group placed flows by structure. Structures that are not in `memo` are computed and added to it."""
    fingerprints = fingerprint_flows(placed, labels)
    pairs = np.ascontiguousarray(fingerprints).view([("a", np.uint64), ("b", np.uint64)]).ravel()
    distinct, sample, of_flow = np.unique(pairs, return_index=True, return_inverse=True)
    rows = memo.rows(distinct.tolist(), lambda unknown: structures_of(placed, labels, sample[unknown]))
    order = pc.sort_indices(rows, sort_keys=[("root", "ascending"), ("category", "ascending")])
    return Categorised(rows.take(order), inverse(order.to_numpy())[of_flow])


def order_flows(placed: PlacedFlows, categorised: Categorised) -> FlowOrder:
    """Sort placed flows by (root, category, start_ns, request_id). O(flows log flows + nodes)."""
    start = placed.ts_ns[placed.first_node[:-1]]
    flow = lake_order(categorised.of_flow, start, lambda some: _request_ids(placed, some))
    n_nodes = np.diff(placed.first_node)[flow]
    return FlowOrder(flow, ranges(placed.first_node[flow], n_nodes), n_nodes)


def lake_order(structure: I8, start_ns: I8, ids_of: Callable[[I8], pa.Array]) -> I8:
    """[flows] int64 permutation that sorts flows by (root, category, start_ns, request_id).

    structure: [flows] row of the flow's structure in a table sorted by root and category. ids_of: function
    from indices of flows to their request ids, called only for ties. O(flows log flows).
    """
    order = np.lexsort((start_ns, structure))
    starts = run_starts(structure[order], start_ns[order])
    if not starts.all():
        places = np.flatnonzero(in_long_runs(starts))
        by_name = pc.sort_indices(
            pa.table({"group": np.cumsum(starts)[places], "name": ids_of(order[places])}),
            sort_keys=[("group", "ascending"), ("name", "ascending")],
        )
        order[places] = order[places][by_name.to_numpy()]
    return order


def flows_table(
    placed: PlacedFlows, events: pa.Table, categorised: Categorised, order: FlowOrder, lane: int
) -> pa.Table:
    """Make a table with FLOWS_SCHEMA of the flows in `order`. lane: number written into each row.
    O(nodes)."""
    n = placed.n_flows
    flow = order.flow
    start = placed.ts_ns[placed.first_node[:-1]]
    offset = placed.ts_ns[order.node] - np.repeat(start[flow], order.n_nodes)
    list_offsets = pa.array(np.concatenate(([0], np.cumsum(order.n_nodes))).astype(np.int32))
    hosts = whole(events["host"])
    host_codes = pc.fill_null(hosts.indices, -1).to_numpy(zero_copy_only=False)
    host_of_node = np.append(host_codes, np.array([-1, -1], host_codes.dtype))[placed.event]
    weight, known, mixed = _flow_weights(placed, events)
    quality = placed.quality.copy()
    quality[mixed] |= np.uint32(Quality.MIXED_RATE)
    quality[_runs_backwards(placed, host_of_node)] |= np.uint32(Quality.NEGATIVE)
    of_event, status_words = _event_status(events)
    status, inner_status = _flow_status(placed, of_event)
    error_position, error_class, error_bounds = _failing_nodes(placed, of_event, order)
    category = categorised.of_flow[flow]
    columns = {
        "request_id": _request_ids(placed, flow),
        "kind": _flow_kinds(placed, flow),
        "root": _canonical_words(category, whole(categorised.structures["root"])),
        "start_ns": pa.array(start[flow]),
        "response_ns": pa.array(_response_ns(placed, start)[flow]),
        "category": _canonical_words(category, whole(categorised.structures["category"])),
        "offset_ns": pa.ListArray.from_arrays(list_offsets, pa.array(offset)),
        "host": pa.ListArray.from_arrays(
            list_offsets, _canonical_words(host_of_node[order.node], hosts.dictionary)
        ),
        "weight": pa.array(weight[flow]),
        "weight_known": pa.array(known[flow]),
        "status": _canonical_words(status[flow], status_words),
        "inner_status": _canonical_words(inner_status[flow], status_words),
        "error_position": pa.ListArray.from_arrays(error_bounds, pa.array(error_position)),
        "error_class": pa.ListArray.from_arrays(error_bounds, _canonical_words(error_class, status_words)),
        "quality": pa.array(quality[flow]),
        "n_nodes": pa.array(order.n_nodes.astype(np.int32)),
        "lane": pa.array(np.full(n, lane, dtype=np.int32)),
    }
    return pa.table([columns[f.name].cast(f.type) for f in FLOWS_SCHEMA], schema=FLOWS_SCHEMA)


def _canonical_words(codes: npt.NDArray[np.integer], words: list[str] | pa.StringArray) -> pa.DictionaryArray:
    """[rows] dictionary array of the words at `codes`, with a sorted dictionary; null for code -1. `words`
    may repeat."""
    named = pa.array(words, pa.string()) if isinstance(words, list) else words
    missing = codes < 0
    indices = pa.array(codes.astype(np.int32), mask=missing if missing.any() else None)
    return sorted_words(pa.DictionaryArray.from_arrays(indices, named))


def _flow_kinds(placed: PlacedFlows, flow: I8) -> pa.DictionaryArray:
    """[flows] kind, SPANS or RECORDS, of each of the flows `flow`, dictionary-encoded."""
    if len(flow) and (placed.of_spans.all() or not placed.of_spans.any()):
        kind = SPANS if placed.of_spans[0] else RECORDS
        return pa.DictionaryArray.from_arrays(np.zeros(len(flow), np.int32), pa.array([kind]))
    return _canonical_words(placed.of_spans[flow].astype(np.int64), [RECORDS, SPANS])


def _request_ids(placed: PlacedFlows, flow: I8) -> pa.Array:
    """[flows] request id of each of the flows `flow`."""
    return placed.request_names.take(pa.array(placed.request[flow]))


def _flow_weights(placed: PlacedFlows, events: pa.Table) -> tuple[F8, B1, B1]:
    """Weights of flows: ([flows] weight, [flows] True if a sampling rate is known, [flows] True if rates of
    the flow's events differ).

    The weight is 1 / the smallest sampling rate among the flow's events; 1 without rates. Rates below
    SMALLEST_RATE, from open events of a version that accepted them, count as SMALLEST_RATE. O(nodes).
    """
    n = placed.n_flows
    rates = whole(events["sample_rate"])
    if rates.null_count == len(rates) or n == 0:
        return np.ones(n), np.zeros(n, dtype=np.bool_), np.zeros(n, dtype=np.bool_)
    unknown = rates.null_count > 0
    known_rates = pc.fill_null(rates, np.nan) if unknown else rates
    of_event = np.append(known_rates.to_numpy(zero_copy_only=False), [np.nan, np.nan])
    of_node = of_event[placed.event]
    first = placed.first_node[:-1]
    low = np.fmin.reduceat(of_node, first)
    high = np.fmax.reduceat(of_node, first)
    known = ~np.isnan(low)
    return 1.0 / np.where(known, np.maximum(low, SMALLEST_RATE), 1.0), known, known & (low != high)


def _event_status(events: pa.Table) -> tuple[I8, list[str]]:
    """Status of each event: (`code` [events + 2] index into `words`, `words`); `words[0]` is `ok`.

    The last two entries of `code` are for synthetic nodes, which have no event: they are `ok`.
    """
    column = whole(events["status"])
    dictionary_words: list[str] = column.dictionary.to_pylist()
    code = np.array(
        [_FINE if word == "ok" else at for at, word in enumerate(dictionary_words, 1)], dtype=np.int64
    )
    of_event = code[column.indices.to_numpy(zero_copy_only=False)] if len(column) else np.zeros(0, np.int64)
    return np.append(of_event, [_FINE, _FINE]), ["ok", *dictionary_words]


def _failing_nodes(placed: PlacedFlows, of_event: I8, order: FlowOrder) -> tuple[I4, I8, pa.Array]:
    """Nodes of failed events: `(position in the flow, index of the status word, [flows + 1] index of each
    flow's first one)`.

    A failed span is included once, at its start, without its marks. O(nodes); O(1) if no event failed.
    """
    bounds = np.concatenate(([0], np.cumsum(order.n_nodes)))
    if not of_event.any():
        none = np.zeros(0, np.int64)
        return none.astype(np.int32), none, pa.array(np.zeros(len(bounds), np.int32))
    of_node = of_event[placed.event]
    of_node[(placed.side == END) | (placed.point_code >= 0)] = _FINE
    of_node = of_node[order.node]
    failing = np.flatnonzero(of_node)
    flow = np.searchsorted(bounds, failing, side="right") - 1
    position = (failing - bounds[flow]).astype(np.int32)
    return position, of_node[failing], pa.array(np.searchsorted(failing, bounds).astype(np.int32))


def _flow_status(placed: PlacedFlows, of_event: I8) -> tuple[I8, I8]:
    """Status of each flow: `(status, inner)`, both [flows] indices of status words: that of the root, and
    that of the earliest failed node.

    `inner` is -1 if no node failed, or the root did. O(nodes).
    """
    status = np.full(placed.n_flows, _FINE, dtype=np.int64)
    inner = np.full(placed.n_flows, -1, dtype=np.int64)
    if of_event.any():
        of_node = of_event[placed.event]
        failing = np.flatnonzero(of_node)
        flow = placed.flow_of(failing)
        is_root = failing == placed.first_node[flow]
        order = np.lexsort((failing, placed.ts_ns[failing], ~is_root, flow))
        failing, flow, is_root = failing[order], flow[order], is_root[order]
        first = np.flatnonzero(run_starts(flow))
        by_root = is_root[first]
        status[flow[first[by_root]]] = of_node[failing[first[by_root]]]
        inner[flow[first[~by_root]]] = of_node[failing[first[~by_root]]]
    return status, inner


def _response_ns(placed: PlacedFlows, start: I8) -> I8:
    """[flows] response time, ns: time of the latest response node minus time of the root; every flow has a
    response node."""
    nodes = np.flatnonzero(placed.response)
    if not len(nodes):
        return np.zeros(0, np.int64)
    latest: I8 = np.maximum.reduceat(placed.ts_ns[nodes], np.searchsorted(nodes, placed.first_node[:-1]))
    return latest - start


def _runs_backwards(placed: PlacedFlows, host: npt.NDArray[np.integer]) -> I8:
    """Indices of flows, with repeats, that have an edge between nodes on one host which goes back in time.

    host: [nodes] code of the host, -1 if unknown. The start and the end of a span are on one host even if it
    is unknown.
    """
    base = np.repeat(placed.first_node[:-1], np.diff(placed.first_edge))
    src, dst = base + placed.src, base + placed.dst
    late = np.flatnonzero(placed.ts_ns[dst] < placed.ts_ns[src])
    src, dst = src[late], dst[late]
    same = (host[src] == host[dst]) & (
        (host[src] >= 0) | ((placed.event[src] == placed.event[dst]) & (placed.event[src] >= 0))
    )
    return placed.flow_of(src[same])


FLOW_PARAMS_SCHEMA = pa.schema(
    [pa.field("flow", pa.int32(), nullable=False), *(f for f in PARAMS_SCHEMA if f.name not in _NAMING)]
)
"""Schema of parameters whose flows have no request id yet: PARAMS_SCHEMA with the row of the flow instead of
request id and kind."""


def named_params(params: pa.Table, flows: pa.Table) -> pa.Table:
    """Convert parameters from FLOW_PARAMS_SCHEMA to PARAMS_SCHEMA, with request ids and kinds from `flows`.

    O(params).
    """
    if not params.num_rows:
        return PARAMS_SCHEMA.empty_table()
    flow = whole(params["flow"])
    names = {
        "request_id": pa.DictionaryArray.from_arrays(flow, whole(flows["request_id"])),
        "kind": whole(flows["kind"]).take(flow),
    }
    columns = [(names if f.name in _NAMING else params)[f.name].cast(f.type) for f in PARAMS_SCHEMA]
    return pa.table(columns, schema=PARAMS_SCHEMA)


def params_of_flows(placed: PlacedFlows, events: pa.Table, order: FlowOrder) -> pa.Table:
    """Collect the parameters of all flows: FLOW_PARAMS_SCHEMA, sorted by flow, position and key. O(nodes +
    params).

    A span's parameters are listed at its start node. The parameters of a partial report are listed at the
    span into which it was merged, except those whose key that span has too.
    """
    lists = whole(events["params"])
    lengths = list_lengths(lists)
    if not lengths.any():
        return FLOW_PARAMS_SCHEMA.empty_table()
    event, flow, position = _bearers(placed, order)
    bears = lengths[event] > 0
    event, flow, position = event[bears], flow[bears], position[bears]
    if not len(event):
        return FLOW_PARAMS_SCHEMA.empty_table()
    n_params = lengths[event]
    ends = np.cumsum(n_params)
    first = lists.offsets.to_numpy()[event] - (ends - n_params)
    value = np.repeat(first.astype(np.int32), n_params) + np.arange(ends[-1], dtype=np.int32)
    flow = np.repeat(flow.astype(np.int32), n_params)
    position = np.repeat(position.astype(np.int32), n_params)
    keys = pc.struct_field(lists.values, "key")
    if len(placed.merged[0]):
        key = keys.indices.to_numpy(zero_copy_only=False)[value]
        kept = _first_of_key(placed, event, n_params, flow, position, key, keys.dictionary.to_pylist())
        value, flow, position = value[kept], flow[kept], position[kept]
    taken = partial(pc.take, indices=pa.array(value), boundscheck=False)
    columns = {
        "flow": pa.array(flow),
        "position": pa.array(position),
        "key": sorted_words(taken(keys)),
        "num": taken(pc.struct_field(lists.values, "num")),
        "text": taken(pc.struct_field(lists.values, "text")),
    }
    arrays = [columns[f.name].cast(f.type) for f in FLOW_PARAMS_SCHEMA]
    return pa.table(arrays, schema=FLOW_PARAMS_SCHEMA)


def _bearers(placed: PlacedFlows, order: FlowOrder) -> tuple[I8, I8, I8]:
    """Find the events that have a node, in output order: (row of the event, index of the flow in the output,
    position of the node).

    Rows of merged partial reports follow the row into which they were merged.
    """
    node = order.node
    first = (placed.side[node] != END) & (placed.point_code[node] < 0) & (placed.event[node] >= 0)
    place = np.flatnonzero(first)
    ends = np.cumsum(order.n_nodes)
    flow = np.searchsorted(ends, place, side="right")
    position = place - (ends - order.n_nodes)[flow]
    event = placed.event[node[place]]
    partial, into = placed.merged
    if not len(partial):
        return event, flow, position
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
    flow: npt.NDArray[np.integer],
    position: npt.NDArray[np.integer],
    key: npt.NDArray[np.integer],
    words: list[str],
) -> I8:
    """Sort parameters by (flow, position, key), and return their indices.

    A parameter of a merged report is dropped if the node has a parameter of the same key.
    """
    rank = inverse(np.array(sorted(range(len(words)), key=words.__getitem__), dtype=np.int64))
    borrowed = np.repeat(np.isin(event, placed.merged[0]), n_params)
    order = np.lexsort((borrowed, rank[key], position, flow))
    # A span's own list may repeat a key (two attributes cut to one name): those rows stay.
    drop = ~run_starts(flow[order], position[order], key[order]) & borrowed[order]
    result: I8 = order[~drop]
    return result
