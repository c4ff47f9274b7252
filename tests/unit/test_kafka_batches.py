"""Batches as kafka-python reads them, message by message, are the oracle of ours."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.codec import gzip_encode, lz4_encode, snappy_encode, zstd_encode
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from ingest.kafka.record_layout import GZIP, LZ4, SNAPPY, ZSTD, LayoutError, UnpackError, messages_of, unpack

CODECS = {GZIP: gzip_encode, SNAPPY: snappy_encode, LZ4: lz4_encode, ZSTD: zstd_encode}

message = st.tuples(
    st.none() | st.binary(max_size=200),
    st.none() | st.binary(max_size=300),
    st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=9)), max_size=2),
    st.integers(0, 2**41),
)


def batch_of(messages: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int]]) -> bytes:
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 2**24)
    for offset, (key, value, headers, timestamp) in enumerate(messages):
        builder.append(offset, timestamp, key, value, headers)
    return bytes(builder.build())


def contents_of(batch: bytes) -> bytes:
    return batch[DefaultRecordBatch.HEADER_STRUCT.size :]


@given(st.lists(message, min_size=1, max_size=60), st.integers(0, 2**40))
def test_messages_are_those_of_the_client(messages: list[tuple], base: int) -> None:  # type: ignore[type-arg]
    batch = batch_of(messages)
    found = messages_of(contents_of(batch), len(messages), base)
    told = list(DefaultRecordBatch(batch))
    assert found.values == [record.value for record in told]
    assert found.offsets == [base + record.offset for record in told]
    assert found.from_offset(base + 5).values == found.values[5:]


@given(st.lists(message, min_size=1, max_size=60), st.data())
def test_damage_is_a_layout_error_or_other_values(messages: list[tuple], data: st.DataObject) -> None:  # type: ignore[type-arg]
    contents = bytearray(contents_of(batch_of(messages)))
    for _ in range(3):
        contents[data.draw(st.integers(0, len(contents) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(contents)))
    for damaged in (bytes(contents), bytes(contents[:cut])):
        try:
            found = messages_of(damaged, len(messages), 0)
        except LayoutError:
            continue
        assert len(found.values) == len(found.offsets) == len(messages)


def test_few_and_many_messages_read_alike() -> None:
    """A loop reads few messages, columns read many."""
    one = [(b"k", b"v" * 200, [("h", b"x")], 5), (None, None, [], 9)]
    for n in (1, 5, 24, 25, 26, 300):
        messages = (one * n)[:n]
        found = messages_of(contents_of(batch_of(messages)), n, 7)
        assert found.values == [value for _, value, _, _ in messages]
        assert found.offsets == list(range(7, 7 + n))


@pytest.mark.parametrize("codec", CODECS)
def test_unpacking_is_bounded(codec: int) -> None:
    contents = bytes(range(256)) * 4096
    packed = CODECS[codec](contents)
    assert unpack(codec, packed, len(contents)) == contents
    with pytest.raises(UnpackError, match="unpacks to more than"):
        unpack(codec, packed, len(contents) - 1)
    for damaged in (packed[: len(packed) // 2], b"\x00" * 40, packed[:9] + b"\xff" * 9 + packed[18:]):
        try:
            assert len(unpack(codec, damaged, len(contents))) <= len(contents)
        except UnpackError:
            continue


def test_gzip_members_share_the_limit() -> None:
    packed = gzip.compress(bytes(1000)) * 3
    assert unpack(GZIP, packed, 3000) == bytes(3000)
    with pytest.raises(UnpackError):
        unpack(GZIP, packed, 2999)


def test_unknown_codec() -> None:
    with pytest.raises(UnpackError, match="codec 7 is not known"):
        unpack(7, b"", 10)
