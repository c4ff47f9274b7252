"""Number the names of many statistics files consistently: a name has one number for all files read in a run.

Names are identified by their 64-bit keys (`analyze.profile.name_columns`), so of a file only names whose keys
are new are read. Only array operations are used; Python objects are made once, at the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from analyze.profile.name_columns import NameColumns, NameKeys, name_keys, names_of, one_after_the_other
from analyze.profile.names import NO_CALLER, Names, Recoding
from schemas.arrays import I8

_SPARE_BITS = 3
"""A table of keys has 8 to 16 places for each, so that one in twenty shares its place with another."""


class KeyTable:
    """Positions of distinct 64-bit keys, found by their highest bits, as keys are hashes.

    A look-up takes a tenth of the time of a binary search, each step of which is a cache miss."""

    def __init__(self, keys: I8) -> None:
        """O(keys). Raises ValueError if a key comes twice."""
        self.keys = keys
        self._shift = np.uint64(64 - len(keys).bit_length() - _SPARE_BITS)
        self._at = np.zeros(1 << (len(keys).bit_length() + _SPARE_BITS), dtype=np.int32)
        place, number = self._place(keys), np.arange(len(keys))
        self._at[place] = number
        shared = np.flatnonzero(self._at[place] != number)
        self._shared = shared[np.argsort(keys[shared])]
        """Positions of the keys whose place another key has, by ascending key."""
        others = keys[self._shared]
        if (others[1:] == others[:-1]).any() or (keys[self._at[place[shared]]] == keys[shared]).any():
            raise ValueError("two names of one key")

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


@dataclass(slots=True)
class RunNames:
    """Numbering of the names in all statistics files that are read in one run."""

    _kinds: tuple[Keys, ...] = field(default_factory=lambda: tuple(Keys() for _ in NameKeys._fields))
    """Numbers of each kind of name, in the order of `NameKeys`."""
    _parts: list[NameColumns] = field(default_factory=list)
    """All names in the order of their numbers."""

    def numbers(self, keys: NameKeys) -> list[tuple[KeyTable, I8]] | None:
        """(numbers by key, number of each of `keys`) by kind of name; None if a name is not known.

        Another thread may add names meanwhile."""
        tables = (kind.table for kind in self._kinds)
        found = [(table, table.find(of)) for table, of in zip(tables, keys, strict=True)]
        return found if all(of.min(initial=0) >= 0 for _, of in found) else None

    def taken_in(self, names: NameColumns, keys: NameKeys | None = None) -> Recoding:
        """Add the names of a file; returns the mapping from the file's numbers to the run's numbers.

        keys: keys of the names; None: computed from them."""
        keys = name_keys(names) if keys is None else keys
        found = [kind.numbers(of) for kind, of in zip(self._kinds, keys, strict=True)]
        operation, site, pattern, path, root, error = (numbers for numbers, _ in found)
        codes = Recoding(site=site, path=path, pattern=pattern, root=root, error=error)
        if not any(len(new) for _, new in found):
            return codes
        operations, sites, patterns, paths, roots, errors = (new for _, new in found)
        mine = np.flatnonzero(np.isin(names.pattern, patterns))
        of_child = (
            pattern[names.pattern[mine]],
            operation[names.child[mine]],
            names.calls[mine],
            names.awaited[mine],
        )
        order = np.lexsort(of_child[::-1])
        caller, above = (np.append(of, NO_CALLER) for of in (operation, path))
        words = (of.take(pa.array(operations)) for of in (names.component, names.point, names.callee))
        self._parts.append(
            NameColumns.of(
                # With words of their own: those of the whole file would stay in memory for one new name.
                (of.cast(pa.string()).dictionary_encode() for of in words),
                (caller[names.caller[sites]], operation[names.operation[sites]], names.kind[sites]),
                (above[names.above[paths]], site[names.path_site[paths]]),
                len(patterns),
                (column[order] for column in of_child),
                (names.roots.take(pa.array(roots)), names.errors.take(pa.array(errors))),
            )
        )
        return codes

    def names(self) -> Names:
        """All names of the run so far, as tuples. O(names)."""
        return names_of(self.columns())

    def keys(self) -> NameKeys:
        """Keys of all names of the run so far."""
        return NameKeys(*(kind.keys for kind in self._kinds))

    def columns(self) -> NameColumns:
        """All names of the run so far, as columns."""
        if len(self._parts) != 1:
            self._parts = [one_after_the_other(self._parts)]
        return self._parts[0]
