"""Rank the call sites to examine first if no finding explains a change.

Insignificant changes of at least `suspect_z` standard errors are resolved to causes in the same way as
significant ones, so that a callee ranks before callers whose times only reflect it. Effects Δ are shrunk
towards 0 by their noise, Δ · Δ² / (Δ² + noise²), so that a large but noisy effect does not outrank a slightly
smaller, more precise one.
"""

from __future__ import annotations

from dataclasses import dataclass

from analyze.methods.robust.causes.context import context_of, failures_begun
from analyze.methods.robust.causes.resolve import causes_of, is_better
from analyze.methods.robust.causes.symptoms import Cause
from analyze.methods.robust.changes import Change
from analyze.methods.robust.confounders.registry import recorded_changes
from analyze.methods.robust.robust_run import RobustRun
from analyze.methods.robust.testing import NearChange, nearly
from schemas.report.findings import TIME_KINDS


@dataclass(frozen=True, slots=True)
class Suspected:
    """Possible cause, none of whose changes is significant."""

    cause: Cause
    near: NearChange
    """Leading change of the cause, with its z and the z at which it would be significant."""
    score: float
    part_ns: float
    """Part of the change of the mean response time that is due to the leading change, ns per request, shrunk
    by its noise."""


def suspects_of(run: RobustRun) -> tuple[Suspected, ...]:
    """Suspects of a run without findings, most important first, improvements last; at most
    `settings.suspects`. O(symptoms²), symptoms of the `suspects_resolved` largest changes."""
    settings = run.settings
    found = nearly(run.tested.seen, run.tested, settings, noise_assumed=run.roles.noise_assumed)
    near = {id(one.change): one for one in found if not (run.timeless and one.change.kind in TIME_KINDS)}

    def score(change: Change) -> float:
        size = max(
            abs(change.contribution_ns) / run.context.mean_ns, settings.causes.path_weight * change.weight
        )
        return shrinkage(change.z) * size

    largest = sorted((one.change for one in near.values()), key=score, reverse=True)
    kept = recorded_changes(largest[: settings.suspects_resolved], run)
    begun = failures_begun(run.profile, run.roles)
    context = context_of(kept, (), run.profiled, run.population, run.roles, begun, settings.causes)
    suspected = []
    for cause in causes_of(context, run.tested.sites, settings.without):
        follows = {id(change) for change in cause.follows}
        most = max(score(change) for change in cause.changes if id(change) not in follows)
        part_ns = shrinkage(cause.lead.z) * cause.lead.contribution_ns
        suspected.append(Suspected(cause, near[id(cause.lead)], most, part_ns))
    # Improvements come last, as among findings.
    suspected.sort(key=lambda one: (is_better(one.cause, one.part_ns, context.names), -one.score))
    return tuple(suspected[: settings.suspects])


def shrinkage(z: float) -> float:
    """Factor in [0, 1) for an effect of z standard errors: z² / (z² + 1)."""
    return z * z / (z * z + 1)
