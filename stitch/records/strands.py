"""Read the records of a batch as numpy columns, and sort them onto their strands, without copies.

A strand consists of the records of one request with one breadcrumb, sorted by (`seq`, `ts_ns`) if all have
`seq`, else by `ts_ns`; remaining ties are sorted by a hash of the content, so arrival order never matters. A
record without a breadcrumb is a strand by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.arrays import B1, I8, U1, U8
from stitch.columnar.hashing import hash_rows
from stitch.columnar.runs import (
    distinct,
    group_stably,
    in_long_runs,
    inverse,
    no_rows,
    offsets,
    run_starts,
    whole,
)
from stitch.graph.placed import LabelCodes
from stitch.records.components import assign_requests, flat_list, split_and_join_links

NO_CODE = -1
"""Code that stands for a null breadcrumb or id."""


@dataclass(frozen=True, slots=True)
class RecordReferences:
    """References from records to breadcrumbs (links) or to ids (parents): one row per reference, in the order
    of records."""

    record: I8
    """[references] index of the referring record."""
    code: I8
    """[references] code of the breadcrumb or id to which the record refers."""


@dataclass(frozen=True, slots=True)
class Records:
    """Activity records as numpy columns [records], in the order of the event batch; codes are local to the
    batch."""

    events: pa.Table
    """Event batch from which the records were read."""
    flow: I8
    """[records] code of the record's request."""
    request_names: pa.StringArray
    """[request codes] request id for each code."""
    kind: U1
    ts_ns: I8
    seq: I8
    """[records] field `seq` of the record, 0 if null."""
    has_seq: B1
    """[records] True if `seq` is set."""
    crumb: I8
    """[records] code of the record's breadcrumb; NO_CODE if it has none."""
    n_crumbs: int
    links: RecordReferences
    """References from split and join records to the breadcrumbs that they name."""
    identity: I8
    """[records] code of the record's explicit id; NO_CODE if it has none."""
    n_ids: int
    parents: RecordReferences
    """References from records to the ids of their explicit parents."""
    label: U8
    """[records] hash of component, point, label and kind."""

    def host_codes(self, records: I8) -> I8:
        """[given records] code of the host of each of `records`; all null hosts have the same code."""
        hosts = whole(self.events["host"]).take(pa.array(records))
        codes: I8 = pc.fill_null(hosts.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        return codes


def read_records(events: pa.Table, labels: LabelCodes) -> Records:
    """Read a batch of activity records that have times (each column in one chunk) into numpy columns.
    O(records)."""
    requests = assign_requests(events)
    link_record, link = split_and_join_links(events)
    crumb, link_code, n_crumbs = _encode(whole(events["breadcrumb"]), link)
    parent_record, parent = flat_list(whole(events["parents"]))
    identity, parent_code, n_ids = _encode(whole(events["id"]), parent)
    seq = whole(events["seq"])
    return Records(
        events=events,
        flow=requests.code,
        request_names=requests.names,
        kind=events["kind"].to_numpy(),
        ts_ns=events["ts_ns"].to_numpy(),
        seq=pc.fill_null(seq, 0).to_numpy(zero_copy_only=False),
        has_seq=seq.is_valid().to_numpy(zero_copy_only=False),
        crumb=crumb,
        n_crumbs=n_crumbs,
        links=RecordReferences(link_record, link_code),
        identity=identity,
        n_ids=n_ids,
        parents=RecordReferences(parent_record, parent_code),
        label=labels.hashes[labels.code],
    )


def _encode(words: pa.StringArray, named: pa.StringArray) -> tuple[I8, I8, int]:
    """Encode two columns by the same codes: `([words] codes, [named] codes, number of codes)`."""
    together = pa.concat_arrays([words, named]) if len(named) else words
    encoded = together.dictionary_encode()
    indices = pc.fill_null(encoded.indices, NO_CODE) if encoded.null_count else encoded.indices
    codes = indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes[: len(words)], codes[len(words) :], len(encoded.dictionary)


@dataclass(frozen=True, slots=True)
class Strands:
    """Strands of a batch, sorted by (flow, breadcrumb code), each with its records in order."""

    record: I8
    """[nodes] index of the node's record."""
    first: I8
    """[strands + 1] index of each strand's first node; last, the number of nodes."""
    flow: I8
    """[strands] code of the strand's request."""
    crumb: I8
    """[strands] code of the strand's breadcrumb; NO_CODE for a record without one."""
    mixed_seq: I8
    """Codes of requests with a strand on which some records have `seq` and others do not."""
    conflicting: I8
    """Codes of requests in which records with the same id differ in content."""
    conflicts: I8
    """Indices of records that were dropped because another record with the same id and different content was
    kept."""
    copies: I8
    """Indices of records that were dropped as exact copies of a record that was kept."""
    capped: I8
    """Codes of requests with more than `max_events` records, the last of which were dropped."""

    @property
    def length(self) -> I8:
        """[strands] number of records on the strand."""
        return np.diff(self.first)

    @property
    def node_strand(self) -> I8:
        """[nodes] index of the node's strand."""
        return np.repeat(np.arange(len(self.flow), dtype=np.int64), self.length)


def order_strands(records: Records, max_events: int) -> Strands:
    """Sort the records of a batch onto strands.

    Exact copies are dropped. If records of a request have the same id and different contents, the earliest is
    kept; among equal times the one with most parents, as the others may have lost edges; then the one with
    the smallest content hash. After that only the first `max_events` records of each request are kept, in
    order of (time, content hash). Whether all records of a strand have `seq` is decided before that.
    O(records), plus a sort of strands that did not arrive in order.
    """
    kept, conflicts, repeated = _one_per_id(records)
    strand, strand_flow, strand_crumb = _number_strands(records, kept)
    order, _ = group_stably(strand, len(strand_flow))
    value, mixed = _order_values(records, kept, strand, len(strand_flow))
    strand = strand[order]
    order, starts = _sort_within(order, strand, value)
    nodes = kept[order]
    nodes, strand, copies = _sort_equal(records, nodes, strand, starts)
    nodes, strand, capped = _cap(records, nodes, strand, max_events)
    # Each record without a breadcrumb begins a strand.
    begin = np.flatnonzero(run_starts(strand) | (records.crumb[nodes] == NO_CODE))
    return Strands(
        record=nodes,
        first=np.append(begin, len(nodes)),
        flow=strand_flow[strand[begin]],
        crumb=strand_crumb[strand[begin]],
        # Records without a breadcrumb share a number here but no strand: on one of its own nothing is mixed.
        mixed_seq=distinct(strand_flow[mixed[strand_crumb[mixed] != NO_CODE]]),
        conflicting=distinct(records.flow[conflicts]),
        conflicts=conflicts,
        copies=np.concatenate((repeated, copies)),
        capped=capped,
    )


def _one_per_id(records: Records) -> tuple[I8, I8, I8]:
    """Keep one record per id and request: indices of records `(kept, conflicts, exact copies)`."""
    every = np.arange(len(records.flow), dtype=np.int64)
    named = np.flatnonzero(records.identity != NO_CODE)
    key = records.flow[named] * records.n_ids + records.identity[named]
    by_key = np.argsort(key, kind="stable")
    named, key = named[by_key], key[by_key]
    again = in_long_runs(run_starts(key))
    if not again.any():
        return every, no_rows(), no_rows()
    named, key = named[again], key[again]
    content = hash_rows(records.events.take(pa.array(named)))
    n_parents = np.bincount(records.parents.record, minlength=len(every))[named]
    best_first = np.lexsort((content, -n_parents, records.ts_ns[named], key))
    named, key, content = named[best_first], key[best_first], content[best_first]
    new_key, new_content = run_starts(key), run_starts(key, content)
    lost = named[new_content & ~new_key]
    keep = np.ones(len(every), dtype=np.bool_)
    keep[named[~new_key]] = False
    return np.flatnonzero(keep), np.sort(lost), named[~new_content]


def _number_strands(records: Records, kept: I8) -> tuple[I8, I8, I8]:
    """Number strands by (flow, breadcrumb): `([kept] strand, [strands] flow, [strands] breadcrumb code)`.

    Here all records of a flow without a breadcrumb still share one number, so that copies become adjacent.
    """
    width = records.n_crumbs + 1
    key = pa.array(records.flow[kept] * width + (records.crumb[kept] - NO_CODE)).dictionary_encode()
    distinct = key.dictionary.to_numpy()
    by_key = np.argsort(distinct)
    strand_flow, strand_crumb = np.divmod(distinct[by_key], width)
    return inverse(by_key)[key.indices.to_numpy()], strand_flow, strand_crumb + NO_CODE


def _order_values(records: Records, kept: I8, strand: I8, n_strands: int) -> tuple[I8, I8]:
    """`([kept] sort key of each record on its strand, strands on which only some records have `seq`)`."""
    n_records = np.bincount(strand, minlength=n_strands)
    n_with = np.bincount(strand[records.has_seq[kept]], minlength=n_strands)
    value = np.where((n_with == n_records)[strand], records.seq[kept], records.ts_ns[kept])
    return value, np.flatnonzero((n_with > 0) & (n_with < n_records))


def _sort_within(order: I8, strand: I8, value: I8) -> tuple[I8, B1]:
    """Sort `order`, which is grouped by `strand`, by (strand, value): `(order, True at starts of runs of
    equal keys)`."""
    sorted_value = value[order]
    backward = np.flatnonzero((strand[1:] == strand[:-1]) & (sorted_value[1:] < sorted_value[:-1]))
    if len(backward):
        # Records of most strands arrive in order; only the others are sorted.
        marked = np.zeros(int(strand[-1]) + 1, dtype=np.bool_)
        marked[strand[backward]] = True
        places = np.flatnonzero(marked[strand])
        some = order[places]
        order[places] = some[np.lexsort((value[some], strand[places]))]
        sorted_value = value[order]
    return order, run_starts(strand, sorted_value)


def _sort_equal(records: Records, nodes: I8, strand: I8, starts: B1) -> tuple[I8, I8, I8]:
    """Sort records that are still tied by time, then by a hash of their content, and drop exact copies.

    starts: [nodes] True for the first record of each group of ties. Returns (nodes, strand, dropped copies).
    """
    if starts.all():
        return nodes, strand, no_rows()
    run = np.cumsum(starts)
    places = np.flatnonzero(in_long_runs(starts))
    some = nodes[places]
    content = hash_rows(records.events.take(pa.array(some)))
    by = np.lexsort((content, records.ts_ns[some], run[places]))
    nodes = nodes.copy()
    nodes[places] = some[by]
    content, run = content[by], run[places]
    drop = places[~run_starts(run, content)]
    return np.delete(nodes, drop), np.delete(strand, drop), nodes[drop]


def _cap(records: Records, nodes: I8, strand: I8, max_events: int) -> tuple[I8, I8, I8]:
    """Keep the first `max_events` records of each request: `(nodes, strand, codes of requests with more)`."""
    flow = records.flow[nodes]
    over = np.bincount(flow) > max_events
    if not over.any():
        return nodes, strand, no_rows()
    places = np.flatnonzero(over[flow])
    some = nodes[places]
    times = records.ts_ns[some]
    by_time = np.lexsort((times, flow[places]))
    first = offsets(np.bincount(flow[places]))
    # The hash is needed only where the cap cuts between records of one time.
    last_time = np.zeros(len(first) - 1, dtype=np.int64)
    capped = np.flatnonzero(over)
    last_time[capped] = times[by_time[first[capped] + max_events - 1]]
    edge = times == last_time[flow[places]]
    content = np.zeros(len(places), dtype=np.uint64)
    content[edge] = hash_rows(records.events.take(pa.array(some[edge])))
    by = np.lexsort((content, times, flow[places]))
    rank = np.arange(len(by)) - first[flow[places]]
    keep = np.ones(len(nodes), dtype=np.bool_)
    keep[places[by[rank >= max_events]]] = False
    return nodes[keep], strand[keep], capped
