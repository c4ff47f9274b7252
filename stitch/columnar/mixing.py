"""64-bit hashing on whole columns: words by BLAKE2b once a distinct value, then multiply-xor mixing.

Used to *group* nodes and flows inside a batch and to order branches canonically; values are stable across
batches, machines and versions. Stored keys are 128-bit BLAKE2b of the whole template (`stitch.graph.key`),
never these.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import pyarrow as pa

from schemas.arrays import U8

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLY_1 = np.uint64(0xBF58476D1CE4E5B9)
_MULTIPLY_2 = np.uint64(0x94D049BB133111EB)


def mix(x: U8) -> U8:
    """Bijective finaliser (splitmix64): every input bit changes half of the output bits. Shape is kept."""
    with np.errstate(over="ignore"):
        z = x + _GOLDEN
        z = (z ^ (z >> np.uint64(30))) * _MULTIPLY_1
        z = (z ^ (z >> np.uint64(27))) * _MULTIPLY_2
    return z ^ (z >> np.uint64(31))


def hash_word(text: str | None) -> int:
    """Stable 64-bit hash of one string; null differs from the empty string."""
    if text is None:
        return 0x5DEECE66D
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def hash_dictionary(column: pa.ChunkedArray | pa.Array) -> U8:
    """[rows] uint64 hash of a dictionary-encoded string column: O(distinct) hashing, O(rows) gather."""
    if isinstance(column, pa.ChunkedArray):
        column = (
            column.unify_dictionaries().combine_chunks() if column.num_chunks else pa.array([], column.type)
        )
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0)
    words = [hash_word(word) for word in column.dictionary.to_pylist()]
    table = np.array([*words, hash_word(None)], dtype=np.uint64)
    codes = column.indices.fill_null(len(words)).to_numpy(zero_copy_only=False)
    hashes: U8 = table[codes]
    return hashes


def hash_labels(events: pa.Table) -> U8:
    """[events] uint64 hash of what a node is called: component, point, label and kind, never its host."""
    with np.errstate(over="ignore"):
        h = mix(hash_dictionary(events["component"]))
        h = mix(h ^ hash_dictionary(events["point"]))
        h = mix(h ^ hash_dictionary(events["label"]))
        return mix(h + events["kind"].to_numpy().astype(np.uint64))
