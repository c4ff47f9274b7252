"""Hand placed flows from the two graph builders to the kernel (numpy, canonical order, no strings).

`stitch.spans.span_graphs` (trees of spans) and `stitch.records.record_graphs` (DAGs of activity records)
both end here; everything after (keys, text, loops, tables) does not care where a graph came from.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from schemas.arrays import B1, I4, I8, U1, U4

POINT, START, END = 0, 1, 2
"""Values of `side`."""

MISSING_EVENT, ROOT_EVENT = -1, -2
"""`event` of the synthetic nodes `?/missing` and `?/root`: two nodes of one made-up span (START and END, kind
SPAN_UNSPECIFIED) in flows of spans, a POINT of kind EVENT in flows of records."""


@dataclass(frozen=True, slots=True)
class PlacedFlows:
    """Flows of one batch; nodes and edges are concatenated flow by flow.

    Order of flows: ascending request code. Order of nodes inside a flow: canonical. Canonical means: it
    depends on the labelled graph alone, up to interchangeable branches, which go by start time; the node
    list is a topological order (src < dst on every edge); node 0 is the only source. So two flows have the
    same structure iff their node labels, `side`, `mate`, `parent`, `deferred`, edges and responses are equal
    position by position.
    """

    request: I8
    """[flows] code into the batch's request ids."""
    quality: U4
    """[flows] Quality bits."""
    first_node: I8
    """[flows + 1] offsets into the node arrays."""
    first_edge: I8
    """[flows + 1] offsets into the edge arrays."""
    event: I8
    """[nodes] row in the event batch, or MISSING_EVENT / ROOT_EVENT."""
    side: U1
    """[nodes] POINT, START or END."""
    point_code: I4
    """[nodes] span-event nodes: index into `mark_names`, in place of the event's own point (component, label
    and kind are the span's); -1 elsewhere."""
    ts_ns: I8
    """[nodes] time, ns since the epoch."""
    mate: I4
    """[nodes] position in its flow of the other side of the span; -1 for points."""
    parent: I4
    """[nodes] spans and marks: position of the parent's start; -1 for roots and records."""
    deferred: B1
    """[nodes] the response does not wait for this node."""
    response: B1
    """[nodes] the response may leave here."""
    src: I4
    """[edges] position in its flow; edges sorted by (flow, dst, src), transitively reduced."""
    dst: I4
    """[edges] position in its flow."""
    mark_names: tuple[str, ...] = ()
    """Names of span-event nodes."""
    conflicts: I8 | None = None
    """Rows of the event batch dropped because the same id had other content; null: none."""
    duplicates: int = 0
    """Number of event rows dropped as exact duplicates."""
    copies: I8 | None = None
    """Those rows; null: none."""
    code: I8 | None = None
    """[events] request code of each row, -1 for rows left out before requests were told apart; always set by
    the builders."""
    request_names: pa.StringArray | None = None
    """[request codes] request id of each code; always set by the builders."""
    merged: tuple[I8, I8] | None = None
    """Spans: event rows of partial reports, and the event rows they were merged into; null: none."""
    timeless: I8 | None = None
    """Rows of the event batch left out because no event of their request has a time; null: none."""

    @property
    def of_spans(self) -> B1:
        """[flows] made of spans, whose root has two sides even where it is made up; else of records."""
        result: B1 = self.side[self.first_node[:-1]] != POINT
        return result

    @property
    def n_flows(self) -> int:
        """Number of flows."""
        return len(self.request)
