"""Files of the lake: the same rows give the same bytes, and come back as they were."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from oracles.lake_script import flows_table, structures_table

from schemas.lake import FLOWS_SCHEMA, LAYOUT_VERSION, PARAMS_SCHEMA
from schemas.windows import Window
from stitch.lake.encoding import VALUES_PER_GROUP, decode, encode

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
