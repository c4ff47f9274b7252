"""Names of a profile as columns, so that 100,000 sites need no Python objects, and their 64-bit keys.

A key is a hash of the name, the same in every window, so that sums of any windows can be joined by key. Each
text is hashed once (`stitch.columnar.hashing`); keys of compound names are computed from the hashes by array
arithmetic. Among a million names two collide with probability 3e-8; a file with a collision is rejected when
it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from analyze.profile.names import NO_CALLER, Child, Names, OperationName, PathName, SiteKind, SiteName
from schemas.arrays import I8, U8
from stitch.columnar.hashing import hash_dictionary, hash_word, hash_words, mix

T = TypeVar("T", bound=tuple[Any, ...])


@dataclass(frozen=True, slots=True)
class NameColumns:
    """Names of a profile as columns; row k of the columns of a kind of name is name number k."""

    component: pa.DictionaryArray
    """[operations]: component of each operation."""
    point: pa.DictionaryArray
    """[operations]: point of each operation."""
    callee: pa.DictionaryArray
    """[operations]: component that the operation calls, see `OperationName.callee`; empty for none."""
    caller: I8
    """int64[sites]: number of the calling operation; NO_CALLER (-1) for none."""
    operation: I8
    """int64[sites]: number of the called operation."""
    kind: I8
    """int64[sites]: value of `SiteKind` (call, step or point)."""
    above: I8
    """int64[paths]: number of the caller's path; NO_CALLER (-1) for a root."""
    path_site: I8
    """int64[paths]: number of the site of the path's last call."""
    n_patterns: int
    """Number of call patterns; patterns without children have no row in `pattern`."""
    pattern: I8
    """int64[children of all patterns]: number of the call pattern that the child belongs to, ascending."""
    child: I8
    """int64[children of all patterns]: number of the called operation."""
    calls: I8
    """int64[children of all patterns]: number of calls, a power of two."""
    awaited: I8
    """int64[children of all patterns]: 1 if the caller waits for the calls, else 0."""
    roots: pa.StringArray
    """[roots]: root types."""
    errors: pa.StringArray
    """[errors]: error classes."""

    @staticmethod
    def of(
        operations: Iterable[pa.DictionaryArray],
        sites: Iterable[I8],
        paths: Iterable[I8],
        n_patterns: int,
        children: Iterable[I8],
        texts: Iterable[pa.StringArray],
    ) -> NameColumns:
        """Names from their columns, kind by kind, in the order of the attributes; texts: roots and errors."""
        columns: tuple[Any, ...] = (*operations, *sites, *paths, n_patterns, *children, *texts)
        return NameColumns(*columns)


def one_after_the_other(parts: Sequence[NameColumns]) -> NameColumns:
    """Names of all parts. Numbers in them refer to the names of all parts already. O(names)."""

    def numbers(*names: str) -> list[I8]:
        none = np.zeros(0, np.int64)
        return [np.concatenate([none, *(getattr(part, name) for part in parts)]) for name in names]

    def texts(*names: str) -> list[pa.StringArray]:
        none = pa.array([], pa.string())
        return [
            pa.concat_arrays([none, *(getattr(p, name).cast(none.type) for p in parts)]) for name in names
        ]

    return NameColumns.of(
        (words.dictionary_encode() for words in texts("component", "point", "callee")),
        numbers("caller", "operation", "kind"),
        numbers("above", "path_site"),
        sum(part.n_patterns for part in parts),
        numbers("pattern", "child", "calls", "awaited"),
        texts("roots", "errors"),
    )


def name_columns(names: Names) -> NameColumns:
    """Convert names from tuples to columns. O(names)."""
    words = (
        pa.array([name[at] for name in names.operations], pa.string()).dictionary_encode() for at in range(3)
    )
    children = [(at, *child) for at, pattern in enumerate(names.patterns) for child in pattern]
    return NameColumns.of(
        words,
        _columns(names.sites, 3),
        _columns(names.paths, 2),
        len(names.patterns),
        _columns(children, 4),
        (pa.array(texts, pa.string()) for texts in (names.roots, names.errors)),
    )


def _columns(rows: object, n: int) -> list[I8]:
    return list(np.array(rows, dtype=np.int64).reshape(-1, n).T)


def names_of(columns: NameColumns) -> Names:
    """Convert names from columns to tuples. O(names)."""
    words = (columns.component, columns.point, columns.callee)
    kinds = list(map([*SiteKind].__getitem__, columns.kind.tolist()))
    awaited = columns.awaited.astype(np.bool_).tolist()
    children = _named(Child, columns.child.tolist(), columns.calls.tolist(), awaited)
    bounds = np.searchsorted(columns.pattern, np.arange(columns.n_patterns + 1)).tolist()
    return Names(
        _named(OperationName, *(texts.cast(pa.string()).to_pylist() for texts in words)),
        _named(SiteName, columns.caller.tolist(), columns.operation.tolist(), kinds),
        _named(PathName, columns.above.tolist(), columns.path_site.tolist()),
        tuple(children[first:past] for first, past in pairwise(bounds)),
        tuple(columns.roots.to_pylist()),
        tuple(columns.errors.to_pylist()),
    )


def _named(type_: type[T], *columns: list[Any]) -> tuple[T, ...]:
    """Named tuples of a type from their columns, made without a call of Python for each."""
    return tuple(map(partial(tuple.__new__, type_), zip(*columns, strict=True)))


_NONE: Final = np.uint64(hash_word(None))
"""Hash that stands for a missing caller or a missing path of the caller."""


class NameKeys(NamedTuple):
    """64-bit keys of names, one int64 array per kind of name; element k is the key of name number k."""

    operation: I8
    site: I8
    pattern: I8
    path: I8
    root: I8
    error: I8

    @property
    def many(self) -> dict[str, int]:
        """Kind of name, which is a key column of a profile's tables -> number of names of that kind."""
        return {kind: len(keys) for kind, keys in zip(self._fields, self, strict=True)}


def name_keys(names: NameColumns) -> NameKeys:
    """Keys of all names of a profile. O(names + distinct texts)."""
    operation = mix(hash_dictionary(names.component))
    for words in (names.point, names.callee):
        operation = mix(operation ^ hash_dictionary(words))
    caller = np.append(operation, _NONE)[names.caller]
    site = mix(mix(mix(caller) ^ operation[names.operation]) + names.kind.astype(np.uint64))
    keys = (
        operation,
        site,
        _patterns(names, operation),
        _paths(names, site),
        *map(hash_words, (names.roots, names.errors)),
    )
    return NameKeys(*(key.view(np.int64) for key in keys))


def _patterns(names: NameColumns, operation: U8) -> U8:
    """uint64[patterns]: key of each call pattern, independent of the order of its children.

    operation: uint64[operations], keys."""
    child = mix(operation[names.child] + names.calls.astype(np.uint64))
    child = mix(child + names.awaited.astype(np.uint64))
    total = np.zeros(names.n_patterns, dtype=np.uint64)
    np.add.at(total, names.pattern, child)
    return mix(total)


def _paths(names: NameColumns, site: U8) -> U8:
    """uint64[paths]: key of each path, computed from the caller's path level by level.

    site: uint64[sites], keys."""
    found = np.full(len(names.above) + 1, _NONE, dtype=np.uint64)
    left, above = np.arange(len(names.above)), names.above
    is_known = np.zeros(len(found), dtype=np.bool_)
    is_known[NO_CALLER] = True
    while len(left):
        ready = is_known[above[left]]
        mine, left = left[ready], left[~ready]
        found[mine] = mix(mix(found[above[mine]]) ^ site[names.path_site[mine]])
        is_known[mine] = True
    return found[:-1]
