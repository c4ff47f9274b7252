"""Sums over rows with equal keys; a key consists of several integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from schemas.arrays import B1, F8, I8
from stitch.columnar.runs import run_starts

Integer = TypeVar("Integer", bound=np.integer[Any])
Number = TypeVar("Number", bound=np.number[Any])

_MOST_BITS = 63


def keyed_sums(
    keys: Sequence[npt.NDArray[Integer]], values: Sequence[F8]
) -> tuple[list[npt.NDArray[Integer]], list[F8]]:
    """Sum values over rows with equal keys: (columns of the distinct keys, columns of the sums), ascending by
    key.

    keys: integer columns of [rows], >= 0; values: float64 columns of [rows]. O(rows log rows).
    """
    key = _packed(keys)
    if (key[1:] > key[:-1]).all():
        return [*keys], [*values]
    order: I8 | None = None
    if not (key[1:] >= key[:-1]).all():
        order = np.argsort(key, kind="stable")
        key = key[order]
    starts = np.flatnonzero(run_starts(key))
    first = starts if order is None else order[starts]
    if len(starts) == len(key):
        return [column[first] for column in keys], [column[first] for column in values]
    return [column[first] for column in keys], [
        np.add.reduceat(column if order is None else column[order], starts) for column in values
    ]


def numbered(keys: Sequence[npt.NDArray[Integer]] | npt.NDArray[Integer]) -> tuple[I8, I8]:
    """Number the distinct keys in ascending order: (int64[rows] number of each row's key, int64[numbers]
    first row with the key).

    O(rows) if rows are sorted already, else O(rows log rows).
    """
    key = _packed(keys)
    if (key[1:] >= key[:-1]).all():
        new = np.concatenate(([True], key[1:] != key[:-1]))[: len(key)]
        return np.cumsum(new, dtype=np.int64) - 1, np.flatnonzero(new)
    _, first, numbers = np.unique(key, return_index=True, return_inverse=True)
    return numbers.astype(np.int64, copy=False), first


def _packed(keys: Sequence[npt.NDArray[Integer]] | npt.NDArray[Integer]) -> I8:
    """Pack the columns of a key into one integer per row, int64[rows], in the same order."""
    packed = np.zeros(len(keys[0]), dtype=np.int64)
    bits = 0
    for column in keys:
        width = int(column.max(initial=0)).bit_length()
        if bits + width > _MOST_BITS:
            found, packed = np.unique(packed, return_inverse=True)
            bits = len(found).bit_length()
        packed = packed << width | column
        bits += width
    return packed


def totals_by_side(
    code: npt.NDArray[np.integer],
    value: npt.NDArray[np.number],
    slot: npt.NDArray[np.integer],
    sides: Sequence[B1],
    n: int,
) -> F8:
    """Sum values by code for each side: float64[n, sides].

    code, value, slot: [rows], code in 0..n-1; sides: bool[slots] mask of the slots of each side.
    """
    return np.stack([totals(code, value * inside[slot], n) for inside in sides], axis=1)


def row_totals(value: npt.NDArray[Number], group: I8, n: int) -> npt.NDArray[Number]:
    """Sum the rows of `value` by group, along the first axis: [n, ...] of its dtype. group: [rows], in
    0..n-1."""
    sums = np.zeros((n, *value.shape[1:]), value.dtype)
    np.add.at(sums, group, value)
    return sums


def totals(code: npt.NDArray[np.integer], value: npt.NDArray[np.generic], n: int) -> F8:
    """Sum values by code in row order: float64[n]. code: [rows], in 0..n-1."""
    sums: F8 = np.bincount(code, np.asarray(value, dtype=np.float64), n).astype(np.float64, copy=False)
    return sums
