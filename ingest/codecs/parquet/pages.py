"""Measure the pages of a Parquet file before Arrow reads them, because Arrow decompresses a page as a whole.

The footer only has the sizes of row groups, which are sums over many pages. The size of each page is in the
page's header, in Thrift's compact protocol, of which this module reads only the needed part.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

import pyarrow as pa

_HEADS: Final = (256, 2**14, 2**20, 2**24)
"""Numbers of bytes read for a page header, tried in this order: nearly all headers have less than a hundred
bytes, but the statistics in them may contain values of any size."""
_KIND, _UNPACKED, _PACKED, _VALUES, _ENCODINGS = (1,), (2,), (3,), ((5, 1), (8, 1)), ((5, 2), (8, 4))
"""Paths of field numbers in a PageHeader: kind, decompressed size, compressed size; number of values in data
pages of versions 1 and 2; encoding in data pages of versions 1 and 2."""
PLAIN: Final = 0
"""Number of the encoding in which values follow each other as they are."""
_DICTIONARY_PAGE, _WORDS_ENCODED = 2, {2, 8}
"""Kind number of a dictionary page; numbers of the encodings whose values are dictionary indices."""
_TRUE, _FALSE, _BYTE, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 6, 7, 8, 9, 10, 11, 12
_DEEPEST: Final = 8


class PageError(Exception):
    """The bytes at an offset are no page header."""


@dataclass(frozen=True, slots=True)
class Page:
    """Place and sizes of a page, from its header."""

    begin: int
    """Offset of the page's bytes in the file, after its header."""
    packed_bytes: int
    unpacked_bytes: int
    values: int
    """Number of values in a data page, nulls and empty lists included."""
    is_dictionary: bool
    encodings: frozenset[int]
    """Numbers of the encodings of the values, see PLAIN: none for pages without values, two in a header that
    claims to be of both versions."""

    @property
    def has_words(self) -> bool:
        """True if the values may be indices into the dictionary, not the values themselves."""
        return not self.encodings.isdisjoint(_WORDS_ENCODED)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Pages of one leaf column in one row group."""

    path: str
    is_text: bool
    largest_bytes: int
    """Bytes of memory that the largest page takes: its decompressed size, or VALUE_BYTES for each of its
    values if that is more."""
    words_bytes: int
    """Decompressed bytes of the dictionary page; 0 without one."""
    word_values: int
    """Number of values that are indices into the dictionary."""
    held_bytes: int
    """Bytes of text in memory if the column is read as a dictionary: the dictionary page, and all text in
    pages without dictionary indices."""


def pages(file: BinaryIO, begin: int, size: int) -> Iterator[Page]:
    """Yield the pages of the column chunk of `size` bytes that starts at offset `begin`. Raises PageError,
    OSError. O(pages)."""
    at, end = begin, begin + size
    while at < end:
        fields, length = _header(file, at)
        packed, unpacked = (fields.get(path, -1) for path in (_PACKED, _UNPACKED))
        if packed < 0 or unpacked < 0:
            raise PageError("a page without a size")
        yield Page(
            at + length,
            packed,
            unpacked,
            max(fields.get(path, 0) for path in _VALUES),
            fields.get(_KIND) == _DICTIONARY_PAGE,
            frozenset(fields[path] for path in _ENCODINGS if path in fields),
        )
        at += length + packed


def _header(file: BinaryIO, at: int) -> tuple[dict[tuple[int, ...], int], int]:
    """Read the page header at offset `at`: (path of field numbers -> integer; length of the header in
    bytes)."""
    for most in _HEADS:
        file.seek(at)
        reader = _Reader(file.read(most))
        try:
            reader.struct(())
        except IndexError:
            continue
        return reader.numbers, reader.at
    raise PageError("the header of a page has no end")


class _Reader:
    """Reader of a Thrift compact struct that collects its integers by path of field numbers. Raises
    IndexError if the bytes end too early."""

    def __init__(self, data: bytes) -> None:
        self.numbers: dict[tuple[int, ...], int] = {}
        self.at = 0
        self._data = data

    def struct(self, path: tuple[int, ...]) -> None:
        """Read a struct to its end."""
        if len(path) > _DEEPEST:
            raise PageError("the header of a page is nested too deep")
        field = 0
        while head := self._byte():
            field = field + (head >> 4) if head >> 4 else self._number()
            self._value(head & 15, (*path, field), in_list=False)

    def _value(self, kind: int, path: tuple[int, ...], *, in_list: bool) -> None:
        if kind in (_TRUE, _FALSE):
            self.at += in_list
        elif kind == _BYTE:
            self.at += 1
        elif kind <= _I64:
            self.numbers[path] = self._number()
        elif kind == _DOUBLE:
            self.at += 8
        elif kind == _BINARY:
            size = self._unsigned()
            self.at += size
        elif kind in (_LIST, _SET):
            head = self._byte()
            for _ in range(self._bounded(self._unsigned() if head >> 4 == 15 else head >> 4)):
                self._value(head & 15, path, in_list=True)
        elif kind == _MAP:
            size = self._bounded(self._unsigned())
            kinds = self._byte() if size else 0
            for _ in range(size):
                self._value(kinds >> 4, path, in_list=True)
                self._value(kinds & 15, path, in_list=True)
        elif kind == _STRUCT:
            self.struct(path)
        else:
            raise PageError("the header of a page has a field of no type")

    def _bounded(self, size: int) -> int:
        if size > len(self._data):
            raise IndexError(size)
        return size

    def _byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise PageError("a number of a page's header has no end")

    def _number(self) -> int:
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)


VALUE_BYTES: Final = 8
"""Minimum bytes of memory per value: a number, or a dictionary index and an offset in a list."""


def chunks_of(
    file: BinaryIO, group: pa.lib.RowGroupMetaData, texts: set[str], columns: set[str]
) -> list[Chunk]:
    """Measure the column chunks of a row group that belong to the top-level `columns`. texts: paths of leaf
    columns with text.

    Raises PageError, OSError. O(pages).
    """
    found = []
    for index in range(group.num_columns):
        chunk = group.column(index)
        path = chunk.path_in_schema
        if any(path == column or path.startswith(f"{column}.") for column in columns):
            offsets = [chunk.data_page_offset, chunk.dictionary_page_offset or 0]
            begin = min((offset for offset in offsets if offset > 0), default=0)
            found.append(_chunk(path, path in texts, pages(file, begin, chunk.total_compressed_size)))
    return found


def _chunk(path: str, is_text: bool, of: Iterator[Page]) -> Chunk:
    largest = words = word_values = plain = 0
    for page in of:
        largest = max(largest, page.unpacked_bytes, page.values * VALUE_BYTES)
        if page.is_dictionary:
            words += page.unpacked_bytes
        elif page.has_words:
            word_values += page.values
        else:
            plain += page.unpacked_bytes
    return Chunk(path, is_text, largest, words, word_values, words + plain)
