"""Jaeger spans in protobuf's JSON form, as the Collector's Kafka exporter writes `jaeger_json`: columns.

pyarrow.json reads all spans at once if they are spelt as that exporter spells them; they come out nested as
those of protobuf messages, and `jaeger_columns` reads both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from ingest.codecs.jaeger.jaeger_columns import span_columns
from ingest.codecs.spans.json_runs import json_table
from ingest.codecs.spans.span_batch import SpanBatch
from ingest.codecs.values.nested import ragged
from ingest.codecs.values.proto_json import bytes_of_base64, durations_ns, times_ns
from schemas.arrays import I8

PROTO_START: Final = b'{"traceId":'
"""The first field of a span, as that exporter writes it; the UI's JSON has `traceID`."""
TAG_TYPES: Final = {"STRING": 0, "BOOL": 1, "INT64": 2, "FLOAT64": 3, "BINARY": 4}
REFERENCE_TYPES: Final = {"CHILD_OF": 0, "FOLLOWS_FROM": 1}

_TEXT = pa.string()
_TAGS = pa.list_(
    pa.struct(
        [
            ("key", _TEXT),
            ("vType", _TEXT),
            ("vStr", _TEXT),
            ("vBool", pa.bool_()),
            ("vInt64", _TEXT),
            # NaN and infinities are text: a span that has one is read item by item.
            ("vFloat64", pa.float64()),
            ("vBinary", _TEXT),
        ]
    )
)
_PARSE = pj.ParseOptions(
    explicit_schema=pa.schema(
        [
            ("traceId", _TEXT),
            ("spanId", _TEXT),
            ("operationName", _TEXT),
            (
                "references",
                pa.list_(pa.struct([("traceId", _TEXT), ("spanId", _TEXT), ("refType", _TEXT)])),
            ),
            ("startTime", _TEXT),
            ("duration", _TEXT),
            ("tags", _TAGS),
            ("logs", pa.list_(pa.struct([("timestamp", _TEXT), ("fields", _TAGS)]))),
            ("process", pa.struct([("serviceName", _TEXT), ("tags", _TAGS)])),
        ]
    ),
    unexpected_field_behavior="ignore",
)


def proto_json_columns(texts: Sequence[bytes], run: list[int]) -> SpanBatch | None:
    """Span columns of the plain objects `run`, one span each (`payload`: index of the text).

    None if they are spelt otherwise.
    """
    try:
        table = json_table([texts[i] for i in run], _PARSE).combine_chunks()
        if table.num_rows != len(run):
            return None
        spans = span_columns(
            _as_messages({name: table[name].combine_chunks() for name in table.column_names})
        )
    except pa.ArrowInvalid:
        return None
    return replace(spans, payload=np.array(run, np.int64)[spans.payload])


def _as_messages(of: dict[str, pa.Array]) -> pa.RecordBatch:
    """The columns under the names and types that protobuf messages have. Raises pyarrow.ArrowInvalid."""
    references_lengths, references = _elements(of["references"])
    logs_lengths, logs = _elements(of["logs"])
    process = of["process"]
    return pa.record_batch(
        {
            "trace_id": bytes_of_base64(of["traceId"]),
            "span_id": bytes_of_base64(of["spanId"]),
            "operation_name": pc.fill_null(of["operationName"], ""),
            "references": _listed(
                references_lengths,
                {
                    "trace_id": bytes_of_base64(pc.struct_field(references, "traceId")),
                    "span_id": bytes_of_base64(pc.struct_field(references, "spanId")),
                    "ref_type": _codes(pc.struct_field(references, "refType"), REFERENCE_TYPES),
                },
            ),
            "start_time": _seconds(times_ns(of["startTime"])),
            "duration": _seconds(durations_ns(of["duration"])),
            "tags": _tags(of["tags"]),
            "logs": _listed(
                logs_lengths,
                {
                    "timestamp": _seconds(times_ns(pc.struct_field(logs, "timestamp"))),
                    "fields": _tags(pc.struct_field(logs, "fields")),
                },
            ),
            "process": _struct(
                {
                    "service_name": pc.fill_null(pc.struct_field(process, "serviceName"), ""),
                    "tags": _tags(pc.struct_field(process, "tags")),
                }
            ),
        }
    )


def _tags(column: pa.Array) -> pa.Array:
    lengths, pairs = _elements(column)
    of = {name: pc.struct_field(pairs, name) for name in ("key", "vStr", "vBool", "vInt64", "vFloat64")}
    return _listed(
        lengths,
        {
            "key": pc.fill_null(of["key"], ""),
            "v_type": _codes(pc.struct_field(pairs, "vType"), TAG_TYPES),
            "v_str": pc.fill_null(of["vStr"], ""),
            "v_bool": pc.fill_null(of["vBool"], False),
            "v_int64": pc.fill_null(pc.cast(of["vInt64"], pa.int64()), 0),
            "v_float64": pc.fill_null(of["vFloat64"], 0.0),
            "v_binary": pc.fill_null(bytes_of_base64(pc.struct_field(pairs, "vBinary")), b""),
        },
    )


def _elements(column: pa.Array) -> tuple[I8, pa.Array]:
    """`ragged`, of a list none of whose elements is null."""
    lengths, values = ragged(column)
    if values.null_count:
        raise pa.ArrowInvalid("an element is null")
    return lengths, values


def _listed(lengths: I8, fields: dict[str, pa.Array]) -> pa.Array:
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), _struct(fields))


def _struct(fields: dict[str, pa.Array]) -> pa.Array:
    return pa.StructArray.from_arrays(list(fields.values()), list(fields))


def _codes(names: pa.Array, codes: dict[str, int]) -> pa.Array:
    """Numbers of an enum; its first value where it is absent."""
    found = pc.index_in(names, pa.array(list(codes)))
    if found.null_count > names.null_count:
        raise pa.ArrowInvalid("no value of the enum")
    return pc.fill_null(found, 0)


def _seconds(ns: I8) -> pa.Array:
    """ns as seconds and the nanoseconds above them."""
    return _struct({"seconds": pa.array(ns // 10**9), "nanos": pa.array((ns % 10**9).astype(np.int32))})
