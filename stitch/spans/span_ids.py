"""Number the ids of a batch, and find the span that an id names.

Both key forms are exact (no hash stands for an id), and they sort as the ids do, so tie-breaks by key
are tie-breaks by id.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.arrays import I8, U8

_ID_BYTES = 8
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


def id_keys(columns: Sequence[pa.BinaryArray]) -> list[U8]:
    """Per column, [values] uint64 keys: equal iff the ids are, in the order of their bytes.

    Where every id has 8 bytes (OTLP, Jaeger, Zipkin) the key is the number itself, 1 ns an id; else all
    columns share one sorted dictionary, 300 ns an id. Columns must not hold nulls.
    """
    numbers = [_numbers(column) for column in columns]
    if all(n is not None for n in numbers):
        return [n for n in numbers if n is not None]
    words = pa.chunked_array(list(columns), type=pa.binary()).dictionary_encode().unify_dictionaries()
    if words.num_chunks == 0:
        return [np.zeros(0, np.uint64) for _ in columns]
    dictionary = words.chunk(0).dictionary
    rank = np.empty(len(dictionary), dtype=np.uint64)
    rank[pc.sort_indices(dictionary).to_numpy()] = np.arange(len(dictionary), dtype=np.uint64)
    codes = np.concatenate([chunk.indices.to_numpy(zero_copy_only=False) for chunk in words.chunks])
    keys: list[U8] = np.split(rank[codes], np.cumsum([len(c) for c in columns])[:-1])
    return keys


def _numbers(column: pa.BinaryArray) -> U8 | None:
    """[values] numbers of a column of 8 bytes each; None for any other column."""
    n = len(column)
    if n == 0:
        return np.zeros(0, np.uint64)
    offsets = np.frombuffer(column.buffers()[1], dtype=np.int32, count=n + 1, offset=4 * column.offset)
    first = int(offsets[0])
    if int(offsets[-1]) - first != _ID_BYTES * n or not bool((np.diff(offsets) == _ID_BYTES).all()):
        return None
    packed = column.buffers()[2].slice(first, _ID_BYTES * n)
    numbers: U8 = np.frombuffer(packed, dtype=">u8").astype(np.uint64)
    return numbers


class SpanIndex:
    """Hash table over (flow, id) in numpy: one region a flow, so that probes stay in cache.

    Rounds: every key writes its row into its slot and the last writer stays; keys that lost a slot to another
    id go to a smaller table of the next round. At a load of 1/4 to 1/2 each round settles about 80 %.
    """

    def __init__(self, flow: I8, key: U8, n_flows: int) -> None:
        """Index rows 0…n-1 with `flow` [rows] and `key` [rows]. O(rows) expected."""
        self._key = key
        self._rounds: list[tuple[I8, U8, I8, U8]] = []
        repeated: list[I8] = []
        rows = np.arange(len(key))
        while len(rows):
            salt = len(self._rounds)
            counts = np.bincount(flow[rows], minlength=n_flows)
            bits = np.ceil(np.log2(np.maximum(counts, 1))).astype(np.int64) + 1
            base = np.cumsum(np.int64(1) << bits) - (np.int64(1) << bits)
            table = np.full(int(base[-1] + (np.int64(1) << bits[-1])), -1, dtype=np.int64)
            shift = (64 - bits).astype(np.uint64)
            multiplier = np.array([(int(_SPREAD) * (2 * salt + 1)) % 2**64], dtype=np.uint64)
            self._rounds.append((base, shift, table, multiplier))
            slot = self._slots(salt, flow[rows], key[rows])
            table[slot] = rows
            holder = table[slot]
            lost = np.flatnonzero(holder != rows)
            same = key[holder[lost]] == key[rows[lost]]
            repeated.append(rows[lost[same]])
            rows = rows[lost[~same]]
        self.repeated: I8 = np.concatenate(repeated) if repeated else np.zeros(0, np.int64)
        """Rows whose (flow, id) another row holds in the index."""

    def _slots(self, salt: int, flow: I8, key: U8) -> I8:
        base, shift, _, multiplier = self._rounds[salt]
        with np.errstate(over="ignore"):
            spread = (key ^ (key >> np.uint64(29 + salt % 8))) * multiplier
        slots: I8 = base[flow] + (spread >> shift[flow]).astype(np.int64)
        return slots

    def find(self, flow: I8, key: U8) -> I8:
        """[queries] a row that holds (flow, key), or -1. Exact: flow and id of the row were compared."""
        found = np.full(len(key), -1, dtype=np.int64)
        left = np.arange(len(key))
        for salt, (_, _, table, _) in enumerate(self._rounds):
            whole = len(left) == len(key)
            row = table[self._slots(salt, flow if whole else flow[left], key if whole else key[left])]
            hit = (row >= 0) & (self._key[row] == (key if whole else key[left]))
            if whole:
                found = np.where(hit, row, -1)
            else:
                found[left[hit]] = row[hit]
            left = left[~hit & (row >= 0)]  # an empty slot proves absence: later rounds hold slot losers only
            if not len(left):
                break
        return found
