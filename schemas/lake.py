"""Lake contract, version 4: Arrow schema of every table, with a number, a unit and one sentence a column.

The SQL reference and the Iceberg tables are made from it. A change of meaning raises `LAYOUT_VERSION`.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from schemas.stored_columns import list_of, stored

LAYOUT_VERSION: Final = 4
"""Layout version; a lake with another one is refused."""

_word = pa.dictionary(pa.int32(), pa.string())


def _field(name: str, type_: pa.DataType, doc: str, *, nullable: bool = False) -> pa.Field:
    return pa.field(name, type_, nullable=nullable, metadata={"doc": doc})


FLOWS_SCHEMA = pa.schema(
    [
        stored(1, "request_id", pa.string(), "request or trace id, as recorded; unique together with kind"),
        stored(2, "kind", _word, "`spans` or `records`: what the flow was made of"),
        stored(3, "root", _word, "root type: `component/point` of the first node"),
        stored(
            4, "start_ns", pa.int64(), "time of the root node, ns since the epoch, as its host recorded it"
        ),
        stored(5, "response_ns", pa.int64(), "response time T, ns: latest response node minus root"),
        stored(6, "category", _word, "structure key, 32 hex digits: see structures"),
        stored(
            7,
            "offset_ns",
            list_of(19, pa.int64()),
            "ns since start_ns, one a node in canonical order; may be negative under skew",
        ),
        stored(8, "host", list_of(20, _word), "host of each node in canonical order; null where unknown"),
        stored(9, "weight", pa.float64(), "1 / sampling probability; 1 where unknown"),
        stored(10, "weight_known", pa.bool_(), "whether the records gave their sampling probability"),
        stored(11, "status", _word, "`ok`, or the error class of the root"),
        stored(
            12,
            "inner_status",
            _word,
            "error class of the earliest failing node where the root is ok; null where none failed",
            nullable=True,
        ),
        stored(
            13,
            "error_position",
            list_of(21, pa.int32()),
            "canonical positions of the nodes that failed (of a span its start), ascending",
        ),
        stored(14, "error_class", list_of(22, _word), "error class of each of those nodes"),
        stored(15, "quality", pa.int32(), "bit mask, see Quality; 0 is clean"),
        stored(16, "n_nodes", pa.int32(), "length of offset_ns and host"),
        stored(17, "lane", pa.int32(), "partition the request came by; 0 for files"),
    ]
)
"""Schema of `flows`: one row a request; within a file sorted by (root, category, start_ns, request_id)."""

SPANS: Final = "spans"
RECORDS: Final = "records"
"""`kind` of flows made of activity records (SPANS: of spans). A request id with both has one flow of each
kind.
"""

NODE_TYPE = pa.struct(
    [
        _field("component", pa.string(), "service or component"),
        _field("point", pa.string(), "trace point or operation"),
        _field("label", pa.string(), "semantic label", nullable=True),
        _field("kind", pa.uint8(), "EventKind of the event behind the node"),
        _field("side", pa.uint8(), "0 a point, 1 the start of a span (`op>`), 2 its end (`op<`)"),
        _field("mate", pa.int32(), "position of the other side of the span; -1 for points"),
        _field(
            "parent",
            pa.int32(),
            "spans: position of the parent's start (also for a span event); -1 for the root and for records",
        ),
        _field("deferred", pa.bool_(), "the response does not wait for this node"),
    ]
)

EDGE_TYPE = pa.struct(
    [
        stored(14, "src", pa.int32(), "position of the earlier node"),
        stored(15, "dst", pa.int32(), "position of the later node; src < dst"),
    ]
)

_CATEGORY_DOC = "level L0 key: 128-bit hash of the order-free labelled DAG, 32 hex digits"
_EDGES_DOC = "edges sorted by (dst, src), transitively reduced"
_RESPONSES_DOC = "positions at which the response may leave; the latest in time does"

STRUCTURES_SCHEMA = pa.schema(
    [
        _field("category", pa.string(), _CATEGORY_DOC),
        _field("root", pa.string(), "root type"),
        _field("n_nodes", pa.int32(), "number of nodes"),
        _field(
            "nodes", pa.list_(NODE_TYPE), "nodes in canonical order, a topological order; node 0 is the root"
        ),
        _field("in_edges", pa.list_(EDGE_TYPE), _EDGES_DOC),
        _field("responses", pa.list_(pa.int32()), _RESPONSES_DOC),
    ]
)
"""Schema of structures in memory, one row a category."""

STEP_TYPE = pa.struct(
    [
        stored(7, "component", pa.string(), "service or component"),
        stored(8, "point", pa.string(), "trace point or operation"),
        stored(9, "label", pa.string(), "semantic label", nullable=True),
        stored(10, "kind", pa.int32(), "EventKind of the event behind it"),
        stored(
            11,
            "unawaited",
            pa.bool_(),
            "of a span: its parent does not wait for it; of a record: the response does not",
        ),
        stored(
            12,
            "depth",
            pa.int32(),
            "of a span: 0 the root, 1 what it calls; null: a record, or an event of the span before it",
            nullable=True,
        ),
    ]
)

STORED_STRUCTURES_SCHEMA = pa.schema(
    [
        stored(1, "category", pa.string(), _CATEGORY_DOC),
        stored(
            2,
            "nodes",
            list_of(6, STEP_TYPE),
            "spans with what they call behind them, each once for its start and its end; or records. "
            "The view `nodes` has them as they are counted in flows",
        ),
        stored(
            3,
            "in_edges",
            list_of(13, EDGE_TYPE),
            f"{_EDGES_DOC}; null where they follow from the nesting of spans",
            nullable=True,
        ),
        stored(
            4,
            "responses",
            list_of(16, pa.int32()),
            f"{_RESPONSES_DOC}; null: the end of the root span",
            nullable=True,
        ),
    ]
)
"""Structures as stored in files, one row a category: all that occur in the window, as a window folder is
self-contained."""

READINGS_SCHEMA = pa.schema(
    [
        _field("category", pa.string(), _CATEGORY_DOC),
        _field(
            "canonical",
            pa.string(),
            "canonical text: `a b` series, `{ x | y }` parallel, `&{ x }` a branch nobody waits for, "
            "`^k` revisit of the k-th node, `( body )*n` loop, `x *n` identical branches, `~` deferred",
        ),
        _field("category_l1", pa.string(), "key with loop counts rounded up to powers of two"),
        _field("category_l2", pa.string(), "key with loop counts dropped"),
    ]
)
"""Derived columns of structures, computed from their rows and stored nowhere."""

PARAMS_SCHEMA = pa.schema(
    [
        stored(1, "request_id", _word, "request or trace id"),
        stored(2, "kind", _word, "`spans` or `records`: with request_id, which flow"),
        stored(3, "position", pa.int32(), "canonical position of the node (for a span, its start)"),
        stored(4, "key", _word, "parameter name"),
        stored(5, "num", pa.float64(), "value, where it is a number", nullable=True),
        stored(6, "text", _word, "value, where it is text; booleans as true/false", nullable=True),
    ]
)
"""Schema of `params` (low-level parameters of nodes): rows in the order of flows, then position, then key."""

WINDOW_START: Final = "window_start"


def _with_window(rows: pa.Schema) -> pa.Schema:
    doc = "UTC start of the storage window, the same in all rows of a file"
    type_ = pa.timestamp("us", tz="UTC")
    return rows.append(stored(len(rows) + 1, WINDOW_START, type_, doc))


TABLES: Final = {
    "flows": _with_window(FLOWS_SCHEMA),
    "structures": _with_window(STORED_STRUCTURES_SCHEMA),
    "params": _with_window(PARAMS_SCHEMA),
}
"""Table name -> schema as stored: the row schema plus the column `window_start`."""
