"""Partition events by request id, so that all events of a request are in one bucket, whichever files they are
from."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.arrays import B1, I8, U8
from stitch.columnar.hashing import mix
from stitch.columnar.runs import whole

BITS_PER_LEVEL: Final = 5
FANOUT: Final = 1 << BITS_PER_LEVEL
MAX_LEVEL: Final = 3
"""Last level of recursive partitioning: four levels give a million buckets, so a bucket that is still too
large must be a single request."""


def hash_texts(texts: pa.StringArray) -> U8:
    """[texts] stable uint64 hash of each string. Vectorised over the strings of one length.

    Nulls hash as the empty string. O(bytes + distinct lengths).
    """
    n = len(texts)
    result = np.zeros(n, dtype=np.uint64)
    if n == 0 or texts.buffers()[2] is None:
        return mix(result)
    offsets = np.frombuffer(texts.buffers()[1], dtype=np.int32, count=n + 1, offset=4 * texts.offset)
    content = np.frombuffer(texts.buffers()[2], dtype=np.uint8)
    lengths = np.diff(offsets)
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        padded = np.zeros((len(rows), -(-int(length) // 8) * 8), dtype=np.uint8)
        padded[:, :length] = content[offsets[rows][:, None] + np.arange(length)]
        total = np.full(len(rows), length, dtype=np.uint64)
        for word in padded.view("<u8").T:
            total = mix(total ^ word)
        result[rows] = total
    return mix(result)


def hash_requests(events: pa.Table) -> U8:
    """[events] hash of the request id; null counts as "". One hash per distinct id, O(events) gather."""
    words = whole(events["request_id"]).fill_null("").dictionary_encode()
    hashes: U8 = hash_texts(words.dictionary)[words.indices.to_numpy()]
    return hashes


def bucket_of(hashes: U8, level: int) -> I8:
    """[hashes] bucket number, 0 to FANOUT - 1, at a level of partitioning; every level uses different bits of
    the hash."""
    shift = np.uint64(BITS_PER_LEVEL * level)
    return ((hashes >> shift) & np.uint64(FANOUT - 1)).astype(np.int64)


def share_of(hashes: U8, share: float) -> B1:
    """Select a sample of requests by hash: [hashes] True if in the sample. share: size of the sample as a
    share of all requests, in [0, 1].

    The same requests are selected in every run.
    """
    # The top 53 bits are exact as a float, and no bucket reads them.
    return (hashes >> np.uint64(11)).astype(np.float64) * 2.0**-53 < share


def shared_params(params: pa.Table, share: float) -> pa.Table:
    """Rows of `params` whose request is in the sample selected by `share_of`. share: in [0, 1]."""
    return params if share >= 1 else params.filter(pa.array(share_of(hash_requests(params), share)))


def payload_bytes(array: pa.Array | pa.ChunkedArray | pa.Table) -> int:
    """Payload of an array or table in bytes: the sum over rows, so that it does not depend on batch
    boundaries.

    Validity bitmaps, and dictionaries of whole columns, are not counted. A dictionary word inside a list
    counts with its text, as parameters may have as many words as rows.
    """
    if isinstance(array, pa.Table):
        return sum(payload_bytes(column) for column in array.columns)
    if isinstance(array, pa.ChunkedArray):
        return sum(payload_bytes(chunk) for chunk in array.chunks)
    kind = array.type
    if pa.types.is_dictionary(kind):
        return 4 * len(array)
    if pa.types.is_struct(kind):
        return sum(payload_bytes(column) for column in array.flatten())
    if pa.types.is_list(kind):
        values = array.flatten()
        return 4 * len(array) + payload_bytes(values) + _text_bytes(values)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        offsets = np.frombuffer(
            array.buffers()[1], dtype=np.int32, count=len(array) + 1, offset=4 * array.offset
        )
        return 4 * len(array) + int(offsets[-1] - offsets[0])
    width: int = max(8, kind.bit_width) // 8
    return len(array) * width


def _text_bytes(values: pa.Array) -> int:
    """Bytes of all text in a column, nested text included; a dictionary word is counted in every row that has
    it."""
    if pa.types.is_struct(values.type):
        return sum(_text_bytes(column) for column in values.flatten())
    if not pa.types.is_dictionary(values.type) or not len(values.dictionary):
        return 0
    size = pc.binary_length(values.dictionary).to_numpy(zero_copy_only=False).astype(np.int64)
    return int(size[values.indices.drop_null().to_numpy()].sum())
