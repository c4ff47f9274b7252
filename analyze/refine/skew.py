"""Clock skew between hosts (A.6 S3), for each sample, from both sides of remote calls.

The serving span cannot start before the calling span nor end after it, so every such pair on two hosts
bounds the correction of the server's clock: `client start - server start <= correction <= client end -
server end`. Other children say nothing: one that ends after its parent may as well be asynchronous (S7).
Times inside one host are never moved against each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from analyze.refine.siblings import sample_bounds
from analyze.refine.span_tree import SpanTree
from analyze.refine.stored import FlowMatrices, StoredCategory
from schemas.windows import NS_PER_MINUTE

I8 = npt.NDArray[np.int64]
F8 = npt.NDArray[np.float64]
B1 = npt.NDArray[np.bool_]

_TAIL = 0.05
"""Share of pairs that may contradict an offset: `lo` is the 95th, `hi` the 5th percentile of the bounds."""

_BLOCK_CELLS = 1 << 18
"""Spans looked at in one block: a dozen arrays of 2 MB each."""

_MAX_NOTES = 5


@dataclass(frozen=True, slots=True)
class _Clock:
    """Corrections of one sample, ns to add: [hosts, slices]; one slice unless a pair of clocks drifts."""

    add_ns: I8
    first_minute: int
    centre: dict[tuple[int, int], B1]
    """(host, host) ascending -> [slices] whether its spans are centred trace by trace instead."""

    def slices(self, start_ns: I8) -> I8:
        """[requests] slice of each request."""
        if self.add_ns.shape[1] == 1:
            return np.zeros(len(start_ns), dtype=np.int64)
        # A request outside the minutes that showed skew takes the nearest one's correction.
        nearest: I8 = np.clip(start_ns // NS_PER_MINUTE - self.first_minute, 0, self.add_ns.shape[1] - 1)
        return nearest


@dataclass(frozen=True, slots=True)
class Clocks:
    """Corrections by sample; None where it needs none."""

    samples: tuple[_Clock | None, ...]
    host_code: I8
    """[hosts + 1] host of a matrix -> host here; -1 for unknown hosts and those past the limit."""
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Bounds on the correction of host b against host a < b; one entry a pair of spans."""

    pair: I8
    """(sample * hosts + a) * hosts + b."""
    minute: I8
    lower: I8
    upper: I8


def estimate_clocks(
    flows: FlowMatrices,
    trees: Sequence[SpanTree | None],
    names: Sequence[str],
    *,
    max_hosts: int,
    min_pairs: int,
) -> Clocks:
    """Estimate the clock correction of every host in every sample; `names` are the samples'.

    `trees` go with `flows.categories`. A pair of hosts with fewer than `min_pairs` pairs of spans decides
    nothing: its spans are centred trace by trace where they contradict. O(spans); the second pass over
    the data runs only if some pair of hosts contradicts.
    """
    host_code = _frequent_hosts(flows, trees, max_hosts)
    n_hosts = int(host_code.max(initial=-1)) + 1
    if n_hosts < 2:
        return no_clocks(flows.n_samples, host_code)
    n_pairs = n_hosts * n_hosts
    n_codes = flows.n_samples * n_pairs
    counts = np.zeros((3, n_codes), dtype=np.int64)
    for bounds in _bounds(flows, trees, host_code, n_hosts):
        counts[0] += np.bincount(bounds.pair, minlength=n_codes)
        counts[1] += np.bincount(bounds.pair[bounds.lower > 0], minlength=n_codes)
        counts[2] += np.bincount(bounds.pair[bounds.upper < 0], minlength=n_codes)
    suspect = np.maximum(counts[1], counts[2]) > _TAIL * counts[0]
    if not suspect.any():
        return no_clocks(flows.n_samples, host_code)
    gathered = [_select(bounds, suspect[bounds.pair]) for bounds in _bounds(flows, trees, host_code, n_hosts)]
    hosts = {int(code): name for code, name in zip(host_code[:-1], flows.hosts, strict=True) if code >= 0}
    clocks: list[_Clock | None] = [None] * flows.n_samples
    notes: list[str] = []
    for sample, name in enumerate(names):
        pairs = slice(sample * n_pairs, (sample + 1) * n_pairs)
        if not suspect[pairs].any():
            continue
        mine = _concatenate([_select(bounds, bounds.pair // n_pairs == sample) for bounds in gathered])
        mine = replace(mine, pair=mine.pair - sample * n_pairs)
        clocks[sample], sentences = _solve(mine, counts[0][pairs], n_hosts, min_pairs, hosts)
        notes.extend(f"In the {name} period {sentence}" for sentence in sentences)
    return Clocks(tuple(clocks), host_code, tuple(notes))


def no_clocks(n_samples: int, host_code: I8) -> Clocks:
    """Nothing to correct."""
    return Clocks((None,) * n_samples, host_code, ())


def _frequent_hosts(flows: FlowMatrices, trees: Sequence[SpanTree | None], max_hosts: int) -> I8:
    counts = np.zeros(len(flows.hosts) + 1, dtype=np.int64)
    for category, tree in zip(flows.categories, trees, strict=True):
        if tree is not None:
            codes = category.host[list(tree.start)].reshape(-1)
            counts += np.bincount(np.where(codes < 0, len(flows.hosts), codes), minlength=len(counts))
    host_code = np.full(len(counts), -1, dtype=np.int64)
    chosen = np.argsort(-counts[:-1], kind="stable")[:max_hosts]
    chosen = np.sort(chosen[counts[chosen] > 0])
    host_code[chosen] = np.arange(len(chosen))
    return host_code


def _bounds(
    flows: FlowMatrices, trees: Sequence[SpanTree | None], host_code: I8, n_hosts: int
) -> Iterator[_Bounds]:
    """Bounds from all remote calls between two hosts, category by category."""
    for category, tree in zip(flows.categories, trees, strict=True):
        if tree is None:
            continue
        units = [unit for unit in range(1, tree.n_units) if tree.is_remote_call(unit)]
        if not units:
            continue
        above = [tree.parent[unit] for unit in units]
        step = max(1, _BLOCK_CELLS // tree.n_units)
        for at in range(0, category.n_requests, step):
            rows = slice(at, at + step)
            hosts = host_code[category.host[list(tree.start), rows]]
            a, b = hosts[above], hosts[units]
            apart = (a != b) & (a >= 0) & (b >= 0)
            if not apart.any():
                continue
            starts = category.node_ns[list(tree.start), rows]
            ends = category.node_ns[list(tree.end), rows]
            lower = starts[above] - starts[units]
            upper = ends[above] - ends[units]
            # A server span longer than its client's fits by no correction: it went on after the reply.
            apart &= lower <= upper
            request = np.nonzero(apart)[1]
            a, b, lower, upper = a[apart], b[apart], lower[apart], upper[apart]
            swap = a > b
            pair = np.where(swap, b * n_hosts + a, a * n_hosts + b)
            yield _Bounds(
                pair=pair + category.sample[rows][request] * np.int64(n_hosts * n_hosts),
                minute=category.start_ns[rows][request] // NS_PER_MINUTE,
                lower=np.where(swap, -upper, lower),
                upper=np.where(swap, -lower, upper),
            )


def _select(bounds: _Bounds, chosen: B1) -> _Bounds:
    return _Bounds(bounds.pair[chosen], bounds.minute[chosen], bounds.lower[chosen], bounds.upper[chosen])


def _concatenate(parts: list[_Bounds]) -> _Bounds:
    return _Bounds(
        np.concatenate([part.pair for part in parts]),
        np.concatenate([part.minute for part in parts]),
        np.concatenate([part.lower for part in parts]),
        np.concatenate([part.upper for part in parts]),
    )


def _solve(
    bounds: _Bounds, n_pairs: I8, n_hosts: int, min_pairs: int, names: dict[int, str]
) -> tuple[_Clock, list[str]]:
    pair, minute, lower, upper = bounds.pair, bounds.minute, bounds.lower, bounds.upper
    first_minute = int(minute.min())
    n_slices = int(minute.max()) - first_minute + 1
    theta: dict[tuple[int, int], I8] = {}
    centre: dict[tuple[int, int], B1] = {}
    notes = []
    for code in np.unique(pair).tolist():
        a, b = divmod(code, n_hosts)
        mine = pair == code
        offset = _offset(lower[mine], upper[mine], min_pairs)
        if offset is not None:
            theta[a, b] = np.full(n_slices, offset, dtype=np.int64)
            if offset:
                ahead, behind = (b, a) if offset < 0 else (a, b)
                notes.append(
                    f"the clock of {names[ahead]} runs {abs(offset) / 1e6:.3f} ms ahead of {names[behind]}: "
                    "corrected."
                )
            continue
        theta[a, b] = np.zeros(n_slices, dtype=np.int64)
        centre[a, b] = np.ones(n_slices, dtype=np.bool_)
        for at in np.unique(minute[mine]).tolist():
            here = mine & (minute == at)
            sliced = _offset(lower[here], upper[here], min_pairs)
            if sliced is not None:
                theta[a, b][at - first_minute] = sliced
                centre[a, b][at - first_minute] = False
    notes = notes[:_MAX_NOTES] + [f"{len(notes) - _MAX_NOTES} more clocks: corrected."] * (
        len(notes) > _MAX_NOTES
    )
    loose = [pair for pair, minutes in sorted(centre.items()) if minutes.any()]
    if loose:
        a, b = loose[0]
        notes.append(
            f"{len(loose)} pairs of clocks (for example {names[a]} and {names[b]}) drift, or share too few "
            "calls to tell: where they contradict, spans are centred in their callers trace by trace."
        )
    add_ns = _along_tree(theta, n_pairs, n_hosts, n_slices)
    if not centre and (add_ns == add_ns[:, :1]).all():
        add_ns = add_ns[:, :1]
    return _Clock(add_ns, first_minute, centre), notes


def _offset(lower: I8, upper: I8, min_pairs: int) -> int | None:
    """Correction by S3, ns; None if the pairs are too few or contradict each other."""
    if len(lower) < min_pairs:
        return None
    lo = float(np.quantile(lower, 1 - _TAIL))
    hi = float(np.quantile(upper, _TAIL))
    if lo <= 0 <= hi:
        return 0
    return round((lo + hi) / 2) if lo <= hi else None


def _along_tree(theta: dict[tuple[int, int], I8], n_pairs: I8, n_hosts: int, n_slices: int) -> I8:
    """[hosts, slices] corrections along the spanning tree of the most counted pairs of hosts."""
    # Not above: a tenth of a second at every start, and only clocks that contradict each other need it.
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import breadth_first_order, connected_components, minimum_spanning_tree

    weights = coo_matrix(n_pairs.reshape(n_hosts, n_hosts).astype(np.float64))
    # The minimum tree of 1/count is the maximum tree of count.
    weights.data = 1.0 / weights.data
    tree = minimum_spanning_tree(weights.tocsr())
    n_parts, part = connected_components(tree, directed=False)
    add_ns = np.zeros((n_hosts, n_slices), dtype=np.int64)
    busy = n_pairs.reshape(n_hosts, n_hosts)
    degree = busy.sum(axis=0) + busy.sum(axis=1)
    for number in range(n_parts):
        members = np.flatnonzero(part == number)
        anchor = int(members[np.argmax(degree[members])])
        order, above = breadth_first_order(tree, anchor, directed=False)
        for host in order[1:].tolist():
            parent = int(above[host])
            a, b = min(host, parent), max(host, parent)
            step = theta.get((a, b))
            if step is not None:
                add_ns[host] = add_ns[parent] + (step if host == b else -step)
            else:
                add_ns[host] = add_ns[parent]
    return add_ns


def corrected_offsets(category: StoredCategory, tree: SpanTree | None, clocks: Clocks) -> I8:
    """[nodes, requests] times after correction, relative to the root; the stored ones where right."""
    if tree is None or not any(clocks.samples):
        return category.node_ns
    times = category.node_ns.copy()
    bounds = sample_bounds(category.sample, len(clocks.samples)).tolist()
    for clock, (first, past) in zip(clocks.samples, pairwise(bounds), strict=True):
        if clock is None or first == past:
            continue
        rows = slice(first, past)
        hosts = clocks.host_code[category.host[list(tree.start), rows]]
        stored = category.node_ns[:, rows]
        shift = _shifts(stored, tree, hosts, clock, clock.slices(category.start_ns[rows]))
        for unit in range(1, tree.n_units):
            times[tree.start[unit], rows] += shift[unit]
            if tree.end[unit] != tree.start[unit]:
                times[tree.end[unit], rows] += shift[unit]
    return times


def _shifts(times: I8, tree: SpanTree, hosts: I8, clock: _Clock, slices: I8) -> I8:
    """[units, requests] ns to add to a unit's times; the root stands still."""
    shift = np.zeros((tree.n_units, times.shape[1]), dtype=np.int64)
    extra = np.zeros_like(shift)  # by centring, handed down to everything below
    base = np.where(hosts[0] < 0, 0, clock.add_ns[hosts[0], slices])
    for unit in range(1, tree.n_units):
        above = tree.parent[unit]
        known = hosts[unit] >= 0
        by_host = clock.add_ns[hosts[unit], slices] - base
        extra[unit] = extra[above]
        shift[unit] = np.where(known, by_host + extra[unit], shift[above])
        if not clock.centre or not tree.is_remote_call(unit):
            continue
        a, b = np.minimum(hosts[above], hosts[unit]), np.maximum(hosts[above], hosts[unit])
        for (low, high), minutes in clock.centre.items():
            loose = (a == low) & (b == high) & minutes[slices]
            lower = times[tree.start[above]] + shift[above] - times[tree.start[unit]] - shift[unit]
            upper = times[tree.end[above]] + shift[above] - times[tree.end[unit]] - shift[unit]
            outside = loose & (lower <= upper) & ((lower > 0) | (upper < 0))
            step = np.where(outside, (lower + upper) // 2, 0)
            extra[unit] += step
            shift[unit] += step
    return shift
