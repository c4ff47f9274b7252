"""Whatever type a column of a table of spans has, whatever is in it: each row is an event or is counted."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from oracles.codec_contract import check_contract

from ingest.codecs.parquet.parquet import TIME_UNIT, ParquetCodec
from ingest.codecs.port import Decoded
from ingest.files import decode_file
from schemas.config import DecodeConfig, SpanColumns
from schemas.rejects import Reason

CONFIG = DecodeConfig()
N = 6
BAD = 2
"""Row whose span id is none, so that there is always a dead letter."""
SECRET = "geheim"
START = 1_760_000_000_123_456_789
ALIKE = [
    ("trace_id", "span_id", "parent_id"),
    ("start", "end"),
    ("start", "duration"),
    ("kind", "status"),
    ("name", "service", "host", "status_message", "trace_state"),
    ("attributes", "resource_attributes"),
]
"""Fields that are read the same way."""


def not_utf8(type_: pa.DataType) -> pa.Array:
    """Text as Parquet readers give it: nobody looked whether it is UTF-8."""
    return pa.array([b"ok", b"caf\xc3", None, b"a" * 5000, b"", b"\xff" * 8], bytes_of(type_)).view(type_)


def bytes_of(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(type_):
        return pa.binary_view()
    return pa.large_binary() if pa.types.is_large_string(type_) else pa.binary()


def pairs(key: pa.DataType, value: pa.DataType, outer: Callable[[pa.DataType], pa.DataType]) -> pa.Array:
    def cell(text: bytes, type_: pa.DataType) -> Any:
        return text if pa.types.is_binary(type_) else text.decode()

    rows = [[{"k": cell(b"session.token", key), "v": cell(SECRET.encode(), value)}] for _ in range(N)]
    rows[4] = []
    return pa.array([*rows[:5], None], outer(pa.struct({"k": key, "v": value})))


def as_map(column: pa.Array) -> pa.Array:
    pair = column.type.value_type
    rows = [None if row is None else [(each["k"], each["v"]) for each in row] for row in column.to_pylist()]
    return pa.array(rows, pa.map_(pair[0].type, pair[1].type))


TEXT_PAIRS = pairs(pa.string(), pa.string(), pa.list_)
BYTES_PAIRS = pairs(pa.binary(), pa.binary(), pa.list_)
BAD_PAIRS = pa.array(
    [[{"k": b"session.token", "v": b"geheim\xff"}], [{"k": b"\xff", "v": b"v"}], None, [], [], []]
)
WHOLE = [0, 1, None, START, -5, 2**31 - 1]
COLUMNS: dict[str, pa.Array] = {
    "null": pa.nulls(N),
    "bool": pa.array([True, False, None, True, True, False]),
    **{
        str(type_): pa.array([0, 1, None, 7, 100, 127], type_)
        for type_ in (pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32())
    },
    "int64": pa.array([*WHOLE[:4], -(2**63), 2**63 - 1]),
    "uint64": pa.array([*WHOLE[:4], 2**64 - 1, 5], pa.uint64()),
    **{
        str(type_): pa.array([0.0, 2.0, None, float("nan"), float("inf"), -1.5], type_)
        for type_ in (pa.float16(), pa.float32(), pa.float64())
    },
    "decimal128": pa.array(
        [*map(decimal.Decimal, ("0", "1", "1760000000.5", "-3", "9" * 27)), None], pa.decimal128(38, 9)
    ),
    "decimal256": pa.array(
        [decimal.Decimal("9" * 76), *[decimal.Decimal(START)] * 4, None], pa.decimal256(76, 0)
    ),
    "date32": pa.array([datetime.date(2026, 11, 26)] * 5 + [None], pa.date32()),
    "date64": pa.array([datetime.date(2026, 11, 26)] * 5 + [None], pa.date64()),
    **{
        str(type_): pa.array(
            [0, 1, None, 1000, 5, 6], pa.int32() if type_.bit_width == 32 else pa.int64()
        ).cast(type_)
        for type_ in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"))
    },
    **{
        str(type_): pa.array([0, 1, None, START, -(2**63), 2**63 - 1]).cast(type_)
        for unit in ("s", "ms", "us", "ns")
        for type_ in (pa.timestamp(unit), pa.timestamp(unit, "Europe/Vienna"), pa.duration(unit))
    },
    "binary": not_utf8(pa.binary()),
    "string": not_utf8(pa.string()),
    "large_string": not_utf8(pa.large_string()),
    "string_view": not_utf8(pa.string_view()),
    "digits": pa.array(["7" * 5000] * 5 + [None]),
    "fixed_size_binary": pa.array([b"x" * 16] * 5 + [None], pa.binary(16)),
    "uuid": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"y" * 16] * 5 + [None], pa.binary(16))),
    "dictionary": pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 3, 0, 0]), not_utf8(pa.string())),
    "dictionary of times": pa.array([START] * N, pa.timestamp("ns")).dictionary_encode(),
    "list": pa.array([[1], [], None, [2], [3], [4]]),
    "list of text": pa.array([[f"session.token={SECRET}"]] * N),
    "struct": pa.array([{"session.token": SECRET}] * 5 + [None]),
    "text pairs": TEXT_PAIRS,
    "bytes pairs": BYTES_PAIRS,
    "large pairs": pairs(pa.large_string(), pa.large_string(), pa.large_list),
    "bad pairs": BAD_PAIRS,
    "text map": as_map(TEXT_PAIRS),
    "bytes map": as_map(BYTES_PAIRS),
    "bad map": pa.array(
        [[(b"session.token", b"geheim\xff")], [(b"\xff", b"v")], None, [], [], []],
        pa.map_(pa.binary(), pa.binary()),
    ),
    "map of lists": pa.array(
        [[("session.token", [SECRET])]] * N, pa.map_(pa.string(), pa.list_(pa.string()))
    ),
    "map of nothing": pa.array([[("session.token", None)]] * N, pa.map_(pa.string(), pa.null())),
    "map of decimals": pa.array(
        [[("n", decimal.Decimal("1.5"))]] * N, pa.map_(pa.string(), pa.decimal128(9, 2))
    ),
    "map of times": pa.array([[("n", START)]] * N, pa.map_(pa.string(), pa.int64())).cast(
        pa.map_(pa.string(), pa.timestamp("ns"))
    ),
    "list of null pairs": pa.array([[{"k": "a", "v": "b"}, None], [{"k": None, "v": "c"}], None, [], [], []]),
}


def sound(**other: pa.Array) -> dict[str, pa.Array]:
    """Six spans, one of which has no id."""
    return {
        "trace_id": pa.array([f"{row + 1:032x}" for row in range(N)]),
        "span_id": pa.array(["no id" if row == BAD else f"{row + 1:016x}" for row in range(N)]),
        "parent_id": pa.array([""] * N),
        "name": pa.array(["a"] * N),
        "start": pa.array([START] * N),
        "attributes": TEXT_PAIRS,
        **other,
    }


def decode(columns: dict[str, pa.Array]) -> Decoded:
    schema = pa.schema(
        [pa.field(name, column.type) for name, column in columns.items()], metadata={TIME_UNIT: "ns"}
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as stream:
        stream.write_batch(pa.record_batch([*columns.values()], schema=schema))
    decoded = ParquetCodec().decode([sink.getvalue().to_pybytes()], CONFIG)
    check_contract(decoded.events)
    assert decoded.events.num_rows + sum(decoded.refused.values()) == N
    assert decoded.rejects
    for reject in decoded.rejects:
        for form in (SECRET, SECRET.encode().hex()):
            assert form.encode() not in (reject.raw or b"")
    return decoded


def test_each_row_of_any_column_is_an_event_or_counted() -> None:
    assert {field for fields in ALIKE for field in fields} == {*SpanColumns.model_fields} - {"time_unit"}
    for fields in ALIKE:
        for column in COLUMNS.values():
            decode(sound(**dict.fromkeys(fields, column)))


@pytest.mark.parametrize("kind", ["text pairs", "bytes pairs", "large pairs", "text map", "bytes map"])
def test_a_dead_letter_has_attributes_by_name(kind: str) -> None:
    (reject,) = decode(sound(attributes=COLUMNS[kind])).rejects
    assert b'"session.token":"[redacted]"' in (reject.raw or b"")


def test_text_that_is_not_utf8_costs_its_row() -> None:
    for field, column in (("name", "string"), ("status", "binary"), ("attributes", "bad map")):
        decoded = decode(sound(**{field: COLUMNS[column]}))
        bad = [reject.item for reject in decoded.rejects if reject.reason is Reason.NOT_UTF8]
        assert bad == ([0, 1] if field == "attributes" else [1, 5])
        assert decoded.events.num_rows == N - len(bad) - 1


@pytest.mark.parametrize("digits", [16, 32])
def test_ids_in_bytes_are_read_row_by_row(digits: int) -> None:
    texts = [b"%0*x" % (digits, row + 1) for row in range(N)]
    texts[4] = b"zz"
    decoded = decode(sound(trace_id=pa.array(texts)))
    assert [reject.item for reject in decoded.rejects] == [BAD, 4]
    assert decoded.events["request_id"].to_pylist() == [texts[row].decode() for row in (0, 1, 3, 5)]


def test_decimal_times_are_exact() -> None:
    times = [START + row for row in range(N)]
    for type_ in (pa.decimal128(38, 0), pa.decimal256(76, 3)):
        decoded = decode(sound(start=pa.array([*map(decimal.Decimal, times)], type_)))
        assert decoded.events["ts_ns"].to_pylist() == [START + row for row in range(N) if row != BAD]


def test_a_column_of_nothing_is_a_column_that_is_not_there() -> None:
    for field in ("parent_id", "status_message", "kind", "host", "end", "resource_attributes"):
        assert decode(sound(**{field: pa.nulls(N)})).events.num_rows == N - 1


N_LONG, LONG = 300, "x" * 10_000
OF_TEXT = pa.dictionary(pa.int32(), pa.string())


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("StatusMessage", pa.array([LONG] * N_LONG)),
        ("StatusMessage", pa.array([LONG] * N_LONG).dictionary_encode()),
        ("SpanAttributes", pa.array([[("k", LONG)]] * N_LONG, pa.map_(pa.string(), OF_TEXT))),
    ],
)
def test_a_table_is_cut_by_what_its_rows_hold(tmp_path: Path, name: str, column: pa.Array) -> None:
    """A text that repeats takes no room in the file, and none in a dictionary."""
    n = N_LONG
    columns = {
        "TraceId": pa.array([f"{row + 1:032x}" for row in range(n)]),
        "SpanId": pa.array([f"{row + 1:016x}" for row in range(n)]),
        "ParentSpanId": pa.nulls(n),
        "SpanName": pa.array(["a"] * n),
        "Timestamp": pa.array([START] * n),
        name: column,
    }
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    batches = [*decode_file(tmp_path / "a.parquet", None, CONFIG, chunk_bytes=2**18, batch_events=1)]
    assert sum(batch.events.num_rows for batch in batches) == n
    assert max(batch.events.num_rows for batch in batches) <= 2 * 2**18 // 10_000


def test_a_column_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    columns = {"SpanName": pa.array(["a"]), **{name: pa.array(["b"]) for name in ("TraceId", "SpanId")}}
    columns |= {"ParentSpanId": pa.nulls(1), "Timestamp": pa.array([START])}
    table = pa.Table.from_arrays([*columns.values(), pa.array(["c"])], names=[*columns, "SpanName"])
    pq.write_table(table, tmp_path / "a.parquet")
    (batch,) = decode_file(tmp_path / "a.parquet", None, CONFIG)
    (reject,) = batch.rejects.to_pylist()
    assert (reject["reason"], reject["detail"]) == (Reason.WRONG_SHAPE, "the table has 'SpanName' 2 times")
