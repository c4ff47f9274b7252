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
    """Settings of the watch. Ticks are slots of windows, or windows."""

    false_alarms: str = "1 a week"
    """Budget of false incidents: `1 a day`, `2 a month`. A smaller one costs delay: each tenth of it a
    tick or so, and remembers ordinary changes for longer."""
    slot_ns: int = Field(default=15 * NS_PER_SECOND, ge=0)
    """Windows are cut into ticks so long when they seal, which finds faults shorter than three windows; it
    must divide the window. 1d or any length that the window does not exceed takes windows as they are."""
    least_events: Expert[int] = Field(default=4, ge=2)
    """Events that a value of a series is made of on average, half as many at least; rarer series put ticks
    together until they have as many."""
    candidates: Expert[float] = Field(default=20.0, ge=1)
    """Candidates, each a comparison, that the fast lane may raise for one false incident of the budget."""
    level_share: Expert[float] = Field(default=0.25, gt=0, le=1)
    """Part of the budget that stretches of one length may use up, were all of the budget's time compared in
    stretches as long: a candidate is the oddest of them."""
    baseline_ns: int = Field(default=7 * NS_PER_DAY, ge=60 * NS_PER_MINUTE)
    """Time of which quiet ticks say what is usual; its course over day and week is learned of more."""
    baseline_ticks: Expert[int] = Field(default=4096, ge=1024)
    """Ticks of this time at most, half as many at least: where it has more, whole runs of them at even
    distances."""
    most_instances: int = Field(default=50, ge=0)
    """Instances of a component that are watched one by one beside its others: those with most calls. 0: none.
    They are looked for where windows are cut into ticks."""
    first_values: Expert[int] = Field(default=4, ge=0, lt=16)
    """Values of a new instance, those of so many times as a value is made of since it appeared, that are left
    out: its caches are cold."""
    warm_ticks: Expert[int] = Field(default=12, ge=8)
    """A series with fewer values is being learned and raises nothing."""
    guard_ticks: Expert[int] = Field(default=6, ge=0)
    """Ticks between what says what is usual and the one that is looked at."""
    season_days: int = Field(default=28, ge=0)
    """Days from which the usual course of a day, then of a week, is learned; 0: no season."""
    season_periods: Expert[float] = Field(default=2.5, ge=2)
    """Days of which the course of a day is learned at least, and weeks of that of a week: of half of its
    hours three values are known then, of which one odd one does not carry the median."""
    edge_share: Expert[float] = Field(default=1 / 3, ge=0, lt=1)
    """A tick beside a gap with fewer of the usual requests is the edge of a recording."""
    slow_level: Expert[float] = Field(default=0.9, gt=0.5, lt=1)
    """A call is slow over this quantile of ordinary ones, half an octave on."""
    whiten: Expert[bool] = True
    """Take out of a value what the one before it foretold; without it autocorrelation is false alarms."""
    rho: Expert[float] = Field(default=0.3, ge=0, lt=1)
    """Autocorrelation that is assumed of a series of which little is known."""
    allowance: Expert[float] = Field(default=2.0, ge=0)
    """A change up to so many standard deviations of day medians is what the system does by itself."""
    floor_share: Expert[float] = Field(default=0.5, ge=0)
    """At least this part of the smallest change that a comparison reports is allowed, too."""
    ranks_from: Expert[int] = Field(default=300, ge=20)
    """Past values from which ranks decide how unusual one is; until then Student's law, of failures the
    less of both."""
    kappa: Expert[float] = Field(default=0.25, gt=0, lt=1)
    """Exponent of e-values, which grow fastest where -ln p is one over this on average: for a step of two
    deviations of what is left when the foretold is taken out, as four are where autocorrelation is 0.6."""
    size_values: Expert[int] = Field(default=8, ge=2, le=16)
    """Values, at most, that say how large a change of a level is: then most of it is taken out."""
    size_limit: Expert[float] = Field(default=4.0, gt=1)
    """Deviations that a value counts as at most for that: an odd value is no change."""
    always_compared: Expert[float] = Field(default=3.0, gt=0)
    """A step by so many standard deviations of a series is compared whatever was refuted before."""
    rising_share: Expert[float] = Field(default=0.5, gt=0, le=1)
    """Series that came so far towards the threshold since a change began rose with it."""
    tail_df: Expert[float] = Field(default=3.0, ge=1)
    """Degrees of freedom of that law at most: few for heavy tails."""
    cap_ticks: Expert[float] = Field(default=1.25, ge=1)
    """No single tick may bring more than this part of the threshold: so many are needed at least. With 1.25 a
    clear one needs another that chance gives once in fifty to a hundred; 3 asks for more where odd ticks
    come in pairs."""
    reference_ticks: int = Field(default=30, ge=1)
    """Quiet ticks before the change, at least, that it is compared with; as many as have it where there are
    twice as many."""
    history_windows: Expert[int] = Field(default=128, ge=8)
    """Windows of the baseline's time, at most, that a comparison has as history, at even distances."""
    again_share: Expert[float] = Field(default=0.5, gt=0)
    """A candidate of which a comparison cannot tell is compared again when it has lasted longer by this
    part."""
    recovery_ticks: int = Field(default=3, ge=1)
    """Calm values of its series that end an incident, if they last as long as it took to be found."""
    calm_deviations: Expert[float] = Field(default=2.5, gt=0)
    """A value is calm that is no further off than so many usual deviations,"""
    calm_share: Expert[float] = Field(default=0.7, gt=0, le=1)
    """and a tick where so many of an incident's series are."""
    reopen_ns: int = Field(default=60 * NS_PER_MINUTE, ge=0)
    """Time within which a return is the same incident."""
    accept_ns: int = Field(default=7 * NS_PER_DAY, ge=NS_PER_MINUTE)
    """An incident that goes on so long is the new normal."""
    worse_by: Expert[float] = Field(default=0.5, gt=0)
    """An incident that grew by this part of its size became worse."""
    critical_failing: float = Field(default=0.1, gt=0, le=1)
    """Share of the requests that fail more from which an incident is critical,"""
    critical_slower: float = Field(default=0.5, gt=0)
    """and part of the mean response time that is added."""
    suspend_load: float = Field(default=2.0, gt=1)
    """More arrivals than this times the most that was seen is load beyond what is known: nothing is
    raised."""
    silent_windows: float = Field(default=10.0, ge=3)
    """Nothing sealed for so many windows' lengths is said and served: an outage, or ingestion that stands."""
    lease_ns: int = Field(default=60 * NS_PER_SECOND, ge=6 * NS_PER_SECOND)
    """A process whose lake is in a bucket, and that gave no sign of life for so long, is replaced by one that
    stands by."""
    order_attempts: Expert[int] = Field(default=32, ge=1)
    """Attempts at a commit by order of a person (`incidents accept`, `mark`), each upon the last commit: a
    watch that works off a backlog makes one every few hundredths of a second."""
    daily: bool = True
    """Each day is compared with the same weekday of the weeks before it: small steps and creep."""
    weekly: bool = True
    """Each week is compared with the one before it."""
    slow_false: Expert[float] = Field(default=0.05, gt=0, lt=1)
    """Share of false findings among those of the daily and weekly comparisons, over all days (LORD)."""
    versions: str = "service.version"
    """Parameter that names what is deployed; empty: deployments are not looked for."""
    gone_windows: Expert[int] = Field(default=3, ge=1)
    """Windows that have a component without a version, or an instance, of it, after which that is gone,"""
    gone_visits: Expert[float] = Field(default=32.0, ge=0)
    """an instance only if it would have had so many visits in them, were it visited as often as the others:
    one with a quarter of their visits is taken for gone once in three thousand times."""
    looks: Expert[int] = Field(default=5, ge=1)
    """Looks at a deployment: after 1, 2, 4 … windows."""

    @field_validator("false_alarms")
    @classmethod
    def _is_rate(cls, text: str) -> str:
        rate_ns(text)
        return text

    @property
    def ns_a_false_alarm(self) -> float:
        """Time for which one false incident is budgeted."""
        return rate_ns(self.false_alarms)


def rate_ns(text: str) -> float:
    """Nanoseconds per event of a rate such as `2 a week`. Raises ValueError."""
    match = _RATE.match(text.strip())
    if match is not None and float(match[1]) * _LONGEST < _NS[match[2]]:
        raise ValueError("write one in a hundred years at least")
    if match is None:
        raise ValueError("write a number and a time: '1 a week', '2 a month'")
    return _NS[match[2]] / float(match[1])
