"""Keys of names: 64-bit hashes, the same in every window, so that sums of any windows can be joined by key.

Each text is hashed once (`stitch.columnar.hashing`); keys of compound names are computed from the hashes by
array arithmetic. Among a million names two collide with probability 3e-8; a file with a collision is rejected
when it is read.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from analyze.profile.name_columns import NameColumns
from analyze.profile.names import NO_CALLER
from schemas.arrays import I8, U8
from stitch.columnar.hashing import hash_dictionary, hash_word, hash_words, mix

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
