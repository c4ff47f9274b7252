"""Export the flows of a period, window file by window file, so that memory stays bounded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

import pyarrow as pa
import pyarrow.compute as pc

from analyze.export.dot import dot_graphs
from analyze.export.events import EventForm, events_of_flows
from analyze.export.selection import LIST_CATEGORIES, AskedFlows, SelectedFlows, selection
from analyze.load import read_flow_files, read_stored, read_stored_structures
from analyze.scope import LakePeriod
from ingest.codecs.native.encode_native import native_lines
from ingest.codecs.otlp.encode_otlp import otlp_json_lines
from schemas.errors import NotFoundError
from schemas.lake import FLOWS_SCHEMA, PARAMS_SCHEMA, RECORDS, SPANS

BATCH_FLOWS: Final = 20_000
"""Flows taken at a time: with 100 nodes a flow about 100 MB of events."""


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written, and what was not."""

    flows: int
    without_edge: int = 0
    """Left out of DOT: flows of a single node."""
    not_here: int = 0
    """Requests that a report names and that are not in this lake and period."""


@dataclass(frozen=True, slots=True)
class _Batch:
    flows: pa.Table
    structures: dict[str, dict[str, Any]]
    params: pa.Table


def export_dot(found: LakePeriod, asked: AskedFlows, out: BinaryIO) -> Exported:
    """DOT graphs one after another (B.1b), numbered from 1 to the end.

    Like every export, raises NotFoundError where the period holds no such flow, and what `selection` does.
    """
    wanted = selection(found, asked)
    matched = written = 0
    for batch in _batches(found, wanted, with_params=False):
        for graph in dot_graphs(batch.flows, batch.structures, first=written + 1):
            out.write(graph.encode())
            written += 1
        matched += batch.flows.num_rows
    return Exported(written, matched - written, _missing(wanted, matched))


def export_otlp(found: LakePeriod, asked: AskedFlows, out: BinaryIO) -> Exported:
    """OTLP/JSON, one ExportTraceServiceRequest a line."""
    return _export_events(found, asked, out, EventForm.SPANS)


def export_native(found: LakePeriod, asked: AskedFlows, out: BinaryIO) -> Exported:
    """Native records as NDJSON, happens-before by explicit `parents`."""
    return _export_events(found, asked, out, EventForm.RECORDS)


def _export_events(found: LakePeriod, asked: AskedFlows, out: BinaryIO, form: EventForm) -> Exported:
    encode = otlp_json_lines if form is EventForm.SPANS else native_lines
    wanted = selection(found, asked)
    written = 0
    both_kinds = _ids_of_both_kinds(found)
    for batch in _batches(found, wanted, with_params=True):
        events = events_of_flows(batch.flows, batch.structures, batch.params, form, both_kinds)
        # Events of one request together, in time order: readable, and few spans wait in a reader.
        events = events.sort_by([("request_id", "ascending"), ("ts_ns", "ascending"), ("id", "ascending")])
        for line in encode(events):
            out.write(line + b"\n")
        written += batch.flows.num_rows
    return Exported(written, not_here=_missing(wanted, written))


def _missing(wanted: SelectedFlows | None, matched: int) -> int:
    named = None if wanted is None else wanted.named
    return 0 if named is None else max(named - matched, 0)


def _batches(found: LakePeriod, wanted: SelectedFlows | None, *, with_params: bool) -> Iterator[_Batch]:
    """Flows with what belongs to them, a part of a file at a time."""
    matched = 0
    for path, stored in read_flow_files(found, FLOWS_SCHEMA.names):
        window = path.parent.name
        flows = stored if wanted is None else wanted.of(stored)
        if flows.num_rows == 0:
            continue
        matched += flows.num_rows
        structures = _structures_of(found, window)
        for start in range(0, flows.num_rows, BATCH_FLOWS):
            part = flows.slice(start, BATCH_FLOWS)
            params = (
                _params_of(found, window, part["request_id"]) if with_params else PARAMS_SCHEMA.empty_table()
            )
            yield _Batch(part, structures, params)
    if matched == 0:
        of = "" if wanted is None else f" {wanted.what}"
        where = "" if found.period.where is None else f" where {found.period.where.text}"
        raise NotFoundError(f"No flow{of} in {found.period.text}{where}.", remedy=LIST_CATEGORIES)


def _ids_of_both_kinds(found: LakePeriod) -> pa.Array:
    """Request ids of the period, whatever its filter, with a flow of spans and one of records."""
    spans, records = (
        pa.chunked_array(
            [
                chunk
                for path in found.flows
                for chunk in read_stored(found, path, ["request_id"], where=pc.field("kind") == kind)[
                    "request_id"
                ].chunks
            ],
            pa.string(),
        )
        for kind in (SPANS, RECORDS)
    )
    both: pa.Array = spans.filter(pc.is_in(spans, value_set=records)).combine_chunks()
    return both


def _structures_of(found: LakePeriod, window: str) -> dict[str, dict[str, Any]]:
    """Structures of a window folder, which stands alone, by category."""
    paths = [path for path in found.structures if path.parent.name == window]
    return {row["category"]: row for path in paths for row in read_stored_structures(found, path).to_pylist()}


def _params_of(found: LakePeriod, window: str, request_ids: pa.ChunkedArray) -> pa.Table:
    parts = [
        read_stored(found, path, where=pc.field("request_id").isin(request_ids.combine_chunks()))
        for path in found.params
        if path.parent.name == window
    ]
    return pa.concat_tables(parts).unify_dictionaries() if parts else PARAMS_SCHEMA.empty_table()
