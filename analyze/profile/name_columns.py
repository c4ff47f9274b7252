"""Names in columns, as stored and numbered, so that 100,000 sites need no Python objects."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from analyze.profile.names import NO_CALLER, Child, Names, OperationName, PathName, SiteKind, SiteName
from schemas.arrays import B1, I8


@dataclass(frozen=True, slots=True)
class NameColumns:
    """Names of a profile; row `k` of each kind is the name numbered `k`."""

    component: pa.DictionaryArray
    """component, point, callee: [operations], dictionary-encoded."""
    point: pa.DictionaryArray
    callee: pa.DictionaryArray
    caller: I8
    """caller, operation, kind: [sites]."""
    operation: I8
    kind: I8
    above: I8
    """above, path_site: [paths] path of the caller, and site."""
    path_site: I8
    n_patterns: int
    pattern: I8
    """pattern, child, calls, awaited: [children] of all patterns, ordered by pattern: pattern number,
    operation, number of calls, 1 if awaited."""
    child: I8
    calls: I8
    awaited: I8
    roots: pa.StringArray
    errors: pa.StringArray

    @property
    def many(self) -> dict[str, int]:
        """Key column -> number of names of that kind."""
        return {
            "site": len(self.caller),
            "path": len(self.above),
            "pattern": self.n_patterns,
            "root": len(self.roots),
            "error": len(self.errors),
        }

    def are_sound(self) -> bool:
        """True if every number refers to a name, and each path comes after its caller's path."""
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
    """Names as tuples, from columns. O(names)."""
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
