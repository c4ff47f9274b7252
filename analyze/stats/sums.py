"""Sums over rows with equal keys; a key consists of several integers."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
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
    """Sum values over rows with equal keys.

    keys: integer columns, each [rows], >= 0; values: columns to sum, each float64[rows]. Returns (columns of
    the distinct keys, columns of the sums), ascending by key. O(rows log rows).
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
    """Number the distinct keys in ascending order: (int64[rows] number of each row's key, int64[keys] first
    row with each key).

    O(rows) if rows are sorted already, else O(rows log rows).
    """
    key = _packed(keys)
    if (key[1:] >= key[:-1]).all():
        new = np.concatenate(([True], key[1:] != key[:-1]))[: len(key)]
        return np.cumsum(new, dtype=np.int64) - 1, np.flatnonzero(new)
    _, first, numbers = np.unique(key, return_index=True, return_inverse=True)
    return numbers.astype(np.int64, copy=False), first


def _packed(keys: Sequence[npt.NDArray[Integer]] | npt.NDArray[Integer]) -> I8:
    """int64[rows]: one integer per row for the key's columns, equal for equal keys and in the same order."""
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
    """float64[n, sides]: sums of `value` by code for each side (a set of slots of time).

    code, value, slot: [rows], code in 0..n-1. sides: for each side bool[slots], True for its slots.
    """
    return np.stack([totals(code, value * inside[slot], n) for inside in sides], axis=1)


def row_totals(value: npt.NDArray[Number], group: I8, n: int) -> npt.NDArray[Number]:
    """[n, ...], with the dtype of `value`: sums of the rows of `value` (first axis) by group.

    group: int64[rows], in 0..n-1."""
    width = prod(value.shape[1:])
    sums = np.zeros(n * width, value.dtype)
    # Cell by cell: whole rows take four times as long.
    np.add.at(sums, (group[:, None] * width + np.arange(width)).ravel(), value.ravel())
    return sums.reshape(n, *value.shape[1:])


def totals(code: npt.NDArray[np.integer], value: npt.NDArray[np.generic], n: int) -> F8:
    """float64[n]: sums of `value` by code, added in row order. code, value: [rows], code in 0..n-1."""
    sums: F8 = np.bincount(code, np.asarray(value, dtype=np.float64), n).astype(np.float64, copy=False)
    return sums
