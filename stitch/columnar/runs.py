"""Array operations that graph code shares: ranges, groups, distinct values, sums of runs, connected
components."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from schemas.arrays import B1, I8, U8

Value = TypeVar("Value", bound=np.generic)


def no_rows() -> I8:
    """Empty array of row numbers."""
    return np.zeros(0, np.int64)


def whole(column: pa.ChunkedArray) -> pa.Array:
    """Combine the chunks of a column to one array, without a copy if there is one chunk. Dictionaries must be
    unified before."""
    if column.num_chunks == 1:
        return column.chunk(0)  # `combine_chunks` would copy it
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0)
    return array


def connected_components(a: I8, b: I8, n: int) -> tuple[int, I8]:
    """Find connected components: `(number of components, component)`; component: [n] index of each vertex's
    component. Components are numbered by their smallest vertex.

    a, b: [edges] the two vertices of each edge, in 0 … n - 1; direction, repeats and loops do not matter.
    Each round makes every root a child of its smallest neighbour and flattens the trees. A root that still
    has a neighbour after two rounds has absorbed another one, so the number of roots halves: O((n + edges)
    log n), in practice three or four rounds.
    """
    root = np.arange(n, dtype=np.int64)
    while True:
        a, b = root[a], root[b]
        apart = a != b
        if not apart.any():
            break
        a, b = a[apart], b[apart]
        np.minimum.at(root, np.maximum(a, b), np.minimum(a, b))
        while not np.array_equal(root, above := root[root]):
            root = above
    is_root = root == np.arange(n, dtype=np.int64)
    number: I8 = (np.cumsum(is_root) - 1)[root]
    return int(np.count_nonzero(is_root)), number


_DENSE = 1 << 16
"""Maximum range of values for which `count_values` counts in an array; values with a wider range are
sorted."""

_LOOKED_AT = 1 << 14
"""Number of rows after which a search for unused words ends if all words were found."""


def ranges(first: I8, count: I8) -> I8:
    """Concatenate the ranges `first[i], …, first[i] + count[i] - 1`. O(result)."""
    found: I8 = np.repeat(first + count - np.cumsum(count), count)
    found += np.arange(len(found))
    return found


def joined_arrays(parts: Sequence[npt.NDArray[Value]], axis: int = 0) -> npt.NDArray[Value]:
    """Concatenate arrays; a single one is not copied."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=axis)


def offsets(count: npt.NDArray[np.integer]) -> I8:
    """[groups + 1] start of each group when groups are concatenated, from the sizes `count`; last, the
    total."""
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(count, dtype=np.int64)))


def group_stably(code: npt.NDArray[np.integer], n_groups: int) -> tuple[I8, I8]:
    """Sort rows by group: `(rows, first)`; the rows of group g are `rows[first[g] : first[g + 1]]`,
    ascending.

    Sorts 16 bits at a time, which numpy does by counting: 5 ns per row, 15 for more than 65,536 groups, while
    a stable argsort of integers takes 80. code: [rows] group of each row, in 0 … n_groups - 1; n_groups must
    be below 2^32.
    """
    first = offsets(np.bincount(code, minlength=n_groups))
    rows: I8 = np.argsort(code.astype(np.uint16), kind="stable")
    if n_groups > 1 << 16:
        high = (code >> 16).astype(np.uint16)
        rows = rows[np.argsort(high[rows], kind="stable")]
    return rows, first


def tree_levels(parent: I8) -> Iterator[I8]:
    """Yield the vertices of trees by depth: all roots, all children of roots, … O(vertices), however deep.

    parent: [vertices] index of the parent; -1 for a root. The children of a parent are ascending."""
    by_parent, first = group_stably(parent + 1, len(parent) + 1)
    level = by_parent[: first[1]]
    while len(level):
        yield level
        level = by_parent[ranges(first[level + 1], first[level + 2] - first[level + 1])]


def distinct(values: I8) -> I8:
    """Distinct values, ascending. Sorts, because numpy's hash table is slow for keys that lie close
    together."""
    ordered = np.sort(values)
    found: I8 = ordered[run_starts(ordered)]
    return found


def run_starts(*keys: npt.NDArray[np.generic]) -> B1:
    """[rows] True at the first row of each run of equal rows, that is at row 0 and where any key differs from
    the previous row."""
    starts = np.ones(len(keys[0]), dtype=np.bool_)
    starts[1:] = np.logical_or.reduce([key[1:] != key[:-1] for key in keys])
    return starts


def in_long_runs(starts: B1) -> B1:
    """[rows] True for rows in runs of two or more rows. starts: [rows] True where a run begins."""
    found: B1 = ~starts
    found[:-1] |= ~starts[1:]
    return found


def sum_runs(values: U8, first: I8) -> U8:
    """[groups] sum modulo 2^64 of `values[first[g] : first[g + 1]]`; 0 for an empty group."""
    with np.errstate(over="ignore"):
        running = np.concatenate((np.zeros(1, np.uint64), np.cumsum(values, dtype=np.uint64)))
        total: U8 = running[first[1:]] - running[first[:-1]]
    return total


def inverse(order: npt.NDArray[np.integer]) -> I8:
    """[rows] inverse of the permutation `order`: the position of each row in it."""
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return place


def rank_in_runs(starts: B1) -> I8:
    """[rows] number of rows since the start of the run. starts: [rows] True where a run begins; row 0 always
    begins one."""
    index = np.arange(len(starts), dtype=np.int64)
    begin = np.where(starts, index, 0)
    if len(begin):
        begin[0] = 0
    rank: I8 = index - np.maximum.accumulate(begin)
    return rank


def count_values(values: I8) -> tuple[I8, I8]:
    """Count values: `(distinct values, their counts)`, ascending. Meant for times truncated to days or
    windows.

    O(values), or a sort if their range is wider than _DENSE.
    """
    if not len(values):
        return values, values
    first = int(values.min())
    if int(values.max()) - first >= _DENSE:
        distinct, counts = np.unique(values, return_counts=True)
        return distinct, counts.astype(np.int64)
    counts = np.bincount(values - first)
    found = np.flatnonzero(counts)
    return found + first, counts[found].astype(np.int64)


def deal(table: pa.Table, codes: npt.NDArray[np.integer], n: int) -> Iterator[pa.Table]:
    """Split a table into `n` tables: table i has the rows whose code is i, in the same order. codes: [rows] 0
    … n - 1. Each row is copied once."""
    if n == 1:
        yield table
        return
    dealt = table.take(pa.array(np.argsort(codes, kind="stable")))
    for first, end in pairwise(offsets(np.bincount(codes, minlength=n)).tolist()):
        yield dealt.slice(first, end - first)


def own_words(table: pa.Table) -> pa.Table:
    """Copy of a table in which every dictionary with more words than values is reduced to the words in use.

    This includes dictionaries inside lists and structs.
    """
    for place, field in enumerate(table.schema):
        if _holds_words(field.type):
            column = whole(table.column(place))
            own = _with_own_words(column)
            if own is not column:
                table = table.set_column(place, field, own)
    return table


@cache
def _holds_words(kind: pa.DataType) -> bool:
    inner = [kind.field(i).type for i in range(kind.num_fields)]
    return pa.types.is_dictionary(kind) or any(map(_holds_words, inner))


def _with_own_words(array: pa.Array) -> pa.Array:
    """`own_words` for one array, with one chunk; returned unchanged if no dictionary in it has more words
    than values."""
    kind = array.type
    if not _holds_words(kind):
        return array
    if pa.types.is_dictionary(kind):
        if len(array.dictionary) <= len(array):
            return array
        return array.cast(kind.value_type).dictionary_encode().cast(kind)
    if pa.types.is_list(kind):
        values = array.flatten()
        own = _with_own_words(values)
        if own is values:
            return array
        missing = array.is_null() if array.null_count else None
        bounds = pa.array(offsets(list_lengths(array)), pa.int32())
        return pa.ListArray.from_arrays(bounds, own, type=kind, mask=missing)
    fields = [array.field(i) for i in range(kind.num_fields)]
    own_fields = [_with_own_words(field) for field in fields]
    if all(own is field for own, field in zip(own_fields, fields, strict=True)):
        return array
    missing = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(own_fields, fields=list(kind), mask=missing)


def struct_arrays(kind: pa.StructType, columns: Mapping[str, pa.Array]) -> pa.StructArray:
    """Build a struct array of type `kind`. columns: field name -> values, which are cast to the field's
    type."""
    return pa.StructArray.from_arrays(
        [columns[field.name].cast(field.type) for field in kind], fields=list(kind)
    )


def list_lengths(lists: pa.ListArray) -> I8:
    """[rows] number of values in each list; 0 for null."""
    lengths: I8 = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return lengths


def list_arrays(lengths: I8, values: pa.Array) -> pa.ListArray:
    """Build a list array from list lengths and concatenated values."""
    return pa.ListArray.from_arrays(pa.array(offsets(lengths), pa.int32()), values)


def sorted_words(words: pa.DictionaryArray) -> pa.DictionaryArray:
    """Dictionary array with equal values whose dictionary has only the words in use, sorted.

    `words` itself is returned if its dictionary is already so. O(rows + words log words).
    The bytes of a table then do not depend on the order in which words were added.
    """
    used = np.flatnonzero(_is_used(words))
    spelled = words.dictionary.take(pa.array(used))
    kept = pc.unique(spelled)
    kept = kept.take(pc.sort_indices(kept))
    table = np.zeros(len(words.dictionary), dtype=np.int32)
    table[used] = pc.index_in(spelled, value_set=kept).to_numpy()
    if np.array_equal(table, np.arange(len(kept))):
        return words
    return pa.DictionaryArray.from_arrays(pa.array(table).take(words.indices), kept)


def coded_words(texts: pa.Array) -> pa.DictionaryArray:
    """Dictionary array with equal values whose dictionary has only the words in use, each once.

    texts: text, or a dictionary array whose words differ. O(rows + words).
    """
    if not pa.types.is_dictionary(texts.type):
        return texts.dictionary_encode()
    used = _is_used(texts)
    if used.all():
        return texts
    code = pa.array((np.cumsum(used) - 1).astype(np.int32))
    return pa.DictionaryArray.from_arrays(code.take(texts.indices), texts.dictionary.filter(pa.array(used)))


def _is_used(words: pa.DictionaryArray) -> B1:
    """[words of the dictionary] True if a row has the word. Few words are found in the first rows."""
    used = np.zeros(len(words.dictionary), dtype=np.bool_)
    for first in range(0, len(words), _LOOKED_AT):
        used[words.indices.slice(first, _LOOKED_AT).drop_null().to_numpy()] = True
        if used.all():
            break
    return used
