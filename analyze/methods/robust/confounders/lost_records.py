"""Explain changes by events of one period that were lost in transit.

If 3 % of the events are lost, only 40 % of the requests with thirty events arrive complete. Some losses are
visible (a missing end, a parent without an activity record), but most are not: a step seems to be skipped.
Random loss has the same rate everywhere, so it is measured by the median share of missing calls over call
sites; a site that misses more calls than that has changed.
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
    """Events of one period lost in transit, in excess of those lost in the other period."""

    in_problem: bool
    """True if the problem lost more events, False if the reference did."""
    rate: float
    """Share of the period's events that were lost, in [0, 1], in excess of the share lost in the other
    period."""
    missing: tuple[float, float]
    """Share of flows with visibly missing events, in [0, 1], in (reference, problem)."""
    places: int
    """Number of (call site, callee) pairs from which `rate` is estimated; 0 if it is estimated from
    `missing`."""


class LostRecords(Confounder):
    """Confounder for lost events: explains changes of paths, and of times of steps, that the loss can
    produce."""

    name = "lost-records"
    doc = "Events that never arrived look like calls that are not made."
    case = "tests/integration/test_simulated_negatives.py: records that are lost"

    def explains(self, changes: Sequence[Change], comparison: Comparison) -> Explained | None:
        """Explain changes of paths and of times of steps that are no larger than the loss of events can
        produce."""
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
    """Estimate the loss of events, if the share of incomplete flows differs significantly between the
    periods; None otherwise.

    incomplete: (number of incomplete flows, number of flows) per period, see `Population.incomplete`.
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
    # Each flow has at least one event whose loss would be visible.
    return Loss(in_problem, abs(missing[1] - missing[0]), missing, 0)


def _lacks(profile: Profile, whole: B1, lossy: B1, settings: ConfounderSettings) -> F8:
    """Share of requests that lack a call in the lossy period, relative to the other period; float64[calls],
    one element per call that nearly all requests at a site make.

    whole, lossy: bool[slots], masks of the time slots of the period without and with loss.
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
    """Weighted number of requests by call site and call pattern in two periods; one row per pair of site and
    pattern."""

    site: I8
    """int64[rows]: index of the call site of each row."""
    pattern: I8
    """int64[rows]: index of the call pattern of each row."""
    votes: F8
    """float64[rows, 2]: weighted number of requests with the pattern at the site in either period; a request
    is divided among the patterns of its calls there."""
    total: F8
    """float64[sites, 2]: weighted number of requests at each site in either period."""

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
    """Changes that the loss of events can produce, judged by kind and size."""
    if loss.rate <= 0:
        return []
    profile, settings = comparison.profile, comparison.settings.confounders
    sides = comparison.roles.reference, comparison.roles.problem
    patterns = _Patterns.of(profile, *(sides if loss.in_problem else sides[::-1]))
    allowed = settings.lost_room * _incomplete_part(profile, patterns, loss.rate)
    base, below = _below(profile, comparison.view, loss.in_problem)
    over_lost = _steps_over_lost(profile, comparison.view, loss, settings)

    def explained(change: Change) -> bool:
        """True if a path changed by no more than the loss allows, towards patterns that arise by dropping
        events.

        Own times are compared within a call pattern, and therefore not changed by loss, except times of steps
        over lost activity records (`_steps_over_lost`).
        """
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
    slower than the loss predicts. The time of such a step is not that of a direct step from A to B."""
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
        # The standard deviation of times is about their mean.
        chance = 1 + settings.lost_z / np.sqrt(max(lossy.n[at], 1.0))
        found[at] = takes[at] <= settings.lost_room * chance * max(ways)
    return found


def _incomplete_part(profile: Profile, patterns: _Patterns, rate: float) -> F8:
    """float64[sites]: expected share of the calls at each site that lose at least one of their child calls,
    at a loss of `rate`."""
    made = np.array(
        [sum(child.calls for child in pattern) for pattern in profile.names.patterns], dtype=np.float64
    )
    lost = 1 - (1 - rate) ** made[patterns.pattern] if len(made) else np.zeros(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = patterns.votes[:, 0] / patterns.total[patterns.site, 0]
    return totals(patterns.site, np.nan_to_num(share) * lost, len(profile.names.sites))


def _below(profile: Profile, sums: View, in_problem: bool) -> tuple[list[int], dict[int, set[int]]]:
    """(For each operation the index of its name without callee; index of a name -> indices of names that may
    seem to follow it after a loss).

    A name may follow another if it succeeds the other in the period without loss, at any distance, or at
    distance two or more in the lossy one. Callees are left out of names, since a call whose callee's span is
    lost has none.
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
