"""Counts of segments for a history that is stored as statistics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from analyze.methods.robust.segments.segment_tests import SLOW, Counts
from analyze.profile.flat_requests import FlatRequests
from analyze.profile.segment_sums import SegmentSums, key_of_value, keys_of_words
from schemas.arrays import F8, I8

_NONE: Final = -2
"""Code of root types and components that the comparison does not have."""


class KeptHistory:
    """Counts of requests by attribute value, block of the history and root type."""

    def __init__(self, blocks: Sequence[SegmentSums], flat: FlatRequests) -> None:
        """Sort the stored rows by value; drop root types and components that the comparison does not have.
        O(rows log rows).

        blocks: stored counts of each block of the history; flat: requests of the comparison.
        """
        self.n_blocks, self.n_roots = len(blocks), len(flat.roots)
        roots, components = keys_of_words(flat.roots), keys_of_words(flat.components)
        self._rows = _Rows.of([block.segments for block in blocks], "failing_n", roots, components)
        self._slow = _Rows.of([block.slow_segments for block in blocks], "slow_n", roots, None)

    def counts(self, attribute: str, text: str, component: int) -> Counts | None:
        """Count requests with an attribute value, and all requests, by block and root type; None if no block
        stored the attribute.

        component: requests that pass it count, hits are those that fail there; SLOW: all requests count, hits
        are slow ones.
        """
        rows = self._slow if component == SLOW else self._rows
        shape = (self.n_blocks, self.n_roots)
        n_all, x_all = rows.sums(key_of_value(attribute, None), component, shape)
        if not n_all.any():
            return None
        n, x = rows.sums(key_of_value(attribute, text), component, shape)
        return Counts(n[None], x[None], n_all, x_all)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of a table of stored counts, of all blocks together, in ascending order of `value`; arrays are
    [rows].

    value: key of an attribute value; n: requests; hits: failed or slow ones.
    """

    value: I8
    block: I8
    root: I8
    component: I8
    n: F8
    hits: F8

    @staticmethod
    def of(tables: Sequence[pa.Table], hits: str, roots: I8, components: I8 | None) -> _Rows:
        """Concatenate the tables of the blocks. hits: name of the column with the hits; roots, components:
        keys in the order of the comparison; components None: rows have none."""
        rows = pa.concat_tables(tables)
        root = _places(roots, rows["root"].to_numpy())
        component = np.full(len(root), SLOW)
        if components is not None:
            component = _places(components, rows["component"].to_numpy())
        block = np.repeat(np.arange(len(tables)), [table.num_rows for table in tables])
        value, n, hit = (rows[name].to_numpy() for name in ("value", "n", hits))
        order = np.argsort(value, kind="stable")
        order = order[(root != _NONE)[order] & (component != _NONE)[order]]
        return _Rows(*(column[order] for column in (value, block, root, component, n, hit)))

    def sums(self, value: int, component: int, shape: tuple[int, int]) -> tuple[F8, F8]:
        """Sum requests and hits of an attribute value at a component, both float64[blocks, roots]. shape:
        (blocks, roots)."""
        mine = np.arange(*np.searchsorted(self.value, [value, value + 1]))
        mine = mine[self.component[mine] == component]
        cell = self.block[mine] * shape[1] + self.root[mine]

        def of(column: F8) -> F8:
            sums = np.bincount(cell, column[mine], shape[0] * shape[1])
            return sums.astype(np.float64, copy=False).reshape(shape)

        return of(self.n), of(self.hits)


def _places(keys: I8, wanted: I8) -> I8:
    """Index in `keys` of each element of `wanted`, int64[wanted]; _NONE if absent."""
    order = np.argsort(keys)
    at = order[np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)]
    return np.where(keys[at] == wanted, at, _NONE)
