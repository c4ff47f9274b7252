"""What activity records say about clocks (A.6 S3): a record cannot be earlier than the one it follows.

Records have no calling span around them; their order is explicit, and every edge between two hosts bounds the
correction of one clock against the other: from a to b from below, from b to a from above. A request that goes
there and comes back bounds it from both sides, as a remote call of spans does.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from analyze.refine.clock_fit import Bounds
from analyze.refine.stored import StoredCategory
from schemas.arrays import I8

NOT_BOUNDED = np.int64(1) << 61
"""Stands for a bound that a request does not give: larger than any time, far from overflow."""


def record_bounds(category: StoredCategory, host_code: I8, n_hosts: int) -> Iterator[Bounds]:
    """Bounds on the correction of host b against a < b, one a request and pair of hosts. O(nodes · requests).

    host_code: [hosts + 1] number of each host; -1 for those that are not looked at.
    """
    found: dict[int, tuple[I8, I8]] = {}
    n = category.n_requests
    for src, dst in category.structure.edges:
        one, other = host_code[category.host[src]], host_code[category.host[dst]]
        apart = (one != other) & (one >= 0) & (other >= 0)
        if not apart.any():
            continue
        gap = category.node_ns[src] - category.node_ns[dst]
        pair = np.where(one < other, one * n_hosts + other, other * n_hosts + one)
        for number in np.unique(pair[apart]).tolist():
            lower, upper = found.setdefault(number, (np.full(n, -NOT_BOUNDED), np.full(n, NOT_BOUNDED)))
            there = apart & (pair == number)
            forth, back = there & (one < other), there & (one > other)
            lower[forth] = np.maximum(lower[forth], gap[forth])
            upper[back] = np.minimum(upper[back], -gap[back])
    for number, (lower, upper) in found.items():
        # Both legs, and room between them: else no correction fits, and the request says nothing.
        rows = np.flatnonzero((lower > -NOT_BOUNDED) & (upper < NOT_BOUNDED) & (lower <= upper))
        if len(rows):
            yield Bounds(
                pair=np.full(len(rows), number, dtype=np.int64),
                sample=category.sample[rows],
                start_ns=category.start_ns[rows],
                lower=lower[rows],
                upper=upper[rows],
            )


def record_shifts(category: StoredCategory, host_code: I8, add_ns: I8, slices: I8) -> I8:
    """[nodes, requests] ns to add to the times of records; the first record stands still.

    add_ns: [hosts, slices of time] what each clock is corrected by; slices: [requests].
    """
    hosts = host_code[category.host]
    added = np.where(hosts >= 0, add_ns[hosts, slices], 0)
    # A record of an unknown host moves with what it follows.
    for src, dst in category.structure.edges:
        added[dst] = np.where(hosts[dst] < 0, added[src], added[dst])
    shift: I8 = added - added[0]
    return shift
