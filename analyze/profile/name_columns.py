"""Names in columns, as they are stored and numbered: a hundred thousand sites are no objects of Python."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from analyze.profile.names import NO_CALLER, Child, Names, OperationName, PathName, SiteKind, SiteName
from schemas.arrays import B1, I8


@dataclass(frozen=True, slots=True)
class NameColumns:
    """The words of a profile; row `k` of a kind is what its number `k` stands for."""

    component: pa.DictionaryArray
    """[operations], like the two after it: a word that many share is there once."""
    point: pa.DictionaryArray
    callee: pa.DictionaryArray
    caller: I8
    """[sites], like the two after it."""
    operation: I8
    kind: I8
    above: I8
    """[paths], and the site of each."""
    path_site: I8
    n_patterns: int
    pattern: I8
    """[children] of all patterns, in their order: whose, and what."""
    child: I8
    calls: I8
    awaited: I8
    roots: pa.StringArray
    errors: pa.StringArray

    @property
    def many(self) -> dict[str, int]:
        """Counts of names by the key column that holds their numbers."""
        return {
            "site": len(self.caller),
            "path": len(self.above),
            "pattern": self.n_patterns,
            "root": len(self.roots),
            "error": len(self.errors),
        }

    def are_sound(self) -> bool:
        """Tell whether every number stands for a name, and a path comes after the one above it."""
        n_operations, n_sites = len(self.component), len(self.caller)
        kinds = [int(kind) for kind in SiteKind]
        at = np.arange(len(self.above))
        return bool(
            len(self.point) == len(self.callee) == n_operations
            and _within(self.caller, NO_CALLER, n_operations).all()
            and _within(self.operation, 0, n_operations).all()
            and np.isin(self.kind, kinds).all()
            and _within(self.above, NO_CALLER, at).all()
            and _within(self.path_site, 0, n_sites).all()
            and _within(self.pattern, 0, self.n_patterns).all()
            and (np.diff(self.pattern) >= 0).all()
            and _within(self.child, 0, n_operations).all()
            and _within(self.calls, 1, 1 << 31).all()
            and _within(self.awaited, 0, 2).all()
        )


def _within(number: I8, least: int, past: int | I8) -> B1:
    return np.asarray((number >= least) & (number < past))


def name_columns(names: Names) -> NameColumns:
    """Names in columns. O(names)."""
    component, point, callee = (
        pa.array([name[at] for name in names.operations], pa.string()).dictionary_encode() for at in range(3)
    )
    caller, operation, kind = _columns(names.sites, 3)
    above, path_site = _columns(names.paths, 2)
    children = [(at, *child) for at, pattern in enumerate(names.patterns) for child in pattern]
    pattern, child, calls, awaited = _columns(children, 4)
    return NameColumns(
        component=component,
        point=point,
        callee=callee,
        caller=caller,
        operation=operation,
        kind=kind,
        above=above,
        path_site=path_site,
        n_patterns=len(names.patterns),
        pattern=pattern,
        child=child,
        calls=calls,
        awaited=awaited,
        roots=pa.array(names.roots, pa.string()),
        errors=pa.array(names.errors, pa.string()),
    )


def _columns(rows: object, n: int) -> list[I8]:
    return list(np.array(rows, dtype=np.int64).reshape(-1, n).T)


def names_of(columns: NameColumns) -> Names:
    """The names of some columns. O(names)."""
    kinds = [SiteKind(number) for number in range(len(SiteKind))]
    bounds = np.searchsorted(columns.pattern, np.arange(columns.n_patterns + 1)).tolist()
    children = list(
        map(Child, columns.child.tolist(), columns.calls.tolist(), columns.awaited.astype(bool).tolist())
    )
    return Names(
        tuple(
            map(
                OperationName,
                *(
                    texts.cast(pa.string()).to_pylist()
                    for texts in (columns.component, columns.point, columns.callee)
                ),
            )
        ),
        tuple(
            SiteName(caller, operation, kinds[kind])
            for caller, operation, kind in zip(
                columns.caller.tolist(), columns.operation.tolist(), columns.kind.tolist(), strict=True
            )
        ),
        tuple(map(PathName, columns.above.tolist(), columns.path_site.tolist())),
        tuple(tuple(children[first:past]) for first, past in pairwise(bounds)),
        tuple(columns.roots.to_pylist()),
        tuple(columns.errors.to_pylist()),
    )
