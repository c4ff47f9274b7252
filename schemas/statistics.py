"""Statistics as stored under `LAKE/stats/`: a Parquet file with one row, for a window or a quarter of a day.

Each column is a relation, a list of its rows, so a file is either complete or absent, and readers read only
the relations that they need. Names are keyed by 64-bit hashes that are the same in every window, so rows of
any files can be summed by key. The SQL reference is generated from this schema.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

MEASURES: Final = ("own", "overlap", "calls", "stretch")
"""Names of the measures in `votes.measure`; the index is the measure's number in a profile."""
SITE_KINDS: Final = ("call", "step", "point")
"""Names of the kinds in `sites.kind`; the index is the kind's number in a profile."""

_KEY: Final = pa.int64()


def _field(name: str, type_: pa.DataType, doc: str, *, nullable: bool = False) -> pa.Field:
    return pa.field(name, type_, nullable=nullable, metadata={"doc": doc})


def _rows(name: str, doc: str, *columns: pa.Field) -> pa.Field:
    """Column for a relation: a list of structs, one struct per row of the relation, with `columns` as
    fields."""
    return _field(name, pa.list_(pa.field("element", pa.struct(columns), nullable=False)), doc)


def _list(name: str, type_: pa.DataType, doc: str, *, nullable: bool = False) -> pa.Field:
    return _field(name, pa.list_(pa.field("element", type_, nullable=False)), doc, nullable=nullable)


_SITE: Final = _field("site", _KEY, "key of the call site: sites")
_PATTERN: Final = _field("pattern", _KEY, "key of the call pattern: patterns")
_ROOT: Final = _field("root", _KEY, "key of the root type: roots")
_VALUE: Final = _field("value", _KEY, "key of the value: attribute_values")
_COMPONENT: Final = _field("component", _KEY, "key of the component: components")
_N: Final = _field("n", pa.float64(), "requests")
_W: Final = _field("w", pa.float64(), "sum of their weights (1 / sampling probability)")
_W2: Final = _field("w2", pa.float64(), "sum of their squared weights")
_BINS: Final = (
    _field("filled", pa.int32(), "number of filled bins, that is the length of each list"),
    _list("bins", pa.int16(), "filled bins, ascending; bin b holds values from 2^(b/32) to 2^((b+1)/32)"),
    _list("n", pa.int32(), "requests in each of them"),
    _list("w", pa.float64(), "their weight; null where it is n", nullable=True),
    _list("w2", pa.float64(), "their squared weight; null where it is n", nullable=True),
)

STATISTICS_SCHEMA: Final = pa.schema(
    [
        _field("start_ns", pa.int64(), "start of the window, ns since the epoch"),
        _field("end_ns", pa.int64(), "its end, exclusive"),
        _rows(
            "operations",
            "operations that occur",
            _field("operation", _KEY, "key"),
            _field("component", pa.string(), "service or component"),
            _field("point", pa.string(), "operation or trace point"),
            _field("callee", pa.string(), "component that a client span calls; else empty"),
        ),
        _rows(
            "sites",
            "call sites",
            _field("site", _KEY, "key"),
            _field(
                "caller", _KEY, "operation of the caller; null for a root or a trace point", nullable=True
            ),
            _field("operation", _KEY, "operation that is called"),
            _field("kind", pa.string(), "call (of spans), step or point (of activity records)"),
        ),
        _rows(
            "patterns",
            "call patterns",
            _field("pattern", _KEY, "key"),
            _rows(
                "children",
                "what a call of the pattern calls",
                _field("operation", _KEY, "operation that is called"),
                _field("calls", pa.int32(), "how often, rounded up to a power of two"),
                _field("awaited", pa.bool_(), "whether the call waits for it"),
            ),
        ),
        _rows(
            "paths",
            "paths: chains of call sites from the root",
            _field("path", _KEY, "key"),
            _field("above", _KEY, "path of the caller; null for the root", nullable=True),
            _field("site", _KEY, "call site at its end"),
        ),
        _rows(
            "roots", "root types", _field("root", _KEY, "key"), _field("name", pa.string(), "component/point")
        ),
        _rows(
            "errors", "error classes", _field("error", _KEY, "key"), _field("name", pa.string(), "its name")
        ),
        _rows(
            "visits",
            "requests at a call site; sums over them",
            _SITE,
            _N,
            _W,
            _W2,
            _field("calls", pa.float64(), "weighted calls"),
            _field("critical_ns", pa.float64(), "weighted own time on the critical path, ns"),
            _field("response_ns", pa.float64(), "weighted response time, ns"),
            _field("failing", pa.float64(), "weight of the requests, each by its share of failing calls"),
            _field("failing_n", pa.float64(), "requests with a failing call"),
        ),
        _rows(
            "pattern_visits",
            "requests with a call of a pattern; sums over them",
            _SITE,
            _PATTERN,
            _N,
            _field("votes", pa.float64(), "weight of the requests, each by the pattern's share of its calls"),
            _field("calls", pa.float64(), "weighted calls"),
            _field(
                "inclusive_ns", pa.float64(), "weighted critical time of the calls and all below them, ns"
            ),
            _field("entering_n", pa.float64(), "requests in which what follows occurs for the first time"),
        ),
        _rows(
            "votes",
            "requests at a call site by a value that each has there",
            _field(
                "measure",
                pa.string(),
                "own: mean own time of its calls, ns; times 65536: calls, their number; overlap, the time of "
                "calls below added up, over their union; stretch, that union over the longest of them",
            ),
            _SITE,
            _field("pattern", _KEY, "key of the pattern of most of its calls"),
            *_BINS,
        ),
        _rows(
            "totals",
            "requests at a call site by the mean duration of its calls, ns",
            _SITE,
            _field("pattern", _KEY, "key of the pattern of most of its calls"),
            *_BINS,
        ),
        _rows(
            "responses",
            "requests of a root type by response time",
            _ROOT,
            _field("bin", pa.int16(), "bin of the response time, ns"),
            _N,
            _W,
            _W2,
            _field("ns", pa.float64(), "weighted response time, ns"),
            _field("ns2", pa.float64(), "weighted squared response time, ns^2"),
            _field("failed", pa.float64(), "weight of the requests whose root did not end ok"),
            _field("failed_n", pa.float64(), "such requests"),
        ),
        _rows(
            "origins",
            "failing requests by where the failure began",
            _ROOT,
            _SITE,
            _field("error", _KEY, "key of the error class: errors"),
            _N,
            _W,
        ),
        _rows(
            "account",
            "parts of the response time, which add up to it",
            _ROOT,
            _field("path", _KEY, "key of the path: paths"),
            _PATTERN,
            _field("calls", pa.float64(), "weighted calls on the critical path"),
            _field("critical_ns", pa.float64(), "weighted own time on the critical path, ns"),
            _field("over", pa.float64(), "0: of comparisons alone"),
        ),
        _rows(
            "attribute_values",
            "values of the attributes that are kept (statistics.attributes)",
            _VALUE,
            _field("attribute", pa.string(), "name of the attribute"),
            _field("text", pa.string(), "its value; null: any value, or none", nullable=True),
        ),
        _rows(
            "components",
            "services or components",
            _COMPONENT,
            _field("name", pa.string(), "its name"),
        ),
        _rows(
            "segments",
            "requests with a value of an attribute on any span, by a component that they pass",
            _VALUE,
            _ROOT,
            _COMPONENT,
            _N,
            _field("failing_n", pa.float64(), "those whose first failure began at the component"),
        ),
        _rows(
            "slow_segments",
            "requests with a value of an attribute on any span, of a call graph with enough requests",
            _VALUE,
            _ROOT,
            _N,
            _field("slow_n", pa.float64(), "those above the 90th percentile of their call graph's requests"),
        ),
    ]
)
"""Schema of a statistics file: one row, one column per relation. Every key occurs once in a relation."""


NAMES: Final = (
    *("operations", "sites", "patterns", "paths", "roots", "errors"),
    *("attribute_values", "components"),
)
"""Relations that map keys to names; the key is their first column."""


def columns_of_relation(name: str) -> pa.Schema:
    """Schema of the rows of a relation of STATISTICS_SCHEMA. Raises KeyError for an unknown name."""
    return pa.schema([*STATISTICS_SCHEMA.field(name).type.value_type])


def rows_of_relation(name: str, columns: Sequence[Any]) -> pa.StructArray:
    """Rows of a relation from its columns, Arrow or numpy arrays in the order of `columns_of_relation`."""
    schema = columns_of_relation(name)
    arrays = [
        column if isinstance(column, pa.Array) else pa.array(column, field.type)
        for column, field in zip(columns, schema, strict=True)
    ]
    return pa.StructArray.from_arrays(arrays, fields=[*schema])
