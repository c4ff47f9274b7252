"""Schemas of the tables beside a report, for every reader of them; each column described in its metadata.

The tables are complete where the report is cut.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa


def _f(name: str, type_: pa.DataType, doc: str, *, nullable: bool = False) -> pa.Field:
    return pa.field(name, type_, nullable=nullable, metadata={"doc": doc})


_STORED = _f("stored", pa.list_(pa.string()), "keys of the lake's categories whose requests these are")

_KS = (
    _f("ks_n0", pa.int64(), "values tested, reference"),
    _f("ks_n1", pa.int64(), "values tested, problem"),
    _f("ks_d", pa.float64(), "KS statistic; null where the test was not run", nullable=True),
    _f("ks_p", pa.float64(), "its p-value", nullable=True),
)

_MOMENTS = tuple(
    _f(f"{name}{t}{unit}", type_, f"{doc}, {period}", nullable=type_ == pa.float64())
    for name, unit, type_, doc in (
        ("count", "", pa.int64(), "recorded requests"),
        ("mean", "_us", pa.float64(), "weighted mean response time, µs"),
        ("variance", "_us2", pa.float64(), "weighted variance of response time, µs²"),
        ("c2", "", pa.float64(), "squared coefficient of variation; count > 10 only"),
    )
    for t, period in enumerate(("reference", "problem"))
)

MUTATIONS_SCHEMA = pa.schema(
    [
        _f("rank", pa.int32(), "from 1: the direction of the change first, then |contribution|"),
        _f("kind", pa.string(), "response-time or structural"),
        _f("direction", pa.string(), "increase or decrease of response time in sum"),
        _f("category", pa.string(), "category key, after the refinement of this comparison"),
        _STORED,
        _f("root", pa.string(), "root type"),
        _f("contribution_us", pa.float64(), "rank key, requests times µs"),
        _f("contribution_nsdi_us", pa.float64(), "by the NSDI'11 formula"),
        _f("contribution_tr_us", pa.float64(), "by the technical report's formula"),
        _f(
            "baseline_mean_us",
            pa.float64(),
            "mean that the mutation is held against, µs: its precursors', or its own before",
            nullable=True,
        ),
        _f("precursors", pa.int32(), "candidate precursors; 0 for response-time mutations"),
        _f("edges_changed", pa.int32(), "edges whose test rejected; 0 for structural mutations"),
        _f("virtual", pa.string(), "why the category has several rows; empty otherwise"),
    ]
)

EDGES_SCHEMA = pa.schema(
    [
        _f("rank", pa.int32(), "rank of the response-time mutation"),
        _f("category", pa.string(), "category key"),
        _f("src", pa.int32(), "canonical position of the earlier node"),
        _f("dst", pa.int32(), "canonical position of the later node"),
        _f("src_label", pa.string(), "label of the earlier node"),
        _f("dst_label", pa.string(), "label of the later node"),
        _f("mean0_us", pa.float64(), "mean latency where critical, reference, µs", nullable=True),
        _f("mean1_us", pa.float64(), "mean latency where critical, problem, µs", nullable=True),
        _f("criticality0", pa.float64(), "share of requests with the edge critical, reference"),
        _f("criticality1", pa.float64(), "share of requests with the edge critical, problem"),
        *_KS,
        _f("changed", pa.bool_(), "the test rejected"),
        _f("attribution_us", pa.float64(), "A_e: exact part of the change of the mean, µs"),
        _f("latency_us", pa.float64(), "part of A_e from latency, µs"),
        _f("criticality_us", pa.float64(), "part of A_e from criticality, µs"),
        _f("skewed", pa.bool_(), "a clock correction touched the edge"),
    ]
)

PRECURSORS_SCHEMA = pa.schema(
    [
        _f("rank", pa.int32(), "rank of the structural mutation"),
        _f("mutation", pa.string(), "category key of the mutation"),
        _f("place", pa.int32(), "from 1, most likely first"),
        _f("category", pa.string(), "category key of the precursor"),
        _STORED,
        _f("edits", pa.int32(), "Levenshtein distance of the token sequences"),
        _f("distance", pa.float64(), "distance of the settings"),
        _f("share", pa.float64(), "weight in the mutation's baseline mean"),
    ]
)

CATEGORIES_SCHEMA = pa.schema(
    [
        _f("category", pa.string(), "category key, after the refinement of this comparison"),
        _STORED,
        _f("root", pa.string(), "root type"),
        _f("canonical", pa.string(), "canonical text"),
        _f("n_nodes", pa.int32(), "number of nodes"),
        *_MOMENTS,
        *_KS,
        _f("roles", pa.list_(pa.string()), "structural, precursor, response-time"),
        _f("change_us", pa.float64(), "change of the summed response time, µs"),
    ]
)

REQUESTS_SCHEMA = pa.schema(
    [
        _f(
            "rank",
            pa.int32(),
            "rank of the finding or mutation; of a precursor, the best rank that it is a candidate of",
        ),
        _f("role", pa.string(), "affected of a finding; mutation or precursor"),
        _f("category", pa.string(), "category key, after the refinement of this comparison"),
        _f("sample", pa.string(), "reference or problem"),
        _f("request_id", pa.string(), "request or trace id"),
        _f("kind", pa.string(), "spans or records: what the request was recorded as"),
    ]
)
"""One row an affected request of every finding (at most 50,000 of each, evenly spaced), or a request of every
mutation and precursor. A category that is a mutation twice is listed under both ranks; a precursor is listed
once, `precursors` has all mutations that it may belong to."""

PAINTED_SCHEMA = pa.schema(
    [
        _f("category", pa.string(), "category key, after the refinement of this comparison"),
        _f("src", pa.int32(), "canonical position of the earlier node"),
        _f("dst", pa.int32(), "canonical position of the later node"),
        _f("src_label", pa.string(), "label of the earlier node"),
        _f("dst_label", pa.string(), "label of the later node"),
        _f("ks_n0", pa.int64(), "latencies tested, reference: of all places of this name in the category"),
        _f("ks_n1", pa.int64(), "latencies tested, problem"),
        _f("ks_d", pa.float64(), "one-sided KS statistic; null where the test was not run", nullable=True),
        _f("ks_p", pa.float64(), "its p-value", nullable=True),
        _f("changed", pa.bool_(), "the test rejected: the edge is painted"),
    ]
)
"""One row an edge of every category; in reports of `--variant released` only."""

_CHANGED = (
    _f("unit", pa.string(), "of before, after, low and high: us, share, calls, ratio"),
    _f("before", pa.float64(), "reference: median over requests (times), share or mean"),
    _f("after", pa.float64(), "the same in the problem period"),
    _f("low", pa.float64(), "lower end of the 95 % interval of after - before, noise included"),
    _f("high", pa.float64(), "its upper end"),
)

_SITE = (
    _f("component", pa.string(), "component of the place that changed"),
    _f("operation", pa.string(), "operation or trace point of the place"),
    _f("caller", pa.string(), "who calls; null for the root, or several", nullable=True),
)

FINDINGS_SCHEMA = pa.schema(
    [
        _f("rank", pa.int32(), "from 1, most important first"),
        _f("kind", pa.string(), "what happened: slower, faster, tail, errors, new-path, more-calls, …"),
        *_SITE,
        _f("title", pa.string(), "what happened, in a sentence"),
        _f("suspect", pa.string(), "component to look at first where it is another one; else empty"),
        *_CHANGED,
        _f("contribution_us", pa.float64(), "part of the change of the mean response time, µs a request"),
        _f(
            "share",
            pa.float64(),
            "the same as a share of all added (saved) time; null: no change, or the other way",
            nullable=True,
        ),
        _f("share_low", pa.float64(), "lower end of its 95 % interval", nullable=True),
        _f("share_high", pa.float64(), "upper end of its 95 % interval", nullable=True),
        _f("requests0", pa.int64(), "requests with the changed thing in them, reference"),
        _f("requests1", pa.int64(), "requests with the changed thing in them, problem"),
        _f("share0", pa.float64(), "requests0 as a share of all requests of the reference"),
        _f("share1", pa.float64(), "requests1 as a share of all requests of the problem period"),
        _f("p", pa.float64(), "p-value of the leading evidence"),
        _f("q", pa.float64(), "p corrected for the number of tests"),
        _f("saves_us", pa.float64(), "mean saved if the place were as before", nullable=True),
        _f("explanation", pa.string(), "what tells affected requests apart, in a sentence; or empty"),
        _f("examples", pa.list_(pa.string()), "requests of the problem period to look at"),
    ]
)
"""One row a finding."""

EVIDENCE_SCHEMA = pa.schema(
    [
        _f("rank", pa.int32(), "finding that it belongs to; null: to none", nullable=True),
        _f(
            "place",
            pa.int32(),
            "from 1 in its finding, the leading one first; among the others in order of q",
        ),
        _f("kind", pa.string(), "what happened, as in findings"),
        *_SITE,
        _f("what", pa.string(), "which children, which error class; empty where the kind says all"),
        *_CHANGED,
        _f("requests0", pa.int64(), "requests with the place in them, reference; one vote each"),
        _f("requests1", pa.int64(), "requests with the place in them, problem"),
        _f("p", pa.float64(), "p-value of its test"),
        _f("q", pa.float64(), "p corrected for the number of tests"),
        _f("z", pa.float64(), "effect over its standard error, noise included"),
        _f("contribution_us", pa.float64(), "part of the change of the mean response time, µs a request"),
        _f("consequence_of", pa.int32(), "place of what it follows from; null: a cause", nullable=True),
    ]
)
"""One row a significant test, uncut."""

ACCOUNT_SCHEMA = pa.schema(
    [
        _f("measure", pa.string(), "mean (µs a request), tail or errors (shares of requests)"),
        _f("part", pa.string(), "site; or mix: what a root type's share of the requests did"),
        _f("root", pa.string(), "root type"),
        _f("component", pa.string(), "component of the place; null for mix", nullable=True),
        _f("operation", pa.string(), "operation of the place; null for mix", nullable=True),
        _f("caller", pa.string(), "who calls; null for mix, the root, or several", nullable=True),
        _f("calls", pa.float64(), "part from more or fewer calls on the critical path"),
        _f("structure", pa.float64(), "part from calls that take other paths below"),
        _f("slower", pa.float64(), "part from calls that take another time"),
        _f("mix", pa.float64(), "part from the workload mix"),
        _f("total", pa.float64(), "the four together; over all rows of a measure: after - before"),
        _f("rank", pa.int32(), "finding that it belongs to; null: to none", nullable=True),
    ]
)
"""One row a site and root type, and a row a root type's share, of each measure; uncut."""

METHOD_COLUMN: Final = _f("method", pa.string(), "method that found it, as --method names it")
"""First column of every stored table; filled in by the run, so that methods may share a table."""


def stored_schema(schema: pa.Schema) -> pa.Schema:
    """The schema of a method's table as it lies beside the report."""
    return schema.insert(0, METHOD_COLUMN)


REPORT_TABLES: Final = {
    "mutations": stored_schema(MUTATIONS_SCHEMA),
    "edges": stored_schema(EDGES_SCHEMA),
    "precursors": stored_schema(PRECURSORS_SCHEMA),
    "categories": stored_schema(CATEGORIES_SCHEMA),
    "requests": stored_schema(REQUESTS_SCHEMA),
    "painted": stored_schema(PAINTED_SCHEMA),
    "findings": stored_schema(FINDINGS_SCHEMA),
    "evidence": stored_schema(EVIDENCE_SCHEMA),
    "account": stored_schema(ACCOUNT_SCHEMA),
}
"""Schema by name, `reports/<id>/<name>.parquet`; a method may bring tables of its own."""
