"""Schemas, by name, of the tables beside a report that methods share or that SQL has views of.

The tables are complete where the report is cut. A table's columns are listed beside its section's model;
Parquet, the views over reports and the SQL reference take them from there, and sections show those with a
label.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from schemas.report.accounts import ACCOUNT
from schemas.report.columns import arrow_schema, stored
from schemas.report.findings import EVIDENCE, FINDINGS
from schemas.report.kinds import KINDS
from schemas.report.mutations import CATEGORIES, EDGES, MUTATIONS, PAINTED, PRECURSORS
from schemas.report.suspects import SUSPECTS

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
    stored("response_us", "us", "response time of the request"),
)
"""Columns of the table `requests`: one row for each affected request of a finding (at most 50,000 per
finding, evenly spaced), or for each request of a mutation or precursor. A category with two mutations is
listed under both ranks; a precursor is listed once, and the table `precursors` has all mutations whose
precursor it may be."""

METHOD_COLUMN: Final = pa.field(
    "method", pa.string(), nullable=False, metadata={"doc": "method that found it, as --method names it"}
)
"""First column of every stored table: name of the method that made the row, as several methods may share a
table. Filled in when the report is stored."""

REPORT_TABLES: Final = {
    name: arrow_schema(columns).insert(0, METHOD_COLUMN)
    for name, columns in {
        "mutations": MUTATIONS,
        "edges": EDGES,
        "precursors": PRECURSORS,
        "categories": CATEGORIES,
        "requests": REQUESTS,
        "painted": PAINTED,
        "findings": FINDINGS,
        "evidence": EVIDENCE,
        "account": ACCOUNT,
        "suspects": SUSPECTS,
        "kinds": KINDS,
    }.items()
}
"""Table name -> schema of `reports/<id>/<name>.parquet`; a method may add further tables."""
