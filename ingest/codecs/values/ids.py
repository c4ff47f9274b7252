"""Ids in columns: trace ids as lower-case hex of 16 or 32 digits, span ids as 8 or 16 bytes; no bit is lost.

All column functions are vectorised (numpy over Arrow buffers) and return `(ids, bad)`: `ids` is null where
the id is absent (empty, null or all zero), `bad` is True for invalid ids.

Besides hex, as in OTLP JSON, ids are also read in base64, as protobuf's own JSON printers write them. The
padding distinguishes them: `=` is no hex digit.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingest.codecs.values.columns import mask
from schemas.arrays import B1

_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)
_HEX_OF_BYTE = np.stack([np.repeat(_DIGITS, 16), np.tile(_DIGITS, 16)], axis=1).reshape(-1).view(np.uint16)
"""[256] the two hex digits of each byte value, as one uint16 (one gather per byte instead of two)."""
_LOWER_HEX = np.zeros(256, np.uint8)
_LOWER_HEX[_DIGITS] = _DIGITS
_LOWER_HEX[np.frombuffer(b"ABCDEF", np.uint8)] = np.frombuffer(b"abcdef", np.uint8)
"""[256] lower-case form of each ASCII hex digit; 0 for other bytes."""


def hex_of_binary(column: pa.Array, widths: tuple[int, ...]) -> tuple[pa.Array, B1]:
    """Convert binary ids to hex: (ids, [rows] True if invalid). widths: valid lengths in bytes. O(bytes)."""
    offsets, data = binary_parts(column)
    lengths = np.diff(offsets)
    present = lengths > 0
    common = _one_width(lengths[present])
    if common is not None and common in widths:
        rows = data[offsets[0] : offsets[-1]].reshape(-1, common)
        there = _any_in_row(rows)
        present[present] = there
        digits = _HEX_OF_BYTE[rows if there.all() else rows[there]].reshape(-1).view(np.uint8)
        return fixed_values(digits, present, common * 2, pa.string()), np.zeros(len(column), np.bool_)
    legal = np.isin(lengths, widths)
    texts = [
        value.hex() if ok and any(value) else None
        for value, ok in zip(column.to_pylist(), legal.tolist(), strict=True)
    ]
    return pa.array(texts, pa.string()), (lengths > 0) & ~legal


def bytes_of_binary(column: pa.Array, width: int) -> tuple[pa.Array, B1]:
    """Check binary ids: (ids unchanged, [rows] True if invalid). width: valid length in bytes. O(bytes)."""
    offsets, data = binary_parts(column)
    lengths = np.diff(offsets)
    present = lengths > 0
    legal = lengths == width
    if not (legal == present).all():
        values = [
            value if ok and any(value) else None
            for value, ok in zip(column.to_pylist(), legal.tolist(), strict=True)
        ]
        return pa.array(values, pa.binary()), present & ~legal
    rows = data[offsets[0] : offsets[-1]].reshape(-1, width)
    there = _any_in_row(rows)
    if there.all():
        return fixed_values(rows.reshape(-1), present, width, pa.binary()), np.zeros(len(column), np.bool_)
    present[present] = there
    return fixed_values(rows[there].reshape(-1), present, width, pa.binary()), np.zeros(len(column), np.bool_)


def hex_of_id(raw: bytes, widths: tuple[int, ...]) -> str:
    """Hex text of one binary id; `!`, which is no valid id, if its length is not in `widths`."""
    return raw.hex() if len(raw) in (0, *widths) else "!"


def bytes_of_text(column: pa.Array) -> tuple[pa.Array, B1]:
    """Convert ids in hex text to bytes: (ids, [rows] True if invalid). O(bytes).

    1 to 16 hex digits become 8 bytes, 17 to 32 become 16 bytes.
    """
    text, bad = hex_of_text(column)
    offsets, data = binary_parts(text)
    packed = binascii.unhexlify(data[offsets[0] : offsets[-1]].tobytes())
    validity = (
        None if text.null_count == 0 else pa.py_buffer(np.packbits(mask(text.is_valid()), bitorder="little"))
    )
    buffers = [validity, pa.py_buffer(((offsets - offsets[0]) // 2).astype(np.int32)), pa.py_buffer(packed)]
    return pa.Array.from_buffers(pa.binary(), len(text), buffers, text.null_count), bad


def hex_of_text(column: pa.Array) -> tuple[pa.Array, B1]:
    """Pad ids in hex text: (ids, [rows] True if invalid). O(bytes).

    1 to 16 hex digits become 16 digits, 17 to 32 become 32.
    """
    offsets, data = binary_parts(column)
    lengths = np.diff(offsets)
    present = lengths > 0
    common = _one_width(lengths[present])
    if common in (16, 32):
        assert common is not None
        rows = _LOWER_HEX[data[offsets[0] : offsets[-1]]].reshape(-1, common)
        if rows.all():
            there = _any_in_row(rows ^ np.uint8(ord("0")))
            present[present] = there
            digits = (rows if there.all() else rows[there]).reshape(-1)
            return fixed_values(digits, present, common, pa.string()), np.zeros(len(column), np.bool_)
    return _hex_of_ragged_text(column)


def _hex_of_ragged_text(column: pa.Array) -> tuple[pa.Array, B1]:
    """General case of `hex_of_text`, for a column with ids of several lengths or invalid ids."""
    text = pc.ascii_lower(column)
    is_hex = pc.fill_null(pc.match_substring_regex(text, r"^[0-9a-f]{1,32}$"), False)
    absent = pc.fill_null(pc.match_substring_regex(text, r"^0{0,32}$"), True)
    text = pc.if_else(pc.and_(is_hex, pc.invert(absent)), text, None)
    short = pc.less_equal(pc.binary_length(text), 16)
    padded = pc.if_else(short, pc.utf8_lpad(text, 16, "0"), pc.utf8_lpad(text, 32, "0"))
    bad = pc.invert(pc.or_(is_hex, absent))
    return padded, mask(bad)


def _one_width(lengths: npt.NDArray[np.int64]) -> int | None:
    """Common value of `lengths`; None if they differ, or if there are none."""
    if len(lengths) == 0:
        return None
    first = int(lengths[0])
    return first if bool((lengths == first).all()) else None


def _any_in_row(rows: npt.NDArray[np.uint8]) -> B1:
    """[rows] True if any byte of the row is not 0; rows have 8, 16 or 32 bytes and are compared eight bytes
    at a time."""
    halves = np.ascontiguousarray(rows).view(np.uint64)
    out: B1 = halves[:, 0] != 0
    for column in range(1, halves.shape[1]):
        out |= halves[:, column] != 0
    return out


def binary_parts(column: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Buffers of a binary or string array: ([n + 1] offsets, data bytes); nulls get length 0."""
    if column.null_count:
        column = pc.fill_null(column, b"" if pa.types.is_binary(column.type) else "")
    data_buffer = column.buffers()[2]
    data = np.empty(0, np.uint8) if data_buffer is None else np.frombuffer(data_buffer, np.uint8)
    return text_offsets(column).astype(np.int64), data


def text_offsets(column: pa.Array) -> npt.NDArray[np.int32]:
    """[n + 1] offsets of a binary or string array into its data.

    The buffer of another writer may be longer, have a size that is no multiple of 4, or be empty if there are
    no values.
    """
    if not len(column):
        return np.zeros(1, np.int32)
    size = np.dtype(np.int32).itemsize
    return np.frombuffer(column.buffers()[1], np.int32, len(column) + 1, size * column.offset)


def fixed_values(values: npt.NDArray[np.uint8], present: B1, width: int, type_: pa.DataType) -> pa.Array:
    """Build an array of strings or bytes that all have `width` bytes, from their concatenated bytes; null
    where `present` is False."""
    offsets = np.zeros(len(present) + 1, np.int32)
    np.cumsum(present * np.int32(width), out=offsets[1:])
    missing = int(len(present) - present.sum())
    validity = None if missing == 0 else pa.py_buffer(np.packbits(present, bitorder="little"))
    return pa.Array.from_buffers(
        type_,
        len(present),
        [validity, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(values))],
        missing,
    )


_FORMS: Final = ((16, "^[A-Za-z0-9+/_-]{22}==$"), (8, "^[A-Za-z0-9+/_-]{11}=$"))
"""(bytes of an id, pattern of its base64 text in the standard or URL-safe alphabet)."""
_ANY_FORM: Final = re.compile("|".join(form for _, form in _FORMS))
_STANDARD: Final = bytes.maketrans(b"-_=", b"+/A")
"""Translation of URL-safe base64 to the standard alphabet; padding becomes zeros, so that a whole column can
be decoded as one text."""


def hex_of_base64(column: pa.Array) -> pa.Array:
    """Convert base64 ids in a text column to hex; other ids are unchanged. O(bytes)."""
    if not pc.any(pc.ends_with(column, "=")).as_py():
        return column
    for n_bytes, form in _FORMS:
        found = pc.fill_null(pc.match_substring_regex(column, form), False)
        if not pc.any(found).as_py():
            continue
        offsets, text = binary_parts(column.filter(found))
        packed = text[offsets[0] : offsets[-1]].tobytes().translate(_STANDARD)
        rows = np.frombuffer(base64.b64decode(packed), np.uint8).reshape(len(offsets) - 1, -1)
        digits = np.frombuffer(rows[:, :n_bytes].tobytes().hex().encode(), np.uint8)
        there = np.ones(len(rows), np.bool_)
        column = pc.replace_with_mask(column, found, fixed_values(digits, there, 2 * n_bytes, pa.string()))
    return column


def hex_of_base64_id(text: str | None) -> str | None:
    """Convert one base64 id to hex; other text and None are returned unchanged."""
    if text is None or not text.endswith("=") or _ANY_FORM.fullmatch(text) is None:
        return text
    return base64.urlsafe_b64decode(text.translate({ord("+"): "-", ord("/"): "_"})).hex()
