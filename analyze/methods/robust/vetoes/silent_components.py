"""Components that are called as before and tell nothing any more: their instrumentation is lost (L.8).

The caller's side of a remote call is named with whom it calls, by the span that arrives from there. Where
none arrives, the same call stands without that name, as often as before: nobody stopped calling. A service
that is down is called, too; but then calls fail, or take another time. Where they do not, what the
component's spans told (its time, what it calls) is now its caller's own time, and no change of the service.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from analyze.methods.robust.changes import Change
from analyze.methods.robust.roles import Roles
from analyze.methods.robust.vetoes.asides import Aside, counted_changes
from analyze.methods.robust.vetoes.renames import LEAST_REQUESTS, Rename, Uses, as_often, uses_of
from analyze.profile.names import Names, OperationName
from analyze.profile.profile import Profile
from analyze.stats.proportions import exact_p
from analyze.stats.sums import totals

F8 = npt.NDArray[np.float64]
B1 = npt.NDArray[np.bool_]

_SAME_TIME = 1.25
"""Factor of the mean time of a call that is no other."""
_SURE = 0.01
_NEW = 0.1
"""A nameless call was there before, if it was so often, relative to what it is now."""


@dataclass(frozen=True, slots=True)
class Silent:
    """A component without a span in the problem."""

    component: str
    calls: tuple[Rename, ...]
    """Its callers' sides of calls: named with it before, and without."""


def silent_components(profile: Profile, roles: Roles) -> tuple[Silent, ...]:
    """Those that the reference knows, the problem does not, and callers call as before; by name. O(sites)."""
    before, after = (uses_of(profile, slots) for slots in (roles.ordinary, roles.problem))
    answers = [_Answers.of(profile, slots) for slots in (roles.ordinary, roles.problem)]
    names = profile.names.operations
    number = {name: place for place, name in enumerate(names)}
    told: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    called: dict[str, list[OperationName]] = defaultdict(list)
    for place, name in enumerate(names):
        told[name.component][0] += float(before.n[place])
        told[name.component][1] += float(after.n[place])
        if name.callee and before.n[place] > 0:
            called[name.callee].append(name)
    found = []
    for component in sorted(called):
        if told[component][1] > 0 or told[component][0] < LEAST_REQUESTS:
            continue
        pairs = [(name, number.get(name._replace(callee=""), -1)) for name in called[component]]
        if all(
            _as_often(before, after, number[name], nameless)
            and _alike(answers[0], number[name], answers[1], nameless)
            for name, nameless in pairs
        ):
            calls = tuple(Rename(name, names[nameless], float(after.n[nameless])) for name, nameless in pairs)
            found.append(Silent(component, calls))
    return tuple(found)


def _as_often(before: Uses, after: Uses, named: int, nameless: int) -> bool:
    """Whether calls with the name are gone, and as many without it came."""
    if nameless < 0 or after.n[named] > 0 or after.n[nameless] < LEAST_REQUESTS:
        return False
    return bool(before.n[nameless] < _NEW * after.n[nameless]) and as_often(before, after, named, nameless)


@dataclass(frozen=True, slots=True)
class _Answers:
    """How calls of operations are answered in one period; arrays are [operations]."""

    calls: F8
    inclusive_ns: F8
    failing: F8
    """Requests with a failing call."""
    requests: F8

    @staticmethod
    def of(profile: Profile, slots: B1) -> _Answers:
        operation = np.array([site.operation for site in profile.names.sites], dtype=np.int64)

        def sums(table: pa.Table, column: str) -> F8:
            inside = slots[table["slot"].to_numpy()]
            at = operation[table["site"].to_numpy()[inside]]
            return totals(at, table[column].to_numpy()[inside], len(profile.names.operations))

        return _Answers(
            sums(profile.shapes, "calls"),
            sums(profile.shapes, "inclusive_ns"),
            sums(profile.visits, "failing_n"),
            sums(profile.visits, "n"),
        )


def _alike(before: _Answers, named: int, after: _Answers, nameless: int) -> bool:
    """Whether calls take as long and fail as seldom."""
    calls = float(before.calls[named]), float(after.calls[nameless])
    if not all(calls):
        return False
    took = float(before.inclusive_ns[named]) / calls[0], float(after.inclusive_ns[nameless]) / calls[1]
    counts = [
        before.failing[named],
        before.requests[named],
        after.failing[nameless],
        after.requests[nameless],
    ]
    failing = exact_p(*(round(float(count)) for count in counts))
    return 1 / _SAME_TIME < took[1] / max(took[0], 1e-300) < _SAME_TIME and failing > _SURE


def silent_changes(changes: Sequence[Change], silent: Sequence[Silent], names: Names) -> list[Change]:
    """Those of the changes that are at calls of silent components, which are told under their old names."""
    components = {one.component for one in silent}
    return [
        change
        for change in changes
        if names.operation(change.site).callee in components
        or names.operation(change.site).component in components
    ]


def silent_aside(silent: Sequence[Silent], explained: Sequence[Change]) -> Aside:
    """What is told of it."""
    said = ", ".join(one.component for one in silent)
    calls = int(np.sum([call.requests for one in silent for call in one.calls]))
    text = (
        f"No span of {said} arrived in the problem, though {calls:,} requests of its callers call on and "
        "are answered as before: its instrumentation is lost, and what it does is told as its callers' own "
        "time."
    )
    if explained:
        text += f" {counted_changes(tuple(explained))} are no findings for that."
    return Aside("loss", text, tuple(explained), severe=True)
