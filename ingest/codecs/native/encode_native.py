"""Encode events as native NDJSON, for export and tests. Decoding the result gives equal events."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from schemas.errors import InputError
from schemas.events import SPAN_KIND_BASE, EventKind, with_text_ids

_PLAIN = ("breadcrumb", "request_id", "component", "point", "host", "label", "links", "seq", "id", "parents")


def native_lines(events: pa.Table) -> Iterator[bytes]:
    """Yield one line of JSON, without line end, per event (EVENT_SCHEMA): a native record.

    Boolean parameters are written as the strings `true` and `false`, as events store them. Raises InputError
    on spans, and on records without a strand.
    """
    if events.num_rows and pc.max(events["kind"]).as_py() >= SPAN_KIND_BASE:
        raise InputError("Spans are no activity records.", remedy="Write them as OTLP.")
    if events["breadcrumb"].null_count:
        raise InputError(
            "Events without a breadcrumb (X-Trace) have no native form.", remedy="Export them as DOT."
        )
    for batch in events.to_batches(max_chunksize=10_000):
        for row in with_text_ids(pa.Table.from_batches([batch])).to_pylist():
            record = {name: row[name] for name in _PLAIN if row[name] is not None}
            record["ts"] = row["ts_ns"]
            if row["kind"] != EventKind.EVENT:
                record["kind"] = EventKind(row["kind"]).name.lower()
            if row["status"] != "ok":
                record["status"] = row["status"]
            if row["sample_rate"] is not None:
                record["sample_rate"] = row["sample_rate"]
            if row["params"]:
                record["params"] = {
                    p["key"]: p["text"] if p["num"] is None else p["num"] for p in row["params"]
                }
            yield msgspec.json.encode(record)
