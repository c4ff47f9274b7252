"""Pages of statistics beside Arrow, and tables of keys beside a dictionary."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.examples import examples

from analyze.profile.encoding import WRITTEN
from analyze.profile.leaf_numbers import leaf_numbers
from analyze.profile.numbering import Keys, KeyTable
from ingest.codecs.parquet.pages import PageError

NUMBERS = {
    pa.int16(): st.integers(-(1 << 15), (1 << 15) - 1),
    pa.int32(): st.integers(-(1 << 31), (1 << 31) - 1),
    pa.int64(): st.integers(-(1 << 63), (1 << 63) - 1),
    pa.float64(): st.floats(allow_nan=False),
}


def row_of(rows: list[list[float] | None], type_: pa.DataType) -> pa.Table:
    """Table of one row: a list of structs that have a list of numbers."""
    of = pa.list_(pa.struct([pa.field("values", pa.list_(pa.field("element", type_, nullable=False)))]))
    return pa.table({"rows": pa.array([[{"values": values} for values in rows]], of)})


def written(table: pa.Table, **other: object) -> pa.Buffer:
    """Bytes of the Parquet file that has the options of statistics, and `other` ones."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **{**WRITTEN, **other})
    return sink.getvalue()


def leaf_of(data: pa.Buffer) -> np.ndarray[tuple[int], np.dtype[np.generic]]:
    """Numbers that `leaf_numbers` reads from the only leaf column."""
    return leaf_numbers(data, pq.read_metadata(pa.BufferReader(data)).row_group(0).column(0))


@given(st.data(), st.sampled_from([*NUMBERS]), st.sampled_from([1 << 20, 64]))
@examples(60)
def test_numbers_of_a_leaf_are_those_that_arrow_reads(
    data: st.DataObject, type_: pa.DataType, page_bytes: int
) -> None:
    """Whatever lists are empty or null, and however many pages there are."""
    rows = data.draw(st.lists(st.none() | st.lists(NUMBERS[type_], max_size=20), max_size=30))
    whole = written(row_of(rows, type_), data_page_size=page_bytes)
    values = pq.read_table(pa.BufferReader(whole))["rows"].combine_chunks().flatten().field("values")
    found = leaf_of(whole)
    assert found.flags.aligned
    assert found.tolist() == values.flatten().to_pylist()


@pytest.mark.parametrize(
    "other",
    [
        {"compression": "gzip"},
        {"use_dictionary": True},
        {"column_encoding": "DELTA_BINARY_PACKED"},
        {"data_page_version": "2.0"},
    ],
)
def test_pages_of_another_form_are_refused(other: dict[str, object]) -> None:
    with pytest.raises((PageError, pa.ArrowException, OSError)):
        leaf_of(written(row_of([[1, 2, 3]] * 9, pa.int32()), **other))


KEYS = st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-40, 40)
"""Small numbers share their highest bits, which hashes seldom do."""


@given(st.lists(KEYS, unique=True, max_size=60), st.lists(KEYS, max_size=60))
def test_a_table_finds_what_a_dictionary_finds(keys: list[int], others: list[int]) -> None:
    wanted = [*others, *keys[::-1]]
    number = {key: at for at, key in enumerate(keys)}
    found = KeyTable(np.array(keys, np.int64)).find(np.array(wanted, np.int64))
    assert found.tolist() == [number.get(key, -1) for key in wanted]


@given(st.lists(st.lists(KEYS, max_size=20), max_size=6))
def test_keys_are_numbered_in_the_order_of_their_first_appearance(files: list[list[int]]) -> None:
    known, number = Keys(), dict[int, int]()
    for keys in files:
        new = [at for at, key in enumerate(keys) if key not in number and key not in keys[:at]]
        for key in keys:
            number.setdefault(key, len(number))
        found, first = known.numbers(np.array(keys, np.int64))
        assert found.tolist() == [number[key] for key in keys]
        assert first.tolist() == new
    assert known.keys.tolist() == [*number]
