"""Numbers for keys in the order of first use, and codes for the words of a column in alphabetical order."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.arrays import I4, I8
from stitch.columnar.runs import inverse, whole

K = TypeVar("K")


class Numbering(dict[K, int]):
    """Mapping from key to number that gives a missing key the next number, from 0, on access."""

    def __missing__(self, key: K) -> int:
        """Assign the next number to a missing key and return it."""
        number = self[key] = len(self)
        return number


def first_numbered(keys: I8) -> tuple[I8, I8]:
    """Number distinct keys in order of first occurrence: (int64[rows] number of each row's key, int64[keys]
    first row with the key)."""
    _, first, code = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return inverse(order)[code], first[order]


def coded(column: pa.ChunkedArray) -> tuple[I4, pa.StringArray]:
    """Code the texts of a column: (int32[rows] index into the words, -1 for null; distinct words,
    ascending)."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    one = whole(column.unify_dictionaries())
    order = pc.array_sort_indices(one.dictionary).to_numpy()
    rank = np.empty(len(order) + 1, np.int32)
    rank[order] = np.arange(len(order))
    rank[-1] = -1
    return rank[one.indices.fill_null(len(order)).to_numpy()], one.dictionary.take(pa.array(order))
