"""Number the names of many statistics files consistently: a name has one number for all files read in a run.

Names are identified by their 64-bit keys (`analyze.profile.name_rows`), so of a file only names whose keys
are new are read. Only array operations are used; Python objects are made once, at the end.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analyze.profile.name_rows import KIND_OF, NameRows, Numbers, keys_of, no_names
from analyze.profile.names import NO_CALLER, Child, Names, OperationName, PathName, SiteKind, SiteName
from schemas.arrays import I8
from schemas.statistics import SITE_KINDS
from stitch.columnar.runs import list_lengths

T = TypeVar("T", bound=tuple[Any, ...])

_SPARE_BITS = 3
"""A table of keys has 8 to 16 places for each, so that one in twenty shares its place with another."""


class KeyTable:
    """Positions of distinct 64-bit keys, found by their highest bits, as keys are hashes.

    A look-up takes a tenth of the time of a binary search, each step of which is a cache miss."""

    def __init__(self, keys: I8) -> None:
        """O(keys). Of a key that comes twice, either position is found."""
        self.keys = keys
        self._shift = np.uint64(64 - len(keys).bit_length() - _SPARE_BITS)
        self._at = np.zeros(1 << (len(keys).bit_length() + _SPARE_BITS), dtype=np.int32)
        place, number = self._place(keys), np.arange(len(keys))
        self._at[place] = number
        shared = np.flatnonzero(self._at[place] != number)
        self._shared = shared[np.argsort(keys[shared])]
        """Positions of the keys whose place another key has, by ascending key."""

    def _place(self, keys: I8) -> I8:
        return (keys.view(np.uint64) >> self._shift).view(np.int64)

    def find(self, wanted: I8) -> I8:
        """int64[wanted]: position of each key; -1 for keys that are not there. O(wanted)."""
        if not len(self.keys):
            return np.full(len(wanted), -1)
        found = self._at[self._place(wanted)].astype(np.int64)
        left = np.flatnonzero(self.keys[found] != wanted)
        if len(left):
            found[left] = -1
            at = np.searchsorted(self.keys[self._shared], wanted[left])
            left, at = left[at < len(self._shared)], self._shared[at[at < len(self._shared)]]
            is_there = self.keys[at] == wanted[left]
            found[left[is_there]] = at[is_there]
        return found

    def find_or_none(self, wanted: pa.Array) -> I8:
        """int64[wanted]: position of each key; NO_CALLER (-1) for null."""
        found = self.find(wanted.fill_null(0).to_numpy())
        found[wanted.is_null().to_numpy(zero_copy_only=False)] = NO_CALLER
        return found


class Keys:
    """Numbers for keys of names, in order of first appearance."""

    def __init__(self) -> None:
        self.table = KeyTable(np.zeros(0, dtype=np.int64))

    @property
    def keys(self) -> I8:
        """int64[numbers]: key by number."""
        return self.table.keys

    def numbers(self, keys: I8) -> tuple[I8, I8]:
        """(int64[keys] number of each key; int64[new] index of the first appearance of each key that was
        unknown before and is added, ascending). O(keys), and O(known keys) if one is new."""
        found = self.table.find(keys)
        unknown = np.flatnonzero(found < 0)
        if not len(unknown):
            return found, unknown
        new = unknown[np.sort(np.unique(keys[unknown], return_index=True)[1])]
        self.table = KeyTable(np.append(self.keys, keys[new]))
        found[unknown] = self.table.find(keys[unknown])
        return found, new


def names_of(rows: NameRows) -> Names:
    """Convert names from rows to tuples. O(names + children log children)."""
    table = {kind: KeyTable(keys) for kind, keys in keys_of(rows).items()}
    sites, paths, lists = rows["sites"], rows["paths"], rows["patterns"].field("children")
    child, of = lists.flatten(), np.repeat(np.arange(len(lists)), list_lengths(lists))
    called = table["operation"].find(child.field("operation").to_numpy())
    calls, awaited = (child.field(name).to_numpy(zero_copy_only=False) for name in ("calls", "awaited"))
    order = np.lexsort((awaited, calls, called, of))
    children = _named(Child, *(column[order].tolist() for column in (called, calls, awaited)))
    bounds = np.searchsorted(of, np.arange(len(lists) + 1)).tolist()
    kinds = pc.index_in(sites.field("kind"), value_set=pa.array(SITE_KINDS, pa.string())).to_pylist()
    return Names(
        _named(OperationName, *(_texts(rows["operations"].field(name)) for name in OperationName._fields)),
        _named(
            SiteName,
            table["operation"].find_or_none(sites.field("caller")).tolist(),
            table["operation"].find(sites.field("operation").to_numpy()).tolist(),
            [*map([*SiteKind].__getitem__, kinds)],
        ),
        _named(
            PathName,
            table["path"].find_or_none(paths.field("above")).tolist(),
            table["site"].find(paths.field("site").to_numpy()).tolist(),
        ),
        tuple(children[first:past] for first, past in pairwise(bounds)),
        tuple(rows["roots"].field("name").to_pylist()),
        tuple(rows["errors"].field("name").to_pylist()),
    )


def _texts(words: pa.StringArray) -> list[str]:
    """Texts as Python objects, one for all that are equal."""
    coded = words.dictionary_encode()
    found: list[str] = np.array(coded.dictionary.to_pylist(), object)[coded.indices.to_numpy()].tolist()
    return found


def _named(type_: type[T], *columns: list[Any]) -> tuple[T, ...]:
    """Named tuples of a type from their columns, made without a call of Python for each."""
    return tuple(map(partial(tuple.__new__, type_), zip(*columns, strict=True)))


class RunNames:
    """Numbering of the names in all statistics files that are read in one run."""

    def __init__(self) -> None:
        self._keys = {kind: Keys() for kind in KIND_OF.values()}
        self._rows = {name: [rows] for name, rows in no_names().items()}
        """All names in the order of their numbers."""

    def tables(self, keys: Numbers) -> dict[str, KeyTable] | None:
        """Numbers by key, by kind of name; None if any of `keys` is not known. Another thread may add names
        meanwhile."""
        tables = {kind: self._keys[kind].table for kind in keys}
        is_known = all(tables[kind].find(of).min(initial=0) >= 0 for kind, of in keys.items())
        return tables if is_known else None

    def taken_in(self, names: NameRows) -> dict[str, I8]:
        """Add the names of a file; returns, by kind of name, int64[names of the file]: number of each."""
        found = {kind: self._keys[kind].numbers(keys) for kind, keys in keys_of(names).items()}
        for name, rows in names.items():
            if len(new := found[KIND_OF[name]][1]):
                self._rows[name].append(rows.take(pa.array(new)))
        return {kind: numbers for kind, (numbers, _) in found.items()}

    def names(self) -> Names:
        """All names of the run so far, as tuples. O(names)."""
        return names_of(self.rows())

    def rows(self) -> dict[str, pa.StructArray]:
        """All names of the run so far, as rows."""
        self._rows = {
            name: [parts[0] if len(parts) == 1 else pa.concat_arrays(parts)]
            for name, parts in self._rows.items()
        }
        return {name: rows for name, (rows,) in self._rows.items()}
