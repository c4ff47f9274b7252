"""Find components that callers call as before but that no longer record spans: lost instrumentation.

The name of the caller's side of a remote call includes the callee if the callee's span arrives. Without that
span the same call appears under the name without callee, as often as before: callers did not stop. They also
call a service that is down, but then calls fail or their duration changes. If neither happens, the time of
the component's spans is now counted as its callers' self time, and the service did not change.
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
    """Component that has spans in the reference but not in the problem, though its callers still call it."""

    component: str
    calls: tuple[Rename, ...]
    """Renames of its callers' calls: from the name with the component as callee to the name without
    callee."""


@dataclass(frozen=True, slots=True)
class SilentComponents(Noticed):
    """State of the confounder `LostInstrumentation`: the components that stopped recording."""

    silent: tuple[Silent, ...]
    """Components without spans in the problem, by name; at least one."""


class LostInstrumentation(Confounder):
    """Confounder that restores the names of calls to a component that stopped recording."""

    name = "lost-instrumentation"
    doc = "A component that stops recording looks as if nobody called it, and its time as its callers'."
    case = "tests/unit/test_confounders.py: a component that records nothing any more"
    state = SilentComponents

    def adjust(self, comparison: Comparison) -> Comparison:
        """Rename the calls in the profile back to the names they had in the reference."""
        settings = comparison.settings.confounders
        found = silent_components(comparison.profile, comparison.roles, settings)
        calls = tuple(call for one in found for call in one.calls)
        return with_old_names(comparison, calls, SilentComponents(found))

    def explains(self, changes: Sequence[Change], comparison: Comparison) -> Explained | None:
        """Explain changes at calls of the components that stopped recording, and at their former spans."""
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
    """Find components of the baseline without spans in the problem whose callers call them as before; by
    name. O(sites)."""
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
    """True if calls under the name with callee are gone, and equally many under the name without callee
    appeared."""
    if nameless < 0 or after.n[named] > 0 or after.n[nameless] < settings.rename_requests:
        return False
    return bool(before.n[nameless] < settings.nameless_share * after.n[nameless]) and as_often(
        before, after, named, nameless, settings
    )


def _alike(before: Uses, named: int, after: Uses, nameless: int, settings: ConfounderSettings) -> bool:
    """True if calls take about as long, and fail about as often, as before."""
    calls = float(before.calls[named]), float(after.calls[nameless])
    if not all(calls):
        return False
    took = float(before.inclusive_ns[named]) / calls[0], float(after.inclusive_ns[nameless]) / calls[1]
    counts = before.failing[named], before.n[named], after.failing[nameless], after.n[nameless]
    failing = exact_p(*(round(float(count)) for count in counts))
    same = settings.nameless_time
    return 1 / same < took[1] / max(took[0], 1e-300) < same and failing > settings.nameless_p
