"""Explain changes by events of one period that were lost in transit.

If three of a hundred events are lost, only four in ten requests of thirty events arrive whole. Some losses
are visible (a missing end, a parent without a record), most are not: a step is skipped. But random loss has
the same rate everywhere, so the median share of missing calls measures it, and a site where more calls are
missing has changed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analyze.methods.robust.changes import NO_PATTERN, Change
from analyze.methods.robust.comparison import Comparison
from analyze.methods.robust.confounders.port import Confounder, Explained, counted_changes
from analyze.methods.robust.roles import Roles
from analyze.methods.robust.settings import ConfounderSettings
from analyze.methods.robust.view import View
from analyze.numbering import Numbering
from analyze.profile.names import NO_CALLER, SiteKind, reached
from analyze.profile.profile import Profile
from analyze.report.wording import percent
from analyze.stats.proportions import exact_p
from analyze.stats.sums import numbered, row_totals, totals, totals_by_side
from schemas.arrays import B1, F8, I8
from schemas.report.findings import PATH_KINDS, TIME_KINDS
from stitch.graph.placed import is_made_up


@dataclass(frozen=True, slots=True)
class Loss:
    """Loss of events in transit in one period, compared with the other."""

    in_problem: bool
    """True if the problem lost events, False if the reference did."""
    rate: float
    """Share of the period's events that were lost, in [0, 1], in addition to losses in the other period."""
    missing: tuple[float, float]
    """Shares of flows that are visibly incomplete, in [0, 1]: (reference, problem)."""
    places: int
    """Number of calls from which `rate` is estimated; 0 if it is estimated from `missing`."""


class LostRecords(Confounder):
    """Confounder that explains changes of paths, and of times of steps, by lost events."""

    name = "lost-records"
    doc = "Events that never arrived look like calls that are not made."
    case = "tests/integration/test_simulated_negatives.py: records that are lost"

    def explains(self, changes: Sequence[Change], comparison: Comparison) -> Explained | None:
        """Explain the changes that the loss can bring about, by kind and size."""
        settings = comparison.settings.confounders
        loss = loss_of(comparison.profile, comparison.roles, comparison.population.incomplete, settings)
        if loss is None:
            return None
        found = _lost_changes(changes, loss, comparison)
        return Explained(
            "quality",
            _text(loss, found, settings),
            tuple(found),
            severe=True,
            hidden_paths=settings.lost_room * loss.rate,
        )


def loss_of(
    profile: Profile, roles: Roles, incomplete: Sequence[tuple[int, int]], settings: ConfounderSettings
) -> Loss | None:
    """Estimate the loss of events if the shares of incomplete flows differ between the periods; None if they
    do not.

    incomplete: see `Population.incomplete`.
    """
    if len(incomplete) < 2 or not all(every for _, every in incomplete[:2]):
        return None
    (k0, n0), (k1, n1) = incomplete[:2]
    missing = k0 / n0, k1 / n1
    if abs(missing[1] - missing[0]) < settings.lost_difference or exact_p(k0, n0, k1, n1) >= settings.lost_p:
        return None
    in_problem = missing[1] > missing[0]
    sides = (roles.reference, roles.problem) if in_problem else (roles.problem, roles.reference)
    lacks = _lacks(profile, *sides, settings)
    if len(lacks) >= settings.lost_places:
        return Loss(in_problem, max(float(np.median(lacks)), 0.0), missing, len(lacks))
    # A flow has at least one event whose loss would show.
    return Loss(in_problem, abs(missing[1] - missing[0]), missing, 0)


def _lacks(profile: Profile, whole: B1, lossy: B1, settings: ConfounderSettings) -> F8:
    """For each call that nearly every request at a site makes, the share of these calls that is missing in
    the lossy period, float64[such calls].

    whole, lossy: masks of the slots of the two periods.
    """
    patterns = _Patterns.of(profile, whole, lossy)
    present: dict[tuple[int, int], F8] = defaultdict(lambda: np.zeros(2))
    for site, pattern, votes in zip(
        patterns.site.tolist(), patterns.pattern.tolist(), patterns.votes, strict=True
    ):
        for child in profile.names.patterns[pattern]:
            present[site, child.operation] += votes
    found = []
    recorded = np.stack([profile.at_sites("visits", "n", period) for period in (whole, lossy)], axis=1)
    for (site, _), votes in present.items():
        n = patterns.total[site]
        if (recorded[site] < settings.lost_requests).any() or votes[0] < settings.lost_always * n[0]:
            continue
        found.append(1 - (votes[1] / n[1]) / (votes[0] / n[0]))
    return np.array(found)


@dataclass(frozen=True, slots=True)
class _Patterns:
    """Votes by site and call pattern in two periods.

    site, pattern: [rows]; votes: float64[rows, 2] weighted; total: float64[sites, 2].
    """

    site: I8
    pattern: I8
    votes: F8
    total: F8

    @staticmethod
    def of(profile: Profile, first: B1, second: B1) -> _Patterns:
        table = profile.patterns
        site, pattern, slot = (
            table[name].to_numpy().astype(np.int64) for name in ("site", "pattern", "slot")
        )
        pair, at = numbered((site, pattern))
        votes = totals_by_side(pair, table["votes"].to_numpy(), slot, (first, second), len(at))
        total = row_totals(votes, site[at], len(profile.names.sites))
        return _Patterns(site[at], pattern[at], votes, total)


def _lost_changes(changes: Sequence[Change], loss: Loss, comparison: Comparison) -> list[Change]:
    """Select the changes that the loss explains, by kind and size."""
    if loss.rate <= 0:
        return []
    profile, settings = comparison.profile, comparison.settings.confounders
    sides = comparison.roles.reference, comparison.roles.problem
    patterns = _Patterns.of(profile, *(sides if loss.in_problem else sides[::-1]))
    allowed = settings.lost_room * _incomplete_part(profile, patterns, loss.rate)
    base, below = _below(profile, comparison.view, loss.in_problem)
    over_lost = _steps_over_lost(profile, comparison.view, loss, settings)

    def explained(change: Change) -> bool:
        """True if a path changed by no more than the loss allows, towards patterns that arise by loss. Self
        times are compared within a pattern, which includes the calls made: so loss changes paths, and among
        times only those of steps over lost records."""
        if change.kind in TIME_KINDS:
            return bool(over_lost[change.site])
        if change.kind not in PATH_KINDS or change.pattern == NO_PATTERN:
            return False
        children = {
            base[child.operation]
            for child in profile.names.patterns[change.pattern]
            if not is_made_up(*profile.names.operations[child.operation][:2])
        }
        operation = base[profile.names.sites[change.site].operation]
        if change.ups == loss.in_problem and not children <= below.get(operation, set()):
            return False
        size = abs(change.after - change.before)
        return bool(size <= allowed[change.site] + settings.lost_z * size / max(abs(change.z), 1e-9))

    return [change for change in changes if explained(change)]


def _steps_over_lost(profile: Profile, sums: View, loss: Loss, settings: ConfounderSettings) -> B1:
    """bool[sites]: True for steps A→B that appear because records of A→…→B were lost: no more frequent and no
    slower than the loss predicts. Such a step's time is not that of a direct step."""
    whole, lossy = (sums.before, sums.after) if loss.in_problem else (sums.after, sums.before)
    steps = {
        (name.caller, name.operation): at
        for at, name in enumerate(profile.names.sites)
        if name.kind is SiteKind.STEP
    }
    after: dict[int, list[int]] = defaultdict(list)
    begun: dict[int, float] = defaultdict(float)
    for (first, last), at in steps.items():
        begun[first] += lossy.calls[at]
        if whole.calls[at]:
            after[first].append(last)
    with np.errstate(divide="ignore", invalid="ignore"):
        took, takes = whole.critical_ns / whole.calls, lossy.critical_ns / lossy.calls
    found = np.zeros(len(profile.names.sites), dtype=np.bool_)
    for (first, last), at in steps.items():
        ways = [
            took[steps[first, near]] + took[steps[near, last]]
            for near in after[first]
            if near not in (first, last) and last in after.get(near, ())
        ]
        if not ways or lossy.calls[at] > settings.lost_room * loss.rate * begun[first]:
            continue
        # Times deviate by about as much as they take.
        chance = 1 + settings.lost_z / np.sqrt(max(lossy.n[at], 1.0))
        found[at] = takes[at] <= settings.lost_room * chance * max(ways)
    return found


def _incomplete_part(profile: Profile, patterns: _Patterns, rate: float) -> F8:
    """Share of calls at each site that lose at least one of their child calls, float64[sites]."""
    made = np.array(
        [sum(child.calls for child in pattern) for pattern in profile.names.patterns], dtype=np.float64
    )
    lost = 1 - (1 - rate) ** made[patterns.pattern] if len(made) else np.zeros(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = patterns.votes[:, 0] / patterns.total[patterns.site, 0]
    return totals(patterns.site, np.nan_to_num(share) * lost, len(profile.names.sites))


def _below(profile: Profile, sums: View, in_problem: bool) -> tuple[list[int], dict[int, set[int]]]:
    """Find (index of each operation's name without callee, {index: set of indices of operations that may
    follow it after a loss}).

    Operations that may follow are all successors, at any distance, in the period without loss, and those at
    distance two or more in the lossy one. A call whose callee's span is lost has no callee in its name.
    """
    bases = Numbering[tuple[str, str]]()
    base = [bases[name[:2]] for name in profile.names.operations]
    whole, lossy = (sums.before, sums.after) if in_problem else (sums.after, sums.before)
    after = _next(profile, whole.calls, base)
    also = _next(profile, lossy.calls, base)
    below = {}
    for operation in {*after, *also}:
        two_on = {far for near in also.get(operation, ()) for far in also.get(near, ()) if near != operation}
        below[operation] = reached(after, {operation}) | two_on | reached(also, two_on)
    return base, below


def _next(profile: Profile, calls: F8, base: Sequence[int]) -> dict[int, set[int]]:
    after: dict[int, set[int]] = defaultdict(set)
    for site, n in zip(profile.names.sites, calls.tolist(), strict=True):
        if n and site.caller != NO_CALLER:
            after[base[site.caller]].add(base[site.operation])
    return after


def _text(loss: Loss, changes: Sequence[Change], settings: ConfounderSettings) -> str:
    which, other = ("problem", "reference") if loss.in_problem else ("reference", "problem")
    missing = loss.missing if loss.in_problem else loss.missing[::-1]
    text = (
        f"Records of the {which} were lost: {percent(missing[1])} of its requests lack some, "
        f"{percent(missing[0])} of the {other}'s"
    )
    if loss.places:
        text += f"; what {loss.places} call sites lack alike says that {percent(loss.rate)} of all are gone"
    text += "."
    if changes:
        text += (
            f" {counted_changes(changes)} are what such a loss makes, and no findings; a path that moved by "
            f"less than {100 * settings.lost_room * loss.rate:.1f} points cannot be told from it."
        )
    return text
