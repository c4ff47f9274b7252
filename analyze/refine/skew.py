"""Clock skew between hosts (A.6 S3), from both sides of remote calls, or of ways there and back of records.

The serving span cannot start before the calling span nor end after it, so every such pair on two hosts
bounds the correction of the server's clock: `client start - server start <= correction <= client end -
server end`. Other children say nothing: one that ends after its parent may as well be asynchronous (S7).
Times inside one host are never moved against each other. `clock_fit` decides about one pair of hosts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from analyze.population import ClockMove
from analyze.refine.clock_fit import MAX_STEPS, Bounds, PairClock, contradicted, fit_clock, smallest_shift
from analyze.refine.record_clocks import record_bounds, record_shifts
from analyze.refine.span_tree import SpanTree
from analyze.refine.stored import FlowMatrices, StoredCategory
from schemas.arrays import B1, I8
from schemas.periods import format_instant
from schemas.windows import NS_PER_SECOND

Pair = tuple[int, int]

_BLOCK_CELLS = 1 << 18
"""Spans looked at in one block: a dozen arrays of 2 MB each."""

_MAX_NOTES = 5


@dataclass(frozen=True, slots=True)
class _Corrections:
    """What to add to the times of each host, constant in slices of time."""

    from_ns: I8
    """[slices - 1] where each slice but the first begins, ascending."""
    add_ns: I8
    """[hosts, slices]"""
    loose: dict[Pair, B1]
    """Hosts (ascending) -> [slices] whether their calls are corrected request by request instead."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """The clocks of all hosts, for all samples."""

    corrections: _Corrections | None
    """None: no clock needs one."""
    host_code: I8
    """[hosts + 1] host of a matrix -> host here; -1 for unknown hosts and those past the limit."""
    notes: tuple[str, ...]
    moves: tuple[ClockMove, ...] = ()
    """Pairs of hosts whose clocks did not stay as far apart as they were."""


def estimate_clocks(
    flows: FlowMatrices, trees: Sequence[SpanTree | None], *, max_hosts: int, min_calls: int, n_compared: int
) -> Clocks:
    """Estimate the clock correction of every host.

    `trees` go with `flows.categories`. A pair of hosts with fewer than `min_calls` remote calls decides
    nothing: where they contradict, they are corrected request by request. O(spans); the second pass over
    the data runs only if some pair of hosts contradicts, in some sample. Notes are on pairs that call each
    other in the first `n_compared` samples.
    """
    host_code = _frequent_hosts(flows, trees, max_hosts)
    n_hosts = int(host_code.max(initial=-1)) + 1
    if n_hosts < 2:
        return no_clocks(host_code)
    n_pairs = n_hosts * n_hosts
    calls, above, below = np.zeros((3, flows.n_samples * n_pairs), dtype=np.int64)
    for bounds in _bounds(flows, trees, host_code, n_hosts):
        code = bounds.pair + bounds.sample.astype(np.int64) * n_pairs
        calls += np.bincount(code, minlength=len(calls))
        above += np.bincount(code[bounds.lower > 0], minlength=len(calls))
        below += np.bincount(code[bounds.upper < 0], minlength=len(calls))
    in_sample = contradicted(calls, np.maximum(above, below)).reshape(-1, n_pairs)
    suspect: B1 = np.logical_or.reduce(in_sample, axis=0)
    if not suspect.any():
        return no_clocks(host_code)
    parts = [part[suspect[part.pair]] for part in _bounds(flows, trees, host_code, n_hosts)]
    fitted = {
        divmod(pair, n_hosts): fit_clock(calls_of_pair, min_calls)
        for pair, calls_of_pair in _by_pair(_concatenate(parts))
    }
    n_calls = calls.reshape(-1, n_hosts, n_hosts).sum(axis=0)
    hosts = {int(code): name for code, name in zip(host_code[:-1], flows.hosts, strict=True) if code >= 0}
    told: B1 = np.logical_or.reduce(calls.reshape(-1, n_hosts, n_hosts)[:n_compared] > 0, axis=0)
    compared = {pair: clock for pair, clock in fitted.items() if told[pair]}
    moves = tuple(
        ClockMove(hosts[a], hosts[b], by_ns)
        for (a, b), clock in compared.items()
        if (by_ns := _moved(clock)) != 0
    )
    return Clocks(_solve(fitted, n_calls), host_code, _notes(compared, hosts), moves)


def _moved(clock: PairClock) -> int | None:
    """How far a clock moved against the other over all pieces of time, ns; None: nobody knows; 0: not."""
    return None if any(clock.loose) else max(clock.add_ns) - min(clock.add_ns)


def no_clocks(host_code: I8) -> Clocks:
    """Nothing to correct."""
    return Clocks(None, host_code, ())


def _frequent_hosts(flows: FlowMatrices, trees: Sequence[SpanTree | None], max_hosts: int) -> I8:
    counts = np.zeros(len(flows.hosts) + 1, dtype=np.int64)
    for category, tree in zip(flows.categories, trees, strict=True):
        if tree is not None or not category.structure.has_spans:
            nodes = slice(None) if tree is None else list(tree.start)
            codes = category.host[nodes].reshape(-1)
            counts += np.bincount(np.where(codes < 0, len(flows.hosts), codes), minlength=len(counts))
    host_code = np.full(len(counts), -1, dtype=np.int64)
    chosen = np.argsort(-counts[:-1], kind="stable")[:max_hosts]
    chosen = np.sort(chosen[counts[chosen] > 0])
    host_code[chosen] = np.arange(len(chosen))
    return host_code


def _bounds(
    flows: FlowMatrices, trees: Sequence[SpanTree | None], host_code: I8, n_hosts: int
) -> Iterator[Bounds]:
    """Bounds from all remote calls between two hosts, category by category."""
    for category, tree in zip(flows.categories, trees, strict=True):
        if tree is None:
            if not category.structure.has_spans:
                yield from record_bounds(category, host_code, n_hosts)
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
            # Seen from the other host of the pair, a correction has the other sign.
            swap = a > b
            yield Bounds(
                pair=np.where(swap, b * n_hosts + a, a * n_hosts + b),
                sample=category.sample[rows][request],
                start_ns=category.start_ns[rows][request],
                lower=np.where(swap, -upper, lower),
                upper=np.where(swap, -lower, upper),
            )


def _concatenate(parts: list[Bounds]) -> Bounds:
    return Bounds(
        np.concatenate([part.pair for part in parts]),
        np.concatenate([part.sample for part in parts]),
        np.concatenate([part.start_ns for part in parts]),
        np.concatenate([part.lower for part in parts]),
        np.concatenate([part.upper for part in parts]),
    )


def _by_pair(bounds: Bounds) -> Iterator[tuple[int, Bounds]]:
    bounds = bounds[np.argsort(bounds.pair, kind="stable")]
    pairs, first = np.unique(bounds.pair, return_index=True)
    for pair, begin, end in zip(pairs.tolist(), first, [*first[1:], len(bounds)], strict=True):
        yield pair, bounds[begin:end]


def _notes(fitted: dict[Pair, PairClock], names: dict[int, str]) -> tuple[str, ...]:
    notes: list[str] = []
    for (a, b), clock in fitted.items():
        if not any(clock.loose):
            notes += _statements(names[a], names[b], clock)
    if len(notes) > _MAX_NOTES:
        notes = [*notes[:_MAX_NOTES], f"{len(notes) - _MAX_NOTES} more statements about clocks: corrected."]
    loose = [pair for pair, clock in fitted.items() if any(clock.loose)]
    if loose:
        a, b = loose[0]
        pairs = "1 pair" if len(loose) == 1 else f"{len(loose)} pairs"
        notes.append(
            f"{pairs} of clocks (for example {names[a]} and {names[b]}) drift, or share too few "
            "calls to tell: where they contradict, each call is moved into its caller's span by itself."
        )
    return tuple(notes)


def _statements(a: str, b: str, clock: PairClock) -> Iterator[str]:
    if not any(clock.add_ns):
        return
    if len(clock.add_ns) > MAX_STEPS + 1:
        low, high = min(clock.add_ns) / 1e6, max(clock.add_ns) / 1e6
        yield f"The clock of {b} drifts against {a}: {low:+.3f} to {high:+.3f} ms added, minute by minute."
        return
    for at, add_ns in enumerate(clock.add_ns):
        ahead, behind = (b, a) if add_ns < 0 else (a, b)
        # A bound is all that the calls tell: the network's share of the contradiction is not known.
        runs = f"runs at least {abs(add_ns) / 1e6:.3f} ms ahead of {behind}: corrected"
        said = f"clock of {ahead} {runs}" if add_ns else f"clocks of {a} and {b} agree"
        yield (
            f"From {format_instant(clock.from_ns[at - 1] // NS_PER_SECOND * NS_PER_SECOND)} on the {said}."
            if at
            else f"The {said}."
        )


def _solve(fitted: dict[Pair, PairClock], n_calls: I8) -> _Corrections | None:
    """Corrections of all hosts in the slices that the pieces of all pairs make."""
    from_ns = np.unique(np.array([at for clock in fitted.values() for at in clock.from_ns], dtype=np.int64))
    # The first slice has no beginning; any moment before the others will do.
    begin_ns = np.concatenate((from_ns[:1] - 1, from_ns)) if len(from_ns) else np.zeros(1, dtype=np.int64)
    theta, loose = {}, {}
    for pair, clock in fitted.items():
        piece = clock.piece_at(begin_ns)
        theta[pair] = np.array(clock.add_ns, dtype=np.int64)[piece]
        if any(clock.loose):
            loose[pair] = np.array(clock.loose)[piece]
    add_ns = _along_tree(theta, n_calls, len(begin_ns))
    return _Corrections(from_ns, add_ns, loose) if loose or add_ns.any() else None


def _along_tree(theta: dict[Pair, I8], n_calls: I8, n_slices: int) -> I8:
    """[hosts, slices] corrections along the spanning tree of the pairs of hosts with the most calls."""
    # Not above: a tenth of a second at every start, and only clocks that contradict each other need it.
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import breadth_first_order, connected_components, minimum_spanning_tree

    weights = coo_matrix(n_calls.astype(np.float64))
    # The minimum tree of 1/count is the maximum tree of count.
    weights.data = 1.0 / weights.data
    tree = minimum_spanning_tree(weights.tocsr())
    n_parts, part = connected_components(tree, directed=False)
    add_ns = np.zeros((len(n_calls), n_slices), dtype=np.int64)
    degree = n_calls.sum(axis=0) + n_calls.sum(axis=1)
    for number in range(n_parts):
        members = np.flatnonzero(part == number)
        anchor = int(members[np.argmax(degree[members])])
        order, above = breadth_first_order(tree, anchor, directed=False)
        for host in order[1:].tolist():
            parent = int(above[host])
            step = theta.get((min(host, parent), max(host, parent)))
            if step is not None:
                add_ns[host] = add_ns[parent] + (step if host > parent else -step)
            else:
                add_ns[host] = add_ns[parent]
    return add_ns


def corrected_offsets(category: StoredCategory, tree: SpanTree | None, clocks: Clocks) -> I8:
    """[nodes, requests] times after correction, relative to the root; the stored array itself if right."""
    if clocks.corrections is None:
        return category.node_ns
    slices = np.searchsorted(clocks.corrections.from_ns, category.start_ns, side="right")
    if tree is None:
        moved = record_shifts(category, clocks.host_code, clocks.corrections.add_ns, slices)
        return category.node_ns + moved if moved.any() else category.node_ns
    hosts = clocks.host_code[category.host[list(tree.start)]]
    shift = _shifts(category.node_ns, tree, hosts, clocks.corrections, slices)
    if not shift.any():
        return category.node_ns
    times = category.node_ns.copy()
    for unit in range(1, tree.n_units):
        times[tree.start[unit]] += shift[unit]
        if tree.end[unit] != tree.start[unit]:
            times[tree.end[unit]] += shift[unit]
    return times


def _shifts(times: I8, tree: SpanTree, hosts: I8, clocks: _Corrections, slices: I8) -> I8:
    """[units, requests] ns to add to a unit's times; the root stands still."""
    shift = np.zeros((tree.n_units, times.shape[1]), dtype=np.int64)
    extra = np.zeros_like(shift)  # by loose calls, handed down to everything below
    base = np.where(hosts[0] < 0, 0, clocks.add_ns[hosts[0], slices])
    for unit in range(1, tree.n_units):
        above = tree.parent[unit]
        known = hosts[unit] >= 0
        by_host = clocks.add_ns[hosts[unit], slices] - base
        extra[unit] = extra[above]
        shift[unit] = np.where(known, by_host + extra[unit], shift[above])
        if not clocks.loose or not tree.is_remote_call(unit):
            continue
        a, b = np.minimum(hosts[above], hosts[unit]), np.maximum(hosts[above], hosts[unit])
        # Where the server's span is the longer one, no shift puts it inside.
        lower = times[tree.start[above]] + shift[above] - times[tree.start[unit]] - shift[unit]
        upper = times[tree.end[above]] + shift[above] - times[tree.end[unit]] - shift[unit]
        step = np.where(lower <= upper, smallest_shift(lower, upper), 0)
        for (low, high), slices_of_pair in clocks.loose.items():
            moved = np.where((a == low) & (b == high) & slices_of_pair[slices], step, 0)
            extra[unit] += moved
            shift[unit] += moved
    return shift
