"""Sampling weights of flows (A.7) and their status."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stitch.columnar.chunks import whole
from stitch.graph.placed import PlacedFlows

I8 = npt.NDArray[np.int64]
F8 = npt.NDArray[np.float64]
B1 = npt.NDArray[np.bool_]


def flow_weights(placed: PlacedFlows, events: pa.Table) -> tuple[F8, B1, B1]:
    """[flows] weight, whether it is known, and whether events of the flow disagree on the rate.

    The weight is 1 / the smallest rate any event of the flow tells; 1 where none does. O(nodes).
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
    return np.where(known, 1.0 / np.where(known, low, 1.0), 1.0), known, known & (low != high)


def flow_status(placed: PlacedFlows, events: pa.Table) -> tuple[I8, I8, list[str]]:
    """`(status, inner, words)` [flows]: word of the root's status, and of the earliest failing node's.

    `inner` is -1 where no node fails or the root does. O(nodes).
    """
    column = whole(events["status"])
    words: list[str] = column.dictionary.to_pylist()
    fine = words.index("ok") if "ok" in words else -1
    of_event = column.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    status = np.full(placed.n_flows, len(words), dtype=np.int64)
    inner = np.full(placed.n_flows, -1, dtype=np.int64)
    if bool((of_event != fine).any()):
        of_node = np.append(of_event, [fine, fine])[placed.event]
        failing = np.flatnonzero(of_node != fine)
        flow = np.searchsorted(placed.first_node, failing, side="right") - 1
        is_root = failing == placed.first_node[flow]
        order = np.lexsort((failing, placed.ts_ns[failing], ~is_root, flow))
        failing, flow, is_root = failing[order], flow[order], is_root[order]
        first = np.flatnonzero(np.diff(flow, prepend=-1))
        by_root = is_root[first]
        status[flow[first[by_root]]] = of_node[failing[first[by_root]]]
        inner[flow[first[~by_root]]] = of_node[failing[first[~by_root]]]
    return status, inner, [*words, "ok"]
