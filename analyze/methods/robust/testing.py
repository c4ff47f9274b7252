"""Test every row of MEASURES at every call site, and decide which changes count."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import expm1
from typing import Final, NamedTuple

import numpy as np

from analyze.methods.robust.changes import NO_PATTERN, Change
from analyze.methods.robust.measures.observed import Observed
from analyze.methods.robust.measures.registry import MEASURES, Measure
from analyze.methods.robust.pattern_dispersion import PATTERN_DISPERSION, noisier
from analyze.methods.robust.settings import RobustSettings
from analyze.methods.robust.sites_seen import SitesSeen
from analyze.methods.robust.view import not_normal
from analyze.profile.names import NO_CALLER, Names, reached
from analyze.stats.histograms import BIN_LOG
from analyze.stats.multiple import q_values
from schemas.arrays import B1, F8
from schemas.report.findings import CALL_KINDS, PATH_KINDS, TIME_KINDS, ChangeKind


@dataclass(frozen=True, slots=True)
class HeldBackChange:
    """A change that would count, had no block of ordinary times held such a value."""

    change: Change
    block: int
    """The block of ordinary times with the value furthest in the change's direction."""
    value: float
    """That value, in the unit of the change."""


WINDOW_SHARES: Final = "window-shares"
"""The rule that a share is as rare as windows of a history make it (`surprise`), to leave it out by."""


@dataclass(frozen=True, slots=True)
class Tested:
    """What was tested at the call sites of a profile."""

    seen: SitesSeen
    changes: tuple[Change, ...]
    """Those that count."""
    sites: frozenset[int]
    """Sites that some test reached."""
    held_back: tuple[HeldBackChange, ...]
    """The largest of each place where nothing counts; the largest place first."""
    open_path: float
    """Share of the requests by which a path moved that does not count: over the floor and chance, but not
    significant by what ordinary times do, or ordinary. 0 for none."""


class _Row(NamedTuple):
    """Rows of one measure, judged; arrays are [rows]."""

    measure: Measure
    seen: Observed
    q: F8
    counts: B1
    held: B1
    """Only ordinary times keep it from counting: they hold such values."""
    open: B1
    """It is over the floor and chance inside of the periods, and does not count."""
    abnormal: B1
    """The reference leaves what is ordinary: it alone says what was before."""
    there_before: B1
    """It differs from the history, and not from the reference: what is reported was there before."""

    @property
    def began(self) -> B1:
        """Tell what counts and was not there before. The other rows that count say nothing of the problem
        period, and silence no measure that does."""
        return self.counts & ~self.there_before


def judged_sites(seen: SitesSeen, names: Names, settings: RobustSettings, *, noise_assumed: bool) -> Tested:
    """Judge what was seen at all sites: Benjamini-Hochberg over all, then noise and floors.

    Measures that stand apart, and those that speak only where the others are silent, are corrected by
    themselves.
    """
    seen_by: Sequence[tuple[Measure, Observed]] = [
        (measure, seen.observed[measure.name])
        for measure in MEASURES
        if measure.name in seen.observed and measure.name not in settings.without
    ]
    if noise_assumed and PATTERN_DISPERSION not in settings.without:
        seen_by = noisier(seen_by, settings)
    usual = _judged(settings, [(m, o) for m, o in seen_by if not (m.only_where_silent or m.apart)])
    words = list(dict.fromkeys(measure.apart for measure, _ in seen_by if measure.apart))
    more = [_judged(settings, [(m, o) for m, o in seen_by if m.apart == word], usual) for word in words]
    rounds = (
        usual + [row for judged in more for row in judged],
        _judged(settings, [(m, o) for m, o in seen_by if m.only_where_silent]),
    )
    first, second = (
        [_change(row, int(at)) for row in rows for at in np.flatnonzero(row.counts).tolist()]
        for rows in rounds
    )
    kept = first + _silent_before(second, first, names, settings.inherited)
    rows = [row for judged in rounds for row in judged]
    tested = [np.zeros(0, np.int64), *(row.seen.site[row.seen.tested] for row in rows)]
    return Tested(
        seen,
        tuple(kept),
        frozenset(np.unique(np.concatenate(tested)).tolist()),
        tuple(_held_back(rows, kept, names)),
        max(
            (
                row.seen.weight[row.open].max(initial=0.0)
                for row in rows
                if row.measure.kinds[0] in PATH_KINDS
            ),
            default=0.0,
        ),
    )


def _judged(
    settings: RobustSettings, seen: Sequence[tuple[Measure, Observed]], before: Sequence[_Row] = ()
) -> list[_Row]:
    """Ask of every row: significant, large enough for the noise, over the floor, felt, not ordinary."""
    estimates = [found.estimate for _, found in seen]
    tested = [found.tested for _, found in seen]
    by_chance = _levels([e.p if e.chance_p is None else e.chance_p for e in estimates], tested)
    levels = by_chance if WINDOW_SHARES in settings.without else _levels([e.p for e in estimates], tested)
    rows: list[_Row] = []
    for (measure, found), mine, level, chance in zip(seen, tested, levels, by_chance, strict=True):
        e = found.estimate
        with np.errstate(invalid="ignore"):
            significant = level <= settings.q
            for other in before:
                if other.measure.name == measure.where_of:
                    significant |= _at_changed_sites(other, found, mine) <= settings.instance_q
            passes = mine & (significant | (chance <= settings.q)) & found.matters
            plain = mine & found.matters & e.within().clears(settings.min_z, found.floor)
            if not measure.by_p_alone:
                passes &= e.clears(settings.min_z, found.floor)
            if measure.only_more:
                passes &= e.change > 0
            for other in (*before, *rows):
                if other.measure.name == measure.unless:
                    passes &= ~np.isin(found.site, other.seen.site[other.began])
        abnormal, shows = _against_reference(found, settings)
        outside = e.outside()
        counts, held, there_before = passes & significant & outside, passes & ~outside, abnormal & ~shows
        rows.append(_Row(measure, found, level, counts, held, plain & ~counts, abnormal, there_before))
    return rows


def _levels(p: Sequence[F8], tested: Sequence[B1]) -> list[F8]:
    """Give q of the rows of several measures together; 1 of those that are not tested."""
    q = q_values(np.concatenate([np.zeros(0), *(v[mine] for v, mine in zip(p, tested, strict=True))]))
    found, start = [], 0
    for mine in tested:
        found.append(np.ones(len(mine)))
        found[-1][mine] = q[start : start + int(mine.sum())]
        start += int(mine.sum())
    return found


def _at_changed_sites(whole: _Row, seen: Observed, tested: B1) -> F8:
    """Give q of the rows at call sites where a measure of whole sites counts, among themselves; else 1."""
    mine = tested & np.isin(seen.site, whole.seen.site[whole.began])
    q = np.ones(len(mine))
    q[mine] = q_values(seen.estimate.p[mine])
    return q


def _against_reference(seen: Observed, settings: RobustSettings) -> tuple[B1, B1]:
    """Tell ([rows] whether the reference is not normal, whether the change shows against it alone).

    A history is for noise and for what is usual, never for the value before. A reference that is one
    of many ordinary windows is known best by all of them; against one that is not the change must show as
    well, on the same side.
    """
    e, alone = seen.estimate, seen.reference
    if alone is None:
        none = np.zeros(len(e.p), dtype=np.bool_)
        return none, ~none
    with np.errstate(invalid="ignore"):
        shows = (np.sign(alone.change) == np.sign(e.change)) & alone.clears(settings.min_z, seen.floor)
    return not_normal(alone, settings), shows


def _change(row: _Row, at: int) -> Change:
    """Give a row of a measure as a change."""
    measure, seen, e = row.measure, row.seen, row.seen.estimate
    shown = seen.reference if seen.reference is not None and row.abnormal[at] else e
    kind = measure.kinds[0 if e.change[at] > 0 else 1]
    if kind in PATH_KINDS:
        if shown.before[at] * shown.n0[at] < 0.5:
            kind = ChangeKind.NEW_PATH
        elif shown.after[at] * shown.n1[at] < 0.5:
            kind = ChangeKind.LOST_PATH
    before, after, change = (float(v[at]) for v in (shown.before, shown.after, shown.change))
    reach = float(shown.reach()[at])
    if e.unit == "log":
        # What the lowest bin holds is no time at all (a step between two records of one instant).
        none = [measure.unit == "us" and value <= BIN_LOG for value in (before, after)]
        first, last = (float(np.exp(value)) * measure.scale for value in (before, after))
        low, high = first * expm1(change - reach), first * expm1(change + reach)
        before, after = (0.0 if no else value for no, value in zip(none, (first, last), strict=True))
    else:
        # A share after is between none and all, whatever the error of the one before.
        least, most = (0.0 - before, 1.0 - before) if measure.unit == "share" else (-np.inf, np.inf)
        low, high = max(change - reach, least), min(change + reach, most)
    return Change(
        kind=kind,
        site=int(seen.site[at]),
        p=float(e.p[at]),
        z=float(e.z[at]),
        noise_p=float(e.p[at] if measure.by_p_alone else e.p_with_noise[at]),
        unit=measure.unit,
        before=before,
        after=after,
        low=low,
        high=high,
        n0=int(shown.n0[at]),
        n1=int(shown.n1[at]),
        contribution_ns=float(seen.gain_ns[at]),
        weight=float(seen.weight[at]),
        pattern=NO_PATTERN if seen.pattern is None else int(seen.pattern[at]),
        call_ratio=float(seen.call_ratio[at]),
        threshold_us=0.0 if seen.threshold_us is None else float(seen.threshold_us[at]),
        q=float(row.q[at]),
        there_before=bool(row.there_before[at]),
        instance=None if seen.instance is None else seen.instance[at],
        of_calls=seen.of_calls is not None and bool(seen.of_calls[at]),
    )


def _held_back(rows: Sequence[_Row], kept: Sequence[Change], names: Names) -> Iterator[HeldBackChange]:
    """Give the largest of each operation where nothing counts: by its part of the mean, then by how sure it
    is."""
    named = {names.sites[change.site].operation for change in kept if not change.there_before}
    places: dict[int, HeldBackChange] = {}
    for row in rows:
        block, value = row.seen.estimate.furthest()
        for at in np.flatnonzero(row.held).tolist():
            change = _change(row, at)
            operation = names.sites[change.site].operation
            shown = float(value[at])
            if row.seen.estimate.unit == "log":
                shown = float(np.exp(shown)) * row.measure.scale
            found = HeldBackChange(change, int(block[at]), shown)
            if operation not in named and (
                operation not in places or _size(found) > _size(places[operation])
            ):
                places[operation] = found
    yield from sorted(places.values(), key=_size, reverse=True)


def _size(found: HeldBackChange) -> tuple[float, float]:
    return abs(found.change.contribution_ns), abs(found.change.z)


def _inherited(changes: Sequence[Change], names: Names, most_of_it: float) -> set[int]:
    """Find changes of numbers of calls (by id) whose caller is called more, or less, often itself.

    Where a loop turns three times as often all that is below it is called three times as often: the loop is
    what changed. Operations that call themselves, or each other, do not explain each other away.
    """
    factors = {c.site: c.log_ratio for c in changes if c.kind in CALL_KINDS}
    callers: dict[int, set[int]] = {}
    for path in names.paths:
        if path.above != NO_CALLER:
            callers.setdefault(path.site, set()).add(names.paths[path.above].site)

    return {
        id(change)
        for change in changes
        if change.kind in CALL_KINDS
        and factors[change.site]  # 0: it differs from the history alone, and was there before
        and any(
            factors.get(caller, 0.0) / factors[change.site] > most_of_it
            and change.site not in reached(callers, [caller])
            for caller in callers.get(change.site, set()) - {change.site}
        )
    }


def _silent_before(
    second: Sequence[Change], first: Sequence[Change], names: Names, most_of_it: float
) -> list[Change]:
    """Keep changes at sites whose operation, or caller, has no change of structure already."""
    inherited = _inherited(second, names, most_of_it)
    reported = {
        names.sites[change.site].operation
        for change in first
        if change.kind not in TIME_KINDS and not change.there_before
    }
    return [
        change
        for change in second
        if id(change) not in inherited
        and reported.isdisjoint((names.sites[change.site].operation, names.sites[change.site].caller))
    ]
