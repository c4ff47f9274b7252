"""Names of a profile as rows of relations (`schemas.statistics`): 100,000 sites need no Python objects.

Names are keyed by 64-bit hashes and refer to each other by key. The key of a name is the same in every
window, so rows and sums of any windows can be joined by key. Each text is hashed once
(`stitch.columnar.hashing`); keys of compound names are computed from the hashes by array arithmetic. Among a
million names two collide with probability 3e-8; the second of them is then counted as the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from analyze.profile.names import NO_CALLER, Names
from schemas.arrays import I8, U8
from schemas.statistics import SITE_KINDS, columns_of_relation, rows_of_relation
from stitch.columnar.hashing import hash_dictionary, hash_word, hash_words, mix

NameRows = Mapping[str, pa.StructArray]
"""Relation of names -> its rows; row k of the rows of a kind of name is name number k."""
Numbers = Mapping[str, I8]
"""Kind of name -> int64[names]: the key, or another number, of each name."""
KIND_OF: Final = {
    "operations": "operation",
    "sites": "site",
    "patterns": "pattern",
    "paths": "path",
    "roots": "root",
    "errors": "error",
}
"""Relation of names -> kind of its names, which is its key column, and a key column of other relations and of
a profile's tables."""
_NONE: Final = np.uint64(hash_word(None))
"""Hash that stands for a missing caller or a missing path of the caller."""


def no_names() -> dict[str, pa.StructArray]:
    """Rows of all relations of names, without a name."""
    return {
        name: rows_of_relation(name, [pa.array([], field.type) for field in columns_of_relation(name)])
        for name in KIND_OF
    }


def keys_of(rows: NameRows) -> dict[str, I8]:
    """Keys of the names in `rows`, by kind."""
    return {kind: rows[name].field(kind).to_numpy() for name, kind in KIND_OF.items() if name in rows}


def name_rows(names: Names) -> dict[str, pa.StructArray]:
    """Convert names from tuples to rows. O(names + distinct texts)."""
    words = [pa.array([name[at] for name in names.operations], pa.string()) for at in range(3)]
    operation, *others = (hash_dictionary(word.dictionary_encode()) for word in words)
    operation = mix(operation)
    for hashed in others:
        operation = mix(operation ^ hashed)
    caller, called, kind = _columns(names.sites, 3)
    site = mix(mix(mix(np.append(operation, _NONE)[caller]) ^ operation[called]) + kind.astype(np.uint64))
    children = [(at, *child) for at, pattern in enumerate(names.patterns) for child in pattern]
    of, child, calls, awaited = _columns(children, 4)
    above, last = _columns(names.paths, 2)
    path = _paths(above, site[last])
    parts = operation[child].view(np.int64), calls.astype(np.int32), awaited.astype(np.bool_)
    nested = columns_of_relation("patterns").field("children").type
    lists = pa.ListArray.from_arrays(
        np.searchsorted(of, np.arange(len(names.patterns) + 1)).astype(np.int32),
        pa.StructArray.from_arrays([*map(pa.array, parts)], fields=[*nested.value_type]),
        type=nested,
    )
    texts = [pa.array(words, pa.string()) for words in (names.roots, names.errors)]
    kinds = pa.array(np.array(SITE_KINDS)[kind], pa.string())
    columns = {
        "operations": (operation, *words),
        "sites": (site, _or_null(operation, caller), operation[called].view(np.int64), kinds),
        "patterns": (_patterns(operation, of, child, calls, awaited, len(names.patterns)), lists),
        "paths": (path, _or_null(path, above), site[last].view(np.int64)),
        "roots": (hash_words(texts[0]), texts[0]),
        "errors": (hash_words(texts[1]), texts[1]),
    }
    return {name: rows_of_relation(name, [key.view(np.int64), *of]) for name, (key, *of) in columns.items()}


def _columns(rows: object, n: int) -> list[I8]:
    return list(np.array(rows, dtype=np.int64).reshape(-1, n).T)


def _or_null(keys: U8, number: I8) -> pa.Array:
    """int64 array: `keys[number]`, null where `number` is NO_CALLER."""
    return pa.array(np.append(keys, _NONE)[number].view(np.int64), mask=number == NO_CALLER)


def _patterns(operation: U8, of: I8, child: I8, calls: I8, awaited: I8, n: int) -> U8:
    """uint64[n]: key of each call pattern, independent of the order of its children.

    operation: uint64[operations], keys. of, child, calls, awaited: int64[children of all patterns], number of
    the pattern, then as in `Child`."""
    hashed = mix(mix(operation[child] + calls.astype(np.uint64)) + awaited.astype(np.uint64))
    total = np.zeros(n, dtype=np.uint64)
    np.add.at(total, of, hashed)
    return mix(total)


def _paths(above: I8, site: U8) -> U8:
    """uint64[paths]: key of each path, computed from the caller's path level by level.

    above: int64[paths], number of the caller's path or NO_CALLER. site: uint64[paths], key of the site of its
    last call."""
    found = np.full(len(above) + 1, _NONE, dtype=np.uint64)
    left = np.arange(len(above))
    is_known = np.zeros(len(found), dtype=np.bool_)
    is_known[NO_CALLER] = True
    while len(left):
        ready = is_known[above[left]]
        mine, left = left[ready], left[~ready]
        found[mine] = mix(mix(found[above[mine]]) ^ site[mine])
        is_known[mine] = True
    return found[:-1]
