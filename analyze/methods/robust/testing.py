"""Test all MEASURES at all call sites, and select the significant changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import expm1, isfinite
from typing import Final, NamedTuple

import numpy as np

from analyze.methods.robust.changes import NO_PATTERN, Change
from analyze.methods.robust.measures.observed import Observed
from analyze.methods.robust.measures.registry import MEASURES, Look, Measure
from analyze.methods.robust.pattern_dispersion import PATTERN_DISPERSION, noisier
from analyze.methods.robust.settings import RobustSettings
from analyze.methods.robust.sites_seen import SitesSeen
from analyze.methods.robust.view import not_normal
from analyze.profile.names import NO_CALLER, Names, reached
from analyze.profile.profile import RATIO_SCALE
from analyze.report.measures import UNKNOWN
from analyze.stats.estimate import LEAST_IN_BLOCK, LEAST_IN_ENVELOPE, Estimate
from analyze.stats.histograms import BIN_LOG
from analyze.stats.multiple import q_values
from analyze.stats.noise import student_z
from schemas.arrays import B1, F8
from schemas.report.findings import CALL_KINDS, ERROR_KINDS, PATH_KINDS, TIME_KINDS, ChangeKind, Unit


@dataclass(frozen=True, slots=True)
class HiddenChange:
    """Change that is significant against the reference alone, but within normal variation of the whole
    baseline."""

    change: Change
    """Change from the reference to the problem; p and q are also against the reference alone."""
    z_usual: float
    """Change from the baseline divided by its standard error, noise between windows included."""
    p_usual: float
    """Probability of a value like the problem's in a normal period: the largest of the p-values that include
    noise, and of the share of baseline blocks nearer to the problem than to the reference."""
    alike: tuple[tuple[int, float], ...]
    """(index of a baseline block, value) of each block whose value is nearer to the problem's value than to
    the reference's; values in the unit of the change."""
    blocks: int
    """Number of baseline blocks with a value of the measure."""


@dataclass(frozen=True, slots=True)
class NearChange:
    """Change of at least `suspect_z` standard errors that is not significant."""

    change: Change
    z: float
    """Change divided by its standard error, noise between windows included."""
    z_needed: float
    """z at which the change would be significant if it were the only one tested."""
    requests_needed: int | None
    """Number of requests of the problem at the call site for the change to reach `z_needed`, if it stays the
    same; None if no number suffices, since normal variation is too large."""
    is_hidden: bool = False
    """True if the change is significant against the reference alone (a `HiddenChange`)."""


_SCALE: Final[Mapping[Unit, float]] = {"us": 1e-3, "ratio": 1 / RATIO_SCALE}
"""Factor from the unit of stored values (ns, scaled ratios) to the unit shown; 1 for units without an
entry."""
WINDOW_SHARES: Final = "window-shares"
"""Name of a rule: the p-value of a changed share takes into account how much the share varies between the
windows of the history (`surprise`). The rule is disabled if the setting `without` contains this name."""


@dataclass(frozen=True, slots=True)
class Tested:
    """Results of testing all measures at the call sites of a profile."""

    seen: SitesSeen
    changes: tuple[Change, ...]
    """Significant changes from the baseline to the problem."""
    sites: frozenset[int]
    """Indices of the sites at which at least one measure could be tested."""
    hidden: tuple[HiddenChange, ...]
    """Changes that are significant against the reference alone, but not against the baseline: the largest one
    of each operation that has no significant change, largest first."""
    open_path: float
    """Largest share of requests, in [0, 1], that moved to another call pattern by more than the floor and
    chance without being significant against the baseline; 0 if there is none."""


class _Row(NamedTuple):
    """Test results of one measure; arrays are [rows], one element per row of `seen`."""

    measure: Measure
    seen: Observed
    q: F8
    """q-value (Benjamini-Hochberg) of the change from the baseline; 1 for rows not tested."""
    counts: B1
    """True for rows with a significant change from the baseline."""
    hidden: B1
    """True for rows with a change that is significant against the reference alone, but not against the
    baseline."""
    plain_q: F8
    """q-value (Benjamini-Hochberg) of the change from the reference alone, with sampling error only."""
    open: B1
    """True for rows with a change that exceeds the floor and sampling error, but is not significant."""
    abnormal: B1
    """True for rows whose reference lies outside of the history's normal range; the value before is then the
    reference's."""
    there_before: B1
    """True for rows with a significant change from the history that the reference shows already: it began
    before the problem."""

    @property
    def began(self) -> B1:
        """bool[rows]: True for significant changes that began in the problem. Changes that began earlier do
        not count against other measures of the site."""
        return self.counts & ~self.there_before


def judged_sites(seen: SitesSeen, names: Names, settings: RobustSettings, *, noise_assumed: bool) -> Tested:
    """Test all observations and select the significant changes.

    First looks are corrected for multiple testing together (Benjamini-Hochberg), each second look by itself;
    then changes within noise or below the floors are dropped. noise_assumed: see `Roles.noise_assumed`.
    """
    rounds = _rounds(seen, settings, noise_assumed=noise_assumed)
    first, second = (
        [_change(row, int(at)) for row in rows for at in np.flatnonzero(row.counts).tolist()]
        for rows in rounds
    )
    kept = first + _silent_before(second, first, names, settings.inherited)
    hidden = [[found for row in rows for found in _hidden(row)] for rows in rounds]
    said = first + [found.change for found in hidden[0]]
    silent = {id(c) for c in _silent_before([h.change for h in hidden[1]], said, names, settings.inherited)}
    hidden[0] += [found for found in hidden[1] if id(found.change) in silent]
    rows = [row for judged in rounds for row in judged]
    tested = [np.zeros(0, np.int64), *(row.seen.site[row.seen.tested] for row in rows)]
    return Tested(
        seen,
        tuple(kept),
        frozenset(np.unique(np.concatenate(tested)).tolist()),
        tuple(_largest(hidden[0], kept, names)),
        max(
            (
                row.seen.weight[row.open].max(initial=0.0)
                for row in rows
                if row.measure.kinds[0] in PATH_KINDS
            ),
            default=0.0,
        ),
    )


def nearly(
    seen: SitesSeen, tested: Tested, settings: RobustSettings, *, noise_assumed: bool
) -> list[NearChange]:
    """Changes of at least `suspect_z` standard errors and above the floor that are not significant; hidden
    changes first."""
    found = [
        NearChange(hidden.change, hidden.z_usual, settings.min_z, None, is_hidden=True)
        for hidden in tested.hidden
    ]
    known = {(near.change.site, near.change.kind, near.change.pattern) for near in found}
    known |= {(change.site, change.kind, change.pattern) for change in tested.changes}
    rounds = _rounds(seen, settings, noise_assumed=noise_assumed)
    for row in (row for rows in rounds for row in rows if not row.seen.by_p_alone):
        e = row.seen.estimate
        with np.errstate(invalid="ignore"):
            near = row.seen.tested & row.seen.matters & e.clears(settings.suspect_z, row.seen.floor)
            near &= ~row.counts & ~row.hidden
            near &= (e.change > 0) if row.measure.kinds[1] is None else True
        for at in np.flatnonzero(near).tolist():
            change = _change(row, at)
            if (change.site, change.kind, change.pattern) not in known:
                found.append(_near(change, e, at, settings))
    return found


def _near(change: Change, e: Estimate, at: int, settings: RobustSettings) -> NearChange:
    needed = float(student_z(settings.min_z, e.freedom[at]))
    room = (float(e.change[at]) / needed) ** 2 - float(e.between[at])
    requests = int(np.ceil(float(e.n1[at] * e.sampling[at]) / room)) if room > 0 else None
    return NearChange(change, change.z, needed, requests)


def _seen_by(
    seen: SitesSeen, settings: RobustSettings, *, noise_assumed: bool
) -> Sequence[tuple[Measure, Observed]]:
    """Observations of each measure that is not disabled; without a history, path shares have the
    over-dispersion that all call patterns show together."""
    found = [
        (measure, seen.observed[measure.name])
        for measure in MEASURES
        if measure.name in seen.observed and measure.name not in settings.without
    ]
    if noise_assumed and PATTERN_DISPERSION not in settings.without:
        return noisier(found, settings)
    return found


def _rounds(
    seen: SitesSeen, settings: RobustSettings, *, noise_assumed: bool
) -> tuple[list[_Row], list[_Row]]:
    """Test all first looks together, then each second look by itself.

    Returns (results of measures that are always reported, results of `Look.WITHOUT_STRUCTURE` measures,
    reported only where no other change of structure is significant).
    """
    seen_by = _seen_by(seen, settings, noise_assumed=noise_assumed)
    rows = _judged(settings, [(measure, found) for measure, found in seen_by if measure.look is Look.FIRST])
    first = tuple(rows)
    silent: list[_Row] = []
    for measure, found in seen_by:
        if measure.look is not Look.FIRST:
            mine = _judged(settings, [(measure, found)], first)
            (silent if measure.look is Look.WITHOUT_STRUCTURE else rows).extend(mine)
    return rows, silent


def _judged(
    settings: RobustSettings, seen: Sequence[tuple[Measure, Observed]], first: Sequence[_Row] = ()
) -> list[_Row]:
    """Test several measures, corrected for multiple testing together; one `_Row` per measure.

    A change counts if q, its size relative to noise and to the floor, and `matters` allow it, and if it lies
    outside of the baseline's normal range. first: results of the first looks, needed for second looks.
    """
    estimates = [found.estimate for _, found in seen]
    tested = [found.tested for _, found in seen]
    by_chance = _levels([e.p if e.chance_p is None else e.chance_p for e in estimates], tested)
    levels = by_chance if WINDOW_SHARES in settings.without else _levels([e.p for e in estimates], tested)
    plain = [_plainly(measure, found, settings) for measure, found in seen]
    plain_levels = _levels([found.against_reference.p for _, found in seen], tested)
    rows: list[_Row] = []
    for at, ((measure, found), mine, level, chance) in enumerate(
        zip(seen, tested, levels, by_chance, strict=True)
    ):
        e = found.estimate
        with np.errstate(invalid="ignore"):
            significant = level <= settings.q
            of = [row for row in first if row.measure.name == measure.of]
            if measure.look is Look.WHERE_FOUND:
                for other in of:
                    significant |= _at_changed_sites(other, found, mine) <= settings.instance_q
            passes = mine & (significant | (chance <= settings.q)) & found.matters
            open_ = mine & found.matters & e.within().clears(settings.min_z, found.floor)
            alone = plain[at] & (plain_levels[at] <= settings.q)
            if not found.by_p_alone:
                passes &= e.clears(settings.min_z, found.floor)
            if measure.kinds[1] is None:
                passes &= e.change > 0
            if measure.look is Look.WHERE_SILENT:
                for other in of:
                    passes &= ~np.isin(found.site, other.seen.site[other.began])
                    alone &= ~np.isin(found.site, other.seen.site[other.began | other.hidden])
        abnormal, shows = _against_reference(found, settings)
        counts = passes & significant & e.outside()
        hidden, there_before = alone & ~counts, counts & ~shows
        rows.append(
            _Row(
                measure,
                found,
                level,
                counts,
                hidden,
                plain_levels[at],
                open_ & ~counts,
                abnormal,
                there_before,
            )
        )
    return rows


def _plainly(measure: Measure, found: Observed, settings: RobustSettings) -> B1:
    """bool[rows]: True for changes from the reference alone that exceed the floor and sampling error; the
    history is ignored.

    Changes of time, calls and paths must also be large (`stands_alone`), since services drift by less from
    one minute to the next.
    """
    if found.by_p_alone:
        return np.zeros(len(found.site), dtype=np.bool_)
    e = found.against_reference
    with np.errstate(invalid="ignore"):
        plain = (np.minimum(e.n0, e.n1) >= settings.min_requests) & e.within().clears(
            settings.min_z, found.floor
        )
        if measure.kinds[0] not in ERROR_KINDS:
            least = float(np.log1p(settings.plain_time)) if e.unit == "log" else settings.matters_share
            plain &= e.stands_alone(least)
        plain &= found.matters if found.plain_matters is None else found.plain_matters
        return np.asarray(plain & (e.change > 0) if measure.kinds[1] is None else plain)


def _levels(p: Sequence[F8], tested: Sequence[B1]) -> list[F8]:
    """q-values of several measures, corrected for multiple testing together: one float64[rows] per measure, 1
    for rows not tested. p, tested: one array per measure."""
    q = q_values(np.concatenate([np.zeros(0), *(v[mine] for v, mine in zip(p, tested, strict=True))]))
    found, start = [], 0
    for mine in tested:
        found.append(np.ones(len(mine)))
        found[-1][mine] = q[start : start + int(mine.sum())]
        start += int(mine.sum())
    return found


def _at_changed_sites(whole: _Row, seen: Observed, tested: B1) -> F8:
    """q-values, corrected together, of the rows at sites where the measure `whole` found a significant
    change; 1 for all other rows."""
    mine = tested & np.isin(seen.site, whole.seen.site[whole.began])
    q = np.ones(len(mine))
    q[mine] = q_values(seen.estimate.p[mine])
    return q


def _against_reference(seen: Observed, settings: RobustSettings) -> tuple[B1, B1]:
    """Compare with the reference alone: (bool[rows] True where the reference is not normal, bool[rows] True
    where the change also shows against the reference alone).

    The value before is that of the reference; the history only supplies the noise and the normal range. The
    change from the reference must have the same direction as the change from the baseline, and exceed the
    floor and half of its confidence interval; if the reference is not normal, it must be significant. Where
    the reference has too few requests, the value before is the history's.
    """
    e, alone = seen.estimate, seen.reference
    if alone is None:
        none = np.zeros(len(e.p), dtype=np.bool_)
        return none, ~none
    abnormal = not_normal(alone, settings)
    with np.errstate(invalid="ignore"):
        same = np.sign(alone.change) == np.sign(e.change)
        moved = np.abs(alone.change) > np.maximum(e.reach(), seen.floor)
        shows = same & np.where(abnormal, alone.clears(settings.min_z, seen.floor), moved)
    return abnormal, shows | ~(abnormal | _has_reference(seen))


def _has_reference(seen: Observed) -> B1:
    """bool[rows]: True where the reference has enough requests to supply the value before: three for times,
    five for shares."""
    alone = seen.reference
    if alone is None:
        return np.zeros(len(seen.site), dtype=np.bool_)
    least = LEAST_IN_ENVELOPE if alone.unit == "share" else LEAST_IN_BLOCK
    return np.asarray((alone.n0 >= least) & ~np.isnan(alone.change))


def _change(row: _Row, at: int, *, alone: bool = False) -> Change:
    """Build the `Change` of the row `at`. alone: True for the change from the reference alone, with sampling
    error only."""
    measure, seen, e = row.measure, row.seen, row.seen.estimate
    shown = e
    if seen.reference is not None and (row.abnormal[at] or _has_reference(seen)[at]):
        shown = seen.reference
        if not row.abnormal[at]:  # with the uncertainty against all ordinary times
            shown = replace(shown, sampling=e.sampling, between=e.between, freedom=e.freedom)
    if alone:
        shown = e = seen.against_reference.within()
    more, less = measure.kinds
    kind = more if e.change[at] > 0 or less is None else less
    if kind in PATH_KINDS:
        if shown.before[at] * shown.n0[at] < 0.5:
            kind = ChangeKind.NEW_PATH
        elif shown.after[at] * shown.n1[at] < 0.5:
            kind = ChangeKind.LOST_PATH
    before, after, change = (float(v[at]) for v in (shown.before, shown.after, shown.change))
    if e.unit == "log":
        # The lowest bin is shown as 0 (a step between two records of one instant).
        none = [measure.unit == "us" and value <= BIN_LOG for value in (before, after)]
        first, last = (float(np.exp(value)) * _SCALE.get(measure.unit, 1.0) for value in (before, after))
        low, high = (float(end[at]) for end in shown.bounded_interval())
        low, high = first * expm1(low), first * expm1(high) if isfinite(high) else UNKNOWN
        before, after = (0.0 if no else value for no, value in zip(none, (first, last), strict=True))
    else:
        # A share after is between 0 and 1, whatever the error of the share before.
        reach = float(shown.reach()[at])
        least, most = (0.0 - before, 1.0 - before) if measure.unit == "share" else (-np.inf, np.inf)
        low, high = max(change - reach, least), min(change + reach, most)
    return Change(
        kind=kind,
        site=int(seen.site[at]),
        p=float(e.p[at]),
        z=float(e.z[at]),
        noise_p=float((seen.estimate.p if seen.by_p_alone else seen.estimate.p_with_noise)[at]),
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
        q=float((row.plain_q if alone else row.q)[at]),
        there_before=bool(row.there_before[at]),
        of_history=seen.reference is not None and shown is seen.estimate,
        instance=None if seen.instance is None else seen.instance[at],
        of_calls=seen.of_calls is not None and bool(seen.of_calls[at]),
    )


def _hidden(row: _Row) -> Iterator[HiddenChange]:
    """Yield the hidden changes of a measure, each with the baseline blocks whose value is nearer to the
    problem's than to the reference's."""
    e, usual = row.seen.against_reference, row.seen.estimate
    for at in np.flatnonzero(row.hidden).tolist():
        values, change = usual.blocks[at], _change(row, at, alone=True)
        known = int((~np.isnan(values)).sum())
        towards = np.sign(e.change[at]) * (values - (e.before[at] + e.after[at]) / 2)
        with np.errstate(invalid="ignore"):
            alike = np.flatnonzero(towards > 0)
        shown = values[alike]
        if e.unit == "log":
            shown = np.exp(shown) * _SCALE.get(row.measure.unit, 1.0)
        yield HiddenChange(
            change,
            float(usual.z[at]),
            max(change.noise_p, float(usual.p[at]), (1 + len(alike)) / (1 + known)),
            tuple(zip(alike.tolist(), shown.tolist(), strict=True)),
            known,
        )


def _largest(hidden: Sequence[HiddenChange], kept: Sequence[Change], names: Names) -> list[HiddenChange]:
    """Largest hidden change of each operation that has no significant change: by contribution to the mean
    response time, then by z.

    kept: significant changes.
    """
    named = {names.sites[change.site].operation for change in kept if not change.there_before}
    places: dict[int, HiddenChange] = {}
    for found in sorted(hidden, key=_size, reverse=True):
        operation = names.sites[found.change.site].operation
        if operation not in named:
            places.setdefault(operation, found)
    return list(places.values())


def _size(found: HiddenChange) -> tuple[float, float]:
    return abs(found.change.contribution_ns), abs(found.change.z)


def _inherited(changes: Sequence[Change], names: Names, most_of_it: float) -> set[int]:
    """`id()` of each change of calls that is a consequence of its caller being called more or less often.

    If a loop runs three times as often, everything it calls is called three times as often; only the loop has
    changed. Changes of operations that call themselves or each other are no consequences of each other.
    most_of_it: share of a change (in logarithms) that the caller's change must explain.
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
        and factors[change.site]  # 0: differs from the history only, so it was there before
        and any(
            factors.get(caller, 0.0) / factors[change.site] > most_of_it
            and change.site not in reached(callers, [caller])
            for caller in callers.get(change.site, set()) - {change.site}
        )
    }


def _silent_before(
    second: Sequence[Change], first: Sequence[Change], names: Names, most_of_it: float
) -> list[Change]:
    """Filter `second`: drop changes at sites whose operation or caller has a change of paths, calls or errors
    in `first`, and changes of numbers of calls that follow from the caller's change."""
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
