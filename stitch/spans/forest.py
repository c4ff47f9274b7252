"""Build one tree of spans per flow: resolve parents, cut cycles, attach orphans to other spans, add synthetic
roots.

A span has one parent in the tree: of its declared parents that are present in the trace the one with the
smallest id, `parents` before `follows`. If none is present, the span is an orphan. A child is asynchronous if
its parent is in `follows`, or if it is the CONSUMER of a PRODUCER. In a cycle of parents the earliest span
(start, end, id) loses its parent and becomes a root.

* An orphan (its declared parent is not in the trace) goes below the smallest span of the trace that encloses
  it in time and whose peer is the orphan's component, or which is of that component; of equals the one that
  starts latest, then the smallest id. Only spans that descend from a real root qualify, so that orphans never
  end up below one another. An orphan without both times is not searched for.
* In a trace without a real root and with one orphan, the orphan is the root: the caller of this service
  passed a context on but sent no spans. The flow is complete as far as anyone can see.
* Orphans that found no place become children of a synthetic span `?/missing`: a child of the root, or the
  root itself where the trace has no real one.
* Several real roots become children of a synthetic span `?/root`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.arrays import B1, I8, U4
from schemas.events import EventKind
from schemas.quality import Quality
from stitch.columnar.runs import run_starts, whole
from stitch.graph.placed import MISSING_EVENT, ROOT_EVENT
from stitch.spans.identity import Identified
from stitch.spans.span_columns import UNKNOWN_NS, Spans

_NO_PARENT = -1
_MAX_SEARCHED_ORPHANS = 1000
"""Maximum number of orphans per flow for which an enclosing span is searched; the others become children of
`?/missing`. With 20,000 spans per flow the search compares fewer than 2 * 10^7 pairs."""
_PAIRS_AT_ONCE = 2**21
"""Maximum number of pairs (orphan, candidate) compared in one step: about 100 MB of temporary arrays."""


@dataclass(frozen=True, slots=True)
class Parents:
    """Parents of the spans of a batch after resolving declared parents; rows are in work order
    (`span_columns`)."""

    parent: I8
    """[spans] row of the parent; -1 for roots and orphans."""
    orphan: B1
    """[spans] True if the span declares parents and the trace has no span with such an id."""
    asynchronous: B1
    """[spans] True if the parent does not wait for the span."""
    cut: I8
    """Rows of the spans whose parent was removed to cut a cycle."""


def resolve_parents(identified: Identified, component: I8) -> Parents:
    """Resolve the declared parents of spans. component: [label codes] code of the label's component.
    O(spans)."""
    spans, shared = identified.spans, identified.shared
    references = spans.references
    n = len(spans)
    found = identified.index.find(spans.flow[references.row], references.key)
    if shared is not None:
        found = shared.attach(found, component[spans.label[references.row]])
    row, follows = references.row, references.follows
    if np.bincount(row, minlength=1).max() > 1:
        order = np.lexsort((references.key, follows, found < 0, row))
        row, found, follows = row[order], found[order], follows[order]
        first = run_starts(row)
        row, found, follows = row[first], found[first], follows[first]
    parent = np.full(n, _NO_PARENT, dtype=np.int64)
    parent[row] = found
    orphan = np.zeros(n, dtype=np.bool_)
    orphan[row] = found < 0
    asynchronous = np.zeros(n, dtype=np.bool_)
    if follows.any():
        asynchronous[row] = follows
    if shared is not None:
        inner = np.flatnonzero(shared.owner >= 0)
        parent[inner] = shared.owner[inner]
        orphan[inner] = asynchronous[inner] = False
    consumers = np.flatnonzero((spans.kind == EventKind.SPAN_CONSUMER) & (parent >= 0))
    asynchronous[consumers] |= spans.kind[parent[consumers]] == EventKind.SPAN_PRODUCER
    cut = _cycle_heads(parent)
    parent[cut] = _NO_PARENT
    asynchronous[cut] = False
    return Parents(parent, orphan, asynchronous, cut)


def _cycle_heads(parent: I8) -> I8:
    """Lowest row of every cycle in `parent` [spans] (-1: no parent). O(spans log depth).

    After as many jumps to the parent as there are spans, a row that has not reached a root is on a cycle, and
    every span of a cycle is reached from another span of the same cycle.
    """
    n = len(parent)
    if bool((parent < np.arange(n)).all()):
        return np.zeros(0, np.int64)  # every parent starts first: the usual case
    jump = np.append(np.where(parent < 0, n, parent), n)
    steps = 1
    while steps <= n:
        if bool((jump == n).all()):
            return np.zeros(0, np.int64)
        jump = jump[jump]
        steps *= 2
    on_cycle = np.unique(jump[jump != n])
    if not len(on_cycle):
        return on_cycle
    following = np.searchsorted(on_cycle, parent[on_cycle])
    lowest = np.arange(len(on_cycle))
    steps = 1
    while steps <= len(on_cycle):
        lowest = np.minimum(lowest, lowest[following])
        following = following[following]
        steps *= 2
    heads: I8 = on_cycle[np.unique(lowest)]
    return heads


@dataclass(frozen=True, slots=True)
class Forest:
    """Trees of the spans of a batch, one per flow. Rows: first the spans in work order, then the synthetic
    spans."""

    parent: I8
    """[rows] row of the parent; the number of rows if the row is a root."""
    asynchronous: B1
    """[rows] True if the parent does not wait for the span."""
    synthetic: I8
    """[synthetic rows] event code: ROOT_EVENT or MISSING_EVENT."""
    synthetic_flow: I8
    """[synthetic rows] index of the row's flow."""
    quality: U4
    """[flows] bits of `Quality` found while building the tree: ORPHAN, INCOMPLETE, MULTI_ROOT, CYCLE."""


def _peers(spans: Spans, events: pa.Table) -> I8:
    """[spans] code of the called service among the components of the batch; -1 if it is unknown or the span
    is no call."""
    peers, components = whole(events["peer"]), whole(events["component"])
    found = pc.fill_null(pc.index_in(peers.dictionary, components.dictionary), -1)
    table = np.append(found.to_numpy(zero_copy_only=False).astype(np.int64), -1)
    codes = pc.fill_null(peers.indices, len(table) - 1).to_numpy(zero_copy_only=False)
    result: I8 = table[codes[spans.row]]
    return result


def plant_forest(
    spans: Spans, parents: Parents, events: pa.Table, component_of_label: I8, orphan_share: float
) -> Forest:
    """Build one tree per flow from the resolved parents.

    component_of_label: [label codes] code of the label's component, its index in the dictionary of `events`.
    orphan_share: see `StitchConfig`. O(spans) plus the search for enclosing spans, which is limited.
    """
    n, n_flows = len(spans), spans.n_flows
    quality = np.zeros(n_flows, dtype=np.uint32)
    parent = parents.parent.copy()
    quality[spans.flow[parents.cut]] |= np.uint32(Quality.CYCLE)
    top = parent == _NO_PARENT
    roots = np.flatnonzero(top & ~parents.orphan)
    n_roots = np.bincount(spans.flow[roots], minlength=n_flows)
    orphans = np.flatnonzero(parents.orphan & top)
    if len(orphans):
        n_orphans = np.bincount(spans.flow[orphans], minlength=n_flows)
        n_spans = np.bincount(spans.flow, minlength=n_flows)
        quality[n_orphans > 0] |= np.uint32(Quality.ORPHAN)
        quality[n_orphans > np.maximum(1, orphan_share * n_spans)] |= np.uint32(Quality.INCOMPLETE)
        services = component_of_label[spans.label], _peers(spans, events)
        parent[orphans] = _enclosing(spans, parent, parents.orphan, orphans, *services)
        lone = (n_roots[spans.flow[orphans]] == 0) & (n_orphans[spans.flow[orphans]] == 1)
        roots = np.sort(np.concatenate((roots, orphans[lone])))
        n_roots = np.bincount(spans.flow[roots], minlength=n_flows)
        orphans = orphans[(parent[orphans] == _NO_PARENT) & ~lone]

    rooted = np.flatnonzero(n_roots > 1)
    quality[rooted] |= np.uint32(Quality.MULTI_ROOT)
    missing = np.unique(spans.flow[orphans])
    rows = n + len(rooted) + len(missing)
    flow_root = np.full(n_flows, rows, dtype=np.int64)  # a flow without any root: `?/missing` becomes it
    flow_root[spans.flow[roots]] = roots
    flow_root[rooted] = n + np.arange(len(rooted))
    flow_missing = np.full(n_flows, _NO_PARENT, dtype=np.int64)
    flow_missing[missing] = n + len(rooted) + np.arange(len(missing))
    parent[roots] = np.where(n_roots[spans.flow[roots]] > 1, flow_root[spans.flow[roots]], rows)
    parent[orphans] = flow_missing[spans.flow[orphans]]
    return Forest(
        parent=np.concatenate((parent, np.full(len(rooted), rows), flow_root[missing])),
        # A lone orphan tied by `follows` is a root now, and no root is asynchronous.
        asynchronous=np.append(parents.asynchronous & (parent != rows), np.zeros(rows - n, dtype=np.bool_)),
        synthetic=np.repeat([ROOT_EVENT, MISSING_EVENT], [len(rooted), len(missing)]),
        synthetic_flow=np.concatenate((rooted, missing)),
        quality=quality,
    )


def _enclosing(spans: Spans, parent: I8, is_orphan: B1, orphans: I8, component: I8, peer: I8) -> I8:
    """[orphans] row of the smallest span that encloses the orphan in time and belongs to a matching service;
    -1 if there is none.

    component: [spans] code of the span's service. peer: [spans] code of the service that the span calls.
    """
    result = np.full(len(orphans), _NO_PARENT, dtype=np.int64)
    timed = (spans.start_ns != UNKNOWN_NS) & (spans.end_ns != UNKNOWN_NS)
    with_orphans = np.zeros(spans.n_flows, dtype=np.bool_)
    with_orphans[spans.flow[orphans]] = True
    rows = np.flatnonzero(with_orphans[spans.flow])
    candidates = rows[_descends_from_root(rows, parent, is_orphan) & timed[rows]]
    counts = np.bincount(spans.flow[candidates], minlength=spans.n_flows)
    first = np.cumsum(counts) - counts
    flow = spans.flow[orphans]
    of_flow = np.bincount(flow, minlength=spans.n_flows)
    rank = np.arange(len(orphans)) - (np.cumsum(of_flow) - of_flow)[flow]
    searched = np.flatnonzero(timed[orphans] & (rank < _MAX_SEARCHED_ORPHANS))
    pairs_before = np.cumsum(counts[flow[searched]])
    step = pairs_before // _PAIRS_AT_ONCE
    for part in np.split(searched, np.flatnonzero(np.diff(step)) + 1):
        n_pairs = counts[flow[part]]
        asking = np.repeat(part, n_pairs)
        place = np.arange(len(asking)) - np.repeat(np.cumsum(n_pairs) - n_pairs, n_pairs)
        candidate = candidates[first[flow[asking]] + place]
        orphan = orphans[asking]
        fits = (
            (spans.start_ns[candidate] <= spans.start_ns[orphan])
            & (spans.end_ns[candidate] >= spans.end_ns[orphan])
            & ((component[candidate] == component[orphan]) | (peer[candidate] == component[orphan]))
        )
        asking, candidate = asking[fits], candidate[fits]
        start = spans.start_ns[candidate]
        order = np.lexsort((candidate, -start, spans.end_ns[candidate] - start, asking))
        asking, candidate = asking[order], candidate[order]
        best = run_starts(asking)
        result[asking[best]] = candidate[best]
    return result


def _descends_from_root(rows: I8, parent: I8, is_orphan: B1) -> B1:
    """[rows] True if the row's topmost ancestor is a real root and no orphan. rows: all spans of some flows,
    ascending."""
    above = parent[rows]
    jump = np.where(above < 0, np.arange(len(rows)), np.searchsorted(rows, above))
    while True:
        further = jump[jump]
        if np.array_equal(further, jump):
            break
        jump = further
    result: B1 = ~is_orphan[rows[jump]]
    return result
