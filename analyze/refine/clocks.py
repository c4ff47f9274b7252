"""Correct clock skew between hosts, from both sides of remote calls or of round trips.

The server's span cannot start before the client's span nor end after it, so every such pair on two hosts
bounds the correction of the server's clock: `client start - server start <= correction <= client end - server
end`. Other children give no bound: a child that ends after its parent may be asynchronous. Times on one host
are never moved against each other.

Activity records have no client span around them, but their order is explicit. An edge from a record on host a
to a record on host b bounds the correction of b's clock against a's from below, an edge from b to a from
above. A request that goes there and back bounds the correction from both sides, like a remote call of spans.

Each remote call gives `lower <= correction <= upper`. Network time only moves the two bounds apart, so
whatever the network does, the intervals of one clock have a point in common. Hence the rules:

* If 0 lies within the bounds, nothing is corrected. Otherwise the correction nearest to 0 within the bounds
  is used: the rest of the interval is network time, and is not split between the two directions by guessing.
* If one correction fits all samples, it is used for all. If none fits throughout, but one fits before and
  another fits after some moment, no network delay can explain it: the clock was set then (a *step*).
* If that does not fit either (a *drift*), every minute is fitted separately. Minutes without a fit are
  *loose*: each call is corrected separately, by the smallest shift that moves it into its client's span.

"Fits" means that at most one call in `_ONE_IN` contradicts, among all calls and also in every single sample
with enough calls (otherwise a short problem period would vanish in a long reference).

Example, in ms: the server's clock is 2 ahead, a call spends 0.5 on either leg, so the correction lies in
[-2.5, -1.5] and is -1.5. A release adds 500 to the first leg: [-502.5, -1.5], still -1.5, and the 500 stay
where they were spent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from analyze.cache_blocks import FEW_CELLS, blocks
from analyze.population import ClockMove
from analyze.refine.consensus import disordered
from analyze.refine.settings import RefineSettings
from analyze.refine.span_trees import SpanTrees
from analyze.refine.stored import FlowMatrices, StoredCategory
from schemas.arrays import B1, I8, U1
from schemas.periods import format_instant
from schemas.windows import NS_PER_MINUTE, NS_PER_SECOND

_Pair = tuple[int, int]
_MAX_NOTES = 5
_ONE_IN = 20
"""A fit may be contradicted by one call in this many (20: 5 % of the calls)."""
_BLOCKS = 64
"""Maximum number of blocks that the calls are cut into to find a clock's steps; the exact call is found
after that."""
_MAX_STEPS = 3
"""Maximum number of steps of a clock; a clock that needs more counts as drifting."""
NOT_BOUNDED = np.int64(1) << 61
"""Placeholder for a missing bound, ns: larger than any time, and small enough not to overflow in sums."""


@dataclass(frozen=True, slots=True)
class _Corrections:
    """Corrections to add to each host's times, ns, constant within each slice of time."""

    host_code: I8
    """int64[hosts + 1]: host number in `add_ns` by host code of `StoredCategory.host`; -1 for unknown hosts
    and for the rarest ones beyond `max_skew_hosts`."""
    from_ns: I8
    """int64[slices - 1]: start of each slice but the first, Unix ns, ascending; the first has no start."""
    add_ns: I8
    """int64[hosts, slices]: ns to add to the host's times."""
    loose: dict[_Pair, B1]
    """Mapping (host a, host b), a < b -> bool[slices]: True if the pair has no fitted correction in that
    slice, so that each call between them is corrected separately."""


class Clocks(NamedTuple):
    """Clock corrections of all hosts, for all samples."""

    corrections: _Corrections | None = None
    """Corrections of all hosts; None: no clock needs a correction."""
    notes: tuple[str, ...] = ()
    moves: tuple[ClockMove, ...] = ()
    """Pairs of hosts whose clock offset changed over time."""


def estimate_clocks(
    flows: FlowMatrices, trees: SpanTrees, settings: RefineSettings, n_compared: int
) -> Clocks:
    """Estimate the clock correction of every host.

    trees: of the structures of `flows.categories`. A pair of hosts with fewer than `min_traces` remote calls
    gets no correction; each of its calls that contradicts is corrected separately. `notes` and `moves` of the
    result cover pairs that call each other in the first `n_compared` samples. O(spans); a second pass over
    the data runs only if the calls of some pair of hosts contradict equal clocks.
    """
    if not settings.correct_skew or not _any_backwards(flows, trees):
        return Clocks()
    host_code = _frequent_hosts(flows, trees, settings.max_skew_hosts)
    n_hosts = int(host_code.max(initial=-1)) + 1
    if n_hosts < 2:
        return Clocks()
    n_pairs = n_hosts * n_hosts
    calls, above, below = np.zeros((3, flows.n_samples * n_pairs), dtype=np.int64)
    for bounds in _bounds(flows, trees, host_code, n_hosts):
        code = bounds["pair"] + bounds["sample"].astype(np.int64) * n_pairs
        calls += np.bincount(code, minlength=len(calls))
        above += np.bincount(code[bounds["lower"] > 0], minlength=len(calls))
        below += np.bincount(code[bounds["upper"] < 0], minlength=len(calls))
    contradicted = np.maximum(above, below) * _ONE_IN > calls
    suspect: B1 = np.logical_or.reduce(contradicted.reshape(-1, n_pairs), axis=0)
    if not suspect.any():
        return Clocks()
    suspected = np.concatenate(
        [part[suspect[part["pair"]]] for part in _bounds(flows, trees, host_code, n_hosts)]
    )
    suspected = suspected[np.argsort(suspected["pair"], kind="stable")]
    pairs, first = np.unique(suspected["pair"], return_index=True)
    fitted = {
        divmod(pair, n_hosts): fit_clock(calls_of_pair, settings.min_traces)
        for pair, calls_of_pair in zip(pairs.tolist(), np.split(suspected, first[1:]), strict=True)
    }
    n_calls = calls.reshape(-1, n_hosts, n_hosts).sum(axis=0)
    hosts = {int(code): name for code, name in zip(host_code[:-1], flows.hosts, strict=True) if code >= 0}
    linked: B1 = np.logical_or.reduce(calls.reshape(-1, n_hosts, n_hosts)[:n_compared] > 0, axis=0)
    compared = {pair: clock for pair, clock in fitted.items() if linked[pair]}
    moves = tuple(
        ClockMove(hosts[a], hosts[b], by_ns)
        for (a, b), clock in compared.items()
        if (by_ns := _moved(clock)) != 0
    )
    return Clocks(_solve(fitted, n_calls, host_code), _notes(compared, hosts), moves)


def _any_backwards(flows: FlowMatrices, trees: SpanTrees) -> bool:
    """True if an edge between activity records, or a leg of a remote call, has a negative duration in any
    request. Otherwise no call contradicts equal clocks, whatever its hosts are. O(spans)."""
    called = np.flatnonzero(trees.is_remote_call)
    above, nodes = trees.parent[called], trees.nodes
    edge = np.flatnonzero(~nodes.of_spans[nodes.structure[nodes.src]])
    of_edge = nodes.structure[nodes.src[edge]]
    src, dst = (nodes.column[of[edge]] for of in (nodes.src, nodes.dst))
    structure = np.concatenate((trees.structure[called], trees.structure[called], of_edge))
    order = np.argsort(structure, kind="stable")
    earlier = np.concatenate((trees.start[above], trees.end[called], src))[order]
    later = np.concatenate((trees.start[called], trees.end[above], dst))[order]
    return bool(disordered(flows.categories, structure[order], earlier, later).any())


def _moved(clock: PairClock) -> int | None:
    """Largest minus smallest correction over time, ns; 0: constant; None: unknown (parts without a fit)."""
    return None if any(clock.loose) else max(clock.add_ns) - min(clock.add_ns)


def _frequent_hosts(flows: FlowMatrices, trees: SpanTrees, max_hosts: int) -> I8:
    counts = np.zeros(len(flows.hosts) + 1, dtype=np.int64)
    for number, category in enumerate(flows.categories):
        nodes = trees.start[trees.units(number)] if category.has_spans else slice(None)
        codes = category.host[nodes].reshape(-1)
        counts += np.bincount(np.where(codes < 0, len(flows.hosts), codes), minlength=len(counts))
    host_code = np.full(len(counts), -1, dtype=np.int64)
    chosen = np.argsort(-counts[:-1], kind="stable")[:max_hosts]
    chosen = np.sort(chosen[counts[chosen] > 0])
    host_code[chosen] = np.arange(len(chosen))
    return host_code


def _bounds(flows: FlowMatrices, trees: SpanTrees, host_code: I8, n_hosts: int) -> Iterator[Bounds]:
    """Yield arrays of BOUNDS for all remote calls between different hosts, block of requests by block.

    host_code: as `_Corrections.host_code`."""
    for number, category in enumerate(flows.categories):
        if not category.has_spans:
            yield from record_bounds(category, host_code, n_hosts)
            continue
        mine = trees.units(number)
        units = np.flatnonzero(trees.is_remote_call[mine])
        if not len(units):
            continue
        above = trees.parent[mine][units] - mine.start
        start, end = trees.start[mine], trees.end[mine]
        for rows in blocks(category.n_requests, len(start), FEW_CELLS):
            hosts = host_code[category.host[start, rows]]
            a, b = hosts[above], hosts[units]
            apart = (a != b) & (a >= 0) & (b >= 0)
            if not apart.any():
                continue
            starts = category.node_ns[start, rows]
            ends = category.node_ns[end, rows]
            lower = starts[above] - starts[units]
            upper = ends[above] - ends[units]
            # A server span longer than its client's fits by no correction: it went on after the reply.
            apart &= lower <= upper
            request = np.nonzero(apart)[1]
            a, b, lower, upper = a[apart], b[apart], lower[apart], upper[apart]
            # Seen from the other host of the pair, a correction has the other sign.
            swap = a > b
            yield bounds_of(
                np.where(swap, b * n_hosts + a, a * n_hosts + b),
                category.sample[rows][request],
                category.start_ns[rows][request],
                np.where(swap, -upper, lower),
                np.where(swap, -lower, upper),
            )


def _notes(fitted: dict[_Pair, PairClock], names: dict[int, str]) -> tuple[str, ...]:
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
    if len(clock.add_ns) > _MAX_STEPS + 1:
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


def _solve(fitted: dict[_Pair, PairClock], n_calls: I8, host_code: I8) -> _Corrections | None:
    """Combine the corrections of pairs into corrections of hosts; None if nothing is to be corrected.

    Time is cut into slices at the steps of all pairs. n_calls: int64[hosts, hosts], remote calls by pair.
    host_code: as `_Corrections.host_code`."""
    from_ns = np.unique(np.array([at for clock in fitted.values() for at in clock.from_ns], dtype=np.int64))
    # The first slice has no beginning; any moment before the others will do.
    begin_ns = np.concatenate((from_ns[:1] - 1, from_ns)) if len(from_ns) else np.zeros(1, dtype=np.int64)
    theta, loose = {}, {}
    for pair, clock in fitted.items():
        piece = np.searchsorted(np.array(clock.from_ns, dtype=np.int64), begin_ns, side="right")
        theta[pair] = np.array(clock.add_ns, dtype=np.int64)[piece]
        if any(clock.loose):
            loose[pair] = np.array(clock.loose)[piece]
    add_ns = _along_tree(theta, n_calls, len(begin_ns))
    return _Corrections(host_code, from_ns, add_ns, loose) if loose or add_ns.any() else None


def _along_tree(theta: dict[_Pair, I8], n_calls: I8, n_slices: int) -> I8:
    """int64[hosts, slices]: corrections, ns, added up along the maximum spanning tree of the call counts.

    The tree grows by the pair with the most calls to a host outside (Prim 1957). theta: (host a, host b), a <
    b -> int64[slices], correction of b against a. n_calls: int64[hosts, hosts] number of remote calls by
    pair. In each connected part the host with the most calls is not corrected."""
    calls = n_calls + n_calls.T
    add_ns = np.zeros((len(calls), n_slices), dtype=np.int64)
    reached = np.zeros(len(calls), dtype=np.bool_)
    for anchor in np.argsort(-calls.sum(axis=0), kind="stable").tolist():
        nearest = [(0, anchor, anchor)]  # (negative number of calls, host, its parent)
        while nearest:
            _, host, parent = heappop(nearest)
            if reached[host]:
                continue
            reached[host] = True
            step = theta.get((min(host, parent), max(host, parent)), np.int64(0))
            add_ns[host] = add_ns[parent] + (step if host > parent else -step)
            for other in np.flatnonzero((calls[host] > 0) & ~reached).tolist():
                heappush(nearest, (-int(calls[host, other]), other, host))
    return add_ns


def corrected(flows: FlowMatrices, trees: SpanTrees, clocks: Clocks) -> FlowMatrices:
    """Correct `node_ns` of all categories for clock skew, and set `shift` where anything is corrected. trees:
    those of `flows.categories`."""
    if clocks.corrections is None:
        return flows
    categories = (
        _corrected(number, one, trees, clocks.corrections) for number, one in enumerate(flows.categories)
    )
    return replace(flows, categories=tuple(categories))


def _corrected(
    number: int, category: StoredCategory, trees: SpanTrees, corrections: _Corrections
) -> StoredCategory:
    slices = np.searchsorted(corrections.from_ns, category.start_ns, side="right")
    if not category.has_spans:
        shift = _record_shifts(category, corrections, slices)
    else:
        units = trees.units(number)
        hosts = corrections.host_code[category.host[trees.start[units]]]
        of_unit = _shifts(category.node_ns, trees, units, hosts, corrections, slices)
        shift = np.zeros_like(category.node_ns)
        shift[trees.start[units]] = of_unit
        shift[trees.end[units]] = of_unit
    return replace(category, node_ns=category.node_ns + shift, shift=shift) if shift.any() else category


def _shifts(times: I8, trees: SpanTrees, units: slice, hosts: I8, clocks: _Corrections, slices: I8) -> I8:
    """int64[units, requests]: ns to add to a unit's times; 0 for the root.

    times: int64[stored nodes, requests], ns. units: range of the structure's units. hosts: [units, requests]
    host numbers, -1 unknown. slices: int64[requests], slice of time of each request."""
    start, end = trees.start[units].tolist(), trees.end[units].tolist()
    parent, remote = (trees.parent[units] - units.start).tolist(), trees.is_remote_call[units].tolist()
    shift = np.zeros((len(start), times.shape[1]), dtype=np.int64)
    extra = np.zeros_like(shift)  # by loose calls, handed down to everything below
    base = np.where(hosts[0] < 0, 0, clocks.add_ns[hosts[0], slices])
    for unit, above in enumerate(parent[1:], start=1):
        known = hosts[unit] >= 0
        by_host = clocks.add_ns[hosts[unit], slices] - base
        extra[unit] = extra[above]
        shift[unit] = np.where(known, by_host + extra[unit], shift[above])
        if not clocks.loose or not remote[unit]:
            continue
        a, b = np.minimum(hosts[above], hosts[unit]), np.maximum(hosts[above], hosts[unit])
        # Where the server's span is the longer one, no shift puts it inside.
        lower = times[start[above]] + shift[above] - times[start[unit]] - shift[unit]
        upper = times[end[above]] + shift[above] - times[end[unit]] - shift[unit]
        step = np.where(lower <= upper, np.clip(0, lower, upper), 0)
        for (low, high), slices_of_pair in clocks.loose.items():
            moved = np.where((a == low) & (b == high) & slices_of_pair[slices], step, 0)
            extra[unit] += moved
            shift[unit] += moved
    return shift


BOUNDS: Final = np.dtype(
    [
        ("pair", np.int64),
        ("sample", np.uint8),
        ("start_ns", np.int64),
        ("lower", np.int64),
        ("upper", np.int64),
    ],
    align=True,
)
"""Record dtype, one record per remote call between hosts a < b: `lower` and `upper` bound of the correction
of b's clock against a's, ns; `pair` is a * hosts + b; `start_ns` is the request's start, Unix ns."""
Bounds = npt.NDArray[np.void]
"""Array of dtype BOUNDS: one record per remote call."""


def bounds_of(pair: I8, sample: U1, start_ns: I8, lower: I8, upper: I8) -> Bounds:
    """Assemble an array of dtype BOUNDS from its columns, all [calls]."""
    bounds = np.empty(len(lower), dtype=BOUNDS)
    bounds["pair"], bounds["sample"], bounds["start_ns"] = pair, sample, start_ns
    bounds["lower"], bounds["upper"] = lower, upper
    return bounds


@dataclass(frozen=True, slots=True)
class PairClock:
    """Correction of host b's clock against host a's, constant within each piece of time."""

    from_ns: tuple[int, ...]
    """[pieces - 1]: start of each piece but the first, Unix ns, ascending; the first has no start."""
    add_ns: tuple[int, ...]
    """[pieces]: ns to add to b's times; 0 in pieces without a fit."""
    loose: tuple[bool, ...]
    """[pieces]: True if no correction fits the piece, so that each call is corrected separately."""


def fit_clock(bounds: Bounds, min_calls: int) -> PairClock:
    """Fit the correction of one pair of hosts to their calls: constant, else with steps, else by minute.

    Fewer than `min_calls` calls get no correction. O(calls log calls)."""
    one = _correction(bounds, min_calls)
    if one is not None:
        return PairClock((), (one,), (False,))
    if len(bounds) < min_calls:
        return PairClock((), (0,), (True,))
    bounds = bounds[np.lexsort((bounds["sample"], bounds["start_ns"]))]
    return _steps(bounds, min_calls) or _minutes(bounds, min_calls)


def _correction(bounds: Bounds, min_calls: int) -> int | None:
    """Correction nearest to 0, ns, that fits; None if none fits, or for fewer than `min_calls` calls."""
    if len(bounds) < min_calls:
        return None
    intervals = [_interval(bounds["lower"], bounds["upper"])]
    for sample in np.flatnonzero(np.bincount(bounds["sample"]) >= min_calls).tolist():
        mine = bounds["sample"] == sample
        intervals.append(_interval(bounds["lower"][mine], bounds["upper"][mine]))
    lo, hi = max(lo for lo, _ in intervals), min(hi for _, hi in intervals)
    return min(max(lo, 0), hi) if lo <= hi else None


def _interval(lower: I8, upper: I8) -> tuple[int, int]:
    """(lo, hi), ns: a correction below lo or above hi contradicts more than one call in `_ONE_IN`.

    lower, upper: int64[calls], bounds of the correction given by each call."""
    spare = len(lower) // _ONE_IN
    last = len(lower) - 1 - spare
    return int(np.partition(lower, last)[last]), int(np.partition(upper, spare)[spare])


def _steps(bounds: Bounds, min_calls: int) -> PairClock | None:
    """Divide time into pieces with one correction each; None if that takes more than `_MAX_STEPS` steps.

    bounds: ascending by `start_ns`. Each piece is extended block by block while one correction fits it; then
    the step is placed between the two calls that minimize the number of contradictions on both sides.
    """
    n_blocks = min(_BLOCKS, len(bounds) // min_calls)
    _, first_of_sample = np.unique(bounds["sample"], return_index=True)
    edges = np.unique(
        np.concatenate((np.linspace(0, len(bounds), n_blocks + 1).astype(int), first_of_sample))
    )
    begins, corrections = [0], [0]
    fits = False
    for begin, end in pairwise(edges.tolist()):
        longer = _correction(bounds[begins[-1] : end], min_calls)
        if longer is None and fits:
            if len(begins) > _MAX_STEPS:
                return None
            begins.append(begin)
            corrections.append(0)
            longer = _correction(bounds[begin:end], min_calls)
        # A piece may begin with blocks that are too short to say anything.
        fits = longer is not None
        if longer is not None:
            corrections[-1] = longer
        elif end - begins[-1] >= min_calls:
            return None
    if not fits:
        return None
    cuts = [0]
    for at, (before, after) in enumerate(pairwise(corrections), start=1):
        end = begins[at + 1] if at + 1 < len(begins) else len(bounds)
        cuts.append(_cut(bounds, cuts[-1], end, before, after))
    return PairClock(
        tuple(bounds["start_ns"][cuts[1:]].tolist()), tuple(corrections), (False,) * len(corrections)
    )


def _cut(bounds: Bounds, begin: int, end: int, before: int, after: int) -> int:
    """Index in [begin, end) of the first call to which correction `after` applies instead of `before`, chosen
    so that the fewest calls contradict. before, after: ns."""
    lower, upper = bounds["lower"][begin:end], bounds["upper"][begin:end]
    against_before = (lower > before) | (upper < before)
    against_after = (lower > after) | (upper < after)
    # The contradictions of a cut at call i, but for a constant: those of `before` up to i, less `after`'s.
    gain = np.cumsum(against_before.astype(np.int64) - against_after)
    return begin + 1 + int(np.argmin(gain[:-1]))


def _minutes(bounds: Bounds, min_calls: int) -> PairClock:
    """Fit a correction to each minute separately; `loose` for minutes with too few calls or no fit."""
    minutes, first = np.unique(bounds["start_ns"] // NS_PER_MINUTE, return_index=True)
    pieces = [
        _correction(bounds[begin:end], min_calls) for begin, end in pairwise([*first.tolist(), len(bounds)])
    ]
    return PairClock(
        tuple((minutes[1:] * NS_PER_MINUTE).tolist()),
        tuple(0 if found is None else found for found in pieces),
        tuple(found is None for found in pieces),
    )


def record_bounds(category: StoredCategory, host_code: I8, n_hosts: int) -> Iterator[Bounds]:
    """Yield bounds given by activity records, one per request and pair of hosts a < b. O(nodes · requests).

    Requests without edges in both directions give none. host_code: as `_Corrections.host_code`.
    """
    src, dst = np.array(category.structure.edges, dtype=np.int64).reshape(-1, 2).T
    for rows in blocks(category.n_requests, len(src), FEW_CELLS):
        n = rows.stop - rows.start
        hosts = host_code[category.host[:, rows]]
        one, other = hosts[src], hosts[dst]
        edge, row = np.nonzero((one != other) & (one >= 0) & (other >= 0))
        if not len(edge):
            continue
        one, other = one[edge, row], other[edge, row]
        gap = category.node_ns[src[edge], row + rows.start] - category.node_ns[dst[edge], row + rows.start]
        pair = np.minimum(one, other) * n_hosts + np.maximum(one, other)
        found, group = np.unique(pair * n + row, return_inverse=True)
        lower, upper = np.full(len(found), -NOT_BOUNDED), np.full(len(found), NOT_BOUNDED)
        forth = one < other
        np.maximum.at(lower, group[forth], gap[forth])
        np.minimum.at(upper, group[~forth], -gap[~forth])
        # Both legs, and room between them: else no correction fits, and the request says nothing.
        fits = (lower > -NOT_BOUNDED) & (upper < NOT_BOUNDED) & (lower <= upper)
        pair, row = np.divmod(found[fits], n)
        sample, start_ns = category.sample[rows][row], category.start_ns[rows][row]
        yield bounds_of(pair, sample, start_ns, lower[fits], upper[fits])


def _record_shifts(category: StoredCategory, corrections: _Corrections, slices: I8) -> I8:
    """int64[nodes, requests]: ns to add to the times of activity records; 0 for the first record. slices:
    int64[requests], slice of time of each request."""
    hosts = corrections.host_code[category.host]
    added = np.where(hosts >= 0, corrections.add_ns[hosts, slices], 0)
    # A record of an unknown host moves with what it follows.
    for src, dst in category.structure.edges:
        added[dst] = np.where(hosts[dst] < 0, added[src], added[dst])
    shift: I8 = added - added[0]
    return shift
