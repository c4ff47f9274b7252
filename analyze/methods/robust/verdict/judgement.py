"""Compare the two periods as wholes and judge the quality of their data: the input of the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from analyze.methods.robust.period_blocks import (
    PeriodBlocks,
    each_slot,
    profile_blocks,
    slow_thresholds,
)
from analyze.methods.robust.robust_run import RobustRun
from analyze.methods.robust.roles import PROBLEM, REFERENCE
from analyze.methods.robust.settings import RobustSettings
from analyze.methods.robust.site_times import SiteTimes
from analyze.methods.robust.verdict.data_quality import (
    quality_rows,
    silence_reason,
    silence_rows,
)
from analyze.methods.robust.verdict.load import (
    MixChange,
    RateChange,
    clients_sent_less,
    least_clients,
    mean_gap_us,
    mix_change,
    rate_changes,
)
from analyze.methods.robust.verdict.outcome import VerdictBasis
from analyze.methods.robust.verdict.sizes import Sizes, paths_of, visible_rows
from analyze.methods.robust.verdict.whole import Name, Noise, Whole, rate_tau, whole_change, window_tau
from analyze.report.gate import ChangedMeasure
from schemas.report.accounts import AccountedMeasure, QualityRow, VisibleRow
from schemas.windows import NS_PER_SECOND


@dataclass(frozen=True, slots=True)
class Judgement:
    """Results on whole periods, as input of the verdict: estimates, mix of root types, smallest visible
    changes, data quality."""

    settings: RobustSettings
    whole: Whole
    mix: MixChange
    visible: tuple[VisibleRow, ...]
    quality: tuple[QualityRow, ...]
    basis: VerdictBasis
    """Facts that decide the outcome, the findings not included."""

    def interval(self, measure: AccountedMeasure) -> tuple[float | None, float | None, bool]:
        """Confidence interval of a measure's change, and whether the change is significant: (low, high, True
        if significant).

        low and high are None if there are too few requests. "tail" has the interval of its first threshold,
        and is significant if the share above any threshold changed significantly. "errors" has the interval
        of the share of requests with a failing call, and is significant if that share, or the share of failed
        requests, changed significantly.
        """
        found = self.whole.of("failing" if measure == "errors" else measure)
        if found is None:
            return None, None, False
        low, high = (end if np.isfinite(end) else None for end in found.interval(self.settings.verdict.level))
        names = {found.name, measure}
        return low, high, any(test.name in names for test in self.whole.changed)

    def changed_shares(self) -> list[ChangedMeasure]:
        """Significantly changed shares of slow requests and of requests with a failing call, significant as
        in `interval`."""
        pairs: tuple[tuple[AccountedMeasure, Name], ...] = (("tail", "tail"), ("errors", "failing"))
        found = [(measure, self.whole.of(name)) for measure, name in pairs if self.interval(measure)[2]]
        # Of several tails the first one that changed significantly.
        changed = {test.name: test for test in reversed(self.whole.changed)}
        said = [(measure, changed.get(of.name, of)) for measure, of in found if of is not None]
        return [ChangedMeasure(measure, of.before, of.after) for measure, of in said]


def judge(run: RobustRun) -> Judgement:
    """Compare the periods of a run as wholes, and judge the quality of their data. O(requests + rows of the
    profile)."""
    roles, profile, settings, verdict = run.roles, run.profile, run.settings, run.settings.verdict
    limits = slow_thresholds(profile, roles.reference, verdict.slow_levels, verdict.least_slow)
    before, after = (
        profile_blocks(profile, each_slot(slots), limits) for slots in (roles.reference, roles.problem)
    )
    blocks = profile_blocks(profile, roles.noise, limits) if roles.n_noise else None
    ordinary = None if roles.noise_assumed else blocks
    tau, freedom = window_tau(ordinary, verdict)
    noise = Noise(
        tau,
        freedom,
        settings.assumed_phi if roles.noise_assumed else 1.0,
        _lengths(ordinary, before, after),
        assumed=roles.noise_assumed,
    )
    whole = whole_change(
        before, after, blocks, noise, verdict, least=(settings.plain_time, settings.matters_share)
    )
    if run.timeless:
        whole = replace(whole, measures=tuple(m for m in whole.measures if m.name not in ("mean", "tail")))
    mix = mix_change(before, after, verdict)
    site_times = run.tested.seen.site_times
    hidden = max(run.confounded.hidden_paths, run.tested.open_path)
    history = _history(run)
    timed = [
        side.lasting(run.traffic.seconds(sample)) for side, sample in ((before, REFERENCE), (after, PROBLEM))
    ]
    rates = rate_changes(timed[0], timed[1], profile.names.roots, verdict, tau=rate_tau(ordinary))
    rows = quality_rows(run.population, before, after, profile.names.roots, verdict, mix, rates, history)
    abnormal = [row for row in rows if row.kind == "history"]
    silences = run.traffic.silences
    # If the reference is one of many ordinary windows, all of them determine the detectable change.
    if history is not None and not abnormal:
        sizes, against = _against_all(run, after, noise, site_times, hidden)
    else:
        sizes, against = Sizes(whole, site_times, paths_of(before, after, hidden), settings), before
    basis = VerdictBasis(
        measures=whole.measures,
        mix_changed=mix.changed,
        largest=(lambda: replace(sizes.largest(), site=np.inf)) if run.timeless else sizes.largest,
        missing=partial(sizes.missing, float(after.whole().effective[0])),
        has_noise=not roles.noise_assumed,
        timeless=run.timeless,
        external=partial(_external, run, whole, timed, rates[0]),
        silent=silence_reason(
            silences[PROBLEM], run.population.samples[PROBLEM], run.traffic.seconds(PROBLEM) * NS_PER_SECOND
        ),
        there_before=run.confounded.text("abnormal-reference")
        or next((row.text for row in abnormal if row.there_before), ""),
    )
    return Judgement(
        settings=settings,
        whole=whole,
        mix=mix,
        visible=visible_rows(
            against, after, profile.names.roots, noise.tau2, settings, before.requests.sum(axis=0)
        ),
        quality=_quality(run, rows, tuple(silence_rows(silences, run.population.samples))),
        basis=basis,
    )


def _external(run: RobustRun, whole: Whole, timed: Sequence[PeriodBlocks], rate: RateChange) -> str:
    """Sentence that clients sent fewer requests for reasons outside of the service, see `clients_sent_less`;
    empty otherwise.

    timed: sums of (reference, problem), scaled to the recorded lengths; rate: change of the arrival rate of
    all requests.
    """
    verdict, mean = run.settings.verdict, whole.of("mean")
    times, columns = ("start_ns", "response_ns"), run.population.columns
    before, after = (mean_gap_us(*columns(sample, *times)) for sample in (REFERENCE, PROBLEM))

    def clients() -> float:
        start_ns, response_ns = columns(REFERENCE, *times, asked=True)
        return least_clients(start_ns, response_ns, run.settings.blocks)

    return clients_sent_less(
        timed[0],
        timed[1],
        rate,
        verdict,
        gaps_us=(before, after),
        clients=clients,
        largest_rise=np.inf if mean is None else mean.largest_rise(verdict.level),
    )


def _history(run: RobustRun) -> PeriodBlocks | None:
    """Sums over the requests of the history (ordinary windows besides the reference), one block per window.

    None without a history, or if all baseline blocks are pieces of one short stretch of time."""
    noise, history = run.roles.noise, run.roles.history
    if run.roles.noise_assumed or not len(history):
        return None
    block = np.where(np.isin(noise, history), np.searchsorted(history, noise), -1)
    return profile_blocks(run.profile, block)


def _against_all(
    run: RobustRun,
    after: PeriodBlocks,
    noise: Noise,
    site_times: SiteTimes,
    hidden: float,
) -> tuple[Sizes, PeriodBlocks]:
    """Compare the problem with the whole baseline as one period: (estimates that bound the possible changes,
    sums of the baseline with one block per window).

    A request is slow by quantiles of the baseline instead of the reference.
    """
    roles, profile, verdict = run.roles, run.profile, run.settings.verdict
    asked = after.n_requests
    levels = [
        level for level in verdict.slow_levels if asked * (1 - level) >= verdict.least_slow * (1 - 1e-9)
    ]
    limits = slow_thresholds(profile, roles.ordinary, levels, verdict.least_slow)
    windows = profile_blocks(profile, np.where(roles.ordinary, roles.noise, -1), limits)
    problem = profile_blocks(profile, each_slot(roles.problem), limits)
    n = len(windows.seconds)
    known = replace(noise, windows=(n, noise.windows[1]))
    whole = whole_change(windows, problem, windows, known, verdict)
    return Sizes(whole, site_times, paths_of(windows, problem, hidden), run.settings, n), windows


def _quality(
    run: RobustRun, rows: tuple[QualityRow, ...], first: tuple[QualityRow, ...]
) -> tuple[QualityRow, ...]:
    """All rows on data quality, including one for each confounder that is present; severe rows first. Among
    equally severe rows, `first` comes before the confounders' rows, and these before `rows`."""
    more = [
        QualityRow(kind=one.kind, severe=one.severe, text=one.text)
        for one in run.confounded.explained.values()
    ]
    return tuple(sorted([*first, *more, *rows], key=lambda row: not row.severe))


def _lengths(windows: PeriodBlocks | None, before: PeriodBlocks, after: PeriodBlocks) -> tuple[int, int]:
    """Length of (reference, problem) as a multiple of a window of the baseline, rounded, at least 1; (1, 1)
    without windows."""
    if windows is None:
        return 1, 1
    usual = max(float(np.median(windows.seconds)), 1e-9)
    first, second = (max(1, round(float(side.seconds.sum()) / usual)) for side in (before, after))
    return first, second
