"""Find components that callers call as before but that no longer record spans: lost instrumentation.

The caller's side of a remote call is named after its callee if the callee's span arrives. Without that span
the same call appears without that name, as often as before: nobody stopped calling. A service that is down is
called, too, but then calls fail or take another time. Otherwise the time and calls that the component's spans
showed are now its caller's own time, and no change of the service.
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
    """A component with spans in the reference but not in the problem."""

    component: str
    calls: tuple[Rename, ...]
    """Calls of its callers: old name, with the component as callee, and new name, without."""


@dataclass(frozen=True, slots=True)
class SilentComponents(Noticed):
    """Components without spans in the problem."""

    silent: tuple[Silent, ...]
    """Silent components by name, at least one."""


class LostInstrumentation(Confounder):
    """Compares calls of a component that stopped recording under their old names."""

    name = "lost-instrumentation"
    doc = "A component that stops recording looks as if nobody called it, and its time as its callers'."
    case = "tests/unit/test_confounders.py: a component that records nothing any more"
    state = SilentComponents

    def adjust(self, comparison: Comparison) -> Comparison:
        """Rename the calls in the profile back to their old names."""
        settings = comparison.settings.confounders
        found = silent_components(comparison.profile, comparison.roles, settings)
        calls = tuple(call for one in found for call in one.calls)
        return with_old_names(comparison, calls, SilentComponents(found))

    def explains(self, changes: Sequence[Change], comparison: Comparison) -> Explained | None:
        """Explain changes at calls of silent components, and at their former spans."""
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
    """Components in the reference without spans in the problem that callers call as before; by name.
    O(sites)."""
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
    """True if calls with the callee's name are gone, and equally many without it appeared."""
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
