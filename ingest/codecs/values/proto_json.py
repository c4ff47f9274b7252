"""Scalars as protobuf's JSON form writes them: bytes as base64, times as RFC 3339, durations as `1.5s`.

Columnar, and one at a time for who reads item by item: a column of one value costs 50 µs. What is none raises
pyarrow.ArrowInvalid.
"""

from __future__ import annotations

import base64
import binascii
import re
from datetime import UTC, datetime
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.codecs.values.ids import binary_parts, fixed_values, one_width
from schemas.arrays import I8

_NS_TYPE: Final = pa.timestamp("ns", tz="UTC")
_SECONDS_TYPE: Final = pa.decimal128(28, 9)
_DURATION: Final = r"^-?[0-9]{1,9}(\.[0-9]{1,9})?s$"
"""Up to 31 years: in ns they fit int64 with room."""
_ONE_DURATION: Final = re.compile(r"(-?)([0-9]{1,9})(?:\.([0-9]{1,9}))?s")
_USUAL_TIME: Final = re.compile(
    r"((?:19|20)[0-9]{2}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?Z"
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_BYTES_OF_DIGITS: Final = {12: 8, 24: 16}
"""Ids of spans and of traces, by the length of their base64."""
_NO_DIGIT = 64
_SIX_BITS = np.full(256, _NO_DIGIT, np.uint8)
for _alphabet in (
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
):
    _SIX_BITS[np.frombuffer(_alphabet, np.uint8)] = np.arange(64)


def times_ns(texts: pa.Array) -> I8:
    """[n] ns since the epoch of RFC 3339 texts with up to nine digits; 0 for null."""
    ns: I8 = pc.fill_null(pc.cast(texts, _NS_TYPE).cast(pa.int64()), 0).to_numpy()
    return ns


def time_ns(text: str) -> int:
    """One value of `times_ns`."""
    usual = _USUAL_TIME.fullmatch(text)
    if usual is not None:
        try:
            since = datetime.fromisoformat(f"{usual[1]}+00:00") - _EPOCH
        except ValueError:
            pass
        else:
            return (since.days * 86_400 + since.seconds) * 10**9 + int((usual[2] or "").ljust(9, "0"))
    return int(times_ns(pa.array([text]))[0])


def duration_ns(text: str | None) -> int:
    """One value of `durations_ns`."""
    if text is None:
        return 0
    found = _ONE_DURATION.fullmatch(text)
    if found is None:
        raise pa.ArrowInvalid("a duration is not seconds and s")
    ns = int(found[2]) * 10**9 + int((found[3] or "").ljust(9, "0"))
    return -ns if found[1] else ns


def durations_ns(texts: pa.Array) -> I8:
    """[n] ns of `[-]seconds[.digits]s`; 0 for null."""
    if pc.any(pc.invert(pc.match_substring_regex(texts, _DURATION))).as_py():
        raise pa.ArrowInvalid("a duration is not seconds and s")
    seconds = pc.cast(pc.utf8_slice_codeunits(pc.fill_null(texts, "0s"), 0, -1), _SECONDS_TYPE)
    # 128 bits each, of which the lower 64 hold it all.
    words = np.frombuffer(seconds.buffers()[1], np.int64)[2 * seconds.offset :]
    ns: I8 = words[: 2 * len(seconds) : 2].copy()
    return ns


def bytes_of_base64(texts: pa.Array) -> pa.Array:
    """Binary column of base64 (either alphabet, padded); null for null and empty text."""
    offsets, data = binary_parts(texts)
    lengths = np.diff(offsets)
    width = one_width(lengths[lengths > 0])
    if width is None or width not in _BYTES_OF_DIGITS:
        return _bytes_one_by_one(texts)
    size = _BYTES_OF_DIGITS[width]
    n_digits = -(-size * 8 // 6)
    digits = data[offsets[0] : offsets[-1]].reshape(-1, width)
    bits = np.zeros(digits.shape, np.uint8)
    bits[:, :n_digits] = _SIX_BITS[digits[:, :n_digits]]
    if (bits == _NO_DIGIT).any() or (digits[:, n_digits:] != ord("=")).any():
        return _bytes_one_by_one(texts)
    a, b, c, d = (bits[:, i::4] for i in range(4))
    out = np.stack([a << 2 | b >> 4, b << 4 | c >> 2, c << 6 | d], axis=2)
    values = out.reshape(len(digits), -1)[:, :size]
    return fixed_values(values.reshape(-1), lengths > 0, size, pa.binary())


def _bytes_one_by_one(texts: pa.Array) -> pa.Array:
    return pa.array([base64_bytes(text) if text else None for text in texts.to_pylist()], pa.binary())


def base64_bytes(text: str) -> bytes:
    """One value of `bytes_of_base64`. Raises pyarrow.ArrowInvalid."""
    try:
        return base64.b64decode(text.translate(_STANDARD), validate=True)
    except (binascii.Error, ValueError) as error:
        raise pa.ArrowInvalid(str(error)) from error


_STANDARD = str.maketrans("-_", "+/")
