"""Replace ids in names by `#` (folding) when profiles are joined: each window may have few names, but all
windows together too many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import chain
from operator import attrgetter

from analyze.population import FoldedNames
from analyze.profile.names import Names, OperationName
from analyze.refine.name_folding import Folding, NameFolder
from analyze.refine.stored import Operation


def folding_of(names: Sequence[Names], before: Sequence[FoldedNames], most: int | None) -> Folding:
    """Folding for all `names` together: levels at least as high as in `before`, and high enough that no
    component has more than `most` names.

    before: foldings that were applied to the names already. most: as `RefineSettings.max_names`; None: no
    limit, the levels are those in `before`.
    """
    components = Counter(map(attrgetter("component"), chain.from_iterable(one.operations for one in names)))
    if not before and (most is None or max((len(components), *components.values())) <= most):
        return Folding()
    folder = NameFolder(sum(len(one.operations) for one in names) + 1 if most is None else most, before)
    for one in names:
        folder.add(Operation(operation.component, operation.point) for operation in one.operations)
    return folder.folding()


def folded(names: Names, before: Sequence[FoldedNames], folding: Folding) -> Names:
    """Names after folding, with unchanged numbers; some may be equal then. before: folding that was applied
    to `names` already."""
    if folding == Folding(before):
        return names
    return names.called(partial(_operation, folding), partial(_root, folding))


def _operation(folding: Folding, name: OperationName) -> OperationName:
    """Folded name of an operation, including its callees (components joined by `+`)."""
    component, point, _ = folding.name(Operation(name.component, name.point))
    callees = {folding.component(callee) for callee in name.callee.split("+")}
    return OperationName(component, point, "+".join(sorted(callees)))


def _root(folding: Folding, root: str) -> str:
    """Folded root type. `root` is `component/point`, and a component may contain slashes: the shortest prefix
    that is a component with folded names is taken as the component."""
    places = [at for at, letter in enumerate(root) if letter == "/"]
    for at in places:
        if folding.level(folding.component(root[:at])):
            return "/".join(folding.name(Operation(root[:at], root[at + 1 :]))[:2])
    at = places[0] if places else len(root)
    return folding.component(root[:at]) + root[at:]
