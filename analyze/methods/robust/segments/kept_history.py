"""Number of requests and hits (failing or slow requests) by attribute value, from a history's statistics."""

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
"""Index in place of a root type or component that does not occur in the comparison."""


class KeptHistory:
    """Stored numbers of requests and hits (failing or slow requests) of a history, by attribute value, time
    block and root type."""

    def __init__(self, blocks: Sequence[SegmentSums], flat: FlatRequests) -> None:
        """Sort the stored rows by attribute value; drop rows of root types and components that do not occur
        in the comparison. O(rows log rows).

        blocks: stored counts of each block of the history; flat: requests of the comparison.
        """
        self.n_blocks, self.n_roots = len(blocks), len(flat.roots)
        roots, components = keys_of_words(flat.roots), keys_of_words(flat.components)
        self._rows = _Rows.of([block.segments for block in blocks], "failing_n", roots, components)
        self._slow = _Rows.of([block.slow_segments for block in blocks], "slow_n", roots, None)

    def counts(self, attribute: str, text: str, component: int) -> Counts | None:
        """Number of requests and hits, by block and root type, for one attribute value and for all requests;
        None if no block stores the attribute.

        attribute, text: name and value of the attribute. component: index of a component, to count the
        requests that pass it, and as hits those that fail there; SLOW, to count all requests, and as hits
        the slow ones.
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
    """Stored counts of all blocks in one table of columns, sorted by `value`; each array is [rows]."""

    value: I8
    """Key (hash) of an attribute and its value, from `key_of_value`."""
    block: I8
    root: I8
    component: I8
    n: F8
    """Number of requests with the attribute value."""
    hits: F8
    """Number of requests with the attribute value that fail (or, in the table of slow requests, that are
    slow)."""

    @staticmethod
    def of(tables: Sequence[pa.Table], hits: str, roots: I8, components: I8 | None) -> _Rows:
        """Concatenate the tables of the blocks, one table per block. hits: name of the column with the number
        of failing or slow requests; roots, components: hash keys of the comparison's root types and
        components, in its order; components is None for a table without a component column."""
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
        """(number of requests with an attribute value at a component, number of hits: those of them that fail
        there), each float64[blocks, roots].

        value: key of the attribute value, from `key_of_value`. component: index of the component; SLOW in a
        table of slow requests, whose hits are slow. shape: (number of blocks, number of root types).
        """
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
