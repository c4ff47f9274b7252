"""Files of the lake: the same rows give the same bytes, and come back as they were."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from oracles.lake_script import flows_table, structures_table

from schemas.errors import TRY_AGAIN
from schemas.lake import FLOWS_SCHEMA, LAYOUT_VERSION, PARAMS_SCHEMA, TABLES
from schemas.stored_columns import FIELD_ID
from schemas.windows import Window
from stitch.lake.encoding import SCHEMAS, VALUES_PER_GROUP, decode, encode, read_rows, unreadable

WINDOW = Window.from_name("20260101T0000Z", 300 * 10**9)


def test_rows_come_back_as_they_were() -> None:
    flows = flows_table(["a", "b"], [5, -7])
    assert decode("flows", encode("flows", flows, WINDOW)).to_pylist() == flows.to_pylist()
    structures = structures_table()
    assert (
        decode("structures", encode("structures", structures, WINDOW)).to_pylist() == structures.to_pylist()
    )


def test_bytes_do_not_depend_on_chunks_and_dictionaries() -> None:
    whole = flows_table(["a", "b", "c"], [1, 2, 3])
    parts = pa.concat_tables([flows_table(["a"], [1]), flows_table(["b", "c"], [2, 3])])
    other_words = pa.array(["zzz", "ok"]).dictionary_encode().slice(1, 1)
    status = pa.chunked_array([pa.concat_arrays([other_words] * 3).cast(FLOWS_SCHEMA.field("status").type)])
    relabelled = whole.set_column(whole.schema.get_field_index("status"), "status", status)
    sliced = flows_table(["x", "a", "b", "c", "y"], [9, 1, 2, 3, 9]).slice(1, 3)
    expected = encode("flows", whole, WINDOW)
    for table in (parts, relabelled, sliced):
        assert encode("flows", table, WINDOW).equals(expected)


def test_a_file_says_what_it_is_and_any_tool_reads_it() -> None:
    file = pq.ParquetFile(pa.BufferReader(encode("flows", flows_table(["a"], [1]), WINDOW)))
    metadata = file.metadata.metadata
    assert metadata[b"flowdiff.layout_version"] == str(LAYOUT_VERSION).encode()
    assert metadata[b"flowdiff.table"] == b"flows"
    assert metadata[b"flowdiff.window"] == b"20260101T0000Z"
    assert metadata[b"flowdiff.rows"] == b"1"
    column = file.metadata.row_group(0).column(file.schema.names.index("request_id"))
    assert column.compression == "ZSTD"


def test_row_groups_are_bounded_by_nodes() -> None:
    n = 2_000
    nodes = VALUES_PER_GROUP // 1_000
    one = flows_table(["a"], [1]).to_pylist()[0]
    wide = pa.Table.from_pylist([{**one, "offset_ns": [0] * nodes, "host": []}], schema=FLOWS_SCHEMA)
    flows = pa.concat_tables([wide] * n)
    metadata = pq.read_metadata(pa.BufferReader(encode("flows", flows, WINDOW)))
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [1_000, 1_000]


def test_lists_of_words_are_read_as_codes_from_several_row_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A window of more than four million spans has several, each with a dictionary of its own."""
    monkeypatch.setattr("stitch.lake.encoding.VALUES_PER_GROUP", 10)
    one = flows_table(["a"], [1]).to_pylist()[0]
    rows = [{**one, "start_ns": n, "host": [f"host{n % 7}", None]} for n in range(40)]
    table = pa.Table.from_pylist(rows, schema=FLOWS_SCHEMA)
    path = tmp_path / "0.parquet"
    path.write_bytes(encode("flows", table, WINDOW))
    assert pq.read_metadata(path).num_row_groups > 3

    read = read_rows(path, ["start_ns", "host"], lake=tmp_path, as_codes=["host.list.element"])
    assert pa.types.is_dictionary(read.schema.field("host").type.value_type)
    assert read["host"].to_pylist() == table["host"].to_pylist()
    assert read["start_ns"].to_pylist() == table["start_ns"].to_pylist()


@pytest.mark.parametrize("as_codes", [(), ("request_id", "kind", "key", "text")])
@pytest.mark.parametrize(
    "among",
    [{"key": ["b"]}, {"key": ["b", "c"], "request_id": ["r1", "r30"]}, {"key": ["none"]}, {"request_id": []}],
)
def test_rows_with_some_texts_are_read_from_several_row_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, among: dict[str, list[str]], as_codes: tuple[str, ...]
) -> None:
    monkeypatch.setattr("stitch.lake.encoding.VALUES_PER_GROUP", 10)
    rows = [
        {"request_id": f"r{n}", "kind": "spans", "position": n, "key": "abc"[n % 3], "num": None, "text": "t"}
        for n in range(40)
    ]
    path = tmp_path / "0.parquet"
    path.write_bytes(encode("params", pa.Table.from_pylist(rows, schema=PARAMS_SCHEMA), WINDOW))
    given = {name: pa.array(texts, pa.string()) for name, texts in among.items()}
    names = ["position", "key", "request_id"]
    read = read_rows(path, names, lake=tmp_path, as_codes=as_codes, among=given)
    assert read.column_names == names
    expected = [row for row in rows if all(row[name] in texts for name, texts in among.items())]
    assert read.to_pylist() == [{name: row[name] for name in names} for row in expected]


def test_empty_and_null_values_survive() -> None:
    params = pa.Table.from_pylist(
        [
            {"request_id": "a", "kind": "spans", "position": 0, "key": "k", "num": None, "text": ""},
            {
                "request_id": "a",
                "kind": "spans",
                "position": 1,
                "key": "k",
                "num": float("nan"),
                "text": None,
            },
        ],
        schema=PARAMS_SCHEMA,
    )
    back = decode("params", encode("params", params, WINDOW))
    assert back["text"].to_pylist() == ["", None]
    assert str(back["num"].to_pylist()) == "[None, nan]"
    assert decode("flows", encode("flows", FLOWS_SCHEMA.empty_table(), WINDOW)).num_rows == 0


def test_a_table_that_breaks_the_contract_is_a_bug() -> None:
    with pytest.raises(KeyError):
        encode("flows", structures_table(), WINDOW)


@pytest.mark.parametrize("table", sorted(SCHEMAS))
def test_every_column_has_a_number_for_life_and_a_type_that_every_engine_reads(table: str) -> None:
    found = pq.read_schema(pa.BufferReader(_encoded(table)))
    stored = [*_stored(found)]
    assert stored == [*_stored(SCHEMAS[table])]
    numbers = [number for number, *_ in stored]
    assert sorted(numbers) == [*range(1, len(numbers) + 1)]
    assert [int(field.metadata[FIELD_ID]) for field in found] == [*range(1, len(found) + 1)]
    assert not [name for _, name, type_ in stored if type_.startswith("uint")]


@pytest.mark.parametrize("table", sorted(TABLES))
def test_files_of_windows_say_their_window_in_a_column_and_in_the_footer(table: str) -> None:
    data = pa.BufferReader(_encoded(table))
    start = datetime(2026, 1, 1, tzinfo=UTC)
    assert pq.read_table(data, columns=["window_start"])["window_start"].to_pylist() == [start]
    metadata = pq.read_metadata(data)
    columns = [metadata.row_group(0).column(at) for at in range(metadata.num_columns)]
    statistics = next(c.statistics for c in columns if c.path_in_schema == "window_start")
    assert (statistics.min, statistics.max, statistics.null_count) == (start, start, 0)


def _encoded(table: str) -> pa.Buffer:
    """A file of the table, with one row where it is a table of windows."""
    param = {"request_id": "a", "kind": "spans", "position": 0, "key": "k", "num": 1.0, "text": None}
    rows = {
        "flows": flows_table(["a"], [1]),
        "structures": structures_table(),
        "params": pa.Table.from_pylist([param], schema=PARAMS_SCHEMA),
    }
    if table in rows:
        return encode(table, rows[table], WINDOW)
    return encode(table, SCHEMAS[table].empty_table(), None)


def _stored(fields: Iterable[pa.Field], above: str = "") -> Iterator[tuple[int, str, str]]:
    """Number, path and type of every field with those inside it; of words that of their text."""
    for field in fields:
        path, type_ = f"{above}{field.name}", field.type
        if pa.types.is_dictionary(type_):
            type_ = type_.value_type
        inner = [type_.field(at) for at in range(type_.num_fields)]
        yield int(field.metadata[FIELD_ID]), path, "nested" if inner else str(type_)
        yield from _stored(inner, f"{path}.")


def test_a_file_that_nobody_gives_now_is_not_damaged() -> None:
    """A store that is away says nothing about the file: no advice to look for damage, and another try."""
    away = OSError(errno.ETIMEDOUT, "the store did not answer in time", "s3://b/l/x")
    told = unreadable("s3://b/l", "flows/x.parquet", error=away)
    assert told.exit_code == TRY_AGAIN
    assert (
        str(told)
        == "'s3://b/l/flows/x.parquet' cannot be read: the store did not answer in time. [unreachable]"
    )
    gone = unreadable("s3://b/l", "flows/x.parquet", error=FileNotFoundError(errno.ENOENT, "it is not there"))
    assert (gone.exit_code, gone.remedy) == (2, "Run `flowdiff fsck s3://b/l`.")
