"""Read the numbers of a Parquet leaf column from its pages, without the levels that assign them to lists.

Arrow decodes these levels value by value: 13 ns for each of a million bins, where decompression takes 4.
Lengths of lists are read from a column of their own (`votes.filled`).
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from analyze.profile.profile import Column
from ingest.codecs.parquet.pages import PLAIN, Page, PageError, pages

CODEC: Final = "zstd"
"""Compression of the pages that can be read, as pyarrow names it."""
_CODEC: Final = pa.Codec(CODEC)
_TYPES: Final = {"INT32": "<i4", "INT64": "<i8", "DOUBLE": "<f8"}
"""Physical type of a column -> dtype of its values."""


def leaf_numbers(data: pa.Buffer, chunk: pa.lib.ColumnChunkMetaData) -> Column:
    """[values]: int32, int64 or float64 values of a column chunk, end to end, without nulls and empty lists.

    data: the whole file. Raises PageError, KeyError, ValueError or OSError unless the pages are of version 1,
    of numbers, plain and compressed by CODEC, as `encode_stored` writes them. O(values).
    """
    # Not `chunk.compression`: for a codec that Arrow does not know it ends the process.
    found, type_ = [], np.dtype(_TYPES[chunk.physical_type])
    for page in pages(pa.BufferReader(data), chunk.data_page_offset, chunk.total_compressed_size):
        if page.encodings != {PLAIN}:
            raise PageError("a page whose values are not plain")
        found.append(_after_levels(data, page, type_))
    return np.concatenate(found)  # of one page, too: behind levels numbers are not aligned, and slow to use


def _after_levels(data: pa.Buffer, page: Page, type_: np.dtype[np.generic]) -> Column:
    """Values of a page. Before them are repetition and definition levels, each with its length in 4 bytes."""
    whole = _CODEC.decompress(data.slice(page.begin, page.packed_bytes), page.unpacked_bytes)
    at = 0
    for _ in range(2):
        at += 4 + int.from_bytes(whole[at : at + 4].to_pybytes(), "little")
    return np.frombuffer(whole, type_, offset=at)
