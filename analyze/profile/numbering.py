"""Number the names of many statistics files consistently: a name has one number for all files read in a run.

Only array operations are used: a window of 100,000 sites is renumbered in a few hundredths of a second, and
Python objects are made once, at the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analyze.profile.name_columns import NameColumns, names_of
from analyze.profile.names import NO_CALLER, Names, Recoding
from schemas.arrays import I8


@dataclass(slots=True)
class Keys:
    """Numbers for integer keys, in order of first appearance."""

    ordered: I8 = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """int64[keys]: the known keys, ascending."""
    number: I8 = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """int64[keys]: the number of each key in `ordered`."""

    def __len__(self) -> int:
        return len(self.ordered)

    def numbers(self, keys: I8) -> I8:
        """int64[keys]: number of each key; unknown keys are added. O(keys log known keys)."""
        at = np.searchsorted(self.ordered, keys)
        known = self.ordered.take(at, mode="clip") == keys if len(self) else np.zeros(len(keys), np.bool_)
        if not known.all():
            new, first = np.unique(keys[~known], return_index=True)
            rank = np.empty(len(new), dtype=np.int64)
            rank[np.argsort(first)] = len(self) + np.arange(len(new))
            place = np.searchsorted(self.ordered, new)
            self.number = np.insert(self.number, place, rank)
            self.ordered = np.insert(self.ordered, place, new)
            at = np.searchsorted(self.ordered, keys)
        found: I8 = self.number[at]
        return found

    def keys(self) -> I8:
        """int64[numbers]: key by number, that is in order of first appearance."""
        found = np.empty_like(self.ordered)
        found[self.number] = self.ordered
        return found


@dataclass(slots=True)
class Texts:
    """Numbers for texts, in order of first appearance."""

    known: pa.StringArray = field(default_factory=lambda: pa.array([], pa.string()))
    """Texts by number."""

    def numbers(self, texts: pa.StringArray | pa.DictionaryArray) -> I8:
        """int64[texts]: number of each text; unknown texts are added."""
        if isinstance(texts, pa.DictionaryArray):
            found: I8 = self.numbers(texts.dictionary)[texts.indices.to_numpy()]
            return found
        at = pc.index_in(texts, value_set=self.known)
        if at.null_count:
            self.known = pa.concat_arrays([self.known, pc.unique(texts.filter(at.is_null()))])
            at = pc.index_in(texts, value_set=self.known)
        return np.asarray(at.to_numpy(zero_copy_only=False), dtype=np.int64)


_LOW = (1 << 32) - 1


@dataclass(slots=True)
class RunNames:
    """Numbering of the names in all statistics files that are read in one run.

    The key of a compound name is a pair of numbers, (high 32 bits, low 32 bits) of an int64."""

    texts: Texts = field(default_factory=Texts)
    components: Keys = field(default_factory=Keys)
    """Keys (number of the component's text, number of the callee's text)."""
    operations: Keys = field(default_factory=Keys)
    """Keys (number in `components`, number of the point's text)."""
    sites: Keys = field(default_factory=Keys)
    """Keys (calling operation + 1, called operation * 4 + kind)."""
    chains: Keys = field(default_factory=Keys)
    """Keys (number of the caller's chain + 1, site): a chain is a calling path, numbered callers first."""
    paths: Keys = field(default_factory=Keys)
    """Keys (number in `chains`): the run's numbers of the calling paths, in the order in which files list
    them; the order in `chains` is another, callers first."""
    children: Keys = field(default_factory=Keys)
    """Keys (operation, calls * 2 + 1 if awaited)."""
    prefixes: Keys = field(default_factory=Keys)
    """Keys (number of the shorter prefix + 1, child): sorted children of a call pattern, up to this one."""
    patterns: Keys = field(default_factory=Keys)
    """Keys (1 + number in `prefixes` of all children of the call pattern; 0 if it has no children)."""
    roots: Texts = field(default_factory=Texts)
    errors: Texts = field(default_factory=Texts)

    def taken_in(self, names: NameColumns) -> Recoding:
        """Add the names of a file; returns the mapping from the file's numbers to the run's numbers."""
        component, callee = (self.texts.numbers(texts) for texts in (names.component, names.callee))
        pair = self.components.numbers(component << 32 | callee)
        operation = self.operations.numbers(pair << 32 | self.texts.numbers(names.point))
        caller = np.where(
            names.caller == NO_CALLER, NO_CALLER, operation[names.caller] if len(operation) else 0
        )
        site = self.sites.numbers((caller + 1) << 32 | operation[names.operation] << 2 | names.kind)
        return Recoding(
            site=site,
            path=self._paths(names, site),
            pattern=self._patterns(names, operation),
            root=self.roots.numbers(names.roots),
            error=self.errors.numbers(names.errors),
        )

    def _paths(self, names: NameColumns, site: I8) -> I8:
        """int64[paths of the file]: the run's number of each path, computed from the root downwards, as the
        key of a path contains the number of the caller's path. site: int64[sites of the file]."""
        found = np.full(len(names.above) + 1, NO_CALLER, dtype=np.int64)
        open_ = names.above == NO_CALLER
        done = np.zeros(len(found), dtype=np.bool_)
        done[-1] = True
        while open_.any():
            mine = np.flatnonzero(open_)
            key = (found[names.above[mine]] + 1) << 32 | site[names.path_site[mine]]
            found[mine] = self.chains.numbers(key)
            done[mine] = True
            open_ = ~done[:-1] & done[names.above]
        return self.paths.numbers(found[:-1])

    def _patterns(self, names: NameColumns, operation: I8) -> I8:
        """int64[patterns of the file]: the run's number of each call pattern. Children are sorted by the
        run's numbers of operations. operation: int64[operations of the file]."""
        child = self.children.numbers(
            operation[names.child] << 32 | names.calls << 1 | names.awaited if len(operation) else names.child
        )
        order = np.lexsort((names.awaited, names.calls, operation[names.child], names.pattern))
        child, pattern = child[order], names.pattern[order]
        first = np.searchsorted(pattern, np.arange(names.n_patterns))
        n = np.bincount(pattern, minlength=names.n_patterns)
        prefix = np.full(names.n_patterns, NO_CALLER, dtype=np.int64)
        for nth in range(int(n.max(initial=0))):
            mine = np.flatnonzero(n > nth)
            prefix[mine] = self.prefixes.numbers((prefix[mine] + 1) << 32 | child[first[mine] + nth])
        return self.patterns.numbers(prefix + 1)

    def names(self) -> Names:
        """All names of the run so far, as tuples. O(names)."""
        return names_of(self.columns())

    def columns(self) -> NameColumns:
        """All names of the run so far, as columns."""
        operations, sites = self.operations.keys(), self.sites.keys()
        chains, path_at = self.chains.keys(), np.append(self.paths.keys().argsort(), NO_CALLER)
        paths = chains[self.paths.keys()]
        pairs = self.components.keys()[operations >> 32]
        pattern, child = self._children()
        of_child = self.children.keys()[child]
        return NameColumns(
            component=self._texts(pairs >> 32),
            point=self._texts(operations & _LOW),
            callee=self._texts(pairs & _LOW),
            caller=(sites >> 32) - 1,
            operation=(sites & _LOW) >> 2,
            kind=sites & 3,
            above=path_at[(paths >> 32) - 1],
            path_site=paths & _LOW,
            n_patterns=len(self.patterns),
            pattern=pattern,
            child=of_child >> 32,
            calls=(of_child & _LOW) >> 1,
            awaited=of_child & 1,
            roots=self.roots.known,
            errors=self.errors.known,
        )

    def _texts(self, numbers: I8) -> pa.DictionaryArray:
        return pa.DictionaryArray.from_arrays(pa.array(numbers.astype(np.int32)), self.texts.known)

    def _children(self) -> tuple[I8, I8]:
        """(int64[n] number of the pattern, int64[n] number in `children`) of the children of all patterns, by
        ascending pattern."""
        prefixes = self.prefixes.keys()
        at = self.patterns.keys() - 1
        pattern = np.arange(len(at))
        found: list[tuple[I8, I8]] = []
        while len(at):
            there = at >= 0
            at, pattern = at[there], pattern[there]
            found.append((pattern, prefixes[at] & _LOW))
            at = (prefixes[at] >> 32) - 1
        patterns, children = (
            np.concatenate([np.zeros(0, dtype=np.int64), *(part[side] for part in found[::-1])])
            for side in (0, 1)
        )
        order = np.argsort(patterns, kind="stable")
        return patterns[order], children[order]
