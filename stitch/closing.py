"""Decide which requests are complete, so that their windows need not wait for more events.

A request is complete if everything that its events refer to is present.

Spans: the request has a root (a span without declared parents), and every declared parent is present; every
span has a start and an end, possibly from another report with the same id; and every PRODUCER is the declared
parent of a CONSUMER, so every message sent was received.

Records: the request has an `end` record; every strand was ended, or joined by another; every strand that a
split or a join names has a record, and so has every declared parent; every record lies on a strand.

Both criteria can be wrong, as no event refers to a service that has not reported yet. Waiting for `linger_ns`
after completion allows for that; events that arrive even later are late.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.arrays import B1, I8, U1, U8
from schemas.events import SPAN_KIND_BASE, EventKind
from stitch.columnar.runs import whole
from stitch.records.components import flat_list
from stitch.spans.span_columns import SpanIndex, id_keys

NEVER = np.int64(2**63 - 1)
"""First time, ns, of an event or request without times; its last time is then `-NEVER`."""
COMPLETENESS_COLUMNS = ["kind", "breadcrumb", "id", "parents", "follows", "links", "ts_ns", "end_ns"]
"""Columns that `complete_requests` needs."""


def event_times(events: pa.Table) -> tuple[I8, I8]:
    """First and last time of each event: ([events] first, [events] last), ns since the epoch; NEVER and
    -NEVER for an event without times. events: columns `ts_ns` and `end_ns`."""
    start, end = whole(events["ts_ns"]), whole(events["end_ns"])
    if start.null_count == 0 and end.null_count == len(end):
        only: I8 = start.to_numpy(zero_copy_only=False)
        return only, only
    first = pc.fill_null(pc.coalesce(start, end), int(NEVER)).to_numpy(zero_copy_only=False)
    last = pc.fill_null(pc.max_element_wise(start, end), int(-NEVER)).to_numpy(zero_copy_only=False)
    return first, last


def complete_requests(request: I8, n_requests: int, events: pa.Table) -> B1:
    """[requests] True if the request is complete. O(events) expected.

    request: [events] code of the event's request, in 0 … n_requests - 1; every code occurs. events:
    COMPLETENESS_COLUMNS, each column in one chunk; every span has an id. If a request has both spans and
    records, both sets must be complete.
    """
    kind = events["kind"].to_numpy()
    is_span = kind >= SPAN_KIND_BASE
    if is_span.all():
        return _complete_spans(request, n_requests, events, kind)
    if not is_span.any():
        return _complete_records(request, n_requests, events, kind)
    complete = np.ones(n_requests, dtype=np.bool_)
    for some, judge in ((is_span, _complete_spans), (~is_span, _complete_records)):
        rows = np.flatnonzero(some)
        codes, own = np.unique(request[rows], return_inverse=True)
        taken = events.take(pa.array(rows)).combine_chunks()
        complete[codes] &= judge(own, len(codes), taken, kind[rows])
    return complete


def _complete_spans(request: I8, n_requests: int, spans: pa.Table, kind: U1) -> B1:
    parent_row, parents = flat_list(whole(spans["parents"]))
    follow_row, follows = flat_list(whole(spans["follows"]))
    own, parent_key, follow_key = id_keys([whole(spans["id"]), parents, follows])
    row, named = np.concatenate((parent_row, follow_row)), np.concatenate((parent_key, follow_key))
    complete = np.ones(n_requests, dtype=np.bool_)
    complete[_without(request, own, request[row], named, n_requests)] = False
    timed = whole(spans["ts_ns"]).is_valid().to_numpy(zero_copy_only=False) & whole(
        spans["end_ns"]
    ).is_valid().to_numpy(zero_copy_only=False)
    untimed = np.flatnonzero(~timed)
    complete[_without(request[timed], own[timed], request[untimed], own[untimed], n_requests)] = False
    sent = np.flatnonzero(kind == EventKind.SPAN_PRODUCER)
    if len(sent):
        received = kind[row] == EventKind.SPAN_CONSUMER
        complete[_without(request[row[received]], named[received], request[sent], own[sent], n_requests)] = (
            False
        )
    rooted = np.zeros(n_requests, dtype=np.bool_)
    is_root = np.ones(len(own), dtype=np.bool_)
    is_root[row] = False
    rooted[request[is_root]] = True
    return complete & rooted


def _without(request: I8, key: U8, asked: I8, wanted: U8, n_requests: int) -> I8:
    """Codes, with repeats, of requests in which an id is missing to which their events refer.

    request, key: [ids] request code and hash of each id that is present. asked, wanted: [references] request
    code and hash of each id referred to.
    """
    if not len(asked):
        return asked
    if not len(request):
        return asked
    return asked[SpanIndex(request, key, n_requests).find(asked, wanted) < 0]


def _complete_records(request: I8, n_requests: int, records: pa.Table, kind: U1) -> B1:
    crumb_words = whole(records["breadcrumb"])
    link_row, link_words = flat_list(whole(records["links"]))
    words = pa.concat_arrays([crumb_words, link_words]).dictionary_encode()
    codes = pc.fill_null(words.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    crumb, link = codes[: len(kind)], codes[len(kind) :]
    width = len(words.dictionary) + 1
    on_strand = crumb >= 0
    strand = request * width + crumb
    other = link != crumb[link_row]  # a link of a strand to itself means nothing
    link_row, link = link_row[other], link[other]
    linked = request[link_row] * width + link
    joins = kind[link_row] == EventKind.JOIN
    named = joins | (kind[link_row] == EventKind.SPLIT)
    ended = on_strand & (kind == EventKind.END)

    present = np.unique(strand[on_strand])
    over = np.concatenate((strand[ended], linked[joins]))
    complete = np.zeros(n_requests, dtype=np.bool_)
    complete[request[kind == EventKind.END]] = True
    complete[present[~np.isin(present, over)] // width] = False
    expected = linked[named]
    complete[expected[~np.isin(expected, present)] // width] = False
    complete[request[~on_strand]] = False
    parent_row, parents = flat_list(whole(records["parents"]))
    if len(parents):
        ids = whole(records["id"])
        with_id = np.flatnonzero(ids.is_valid().to_numpy(zero_copy_only=False))
        own, wanted = id_keys([ids.drop_null(), parents])
        complete[_without(request[with_id], own, request[parent_row], wanted, n_requests)] = False
    return complete
