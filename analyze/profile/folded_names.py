"""Fold the names of profiles that are joined: each window may have few names, and their union too many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

from analyze.population import FoldedNames
from analyze.profile.names import Names, OperationName
from analyze.refine.name_folding import Folding, NameFolder
from analyze.refine.stored import Operation


def folding_of(names: Sequence[Names], before: Sequence[FoldedNames], most: int | None) -> Folding:
    """Common folding: at least as coarse as each in `before`, coarser if all names together are too many.

    most: as `RefineSettings.max_names`; None: only what `before` folds.
    """
    components = Counter(operation.component for one in names for operation in one.operations)
    if not before and (most is None or max((len(components), *components.values())) <= most):
        return Folding()
    folder = NameFolder(sum(len(one.operations) for one in names) + 1 if most is None else most, before)
    for one in names:
        folder.add(Operation(operation.component, operation.point) for operation in one.operations)
    return folder.folding()


def folded(names: Names, before: Sequence[FoldedNames], folding: Folding) -> Names:
    """Names after folding, in the same order; some may be equal then. before: folding they already have."""
    if folding == Folding(before):
        return names
    return names.called(partial(_operation, folding), partial(_root, folding))


def _operation(folding: Folding, name: OperationName) -> OperationName:
    """Fold an operation; its callees are components joined by `+`."""
    component, point, _ = folding.name(Operation(name.component, name.point))
    callees = {folding.component(callee) for callee in name.callee.split("+")}
    return OperationName(component, point, "+".join(sorted(callees)))


def _root(folding: Folding, root: str) -> str:
    """Fold a root type. A component may contain slashes: the first prefix that is a folded component
    counts."""
    places = [at for at, letter in enumerate(root) if letter == "/"]
    for at in places:
        if folding.level(folding.component(root[:at])):
            return "/".join(folding.name(Operation(root[:at], root[at + 1 :]))[:2])
    at = places[0] if places else len(root)
    return folding.component(root[:at]) + root[at:]
