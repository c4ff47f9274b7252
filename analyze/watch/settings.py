"""Settings of the watch: alarm budget, baselines, comparisons, and the life of incidents."""

from __future__ import annotations

import re
from typing import Final

from pydantic import Field, field_validator

from schemas.config import Config, Expert
from schemas.windows import NS_PER_DAY, NS_PER_MINUTE, NS_PER_SECOND

_RATE: Final = re.compile(r"^(\d+(?:\.\d+)?) an? (hour|day|week|month|year)$")
_NS: Final = {
    "hour": 60 * NS_PER_MINUTE,
    "day": NS_PER_DAY,
    "week": 7 * NS_PER_DAY,
    "month": 30 * NS_PER_DAY,
    "year": 365 * NS_PER_DAY,
}


_LONGEST: Final = 100 * _NS["year"]
"""Longest time for which one false incident can be budgeted."""


class WatchSettings(Config):
    """Settings of the watch. Ticks are time slots of windows, or windows."""

    false_alarms: str = "1 a week"
    """Budget of false incidents: `1 a day`, `2 a month`. A tenth of the budget costs about one more tick of
    delay, and ordinary changes are remembered for longer.
    """
    slot_ns: int = Field(default=15 * NS_PER_SECOND, ge=0)
    """Length of a tick, into which windows are divided when they seal, to find faults shorter than three
    windows; it must divide the window. 1d, or any length of at least a window, keeps windows whole.
    """
    least_events: Expert[int] = Field(default=4, ge=2)
    """Mean number of events in a value of a series, at least half of it in each; rarer series combine ticks
    until they have as many.
    """
    candidates: Expert[float] = Field(default=20.0, ge=1)
    """Number of candidates, one comparison each, that may be raised per false incident of the budget."""
    level_share: Expert[float] = Field(default=0.25, gt=0, le=1)
    """Share of the budget that candidates of one length may use, as if all the time were compared in
    stretches of that length: a candidate is the most unusual of them.
    """
    baseline_ns: int = Field(default=7 * NS_PER_DAY, ge=60 * NS_PER_MINUTE)
    """Length of time whose quiet ticks are the baseline; seasons are learned from more."""
    baseline_ticks: Expert[int] = Field(default=4096, ge=1024)
    """Maximum number of baseline ticks, and at least half of them; from a longer time, runs of ticks at even
    distances are taken.
    """
    most_instances: int = Field(default=50, ge=0)
    """Maximum number of instances of a component that are watched one by one, those with most calls; 0: none.
    Needs windows that are divided into ticks.
    """
    first_values: Expert[int] = Field(default=4, ge=0, lt=16)
    """Number of first values of a new instance that are left out: its caches are cold."""
    warm_ticks: Expert[int] = Field(default=12, ge=8)
    """Number of values below which a series is still being learned and raises nothing."""
    guard_ticks: Expert[int] = Field(default=6, ge=0)
    """Number of ticks between the baseline and the tick under test."""
    season_days: int = Field(default=28, ge=0)
    """Number of days from which the usual course of a day, then of a week, is learned; 0: no seasons."""
    season_periods: Expert[float] = Field(default=2.5, ge=2)
    """Minimum number of days for a daily season, and of weeks for a weekly one: with 2.5, half of the hours
    have three values, so that one outlier does not shift their median.
    """
    edge_share: Expert[float] = Field(default=1 / 3, ge=0, lt=1)
    """Share of the usual requests below which a tick beside a gap is the edge of a recording."""
    slow_level: Expert[float] = Field(default=0.9, gt=0.5, lt=1)
    """Quantile of ordinary calls above which, by half an octave more, a call is slow."""
    whiten: Expert[bool] = True
    """Subtract from each value what the previous one predicts; without it, autocorrelation causes false
    alarms.
    """
    rho: Expert[float] = Field(default=0.3, ge=0, lt=1)
    """Assumed autocorrelation of a series with few values."""
    allowance: Expert[float] = Field(default=2.0, ge=0)
    """Size of a change, in standard deviations of daily medians, that is ordinary for the system."""
    floor_share: Expert[float] = Field(default=0.5, ge=0)
    """Size of a change that is always ordinary, as a share of the smallest change that a comparison reports.
    """
    ranks_from: Expert[int] = Field(default=300, ge=20)
    """Number of past values from which ranks measure how unusual a value is; with fewer, Student's t
    distribution does, and for failures the smaller of both.
    """
    kappa: Expert[float] = Field(default=0.25, gt=0, lt=1)
    """Exponent of e-values, which grow fastest where the mean of -ln p is 1/kappa: with 0.25, for a step of
    two standard deviations of whitened values (four where the autocorrelation is 0.6).
    """
    size_values: Expert[int] = Field(default=8, ge=2, le=16)
    """Maximum number of values that estimate the size of a change; after as many, most of a level change has
    been whitened away.
    """
    size_limit: Expert[float] = Field(default=4.0, gt=1)
    """Standard deviations at which a value is clipped when the size of a change is estimated: one outlier is
    no change.
    """
    always_compared: Expert[float] = Field(default=3.0, gt=0)
    """Size of a step, in standard deviations of its series, that is compared even if such changes were
    refuted before.
    """
    rising_share: Expert[float] = Field(default=0.5, gt=0, le=1)
    """Share of the threshold that a series must have reached since a change began to belong to that change.
    """
    tail_df: Expert[float] = Field(default=3.0, ge=1)
    """Maximum degrees of freedom of the t distribution of a series; fewer mean heavier tails."""
    cap_ticks: Expert[float] = Field(default=1.25, ge=1)
    """Number of ticks that are needed at least to reach the threshold; no single one may add more than its
    share. With 1.25 a clear tick needs a second one that chance gives once in fifty to a hundred; 3 asks for
    more where unusual ticks come in pairs.
    """
    reference_ticks: int = Field(default=30, ge=1)
    """Minimum number of quiet ticks before a change that it is compared with; as many as the change has,
    where there are twice as many.
    """
    history_windows: Expert[int] = Field(default=128, ge=8)
    """Maximum number of baseline windows, at even distances, that a comparison uses as history."""
    again_share: Expert[float] = Field(default=0.5, gt=0)
    """Share by which an undecided candidate must last longer before it is compared again."""
    recovery_ticks: int = Field(default=3, ge=1)
    """Minimum number of calm values that end an incident; they must also last as long as its detection took.
    """
    calm_deviations: Expert[float] = Field(default=2.5, gt=0)
    """Distance from the baseline, in standard deviations, up to which a value is calm."""
    calm_share: Expert[float] = Field(default=0.7, gt=0, le=1)
    """Share of an incident's series that must be calm for a tick to be calm."""
    reopen_ns: int = Field(default=60 * NS_PER_MINUTE, ge=0)
    """Time after an incident's end within which its return is the same incident."""
    accept_ns: int = Field(default=7 * NS_PER_DAY, ge=NS_PER_MINUTE)
    """Duration after which an incident's level becomes the new baseline."""
    worse_by: Expert[float] = Field(default=0.5, gt=0)
    """Relative increase of the time that an incident adds to the mean response time, above which it became
    worse.
    """
    critical_failing: float = Field(default=0.1, gt=0, le=1)
    """Increase of the share of failing requests from which an incident is critical."""
    critical_slower: float = Field(default=0.5, gt=0)
    """Relative increase of the mean response time from which an incident is critical."""
    suspend_load: float = Field(default=2.0, gt=1)
    """Factor over the highest number of arrivals ever seen above which nothing is raised: such a load is
    unknown.
    """
    silent_windows: float = Field(default=10.0, ge=3)
    """Number of window lengths without a sealed window after which the watch reports silence: an outage, or
    ingestion that stopped.
    """
    lease_ns: int = Field(default=60 * NS_PER_SECOND, ge=6 * NS_PER_SECOND)
    """Time without a sign of life after which another process takes over the watch of a lake in a bucket."""
    order_attempts: Expert[int] = Field(default=32, ge=1)
    """Maximum number of attempts at the commit of `incidents accept` or `mark`: a watch that works off a
    backlog commits every few hundredths of a second.
    """
    daily: bool = True
    """Compare each day with the same weekday of the weeks before it, to find small steps and slow drift."""
    weekly: bool = True
    """Compare each week with the week before it."""
    slow_false: Expert[float] = Field(default=0.05, gt=0, lt=1)
    """False discovery rate of the daily and weekly comparisons over all days (LORD)."""
    versions: str = "service.version"
    """Parameter that names the deployed version; empty: deployments are not detected."""
    gone_windows: Expert[int] = Field(default=3, ge=1)
    """Number of windows with a component but without its version, or instance, after which that is gone."""
    gone_visits: Expert[float] = Field(default=32.0, ge=0)
    """Number of visits that an absent instance would have had, at the rate of the other instances, before it
    is gone: one with a quarter of their visits is taken for gone once in three thousand times.
    """
    looks: Expert[int] = Field(default=5, ge=1)
    """Number of comparisons of a deployment: after 1, 2, 4 … windows."""

    @field_validator("false_alarms")
    @classmethod
    def _is_rate(cls, text: str) -> str:
        rate_ns(text)
        return text

    @property
    def ns_a_false_alarm(self) -> float:
        """Time for which one false incident is budgeted, ns."""
        return rate_ns(self.false_alarms)


def rate_ns(text: str) -> float:
    """Time per event, ns, of a rate such as `2 a week`. Raises ValueError."""
    match = _RATE.match(text.strip())
    if match is not None and float(match[1]) * _LONGEST < _NS[match[2]]:
        raise ValueError("write one in a hundred years at least")
    if match is None:
        raise ValueError("write a number and a time: '1 a week', '2 a month'")
    return _NS[match[2]] / float(match[1])
