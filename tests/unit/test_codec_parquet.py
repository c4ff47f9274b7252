"""Tables of spans: whatever types their columns have, the events of the same spans in OTLP."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from oracles.codec_contract import check_contract
from oracles.traffic import otlp_messages

from ingest.codecs.otlp.otlp_proto import OtlpProtoCodec
from ingest.codecs.parquet.parquet import ParquetCodec
from ingest.codecs.values.ids import binary_parts
from ingest.files import decode_file
from schemas.config import DecodeConfig, SpanColumns
from schemas.events import concat_events
from schemas.rejects import Reason

CONFIG = DecodeConfig()
TEXT_MAP = pa.map_(pa.string(), pa.string())
Column = Callable[[list[Any]], pa.Array]


def rows() -> tuple[pa.Table, list[dict[str, Any]]]:
    """Events of a few hundred spans, and the spans as rows, read by protobuf's own parser."""
    messages = list(otlp_messages(12))
    found = []
    for message in messages:
        for resource in ExportTraceServiceRequest.FromString(message).resource_spans:
            about = {each.key: each.value.string_value for each in resource.resource.attributes}
            for scope in resource.scope_spans:
                for span in scope.spans:
                    attributes = {
                        each.key: each.value.string_value or str(each.value.int_value)
                        for each in span.attributes
                    }
                    found.append({"span": span, "about": about, "attributes": attributes})
    return OtlpProtoCodec().decode(messages, CONFIG).events, found


EVENTS, SPANS = rows()


def clickhouse(**other: pa.Array | None) -> pa.Table:
    """A table as the Collector's exporter makes it in ClickHouse; `other` columns in place of those."""
    spans = [each["span"] for each in SPANS]
    n = len(spans)
    columns = {
        "Timestamp": pa.array([span.start_time_unix_nano for span in spans], pa.timestamp("ns", "UTC")),
        "TraceId": pa.array([span.trace_id.hex() for span in spans]),
        "SpanId": pa.array([span.span_id.hex() for span in spans]),
        "ParentSpanId": pa.array([span.parent_span_id.hex() for span in spans]),
        "TraceState": pa.array([""] * n),
        "SpanName": pa.array([span.name for span in spans]).dictionary_encode(),
        "SpanKind": pa.array(["Server"] * n).dictionary_encode(),
        "ServiceName": pa.array([each["about"]["service.name"] for each in SPANS]),
        "ResourceAttributes": pa.array([[*each["about"].items()] for each in SPANS], TEXT_MAP),
        "ScopeName": pa.array([""] * n),
        "SpanAttributes": pa.array([[*each["attributes"].items()] for each in SPANS], TEXT_MAP),
        "Duration": pa.array(
            [span.end_time_unix_nano - span.start_time_unix_nano for span in spans], pa.uint64()
        ),
        "StatusCode": pa.array(["Unset"] * n),
        "StatusMessage": pa.array([""] * n),
    }
    columns |= other
    return pa.table({name: column for name, column in columns.items() if column is not None})


def read(
    table: pa.Table, folder: Path, columns: SpanColumns | None = None, **how: Any
) -> tuple[pa.Table, list[dict[str, Any]], int]:
    """(events, dead letters, how many were refused)."""
    pq.write_table(table, folder / "spans.parquet", row_group_size=100)
    batches = [*decode_file(folder / "spans.parquet", None, CONFIG, columns=columns or SpanColumns(), **how)]
    events = concat_events([batch.events for batch in batches])
    check_contract(events)
    rejects = pa.concat_tables([batch.rejects for batch in batches]).to_pylist()
    return events, rejects, sum(batch.refused.total() for batch in batches)


def test_a_table_of_clickhouse_reads_as_otlp_does(tmp_path: Path) -> None:
    events, rejects, _ = read(clickhouse(), tmp_path, chunk_bytes=4_000)
    assert not rejects
    assert events.to_pylist() == EVENTS.to_pylist()


def test_text_that_is_written_as_bytes_reads_as_text(tmp_path: Path) -> None:
    """As ClickHouse wrote it by default until 2023."""
    table = clickhouse()
    of_bytes = pa.map_(pa.binary(), pa.binary())
    columns = {
        name: column.cast(pa.binary())
        if pa.types.is_string(column.type)
        else column.cast(of_bytes)
        if pa.types.is_map(column.type)
        else column
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
    events, rejects, _ = read(pa.table(columns), tmp_path)
    assert not rejects
    assert events.to_pylist() == EVENTS.to_pylist()


NS = [span["span"].start_time_unix_nano for span in SPANS]
US = [ns // 1000 * 1000 for ns in NS]
ENDS = [span["span"].end_time_unix_nano for span in SPANS]


@pytest.mark.parametrize(
    ("other", "columns"),
    [
        (
            {
                "TraceId": pa.array([each["span"].trace_id for each in SPANS], pa.binary(16)),
                "SpanId": pa.array([each["span"].span_id for each in SPANS], pa.large_binary()),
                "ParentSpanId": pa.array(
                    [each["span"].parent_span_id or None for each in SPANS], pa.binary()
                ),
            },
            {},
        ),
        (
            {
                "TraceId": pa.array([each["span"].trace_id.hex().encode() for each in SPANS]),
                "SpanId": pa.array([each["span"].span_id.hex().upper() for each in SPANS], pa.large_string()),
            },
            {},
        ),
        (
            {"Timestamp": None, "Duration": None, "start": pa.array(NS), "end": pa.array(ENDS, pa.uint64())},
            {"start": "start", "end": "end"},
        ),
        ({"SpanKind": pa.array([2] * len(SPANS), pa.int8()), "StatusCode": pa.array([1] * len(SPANS))}, {}),
        ({"SpanKind": pa.array(["SPAN_KIND_SERVER"] * len(SPANS)), "TraceState": None}, {}),
        (
            {
                "ServiceName": None,  # is a resource attribute as well
                "StatusCode": None,
                "StatusMessage": None,
                "SpanAttributes": pa.array(
                    [[{"k": key, "v": value} for key, value in each["attributes"].items()] for each in SPANS],
                    pa.list_(pa.struct({"k": pa.string(), "v": pa.string()})),
                ),
            },
            {},
        ),
        (
            {
                "ResourceAttributes": None,
                "pod": pa.array([each["about"]["host.name"] for each in SPANS]),
            },
            {"host": "pod"},
        ),
    ],
)
def test_columns_of_other_types_and_names_read_alike(
    tmp_path: Path, other: dict[str, pa.Array | None], columns: dict[str, str]
) -> None:
    events, rejects, _ = read(clickhouse(**other), tmp_path, SpanColumns.model_validate(columns))
    assert not rejects
    assert events.to_pylist() == EVENTS.to_pylist()


@pytest.mark.parametrize(
    ("start", "columns"),
    [
        (pa.array([us // 1000 for us in US]), {"time_unit": "us"}),
        (pa.array(US, pa.timestamp("us")), {}),
        (pa.array([us // 1000 for us in US], pa.timestamp("us", "Europe/Vienna")), {}),
    ],
)
def test_times_are_read_by_their_unit(tmp_path: Path, start: pa.Array, columns: dict[str, str]) -> None:
    if pa.types.is_timestamp(start.type):
        start = pa.array([us // 1000 for us in US]).cast(start.type)
    table = clickhouse(Timestamp=start, Duration=pa.array([7] * len(US)))
    events, _, _ = read(table, tmp_path, SpanColumns.model_validate(columns))
    assert events["ts_ns"].to_pylist() == US
    length_ns = 7_000 if columns else 7
    assert events["end_ns"].to_pylist() == [us + length_ns for us in US]


def test_seconds_may_have_fractions(tmp_path: Path) -> None:
    table = clickhouse(
        Timestamp=pa.array([1_760_000_000.5] * len(US)), Duration=pa.array([0.25] * len(US), pa.float32())
    )
    events, _, _ = read(table, tmp_path, SpanColumns(time_unit="s"))
    assert {*events["ts_ns"].to_pylist()} == {1_760_000_000_500_000_000}
    assert {*events["end_ns"].to_pylist()} == {1_760_000_000_750_000_000}


def test_failures_and_attributes_that_are_numbers(tmp_path: Path) -> None:
    n = len(SPANS)
    for status in (["Error"] * n, ["STATUS_CODE_ERROR"] * n, [2] * n, [True] * n):
        table = clickhouse(
            StatusCode=pa.array(status),
            SpanAttributes=pa.array([[("Size", 1.5)]] * n, pa.map_(pa.string(), pa.float64())),
        )
        events, _, _ = read(table, tmp_path)
        assert {*events["status"].to_pylist()} == {"error"}
        assert [params[0] for params in events["params"].to_pylist()] == [
            {"key": "Size", "num": 1.5, "text": None}
        ] * n


def test_rows_that_are_no_spans_cost_no_others_and_show_no_secrets(tmp_path: Path) -> None:
    n = len(SPANS)
    ids, times = [each["span"].span_id.hex() for each in SPANS], [*NS]
    ids[3], ids[150], times[7] = "no id", None, 5
    attributes = [[("user", "u"), ("session.token", "geheim")]] * n
    table = clickhouse(
        SpanId=pa.array(ids),
        Timestamp=pa.array(times, pa.timestamp("ns")),
        SpanAttributes=pa.array(attributes, TEXT_MAP),
    )
    events, rejects, refused = read(table, tmp_path, chunk_bytes=4_000)
    assert events.num_rows == n - 3
    assert refused == 3
    assert [(each["position"] + each["item"], each["reason"]) for each in rejects] == [
        (3, Reason.BAD_ID),
        (7, Reason.BAD_TIME),
        (150, Reason.MISSING_FIELD),
    ]
    for each in rejects:
        assert b'"user"' in each["raw"]
        assert b"geheim" not in each["raw"]


@pytest.mark.parametrize(
    ("other", "columns", "reason", "told"),
    [
        ({"TraceId": None}, {}, Reason.MISSING_FIELD, "no column 'TraceId' (trace_id); it has Timestamp"),
        ({}, {"status": "state"}, Reason.MISSING_FIELD, "no column 'state' (status)"),
        ({"Timestamp": pa.array(["now"] * len(SPANS))}, {}, Reason.BAD_TYPE, "'start' is string, and not a"),
        ({"SpanName": pa.array([1] * len(SPANS))}, {}, Reason.BAD_TYPE, "'name' is int64, and not text"),
        (
            {"SpanAttributes": pa.array(["{}"] * len(SPANS))},
            {},
            Reason.BAD_TYPE,
            "'attributes' is string, and not a map",
        ),
        ({"SpanKind": pa.array([[1]] * len(SPANS))}, {}, Reason.BAD_TYPE, "'kind' is list<"),
    ],
)
def test_a_table_that_says_nothing_is_refused_with_the_column(
    tmp_path: Path, other: dict[str, pa.Array | None], columns: dict[str, str], reason: Reason, told: str
) -> None:
    events, rejects, refused = read(clickhouse(**other), tmp_path, SpanColumns.model_validate(columns))
    assert events.num_rows == 0
    assert {each["reason"] for each in rejects} == {reason}
    assert told in rejects[0]["detail"]
    assert refused == (1 if reason is Reason.MISSING_FIELD else len(SPANS))


def test_a_damaged_file_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    read(clickhouse(), tmp_path)
    data = bytearray((tmp_path / "spans.parquet").read_bytes())
    whole = bytes(data)
    data[len(data) // 2 : len(data) // 2 + 200] = bytes(200)
    for damaged in (bytes(data), whole[: len(whole) // 2]):
        (tmp_path / "spans.parquet").write_bytes(damaged)
        batches = [*decode_file(tmp_path / "spans.parquet", None, CONFIG, chunk_bytes=4_000)]
        (reject,) = pa.concat_tables([batch.rejects for batch in batches]).to_pylist()
        assert reject["reason"] == Reason.WRONG_SHAPE
        assert "cannot be read to its end" in reject["detail"]
        assert sum(batch.events.num_rows for batch in batches) < len(SPANS)


def test_an_empty_table_is_empty(tmp_path: Path) -> None:
    _, (reject,), _ = read(clickhouse().slice(0, 0), tmp_path)
    assert reject["reason"] == Reason.EMPTY


def test_times_that_no_number_holds_are_dead_letters(tmp_path: Path) -> None:
    n = len(SPANS)
    for duration in (
        pa.array([2**63 - 1] * n),
        pa.array([2**64 - 1] * n, pa.uint64()),
        pa.array([np.inf] * n),
    ):
        events, rejects, _ = read(clickhouse(Duration=duration), tmp_path)
        assert events.num_rows == 0
        assert {each["reason"] for each in rejects} == {Reason.BAD_TIME}


def test_payloads_that_are_no_rows() -> None:
    decoded = ParquetCodec().decode([b"hello", b"", b"\xff\xff\xff\xff\x10\0\0\0" + bytes(16)], CONFIG)
    assert decoded.events.num_rows == 0
    assert [each.reason for each in decoded.rejects] == [Reason.WRONG_SHAPE, Reason.EMPTY, Reason.WRONG_SHAPE]


def test_offsets_of_another_writer_may_be_followed_by_anything() -> None:
    offsets = np.array([0, 2, 2, 5], np.int32).tobytes()
    text = pa.StringArray.from_buffers(3, pa.py_buffer(offsets + b"\1"), pa.py_buffer(b"abcde"))
    for column, expected in ((text, [0, 2, 2, 5]), (text[1:], [2, 2, 5]), (text[:0], [0])):
        assert binary_parts(column)[0].tolist() == expected
    none = pa.StringArray.from_buffers(0, pa.py_buffer(b""), pa.py_buffer(b""))
    assert binary_parts(none)[0].tolist() == [0]
