"""Find components whose callers call them as before, but that no longer record spans (lost instrumentation).

The name of a remote call at the caller includes the callee if the callee's span arrives. Without that span,
the same calls appear under the name without callee, and as often. Callers also call a service that is down,
but then calls fail or take another time. If calls neither fail nor take another time, the service did not
change; the time of its missing spans is only counted as its callers' own time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analyze.methods.robust.changes import Change
from analyze.methods.robust.comparison import Comparison, Noticed
from analyze.methods.robust.confounders.port import Confounder, Explained, counted_changes
from analyze.methods.robust.confounders.renamed_operations import (
    Rename,
    Uses,
    as_often,
    uses_of,
    with_old_names,
)
from analyze.methods.robust.roles import Roles
from analyze.methods.robust.settings import ConfounderSettings
from analyze.profile.names import OperationName
from analyze.profile.profile import Profile
from analyze.stats.proportions import exact_p


@dataclass(frozen=True, slots=True)
class Silent:
    """Component that has spans in the baseline but not in the problem, although its callers call it as
    before."""

    component: str
    calls: tuple[Rename, ...]
    """Renames of the calls to the component, one per calling operation: from the name with callee to the name
    without."""


@dataclass(frozen=True, slots=True)
class SilentComponents(Noticed):
    """Components that stopped recording, stored by the confounder `LostInstrumentation`."""

    silent: tuple[Silent, ...]
    """Components that stopped recording, sorted by name; at least one."""


class LostInstrumentation(Confounder):
    """Confounder for lost instrumentation: restores the names of calls to components that stopped
    recording."""

    name = "lost-instrumentation"
    doc = "A component that stops recording looks as if nobody called it, and its time as its callers'."
    case = "tests/unit/test_confounders.py: a component that records nothing any more"
    state = SilentComponents

    def adjust(self, comparison: Comparison) -> Comparison:
        """Rename, in the profile, the calls to components that stopped recording back to the names that they
        have in the baseline."""
        settings = comparison.settings.confounders
        found = silent_components(comparison.profile, comparison.roles, settings)
        calls = tuple(call for one in found for call in one.calls)
        return with_old_names(comparison, calls, SilentComponents(found))

    def explains(self, changes: Sequence[Change], comparison: Comparison) -> Explained | None:
        """Explain changes at calls to components that stopped recording, and changes at these components."""
        noticed = comparison.noticed_as(SilentComponents)
        if noticed is None:
            return None
        silent = noticed.silent
        components = {one.component for one in silent}
        names = comparison.profile.names
        found = [
            change
            for change in changes
            if names.operation(change.site).callee in components
            or names.operation(change.site).component in components
        ]
        said = ", ".join(one.component for one in silent)
        calls = int(np.sum([call.requests for one in silent for call in one.calls]))
        text = (
            f"No span of {said} arrived in the problem, though {calls:,} requests of its callers call on and "
            "are answered as before: its instrumentation is lost, and what it does is counted as its "
            "callers' own time."
        )
        if found:
            text += f" {counted_changes(found)} are no findings for that."
        return Explained("quality", text, tuple(found), severe=True)


def silent_components(profile: Profile, roles: Roles, settings: ConfounderSettings) -> tuple[Silent, ...]:
    """Components with spans in the baseline but none in the problem, whose callers call them as before;
    sorted by name. O(sites)."""
    before, after = (uses_of(profile, slots) for slots in (roles.ordinary, roles.problem))
    names = profile.names.operations
    number = {name: place for place, name in enumerate(names)}
    requests: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    called: dict[str, list[OperationName]] = defaultdict(list)
    for place, name in enumerate(names):
        requests[name.component][0] += float(before.n[place])
        requests[name.component][1] += float(after.n[place])
        if name.callee and before.n[place] > 0:
            called[name.callee].append(name)
    found = []
    for component in sorted(called):
        if requests[component][1] > 0 or requests[component][0] < settings.rename_requests:
            continue
        pairs = [(name, number.get(name._replace(callee=""), -1)) for name in called[component]]
        if all(
            _as_often(before, after, number[name], nameless, settings)
            and _alike(before, number[name], after, nameless, settings)
            for name, nameless in pairs
        ):
            calls = tuple(Rename(name, names[nameless], float(after.n[nameless])) for name, nameless in pairs)
            found.append(Silent(component, calls))
    return tuple(found)


def _as_often(before: Uses, after: Uses, named: int, nameless: int, settings: ConfounderSettings) -> bool:
    """True if calls under the name with callee stopped, and about as many calls under the name without callee
    appeared.

    named, nameless: indices of the operations with and without callee; `nameless` is -1 if there is none.
    """
    if nameless < 0 or after.n[named] > 0 or after.n[nameless] < settings.rename_requests:
        return False
    return bool(before.n[nameless] < settings.nameless_share * after.n[nameless]) and as_often(
        before, after, named, nameless, settings
    )


def _alike(before: Uses, named: int, after: Uses, nameless: int, settings: ConfounderSettings) -> bool:
    """True if calls under the name without callee take about as long, and fail about as often, as those under
    the name with callee did. named, nameless: indices of the two operations."""
    calls = float(before.calls[named]), float(after.calls[nameless])
    if not all(calls):
        return False
    took = float(before.inclusive_ns[named]) / calls[0], float(after.inclusive_ns[nameless]) / calls[1]
    counts = before.failing[named], before.n[named], after.failing[nameless], after.n[nameless]
    failing = exact_p(*(round(float(count)) for count in counts))
    same = settings.nameless_time
    return 1 / same < took[1] / max(took[0], 1e-300) < same and failing > settings.nameless_p
