"""Names of a profile as columns, as they are stored, so that 100,000 sites need no Python objects."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from analyze.profile.names import Child, Names, OperationName, PathName, SiteKind, SiteName
from schemas.arrays import I8


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


def name_columns(names: Names) -> NameColumns:
    """Convert names from tuples to columns. O(names)."""
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
    """Convert names from columns to tuples. O(names)."""
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
