"""Keys of names: 64-bit hashes that are the same in every window, so that sums of any windows add up by key.

Words are hashed once each (`stitch.columnar.hashing`), everything made of them by arithmetic on columns. Two
of a million names have one key with a probability of 3e-8; such a window is not kept.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from analyze.profile.name_columns import NameColumns
from analyze.profile.names import NO_CALLER
from schemas.arrays import I8, U8
from stitch.columnar.hashing import hash_dictionary, hash_word, hash_words, mix

_NONE: Final = np.uint64(hash_word(None))
"""Hash of no caller, and of nothing above."""


class NameKeys(NamedTuple):
    """Keys by kind of name; element `k` is that of number `k`."""

    operation: I8
    site: I8
    pattern: I8
    path: I8
    root: I8
    error: I8


def name_keys(names: NameColumns) -> NameKeys:
    """Keys of all names. O(names and words)."""
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
    """[patterns] hash of the set of children, in any order."""
    child = mix(operation[names.child] + names.calls.astype(np.uint64))
    child = mix(child + names.awaited.astype(np.uint64))
    total = np.zeros(names.n_patterns, dtype=np.uint64)
    np.add.at(total, names.pattern, child)
    return mix(total)


def _paths(names: NameColumns, site: U8) -> U8:
    """[paths] level by level, as a path is known by the one above it."""
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
