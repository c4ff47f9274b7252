"""Columns of the tables beside a report: what each holds, and how it is made of a row of the report's model.

The tables are complete where the report is cut. Parquet, the views over reports and the SQL reference have
their columns from here, and sections show those with a label.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import pyarrow as pa

from schemas.report.accounts import AccountRow, MixRow
from schemas.report.columns import arrow_schema, stored
from schemas.report.findings import Evidence

_STORED = stored("stored", "keys", "keys of the lake's categories whose requests these are")

_KS = (
    stored("ks_n{}", "count", "values tested, {}", lambda row: (row.ks.n0, row.ks.n1)),
    stored(
        "ks_d", "number", "KS statistic; null where the test was not run", lambda row: row.ks.d, null=True
    ),
    stored("ks_p", "p", "its p-value", lambda row: row.ks.p, null=True),
)


def _moments(name: str) -> Any:
    return lambda row: (getattr(row.before, name), getattr(row.after, name))


_MOMENTS = (
    stored("count{}", "count", "recorded requests, {}", _moments("count")),
    stored("mean{}_us", "us", "weighted mean response time, µs, {}", _moments("mean_us"), null=True),
    stored(
        "variance{}_us2",
        "number",
        "weighted variance of response time, µs², {}",
        _moments("variance_us2"),
        null=True,
    ),
    stored(
        "c2{}", "number", "squared coefficient of variation; count > 10 only, {}", _moments("c2"), null=True
    ),
)

MUTATIONS: Final = (
    stored("rank", "place", "from 1: the direction of the change first, then |contribution|"),
    stored("kind", "text", "response-time or structural"),
    stored("direction", "text", "increase or decrease of response time in sum"),
    stored("category", "key", "category key, after the refinement of this comparison"),
    _STORED,
    stored("root", "text", "root type"),
    stored("contribution_us", "change", "rank key, requests times µs"),
    stored("contribution_nsdi_us", "change", "by the NSDI'11 formula"),
    stored("contribution_tr_us", "change", "by the technical report's formula"),
    stored(
        "baseline_mean_us",
        "us",
        "mean that the mutation is compared with, µs: its precursors', or its own before",
        null=True,
    ),
    stored("precursors", "place", "candidate precursors; 0 for response-time mutations"),
    stored("edges_changed", "place", "edges whose test rejected; 0 for structural mutations"),
    stored("virtual", "text", "why the category has several rows; empty otherwise"),
)

EDGES: Final = (
    stored("rank", "place", "rank of the response-time mutation"),
    stored("category", "key", "category key"),
    stored("src", "place", "canonical position of the earlier node"),
    stored("dst", "place", "canonical position of the later node"),
    stored("src_label", "text", "label of the earlier node"),
    stored("dst_label", "text", "label of the later node"),
    stored("mean{}_us", "us", "mean latency where critical, {}, µs", null=True),
    stored("criticality{}", "share", "share of requests with the edge critical, {}"),
    *_KS,
    stored("changed", "flag", "the test rejected"),
    stored("attribution_us", "change", "A_e: exact part of the change of the mean, µs"),
    stored("latency_us", "change", "part of A_e from latency, µs"),
    stored("criticality_us", "change", "part of A_e from criticality, µs"),
    stored("skewed", "flag", "a clock correction touched the edge"),
)

PRECURSORS: Final = (
    stored("rank", "place", "rank of the structural mutation"),
    stored("mutation", "key", "category key of the mutation"),
    stored("place", "place", "from 1, most likely first"),
    stored("category", "key", "category key of the precursor"),
    _STORED,
    stored("edits", "place", "Levenshtein distance of the token sequences"),
    stored("distance", "number", "distance of the settings"),
    stored("share", "share", "weight in the mutation's baseline mean"),
)

CATEGORIES: Final = (
    stored("category", "key", "category key, after the refinement of this comparison"),
    _STORED,
    stored("root", "text", "root type"),
    stored("canonical", "text", "canonical text"),
    stored("n_nodes", "place", "number of nodes"),
    *_MOMENTS,
    *_KS,
    stored(
        "roles",
        "keys",
        "structural, precursor, response-time",
        lambda row: [role.value for role in row.roles],
    ),
    stored("change_us", "change", "change of the summed response time, µs"),
)

REQUESTS: Final = (
    stored(
        "rank",
        "place",
        "rank of the finding or mutation; of a precursor, the best rank that it is a candidate of",
    ),
    stored("role", "text", "affected of a finding; mutation or precursor"),
    stored("category", "key", "category key, after the refinement of this comparison"),
    stored("sample", "text", "reference or problem"),
    stored("request_id", "text", "request or trace id"),
    stored("kind", "text", "spans or records: what the request was recorded as"),
)
"""One row an affected request of every finding (at most 50,000 of each, evenly spaced), or a request of every
mutation and precursor. A category that is a mutation twice is listed under both ranks; a precursor is listed
once, `precursors` has all mutations that it may belong to."""

PAINTED: Final = (
    stored("category", "key", "category key, after the refinement of this comparison"),
    stored("src", "place", "canonical position of the earlier node"),
    stored("dst", "place", "canonical position of the later node"),
    stored("src_label", "text", "label of the earlier node"),
    stored("dst_label", "text", "label of the later node"),
    stored("ks_n{}", "count", "latencies tested, {}: of all places of this name in the category"),
    stored("ks_d", "number", "one-sided KS statistic; null where the test was not run", null=True),
    stored("ks_p", "p", "its p-value", null=True),
    stored("changed", "flag", "the test rejected: the edge is painted"),
)
"""One row an edge of every category; in reports of `variant=released` only."""


class EvidenceRow(NamedTuple):
    """A significant test, and where it stands."""

    rank: int
    """Finding that it belongs to."""
    place: int
    """From 1 in its finding."""
    evidence: Evidence


class AccountedRow(NamedTuple):
    """A call site and root type of one measure, or a root type's part of its mix."""

    measure: str
    row: AccountRow | MixRow


def _of(row: Any) -> Any:
    """The finding, or the evidence of a row."""
    return row.evidence if isinstance(row, EvidenceRow) else row


def _caller(site: Any) -> str | None:
    return None if site.caller is None else site.caller.text


_SITE = (
    stored("component", "name", "component of the call site that changed", lambda r: _of(r).site.component),
    stored("operation", "name", "operation or trace point of the call site", lambda r: _of(r).site.operation),
    stored(
        "caller",
        "name",
        "who calls; null for the root, or several",
        lambda r: _caller(_of(r).site),
        null=True,
    ),
)
_CHANGED = (
    stored("unit", "text", "of before, after, low and high: us, share, calls, ratio", lambda r: _of(r).unit),
    stored(
        "before", "number", "reference: median over requests (times), share or mean", lambda r: _of(r).before
    ),
    stored("after", "number", "the same in the problem period", lambda r: _of(r).after),
    stored(
        "low",
        "number",
        "lower end of the 95 % interval of after - before, noise included",
        lambda r: _of(r).change.low,
    ),
    stored("high", "number", "its upper end", lambda r: _of(r).change.high),
)


def _share(end: str) -> Any:
    return lambda f: None if f.share_of_change is None else getattr(f.share_of_change, end)


FINDINGS: Final = (
    stored("rank", "place", "from 1, most important first"),
    stored(
        "kind",
        "text",
        "what happened: slower, faster, tail, errors, new-path, more-calls, …",
        lambda f: f.kind.value,
    ),
    *_SITE,
    stored("title", "text", "what happened, in a sentence"),
    stored("suspect", "name", "component to look at first where it is another one; else empty"),
    *_CHANGED,
    stored("contribution_us", "change", "part of the change of the mean response time, µs a request"),
    stored(
        "share",
        "share",
        "the same as a share of all added (saved) time; null: no change, or the other way",
        lambda f: f.share_estimate,
        null=True,
    ),
    stored("share_low", "share", "lower end of its 95 % interval", _share("low"), null=True),
    stored("share_high", "share", "upper end of its 95 % interval", _share("high"), null=True),
    stored(
        "requests{}",
        "count",
        "requests with the changed thing in them, {}",
        lambda f: (f.affected0, f.affected1),
    ),
    stored("share{}", "share", "the same as a share of all requests of the {}"),
    stored("p", "p", "p-value of the leading evidence"),
    stored("q", "p", "p corrected for the number of tests"),
    stored("saves_us", "us", "mean saved if the call site were as before", null=True),
    stored(
        "explanation",
        "text",
        "what distinguishes affected requests, in a sentence; or empty",
        lambda f: "" if f.explanation is None else f.explanation.sentence,
    ),
    stored(
        "examples",
        "keys",
        "requests of the problem period to look at",
        lambda f: [example.request_id for example in f.examples if example.sample == "problem"],
    ),
)
"""One row a finding."""


def _in_evidence(name: str) -> Any:
    return lambda row: getattr(row.evidence, name)


EVIDENCE: Final = (
    stored("rank", "place", "finding that it belongs to"),
    stored("place", "place", "from 1 in its finding, the leading one first"),
    stored("kind", "text", "what happened, as in findings", lambda row: row.evidence.kind.value),
    *_SITE,
    stored(
        "what",
        "text",
        "which children, which error class; empty where the kind says all",
        _in_evidence("what"),
    ),
    *_CHANGED,
    stored(
        "requests{}",
        "count",
        "requests with the call site in them, {}; one value each",
        lambda row: (row.evidence.requests0, row.evidence.requests1),
        label="Requests",
        far=1,
    ),
    stored("p", "p", "p-value of its test", _in_evidence("p")),
    stored("q", "p", "p corrected for the number of tests", _in_evidence("q"), label="q"),
    stored("z", "number", "effect over its standard error, noise included", _in_evidence("z")),
    stored(
        "contribution_us",
        "change",
        "part of the change of the mean response time, µs a request",
        _in_evidence("contribution_us"),
        label="Of the mean",
    ),
    stored(
        "consequence_of",
        "place",
        "`place` of what it follows from; null: a cause",
        lambda row: None if row.evidence.consequence_of is None else row.evidence.consequence_of + 1,
        null=True,
    ),
    stored(
        "relation",
        "text",
        "by which relation it belongs to the finding (docs/concepts.md); empty for what leads",
        _in_evidence("relation"),
    ),
)
"""One row a significant test, uncut."""


def _part(name: str) -> Any:
    return lambda one: getattr(one.row, name) if isinstance(one.row, AccountRow) else 0.0


def _where(name: str) -> Any:
    return lambda one: getattr(one.row.site, name) if isinstance(one.row, AccountRow) else None


def _total(one: AccountedRow) -> float:
    return one.row.total if isinstance(one.row, AccountRow) else one.row.part


ACCOUNT: Final = (
    stored("measure", "text", "mean (µs a request), tail or errors (shares of requests)"),
    stored(
        "part",
        "text",
        "site; or mix: what a root type's share of the requests did",
        lambda one: "site" if isinstance(one.row, AccountRow) else "mix",
    ),
    stored("root", "name", "root type", lambda one: one.row.root),
    stored("component", "name", "component of the call site; null for mix", _where("component"), null=True),
    stored("operation", "name", "operation of the call site; null for mix", _where("operation"), null=True),
    stored(
        "caller",
        "name",
        "who calls; null for mix, the root, or several",
        lambda one: _caller(one.row.site) if isinstance(one.row, AccountRow) else None,
        null=True,
    ),
    stored("calls", "number", "part from more or fewer calls on the critical path", _part("calls")),
    stored("structure", "number", "part from calls that take other paths below", _part("structure")),
    stored("slower", "number", "part from calls that take another time", _part("slower")),
    stored(
        "mix",
        "number",
        "part from the workload mix",
        lambda one: 0.0 if isinstance(one.row, AccountRow) else one.row.part,
    ),
    stored("total", "number", "the four together; over all rows of a measure: after - before", _total),
    stored(
        "rank",
        "place",
        "finding that it belongs to; null: to none",
        lambda one: one.row.finding if isinstance(one.row, AccountRow) else None,
        null=True,
    ),
)
"""One row a site and root type, and a row a root type's share, of each measure; uncut."""

METHOD_COLUMN: Final = pa.field(
    "method", pa.string(), nullable=False, metadata={"doc": "method that found it, as --method names it"}
)
"""First column of every stored table; filled in by the run, so that methods may share a table."""

MUTATIONS_SCHEMA: Final = arrow_schema(MUTATIONS)
EDGES_SCHEMA: Final = arrow_schema(EDGES)
PRECURSORS_SCHEMA: Final = arrow_schema(PRECURSORS)
CATEGORIES_SCHEMA: Final = arrow_schema(CATEGORIES)
REQUESTS_SCHEMA: Final = arrow_schema(REQUESTS)
PAINTED_SCHEMA: Final = arrow_schema(PAINTED)

REPORT_TABLES: Final = {
    name: schema.insert(0, METHOD_COLUMN)
    for name, schema in {
        "mutations": MUTATIONS_SCHEMA,
        "edges": EDGES_SCHEMA,
        "precursors": PRECURSORS_SCHEMA,
        "categories": CATEGORIES_SCHEMA,
        "requests": REQUESTS_SCHEMA,
        "painted": PAINTED_SCHEMA,
        "findings": arrow_schema(FINDINGS),
        "evidence": arrow_schema(EVIDENCE),
        "account": arrow_schema(ACCOUNT),
    }.items()
}
"""Schema by name, `reports/<id>/<name>.parquet`; a method may bring tables of its own."""
