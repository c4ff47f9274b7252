"""Read a Parquet file as payloads, which are groups of rows with columns renamed by a mapping.

Text stays dictionary-encoded, as in the file: a word of 1 MB that is in a million rows takes 1 MB, here and
in the payload; the codec then refuses such rows. Text whose dictionary would be too large is read as plain
text, so few rows at a time that they would fit even if each had the longest word. A row group with pages
larger than Arrow may decompress is rejected before it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from ingest.codecs.parquet.pages import VALUE_BYTES, Chunk, PageError, chunks_of
from ingest.codecs.parquet.parquet import TIME_UNIT, most_plain_bytes
from ingest.codecs.parquet.plain_columns import (
    longest_word,
    plain_bytes,
    with_used_words,
    without_dictionaries,
)
from ingest.source import Payloads
from schemas.config import DecodeConfig, SpanColumns
from schemas.rejects import Reason, Reject

_MIN_ROW_BYTES: Final = 64
"""Minimum bytes that a row is assumed to have: limits the number of rows in a payload, as repeated values
take almost no space in the file."""


_BUFFER_BYTES: Final = 2**16
"""Buffer size in bytes for reading the beginning of a page."""
_TEXT: Final = ("STRING", "NONE", "JSON", "ENUM")
"""Logical types of Parquet's byte columns that Arrow can read as dictionaries."""


def read_table(
    path: str | Path,
    stream: str,
    format_: str,
    columns: SpanColumns,
    config: DecodeConfig,
    chunk_bytes: int,
    page_bytes: int,
) -> Iterator[Payloads]:
    """Yield the rows of a Parquet file as payloads of about `chunk_bytes` each; a failure becomes a reject.

    page_bytes: maximum decompressed size of a page.
    """
    from pyarrow.parquet import ParquetFile

    number = 0
    try:
        with ParquetFile(path) as file, Path(path).open("rb") as raw:
            given = file.schema_arrow.names
            mapped = columns.found_in(given)
            if missing := columns.missing_in(given):
                detail = f"the table has no column {missing}; it has {', '.join(given)}"
                yield Payloads.refused(stream, Reject(Reason.MISSING_FIELD, detail[:1000], b""))
                return
            if twice := [name for name in mapped.values() if given.count(name) > 1]:
                detail = f"the table has '{twice[0]}' {given.count(twice[0])} times"
                yield Payloads.refused(stream, Reject(Reason.WRONG_SHAPE, detail[:1000], b""))
                return
            texts = _texts(file.schema)
            for index in range(file.metadata.num_row_groups):
                group = file.metadata.row_group(index)
                chunks = chunks_of(raw, group, texts, {*mapped.values()})
                if (size := sum(chunk.largest_bytes for chunk in chunks)) > page_bytes:
                    until = number + group.num_rows
                    detail = (
                        f"pages of rows {number} to {until - 1} take {size:,} bytes, and the limit is "
                        f"{page_bytes:,}, a quarter of --memory"
                    )
                    yield Payloads.refused(stream, Reject(Reason.TOO_LARGE, detail, b"", number))
                    number = until
                    continue
                words, longest_bytes = _read_as_words(
                    chunks, path, file.metadata, index, page_bytes, config.min_repetition
                )
                row_bytes = _row_bytes(group) + longest_bytes
                with ParquetFile(path, metadata=file.metadata, read_dictionary=words) as rows:
                    wanted = [*{*mapped.values()}]
                    for batch in rows.iter_batches(max(1, chunk_bytes // row_bytes), [index], wanted):
                        for payload, n in _payloads(batch, mapped, columns.time_unit, config, chunk_bytes):
                            yield Payloads(stream, format_, [payload], [number], number + n)
                            number += n
    except (pa.ArrowException, PageError, OSError, UnicodeDecodeError) as error:
        detail = f"the Parquet file cannot be read to its end: {error}"
        yield Payloads.refused(stream, Reject(Reason.WRONG_SHAPE, detail[:1000], b"", number))
    else:
        if not number:
            yield Payloads.refused(stream, Reject(Reason.EMPTY, "the table has no rows", b""))


def _texts(schema: Any) -> set[str]:
    """Paths of the leaf columns that Arrow can read dictionary-encoded."""
    leaves = [schema.column(i) for i in range(len(schema))]
    return {
        leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY" and leaf.logical_type.type in _TEXT
    }


def _read_as_words(
    chunks: Iterable[Chunk],
    path: str | Path,
    metadata: Any,
    index: int,
    most_bytes: int,
    min_repetition: float,
) -> tuple[list[str], int]:
    """Choose the text columns of a row group that are read dictionary-encoded: (their paths; bytes of the
    longest words, one for each repetitive column that is not chosen, added up).

    The chosen dictionaries take at most `most_bytes` together. A column that is only partly
    dictionary-encoded is read as text if its text takes less than `min_repetition` times as much as its
    longest word repeated in every row.
    """
    chosen, longest_bytes, room = [], 0, most_bytes
    for chunk in sorted(chunks, key=lambda one: one.held_bytes):
        if not chunk.is_text or not chunk.words_bytes:
            continue
        if chunk.held_bytes > room:
            longest_bytes += _longest_word(path, metadata, index, chunk)
            continue
        if chunk.held_bytes > chunk.words_bytes:
            text_bytes = chunk.word_values * _longest_word(path, metadata, index, chunk)
            if text_bytes <= min(room, min_repetition * chunk.held_bytes):
                room -= text_bytes
                continue
        chosen.append(chunk.path)
        room -= chunk.held_bytes
    return chosen, longest_bytes


def _longest_word(path: str | Path, metadata: Any, index: int, chunk: Chunk) -> int:
    """Bytes of the longest word in the dictionary of a column chunk, which Arrow reads together with the
    first row."""
    from pyarrow.parquet import ParquetFile

    how = {"pre_buffer": False, "buffer_size": _BUFFER_BYTES}
    with ParquetFile(path, metadata=metadata, read_dictionary=[chunk.path], **how) as file:
        return longest_word(next(file.iter_batches(1, [index], [chunk.path])).column(0))


def _row_bytes(group: pa.lib.RowGroupMetaData) -> int:
    """Approximate bytes of a row in memory: its decompressed bytes in the file, at least VALUE_BYTES per
    value."""
    chunks = [group.column(index) for index in range(group.num_columns)]
    size = sum(max(chunk.total_uncompressed_size, chunk.num_values * VALUE_BYTES) for chunk in chunks)
    return max(_MIN_ROW_BYTES, int(size) // max(int(group.num_rows), 1))


def _payloads(
    batch: pa.RecordBatch, mapped: dict[str, str], time_unit: str, config: DecodeConfig, chunk_bytes: int
) -> Iterator[tuple[bytes, int]]:
    """Convert a batch of rows to payloads: yield (payload, number of its rows)."""
    size = sum(map(plain_bytes, batch.columns))
    columns = [with_used_words(column, config.min_repetition) for column in batch.columns]
    batch = pa.record_batch(columns, names=batch.schema.names)
    payload = _payload(batch, mapped, time_unit)
    if size <= 2 * chunk_bytes or size > most_plain_bytes(payload, config):
        yield payload, batch.num_rows  # if it exceeds the limit, the codec refuses it
        return
    for part in _parts(batch, chunk_bytes):
        # Otherwise every part would contain the whole dictionary.
        plain = [without_dictionaries(column) for column in part.columns]
        yield _payload(pa.record_batch(plain, names=part.schema.names), mapped, time_unit), part.num_rows


def _parts(batch: pa.RecordBatch, most_bytes: int) -> Iterator[pa.RecordBatch]:
    """Split a batch into parts of at most 2 * `most_bytes`, by halving it repeatedly; a single row is never
    split.

    A batch may be larger in memory than in the file.
    """
    half = batch.num_rows // 2
    if sum(map(plain_bytes, batch.columns)) <= 2 * most_bytes or not half:
        yield batch
        return
    yield from _parts(batch.slice(0, half), most_bytes)
    yield from _parts(batch.slice(half), most_bytes)


def _payload(batch: pa.RecordBatch, mapped: dict[str, str], time_unit: str) -> bytes:
    schema = pa.schema(
        [pa.field(name, batch.schema.field(column).type) for name, column in mapped.items()],
        metadata={TIME_UNIT: time_unit},
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as stream:
        stream.write_batch(pa.record_batch([batch[column] for column in mapped.values()], schema=schema))
    payload: bytes = sink.getvalue().to_pybytes()
    return payload
