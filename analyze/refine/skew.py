"""Clock skew between hosts (A.6 S3), for each period, from both sides of remote calls.

The serving span cannot start before the calling span nor end after it, so every such pair on two hosts
bounds the correction of the server's clock: `client start - server start <= correction <= client end -
server end`. Other children say nothing: one that ends after its parent may as well be asynchronous (S7).
Times inside one host are never moved against each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

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

_PERIODS = ("reference", "problem")


@dataclass(frozen=True, slots=True)
class _Clock:
    """Corrections of one period, ns to add: [hosts, slices]; one slice unless a pair of clocks drifts."""

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
    """Corrections of both periods; None where a period needs none."""

    periods: tuple[_Clock | None, _Clock | None]
    host_code: I8
    """[hosts + 1] host of a matrix -> host here; -1 for unknown hosts and those past the limit."""
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Bounds on the correction of host b against host a < b; one entry a pair of spans."""

    pair: I8
    """(period * hosts + a) * hosts + b."""
    minute: I8
    lower: I8
    upper: I8


def estimate_clocks(
    flows: FlowMatrices, trees: Sequence[SpanTree | None], *, max_hosts: int, min_pairs: int
) -> Clocks:
    """Estimate the clock correction of every host in both periods.

    `trees` go with `flows.categories`. A pair of hosts with fewer than `min_pairs` pairs of spans decides
    nothing: its spans are centred trace by trace where they contradict. O(spans); the second pass over
    the data runs only if some pair of hosts contradicts.
    """
    host_code = _frequent_hosts(flows, trees, max_hosts)
    n_hosts = int(host_code.max(initial=-1)) + 1
    if n_hosts < 2:
        return Clocks((None, None), host_code, ())
    n_pairs = n_hosts * n_hosts
    counts = np.zeros((3, 2 * n_pairs), dtype=np.int64)
    for bounds in _bounds(flows, trees, host_code, n_hosts):
        counts[0] += np.bincount(bounds.pair, minlength=2 * n_pairs)
        counts[1] += np.bincount(bounds.pair[bounds.lower > 0], minlength=2 * n_pairs)
        counts[2] += np.bincount(bounds.pair[bounds.upper < 0], minlength=2 * n_pairs)
    suspect = np.maximum(counts[1], counts[2]) > _TAIL * counts[0]
    if not suspect.any():
        return Clocks((None, None), host_code, ())
    gathered = [_select(bounds, suspect[bounds.pair]) for bounds in _bounds(flows, trees, host_code, n_hosts)]
    names = {int(code): name for code, name in zip(host_code[:-1], flows.hosts, strict=True) if code >= 0}
    clocks: list[_Clock | None] = [None, None]
    notes: list[str] = []
    for period in (0, 1):
        pairs = slice(period * n_pairs, (period + 1) * n_pairs)
        if not suspect[pairs].any():
            continue
        mine = _concatenate([_select(bounds, bounds.pair // n_pairs == period) for bounds in gathered])
        mine = replace(mine, pair=mine.pair - period * n_pairs)
        clocks[period], sentences = _solve(mine, counts[0][pairs], n_hosts, min_pairs, names)
        notes.extend(f"In the {_PERIODS[period]} period {sentence}" for sentence in sentences)
    return Clocks((clocks[0], clocks[1]), host_code, tuple(notes))


def _frequent_hosts(flows: FlowMatrices, trees: Sequence[SpanTree | None], max_hosts: int) -> I8:
    counts = np.zeros(len(flows.hosts) + 1, dtype=np.int64)
    for category, tree in zip(flows.categories, trees, strict=True):
        if tree is not None:
            codes = category.host[:, tree.start].reshape(-1)
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
            hosts = host_code[category.host[rows][:, tree.start].T]
            a, b = hosts[above], hosts[units]
            apart = (a != b) & (a >= 0) & (b >= 0)
            if not apart.any():
                continue
            starts = category.offset_ns[rows][:, tree.start].T
            ends = category.offset_ns[rows][:, tree.end].T
            lower = starts[above] - starts[units]
            upper = ends[above] - ends[units]
            # A server span longer than its client's fits by no correction: it went on after the reply.
            apart &= lower <= upper
            request = np.nonzero(apart)[1]
            a, b, lower, upper = a[apart], b[apart], lower[apart], upper[apart]
            swap = a > b
            pair = np.where(swap, b * n_hosts + a, a * n_hosts + b)
            yield _Bounds(
                pair=pair + category.period[rows][request] * np.int64(n_hosts * n_hosts),
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
    """[requests, nodes] times after correction, relative to the root.

    The stored matrix itself for records; for spans a copy in Fortran order, because all that follows works
    on whole columns.
    """
    if tree is None:
        return category.offset_ns
    times = np.array(category.offset_ns, order="F")
    if clocks.periods == (None, None):
        return times
    problem_from = int(np.searchsorted(category.period, 1))
    for period, rows in ((0, slice(0, problem_from)), (1, slice(problem_from, None))):
        clock = clocks.periods[period]
        if clock is None or len(category.start_ns[rows]) == 0:
            continue
        hosts = clocks.host_code[category.host[rows][:, tree.start]].T
        shift = _shifts(category.offset_ns[rows], tree, hosts, clock, clock.slices(category.start_ns[rows]))
        part = times[rows]
        for unit in range(1, tree.n_units):
            part[:, tree.start[unit]] += shift[unit]
            if tree.end[unit] != tree.start[unit]:
                part[:, tree.end[unit]] += shift[unit]
    return times


def _shifts(times: I8, tree: SpanTree, hosts: I8, clock: _Clock, slices: I8) -> I8:
    """[units, requests] ns to add to a unit's times; the root stands still."""
    shift = np.zeros((tree.n_units, len(times)), dtype=np.int64)
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
            lower = times[:, tree.start[above]] + shift[above] - times[:, tree.start[unit]] - shift[unit]
            upper = times[:, tree.end[above]] + shift[above] - times[:, tree.end[unit]] - shift[unit]
            outside = loose & (lower <= upper) & ((lower > 0) | (upper < 0))
            step = np.where(outside, (lower + upper) // 2, 0)
            extra[unit] += step
            shift[unit] += step
    return shift
